"""The forecast of a curve, its parts, and the figures of the paper that need more than seconds."""

from __future__ import annotations

import numpy as np
import pytest

from phasecast import online
from phasecast.core.errors import BadInput
from phasecast.core.results import Result, Status


@pytest.mark.slow
@pytest.mark.parametrize(("modes", "median"), [(1, 2610), (4, 1725), (16, 985), (64, 880)])
def test_the_plateau_shortens_with_the_number_of_eigenvalues(modes, median):
    """Figure 1: the median over ten draws of the α at which ε falls below 1e-3."""
    spectrum = online.Spectrum.power_law(modes, 1.0)
    starts = [online.OrderParameters.draw(2, 2, spectrum, inputs=1024, sigma=0.01, seed=seed) for seed in range(10)]
    curves = online.solve_many(starts, spectrum, 0.1, np.linspace(1, 6000, 1200), order=2)
    assert np.median([curve.first_below(1e-3) for curve in curves]) == pytest.approx(median, rel=0.1)


@pytest.mark.slow
def test_forty_units_are_solved_within_three_minutes():
    """Figure 6, K = M = 40: at the end of α = 2·10⁴ it has just left its plateau and shows no power law yet."""
    spectrum = online.Spectrum.power_law(512, 1.0)
    start = online.OrderParameters.draw(40, 40, spectrum, inputs=512, sigma=1e-6, seed=0)
    grid = np.linspace(100, 2e4, 100)
    curve = online.solve(start, spectrum, 0.01, grid)
    assert curve.status is Status.OK
    height = online.plateau(curve.T1).eps
    on_plateau = (grid > 4000) & (grid < 10_000)
    np.testing.assert_allclose(curve.eps[on_plateau], height, rtol=0.2)
    assert curve.eps[-1] < 0.8 * height


@pytest.mark.slow
def test_a_forecast_has_all_its_parts_and_survives_json():
    found = online.curve(modes=4, exponent=1.0, lr=0.5, inputs=400, draws=3, alphas=np.linspace(1, 600, 240))
    assert found.status is Status.OK
    assert found.plateau is not None
    assert found.escape is not None
    assert found.slope_at_end is not None
    assert abs(found.plateau["eps"] - online.plateau(np.eye(2)).eps) < 3 * found.plateau["spread"]
    assert found.escape["tau"] > 0
    assert found.escape["left_at"] is not None
    assert found.escape["left_at"] < 600
    assert found.slope_at_end["predicted"] == -0.5
    assert found.slope_at_end["window"] is None  # four modes have no power law
    assert "not seen" in str(found)
    assert Result.from_json(found.to_json()) == found
    assert len(found.figure().axes) == 1
    assert "plateau ε*" in str(found)


def test_the_second_order_is_the_default():
    given = {"modes": 2, "exponent": 1.0, "lr": 0.5, "inputs": 400, "draws": 1, "alphas": [1, 10, 30]}
    first, second, default = online.curve(**given, order=1), online.curve(**given, order=2), online.curve(**given)
    np.testing.assert_array_equal(default.eps, second.eps)
    assert default.eps[-1] > 1.02 * first.eps[-1]  # the noise of the steps adds to ε


def test_a_linear_forecast_warns_where_sgd_would_diverge():
    found = online.curve(1, 1, modes=256, exponent=1.0, lr=1.5, sigma=1.0, alphas=[1, 2, 3, 4], activation="linear",
                         order=2, draws=2)  # fmt: skip
    assert found.status is Status.WARNING
    assert "diverges from η = 1.003" in found.reasons[0]
    assert not found.plateau


def test_more_linear_students_than_teachers_bear_a_larger_rate():
    found = online.curve(4, 2, modes=8, exponent=1.0, lr=3.0, alphas=[1, 2, 3, 4], activation="linear", order=2,
                         draws=2, inputs=8000)  # fmt: skip
    assert found.status is Status.OK


@pytest.mark.slow
def test_the_mean_of_linear_draws_is_the_closed_curve():
    grid = [1, 10, 100]
    found = online.curve(1, 1, modes=64, exponent=1.0, lr=0.5, sigma=1.0, alphas=grid, activation="linear", order=2,
                         draws=200)  # fmt: skip
    exact = online.linear_curve(64, 1.0, 0.5, 1.0, grid).eps
    assert np.all(abs(found.eps - exact) < 4 * np.asarray(found.error))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"modes": 4}, "not given"),
        ({"modes": 4, "exponent": 1.0, "spectrum": online.Spectrum.power_law(4, 1.0)}, "one of them"),
        pytest.param({"modes": 4, "exponent": 1.0, "lr": 4.7}, "stability limit", marks=pytest.mark.slow),
        ({"modes": 4, "exponent": 1.0, "lr": 1.2, "students": 2, "teachers": 4, "activation": "linear"}, "use η < 1$"),
        ({"modes": 4, "exponent": 1.0, "activation": "relu"}, "erf, linear"),
    ],
)
def test_what_cannot_be_forecast_is_bad_input(given, words):
    with pytest.raises(BadInput, match=words):
        online.curve(**{"lr": 0.1, "alphas": [1, 2], **given})
