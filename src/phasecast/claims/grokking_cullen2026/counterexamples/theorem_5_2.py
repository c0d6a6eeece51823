import numpy as np

from phasecast.coefficients import feature_span
from phasecast.models import modular_table

p, K = 3, 12
X = modular_table(p)[0]
l, F = feature_span(X, np.square), (X @ np.random.default_rng(0).normal(size=(2 * p, K))) ** 2
rank = np.linalg.matrix_rank(F - F.mean(axis=0))
print(f"printed λ = {p * min(l, K) / 2}; of the centred loss, which is quadratic in V, {p * rank / 2}")
assert rank == min(l, K) - 1
