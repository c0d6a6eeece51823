"""Plateaus, escapes and ends of learning: closed forms against each other and against the equations."""

from __future__ import annotations

import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.online.asymptotic_decay import asymptotic_curve, asymptotic_rates, decay_rates, max_learning_rate
from phasecast.online.dynamics import solve
from phasecast.online.order_parameters import OrderParameters
from phasecast.online.plateau import (
    equal_escape_time,
    equal_plateau,
    escape_rates,
    escape_time,
    plateau,
    plateaus_of_draws,
)
from phasecast.online.plateau_length import measured_length, plateau_length
from phasecast.online.spectrum import Spectrum


def equal_teachers(teachers: int, T: float, D: float) -> np.ndarray:
    return np.full((teachers, teachers), D / (teachers - 1)) + np.eye(teachers) * (T - D / (teachers - 1))


def test_reference_numbers():
    """Those of tests/reference/online_numbers.py."""
    assert plateau(np.eye(2)).eps == pytest.approx(0.00580542016, rel=1e-8)
    assert plateau(np.eye(4)).eps == pytest.approx(0.00709431597, rel=1e-8)
    second = Spectrum.power_law(10, 0.25).moment(2)
    assert escape_time(np.eye(4), second * np.eye(4), 0.1).value == pytest.approx(478.10648, rel=1e-7)
    assert equal_escape_time(4, 0.1, T2=second) == pytest.approx(478.10648, rel=1e-7)


@pytest.mark.parametrize(("teachers", "T", "D"), [(2, 1.0, 0.0), (3, 1.1, 0.3), (4, 0.8, -0.2), (6, 2.0, 0.7)])
def test_equal_teachers_have_the_closed_forms(teachers, T, D):
    gram, second = equal_teachers(teachers, T, D), equal_teachers(teachers, 3.0, 0.4)
    general, closed = plateau(gram), equal_plateau(teachers, T, D)
    assert general.eps == pytest.approx(closed.eps, rel=1e-10)
    assert pytest.approx(closed.Q, rel=1e-10) == general.Q
    np.testing.assert_allclose(general.R, closed.R, rtol=1e-10)
    rates = escape_rates(gram, second, 0.1)
    np.testing.assert_allclose(rates[: teachers - 1], 1 / equal_escape_time(teachers, 0.1, T1=T, D1=D, T2=3.0, D2=0.4))
    assert abs(rates[-1]) < 1e-12 * rates[0]


@pytest.mark.parametrize(("students", "teachers"), [(2, 2), (3, 3), (2, 3)])
def test_the_equations_rest_on_the_plateau_in_every_mode(students, teachers):
    """Of random, unequal teachers; eq. 98 for higher orders needs (T^(l)+D^(l))/(T^(1)+D^(1))."""
    spectrum = Spectrum.power_law(6, 1.0)
    teacher = OrderParameters.draw(1, teachers, spectrum, inputs=60, sigma=0.0, seed=5)
    found = plateau(teacher.moment(1, spectrum).T)
    modes = [found.moment(T) for T in teacher.T]
    R = np.stack([np.repeat(r[None], students, axis=0) for r, _ in modes])
    Q = np.stack([np.full((students, students), q) for _, q in modes])
    curve = solve(OrderParameters(R, Q, teacher.T), spectrum, 0.5, [0, 50])
    np.testing.assert_allclose(curve.eps, found.eps, rtol=1e-9)
    assert curve.final is not None
    np.testing.assert_allclose(curve.final.R, R, atol=1e-9)


@pytest.mark.parametrize(("students", "teachers"), [(2, 2), (3, 3), (3, 2)])
def test_differences_grow_with_the_escape_rate(students, teachers):
    spectrum, lr = Spectrum.power_law(6, 1.0), 0.5
    teacher = OrderParameters.draw(1, teachers, spectrum, inputs=600, sigma=0.0, seed=2)
    T1, T2 = teacher.moment(1, spectrum).T, teacher.moment(2, spectrum).T
    found = plateau(T1)
    _, B = teacher.factors()
    J = np.repeat(np.einsum("m,kmn->kn", found.coefficients, B)[:, None], students, axis=1)
    kick = 3e-5 * np.random.default_rng(0).normal(size=J.shape)
    J = J + kick - kick.mean(axis=1, keepdims=True)
    start = OrderParameters(J @ B.swapaxes(1, 2), J @ J.swapaxes(1, 2), teacher.T)
    tau = float(escape_time(T1, T2, lr, students).value)
    curve = solve(start, spectrum, lr, np.array([3.0, 5.0]) * tau)
    sizes = np.linalg.norm(curve.R1 - curve.R1.mean(axis=1, keepdims=True), axis=(1, 2))
    several = 0.01 if teachers == 2 else 0.25  # M − 1 rates are near each other
    assert np.log(sizes[1] / sizes[0]) == pytest.approx(2.0, abs=several)
    gaps = found.eps - curve.eps  # quadratic in the differences: ε escapes with τ/2
    assert np.log(gaps[1] / gaps[0]) == pytest.approx(4.0, abs=0.1 + 2 * several)


