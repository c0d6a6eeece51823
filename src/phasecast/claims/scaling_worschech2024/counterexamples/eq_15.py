import numpy as np

from phasecast.online import Spectrum, escape_time

spectrum = Spectrum.power_law(10, 0.25)  # the setting of Figure 4: M = 4, η = 0.1
tau = float(escape_time(np.eye(4), spectrum.moment(2) * np.eye(4), lr=0.1).value)
print(f"eq. 15 gives {tau:.1f}, the paper uses 239 for it: ε is quadratic in r and has {tau / 2:.1f}")
assert abs(tau / 2 - 239) < 0.5
