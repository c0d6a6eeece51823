"""Does the error bar of volume scaling hold, and does a wrong value fail?"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from phasecast.coefficients import Coefficient, monomial, of_landscape, volume_scaling
from phasecast.coefficients.volume import fit_volume
from phasecast.core import Comparison, Problem, Status, Verdict
from phasecast.core.errors import BadInput
from phasecast.models import LANDSCAPES

SEEDS = range(16)


@pytest.fixture(scope="module", params=LANDSCAPES)
def repeated(request):
    """One landscape measured with many seeds."""
    landscape = LANDSCAPES[request.param]
    return landscape, [volume_scaling(landscape.problem(), seed=seed) for seed in SEEDS]


def test_the_error_bar_covers_the_truth(repeated):
    """Over seeds, (λ̂ − λ)/error has mean 0 and variance 1: a χ² of 16 within its 0.01% tails."""
    landscape, measured = repeated
    exact = float(of_landscape(landscape).value)
    z = np.array([(m.estimate - exact) / m.error for m in measured])
    assert 2.2 < np.sum(z**2) < 46
    assert abs(z.mean()) < 4 / np.sqrt(len(z))


def test_the_right_multiplicity_is_seen_every_time(repeated):
    landscape, measured = repeated
    defended = [m for m in measured if m.status is Status.OK]
    assert len(defended) >= len(measured) / 2
    assert {m.diagnostics["multiplicity"] for m in defended} == {of_landscape(landscape).multiplicity}


def test_a_wrong_lambda_is_found_out(repeated):
    """The negative control: two percent beside the truth must differ."""
    landscape, measured = repeated
    wrong = Coefficient(of_landscape(landscape).value * Fraction(51, 50))
    defended = [m for m in measured if m.status is Status.OK]
    assert all(Comparison(wrong, m).verdict is Verdict.DIFFERS for m in defended)


def test_parameters_may_be_a_tree_and_need_not_be_two():
    problem = Problem(lambda w: (w["a"] * w["b"][0] * w["b"][1]) ** 2, {"a": 0.0, "b": [0.0, 0.0]})
    assert "tell multiplicity 2 from 3" in volume_scaling(problem).reasons[0]
    measured = volume_scaling(problem, samples=1_000_000)
    assert Comparison(monomial([2, 2, 2]), measured).verdict is Verdict.AGREES
    assert measured.diagnostics["multiplicity"] == 3


def test_a_rotated_valley_is_measured_all_the_same():
    measured = volume_scaling(Problem(lambda w: (w[0] + w[1]) ** 2 / 2, np.zeros(2)), samples=400_000, blocks=16,
                              epsilons=np.logspace(-9, -3, 9))  # fmt: skip
    assert abs(measured.estimate - 0.5) < 4 * measured.error


def test_too_few_draws_are_refused():
    few = volume_scaling(LANDSCAPES["x²+y²"].problem(), samples=500, blocks=8)
    assert few.status is Status.REFUSED
    assert "times as many samples" in few.reasons[0]


def test_volumes_of_zero_are_refused():
    assert fit_volume(np.zeros((8, 9)), np.logspace(-28, -12, 9), parameters=2).status is Status.REFUSED


def test_a_slope_that_keeps_changing_is_refused():
    """A quadratic bowl inside a quartic one: the slope changes from ½ to ¼ within the ladder."""
    epsilons = np.logspace(-28, -12, 9)
    volumes = epsilons**0.5 * (1 + (epsilons / 1e-20) ** -0.25)
    noise = 1 + 1e-4 * np.random.default_rng(0).normal(size=(32, 9))
    refused = fit_volume(volumes * noise, epsilons, parameters=2)
    assert refused.status is Status.REFUSED
    assert "still moves" in refused.reasons[0]


@pytest.mark.parametrize(
    ("problem", "arguments", "words"),
    [
        (Problem(lambda w: w @ w, np.zeros(7)), {}, "at most 6 parameters"),
        (Problem(lambda w: w @ w + 0.3, np.zeros(2)), {}, "rounding noise"),
        (Problem(lambda w: np.inf * (1 + w @ w), np.zeros(2)), {}, "is inf"),
        (Problem(lambda w: w @ w, np.zeros(2)), {"radius": 0.0}, "positive half-width"),
        (Problem(lambda w: w @ w, np.zeros(2)), {"blocks": 2}, "at least 8"),
        (Problem(lambda w: w @ w, np.zeros(2)), {"epsilons": np.logspace(-4, -2, 3)}, "too few to tell"),
    ],
)
def test_what_cannot_be_measured_is_bad_input(problem, arguments, words):
    with pytest.raises(BadInput, match=words):
        volume_scaling(problem, **arguments)
