import numpy as np

rng = np.random.default_rng(0)
x, y = rng.uniform(size=(2, 10**7))
low, high = (np.mean(x**2 * y**4 < eps) for eps in (1e-10, 1e-6))
slope = np.log(high / low) / np.log(1e4)
print(f"V(ε) of x²y⁴ scales with {slope:.3f}: min(1/2, 1/4), not max")
assert abs(slope - 0.25) < 0.02
