"""The functions that check theorems, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from phasecast.claims.grokking_cullen2026.theorems import volume_slope
from phasecast.claims.survey_seyoum2025.errors import bayes_errors, hinge_evidence


def test_bayes_errors_are_those_of_a_conjugate_posterior():
    sample, beta, prior_precision = np.random.default_rng(1).normal(size=30), 2.0, 4.0
    grid = np.linspace(-2, 2, 4001)
    prior = np.exp(-prior_precision * grid**2 / 2)
    bg, bt, gibbs, cv, v = bayes_errors(grid, prior / prior.sum(), sample, beta)

    def posterior(rest):
        precision = prior_precision + beta * len(rest)
        return beta * rest.sum() / precision, 1 / precision

    def log_ratio(x, mean, variance):  # log of the true density over the predictive one
        return (np.log(1 + variance) + (x - mean) ** 2 / (1 + variance) - x**2) / 2

    mean, variance = posterior(sample)
    left_out = [log_ratio(x, *posterior(np.delete(sample, i))) for i, x in enumerate(sample)]
    assert bg == pytest.approx((math.log(1 + variance) + (1 + mean**2) / (1 + variance) - 1) / 2, abs=1e-10)
    assert bt == pytest.approx(np.mean(log_ratio(sample, mean, variance)), abs=1e-10)
    assert gibbs == pytest.approx(np.mean((sample - mean) ** 2 + variance - sample**2) / 2, abs=1e-10)
    assert cv == pytest.approx(np.mean(left_out), abs=1e-10)
    assert v == pytest.approx(np.sum(variance * (sample - mean) ** 2 + variance**2 / 2), abs=1e-10)


def test_evidence_of_one_hinge_is_gaussian():
    n = np.array([1.0, 1e3, 1e9])
    assert hinge_evidence(1, n) == pytest.approx(-np.log(1 + 2 * n / 3) / 2)


def test_evidence_of_two_hinges_agrees_with_draws():
    rng = np.random.default_rng(0)
    x, n = np.linspace(0, 1, 401), 20.0
    gap, c = rng.uniform(0, 1 / 3, 20_000), rng.normal(size=(2, 20_000))
    outputs = c[0][:, None] * x + c[1][:, None] * np.maximum(x - gap[:, None], 0)
    draws = np.exp(-n * np.trapezoid(outputs**2, x, axis=1))
    error = draws.std() / math.sqrt(draws.size)
    assert abs(draws.mean() - math.exp(hinge_evidence(2, np.array([n]))[0])) < 4 * error


def test_volume_slope_finds_a_valley_that_runs_askew_and_no_other_value():
    found = volume_slope(lambda w: (w[0] + w[1]) ** 2, [(-1, 1)] * 3, (1e-6, 1e-4), 1_000_000, "λ")
    assert abs(found.value - 0.5) < 4 * found.error < 0.1
    assert abs(found.value - 1.0) > 10 * found.error
