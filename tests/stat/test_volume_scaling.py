"""Does the error bar of volume scaling hold, and does a wrong value fail?"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from phasecast.coefficients import Coefficient, of_landscape, volume_scaling
from phasecast.coefficients.small_problems.volume_scaling import fit_volume
from phasecast.core import Comparison, Problem, Status, Verdict
from phasecast.core.errors import BadInput
from phasecast.models import LANDSCAPES

pytestmark = pytest.mark.usefixtures("full_optimisation")

SEEDS = range(16)
SAMPLES = 25_000  # a quarter of the default: whether an error holds does not depend on its size


@pytest.fixture(scope="module", params=LANDSCAPES)
def repeated(request):
    """One landscape measured with many seeds."""
    landscape = LANDSCAPES[request.param]
    known = of_landscape(landscape).multiplicity
    problem = landscape.problem()
    return landscape, [volume_scaling(problem, multiplicity=known, samples=SAMPLES, seed=seed) for seed in SEEDS]


def test_the_error_bar_covers_the_truth(repeated):
    """Over seeds, (λ̂ − λ)/error has mean 0 and variance 1 at most: a χ² of 16 below its 0.01% tail.

    It may be less, because the error also covers what is left of the approach to the law.
    """
    landscape, measured = repeated
    exact = float(of_landscape(landscape).value)
    z = np.array([(m.estimate - exact) / m.error for m in measured])
    assert 1.0 < np.sum(z**2) < 46
    assert abs(z.mean()) < 4 / np.sqrt(len(z))


def test_every_measurement_of_a_known_law_is_defended(repeated):
    _, measured = repeated
    assert [m.reasons for m in measured if m.status is not Status.OK] == []


@pytest.mark.parametrize("name", LANDSCAPES)
def test_without_a_known_multiplicity_a_logarithm_is_refused_and_its_absence_is_seen(name):
    measured = volume_scaling(LANDSCAPES[name].problem())
    if of_landscape(LANDSCAPES[name]).multiplicity == 1:
        assert measured.status is Status.OK
    else:
        assert "still moves" in measured.reasons[0]


def test_a_multiplicity_too_small_is_refused_and_one_too_large_costs_precision_not_truth():
    for name in LANDSCAPES:
        predicted = of_landscape(LANDSCAPES[name])
        wrong = volume_scaling(LANDSCAPES[name].problem(), multiplicity=3 - predicted.multiplicity)
        if predicted.multiplicity == 2:
            assert wrong.status is Status.REFUSED, name
        else:
            assert Comparison(predicted, wrong).verdict is not Verdict.DIFFERS, name


def test_a_wrong_lambda_is_found_out(repeated):
    """The negative control: two percent beside the truth must differ."""
    landscape, measured = repeated
    wrong = Coefficient(of_landscape(landscape).value * Fraction(51, 50))
    defended = [m for m in measured if m.status is Status.OK]
    assert all(Comparison(wrong, m).verdict is Verdict.DIFFERS for m in defended)


def test_parameters_may_be_a_tree_and_need_not_be_two():
    problem = Problem(lambda w: (w["a"] * w["b"][0]) ** 2 + w["b"][1] ** 2, {"a": 0.0, "b": [0.0, 0.0]})
    measured = volume_scaling(problem, multiplicity=2, samples=1_000_000)  # ½ with m = 2, plus ½
    assert Comparison(Coefficient(1), measured).verdict is Verdict.AGREES


CUSP = Problem(lambda w: (w[0] ** 2 - w[1] ** 3) ** 2, np.zeros(2))


@pytest.mark.parametrize("samples", [100_000, 400_000, pytest.param(1_600_000, marks=pytest.mark.slow)])
def test_a_law_that_is_approached_slowly_is_within_its_error_or_refused(samples):
    """The cusp has λ = 5/12, approached like ε^(1/12): with few draws it looks settled at a wrong slope."""
    measured = volume_scaling(CUSP, epsilons=np.logspace(-14, -6, 17), samples=samples)
    assert measured.status is Status.REFUSED or abs(measured.estimate - 5 / 12) < 3 * measured.error
    given = volume_scaling(CUSP, epsilons=np.logspace(-14, -6, 17), samples=samples, multiplicity=1)
    assert given.status is Status.REFUSED or abs(given.estimate - 5 / 12) < 3 * given.error


@pytest.mark.parametrize("seed", [0, 1916590490])
def test_a_second_pole_nearby_is_within_the_error_or_refused(seed):
    """λ = 3/10, and the next pole 1/30 away: most draws are refused, those of the second seed seem settled."""
    problem = Problem(
        lambda w: (
            w[0] ** 2 * w[1] ** 6 + 4 * w[0] ** 4 * w[1] ** 2 + 3 * w[0] ** 6 + 3 * w[0] ** 6 * w[1] ** 4
            + 5 * w[0] ** 8 * w[1] ** 6
        ),
        np.zeros(2),
    )  # fmt: skip
    measured = volume_scaling(problem, seed=seed)
    assert (measured.status is Status.REFUSED) == (seed == 0)
    assert abs(measured.estimate - 0.3) < 3 * measured.error


def test_a_rotated_valley_is_measured_all_the_same():
    measured = volume_scaling(Problem(lambda w: (w[0] + w[1]) ** 2 / 2, np.zeros(2)), samples=400_000, blocks=20,
                              epsilons=np.logspace(-9, -3, 9))  # fmt: skip
    assert abs(measured.estimate - 0.5) < 4 * measured.error


def test_too_few_draws_are_refused():
    few = volume_scaling(LANDSCAPES["x²+y²"].problem(), samples=500, blocks=20)
    assert few.status is Status.REFUSED
    assert "times as many samples" in few.reasons[0]


def test_volumes_of_zero_are_refused():
    for volumes in (np.zeros((20, 17)), np.ones((20, 17))):
        assert fit_volume(volumes, np.logspace(-28, -12, 17)).status is Status.REFUSED


def test_a_slope_that_keeps_changing_is_refused():
    """A quadratic bowl inside a quartic one: the slope changes from ½ to ¼ within the ladder."""
    epsilons = np.logspace(-28, -12, 17)
    volumes = 0.1 * epsilons**0.5 * (1 + (epsilons / 1e-20) ** -0.25)
    noise = 1 + 1e-4 * np.random.default_rng(0).normal(size=(32, 17))
    refused = fit_volume(volumes * noise, epsilons)
    assert refused.status is Status.REFUSED
    assert "still moves" in refused.reasons[0]


@pytest.mark.parametrize(
    ("problem", "arguments", "words"),
    [
        (Problem(lambda w: w @ w, np.zeros(7)), {}, "at most 6 parameters"),
        (Problem(lambda w: w @ w, np.zeros(2)), {"samples": 1}, "an integer ≥ 2"),
        (Problem(lambda w: w @ w, np.zeros(2)), {"epsilons": [1e-3, 1e-3]}, "positive and increasing"),
        (Problem(lambda w: np.inf * (1 + w @ w), np.zeros(2)), {}, "is inf"),
        (Problem(lambda w: w @ w, np.zeros(2)), {"radius": 0.0}, "positive half-width"),
        (Problem(lambda w: w @ w, np.zeros(2)), {"blocks": 2}, "an integer ≥ 20"),
        (Problem(lambda w: w @ w, np.zeros(2)), {"epsilons": np.logspace(-4, -2, 3)}, "too few to fit"),
    ],
)
def test_what_cannot_be_measured_is_bad_input(problem, arguments, words):
    with pytest.raises(BadInput, match=words):
        volume_scaling(problem, **arguments)
