"""The limit of gradient descent where it is known exactly, and descent itself against plain derivatives."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from phasecast.core.errors import BadInput, OutsideRegime, Refused
from phasecast.core.precision import float64
from phasecast.core.results import Measurement, Status
from phasecast.features.curvature.decoupled import decoupled
from phasecast.features.curvature.dmft import dmft
from phasecast.features.curvature.fixed_point import fixed_point
from phasecast.features.curvature.per_example import fresh_loss, loss_gradient, loss_hessian
from phasecast.features.curvature.quadrature import initial_laws, one_step_laws
from phasecast.features.hessian_spectrum import hessian_spectrum
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import target
from phasecast.features.simulation.descent import descend, draw_data, lowest_curvatures
from phasecast.features.simulation.success import finite_size, half_success, horizon

pytestmark = pytest.mark.bare

PSEUDO = Network("gelu", "pseudo-huber")
RETRIEVAL = target("z**2")


def identity(u):
    return u


def marchenko_pastur(delta: float, count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the spectrum of XᵀX/n for n/d = δ > 1: its density times √-substituted Gauss nodes."""
    low, high = (1 - delta**-0.5) ** 2, (1 + delta**-0.5) ** 2
    angle = (np.arange(count) + 0.5) * np.pi / count
    x = (low + high) / 2 + (high - low) / 2 * np.cos(angle)
    weight = delta / (2 * np.pi * x) * ((high - low) / 2 * np.sin(angle)) ** 2 * np.pi / count
    return x, weight


@pytest.mark.parametrize("delta", [1.5, 4.0])
def test_a_linear_unit_follows_the_moments_of_marchenko_pastur(delta):
    """θ(t) = (1−ηS)ᵗθ₀ + [1−(1−ηS)ᵗ]θ_* for y = z + 0.5ε, plus the noise, in the eigenbasis of S = XᵀX/n."""
    lr, steps, noise = 0.4, 8, 0.5
    run = dmft(Network(identity, "square"), target("z", noise=noise), delta, lr, steps, samples=40_000)
    x, weight = marchenko_pastur(delta)
    assert weight.sum() == pytest.approx(1, abs=1e-12)
    decay = (1 - lr * x) ** np.arange(steps + 1)[:, None]
    kept, learned = decay @ weight, (1 - decay) @ weight
    stirred = ((1 - decay) ** 2 / x) @ weight * noise**2 / delta
    expected = decay**2 @ weight + (1 - decay) ** 2 @ weight + stirred
    np.testing.assert_allclose(run.R_theta[1:, 0, 0, 0], kept[:-1], atol=1e-12)
    np.testing.assert_allclose(run.overlap[:, 0, 0], learned, atol=0.01)
    np.testing.assert_allclose(np.diagonal(run.C_theta[:, :, 0, 0]), expected, atol=0.02)
    away = 1 + expected - 2 * learned  # |θ − θ_*|²
    np.testing.assert_allclose(run.test.value, (away + noise**2) / 2, atol=0.02)
    two_times = (
        (decay[3] * decay[7]) @ weight,
        ((1 - decay[3]) * (1 - decay[7]) * (1 + noise**2 / delta / x)) @ weight,
    )
    assert run.C_theta[3, 7, 0, 0] == pytest.approx(sum(two_times), abs=0.02)


def test_the_gradient_and_the_hessian_are_derivatives_of_the_loss():
    network = Network("swish", "logcosh", width=3, a=(1.0, -2.0, 0.5), b=(0.1, 0.0, -0.3))
    rng = np.random.default_rng(0)
    V, y = rng.normal(size=(5, 3)), rng.normal(size=5)
    with float64():
        grad = jax.jit(jax.vmap(jax.grad(lambda v, label: network.loss(network.predict(v), label))))
        hess = jax.jit(jax.vmap(jax.hessian(lambda v, label: network.loss(network.predict(v), label))))
        slopes, bends = np.asarray(grad(V, y)), np.asarray(hess(V, y))
    np.testing.assert_allclose(loss_gradient(network, V, y), slopes, atol=1e-12)
    np.testing.assert_allclose(loss_hessian(network, V, y), bends, atol=1e-12)


def test_the_first_step_is_that_of_quadrature():
    delta, lr = 6.0, 0.5
    exact = hessian_spectrum(one_step_laws(PSEUDO, RETRIEVAL, lr, delta)[0], delta)
    found = [hessian_spectrum(dmft(PSEUDO, RETRIEVAL, delta, lr, 1, seed=seed).law(1), delta) for seed in range(6)]
    for name in ("edge", "margin"):
        each = np.array([getattr(one, name) for one in found])
        assert abs(each.mean() - getattr(exact, name)) < 4 * each.std(ddof=1) / math.sqrt(6) + 1e-4, name


