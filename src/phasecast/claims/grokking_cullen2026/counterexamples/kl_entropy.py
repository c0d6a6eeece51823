import numpy as np

x = np.linspace(-12, 12, 24001)
q = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
entropy = -np.sum(q * np.log(q)) * (x[1] - x[0])
loss = entropy  # p = q, so L = -E[log p] = H(q), and K = 0
print(f"K is 0, H + L is {entropy + loss:.3f}, L - H is {loss - entropy:.3f}")
assert entropy + loss > 2.8
