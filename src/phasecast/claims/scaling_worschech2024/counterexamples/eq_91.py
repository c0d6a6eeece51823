import numpy as np
from scipy.special import erf

rng = np.random.default_rng(0)
z, w = rng.normal(size=(2, 10**6))  # z1 = z2 = z3 = z4 = z, variance one
average = np.mean((2 / np.pi) * np.exp(-(z**2)) * erf(z / np.sqrt(2)) ** 2)
A4, A0, A12 = 3, 3 + 2 + 2 + 1, [3 * 2 + 2 - 2 + 2, 3 * 2 - 2 - 2 + 2]
sine = A0 / np.sqrt(A12[0] * A12[1])
print(f"average {average:.4f}; printed: the arcsine of {sine:.2f}, which does not exist")
assert sine > 1
