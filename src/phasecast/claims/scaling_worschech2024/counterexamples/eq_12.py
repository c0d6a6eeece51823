import numpy as np

from phasecast.online import OrderParameters, Spectrum, measured_length, plateau_length, solve

spectrum = Spectrum.power_law(10, 0.25)
start = OrderParameters.draw(4, 4, spectrum, inputs=7000, sigma=0.01, seed=0)
plateau = plateau_length(start, spectrum, 0.1, start=300, inputs=7000)
measured = measured_length(solve(start, spectrum, 0.1, np.arange(0, 5000, 10.0)), 300, plateau.reach)
print(f"measured {measured:.0f}, printed {plateau.printed:.0f}, ours {plateau.ours:.0f}")
assert abs(plateau.ours - measured) < abs(plateau.printed - measured) / 2
