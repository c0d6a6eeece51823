import numpy as np

from phasecast.online import Spectrum, decay_rates

spectrum, M = Spectrum(np.ones(1)), 4
rates = decay_rates(M, spectrum, 1.0, order=1).real
a = 2 / (np.sqrt(3) * np.pi * M)
print(f"rates over a: {rates / a}; printed 2 ± √3")
assert min(abs(rates / a - 2 - 3 * np.sqrt(3))) < 1e-6 < min(abs(rates / a - 2 - np.sqrt(3)))
