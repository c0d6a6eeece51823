import numpy as np

rng = np.random.default_rng(0)
K, J, B = 2, np.ones((2, 1)), np.ones((1, 1))  # linear units, one input, M = 1: x = y = ξ
xi = rng.normal(size=10**6)
step = (1 / K) * (xi - K * xi / K) * xi  # (√M/K) g'(x)(ζ − σ) y with ζ = ξ, σ = (1/K)Σx
printed = np.mean(xi * xi) - K * np.mean(xi * xi)  # Σ_m I3 − Σ_j I3 without 1/K and M/K
print(f"mean step {step.mean():.3f}, printed {printed:.3f}")
assert abs(step.mean()) < 0.01 and printed < -0.9
