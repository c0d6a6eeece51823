import numpy as np

moments = []
for n in (10**3, 10**5):  # quantiles of the Cauchy density 1/(π(1 + x²)), which is positive and continuous
    x = np.tan(np.pi * ((np.arange(n) + 0.5) / n - 0.5))
    moments.append(np.mean(x**2))
print(f"h = wx: ∫ h² q = w² ∫ x² q, which is {moments[0]:.0f}, {moments[1]:.0f}, … w² on finer and finer grids")
assert moments[1] > 50 * moments[0]
