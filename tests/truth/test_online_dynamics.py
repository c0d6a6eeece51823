"""The order-parameter equations against the paper's own closure in mpmath, reference numbers, and themselves."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from phasecast.core.errors import BadInput, Refused
from phasecast.core.precision import float64
from phasecast.core.results import Status
from phasecast.online.dynamics import generalisation_error, overlap_rates, solve, solve_many
from phasecast.online.linear import general_curve
from phasecast.online.order_parameters import OrderParameters
from phasecast.online.spectrum import Spectrum

mp = pytest.importorskip("mpmath")


def nearly_symmetric(modes: int = 4) -> OrderParameters:
    R = np.zeros((modes, 2, 2))
    R[:, 0, 0], R[:, 1, 1] = 1e-3, 5e-4
    unit = np.repeat(np.eye(2)[None], modes, axis=0)
    return OrderParameters(R, 0.01 * unit, unit)


@pytest.mark.parametrize(
    ("order", "values"),
    [(1, [0.02081693, 0.00768607, 0.00580374, 0.00126016]), (2, [0.02456396, 0.00877765, 0.00644938, 0.00132149])],
)
def test_reference_curves(order, values):
    """From an independent implementation that was not kept; :class:`CayleyHamilton` below is one that was."""
    curve = solve(nearly_symmetric(), Spectrum.power_law(4, 1.0), 0.5, [5, 20, 100, 300], order=order)
    np.testing.assert_allclose(curve.eps, values, rtol=2e-5)


class CayleyHamilton:
    """Eq. 4 and 18 (corrected) in the paper's moments, closed by the characteristic polynomial, in any precision."""

    def __init__(self, eigenvalues, start: OrderParameters, lr: float, order: int):
        modes, self.K, self.M = start.shape
        self.values = [mp.mpf(float(value)) for value in eigenvalues]
        self.modes, self.lr, self.order = modes, mp.mpf(lr), order
        coefficients = [mp.mpf(1)]  # of prod (x − λ), highest power first
        for value in self.values:
            shifted = [*coefficients, mp.mpf(0)]
            for place in range(1, len(shifted)):
                shifted[place] -= value * coefficients[place - 1]
            coefficients = shifted
        self.c = coefficients[::-1]
        self.R, self.Q, self.T = (self._moments(part) for part in (start.R, start.Q, start.T))
        self.nu = [sum(value**power for value in self.values) / modes for power in range(modes + 2)]

    def _moments(self, part):
        def moment(power):
            rows = [
                [
                    sum(self.values[k] ** power * mp.mpf(float(part[k, i, j])) for k in range(self.modes)) / self.modes
                    for j in range(part.shape[2])
                ]
                for i in range(part.shape[1])
            ]
            return mp.matrix(rows)

        return [moment(power) for power in range(self.modes)]

    def _next(self, moments):
        last = -sum((self.c[power] * moments[power] for power in range(1, self.modes)), self.c[0] * moments[0])
        return [*moments[1:], last]

    def _i3(self, c11, c12, c13, c23, c33):
        return 2 / mp.pi * (c23 * (1 + c11) - c12 * c13) / (1 + c11) / mp.sqrt((1 + c11) * (1 + c33) - c13**2)

    def _i4(self, C, i, j, a, b):
        def e(p, q):
            return C[p, q]

        A4 = (1 + e(i, i)) * (1 + e(j, j)) - e(i, j) ** 2
        A0 = (
            A4 * e(a, b) - e(j, a) * e(j, b) * (1 + e(i, i)) - e(i, a) * e(i, b) * (1 + e(j, j))
            + e(i, j) * (e(i, a) * e(j, b) + e(i, b) * e(j, a))
        )  # fmt: skip

        def A(n):
            return (
                A4 * (1 + e(n, n)) - e(j, n) ** 2 * (1 + e(i, i)) - e(i, n) ** 2 * (1 + e(j, j))
                + 2 * e(i, j) * e(i, n) * e(j, n)
            )  # fmt: skip

        return 4 / mp.pi**2 / mp.sqrt(A4) * mp.asin(A0 / mp.sqrt(A(a) * A(b)))

    def rates(self, R, Q):
        K, M = self.K, self.M
        ratio = mp.mpf(M) / K
        Rn, Qn, Tn = self._next(R), self._next(Q), self._next(self.T)
        R1, Q1, T1 = Rn[0], Qn[0], Tn[0]
        S = mp.matrix(K, K)
        if self.order == 2:
            C = mp.matrix(K + M, K + M)
            for a in range(K + M):
                for b in range(K + M):
                    C[a, b] = (
                        Q1[a, b] if a < K and b < K else T1[a - K, b - K] if a >= K and b >= K
                        else R1[min(a, b), max(a, b) - K]
                    )  # fmt: skip
            c = [-ratio] * K + [mp.mpf(1)] * M
            every = [(a, b) for a in range(K + M) for b in range(K + M)]
            for i in range(K):
                for j in range(K):
                    S[i, j] = sum(c[a] * c[b] * self._i4(C, i, j, a, b) for a, b in every)
        dR, dQ = [], []
        for power in range(self.modes):
            rate = mp.matrix(K, M)
            half = mp.matrix(K, K)
            for i in range(K):
                for n in range(M):
                    from_teacher = sum(
                        self._i3(Q1[i, i], Rn[power][i, n], R1[i, m], Tn[power][n, m], T1[m, m]) for m in range(M)
                    )
                    from_student = sum(
                        self._i3(Q1[i, i], Rn[power][i, n], Q1[i, j], Rn[power][j, n], Q1[j, j]) for j in range(K)
                    )
                    rate[i, n] = self.lr / K * (from_teacher - ratio * from_student)
                for k in range(K):
                    from_teacher = sum(
                        self._i3(Q1[i, i], Qn[power][i, k], R1[i, m], Rn[power][k, m], T1[m, m]) for m in range(M)
                    )
                    from_student = sum(
                        self._i3(Q1[i, i], Qn[power][i, k], Q1[i, j], Qn[power][k, j], Q1[j, j]) for j in range(K)
                    )
                    half[i, k] = self.lr / K * (from_teacher - ratio * from_student)
            dR.append(rate)
            dQ.append(half + half.T + self.lr**2 / K**2 * self.nu[power + 1] * S)
        return dR, dQ

    def run(self, steps: int, step: float):
        def moved(base, rate, size):
            return [b + size * r for b, r in zip(base, rate, strict=True)]

        R, Q, h = self.R, self.Q, mp.mpf(step)
        for _ in range(steps):
            k1 = self.rates(R, Q)
            k2 = self.rates(moved(R, k1[0], h / 2), moved(Q, k1[1], h / 2))
            k3 = self.rates(moved(R, k2[0], h / 2), moved(Q, k2[1], h / 2))
            k4 = self.rates(moved(R, k3[0], h), moved(Q, k3[1], h))
            every = list(zip(k1, k2, k3, k4, strict=True))
            R, Q = (
                moved(base, [a + 2 * b + 2 * c + d for a, b, c, d in zip(*rates, strict=True)], h / 6)
                for base, rates in zip((R, Q), every, strict=True)
            )
        return [np.array(part[1].tolist(), dtype=float) for part in (R, Q)]


