from phasecast.posterior.exact_learning import learning_errors

n, lam = 400, 0.5  # a normal mean, β = 1
found = learning_errors(1, n, 200)
nu = found.variance.mean() / 2
said = lam - 2 * nu
bayes, gibbs = n * found.training.mean(), n * found.gibbs_training.mean()
print(f"eq. (2): n E Bt = {said:.2f}; of the Bayes loss {bayes:.2f}, of the posterior mean of the loss {gibbs:.2f}")
assert abs(bayes - said) < 0.2 and abs(gibbs - said) > 0.3
