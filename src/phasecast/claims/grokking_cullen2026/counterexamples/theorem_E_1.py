import numpy as np

rng = np.random.default_rng(0)
X = np.array([[1.0], [2.0]])
sigma = lambda t: t + np.maximum(t - 1, 0) ** 2  # C¹ bijection of the line, derivative ≥ 1
ranks = np.linalg.matrix_rank(sigma(X @ rng.normal(size=(1000, 1, 2))))
print(f"l = {np.linalg.matrix_rank(sigma(X @ rng.normal(size=(1, 99))))}, K = 2, rank 1 in {np.mean(ranks == 1):.0%}")
assert 0.4 < np.mean(ranks == 1) < 0.6 and ranks.max() == 2
