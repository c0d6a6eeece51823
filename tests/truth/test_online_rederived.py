"""Plateaus, escapes, ends of learning and linear rates, each derived again from ε itself or in many digits."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize

from phasecast.core.errors import OutsideRegime
from phasecast.core.precision import float64
from phasecast.online import asymptotic_decay as asymptotics
from phasecast.online.asymptotic_decay import asymptotic_curve, max_learning_rate
from phasecast.online.dynamics import solve, solve_many
from phasecast.online.feature_scaling import integral_curve, rotated_floor
from phasecast.online.linear import secular_weights
from phasecast.online.order_parameters import OrderParameters
from phasecast.online.plateau import escape_rates, plateau
from phasecast.online.plateau_length import plateau_length
from phasecast.online.spectrum import Spectrum

mp = pytest.importorskip("mpmath")


def error_of_weights(J, B, covariance):
    """ε = ½⟨(ζ−σ)²⟩ of weights J (K, N) and B (M, N), from ⟨g(a)g(b)⟩ = (2/π) arcsin and nothing else."""
    students, teachers, inputs = len(J), len(B), J.shape[1]
    units = jnp.concatenate([J, B])
    C = units @ covariance @ units.T / inputs
    root = jnp.sqrt(1 + jnp.diagonal(C))
    outer = jnp.concatenate([jnp.full(students, -jnp.sqrt(teachers) / students), jnp.full(teachers, teachers**-0.5)])
    return outer @ (2 / jnp.pi * jnp.arcsin(C / (root[:, None] * root))) @ outer / 2


def setting(students: int, teachers: int, inputs: int = 10, seed: int = 4):
    rng = np.random.default_rng(seed)
    spectrum = Spectrum.power_law(inputs, 0.5)
    return spectrum, np.diag(spectrum.eigenvalues), rng.normal(size=(teachers, inputs)), rng


@pytest.mark.parametrize(("students", "teachers"), [(3, 3), (2, 4)])
def test_the_plateau_of_unequal_teachers_is_where_equal_students_err_least(students, teachers):
    _, covariance, B, _ = setting(students, teachers)
    with float64():
        value = jax.jit(jax.value_and_grad(lambda a: error_of_weights(jnp.tile(a @ B, (students, 1)), B, covariance)))
        found = minimize(
            lambda a: tuple(np.asarray(x, float) for x in value(a)), np.full(teachers, 0.3), jac=True,
            method="BFGS", options={"gtol": 1e-13},
        )  # fmt: skip
    T1 = B @ covariance @ B.T / 10
    at = plateau(T1)
    assert at.eps == pytest.approx(found.fun, rel=1e-9)
    np.testing.assert_allclose(at.coefficients, found.x, rtol=1e-4)
    assert abs(T1 - np.diag(np.diagonal(T1))).max() > 0.1  # far from the equal teachers of the paper


@pytest.mark.slow
@pytest.mark.parametrize(("students", "teachers"), [(2, 3), (3, 3)])
def test_escape_rates_are_the_downhill_curvatures_of_the_plateau(students, teachers):
    """The Hessian of ε over all weights: −ηN times its negative eigenvalues, each K − 1 times."""
    _, covariance, B, _ = setting(students, teachers)
    T1, T2 = (B @ np.linalg.matrix_power(covariance, n) @ B.T / 10 for n in (1, 2))
    J = np.tile(plateau(T1).coefficients @ B, (students, 1))
    with float64():
        shape = lambda flat: error_of_weights(flat.reshape(students, 10), B, covariance)  # noqa: E731
        assert abs(np.asarray(jax.grad(shape)(jnp.asarray(J.ravel())))).max() < 1e-10
        values = np.linalg.eigvalsh(np.asarray(jax.hessian(shape)(jnp.asarray(J.ravel()))))
    lr = 0.3
    downhill = -lr * 10 * values[values < -1e-9]
    expected = escape_rates(T1, T2, lr, students)
    expected = np.repeat(expected[expected > 1e-9], students - 1)
    np.testing.assert_allclose(np.sort(downhill)[::-1], np.sort(expected)[::-1], rtol=1e-6)


def test_the_end_of_learning_is_the_curvature_of_perfect_learning(monkeypatch):
    """δᵀHδ/2 with δ' = −ηNHδ, H the Hessian of ε at J = B; leaving out the part along the teachers is another curve."""
    spectrum, covariance, B, rng = setting(3, 3)
    apart = 1e-5 * rng.normal(size=B.shape)
    with float64():
        flat = lambda x: error_of_weights(x.reshape(3, 10), B, covariance)  # noqa: E731
        hessian = np.asarray(jax.jit(jax.hessian(flat))(B.ravel()))
    state, grid, lr = OrderParameters.from_weights(B + apart, B, spectrum), [0.0, 3.0, 30.0, 300.0], 0.3
    moved = [expm(-lr * 10 * hessian * alpha) @ apart.ravel() for alpha in grid]
    expected = [one @ hessian @ one / 2 for one in moved]
    np.testing.assert_allclose(asymptotic_curve(state, spectrum, lr, grid).value, expected, rtol=2e-3)
    monkeypatch.setattr(asymptotics, "MOST_DIRECTIONS", 0)
    assert abs(np.asarray(asymptotic_curve(state, spectrum, lr, grid).value) / expected - 1).max() > 0.02


