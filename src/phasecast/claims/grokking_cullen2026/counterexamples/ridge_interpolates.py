import numpy as np

p, K, eta = 5, 20, 1e-9
a, b = np.divmod(np.arange(p * p), p)
W = np.random.default_rng(0).normal(size=(2 * p, K))
F, Y = (W[a] + W[p + b]) ** 2, np.eye(p)[(a + b) % p]
F, Y = F - F.mean(0), Y - Y.mean(0)
V = np.linalg.solve(F.T @ F + eta * np.eye(K), F.T @ Y)
print(f"K < p² - 1 leaves {np.linalg.norm(Y - F @ V) / np.linalg.norm(Y):.2f} of the targets, assumed 0")
assert np.linalg.norm(Y - F @ V) > 0.01
