import numpy as np

from phasecast.posterior.exact_learning import learning_errors

n = 400
errors = learning_errors(1, n, 100)
spread = np.var(errors.generalisation), np.var(errors.cross_validation)
print(f"Var Bg {spread[0]:.1e}, Var (CvL − S_n) {spread[1]:.1e}, Var CvL at least {0.5 / n:.1e}, that of S_n")
assert spread[1] < 1.2 * spread[0] < 0.1 * 0.5 / n