@pytest.mark.parametrize(
    ("modes", "inputs", "begin"), [(3, 900, 800.0), pytest.param(9, 900, 1000.0, marks=pytest.mark.slow)]
)
def test_the_explicit_decay_is_within_its_stated_width(modes, inputs, begin):
    spectrum, grid = Spectrum.power_law(modes, 1.0), [20.0, 100.0, 400.0, 1000.0]
    start = OrderParameters.draw(2, 2, spectrum, inputs=inputs, sigma=0.3, seed=1)
    late = solve(start, spectrum, 0.25, [begin])
    assert late.final is not None
    explicit = asymptotic_curve(late.final, spectrum, 0.25, grid)
    gap = np.abs(np.asarray(explicit.value) - solve(late.final, spectrum, 0.25, grid).eps)
    assert np.all(gap < explicit.systematic)


@pytest.mark.parametrize("teachers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_what_the_explicit_decay_leaves_out_is_of_third_order(teachers):
    """From where the third order of ε is largest: it halves with J − B, and is within the width. One student alone has
    δ' = −hδ − tδ²/2, so that (t/3h)δ₀ at the start becomes three times as much, with the other sign, at the end."""

    def along(size, direction):  # one mode, so that N = M inputs are enough
        root, B = teachers**0.5, jnp.eye(teachers)
        return error_of_weights(root * (B + size * direction.reshape(B.shape)), root * B, jnp.eye(teachers))

    def coefficient(direction):
        second, third = jax.grad(jax.grad(along)), jax.grad(jax.grad(jax.grad(along)))
        return -third(0.0, direction) / 6 / (second(0.0, direction) / 2) ** 1.5

    with float64():
        slope = jax.jit(jax.value_and_grad(coefficient))
        tries = [
            minimize(lambda x: tuple(np.asarray(v, float) for v in slope(x)), start, jac=True, method="BFGS")
            for start in np.random.default_rng(0).normal(size=(6, teachers**2))
        ]
        worst = min(tries, key=lambda one: one.fun)
        unit = worst.x / np.sqrt(float(jax.jit(jax.grad(jax.grad(along)))(0.0, worst.x)) / 2)
    assert -worst.fun == pytest.approx({1: 4.04, 2: 7.76}[teachers], rel=2e-3)
    spectrum, grid = Spectrum(np.ones(1)), np.geomspace(0.1, 300, 20)
    teacher = np.sqrt(teachers) * np.eye(teachers)
    states = [
        OrderParameters.from_weights(
            teacher + np.sqrt(teachers) * size * unit.reshape(teacher.shape), teacher, spectrum
        )
        for size in (0.01, 0.005, -0.025)
    ]
    curves = [curve.eps for curve in solve_many(states, spectrum, 0.25, grid)]
    explicit = [asymptotic_curve(state, spectrum, 0.25, grid) for state in states]
    for eps, found in zip(curves, explicit, strict=True):
        assert np.all(np.abs(np.asarray(found.value) - eps) < found.systematic)
    whole, half, _ = (eps / np.asarray(found.value) - 1 for eps, found in zip(curves, explicit, strict=True))
    assert abs(whole).max() / abs(half).max() == pytest.approx(2, rel=0.1)
    if teachers == 1:
        assert abs(whole[-1]) == pytest.approx(3 * 4.04 * 0.01, rel=0.1)
        assert whole[0] * whole[-1] < 0


def test_an_explicit_decay_from_far_away_is_refused():
    spectrum = Spectrum.power_law(4, 1.0)
    start = OrderParameters.draw(2, 2, spectrum, inputs=400, sigma=0.1, seed=0)
    with pytest.raises(OutsideRegime, match="not near perfect learning"):
        asymptotic_curve(start, spectrum, 0.1, [1.0])


@pytest.mark.parametrize("teachers", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3, 4))])
def test_the_largest_rate_balances_noise_and_drift(teachers):
    """D' = −(η/M)(mD + Dm) + (η/M)²⟨g'_i g'_j g'_k g'_l⟩D_kl for J − B at right angles to all teachers.

    With independent y, ⟨exp(−n y²/2)⟩ = (1+n)^{−1/2}; no order-parameter equation and no I4 enters.
    """

    def mean(*units: int) -> float:
        counts = np.bincount(units)
        return float(np.prod(1 / np.sqrt(1 + counts[counts > 0]))) * (2 / np.pi) ** (len(units) / 2)

    every = range(teachers)
    m = np.array([[mean(i, j) for j in every] for i in every])
    noise = np.array([[mean(i, j, k, n) for k in every for n in every] for i in every for j in every])
    drift = (np.kron(m, np.eye(teachers)) + np.kron(np.eye(teachers), m)) / teachers
    values = np.linalg.eigvals(np.linalg.solve(drift, noise / teachers**2))
    assert max_learning_rate(teachers, Spectrum.power_law(5, 1.0)).value == pytest.approx(
        1 / values.real.max(), rel=1e-6
    )


