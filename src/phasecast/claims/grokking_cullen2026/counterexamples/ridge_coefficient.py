import numpy as np

p, K = 3, 9
a, b = np.divmod(np.arange(p * p), p)
W = np.random.default_rng(0).normal(size=(2 * p, K))
F = (W[a] + W[p + b]) ** 2
rank = np.linalg.matrix_rank(F - F.mean(0))
print(f"rank of the centred features {rank}, printed min(l, K) = {min(p * p, K)}")
assert rank == p * p - 1