def test_seeds_are_the_same_at_every_delta():
    one, other = (dmft(PSEUDO, RETRIEVAL, delta, 0.5, 2, samples=500, seed=3) for delta in (4.0, 9.0))
    np.testing.assert_array_equal(one.latents, other.latents)
    np.testing.assert_array_equal(one.V[0], other.V[0])
    assert abs(one.V[2] - other.V[2]).max() > 1e-3


def test_equal_units_stay_alike_and_have_each_others_responses():
    run = dmft(Network("gelu", "pseudo-huber", width=2), RETRIEVAL, 6.0, 1.0, 4, samples=40_000)
    np.testing.assert_allclose(run.C_theta[:, :, 0, 0], run.C_theta[:, :, 1, 1], atol=0.03)
    np.testing.assert_allclose(run.R_theta[:, :, 0, 1], run.R_theta[:, :, 1, 0], atol=0.01)


def test_what_diverges_is_refused():
    run = dmft(Network("quadratic", "square"), RETRIEVAL, 5.0, 3.0, 20, samples=500)
    assert run.status is Status.REFUSED
    with pytest.raises(Refused, match="lower the learning rate"):
        _ = run.train.value
    assert descend(draw_data(Network("quadratic", "square"), RETRIEVAL, 5.0, 50), 3.0, 60).status is Status.REFUSED
    with pytest.raises(Refused, match="diverged"):
        decoupled(Network("quadratic", "square"), RETRIEVAL, 5.0, 3.0, [60], dimension=50)


def risk(data, theta):
    V = jnp.asarray(data.X, jnp.float64) @ theta
    return data.network.loss(data.network.predict(V), jnp.asarray(data.y)).mean()


@pytest.mark.parametrize("network", [PSEUDO, Network("tanh", "square", width=2, a=(1.0, -1.0), b=0.2)])
def test_descent_is_descent_on_the_risk_and_lanczos_finds_its_hessian(network):
    data = draw_data(network, target("z1*z2 + z1"), 4.0, 30, seed=1)
    run = descend(data, 0.7, 5)
    with float64():
        theta, slope = jnp.asarray(data.theta), jax.jit(jax.grad(lambda at: risk(data, at)))
        for _ in range(5):
            theta = theta - 0.7 * slope(theta)
        hessian = jax.jit(jax.hessian(lambda at: risk(data, at)))(theta)
        train = float(risk(data, theta))
    m = network.size
    np.testing.assert_allclose(run.theta, np.asarray(theta), atol=2e-6)
    assert run.train[-1] == pytest.approx(train, rel=1e-5)
    values, vectors = np.linalg.eigh(m * np.asarray(hessian).reshape(30 * m, 30 * m))
    found = lowest_curvatures(data, run.theta, 3)
    np.testing.assert_allclose(found.values, values[:3], atol=1e-4)
    latent = np.einsum("kr,kmc->rmc", data.target.hard, vectors[:, 0].reshape(30, m, 1)[:2])
    assert found.overlap2[0] == pytest.approx((latent**2).sum(), abs=1e-3)
    assert lowest_curvatures(data, run.theta, 1, highest=True).values[0] == pytest.approx(values[-1], abs=1e-4)


def test_the_loss_on_fresh_examples_in_closed_form():
    """E (V² − z²)²/2 for variances q, 1 and covariance c: (3q² + 3 − 2(q + 2c²))/2."""
    for q, c in ((1.0, 0.0), (0.7, 0.5), (1.3, -1.1)):
        found = fresh_loss(Network("quadratic", "square"), RETRIEVAL, np.array([[q]]), np.array([[c]]))
        assert found == pytest.approx((3 * q**2 + 3 - 2 * (q + 2 * c**2)) / 2, rel=3e-3)


def test_decoupled_labels_keep_the_easy_and_forget_the_hard():
    one = target("z1 + z2 + z1*z2")
    data = draw_data(PSEUDO, one, 20.0, 100, decoupled=True)
    true = data.X[:, :2] @ np.hstack([one.easy, one.hard])
    used = data.latents @ np.hstack([one.easy, one.hard])
    np.testing.assert_allclose(true[:, 0], used[:, 0], atol=1e-6)
    assert abs(np.corrcoef(true[:, 1], used[:, 1])[0, 1]) < 4 / math.sqrt(len(true))


