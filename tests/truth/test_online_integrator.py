"""The integrator has the order that its table promises, keeps its tolerance, and takes the steps of diffrax."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from phasecast.core.precision import float64
from phasecast.online.numerics.integrator import ERROR, INTERPOLATION, A, Control, Integration, begin, integrate
from phasecast.online.numerics.stabilised import chebyshev_step, follow, stages_for

GRID = np.array([0.0, 0.3, 1.1, 2.0, 4.0])
FIRST = np.array([[0.1, 0.7], [0.5, 1.9]])


def logistic(y):
    return y * (1 - y)


def exact(t: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-t[None, :, None]) * (1 / FIRST[:, None] - 1))


@jax.jit
def compiled(start, grid, control):
    return integrate(logistic, lambda y: (y, y.sum(axis=1)), start, grid, control)


def solve(rtol: float = 1e-8, fixed: float = 0.0) -> Integration:
    control = Control(*map(np.asarray, (rtol, rtol * 1e-4, fixed, 1e-13 * GRID[-1], 10_000)))
    with float64():
        outcome = compiled(begin(logistic, lambda y: (y, y.sum(axis=1)), FIRST, control), GRID, control)
        return jax.tree.map(np.asarray, outcome)


def test_the_table_meets_the_conditions_of_its_order():
    """Hairer, Nørsett & Wanner, II.1: trees up to order 5 that a linear and a quadrature problem see, and of 4."""
    b, c = A[-1], A.sum(axis=1)
    for power in range(5):
        assert b @ c**power == pytest.approx(1 / (power + 1), abs=1e-13)
    assert b @ A @ c == pytest.approx(1 / 6, abs=1e-13)
    assert b @ A @ A @ c == pytest.approx(1 / 24, abs=1e-13)
    assert b @ A @ A @ A @ c == pytest.approx(1 / 120, abs=1e-13)
    assert (b * c) @ A @ c == pytest.approx(1 / 8, abs=1e-13)
    embedded = b - ERROR
    for power in range(4):
        assert embedded @ c**power == pytest.approx(1 / (power + 1), abs=1e-13)
    assert abs(embedded @ c**4 - 1 / 5) > 1e-5  # of fourth order only, or it would show no error
    for theta in (0.25, 0.7, 1.0):
        weights = INTERPOLATION @ theta ** np.arange(1, 5)
        for power in range(4):
            assert weights @ c**power == pytest.approx(theta ** (power + 1) / (power + 1), abs=1e-12)
    assert INTERPOLATION.sum(axis=1) == pytest.approx(b, abs=1e-12)


def test_halving_a_fixed_step_gains_at_least_five_powers_of_two_at_the_end_and_four_within_steps():
    coarse, fine = (solve(fixed=step) for step in (0.25, 0.125))
    assert (coarse.steps == 16).all()
    assert (fine.steps == 32).all()
    errors = [np.abs(one.observed[0] - exact(GRID)).max(axis=(0, 2)) for one in (coarse, fine)]
    assert errors[0][-1] / errors[1][-1] > 2**5
    assert (errors[0][1:3] / errors[1][1:3] > 2**3.5).all()
    assert errors[1][0] < 1e-15


@pytest.mark.parametrize("rtol", [1e-5, 1e-8])
def test_the_error_follows_the_tolerance(rtol):
    outcome = solve(rtol)
    assert outcome.success.all()
    error = np.abs(outcome.observed[0] - exact(GRID)).max()
    assert rtol / 1e4 < error < 100 * rtol
    assert outcome.observed[1] == pytest.approx(outcome.observed[0].sum(axis=2))
    assert outcome.y == pytest.approx(outcome.observed[0][:, -1], abs=1e-14)


def test_a_solution_that_explodes_is_infinite_beyond_what_was_reached():
    """y' = y² from 1 ends at t = 1; from −1 it does not."""
    control = Control(*map(np.asarray, (1e-6, 1e-8, 0.0, 4e-13, 10_000)))
    first, grid = np.array([[1.0], [-1.0]]), np.array([0.0, 0.5, 4.0])
    with float64():
        start = begin(lambda y: y**2, lambda y: (y,), first, control)
        outcome = jax.jit(lambda *given: integrate(lambda y: y**2, lambda y: (y,), *given))(start, grid, control)
    assert outcome.success.tolist() == [False, True]
    values = np.asarray(outcome.observed[0])[:, :, 0]
    assert values[:, :2] == pytest.approx(np.array([[1, 2], [-1, -1 / 1.5]]), rel=1e-4)
    assert np.isinf(values[0, 2])
    assert values[1, 2] == pytest.approx(-0.2, rel=1e-4)


