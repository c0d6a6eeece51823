import numpy as np

from phasecast.grokking.theory.gradient_signal import climb

p = 23
a, b = np.divmod(np.random.default_rng(1).permutation(p * p)[:211], p)
ascent = climb(np.stack([a, b], 1), (a + b) % p, p, starts=24)
print(f"the best frequency of a maximum has {np.median(ascent.shares):.0%} of its power (median)")
assert np.median(ascent.shares) < 0.5