def test_the_reference_fixed_point():
    """Softplus, min(z², 3), square loss, δ = 12: α(0) = 4.748, q = 0.487, margin 0.0376.

    ``test_the_reference_fixed_point_and_its_margin`` in test_features_spectrum.py solves for the same numbers.
    """
    found = fixed_point(Network("softplus", "square"), target("minimum(z**2, 3)"), 12.0)
    assert found.status is Status.OK
    assert found.alpha.value == pytest.approx(4.748, abs=1e-3)
    assert found.q.value == pytest.approx(0.487, abs=1e-3)
    assert hessian_spectrum(found.law, 12.0).margin == pytest.approx(0.0376, abs=2e-4)
    assert hessian_spectrum(found.law, 12.0).edge > 0


def test_a_linear_fixed_point_is_least_squares():
    """y = z + σε, n > d: b = 1, excess variance q = σ²/(δ−1), α = E 1/λ = δ/(δ−1)."""
    found = fixed_point(Network(identity, "square"), target("z", noise=0.5), 3.0, seeds=2)
    assert found.alpha.value == pytest.approx(1.5, abs=1e-3)
    assert found.q.value == pytest.approx(0.125, abs=1e-3)
    assert found.overlap[0] == pytest.approx(1, abs=2e-3)
    assert found.test.value[0] == pytest.approx((0.25 + 0.125) / 2, abs=1e-3)
    assert found.train.value[0] == pytest.approx(0.25 / 2 * (1 - 1 / 3), abs=1e-3)


def test_no_fixed_point_where_the_bulk_is_below_zero():
    found = fixed_point(PSEUDO, RETRIEVAL, 8.0)
    assert found.status is Status.REFUSED
    assert "decoupled" in found.reasons[0]
    with pytest.raises(Refused, match="no fixed point"):
        _ = found.law


@pytest.mark.slow
def test_half_of_the_runs():
    rng = np.random.default_rng(0)
    deltas = np.geomspace(2, 20, 12)
    chance = 1 / (1 + (6.0 / deltas) ** (1 / 0.2))
    offs = []
    for _ in range(200):
        found = half_success(deltas, rng.binomial(10, chance), [10] * 12)
        offs.append((found.value - 6.0) / found.error)
    assert abs(np.mean(offs)) < 0.3
    assert 0.75 < np.std(offs) < 1.25
    assert half_success([1, 2, 3], [0, 0, 1], [5, 5, 5]).status is Status.REFUSED
    sharp = half_success([2, 4, 8], [0, 0, 5], [5, 5, 5])
    assert 4 < sharp.value < 8


def test_the_limit_of_many_dimensions():
    dims = (100, 200, 400, 800, 1600)
    places = [Measurement(8 - 20 / math.sqrt(d), 0.05, error_kind="seeds") for d in dims]
    found = finite_size(dims, places)
    assert found.status is Status.OK
    assert found.diagnostics["d^(-1/2)"]["limit"] == pytest.approx(8, abs=1e-6)
    assert found.error > 0.3  # what 1/ln d would say instead
    assert finite_size(dims[:2], places[:2]).status is Status.WARNING
    assert finite_size(dims[:1], places[:1]).status is Status.REFUSED
    assert horizon(1000, 0.5) > horizon(100, 0.5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dmft(PSEUDO, RETRIEVAL, 0.0, 0.5, 3), "n/d > 0"),
        (lambda: dmft(PSEUDO, RETRIEVAL, 3.0, -0.5, 3), "η > 0"),
        (lambda: dmft(PSEUDO, RETRIEVAL, 3.0, 0.5, 500), "GB"),
        (lambda: dmft(PSEUDO, RETRIEVAL, 3.0, 0.5, 1, samples=500).law(2), "from 0 to 1"),
        (lambda: draw_data(PSEUDO, RETRIEVAL, 50.0, 20_000), "GB"),
        (lambda: descend(draw_data(PSEUDO, RETRIEVAL, 3.0, 20), 0.5, 5, record=[3, 2]), "rising"),
        (lambda: half_success([3, 2], [1, 1], [2, 2]), "rising"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(BadInput, match=words):
        call()


def test_a_fixed_point_of_two_units_is_outside_the_regime():
    with pytest.raises(OutsideRegime, match="one unit"):
        fixed_point(Network("gelu", "square", width=2), RETRIEVAL, 5.0)


def test_a_target_may_be_its_expression():
    written, made = (dmft(PSEUDO, one, 4.0, 0.5, 2, samples=200) for one in ("z**2", RETRIEVAL))
    np.testing.assert_array_equal(written.V, made.V)
    (law,), (same,) = initial_laws(PSEUDO, "z**2", 0.3), initial_laws(PSEUDO, RETRIEVAL, 0.3)
    np.testing.assert_array_equal(law.G, same.G)
    with pytest.raises(BadInput, match="unknown name"):
        dmft(PSEUDO, "x**2", 4.0, 0.5, 2)