def test_steps_and_values_are_those_of_diffrax():
    diffrax = pytest.importorskip("diffrax")
    ours = solve(1e-6)
    with float64():
        term = diffrax.ODETerm(lambda t, y, args: logistic(y))
        theirs = diffrax.diffeqsolve(
            term, diffrax.Tsit5(), 0.0, GRID[-1], None, jnp.asarray(FIRST[0]),
            saveat=diffrax.SaveAt(ts=GRID), stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-10),
            adjoint=diffrax.ForwardMode(),
        )  # fmt: skip
        assert int(theirs.stats["num_steps"]) == int(ours.steps[0])
        assert np.asarray(theirs.ys) == pytest.approx(ours.observed[0][0], rel=1e-12)


RATES = np.geomspace(1e-2, 1e5, 30)


def test_chebyshev_steps_follow_slow_modes_and_forget_fast_ones():
    """Rates that differ by 10⁷, in coordinates that mix them: the answer is a sum of exponentials."""
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 30)))[0]
    matrix, first, calls = basis * RATES @ basis.T, basis.sum(axis=1), []

    def slope(y: np.ndarray) -> np.ndarray:
        calls.append(1)
        return -matrix @ y

    times = [0.1, 1.0, 10.0, 100.0]
    for t, y in zip(times, follow(slope, first, times, rtol=1e-6), strict=True):
        assert basis.T @ y == pytest.approx(np.exp(-RATES * t), abs=2e-5)
    explicit = 6 * RATES[-1] * times[-1] / 3.3  # six slopes per step, which is stable up to 3.3 over the fastest rate
    assert len(calls) < explicit / 50


def test_chebyshev_steps_keep_their_order_on_a_nonlinear_equation():
    def after(steps: int) -> float:
        y = np.array([0.1])
        for _ in range(steps):
            y = chebyshev_step(logistic, y, logistic(y), 2 / steps, 6)
        return abs(float(y[0]) - 1 / (1 + 9 * np.exp(-2)))

    assert np.log2(after(20) / after(40)) == pytest.approx(2, abs=0.2)


def test_a_chebyshev_step_with_too_few_stages_is_unstable():
    """The stages that are asked for keep every rate of a step damped; half as many do not."""
    size = 1000.0
    rates = np.linspace(0, size, 2001)
    grown = [abs(chebyshev_step(lambda y: -rates * y, np.ones(2001), -rates, 1.0, s)) for s in (stages_for(size), 20)]
    assert grown[0].max() <= 1 + 1e-12
    assert grown[1].max() > 10


def test_rates_that_are_not_real_are_refused_or_followed_with_short_steps_never_wrong():
    def turn(y: np.ndarray) -> np.ndarray:
        return 20 * np.array([y[1], -y[0]])

    [y] = follow(turn, np.array([1.0, 0.0]), [1.0], rtol=1e-7, atol=1e-12)
    assert y == pytest.approx([np.cos(20), -np.sin(20)], abs=1e-3)


def test_the_equations_of_learning_are_followed_as_by_the_explicit_solver():
    from phasecast.online import OrderParameters, Spectrum
    from phasecast.online import solve as solve_equations
    from phasecast.online.dynamics import generalisation_error
    from phasecast.online.first_order_flow import first_order_flow

    spectrum, alphas = Spectrum.power_law(16, 1.0), np.array([30.0, 300.0, 3000.0])
    start = OrderParameters.draw(3, 3, spectrum, inputs=16, sigma=0.01, seed=5)
    flow = first_order_flow(start, spectrum, 0.1)
    eps = [float(generalisation_error(*flow.moments(J))) for J in follow(flow.slope, flow.J, alphas, rtol=1e-7)]
    assert eps == pytest.approx(solve_equations(start, spectrum, 0.1, alphas, rtol=1e-10).eps, rel=1e-3)
