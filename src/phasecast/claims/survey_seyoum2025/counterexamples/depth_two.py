import numpy as np

from phasecast.coefficients import jacobian_rank

rng = np.random.default_rng(0)
d, m = 3, 5
weights = {"A": rng.integers(1, 30, (m, d)), "B": rng.integers(1, 30, (1, m))}
rank = jacobian_rank(lambda w, x: x @ w["A"].T @ w["B"].T, weights, np.eye(d), exact=True).rank
print(f"only {d} numbers come out, so twice λ is {rank}; printed {d + (m - 1) / 2}")
assert rank == d
