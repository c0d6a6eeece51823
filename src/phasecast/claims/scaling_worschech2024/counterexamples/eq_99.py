import numpy as np

from phasecast.online import plateau

M, T, D = 3, 1.1, 0.6  # D is the sum of the off-diagonal entries of a row
gram = np.full((M, M), D / (M - 1)) + np.eye(M) * (T - D / (M - 1))
right = plateau(gram).eps
printed = right + (M - 1) / np.pi * (np.arcsin(D / (T + 1)) - np.arcsin(D / (M - 1) / (T + 1)))
print(f"height {right:.5f}, printed {printed:.5f}")
assert printed > 5 * right
