"""The spectrum of the Hessian: closed forms, sampled matrices, and thresholds by two derivations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasecast.core.errors import BadInput, OutsideRegime
from phasecast.core.precision import float64
from phasecast.core.results import Status
from phasecast.features import threshold_search
from phasecast.features.curvature.curvature_law import CurvatureLaw
from phasecast.features.curvature.dmft import dmft
from phasecast.features.curvature.lower_bound import curvature_floor
from phasecast.features.curvature.methods import drawn as drawn_from
from phasecast.features.curvature.quadrature import (
    find_breaks,
    gaussian_points,
    initial_laws,
    one_step_laws,
    settled_laws,
)
from phasecast.features.hessian_spectrum import density, hessian_spectrum, stieltjes
from phasecast.features.outliers import crossing_delta, outlier_set, scalar_threshold, scan
from phasecast.features.policy import POLICY
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import target
from phasecast.features.threshold import threshold

pytestmark = pytest.mark.bare

PSEUDO = Network("gelu", "pseudo-huber")
NOTHING = np.zeros((1, 0))


def law_of(network, text, fineness=1.0):
    return initial_laws(network, target(text), fineness)[0]


def sampled(network, text, delta, dimension, seeds):
    """Eigenvalues (rising) with the vectors' squared overlaps with Θ* (k rows) and with θ, at random weights."""
    one, found = target(text), []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        X, theta = rng.normal(size=(round(delta * dimension), dimension)), rng.normal(size=dimension)
        theta /= np.linalg.norm(theta)
        with float64():
            y = np.asarray(one.link(X[:, : one.latents]))
            G = np.asarray(network.curvature((X @ theta)[:, None], y))[:, 0]
        values, vectors = np.linalg.eigh((X.T * G) @ X / len(X))
        found.append((values, vectors[: one.latents], (theta @ vectors) ** 2))
    return found


def agree(values, expected, systematic):
    """Within three standard errors over seeds and a finite-size shift of order 1/d."""
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    assert abs(np.mean(values) - expected) < 3 * math.hypot(error, systematic)


@pytest.mark.parametrize("delta", [0.5, 1.5, 4.0, 25.0])
def test_marchenko_pastur(delta):
    law = CurvatureLaw(np.ones(1), NOTHING)
    edge = max(1 - 1 / math.sqrt(delta), 0) ** 2 if delta > 1 else 0.0
    found = hessian_spectrum(law, delta)
    assert found.edge == pytest.approx(edge, abs=1e-12)
    assert found.outliers == ()
    z = -0.3
    alpha = stieltjes(law, delta, z)  # the root of a quadratic
    assert z * alpha**2 / delta + (z - 1 + 1 / delta) * alpha + 1 == pytest.approx(0, abs=1e-10)


def test_the_density_of_marchenko_pastur():
    law, delta = CurvatureLaw(np.ones(1), NOTHING), 4.0
    low, high = 0.25, 2.25
    points = np.linspace(0.3, 2.2, 60)
    exact = delta / (2 * np.pi * points) * np.sqrt((points - low) * (high - points))
    np.testing.assert_allclose(density(law, delta, points, 1e-4), exact, atol=2e-3)


def test_a_scale_of_g_is_a_scale_of_the_spectrum():
    law = law_of(PSEUDO, "z**2", 0.4)
    one = hessian_spectrum(law, 8.0)
    three = hessian_spectrum(CurvatureLaw(3 * law.G, law.hard, law.weights, 3 * law.lowest), 8.0)
    assert three.edge == pytest.approx(3 * one.edge, rel=1e-10)
    assert three.margin == pytest.approx(3 * one.margin, rel=1e-9)
    assert three.outliers[0].overlap2 == pytest.approx(one.outliers[0].overlap2, rel=1e-9)


@given(st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2)), min_size=3, max_size=12), st.floats(0.3, 40))
def test_an_outlier_exactly_where_the_margin_is_negative(points, delta):
    G, V = np.array(points).T
    law = CurvatureLaw(np.tile(G, 2), np.concatenate([V, -V])[:, None])
    found = hessian_spectrum(law, delta)
    assert (found.margin < 0) == bool(found.outliers)
    for one in found.outliers:
        assert one.value < min(0, found.edge) + 1e-9
        assert 0 <= one.overlap2 <= 1


