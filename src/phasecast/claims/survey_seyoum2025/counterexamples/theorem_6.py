import numpy as np

from phasecast.claims.survey_seyoum2025.errors import hinge_evidence
from phasecast.coefficients import deep_linear

n = np.array([1e11, 1e12])
slope = -np.diff(hinge_evidence(3, n))[0] / np.log(10)
printed = deep_linear((2, 3, 1), rank=0).value
print(f"three units on one hinge: log Z falls with {slope:.3f} log n, the sum rule says {printed}")
assert slope > printed + 0.3
