import numpy as np

from phasecast.online import OrderParameters, Spectrum, plateau

spectrum = Spectrum.power_law(6, 1.0)
state = OrderParameters.draw(1, 2, spectrum, inputs=6, sigma=0.0, seed=3)
T1, T3 = state.moment(1, spectrum).T, state.moment(3, spectrum).T
at = plateau(T1)  # J* = Σ a B, so R^(l) = T^(l) a
print("right", at.moment(T3)[0], "printed", at.R * np.diagonal(T3) / np.diagonal(T1))
assert not np.allclose(at.moment(T3)[0], at.R * np.diagonal(T3) / np.diagonal(T1), rtol=0.02)
