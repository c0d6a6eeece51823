import numpy as np

from phasecast.online import Spectrum, integral_curve, small_rate_curve

spectrum = Spectrum.power_law(128, 0.5)
lr, alpha = 1 / (2 * spectrum.largest), np.array([1.0, 5.0, 10.0])
exact = small_rate_curve(spectrum, lr, 1.0, alpha).eps
ends = [k**-1.5 * np.exp(-alpha * k**-1.5) for k in (1.0, 128.0)]
bound = integral_curve(128, 0.5, lr, 1.0, alpha).value + 2 * spectrum.largest / 256 * sum(ends) / 2
print(f"sum {exact}, integral with zeroth order {bound}")
assert np.any(exact > bound)
