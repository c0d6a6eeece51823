import numpy as np

from phasecast.coefficients import jacobian_rank
from phasecast.models import modular_table, quadratic_network

rng = np.random.default_rng(0)
p, K = 5, 3
weights = {"W": rng.integers(1, 30, (2 * p, K)), "V": rng.integers(1, 30, (p, K))}
rank = jacobian_rank(quadratic_network, weights, modular_table(p)[0], exact=True, centred=True).rank
print(f"rank {rank}, printed K(3p-1) = {K * (3 * p - 1)}, ours K(3p-2) = {K * (3 * p - 2)}")
assert rank == K * (3 * p - 2)
