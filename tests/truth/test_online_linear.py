"""Linear curves: reference numbers, other derivations, and Monte-Carlo over weights."""

from __future__ import annotations

import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.online.dynamics import solve
from phasecast.online.feature_scaling import (
    feature_floor,
    integral_curve,
    power_law_window,
    rotated_curve,
    rotated_floor,
)
from phasecast.online.linear import (
    general_curve,
    linear_curve,
    secular,
    sgd_curve,
    sgd_stability_limit,
    small_rate_curve,
    stability_limit,
)
from phasecast.online.order_parameters import OrderParameters
from phasecast.online.spectrum import Spectrum

TOEPLITZ = 0.6 ** abs(np.subtract.outer(np.arange(12), np.arange(12)))


def test_reference_numbers():
    """The curve and the limits are those of tests/reference/online_numbers.py; the last three numbers come from an
    independent implementation that was not kept, and other tests derive the same quantities in other ways."""
    eps = linear_curve(8, 1.0, 1.0, 1.0, [0.5, 2, 10, 50]).eps
    np.testing.assert_allclose(eps, [0.351981851, 0.128448902, 0.0125688519, 8.98106832e-6], rtol=1e-8)
    for beta, limit in ((1.0, 1.00317886), (0.25, 1.57960874)):
        assert sgd_stability_limit(Spectrum.power_law(256, beta), 256).value == pytest.approx(limit, rel=1e-8)
    assert rotated_floor(TOEPLITZ, 5, 0.1).value == pytest.approx(0.2709300086, rel=1e-9)
    spectrum = Spectrum.power_law(256, 1.0)
    assert small_rate_curve(spectrum, 0.05, 0.01, [100], 50).eps[0] == pytest.approx(0.00668297, rel=1e-6)
    corrected = integral_curve(256, 1.0, 0.05, 0.01, [100], 50)
    assert float(corrected.value[0]) == pytest.approx(0.00670862, rel=1e-6)


@pytest.mark.parametrize("modes", [1, 8, 64])
def test_the_secular_form_solves_the_order_parameter_equations(modes):
    spectrum, grid = Spectrum.power_law(modes, 1.0), [0.5, 2, 10, 50]
    start = OrderParameters.infinite(1, 1, spectrum, sigma=1.0)
    ode = solve(start, spectrum, 1.0, grid, "linear", 2, rtol=1e-11)
    np.testing.assert_allclose(linear_curve(modes, 1.0, 1.0, 1.0, grid).eps, ode.eps, rtol=1e-8, atol=1e-11)


def test_with_frozen_modes_too():
    """Against small steps of the equations for D with a few modes fixed."""
    spectrum, lr, steps = Spectrum.power_law(10, 0.5), 0.7, 40_000
    values, shares = spectrum.eigenvalues, spectrum.weights
    D, learns = np.full(10, 1.25), np.arange(10) < 4
    for _ in range(steps):  # midpoint steps to α = 8

        def rate(d):
            return np.where(learns, lr * values * (-2 * d + lr * (shares * values) @ d), 0)

        D = D + 8 / steps * rate(D + 4 / steps * rate(D))
    curve = linear_curve(10, 0.5, lr, 0.5, [8.0], trained=4)
    assert curve.eps[0] == pytest.approx((shares * values) @ D / 2, rel=1e-6)


def test_small_rates_are_the_limit_of_any_rate():
    spectrum = Spectrum.power_law(64, 0.5)
    for trained in (None, 10):
        small = small_rate_curve(spectrum, 1e-6, 0.3, [1e4, 1e6, 1e8], trained).eps
        np.testing.assert_allclose(general_curve(spectrum, 1e-6, 0.3, [1e4, 1e6, 1e8], trained).eps, small, rtol=1e-4)