def test_reference_thresholds_at_the_start():
    """The first two are those of tests/reference/thresholds_at_the_start.py; the wide network's comes from an
    independent implementation that was not kept."""
    assert outlier_set(law_of(Network("gelu", "square"), "tanh(z)**2"))[0][0] == pytest.approx(4.23447, abs=1e-4)
    assert outlier_set(law_of(PSEUDO, "z**2"))[0][0] == pytest.approx(1.69276, abs=1e-4)
    plus, minus = initial_laws(Network("gelu", "square", "wide"), target("tanh(z)**2"))
    assert outlier_set(plus)[0][0] == pytest.approx(1.85899, abs=1e-3)
    assert outlier_set(minus) == ()


def test_reference_spectrum_at_delta_10():
    """Edge and outlier are those of tests/reference/thresholds_at_the_start.py."""
    found = hessian_spectrum(law_of(PSEUDO, "z**2"), 10.0)
    assert found.edge == pytest.approx(-0.220486, abs=1e-4)
    assert found.outliers[0].value == pytest.approx(-0.298327, abs=1e-4)
    assert found.outliers[0].overlap2 == pytest.approx(0.680258, abs=1e-4)


def test_the_reference_fixed_point_and_its_margin():
    """α and q solved here on the grid of the quadrature, apart from the package's own solver."""
    from scipy.optimize import fsolve

    network, one, delta = Network("softplus", "square"), target("minimum(z**2, 3)"), 12.0
    points, weights = gaussian_points(2, 0.4, find_breaks(one))
    y = np.minimum(points[:, 0] ** 2, 3)

    def sides(unknowns):
        alpha, q = unknowns
        W, V = math.sqrt(q) * points[:, 1], math.sqrt(q) * points[:, 1]
        f = G = np.zeros_like(V)
        for _ in range(40):
            s = 1 / (1 + np.exp(-V))
            f, G = (np.logaddexp(0, V) - y) * s, s**2 + (np.logaddexp(0, V) - y) * s * (1 - s)
            V = V - (V + alpha / delta * f - W) / (1 + alpha / delta * G)
        return q - alpha**2 / delta * (weights @ f**2), 1 - alpha * (weights @ (G / (1 + alpha * G / delta)))

    alpha, q = np.asarray(fsolve(sides, (4.0, 0.5))).tolist()
    assert alpha == pytest.approx(4.748, abs=1e-3)
    assert q == pytest.approx(0.487, abs=1e-3)
    (law,) = settled_laws(network, one, delta, alpha, q, np.zeros(1))
    assert hessian_spectrum(law, delta).margin == pytest.approx(0.0376, abs=1e-4)
    assert stieltjes(law, delta, 0.0) == pytest.approx(alpha, rel=1e-5)


@pytest.mark.parametrize(
    ("network", "text"),
    [
        (PSEUDO, "z**2"),
        (Network("gelu", "square"), "tanh(z)**2"),
        (Network("softplus", "square"), "minimum(z**2, 3)"),
        (Network("tanh", "pseudo-huber"), "z**2"),
        (Network("quadratic", "logcosh", a=0.5), "abs(z)"),
    ],
)
def test_the_scalar_equation_gives_the_same_threshold(network, text):
    law = law_of(network, text, 0.7)
    assert outlier_set(law)[0][0] == pytest.approx(scalar_threshold(law), rel=1e-8)


def test_the_ends_of_a_bounded_set_are_where_the_margin_changes_sign():
    law = law_of(Network("gelu", "square"), "tanh(z)**2", 0.7)
    ((low, high),) = outlier_set(law)
    assert high < 14
    for delta, there in ((0.99 * low, False), (1.01 * low, True), (0.99 * high, True), (1.01 * high, False)):
        assert bool(hessian_spectrum(law, delta).outliers) == there


@pytest.mark.slow
def test_sampled_hessians_have_the_outlier_and_the_control_does_not():
    delta, size = 8.0, 300
    law, drawn = law_of(PSEUDO, "z**2"), sampled(PSEUDO, "z**2", delta, size, 8)
    expected = hessian_spectrum(law, delta).outliers[0]
    agree([values[0] for values, _, _ in drawn], expected.value, 1 / size)
    overlaps = [along[0, 0] ** 2 for _, along, _ in drawn]
    agree(overlaps, expected.overlap2, 2 / size)
    # negative control: a law that takes the label to be independent of the latent sees no outlier
    points = drawn_from(law, 200_000, seed=0)
    blind = CurvatureLaw(points.G, np.random.default_rng(0).permutation(points.hard), lowest=law.lowest)
    assert not hessian_spectrum(blind, delta).outliers
    with pytest.raises(AssertionError):
        agree([values[0] for values, _, _ in drawn], hessian_spectrum(blind, delta).edge, 1 / size)


