import numpy as np

x, w = np.random.default_rng(0).normal(size=100), np.linspace(-1, 1, 401)
r = np.outer(x, w) - w**2 / 2  # log p(x|w)/q(x) of N(w, 1) against N(0, 1)
posterior = np.exp(r.sum(axis=0)) / np.sum(np.exp(r.sum(axis=0)))
gibbs, bayes = -np.mean(r @ posterior), -np.mean(np.log(np.exp(r) @ posterior))
v = np.sum(r**2 @ posterior - (r @ posterior) ** 2)
cv = np.mean(np.log(np.exp(-r) @ posterior))
print(f"n(CV − WAIC) is {100 * cv - 100 * gibbs + v:.2f} as printed, {100 * cv - 100 * bayes - v:.4f} with Bayes and +")
assert abs(100 * cv - 100 * gibbs + v) > 1 and abs(100 * cv - 100 * bayes - v) < 0.01
