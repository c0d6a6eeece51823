import numpy as np

from phasecast.online import Spectrum, general_curve, sgd_curve, sgd_stability_limit

spectrum = Spectrum.power_law(128, 1.0)  # N = L = 128, η = 1, σ² = 1 as in the figure
infinite = general_curve(spectrum, 1.0, 1.0, [1, 10, 100]).eps
finite = sgd_curve(spectrum, 128, 1.0, 1.0, [1, 10, 100]).eps
print(f"N → ∞ {infinite}; SGD with 128 inputs {finite}, diverging from {sgd_stability_limit(spectrum, 128).value:.4f}")
assert np.all(finite > 10 * infinite)
