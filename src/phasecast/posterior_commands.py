"""``phasecast rlct``: the learning coefficient of a Bayesian model from its tempered posteriors."""
