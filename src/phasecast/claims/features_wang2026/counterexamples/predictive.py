import numpy as np

from phasecast.features import Network, target
from phasecast.features.simulation.margins import decoupled_margins
from phasecast.features.simulation.success import successes

network, one = Network("gelu", "pseudo-huber"), target("z**2")
margins = [decoupled_margins(network, one, 0.5, 7.0, [200], dimension=400, seed=seed)[0] for seed in range(4)]
won = np.isfinite(successes(network, one, 7.0, 0.5, dimension=150, seeds=8)).sum()
print(f"δ = 7: margin {np.mean(margins):.3f}, no outlier after 200 steps, but {won} of 8 runs succeed at d = 150")
assert np.mean(margins) > 0 and won >= 4