@pytest.mark.slow
def test_two_outliers_with_their_directions():
    """y = z1² + z2²/2 has two roots, along z1 and z2; a rotation of the latents rotates the directions alone."""
    text, delta, size = "tanh(z1)**2 + tanh(z2)**2/2", 60.0, 150
    network = Network("quadratic", "square", a=0.2)
    law = law_of(network, text)
    first, second = hessian_spectrum(law, delta).outliers
    assert first.value < second.value
    np.testing.assert_allclose(abs(first.direction), [1, 0], atol=1e-6)
    np.testing.assert_allclose(abs(second.direction), [0, 1], atol=1e-6)
    drawn = sampled(network, text, delta, size, 8)
    agree([values[0] for values, _, _ in drawn], first.value, 1 / size)
    agree([values[1] for values, _, _ in drawn], second.value, 1 / size)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    turned = hessian_spectrum(CurvatureLaw(law.G, law.hard @ turn, law.weights), delta).outliers
    np.testing.assert_allclose([one.value for one in turned], [first.value, second.value], rtol=1e-9)
    np.testing.assert_allclose(abs(turn @ turned[0].direction), [1, 0], atol=1e-6)


def test_outliers_along_the_weights_are_labelled_uninformative():
    network, text, delta, size = Network("tanh", "pseudo-huber"), "tanh(z)**2", 20.0, 200
    found = hessian_spectrum(law_of(network, text), delta)
    assert found.outliers == ()
    assert found.margin > 0
    (one,) = found.rest
    assert not one.informative
    drawn = sampled(network, text, delta, size, 8)
    agree([values[0] for values, _, _ in drawn], one.value, 1 / size)
    agree([weights[0] for _, _, weights in drawn], one.overlap2, 2 / size)
    assert np.mean([along[0, 0] ** 2 for _, along, _ in drawn]) < 0.05


@pytest.mark.slow
def test_one_step_by_quadrature_is_the_mean_field_step():
    """With an easy direction: averages over the law at t = 1 against eight seeds of the Monte-Carlo route."""
    one, delta, lr = target("z1 + z2 + z1*z2"), 3.0, 0.8
    (law,) = one_step_laws(PSEUDO, one, lr, delta)
    runs = [dmft(PSEUDO, one, delta, lr, 1, samples=20_000, seed=seed).law(1) for seed in range(8)]
    for moment in (lambda x: x.G, lambda x: x.G**2, lambda x: x.G * x.hard[:, 0] ** 2):
        each = [float(run.mean(moment(run))) for run in runs]
        agree(each, float(law.mean(moment(law))), 0.0)
    start = initial_laws(PSEUDO, one)[0]  # control: the law of t = 0 is another one
    with pytest.raises(AssertionError):
        agree([float(run.mean(run.G)) for run in runs], float(start.mean(start.G)), 0.0)


def test_no_step_is_the_start():
    one = target("tanh(z)**2")
    (law,) = one_step_laws(PSEUDO, one, 1e-12, 5.0)
    start = law_of(PSEUDO, "tanh(z)**2")
    assert hessian_spectrum(law, 5.0).edge == pytest.approx(hessian_spectrum(start, 5.0).edge, abs=1e-6)


@pytest.mark.parametrize(
    ("network", "text", "bounded"),
    [
        (PSEUDO, "z**2", True),
        (Network("gelu", "square"), "z**2", False),
        (Network("gelu", "square"), "tanh(z)**2", True),
        (Network("quadratic", "square"), "tanh(z)**2", True),
        (Network("quadratic", "square"), "z1*z2", False),
        (Network("softplus", "huber", 2), "z**2", True),
        (Network("tanh", "logcosh", "wide"), "z**4", True),
        (Network("gelu", "logistic"), "halfspaces", True),
    ],
)
def test_whether_g_has_a_lower_bound(network, text, bounded):
    found = curvature_floor(network, target(text))
    assert math.isfinite(found) == bounded
    if bounded:
        rng = np.random.default_rng(0)
        one = target(text)
        with float64():
            y = np.asarray(one.link(2 * rng.normal(size=(20_000, one.latents))))
            G = np.asarray(network.curvature(2 * rng.normal(size=(20_000, network.size)), y))[:, 0]
        assert G.min() > found - 0.01 * abs(found)


def test_an_unbounded_law_has_no_outlier_as_written():
    law = law_of(Network("gelu", "square"), "z**2", 0.5)
    assert law.lowest == -math.inf
    assert hessian_spectrum(law, 10.0).edge == -math.inf
    assert outlier_set(law) == ()
    clipped = law.clipped(law.quantile(1e-3))
    assert outlier_set(clipped)[0][0] < 10


