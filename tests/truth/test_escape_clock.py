"""The escape clock: noise of one step by direct sampling, the limit without noise, and a loss alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import erf

from phasecast.core.errors import BadInput
from phasecast.core.results import Status
from phasecast.forecasting.escape import EscapeClock, forecast_escape_of_loss
from phasecast.forecasting.escape.escape_clock import _Setting
from phasecast.online import OrderParameters, Spectrum, plateau, solve

LR = 0.8


def near_plateau(inputs: int, apart: float, spectrum: Spectrum):
    """Weights on the symmetric plateau of random teachers, with small differences between students."""
    rng = np.random.default_rng(4)
    B = rng.standard_normal((2, inputs))
    values = np.repeat(spectrum.eigenvalues, spectrum.inputs_per_mode(inputs))
    at = plateau((B * values) @ B.T / inputs)
    J = np.tile(at.coefficients @ B, (2, 1)) + apart * rng.standard_normal((2, inputs))
    return J, B, values


@pytest.mark.parametrize("modes", [1, 4])
def test_the_noise_is_that_of_single_steps(modes):
    spectrum, inputs, rng = Spectrum.power_law(modes, 0.5), 64, np.random.default_rng(0)
    J, B, values = near_plateau(inputs, 0.2, spectrum)
    setting = _Setting.of(OrderParameters.from_weights(J, B, spectrum, rotate=False), spectrum, LR, inputs)
    rows = rng.standard_normal((20000, inputs)) * np.sqrt(values)
    x, y, z = (rows @ part.T / np.sqrt(inputs) for part in (J, B, B * values))
    error = erf(y / np.sqrt(2)).sum(axis=1) / np.sqrt(2) - erf(x / np.sqrt(2)).sum(axis=1) * np.sqrt(2) / 2
    slope = np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2)
    step = LR * np.sqrt(2) / 2 * (slope * error[:, None])[:, :, None] * z[:, None, :] / inputs
    change = setting.growing(step - step.mean(axis=1, keepdims=True)).reshape(len(rows), -1)
    sampled = inputs * change.T @ change / len(rows)  # N steps per unit of α
    R, Q = (J * values) @ B.T / inputs, (J * values) @ J.T / inputs
    computed = setting.scatter(R, Q, rng)
    assert np.trace(computed) == pytest.approx(np.trace(sampled), rel=0.15)
    assert np.abs(computed - sampled).max() < 0.15 * np.trace(sampled)


def test_without_noise_the_clock_is_the_solution_and_with_it_the_interval_holds_it():
    spectrum = Spectrum.power_law(1, 1.0)
    start = OrderParameters.draw(2, 2, spectrum, inputs=100, sigma=0.1, seed=3)
    clock = EscapeClock.of(start, spectrum, LR, inputs=10**12)
    assert clock.face is not None
    grid = np.linspace(0, 6 * clock.setting.tau, 200)
    end = solve(start, spectrum, LR, grid, order=2).first_below(0.5 * clock.setting.at.eps)
    quiet = clock.forecast()
    assert quiet.value == pytest.approx(end, rel=1e-3)
    assert quiet.high is not None
    assert quiet.high - quiet.low < 0.01 * clock.setting.tau
    noisy = EscapeClock(_Setting.of(start, spectrum, LR, 100), clock.face).forecast()
    assert noisy.high is not None
    assert noisy.low < end < noisy.high
    assert noisy.high - noisy.low > 0.1 * clock.setting.tau
    late = solve(start, spectrum, LR, np.linspace(0, 1.5 * end, 50), order=2)
    assert clock.forecast(late).status is Status.REFUSED
    assert "left already" in clock.forecast(late).reasons[0]
    first = solve(start, spectrum, LR, [0, 0.1], order=2)
    assert "not reached" in clock.forecast(first).reasons[0]


def test_several_growing_directions_are_refused():
    spectrum = Spectrum.power_law(1, 1.0)
    start = OrderParameters.draw(3, 3, spectrum, inputs=100, sigma=0.1, seed=3)
    made = EscapeClock(_Setting.of(start, spectrum, LR, 100), None).forecast()
    assert "2 directions" in made.reasons[0]


def test_one_student_has_no_plateau():
    spectrum = Spectrum.power_law(1, 1.0)
    with pytest.raises(BadInput, match="single student"):
        EscapeClock.of(OrderParameters.draw(1, 2, spectrum, inputs=10, sigma=0.1), spectrum, LR, inputs=10)


def test_a_loss_alone_is_dated_when_its_fall_is_visible_and_not_before():
    rng = np.random.default_rng(0)
    steps = np.arange(0.0, 2000.0, 5)
    loss = 0.3 / (1 + np.exp((steps - 1500) / 100)) * (1 + 0.002 * rng.standard_normal(len(steps)))
    flat, late = steps <= 800, steps <= 1350
    assert "not visibly" in forecast_escape_of_loss(steps[flat], loss[flat]).reasons[0]
    made = forecast_escape_of_loss(steps[late], loss[late])
    assert made.high is None
    assert 1350 < made.low < 1500
    assert "has left" in forecast_escape_of_loss(steps, loss).reasons[0]
    falling = np.exp(-steps / 300)
    assert forecast_escape_of_loss(steps, falling).status is Status.REFUSED


@pytest.mark.parametrize(
    ("times", "losses", "words"),
    [([1, 2], [1, 2, 3], "shape"), ([2, 1], [1, 2], "increase"), ([1, 2], [1, np.nan], "finite")],
)
def test_columns_that_are_no_curve_are_bad_input(times, losses, words):
    with pytest.raises(BadInput, match=words):
        forecast_escape_of_loss(times, losses)
