import numpy as np

from phasecast.grokking import grokking_severity, quadratic, task, train
from phasecast.grokking.analysis.decay_fits import decay_law

table, rates = task("addition", 23), np.geomspace(2e-3, 2e-2, 6)
curves = [p.curves for p in train(table, quadratic(table, 128), steps=4000, lr=rates, seeds=[0] * 6)]
step, a, b = (np.concatenate([c[k] for c in curves]) for k in ("step", "train_accuracy", "validation_accuracy"))
law = decay_law(rates, [grokking_severity(step, a[:, i], b[:, i]).value for i in range(6)])
print(f"{law.law}: AICc {law.estimate:.0f} below the exponential's; exponent {-law.constants['power law'][1]:.2f}")
assert law.law == "power law"