def rk4(start: OrderParameters, spectrum: Spectrum, lr: float, order: int, steps: int, step: float):
    R, Q, T = start.R, start.Q, start.T
    with float64():

        @jax.jit
        def compiled(r, q):
            return overlap_rates(r, q, T, spectrum.eigenvalues, spectrum.weights, lr, "erf", order)

        def rates(r, q):
            return tuple(np.asarray(part) for part in compiled(r, q))

        for _ in range(steps):
            k1 = rates(R, Q)
            k2 = rates(R + step / 2 * k1[0], Q + step / 2 * k1[1])
            k3 = rates(R + step / 2 * k2[0], Q + step / 2 * k2[1])
            k4 = rates(R + step * k3[0], Q + step * k3[1])
            R, Q = (
                b + step / 6 * (w + 2 * x + 2 * y + z) for b, w, x, y, z in zip((R, Q), k1, k2, k3, k4, strict=True)
            )
    weights = spectrum.weights * spectrum.eigenvalues
    return [np.tensordot(weights, part, axes=1) for part in (R, Q)]


@pytest.mark.parametrize(
    ("modes", "students", "teachers", "order", "steps"),
    [(2, 2, 2, 2, 15), (4, 2, 2, 1, 40), (6, 2, 2, 2, 10), (2, 3, 2, 2, 4), (4, 2, 3, 1, 20)],
)
def test_the_closure_is_that_of_the_paper(modes, students, teachers, order, steps):
    """Same fixed steps of the same method, so that only the closure differs."""
    spectrum = Spectrum.power_law(modes, 1.0)
    start = OrderParameters.draw(students, teachers, spectrum, inputs=modes * 50, sigma=0.3, seed=modes)
    with mp.workdps(50):
        theirs = CayleyHamilton(spectrum.eigenvalues, start, 0.5, order).run(steps, 0.2)
    ours = rk4(start, spectrum, 0.5, order, steps, 0.2)
    for mine, paper in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, paper, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("students", "teachers", "inputs", "order"),
    [
        pytest.param(2, 2, 8, 1, marks=pytest.mark.slow),
        pytest.param(2, 2, 80, 2, marks=pytest.mark.slow),
        pytest.param(3, 2, 16, 2, marks=pytest.mark.slow),
        (2, 4, 32, 1),
    ],
)
def test_mean_weights_and_fluctuations_have_the_overlaps(students, teachers, inputs, order):
    """What is solved is another form of the overlap equations; both must run alike, at every rank of the weights."""
    spectrum = Spectrum.power_law(8, 0.5)
    start = OrderParameters.draw(students, teachers, spectrum, inputs=inputs, sigma=0.1, seed=3)
    curve = solve(start, spectrum, 0.3, [10.0], order=order)
    R1, Q1 = rk4(start, spectrum, 0.3, order, 400, 0.025)
    np.testing.assert_allclose(curve.R1[-1], R1, atol=1e-8)
    np.testing.assert_allclose(curve.Q1[-1], Q1, atol=1e-8)
    assert curve.final is not None
    np.testing.assert_allclose(curve.final.moment(1, spectrum).Q, Q1, atol=1e-8)


@pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_reported_error_covers_the_numerical_one(order):
    spectrum = Spectrum.power_law(32, 1.0)
    start = OrderParameters.draw(2, 2, spectrum, inputs=128, sigma=0.01, seed=1)
    grid = np.linspace(10, 2000, 40)
    curve, finer = (solve(start, spectrum, 0.2, grid, order=order, rtol=rtol) for rtol in (1e-8, 1e-11))
    assert np.min(finer.eps) < 2e-4  # well beyond the plateau
    assert np.all(abs(curve.eps - finer.eps) <= np.asarray(curve.error))


def test_the_solver_converges_with_its_order():
    spectrum = Spectrum.power_law(4, 1.0)
    start = OrderParameters.draw(2, 2, spectrum, inputs=400, sigma=0.3, seed=0)
    exact = solve(start, spectrum, 0.5, [2.0], rtol=1e-13).R1[0]
    steps = np.array([0.1, 0.05, 0.025])
    errors = [abs(solve(start, spectrum, 0.5, [2.0], step=step).R1[0] - exact).max() for step in steps]
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert 4.7 < slope < 5.6  # Tsit5 is of order 5


@pytest.mark.slow
def test_many_starts_at_once_are_the_same_as_one_by_one():
    spectrum = Spectrum.power_law(8, 1.0)
    starts = [OrderParameters.draw(2, 3, spectrum, inputs=80, sigma=0.1, seed=seed) for seed in range(3)]
    together = solve_many(starts, spectrum, [0.1, 0.2, 0.3], [1, 5, 25], order=2)
    for start, lr, curve in zip(starts, (0.1, 0.2, 0.3), together, strict=True):
        np.testing.assert_allclose(curve.eps, solve(start, spectrum, lr, [1, 5, 25], order=2).eps, rtol=1e-7)


@pytest.mark.slow
def test_a_curve_goes_on_from_its_final_state():
    spectrum = Spectrum.power_law(8, 1.0)
    start = OrderParameters.draw(2, 2, spectrum, inputs=80, sigma=0.1, seed=0)
    whole = solve(start, spectrum, 0.2, [5, 20], order=2)
    half = solve(start, spectrum, 0.2, [5], order=2)
    assert half.final is not None
    rest = solve(half.final, spectrum, 0.2, [15], order=2)
    assert rest.eps[0] == pytest.approx(whole.eps[1], rel=1e-6)


def test_the_infinite_values_stay_on_the_plateau():
    spectrum = Spectrum.power_law(8, 1.0)
    start = OrderParameters.infinite(2, 2, spectrum, sigma=0.01)
    curve = solve(start, spectrum, 0.5, [50, 5000])
    assert curve.eps[1] == pytest.approx(0.00580542016, rel=1e-6)
    assert curve.specialisation[1] < 1e-9


@pytest.mark.slow
def test_a_linear_student_does_not_care_how_many_units_it_has():
    spectrum = Spectrum.power_law(8, 1.0)
    one = solve(OrderParameters.infinite(1, 1, spectrum, sigma=1.0), spectrum, 0.7, [1, 10], "linear", 2)
    # J̃ = ΣJ/√K learns with η·K/K² ·M/… : the summed student has the variance of one, and the rates of one
    two = solve(OrderParameters.infinite(2, 2, spectrum, sigma=1.0), spectrum, 0.7, [1, 10], "linear", 2)
    np.testing.assert_allclose(one.eps, two.eps, rtol=1e-6)


