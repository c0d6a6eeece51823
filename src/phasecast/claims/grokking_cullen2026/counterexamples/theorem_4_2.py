import numpy as np

from phasecast.coefficients import jacobian_rank
from phasecast.models import quadratic_network

rng = np.random.default_rng(0)
d, p, K = 4, 2, 5
weights = {"W": rng.integers(1, 30, (d, K)), "V": rng.integers(1, 30, (p, K))}
rank = jacobian_rank(quadratic_network, weights, rng.integers(-9, 10, (30, d)), exact=True).rank
print(f"rank {rank}, printed K(d+p-1) = {K * (d + p - 1)}")
assert rank == 20
