import numpy as np

rng = np.random.default_rng(0)
n, B, lr = 50, 10, 0.1
x = rng.standard_normal(n)
x *= np.sqrt(2) / x.std()  # L = mean (w − x)²/2 has C = 2, so that Σ = C/2 = 1
w = np.full(4000, x.mean())  # chains of SGD; where they sample exp(−L/T), T is their variance
for _ in range(100):
    w -= lr * (w - rng.permuted(np.tile(x, (len(w), 1)), axis=1)[:, :B].mean(axis=1))
print(f"T is {w.var():.4f}; printed {lr * (n - B) / (2 * B):.4f}, corrected {lr * (n - B) / (B * (n - 1)):.4f}")
assert abs(w.var() / (lr * (n - B) / (B * (n - 1))) - 1) < 0.15
