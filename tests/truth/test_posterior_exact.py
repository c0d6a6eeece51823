"""Tempered posteriors against quadrature and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.posterior import deep_linear, linear, linear_data, mixture, monomial, tempered
from phasecast.posterior.exact_evidence import exact
from phasecast.posterior.zoo.two_layer import two_layer
from phasecast.sampling.traces import mcse

pytestmark = [pytest.mark.bare, pytest.mark.timeout(1200)]
BETAS = np.array([0.1, 0.2, 0.4])


def noise(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=n)


@pytest.mark.parametrize("powers", [(1,), (2,), (3,), (1, 1), (1, 2)])
def test_the_free_energy_has_the_energy_as_slope_and_the_variance_as_curvature(powers):
    step = 1e-3
    beta = np.array([0.1448 - step, 0.1448, 0.1448 + step])
    found = exact(monomial(powers), noise(1000), beta)
    assert np.all(found.error < 1e-6 * np.abs(found.free_energy))
    assert (found.free_energy[2] - found.free_energy[0]) / (2 * step) == pytest.approx(found.energy[1], rel=1e-3)
    assert (found.energy[0] - found.energy[2]) / (2 * step) == pytest.approx(found.variance[1], rel=1e-3)


def test_linear_regression_has_its_closed_form_free_energy():
    data = {"x": np.ones((40, 1)), "y": 1 + noise(40)[:, None]}
    precision, pull = 1 + 0.3 * 40, 0.3 * data["y"].sum()
    closed = (
        0.3 * (np.sum(data["y"] ** 2) / 2 + 20 * np.log(2 * np.pi)) + np.log(precision) / 2 - pull**2 / precision / 2
    )
    assert exact(linear(1), data, [0.3]).free_energy[0] == pytest.approx(closed, abs=1e-8)


@pytest.mark.parametrize(("powers", "coefficient"), [((1,), 1 / 2), ((2,), 1 / 4)])
def test_the_loss_above_the_truth_is_low_by_lambda_beta(powers, coefficient):
    """β(E[nL] − nL(w₀)) is λ(1 − β) on average over data sets: w₀ is not the best fit."""
    beta, found = 1 / np.log(1000), []
    for seed in range(80):
        y = noise(1000, seed)
        at_truth = np.sum(y**2) / 2 + 500 * np.log(2 * np.pi)
        found.append(beta * (exact(monomial(powers), y, [beta]).energy[0] - at_truth))
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert np.mean(found) == pytest.approx(coefficient * (1 - beta), abs=3 * error + 0.01 * coefficient)


def apart(tree, reference) -> tuple[np.ndarray, np.ndarray]:
    """E and V of nL in a tree against exact ones, in standard errors."""
    losses = tree["sample_stats/nL"].values[0]
    squares = (losses - losses.mean(axis=(1, 2), keepdims=True)) ** 2
    energy = [(x.mean() - e) / mcse(x.T) for x, e in zip(losses, reference.energy, strict=True)]
    variance = [(s.mean() - v) / mcse(s.T) for s, v in zip(squares, reference.variance, strict=True)]
    return np.array(energy), np.array(variance)


def agree(tree, reference) -> bool:
    return bool(np.all(np.abs(apart(tree, reference)) < 4.5))


def test_gibbs_on_a_product_of_two_numbers_has_the_moments_of_its_target_and_not_those_of_another():
    data = {"x": np.ones((100, 1)), "y": noise(100)[:, None]}
    model = deep_linear((1, 1, 1))
    tree = tempered(model, data, BETAS, draws=3000, warmup=100)
    assert agree(tree, exact(model, data, BETAS))
    assert not agree(tree, exact(model, data, 1.15 * BETAS))


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_collapsed_network_has_the_moments_of_its_target_and_not_those_of_another(activation):
    x = np.linspace(-1, 1, 60)[:, None]
    data = {"x": x, "y": np.tanh(2 * x[:, 0]) + noise(60)}
    model = two_layer(1, 1, activation, bias=False, prior_sd=3.0)
    tree = tempered(model, data, BETAS, draws=4000, warmup=200)
    assert agree(tree, exact(model, data, BETAS))
    assert not agree(tree, exact(model, data, 1.15 * BETAS))


@pytest.mark.slow
@pytest.mark.parametrize("swap", [True, False])
def test_nuts_on_a_quartic_has_the_moments_of_its_target_and_not_those_of_another(swap):
    model, data = monomial((2,)), 0.3 + noise(200)
    tree = tempered(model, data, BETAS, sampler="nuts", draws=4000, warmup=400, swap=swap)
    assert agree(tree, exact(model, data, BETAS))
    assert not agree(tree, exact(model, data, 1.15 * BETAS))
    assert np.mean(tree["sample_stats/divergent"]) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_collapsed_network_and_nuts_tell_the_same(activation):
    """Two units with biases: seven parameters, too many for quadrature."""
    x = np.linspace(-1, 1, 80)[:, None]
    data = {"x": x, "y": np.abs(x[:, 0]) + noise(80)}
    model = two_layer(2, 1, activation, prior_sd=1.0)
    trees = [tempered(model, data, BETAS, sampler=kind, draws=4000, warmup=500) for kind in ("gibbs", "nuts")]
    for one, other in zip(*(np.asarray(tree["sample_stats/nL"])[0] for tree in trees), strict=True):
        assert abs(one.mean() - other.mean()) < 4 * np.hypot(mcse(one.T), mcse(other.T))


@pytest.mark.slow
def test_gibbs_on_linear_regression_draws_independently_from_the_exact_posterior():
    data = linear_data([[[1.0, -0.5]]], 50, seed=3)
    tree = tempered(linear(2), data, [1.0], draws=4000, warmup=0, thin=1)
    weights = np.asarray(tree["posterior/0"]).reshape(-1, 2)
    precision = np.eye(2) + data["x"].T @ data["x"]
    mean = np.linalg.solve(precision, data["x"].T @ data["y"][:, 0])
    white = (weights - mean) @ np.linalg.cholesky(precision)
    assert np.all(np.abs(white.mean(axis=0)) < 4.5 / np.sqrt(len(white)))
    assert np.cov(white.T) == pytest.approx(np.eye(2), abs=4.5 * np.sqrt(2 / len(white)))


def test_the_pointwise_log_likelihood_sums_to_the_loss_and_new_data_are_not_compiled_again():
    from phasecast.sampling.tempering import compiled_walk

    def go(seed):
        data = linear_data([[[1.0, -0.5]]], 50, seed=seed)
        return tempered(linear(2), data, [0.5, 1.0], draws=100, warmup=0, thin=10, pointwise=True, seed=seed)

    tree, before = go(3), compiled_walk()._cache_size()
    go(4)
    assert compiled_walk()._cache_size() == before
    pointwise = tree["log_likelihood/y"]
    assert pointwise.dims == ("dataset", "chain", "draw", "observation")
    kept = tree["sample_stats/nL"].sel(beta=1.0, draw=pointwise["draw"])
    np.testing.assert_allclose(-pointwise.sum("observation"), kept, rtol=1e-12)
    with pytest.raises(BadInput, match="not sampled"):
        tempered(linear(2), linear_data([[[1.0, -0.5]]], 50, seed=3), [0.5], pointwise=True)


def test_sufficient_statistics_are_sufficient():
    import jax

    from phasecast.core.precision import float64

    with float64():
        for model, data in (
            (deep_linear((2, 3, 2)), linear_data([np.ones((2, 2))], 30, seed=0)),
            (monomial((1, 2)), 2 + noise(30)),
        ):
            params = model.init(jax.random.key(1))
            pointwise = -float(model.log_likelihood(params, data).sum())
            assert float(model.total_loss(params, model.summary(data))) == pytest.approx(pointwise, rel=1e-12)


def test_the_likelihood_of_a_mixture_is_the_sum_of_its_parts():
    from phasecast.core.precision import float64

    y, means, weights = noise(7)[:, None], np.array([[-1.0], [2.0]]), np.array([0.3, 0.7])
    density = np.exp(-((y - means[:, 0]) ** 2) / 2) @ weights / np.sqrt(2 * np.pi)
    with float64():
        found = mixture(2, 1).log_likelihood({"logits": np.log(weights[:1] / weights[1:]), "means": means}, y)
    np.testing.assert_allclose(found, np.log(density), rtol=1e-12)


def test_a_mixture_has_a_prior_that_is_uniform_on_its_weights():
    """∫ over the logit of uniform × Jacobian is one."""
    import jax
    import jax.numpy as jnp

    from phasecast.core.precision import float64

    with float64():
        model = mixture(2, 1, prior_sd=2.0)
        logit = jnp.linspace(-40, 40, 4001)
        at_zero = model.log_prior({"logits": jnp.zeros(1), "means": jnp.zeros((2, 1))}) - jnp.log(0.25)
        density = jax.vmap(lambda t: model.log_prior({"logits": t[None], "means": jnp.zeros((2, 1))}))(logit)
        total = float(jnp.exp(density - at_zero).sum() * (logit[1] - logit[0]))
    assert total == pytest.approx(1.0, abs=1e-9)
