import numpy as np

from phasecast.online import Spectrum, integral_curve, small_rate_curve

spectrum, lr, alpha = Spectrum.power_law(128, 0.5), 0.01, 100.0
exact = small_rate_curve(spectrum, lr, 1.0, [alpha]).eps[0]
gap = exact - float(integral_curve(128, 0.5, lr, 1.0, [alpha]).value[0])
bound = 2 * spectrum.largest / (2 * 128) * np.exp(-2 * lr * spectrum.largest * alpha)
print(f"sum less integral {gap:.2e}, printed bound {bound:.2e}")
assert gap > 2 * bound