def test_the_papers_239_is_half_the_escape_time():
    second = Spectrum.power_law(10, 0.25).moment(2) * np.eye(4)
    assert float(escape_time(np.eye(4), second, 0.1).value) / 2 == pytest.approx(239, abs=0.5)


@pytest.mark.slow
def test_the_length_of_a_plateau():
    """Ours is short by about half an escape time, because growth slows at the end; the printed one by far more."""
    spectrum, inputs = Spectrum.power_law(10, 0.25), 7000
    for seed in (0, 1):
        start = OrderParameters.draw(4, 4, spectrum, inputs=inputs, sigma=0.01, seed=seed)
        found, later = (plateau_length(start, spectrum, 0.1, start=at, inputs=inputs) for at in (300, 600))
        assert found.ours + 300 == pytest.approx(later.ours + 600, rel=2e-3)  # α₀ does not matter
        assert abs(found.printed - later.printed) < 0.6 * 300  # for the printed one it does
        curve = solve(start, spectrum, 0.1, np.arange(0, 5000, 10.0))
        measured = measured_length(curve, 300, found.reach)
        assert 0.2 * found.tau < measured - found.ours < 0.8 * found.tau
        assert found.printed < 0.85 * measured
        assert found.printed_with_tau > 1.4 * measured


def test_plateaus_differ_between_draws():
    """With L = N the spread does not shrink with N; with N/L inputs a mode it does."""
    relative = {}
    for modes, inputs in ((64, 64), (256, 256), (64, 6400)):
        found = plateaus_of_draws(2, Spectrum.power_law(modes, 1.0), inputs=inputs, lr=0.1, draws=60, seed=0)
        relative[modes, inputs] = found["eps"].std() / found["eps"].mean()
    assert relative[256, 256] > 0.7 * relative[64, 64]
    assert relative[64, 6400] < 0.3 * relative[64, 64]


@pytest.mark.slow
@pytest.mark.parametrize("teachers", [1, 2, 4])
def test_the_two_rates_are_in_the_jacobian(teachers):
    spectrum = Spectrum.power_law(6, 1.0)
    slow, fast = asymptotic_rates(teachers, spectrum, 1e-3)
    found = decay_rates(teachers, spectrum, 1e-3, order=1).real
    a = 2e-3 / (np.sqrt(3) * np.pi * teachers)
    np.testing.assert_allclose(fast, a * (2 + np.sqrt(3) * (teachers - 1)) * spectrum.eigenvalues)
    for rate in [*fast, *([] if teachers == 1 else slow)]:
        assert np.min(abs(found / rate - 1)) < 1e-8
    if teachers == 4:  # the printed 2 + √3 is the case M = 2
        assert all(np.min(abs(found / rate - 1)) > 1e-3 for rate in a * (2 + np.sqrt(3)) * spectrum.eigenvalues)


@pytest.mark.slow
@pytest.mark.parametrize("teachers", [2, 4])
def test_perfect_learning_is_stable_up_to_the_largest_rate(teachers):
    limits = []
    for beta in (1.0, 0.25):
        spectrum = Spectrum.power_law(12, beta)
        limit = float(max_learning_rate(teachers, spectrum).value)
        assert decay_rates(teachers, spectrum, 0.99 * limit).real.min() > 0
        assert decay_rates(teachers, spectrum, 1.01 * limit).real.min() < 0
        limits.append(limit)
    assert limits[0] == pytest.approx(limits[1], rel=1e-6)  # only the mean of the spectrum matters for N → ∞


@pytest.mark.slow
@pytest.mark.parametrize(("teachers", "modes", "inputs"), [(2, 64, 64), (3, 16, 1600), (2, 9, 9000)])
def test_the_explicit_end_of_learning(teachers, modes, inputs):
    spectrum = Spectrum.power_law(modes, 1.0)
    start = OrderParameters.draw(teachers, teachers, spectrum, inputs=inputs, sigma=0.01, seed=0)
    late = solve(start, spectrum, 0.25, [3000.0])
    grid = [100, 300, 1000, 3000, 10_000]
    assert late.final is not None
    curve = solve(late.final, spectrum, 0.25, grid)
    np.testing.assert_allclose(asymptotic_curve(late.final, spectrum, 0.25, grid).value, curve.eps, rtol=0.03)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plateau(np.ones((2, 3))), "not a Gram matrix"),
        (lambda: plateau([[1.0, 2.0], [2.0, 1.0]]), "semidefinite"),
        (lambda: plateau([[1.0, -1.0], [-1.0, 1.0]]), "cancel each other"),
        (lambda: equal_plateau(2, 1.0, -1.0), "T \\+ D > 0"),
        (lambda: escape_time(np.eye(2), np.eye(3), 0.1), "same teachers"),
        (lambda: escape_time(np.eye(2), np.eye(2), 0.0), "η > 0"),
        (lambda: escape_time(np.eye(1), np.eye(1), 0.1), "does not specialise"),
    ],
)
def test_what_cannot_be_is_bad_input(call, words):
    with pytest.raises(BadInput, match=words):
        call()
