from phasecast.online import Spectrum, integral_curve, small_rate_curve

L, Nl, lr, sigma = 256, 50, 0.05, 0.01
spectrum = Spectrum.power_law(L, 1.0)
exact = small_rate_curve(spectrum, lr, sigma, [100], Nl).eps[0]
frozen = (1 + sigma**2) / 2 * spectrum.largest / L * (1 / Nl - 1 / L)
printed = frozen + integral_curve(L, 1.0, lr, sigma, [100]).value[0]
ours = integral_curve(L, 1.0, lr, sigma, [100], Nl).value[0]
print(f"exact {exact:.6f}, printed {printed:.6f}, ours {ours:.6f}")
assert abs(ours - exact) < abs(printed - exact) / 10
