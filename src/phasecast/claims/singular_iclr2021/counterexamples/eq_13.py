import numpy as np

x = np.linspace(-1, 1, 21)
y = x + np.random.default_rng(0).normal(size=(100_000, 21))  # the truth f = x, one output
score = np.mean((y - x) ** 2 * x**2)  # d/dw log p(y|x, w) of f = wx is (y − f) x
printed = np.mean(x**2) / (2 ** (-1) * np.pi ** (-1 / 2))
print(f"Fisher information {score:.3f}, E[x²] = {np.mean(x**2):.3f}, printed {printed:.3f}")
assert abs(score - np.mean(x**2)) < 0.01 < abs(score - printed)
