import numpy as np

rng = np.random.default_rng(0)  # one input, one output, three units at w = 0 and v = 1; the true function is 0
w, v = rng.uniform(-0.5, 0.5, (3, 10**6)), rng.uniform(0.5, 1.5, (3, 10**6))
loss = np.sum(v * w**2, axis=0) ** 2
low, high = (np.mean(loss < eps) for eps in (1e-5, 1e-3))
slope = np.log(high / low) / np.log(100)
print(f"the squares w² do not span, and λ = {slope:.2f} is above the generic 1/2")
assert slope > 0.65
