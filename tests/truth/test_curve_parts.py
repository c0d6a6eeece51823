"""What a curve is said to show: plateaus and power laws of curves whose shape is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from phasecast import online
from phasecast.online.curve_parts import flat_stretch, left_at, straight_stretch
from phasecast.online.curve_result import Curve

TAU, HEIGHT = 40.0, 0.006


def curve_of(eps: np.ndarray, alpha: np.ndarray) -> Curve:
    return Curve(np.asarray(eps), 0.0, alpha=np.asarray(alpha))


@pytest.mark.parametrize("leaving", [300.0, 900.0])
def test_an_exponential_departure_is_left_where_it_reaches_a_tenth(leaving):
    """ε = ε*(1 − 0.1 e^{2(α − A)/τ}) falls below 0.9 ε* at A exactly."""
    alpha = np.linspace(1, leaving + 60, 2000)
    eps = HEIGHT * np.maximum(1 - 0.1 * np.exp(2 * (alpha - leaving) / TAU), 1e-3)
    curve = curve_of(eps, alpha)
    rest = flat_stretch(curve, HEIGHT, TAU)
    assert rest.present
    assert rest.level == pytest.approx(HEIGHT, rel=0.01)
    assert left_at(curve, rest) == pytest.approx(leaving, abs=1.0)


def test_a_plateau_that_lasts_is_not_left():
    alpha = np.linspace(1, 500, 200)
    curve = curve_of(HEIGHT * (1 + np.exp(-alpha / 20)), alpha)
    assert left_at(curve, flat_stretch(curve, HEIGHT, TAU)) == math.inf


@pytest.mark.parametrize(
    ("eps", "alpha", "words"),
    [
        (lambda a: 0.5 / a, np.linspace(1, 3000, 600), "never rests"),  # passes ε* without stopping
        (lambda a: 0.05 * np.exp(-a / 60), np.linspace(1, 600, 300), "never rests"),
        (lambda a: 1e-5 + 0 * a, np.linspace(1, 3000, 600), "never rests"),  # flat, but at the end of learning
        (lambda a: HEIGHT + 0 * a, np.linspace(1, 30, 60), "shorter"),
        (lambda a: 0.5 / a, np.linspace(1, 3500, 50), "coarse"),
    ],
)
def test_what_never_rests_has_no_plateau(eps, alpha, words):
    rest = flat_stretch(curve_of(eps(alpha), alpha), HEIGHT, TAU)
    assert not rest.present
    assert words in rest.missing


def test_the_power_law_of_one_linear_unit_is_seen_inside_its_window():
    """Eq. 9: with 4096 modes the slope is −β/(1+β) between the inverse rates of the first and the last mode."""
    expected = online.power_law_window(4096, 1.0, 0.1)
    grid = np.geomspace(0.1, 1e6, 300)
    exact = online.small_rate_curve(online.Spectrum.power_law(4096, 1.0), 0.1, 0.01, grid)
    straight = straight_stretch(exact, online.scaling_exponent(1.0), expected)
    assert straight.present
    assert expected[0] < straight.first < straight.last < expected[1]
    assert straight.last / straight.first > 100
    other = straight_stretch(exact, online.scaling_exponent(2.0), expected)
    assert not other.present
    assert "local slope goes from" in other.missing


@pytest.mark.parametrize(
    ("expected", "words"),
    [((1.0, 2.0), "too short"), ((math.nan, math.nan), "no window is known"), ((900.0, 1e6), "too little")],
)
def test_where_no_power_law_can_be_seen_the_reason_is_given(expected, words):
    alpha = np.geomspace(1, 1000, 50)
    straight = straight_stretch(curve_of(alpha**-0.5, alpha), -0.5, expected)
    assert not straight.present
    assert words in straight.missing


def test_a_bend_that_passes_the_exponent_is_no_power_law():
    alpha = np.geomspace(1, 1000, 200)
    straight = straight_stretch(curve_of(1 / (1 + (alpha / 30) ** 2), alpha), -0.5, (1.0, 1000.0))
    assert not straight.present
