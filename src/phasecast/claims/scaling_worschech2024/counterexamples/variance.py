import numpy as np

from phasecast.online import Spectrum

lam = Spectrum.power_law(64, 1.0).eigenvalues
rng = np.random.default_rng(0)
B = rng.normal(size=(2, 4000, 64))
T2 = (B[0] * lam**2 * B[1]).mean(axis=1)
print(f"Var T^(2) = {T2.var():.0f}, printed {np.sum(lam**2) / 64**2:.2g}, with λ⁴ {np.sum(lam**4) / 64**2:.0f}")
assert T2.var() > 100 * np.sum(lam**2) / 64**2
