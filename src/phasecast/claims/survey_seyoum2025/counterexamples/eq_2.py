from phasecast.posterior.exact_learning import learning_errors

n, lam = 400, 0.5  # a normal mean, β = 1
errors = learning_errors(1, n, 200)
nu = errors.variance.mean() / 2
printed = lam - 2 * nu
bayes, gibbs = n * errors.training.mean(), n * errors.gibbs_training.mean()
print(f"eq. (2): n E Bt = {printed:.2f}; of the Bayes loss {bayes:.2f}, of the posterior mean of the loss {gibbs:.2f}")
assert abs(bayes - printed) < 0.2 and abs(gibbs - printed) > 0.3
