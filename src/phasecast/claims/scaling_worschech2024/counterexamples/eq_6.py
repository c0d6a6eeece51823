import numpy as np

from phasecast.online import Spectrum, linear_curve

lam = Spectrum.power_law(8, 1.0).eigenvalues
eta = 1.5
printed = np.linalg.eigvals(np.diag(lam) - eta * np.outer(lam, lam) / 8).real.min()
curve = linear_curve(8, 1.0, eta, 1.0, [1, 10, 100])
print(f"slowest printed rate {printed:.3f}: growth; but ε falls: {curve.eps}")
assert printed < 0 and curve.eps[2] < curve.eps[0]
