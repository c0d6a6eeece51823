from phasecast.features import Network, hessian_spectrum, initial_laws, outlier_set, target

(law,) = initial_laws(Network("gelu", "square"), target("tanh(z)**2"))
((low, high),) = outlier_set(law)
print(f"outliers for δ from {low:.3f} to {high:.3f}")
for delta in (2, 8, 30):
    print(delta, hessian_spectrum(law, delta).outliers)
assert hessian_spectrum(law, 8.0).outliers and not hessian_spectrum(law, 30.0).outliers