def test_secular_eigenvalues_are_those_of_the_matrix():
    rng = np.random.default_rng(0)
    for size, strength in ((1, 0.3), (5, 1e-3), (40, 2.0)):
        d, u = rng.exponential(size=size), rng.normal(size=size)
        d[: size // 3] = d[0]  # equal entries
        x, project = secular(d, u, strength)
        dense = np.linalg.eigvalsh(np.diag(d) - strength * np.outer(u, u))
        assert all(np.min(abs(dense - one)) < 1e-12 * max(abs(dense)) for one in x)
        exact = u @ np.linalg.solve(np.diag(d) - strength * np.outer(u, u) + 50 * np.eye(size), u)
        assert np.sum(project(u) ** 2 / (x + 50)) == pytest.approx(exact, rel=1e-10)


def test_the_recursion_of_discrete_steps():
    inputs, lr = 32, 0.8
    spectrum = Spectrum.power_law(8, 1.0)
    values = np.repeat(spectrum.eigenvalues, 4)
    D = np.full(inputs, 1.25)
    for _ in range(64):
        D = D - 2 * lr / inputs * values * D + (lr / inputs) ** 2 * (2 * values**2 * D + values * (values @ D))
    curve = sgd_curve(spectrum, inputs, lr, 0.5, [0, 2])
    np.testing.assert_allclose(curve.eps, [1.25 / 2, float(values @ D) / (2 * inputs)], rtol=1e-10)


def test_the_recursion_is_the_mean_over_runs_of_sgd():
    inputs, lr, sigma, runs = 16, 0.9, 0.5, 4000
    spectrum = Spectrum.power_law(8, 0.5)
    values = np.repeat(spectrum.eigenvalues, 2)
    rng = np.random.default_rng(0)
    off = sigma * rng.normal(size=(runs, inputs)) - rng.normal(size=(runs, inputs))
    for _ in range(4 * inputs):
        x = rng.normal(size=(runs, inputs)) * np.sqrt(values)
        off -= lr / inputs * x * np.sum(x * off, axis=1, keepdims=True)
    eps = off**2 @ values / (2 * inputs)
    predicted = sgd_curve(spectrum, inputs, lr, sigma, [4]).eps[0]
    assert abs(eps.mean() - predicted) < 4 * eps.std() / np.sqrt(runs)
    infinite = general_curve(spectrum, lr, sigma, [4]).eps[0]
    assert abs(eps.mean() - infinite) > 10 * eps.std() / np.sqrt(runs)  # the negative control: N is only 16


def test_many_inputs_are_the_limit_of_discrete_steps():
    spectrum = Spectrum.power_law(4, 1.0)
    limit = general_curve(spectrum, 0.5, 0.1, [1, 5]).eps
    gaps = [abs(sgd_curve(spectrum, n, 0.5, 0.1, [1, 5]).eps / limit - 1).max() for n in (400, 800, 1600)]
    assert gaps[2] < 0.02
    assert gaps[1] / gaps[0] == pytest.approx(0.5, abs=0.1)
    assert gaps[2] / gaps[1] == pytest.approx(0.5, abs=0.1)


def test_a_rotated_covariance():
    """Averaged over random weights that obey the small-rate equation; the diagonal case is that of eq. 10."""
    rng = np.random.default_rng(1)
    lr, sigma, alpha, learn = 0.3, 0.5, 4.0, 5
    values, vectors = np.linalg.eigh(TOEPLITZ[:learn, :learn])
    decay = (vectors * np.exp(-lr * alpha * values)) @ vectors.T
    off = sigma * rng.normal(size=(20_000, 12)) - rng.normal(size=(20_000, 12))
    rest = np.linalg.solve(TOEPLITZ[:learn, :learn], TOEPLITZ[:learn, learn:] @ off[:, learn:].T).T
    off[:, :learn] = (off[:, :learn] + rest) @ decay - rest
    eps = np.einsum("ri,ij,rj->r", off, TOEPLITZ, off) / 24
    curve = rotated_curve(TOEPLITZ, learn, lr, sigma, [alpha, 1e6])
    assert abs(eps.mean() - curve.eps[0]) < 4 * eps.std() / np.sqrt(len(eps))
    assert curve.eps[1] == pytest.approx(rotated_floor(TOEPLITZ, learn, sigma).value)
    spectrum = Spectrum.power_law(12, 1.0)
    diagonal = rotated_curve(np.diag(spectrum.eigenvalues), learn, lr, sigma, [alpha]).eps
    np.testing.assert_allclose(diagonal, small_rate_curve(spectrum, lr, sigma, [alpha], learn).eps)
    assert feature_floor(12, 1.0, sigma, learn).value == pytest.approx(
        rotated_floor(np.diag(spectrum.eigenvalues), learn, sigma).value
    )


@pytest.mark.parametrize(
    ("modes", "beta", "trained"), [(128, 0.5, None), (256, 1.0, None), (256, 1.0, 50), (64, 0.1, 7)]
)
@pytest.mark.parametrize("lr", [0.001, 0.1])
def test_the_integral_is_within_its_bound(modes, beta, trained, lr):
    grid = np.concatenate([[0], np.geomspace(1e-3, 1e5, 80)])
    exact = small_rate_curve(Spectrum.power_law(modes, beta), lr, 1.0, grid, trained).eps
    found = integral_curve(modes, beta, lr, 1.0, grid, trained)
    assert np.all(abs(exact - found.value) <= found.systematic * (1 + 1e-3) + 1e-14)


def test_the_printed_bound_is_none():
    """Eq. 49: the sum less the integral is below half the first term. At late times half the last term is left."""
    spectrum, lr, alpha = Spectrum.power_law(128, 0.5), 0.01, 100.0
    assert alpha > 1 / (2 * lr * spectrum.largest)
    exact = small_rate_curve(spectrum, lr, 1.0, [alpha]).eps[0]
    integral = float(integral_curve(128, 0.5, lr, 1.0, [alpha]).value[0])
    half_first = 2 * spectrum.largest / (4 * 128) * np.exp(-2 * lr * spectrum.largest * alpha)
    assert exact - integral > 2 * 2 * half_first  # whichever way the printed factor of two is read


def test_the_exponent_shows_in_the_window_only():
    spectrum = Spectrum.power_law(4096, 1.0)
    first, last = power_law_window(4096, 1.0, 0.1)
    assert first < 0.05 < 5 < last / 1000

    def slope(low: float, high: float) -> float:
        grid = np.geomspace(low, high, 50)
        return float(np.polyfit(np.log(grid), np.log(small_rate_curve(spectrum, 0.1, 0.01, grid).eps), 1)[0])

    assert slope(0.05, 5) == pytest.approx(-0.502, abs=0.002)
    assert slope(10, 1e4) < -0.55  # the corner of the window is felt decades before it


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: linear_curve(8, 1.0, 2.1, 1.0, [1]), "stability limit"),
        (lambda: linear_curve(8, 1.0, -0.1, 1.0, [1]), "stability limit"),
        (lambda: linear_curve(8, -1.0, 0.1, 1.0, [1]), "β > 0"),
        (lambda: linear_curve(8, 1.0, 0.1, -1.0, [1]), "standard deviation"),
        (lambda: linear_curve(8, 1.0, 0.1, 1.0, [2, 1]), "does not increase"),
        (lambda: linear_curve(8, 1.0, 0.1, 1.0, [1], trained=9), "at most 8"),
        (lambda: sgd_curve(Spectrum.power_law(8, 1.0), 16, 2.0, 1.0, [1]), "stability limit"),
        (lambda: sgd_curve(Spectrum.power_law(8, 1.0), 15, 0.1, 1.0, [1]), "multiple of 8"),
        (lambda: rotated_floor(TOEPLITZ, 13, 0.1), "at most 12"),
        (lambda: integral_curve(8, 1.0, 0.0, 1.0, [1]), "η > 0"),
    ],
)
def test_what_cannot_be_is_bad_input(call, words):
    with pytest.raises(BadInput, match=words):
        call()


def test_beyond_the_limit_the_equations_do_grow():
    spectrum = Spectrum.power_law(8, 1.0)
    limit = float(stability_limit(spectrum).value)
    assert limit == pytest.approx(2)
    start = OrderParameters.infinite(1, 1, spectrum, sigma=1.0)
    below, above = (solve(start, spectrum, share * limit, [20, 60], "linear", 2) for share in (0.97, 1.03))
    assert below.eps[1] < below.eps[0]
    assert above.status == "refused"
    assert above.estimate[1] > above.estimate[0]
