"""What theory says about Bayesian learning, against exact small models, and what criteria say about them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from phasecast.claims.survey_seyoum2025.errors import bayes_errors
from phasecast.core.errors import BadInput
from phasecast.core.statistics import mean_of
from phasecast.posterior import exact_learning as exact
from phasecast.posterior.scores.criteria import criteria

pytestmark = pytest.mark.bare

SAMPLE = np.random.default_rng(3).normal(size=60)


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize("beta", [0.2, 1.0, 2.0])
def test_derivatives_of_the_free_energy(power, beta):
    model, step = exact.power_model(power), 1e-4
    mean, variance = model.energy(SAMPLE, beta)
    slope = (model.free_energy(SAMPLE, beta + step) - model.free_energy(SAMPLE, beta - step)) / (2 * step)
    bend = (model.energy(SAMPLE, beta + step)[0] - model.energy(SAMPLE, beta - step)[0]) / (2 * step)
    assert slope == pytest.approx(mean, rel=1e-6)
    assert bend == pytest.approx(-variance, rel=1e-3)
    assert model.free_energy(SAMPLE, beta) == pytest.approx(beta * mean + model.divergence(SAMPLE, beta), abs=1e-9)


def test_a_step_of_the_free_energy_is_the_loss_on_the_next_observation():
    model = exact.power_model(2)
    step = model.free_energy(SAMPLE) - model.free_energy(SAMPLE[:-1])
    assert step == pytest.approx(-model.predictive(SAMPLE[:-1], SAMPLE[-1:])[0], abs=1e-10)


def test_the_mean_step_is_the_mean_generalisation_loss():
    """E F(n+1) − E F(n) against λ/n plus the entropy, over samples, for λ = 1/2 and 1/4."""
    for power in (1, 2):
        model, n = exact.power_model(power), 400
        rng = np.random.default_rng(power)
        steps, losses = [], []
        for _ in range(80):
            x = rng.normal(size=n)
            nodes, weights = np.polynomial.hermite_e.hermegauss(40)
            losses.append(-(weights @ model.predictive(x, nodes)) / weights.sum())
            steps.append(np.mean(model.predictive(x, rng.normal(size=50))))
        entropy = (1 + math.log(2 * math.pi)) / 2
        found = mean_of(np.array(losses) - entropy)
        assert abs(n * found.value - exact.learning_coefficient(power)) < 4 * n * found.error
        difference = mean_of(np.array(steps) + np.array(losses))
        assert abs(difference.value) < 4 * difference.error


def test_the_free_energy_of_a_normal_mean_is_its_closed_form():
    """w uniform on (−r, r), far from its ends: F = n/2 log 2π + Σ(x−x̄)²/2 + ½ log(n/2π) + log 2r."""
    model, n = exact.power_model(1, radius=4.0, nodes=400), len(SAMPLE)
    spread = np.sum((SAMPLE - SAMPLE.mean()) ** 2) / 2
    closed = n / 2 * math.log(2 * math.pi) + spread + math.log(n / (2 * math.pi)) / 2 + math.log(8)
    assert model.free_energy(SAMPLE) == pytest.approx(closed, abs=1e-9)


def test_the_estimate_of_lambda_with_the_truth_as_reference_is_biased():
    """β₀(E[nL] − nL(w₀)) at β₀ = 1/log n lies about λβ₀ below λ: the noise that is fitted (Imai 2019)."""
    n = 1000
    beta = 1 / math.log(n)
    rng = np.random.default_rng(0)
    model = exact.power_model(1)
    found = []
    for _ in range(200):
        x = rng.normal(size=n)
        at_truth = np.sum(x**2) / 2 + n * math.log(2 * math.pi) / 2
        found.append(beta * (model.energy(x, beta)[0] - at_truth))
    bias = mean_of(np.array(found) - 0.5)
    assert abs(bias.value - -0.5 * beta) < 4 * bias.error
    assert bias.value < -3 * bias.error


@pytest.mark.parametrize(("power", "expected"), [(1, 0.500), (2, 0.248), (3, 0.165)])
def test_generalisation_and_cross_validation_errors_sum_to_two_lambda(power, expected):
    found = exact.sum_law(power, 1000, 60)
    assert abs(found.value - expected) < 0.02
    assert abs(float(found) - exact.learning_coefficient(power)) < 4 * float(found.error) + 2 / 1000


@pytest.mark.parametrize(("power", "beta"), [(1, 1.0), (2, 0.5)])
def test_errors_are_those_of_the_claims_and_of_the_criteria(power, beta):
    """The same numbers three ways, for one sample."""
    n = 30
    found = exact.learning_errors(power, n, 2, beta, seed=5)
    x = np.random.default_rng([5, power, n]).normal(size=n)
    means = exact.HALF_WIDTH / math.sqrt(n) * np.linspace(-1, 1, exact.NODES) ** power
    theirs = bayes_errors(means, np.full(exact.NODES, 1 / exact.NODES), x, beta)
    ratio = np.outer(means, x) - means[:, None] ** 2 / 2
    ours = criteria(ratio, beta, beta * ratio.sum(axis=1))
    first = exact.Errors(*(part[0] for part in found))
    assert first == pytest.approx(theirs, abs=1e-10)
    assert first.training == pytest.approx(ours.bayes_training_loss, abs=1e-10)
    assert first.cross_validation == pytest.approx(ours.loo, abs=1e-10)
    assert first.variance == pytest.approx(ours.functional_variance, abs=1e-9)
    assert first.waic(n, beta) == pytest.approx(ours.waic, abs=1e-10)


@pytest.mark.parametrize(("beta", "power_of_n"), [(2.0, -1.5), (0.5, -1.5), (1.0, -2.0)])
def test_how_fast_waic_and_cross_validation_come_together(beta, power_of_n):
    found = exact.waic_gap_exponent(2, beta, sizes=(100, 400, 1600), datasets=60)
    assert abs(found.value - power_of_n) < 4 * found.error
    assert found.error < 0.12


def test_a_regular_model_with_a_symmetric_score_is_faster():
    found = exact.waic_gap_exponent(1, 1.0, sizes=(100, 400), datasets=30, family="normal")
    assert found.value < -2.8


@pytest.mark.parametrize("power", [1, 2])
def test_generalisation_and_cross_validation_mirror_each_other(power):
    ratio, correlation = exact.fluctuations(power, 800, 100)
    assert ratio == pytest.approx(1, abs=0.05)
    assert correlation < -0.99


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_errors_by_lambda_and_nu(beta):
    """n E Bg = (λ−ν)/β + ν and n E Bt = (λ−ν)/β − ν with ν = β E V/2 (survey eq. 2), at λ = 1/4."""
    n, datasets, lam = 400, 150, 0.25
    found = exact.learning_errors(2, n, datasets, beta)
    nu = beta / 2 * found.variance  # the same datasets, so that most of the noise is shared
    for errors, sign in ((found.generalisation, 1), (found.training, -1)):
        off = mean_of(n * errors - ((lam - nu) / beta + sign * nu))
        assert abs(float(off)) < 4 * float(off.error) + 3 / n


def test_bad_input():
    with pytest.raises(BadInput, match="unknown family"):
        exact.learning_errors(1, 10, 2, family="cauchy")
    with pytest.raises(BadInput, match="log prior has shape"):
        exact.GridModel(np.zeros(3), np.zeros(2), lambda w, x: w)
    with pytest.raises(BadInput, match="power"):
        exact.power_model(0)