def test_moments_and_weights_in_any_basis():
    rng = np.random.default_rng(0)
    covariance = 0.5 ** abs(np.subtract.outer(np.arange(6), np.arange(6)))
    spectrum = Spectrum.from_covariance(covariance)
    J, B = rng.normal(size=(2, 6)), rng.normal(size=(3, 6))
    start = OrderParameters.from_weights(J, B, spectrum)
    for power in range(4):
        expected = J @ np.linalg.matrix_power(covariance, power) @ B.T / 6
        np.testing.assert_allclose(start.moment(power, spectrum).R, expected, atol=1e-12)
    R1, Q1, T1 = start.moment(1, spectrum)
    samples = rng.multivariate_normal(np.zeros(6), covariance, 400_000) / np.sqrt(6)
    from scipy.special import erf

    student = np.sqrt(3) / 2 * erf(samples @ J.T / np.sqrt(2)).sum(axis=1)
    teacher = erf(samples @ B.T / np.sqrt(2)).sum(axis=1) / np.sqrt(3)
    errors = (student - teacher) ** 2 / 2
    with float64():
        assert abs(float(generalisation_error(R1, Q1, T1)) - errors.mean()) < 4 * errors.std() / np.sqrt(len(errors))


def test_a_curve_that_diverges_is_refused():
    spectrum = Spectrum.power_law(8, 1.0)
    start = OrderParameters.infinite(1, 1, spectrum, sigma=1.0)
    curve = solve(start, spectrum, 2.5, [100, 5000], "linear", 2)
    assert curve.status is Status.REFUSED
    with pytest.raises(Refused, match="η"):
        _ = curve.eps


def test_a_first_order_curve_says_where_it_means_nothing():
    """SGD with three students, two teachers and η = 40 diverges; to first order ε would fall as if nothing were."""
    spectrum = Spectrum.power_law(4, 1.0)
    start = OrderParameters.draw(3, 2, spectrum, inputs=400, sigma=0.1, seed=0)
    small, large, mad = solve_many([start] * 3, spectrum, [1.4, 3.0, 40.0], [1, 10, 50])
    assert small.status is Status.OK
    assert large.status is Status.WARNING
    assert mad.status is Status.REFUSED
    assert "run away" in mad.reasons[0]
    assert np.all(np.diff(mad.estimate) < 0)
    second = solve_many([start], spectrum, 3.0, [1, 10, 50], order=2)[0]
    far = float(np.max(second.eps / large.eps))
    assert f"up to {far:.3g} times" in large.reasons[0]


def test_linear_students_learn_like_one_with_the_rate_times_teachers_over_students():
    """ΣB − (M/K)ΣJ is all that counts: η = 3 with four students of two teachers is 1.5 with one, below the limit 2."""
    spectrum, grid = Spectrum.power_law(8, 1.0), [0.5, 2.0, 8.0]
    several = solve(OrderParameters.infinite(4, 2, spectrum, sigma=0.6), spectrum, 3.0, grid, "linear", 2)
    np.testing.assert_allclose(several.eps, general_curve(spectrum, 1.5, 0.6 / 2**0.5, grid).eps, rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lr": 0.0}, "η > 0"),
        ({"alphas": [1, 1]}, "does not increase"),
        ({"alphas": [-1, 1]}, "does not increase"),
        ({"order": 3}, "order 3"),
        ({"activation": "relu"}, "erf, linear"),
        ({"spectrum": Spectrum.power_law(5, 1.0)}, "4 modes"),
        ({"rtol": 1.0}, "rtol"),
        ({"step": -1.0}, "positive step"),
    ],
)
def test_what_cannot_be_solved_is_bad_input(change, words):
    given = {
        "order_parameters": nearly_symmetric(),
        "spectrum": Spectrum.power_law(4, 1.0),
        "lr": 0.1,
        "alphas": [1, 2],
    }
    with pytest.raises(BadInput, match=words):
        solve(**{**given, **change})


def test_overlaps_of_no_weights_are_bad_input():
    unit = np.ones((2, 1, 1))
    with pytest.raises(BadInput, match="no weights have these overlaps"):
        solve(OrderParameters(2 * unit, unit, unit), Spectrum.power_law(2, 1.0), 0.1, [1])
