"""Three routes to the law of the curvature against each other and against gradient descent at finite dimension."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from phasecast.features.curvature.decoupled import decoupled
from phasecast.features.curvature.dmft import dmft
from phasecast.features.curvature.fixed_point import fixed_point
from phasecast.features.curvature.per_example import Origin, curvature_law
from phasecast.features.curvature.quadrature import initial_laws
from phasecast.features.curvature.wide_dmft import wide_dmft
from phasecast.features.curvature.wide_first_step import wide_step_laws
from phasecast.features.hessian_spectrum import hessian_spectrum
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import target
from phasecast.features.simulation.descent import (
    descend,
    draw_data,
    lowest_curvatures,
    over_draws,
    simulate_descent,
    walk,
)
from phasecast.features.threshold import threshold

pytestmark = pytest.mark.bare

PSEUDO = Network("gelu", "pseudo-huber")
RETRIEVAL = target("z**2")
LOOKS = tuple(range(21))


def distances(measured, predicted, floor=0.0):
    """Between two measurements, in combined standard errors."""
    error = np.sqrt(np.asarray(measured.error) ** 2 + np.asarray(predicted.error) ** 2 + floor**2)
    return abs(np.asarray(measured.value) - np.asarray(predicted.value)) / error


@cache
def of_retrieval(seed):
    """A Monte-Carlo run of the limit that several tests judge: 20 steps at δ = 8."""
    return dmft(PSEUDO, RETRIEVAL, 8.0, 0.5, 20, seed=seed)


def limit(network, one, delta, lr, steps, looks, seeds=4, **more):
    """Losses and ΘᵀΘ of several Monte-Carlo runs of the limit, as measurements over seeds."""
    return in_numbers([dmft(network, one, delta, lr, steps, seed=seed, **more) for seed in range(seeds)], looks)


def in_numbers(runs, looks):
    at = list(looks)
    return {
        "train": over_draws([run.train.value[at] for run in runs]),
        "test": over_draws([run.test.value[at] for run in runs]),
        "gram": over_draws([run.C_theta[at, at] for run in runs]),
        "overlap": over_draws([run.overlap[at] for run in runs]),
    }


@pytest.mark.slow
def test_losses_and_norms_of_descent_at_d_800_are_those_of_the_limit():
    """Within 3 standard errors at t = 0…20; the test loss has a finite-size part of its own, |overlap|² ~ e^{ct}/d."""
    found = simulate_descent(PSEUDO, RETRIEVAL, 8.0, 0.5, 20, dimension=800, seeds=8, record=LOOKS)
    theory = in_numbers([of_retrieval(seed) for seed in range(4)], LOOKS)
    assert np.all(distances(found["train"], theory["train"]) < 3)
    assert np.all(distances(found["test"], theory["test"]) < 3)
    assert np.all(distances(found["gram"], theory["gram"])[1:] < 3)
    elsewhere = limit(PSEUDO, RETRIEVAL, 5.0, 0.5, 20, LOOKS, seeds=2)
    assert np.max(distances(found["train"], elsewhere["train"])) > 5


@pytest.mark.slow
def test_weights_at_two_times_have_the_inner_products_of_the_limit():
    at = (0, 3, 10, 20)
    found = []
    for seed in range(6):
        data = draw_data(PSEUDO, RETRIEVAL, 8.0, 800, seed=seed)
        theta = np.array([theta[:, 0] for t, theta, _ in walk(data, 0.5, 20) if t in at], dtype=float)
        found.append(theta @ theta.T)
    theory = over_draws([of_retrieval(seed).C_theta[np.ix_(at, at)][..., 0, 0] for seed in range(4)])
    measured = over_draws(found)
    assert np.all(distances(measured, theory, floor=1e-6) < 3)
    assert abs(theory.value[0, 3]) < 0.95 * np.sqrt(theory.value[0, 0] * theory.value[3, 3])  # not all of one piece


def test_an_easy_direction_is_learned_as_fast_as_the_limit_says():
    one = target("z1 + z2 + z1*z2")
    found = simulate_descent(PSEUDO, one, 6.0, 0.4, 10, dimension=600, seeds=8, record=(0, 1, 4, 10))
    theory = limit(PSEUDO, one, 6.0, 0.4, 10, (0, 1, 4, 10))
    assert np.all(distances(found["overlap"], theory["overlap"])[1:] < 3.5)
    assert np.all(distances(found["train"], theory["train"]) < 3)
    assert np.all(distances(found["test"], theory["test"], floor=1 / 600) < 3)
    assert np.asarray(theory["overlap"].value)[-1].min() > 0.3


@pytest.mark.slow
@pytest.mark.parametrize(("width", "a"), [(2, (1.0, -0.5)), (3, (1.0, 1.0, -1.0))])
def test_a_few_units_follow_the_matrix_equations(width, a):
    network = Network("gelu", "square", width=width, a=a, b=0.3)
    found = simulate_descent(network, target("tanh(z)**2"), 4.0, 1.5, 12, dimension=800, seeds=8, record=(0, 1, 4, 12))
    theory = limit(network, target("tanh(z)**2"), 4.0, 1.5, 12, (0, 1, 4, 12), samples=10_000)
    assert np.all(distances(found["train"], theory["train"]) < 3)
    assert np.all(distances(found["test"], theory["test"], floor=1 / 800) < 3)
    assert np.all(distances(found["gram"], theory["gram"], floor=2 / 800)[1:] < 3.5)


def spectra(laws, delta):
    found = [hessian_spectrum(law, delta) for law in laws]
    return over_draws([one.edge for one in found]), over_draws([one.margin for one in found])


@pytest.mark.slow
def test_decoupled_descent_has_the_law_of_the_limit():
    delta, seeds = 8.0, 6
    theory = spectra([of_retrieval(seed).law(20) for seed in range(seeds)], delta)
    small, large = (
        spectra([decoupled(PSEUDO, RETRIEVAL, delta, 0.5, [20], dimension=d, seed=s)[0] for s in range(seeds)], delta)
        for d in (300, 600)
    )
    for at_d, at_2d, there in zip(small, large, theory, strict=True):  # the part of order 1/d cancels in 2x − y
        extrapolated = 2 * at_2d.value - at_d.value
        error = math.sqrt(4 * at_2d.error**2 + at_d.error**2 + there.error**2)
        assert abs(extrapolated - there.value) < 3 * error


@pytest.mark.slow
@pytest.mark.parametrize("lr", [0.5, 1.5])
def test_long_decoupled_descent_ends_at_the_fixed_point(lr):
    network, one, delta = Network("softplus", "square"), target("minimum(z**2, 3)"), 12.0
    end = fixed_point(network, one, delta)
    margin = hessian_spectrum(end.law, delta).margin
    norms, margins = [], []
    for seed in range(4):
        data = draw_data(network, one, delta, 500, seed=seed, decoupled=True)
        run = descend(data, lr, 400, record=[400])
        norms.append(run.gram[0, 0, 0])
        V = (data.X @ run.theta).astype(float)
        law = curvature_law(network, one, V, data.y, data.latents, Origin("decoupled", 400.0, delta))
        margins.append(hessian_spectrum(law, delta).margin)
    q = over_draws(norms)
    assert distances(q, end.q, floor=1 / 500) < 3
    assert abs(np.mean(margins) - margin) < 3 * np.std(margins, ddof=1) / math.sqrt(4) + 1 / 500
    elsewhere = fixed_point(network, one, 20.0)
    assert distances(q, elsewhere.q, floor=1 / 500) > 5


@pytest.mark.parametrize(("time", "delta"), [(0, 1.2), (0, 8.0), (3, 8.0)])
def test_the_hessian_of_descent_has_the_predicted_edge_outlier_and_overlap(time, delta):
    """Before and after some steps; at finite d the edge is off by order d^(-2/3), an overlap by d^(-1/2)."""
    d = 600
    limits = [
        hessian_spectrum(dmft(PSEUDO, RETRIEVAL, delta, 0.5, time, seed=seed).law(time), delta) for seed in range(3)
    ]
    measured = []
    for seed in range(4):
        data = draw_data(PSEUDO, RETRIEVAL, delta, d, seed=seed)
        measured.append(lowest_curvatures(data, descend(data, 0.5, time, record=[time]).theta, 2))
    lowest = over_draws([one.values[0] for one in measured])
    overlap2 = over_draws([one.overlap2[0] for one in measured])
    if delta == 1.2:  # below the threshold
        assert all(one.outliers == () for one in limits)
        edge = over_draws([one.edge for one in limits])
        assert distances(lowest, edge, floor=4 / 3 * abs(edge.value) * d ** (-2 / 3)) < 3
        assert overlap2.value < 0.15
    else:
        assert distances(lowest, over_draws([one.outliers[0].value for one in limits])) < 3
        assert distances(overlap2, over_draws([one.outliers[0].overlap2 for one in limits]), floor=d**-0.5 / 3) < 3


def test_the_outlier_moves_with_descent():
    """The negative control: that of t = 0 is not that of t = 3."""
    first, later = (
        over_draws(
            [
                hessian_spectrum(dmft(PSEUDO, RETRIEVAL, 8.0, 0.5, time, seed=seed).law(time), 8.0).outliers[0].value
                for seed in range(3)
            ]
        )
        for time in (0, 3)
    )
    assert distances(first, later) > 5


@pytest.mark.slow
def test_at_step_twenty_lanczos_finds_what_the_limit_predicts():
    """GeLU, pseudo-Huber, δ = 8, η = 0.5; d = 1500."""
    delta, d = 8.0, 1500
    predicted = [hessian_spectrum(of_retrieval(seed).law(20), delta) for seed in range(8)]
    outlier = over_draws([one.outliers[0].value for one in predicted])
    overlap2 = over_draws([one.outliers[0].overlap2 for one in predicted])
    found = []
    for seed in range(8):
        data = draw_data(PSEUDO, RETRIEVAL, delta, d, seed=seed)
        found.append(lowest_curvatures(data, descend(data, 0.5, 20, record=[20]).theta, 2))
    assert distances(over_draws([one.values[0] for one in found]), outlier, floor=0.3 / math.sqrt(d)) < 3
    assert distances(over_draws([one.overlap2[0] for one in found]), overlap2, floor=1 / math.sqrt(d)) < 3
    edge = over_draws([one.edge for one in predicted])
    assert distances(over_draws([one.values[1] for one in found]), edge, floor=d ** (-2 / 3)) < 3


def wide_descent(network, one, delta, lr, steps, d, m, seed):
    """Train losses and mean squared norms of both kinds of neurons, in plain NumPy with m neurons."""
    rng = np.random.default_rng(seed)
    X, theta = rng.normal(size=(round(delta * d), d)), rng.normal(size=(d, m))
    theta /= np.linalg.norm(theta, axis=0)
    a = np.where(np.arange(m) < m // 2, 1.0, -1.0)
    y = np.asarray(one.link(jnp.asarray(X[:, : one.latents])))
    units = jax.jit(lambda V: (network.activation(V), network.activation.first(V)))
    rows = []
    for _ in range(steps + 1):
        values, slopes = (np.asarray(part, dtype=float) for part in units(jnp.asarray(X @ theta)))
        off = (values * a).mean(axis=1) - y
        norms = (theta**2).sum(axis=0)
        rows.append(((off**2).mean() / 2, norms[: m // 2].mean(), norms[m // 2 :].mean()))
        theta = theta - lr * X.T @ (a * off[:, None] * slopes) / len(X)
    return np.array(rows)


@pytest.mark.slow
def test_a_wide_network_follows_its_own_limit():
    """m = 60 neurons in d = 300 dimensions; what is left of order 1/m and 1/d is a few percent."""
    network, one = Network("gelu", "square", width="wide"), target("z + z**2/2")
    found = over_draws([wide_descent(network, one, 3.0, 1.0, 5, 300, 60, seed) for seed in range(8)])
    runs = [wide_dmft(network, one, 3.0, 1.0, 5, seed=seed) for seed in range(4)]
    theory = over_draws([np.c_[run.train.value, run.norm2] for run in runs])
    gap = abs(found.value - theory.value)
    assert np.all(gap < 3 * np.hypot(found.error, theory.error) + 0.02 * theory.value)
    still = over_draws([wide_descent(network, one, 30.0, 1.0, 5, 100, 60, seed) for seed in range(4)])
    assert np.max(abs(still.value - theory.value) / (3 * still.error + 0.02 * theory.value + 1e-3)) > 2


@pytest.mark.parametrize("time", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_wide_network_is_that_of_quadrature_at_first(time):
    network, one, delta = Network("gelu", "pseudo-huber", width="wide"), target("tanh(z)**2"), 3.0
    exact = initial_laws(network, one) if time == 0 else wide_step_laws(network, one, 1.0, delta)
    runs = [wide_dmft(network, one, delta, 1.0, time, units=32, seed=seed) for seed in range(4)]
    for block, law in enumerate(exact):
        low = law.quantile(1e-3)  # beyond it quadrature sees what draws do not
        there = hessian_spectrum(replace(law.clipped(low), lowest=low), delta)
        laws = [run.law(time, block).clipped(low) for run in runs]
        found = [hessian_spectrum(replace(one, lowest=low), delta) for one in laws]
        for name in ("edge", "margin"):
            each = over_draws([getattr(one, name) for one in found])
            assert abs(each.value - getattr(there, name)) < 3 * each.error + 2e-3, (block, name)


def test_a_wide_network_with_the_square_loss_says_that_g_is_unbounded():
    run = wide_dmft(Network("gelu", "square", width="wide"), target("tanh(z)**2"), 3.0, 1.0, 1, samples=500)
    assert np.isfinite(run.law(0).lowest)
    assert run.law(1).lowest == -math.inf
    labels_alone = wide_dmft(Network("quadratic", "square", width="wide"), "z**2", 3.0, 0.1, 1, samples=500)
    assert labels_alone.law(1).lowest == -math.inf


@pytest.mark.slow
@pytest.mark.parametrize(("time", "reference", "within", "largest_error"), [(5, 2.88, 0.1, 0.05), (20, 5.2, 0.25, 0.2)])
def test_thresholds_along_descent_are_those_of_another_implementation(time, reference, within, largest_error):
    """GeLU, z², pseudo-Huber, η = 0.5; from an independent implementation of the equations that was not kept."""
    found = threshold("z**2", "gelu", "pseudo-huber", lr=0.5, time=time)
    assert abs(found.value - reference) < math.hypot(within, 3 * found.error)
    assert found.error < largest_error
