import numpy as np

from phasecast.posterior.singularity import flat_minimum_entropy

hessian = np.diag([4.0, 10.0, 0.0])  # K = 2u² + 5v², and a flat direction
c = np.linalg.eigvalsh(hessian) / 2
with np.errstate(divide="ignore"):
    printed = 0.5 * np.log(1e-3) + 0.5 * np.sum(np.log(c))
print(f"sum over d directions {printed}, over the d' curved ones {flat_minimum_entropy(hessian, 1e-3):.3f}")
assert np.isneginf(printed)
