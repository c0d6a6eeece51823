import numpy as np

from phasecast.online import OrderParameters, Spectrum, plateau

spectrum = Spectrum.power_law(10, 0.25)
state = OrderParameters.draw(4, 4, spectrum, inputs=7000, sigma=0.01, seed=0)
T1, T6 = state.moment(1, spectrum).T, state.moment(6, spectrum).T
at = plateau(T1)
right, printed = at.moment(T6)[0], at.R * np.diagonal(T6) / np.diagonal(T1)
print(f"R^(6) of the four teachers {right.round(1)}, printed {printed.round(1)}")
assert np.max(abs(printed / right - 1)) > 0.03
