import numpy as np

from phasecast.grokking.theory.gradient_signal import ridge_signal

p, n, K = 11, 48, 64
a, b = np.divmod(np.random.default_rng(1).permutation(p * p)[:n], p)
W = np.random.default_rng(0).normal(size=(2 * p, K)) / np.sqrt(2 * p)
cosine = ridge_signal(W, np.stack([a, b], 1), (a + b) % p, p, 1e-4).cosine
print(f"the data are fitted, and the cosine of G_F with the printed direction is {cosine:.2f}")
assert cosine < 0.9
