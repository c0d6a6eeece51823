import numpy as np

from phasecast.coefficients.small_problems.temperature_quadrature import scaled_losses
from phasecast.models import LANDSCAPES

nbetas = np.logspace(2, 6, 5)
values, _ = scaled_losses(LANDSCAPES["x²y⁴"].problem(), radius=0.5, nbetas=nbetas, nodes=512)
intercept = np.polyfit(1 / np.log(nbetas), values, 1)[1]
print(f"λ is 0.25, the value at the largest nβ {values[-1]:.3f}, the intercept {intercept:.3f}")
assert abs(intercept - 0.25) > 5 * abs(values[-1] - 0.25)
