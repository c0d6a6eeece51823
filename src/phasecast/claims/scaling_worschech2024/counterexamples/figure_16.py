import numpy as np

from phasecast.online import feature_floor

trained = np.array([10, 30, 100])
floor = [float(feature_floor(1024, 0.3, 0.01, int(n)).value) for n in trained]
slopes = np.diff(np.log(floor)) / np.diff(np.log(trained))
print(f"N = 1024, β = 0.3: local slopes {slopes.round(2)}, not −0.3")
assert np.all(slopes < -0.38)
