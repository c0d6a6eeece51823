import numpy as np

from phasecast.online import OrderParameters, Spectrum, measured_length, plateau_length, solve

spectrum = Spectrum.power_law(8, 0.25)
start = OrderParameters.draw(4, 4, spectrum, inputs=7000, sigma=0.01, seed=0)
plateau = plateau_length(start, spectrum, 0.1, start=500, inputs=7000)
measured = measured_length(solve(start, spectrum, 0.1, np.arange(50, 6000, 25.0)), 500, plateau.reach)
print(f"measured {measured:.0f}, printed {plateau.printed:.0f}, ours {plateau.ours:.0f}")
assert plateau.printed < 0.9 * measured < plateau.ours
