"""Bayesian last layers against other ways to compute them: linear algebra by hand, quadrature, importance sampling."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.core.results import Result, Status
from phasecast.posterior.last_layers import feature_networks as nets
from phasecast.posterior.last_layers import generalisation as gen
from phasecast.posterior.last_layers import last_layer_posteriors as last

pytestmark = pytest.mark.bare


def data(n=12, seed=0, activation="identity"):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(3, n)).astype(np.float32)
    A, B = rng.normal(size=(2, 3, 3)).astype(np.float32)
    y = np.asarray(nets.head(A, B, activation, x)) + rng.normal(size=(3, n)).astype(np.float32)
    return x, y, A, B


def log_joint(B, z, y):
    """log p(y, B | z) for B of shape (…, 3, 3), without the constants of y."""
    misfit = np.sum((y - B @ z) ** 2, axis=(-2, -1))
    return -misfit / 2 - np.sum(B**2, axis=(-2, -1)) / 2 - 9 / 2 * np.log(2 * np.pi)


def test_the_posterior_of_the_last_layer_is_ridge_regression_and_predicts_with_its_spread():
    x, y, A, _ = data()
    z = A @ x
    found = last.last_layer(z, y)
    stacked = np.concatenate([z, np.eye(3)], axis=1)  # the prior as three more observations of zero
    padded = np.concatenate([y, np.zeros((3, 3))], axis=1)
    ridge = np.linalg.lstsq(stacked.T, padded.T, rcond=None)[0]
    np.testing.assert_allclose(found.mean, ridge, atol=1e-4)
    draws = ridge.T + np.random.default_rng(1).normal(size=(200_000, 3, 3)) @ np.linalg.cholesky(found.covariance).T
    new = np.array([[0.3], [-1.0], [0.5]])
    _, variance = found.predict(new)
    assert 1 + np.var(draws @ new, axis=0)[0] == pytest.approx(float(variance[0]), rel=0.02)


@pytest.mark.parametrize("activation", ["identity", "relu"])
def test_the_density_of_A_integrates_B_out(activation):
    """Up to a constant, against the identity log p(A) p(y|A) = log p(A) + log joint(B) − log posterior(B) at any B."""
    x, y, _, B = data(activation=activation)
    mask = np.ones(12, dtype=np.float32)
    density = last.log_posterior_of_A(activation, last.Sample(x, y, mask))
    differences = []
    for seed in range(4):
        A = np.random.default_rng(seed).normal(size=(3, 3)).astype(np.float32)
        z = np.asarray(nets.activate(activation, A @ x))
        precision = np.eye(3) + z @ z.T
        mean = np.linalg.solve(precision, z @ y.T).T
        away = B - mean
        posterior = (
            -np.trace(away @ precision @ away.T) / 2
            + 3 / 2 * np.linalg.slogdet(precision)[1]
            - 9 / 2 * np.log(2 * np.pi)
        )
        differences.append(float(density(A)) - (-np.sum(A**2) / 2 + log_joint(B, z, y) - posterior))
    assert np.ptp(differences) < 1e-3


def test_masked_rows_are_not_there():
    x, y, A, _ = data(n=10)
    junk = np.full((3, 5), 7.0, dtype=np.float32)
    mask = np.r_[np.ones(10), np.zeros(5)].astype(np.float32)
    wide_x, wide_y = np.concatenate([x, junk], axis=1), np.concatenate([y, junk], axis=1)
    for activation in ("identity", "relu"):
        short = jax.jit(last.log_posterior_of_A(activation, last.Sample(x, y, np.ones(10, dtype=np.float32))))(A)
        padded = jax.jit(last.log_posterior_of_A(activation, last.Sample(wide_x, wide_y, mask)))(A)
        assert float(padded) == pytest.approx(float(short), rel=1e-5)
    start = nets.initial_weights(jax.random.key(0), 2)
    how = nets.Training(epochs=20, lr=0.01)
    some = nets.train_weights(jax.random.key(1), start, x, y, np.ones(10, dtype=np.float32), "relu", how)
    wide = nets.train_weights(jax.random.key(1), start, wide_x, wide_y, mask, "relu", how)
    np.testing.assert_allclose(wide.A, some.A, rtol=1e-4, atol=1e-6)


def test_training_is_sgd_as_pytorch_does_it():
    """Momentum and decay by hand on the head alone, with the gradient of mean |y − BAx|² written out."""
    x, y, A, B = data(n=20)
    start = nets.Weights(((np.eye(3, dtype=np.float32), np.zeros(3, dtype=np.float32)),), A, B)
    how = nets.Training(epochs=5, lr=0.01, momentum=0.9, decay=0.1)
    found = nets.train_weights(jax.random.key(0), start, x, y, np.ones(20, dtype=np.float32), "identity", how)
    W, b = np.eye(3), np.zeros((3, 1))
    A, B = A.astype(float), B.astype(float)
    speeds = [np.zeros_like(part) for part in (W, b, A, B)]
    for _ in range(5):
        inner = W @ x + b
        off = 2 * (B @ A @ inner - y) / 20
        back = A.T @ B.T @ off
        slopes = (back @ x.T, back.sum(axis=1, keepdims=True), B.T @ off @ inner.T, off @ (A @ inner).T)
        speeds = [0.9 * v + g + 0.1 * w for v, g, w in zip(speeds, slopes, (W, b, A, B), strict=True)]
        W, b, A, B = (w - 0.01 * v for w, v in zip((W, b, A, B), speeds, strict=True))
    np.testing.assert_allclose(found.A, A, rtol=1e-4)
    np.testing.assert_allclose(found.B, B, rtol=1e-4)
    np.testing.assert_allclose(found.body[0][1], b[:, 0], rtol=1e-3, atol=1e-6)


def test_a_batch_of_all_rows_is_the_full_batch_and_small_batches_are_not():
    x, y, A, B = data(n=20)
    start = nets.Weights(((np.eye(3, dtype=np.float32), np.zeros(3, dtype=np.float32)),), A, B)
    mask = np.ones(20, dtype=np.float32)

    def trained(batch):
        how = nets.Training(epochs=3, lr=0.01, batch=batch)
        return np.asarray(nets.train_weights(jax.random.key(0), start, x, y, mask, "identity", how).A)

    np.testing.assert_allclose(trained(20), trained(None), rtol=1e-5)
    assert np.abs(trained(8) - trained(None)).max() > 1e-3  # three steps an epoch, the last with four rows


@pytest.mark.slow
def test_initial_weights_are_pytorchs():
    weights = jax.jit(jax.vmap(lambda key: nets.initial_weights(key, 1)))(jax.random.split(jax.random.key(0), 500))
    shapes = [part.shape[1:] for layer in weights.body for part in layer]
    assert shapes == [(5, 3), (5,), (3, 5), (3,)]
    for part, incoming in ((weights.body[1][0], 5), (weights.body[1][1], 5), (weights.A, 3), (weights.body[0][1], 3)):
        assert float(jnp.abs(part).max()) == pytest.approx(incoming**-0.5, rel=0.01)
        assert float(part.std()) == pytest.approx((3 * incoming) ** -0.5, rel=0.05)


def test_errors_are_kl_divergences():
    """Of a normal in closed form and of a mixture, against sums over a fine grid of y in one dimension at a time."""
    truth, mean = np.array([[0.2], [0.0], [-0.1]]), np.array([[0.5], [0.3], [0.0]])
    y = np.linspace(-12, 12, 4001)
    q = np.exp(-((y - truth[:, :1]) ** 2) / 2) / np.sqrt(2 * np.pi)
    p = np.exp(-((y - mean[:, :1]) ** 2) / 2 / 1.7) / np.sqrt(2 * np.pi * 1.7)
    exact = np.sum(q * np.log(q / p)) * (y[1] - y[0])
    assert float(last.normal_error(mean, np.array([1.7]), truth)) == pytest.approx(exact, rel=1e-4)
    assert float(last.point_error(mean, truth)) == pytest.approx(np.sum((mean - truth) ** 2) / 2, rel=1e-5)


def test_the_error_of_a_mixture_and_its_control_variate():
    rng = np.random.default_rng(0)
    test = 20_000
    truth = rng.normal(size=(3, test))
    means = truth + 0.2 * rng.normal(size=(40, 3, 1)) + 0.1
    variances = np.full((40, test), 1.05)
    noise = rng.normal(size=(3, test))
    y = truth + noise
    density = np.mean(
        np.exp(-np.sum((y - means) ** 2, axis=1) / 2 / variances) / (2 * np.pi * variances) ** 1.5, axis=0
    )
    plain = np.log((2 * np.pi) ** -1.5) - np.sum(noise**2, axis=0) / 2 - np.log(density)
    error = plain.std() / np.sqrt(test)
    found = float(last.mixture_error(last.Mixture(means, variances), truth, noise))
    assert abs(found - plain.mean()) < 4 * error
    assert found == pytest.approx(
        float(last.mixture_error(last.Mixture(means, variances), truth, -noise)), abs=error
    )  # antithetic noise hardly matters any more
    one = last.mixture_error(last.Mixture(means[:1], variances[:1]), truth, noise)
    assert float(one) == pytest.approx(float(last.normal_error(means[0], variances[0], truth)), rel=1e-4)


def weighted_mean(statistic, density, rng, draws=400_000):
    """By importance sampling from the prior."""
    A = rng.normal(size=(draws, 3, 3)).astype(np.float32)
    logs = np.asarray(jax.vmap(lambda A: density(A) + jnp.sum(A**2) / 2)(A), dtype=float)
    weights = np.exp(logs - logs.max())
    return float(weights @ np.asarray(statistic(A)) / weights.sum()), weights.sum() ** 2 / (weights**2).sum()


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["identity", "relu"])
def test_hmc_has_the_moments_of_A_and_not_those_of_other_data(activation):
    x, y, _, _ = data(n=6, activation=activation)
    mask = np.ones(6, dtype=np.float32)
    density = last.log_posterior_of_A(activation, last.Sample(x, y, mask))

    def statistic(A):
        return jnp.sum((A @ x[:, :2]) ** 2, axis=(-2, -1))

    exact, effective = weighted_mean(statistic, density, np.random.default_rng(0))
    assert effective > 500
    starts = np.random.default_rng(1).normal(size=(16, 3, 3)).astype(np.float32)
    draws, divergent = jax.jit(jax.vmap(lambda key, start: last.sample_A(key, start, density, 100, 400)))(
        jax.random.split(jax.random.key(0), 16), starts
    )
    chains = np.asarray(statistic(draws)).mean(axis=1)
    error = chains.std(ddof=1) / 4
    assert abs(chains.mean() - exact) < 4 * error + 4 * exact / np.sqrt(effective)
    assert int(divergent.sum()) == 0
    other = last.log_posterior_of_A(activation, last.Sample(x, y + 3, mask))
    wrong, _ = weighted_mean(statistic, other, np.random.default_rng(0))
    assert abs(chains.mean() - wrong) > 6 * error


def test_laplace_of_two_layers_counts_what_the_data_leave_open():
    """At the truth of BA the nine directions of GL(3) change nothing; nine are left."""
    x, _, A, B = data(n=400)
    y = B @ A @ x
    mask = np.ones(400, dtype=np.float32)
    sample = last.Sample(x, y, mask)
    found = jax.jit(lambda key: last.laplace_two_layers(key, A, B, "identity", sample, 20_000))(jax.random.key(0))
    assert int(found.undetermined) == 9
    flat = np.concatenate([np.asarray(part).reshape(20_000, -1) for part in (found.A, found.B)], axis=1)
    z = A @ x
    share = np.kron(np.eye(3), z @ z.T)  # the block of B
    spread = np.cov(flat.T)
    precision = np.linalg.inv(spread)[9:, 9:]
    np.testing.assert_allclose(precision, share + np.eye(9), rtol=0.1, atol=0.05 * share.max())


def curve(values, sizes, **more):
    values = np.asarray(values, dtype=float)
    found = dict.fromkeys(gen.METHODS, values)
    found |= {
        "undetermined": np.zeros(values.shape),
        "rhat": np.ones(values.shape),
        "divergent": np.zeros(values.shape),
    }
    return gen.curves(gen.Setting(), sizes, {**found, **more})["two"]


def test_slopes_are_least_squares_with_and_without_intercept():
    sizes = np.array([100, 200, 400, 800])
    rng = np.random.default_rng(0)
    values = (3 / sizes + 0.01)[:, None] + 0.001 * rng.normal(size=(4, 30))
    found = curve(values, sizes)
    with_intercept = found.slope(intercept=True)
    expected = np.polyfit(1 / sizes, values.mean(axis=1), 1)
    assert with_intercept.value == pytest.approx(expected[0])
    assert with_intercept.diagnostics["intercept"] == pytest.approx(expected[1])
    assert abs(with_intercept.value - 3) < 4 * with_intercept.error
    through = found.slope()
    mean = values.mean(axis=1)
    assert through.value == pytest.approx(np.sum(mean / sizes) / np.sum(1 / sizes**2))
    left = np.sum((mean - through.value / sizes) ** 2)
    assert through.diagnostics["r_squared"] == pytest.approx(1 - left / np.sum(mean**2))
    assert Result.from_json(found.to_json()) == found
    assert np.all(np.asarray(found.less(found).value) == 0)


def test_what_is_not_defended_says_so():
    sizes, values = (20, 40), np.ones((2, 3))
    assert curve(values, sizes, rhat=2 * values).status is Status.WARNING
    found = dict.fromkeys((*gen.METHODS, "undetermined", "rhat", "divergent"), values)
    refused = gen.curves(gen.Setting(), sizes, found)["laplace-two"]
    assert refused.status is Status.REFUSED
    assert "the Hessian is singular" in refused.reasons[0]
    published = gen.curves(gen.Setting(protocol="published"), sizes, found)["last"]
    assert "mistakes of the published script" in published.reasons[0]
    diverged = gen.curves(gen.Setting(), sizes, {**found, "map": values * np.nan})["map"]
    assert diverged.status is Status.REFUSED
    assert "training diverged" in diverged.reasons[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gen.Setting(activation="tanh"), "activation"),
        (lambda: gen.Setting(protocol="mine"), "protocol"),
        (lambda: gen.Setting(training=nets.Training(batch=0)), "batch"),
        (lambda: gen.table_setting("2a"), "table"),
        (lambda: next(gen.study(gen.Setting(), (2, 10), 2)), "a size"),
        (lambda: next(gen.study(gen.Setting(), (10,), 1)), "datasets"),
        (lambda: curve(np.ones((1, 3)), (10,)).slope(), "make a line"),
    ],
)
def test_bad_input_says_what_would_be_right(call, message):
    with pytest.raises(BadInput, match=message):
        call()
