import numpy as np

from phasecast.online import OrderParameters, Spectrum, solve

ten = Spectrum.power_law(10, 1.0)
print(f"moments of 10 modes: condition {np.linalg.cond(np.vander(ten.eigenvalues)):.0e}")
many = Spectrum.power_law(512, 1.0)
start = OrderParameters.draw(2, 2, many, inputs=512, sigma=0.1, seed=0)
curve = solve(start, many, lr=0.1, alphas=[1, 30])
print(f"512 modes in float64: {curve.eps}")
assert curve.status == "ok"
