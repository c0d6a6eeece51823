import numpy as np

from phasecast.online import OrderParameters, Spectrum, solve

spectrum, grid = Spectrum.power_law(128, 0.5), np.geomspace(2500, 10_000, 20)
start = OrderParameters.draw(6, 6, spectrum, inputs=128, sigma=1e-6, seed=0)
eps = solve(start, spectrum, 0.05, grid).eps
slope = np.polyfit(np.log(grid), np.log(eps), 1)[0]
print(f"slope {slope:.2f}, −β/(1+β) = {-1 / 3:.2f}")
assert slope < -0.5