def test_the_printed_length_is_the_papers_arithmetic():
    """Figure 4: σ_P ≈ 0.000279 and B ≈ 0.33 at α₀ = 300 give 2751 with half of eq. 15's τ."""
    spectrum, inputs, sigma = Spectrum.power_law(10, 0.25), 7000, 0.01
    found = [
        plateau_length(
            OrderParameters.draw(4, 4, spectrum, inputs=inputs, sigma=sigma, seed=seed), spectrum, 0.1, start=300,
            inputs=inputs,
        )
        for seed in range(4)
    ]  # fmt: skip
    measured = np.array([one.fluctuation for one in found])
    spread = measured.std(ddof=1)
    assert abs(measured.mean() - 0.000279) < 3 * spread * np.sqrt(1 / 4 + 1)  # the paper's is one draw, ours are four
    assert np.mean([one.printed_reach for one in found]) == pytest.approx(0.33, rel=0.03)
    assert np.mean([one.printed for one in found]) == pytest.approx(2751, rel=0.1)
    D, tau = np.log(0.33 / (0.000279 / sigma)), 478.1 / 2
    assert tau * (D - np.log(sigma**2) / 2 + np.log(inputs) / 2) == pytest.approx(2751, rel=2e-3)


def test_the_end_of_a_plateau_can_be_reached():
    """e·R* is more than an overlap can be for two teachers; our end is not."""
    spectrum = Spectrum.power_law(4, 1.0)
    start = OrderParameters.draw(2, 2, spectrum, inputs=400, sigma=0.01, seed=0)
    found = plateau_length(start, spectrum, 0.5, start=60, inputs=400)
    assert found.printed_reach > 0.5 > found.reach