def test_kinks_and_jumps_are_found():
    assert find_breaks(target("z**2")) == ()
    np.testing.assert_allclose(find_breaks(target("minimum(z**2, 3)")), [-math.sqrt(3), math.sqrt(3)], atol=1e-9)
    np.testing.assert_allclose(find_breaks(target("(z > 0.3)*z")), [0.3], atol=1e-9)
    np.testing.assert_allclose(find_breaks(target("abs(z)")), [0], atol=1e-9)
    assert len(gaussian_points(5, 0.5)[0]) > 10_000


def test_a_scan_finds_every_interval():
    looked = scan(lambda delta: math.sin(2 * math.log(delta)) + 0.1, np.geomspace(1, 200, 60).tolist())
    intervals = looked.intervals()
    assert len(intervals) == 2
    assert looked.first is not None
    exact = math.exp((math.pi + math.asin(0.1)) / 2)
    star = crossing_delta(lambda delta: math.sin(2 * math.log(delta)) + 0.1, looked.first, accuracy=1e-6)
    assert star == pytest.approx(exact, rel=1e-5)
    assert looked.intervals(star)[0][0] == star
    nothing = scan(lambda delta: 1.0, [1.0, 2.0, 4.0])
    assert nothing.first is None
    assert nothing.intervals() == ()


def test_bad_input():
    law = law_of(PSEUDO, "z**2", 0.3)
    for delta in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(BadInput, match="n/d > 0"):
            hessian_spectrum(law, delta)
    with pytest.raises(BadInput, match="below the bulk"):
        stieltjes(law, 10.0, 0.1)
    with pytest.raises(OutsideRegime, match="one hard direction"):
        scalar_threshold(CurvatureLaw(np.ones(1), NOTHING))
    with pytest.raises(BadInput, match="probabilities"):
        CurvatureLaw(np.ones(2), np.zeros((2, 1)), np.array([0.5, 0.6]))
    with pytest.raises(BadInput, match="not finite"):
        CurvatureLaw(np.array([math.nan]), NOTHING)


@pytest.mark.slow
def test_one_step_of_a_wide_network():
    """Moments of G_j over examples and 400 neurons in 200 dimensions, for both signs of a_j."""
    network, one = Network("gelu", "pseudo-huber", "wide", b=0.2), target("z1 + z2 + z1*z2")
    delta, lr, d, m = 3.0, 2.0, 200, 400
    laws, seen = one_step_laws(network, one, lr, delta, 0.5), []
    sign = np.where(np.arange(m) < m // 2, 1.0, -1.0)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, theta = rng.normal(size=(round(delta * d), d)), rng.normal(size=(d, m))
        theta /= np.linalg.norm(theta, axis=0)
        with float64():
            y, u = np.asarray(one.link(X[:, :2])), X @ theta + 0.2
            slope = sign * np.asarray(network.loss.first(np.zeros(len(y)), y))[:, None]
            after = u - lr * X @ (X.T @ (slope * np.asarray(network.activation.first(u)))) / len(X)
            gain = (sign * (np.asarray(network.activation(after)) - np.asarray(network.activation(u)))).mean(axis=1)
            G = sign * np.asarray(network.loss.first(gain, y))[:, None] * np.asarray(network.activation.second(after))
        hard = ((X[:, :2] @ one.hard[:, 0]) ** 2)[:, None]
        seen.append([[(part[:, chosen]).mean() for part in (G, G**2, G * hard)] for chosen in (sign > 0, sign < 0)])
    for block, law in enumerate(laws):
        for number, values in enumerate((law.G, law.G**2, law.G * law.hard[:, 0] ** 2)):
            agree([draw[block][number] for draw in seen], float(law.mean(values)), 1 / d)


def test_a_stricter_policy_turns_an_answer_into_a_warning(monkeypatch):
    """The policy that judged is recorded with the result, with a reason for every field."""
    result = threshold("z**2")
    assert result.status is Status.OK
    assert result.policy["largest_quadrature_error"] == POLICY.largest_quadrature_error
    assert all(POLICY.reasons().values())
    strict = replace(POLICY, largest_quadrature_error=0.0)
    monkeypatch.setattr(threshold_search, "POLICY", strict)
    assert threshold("z**2").status is Status.WARNING
    assert threshold("z**2").policy["largest_quadrature_error"] == 0.0
