import phasecast as pc
from phasecast.posterior.zoo.two_layer import network_data, polygon_network, two_layer

truth = polygon_network(3, 5)
model = two_layer(5, 2, prior_sd=50.0, truth=truth)
data = network_data(truth, 300, seed=0, noise=0.0)
estimate = pc.posterior.rlct(model, data, [333.0, 467.0, 667.0], draws=300, warmup=300)
print(estimate)
assert estimate.estimate - 5 * estimate.error > 3  # (3·3 + 1)/2 = 5, not 0.526