@pytest.mark.parametrize(("beta", "lr"), [(0.5, 0.7), (1.0, 1.0)])
def test_rates_and_weights_are_those_of_the_moments_in_many_digits(beta, lr):
    """dD^(l) = −2ηD^(l+1) + η²ν_{l+1}D^(1), closed by Cayley-Hamilton: the paper's eq. 54 to 57 at L = 7."""
    modes = 7
    spectrum = Spectrum.power_law(modes, beta)
    with mp.workdps(60):
        values = [mp.mpf(float(one)) for one in spectrum.eigenvalues]
        polynomial = [mp.mpf(1)]
        for value in values:
            polynomial = [a - value * b for a, b in zip([*polynomial, 0], [0, *polynomial], strict=True)]
        A = mp.matrix(modes, modes)
        for row in range(modes):
            if row + 1 < modes:
                A[row, row + 1] += 1
            else:
                for column in range(modes):
                    A[row, column] -= polynomial[modes - column]
            A[row, 1] -= mp.mpf(lr) / 2 * sum(value ** (row + 1) for value in values) / modes
        found, vectors = mp.eig(A)
        start = mp.matrix([sum(value**row for value in values) / modes for row in range(modes)])
        shares = mp.lu_solve(vectors, start)
        pairs = sorted((float(mp.re(found[k])), float(mp.re(shares[k] * vectors[1, k]))) for k in range(modes))[::-1]
    rates, weights = secular_weights(spectrum, lr)
    np.testing.assert_allclose(rates, [rate for rate, _ in pairs], rtol=1e-10)
    np.testing.assert_allclose(weights, [weight for _, weight in pairs], rtol=1e-9)


def test_the_integral_is_an_integral_and_its_bound_a_bound():
    modes, beta, lr, trained = 60, 0.7, 0.02, 20
    spectrum, grid = Spectrum.power_law(modes, beta), [0.0, 0.5, 5.0, 200.0, 5000.0]
    found = integral_curve(modes, beta, lr, 0.5, grid, trained)
    for at, alpha in enumerate(grid):
        with mp.workdps(30):
            top, power = mp.mpf(spectrum.largest), -(1 + mp.mpf(beta))
            learns = lambda k: top * k**power * mp.exp(-2 * lr * alpha * top * k**power)  # noqa: B023, E731
            whole = mp.quad(learns, [1, 2, 4, 8, trained]) + mp.quad(lambda k: top * k**power, [trained, 30, modes])  # noqa: B023
            total = sum(learns(mp.mpf(k)) for k in range(1, trained + 1))
            total += sum(top * mp.mpf(k) ** power for k in range(trained + 1, modes + 1))
            integral, exact = (float(mp.mpf(1.25) / (2 * modes) * part) for part in (whole, total))
        assert float(np.asarray(found.value)[at]) == pytest.approx(integral, rel=1e-10)
        assert abs(exact - integral) <= float(np.asarray(found.systematic)[at])


def test_one_factorisation_has_the_floors_of_all_numbers_of_features():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(9, 9))
    covariance = root @ root.T + 0.1 * np.eye(9)
    for trained in range(1, 10):
        front, cross, back = (
            covariance[:trained, :trained],
            covariance[:trained, trained:],
            covariance[trained:, trained:],
        )
        rest = np.trace(back - cross.T @ np.linalg.inv(front) @ cross) if trained < 9 else 0.0
        assert rotated_floor(covariance, trained, 0.3).value == pytest.approx(1.09 * rest / 18, abs=1e-12)
    several = rotated_floor(covariance, [2, 5], 0.3).value
    assert several[1] == pytest.approx(rotated_floor(covariance, 5, 0.3).value)
