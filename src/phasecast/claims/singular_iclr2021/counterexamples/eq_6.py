import numpy as np

w = np.random.default_rng(0).uniform(-1, 1, (10**6, 3))
K = w[:, 0] ** 2 + 5 * w[:, 1] ** 2  # regular in two parameters of three: λ = 1
right = 2 * np.log(np.mean(K < 0.02) / np.mean(K < 0.01)) / np.log(2)
print(f"2 log(V(2t)/V(t))/log 2 = {right:.2f} = 2λ")
assert abs(right - 2) < 0.1
