"""The temperature of SGD against all minibatches counted, an exact equation for its covariance, and SGD itself."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from phasecast.claims.grokking_cullen2026.sgd import half_square, regression, run_sgd
from phasecast.coefficients import sgd_temperature
from phasecast.core import Status
from phasecast.core.errors import BadInput, Refused

UNEQUAL = [0.5, 0.5, 1.0, 1.5]


def exact_covariance(x, y, w, lr, batch):
    """The stationary covariance of SGD on a linear model, for any step: its second moments obey a linear equation.

    w − w* → (1 − ηH_B)(w − w*) − ηξ_B, so Σ = E_B[(1 − ηH_B) Σ (1 − ηH_B)] + η² E_B[ξ_B ξ_Bᵀ]; moments over pairs of
    rows without replacement: a row is in the batch with probability B/n, a pair with B(B−1)/(n(n−1)).
    """
    n, d = x.shape
    one, two = 1 / (batch * n), (batch - 1) / (batch * n * (n - 1))  # of the square of a mean over the batch
    hessians, slopes = np.einsum("ni,nj->nij", x, x), x * (x @ w - y)[:, None]
    same = sum(np.kron(h, h) for h in hessians)
    total = hessians.sum(0)
    squares = one * same + two * (np.kron(total, total) - same)
    same = slopes.T @ slopes
    noise = one * same + two * (np.outer(slopes.sum(0), slopes.sum(0)) - same)
    identity, mean = np.eye(d), total / n
    step = np.eye(d * d) - lr * (np.kron(mean, identity) + np.kron(identity, mean)) + lr**2 * squares
    return np.linalg.solve(np.eye(d * d) - step, lr**2 * noise.ravel()).reshape(d, d)


def excess(x, y, w, lr, batch):
    """E[L] − L*, exactly."""
    return float(np.trace(x.T @ x / len(x) @ exact_covariance(x, y, w, lr, batch))) / 2


def test_the_noise_is_that_of_all_minibatches_counted():
    rng = np.random.default_rng(0)
    x, lr = rng.standard_normal((7, 2)), 1e-3
    y = rng.standard_normal(7)
    w = np.linalg.lstsq(x, y, rcond=None)[0]
    for batch in (1, 3, 6):
        slopes = x * (x @ w - y)[:, None]
        means = np.array([slopes[list(rows)].mean(0) for rows in itertools.combinations(range(7), batch)])
        counted = lr / 2 * np.sum(means.var(0)) / 2  # two directions
        assert sgd_temperature(half_square, w, (x, y), lr, batch).estimate == pytest.approx(counted, rel=1e-9)


@pytest.mark.parametrize("scales", [[1.0] * 4, UNEQUAL])
def test_mean_loss_is_half_a_temperature_for_each_direction_with_a_correction_of_first_order(scales):
    x, y, w = regression(scales)
    missed = []
    for lr in (0.08, 0.04, 0.02, 0.01):
        T = sgd_temperature(half_square, w, (x, y), lr, 16)
        exact = excess(x, y, w, lr, 16) / 2  # four directions: E[L] − L* = 2T
        missed.append(exact / T.value - 1)
        assert 0.5 < (exact - T.value) / T.error < 1.5  # the reported error is the size of what is left out
    orders = np.log2(np.divide(missed[:-1], missed[1:]))
    assert np.all(abs(orders - 1) < 0.25)
    assert abs(orders[-1] - 1) < 0.05


def test_sgd_does_what_the_exact_equation_says():
    x, y, w = regression(UNEQUAL)
    squares = run_sgd(x, y, w, 0.02, 16)
    errors = squares.std(0, ddof=1) / math.sqrt(len(squares))
    exact = np.diag(exact_covariance(x, y, w, 0.02, 16))
    assert np.all(abs(squares.mean(0) - exact) < 4 * errors)
    with_replacement = exact * (len(x) - 1) / (len(x) - 16)
    assert np.any(abs(squares.mean(0) - with_replacement) > 4 * errors)


def test_noise_like_the_hessian_spreads_equally_and_has_no_single_temperature():
    """C = σ²H for residuals of one size: Σ is a multiple of 1, where exp(−L/T) would have T/H."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 3)) * [0.5, 1.0, 2.0]
    x = np.concatenate([x, x])
    y = np.repeat([1.0, -1.0], 400)  # each row twice, with opposite residuals: w* = 0
    w = np.zeros(3)
    covariance = exact_covariance(x, y, w, 1e-3, 20)
    np.testing.assert_allclose(covariance, covariance[0, 0] * np.eye(3), atol=0.02 * covariance[0, 0])
    found = sgd_temperature(half_square, w, (x, y), 1e-3, 20)
    assert found.status is Status.WARNING
    assert "does not sample exp(−L/T)" in found.reasons[0]
    spread = found.diagnostics["highest"] / found.diagnostics["lowest"]
    eigenvalues = np.linalg.eigvalsh(x.T @ x)
    assert spread == pytest.approx(eigenvalues[-1] / eigenvalues[0])
    assert found.value * 3 / 2 == pytest.approx(excess(x, y, w, 1e-3, 20), rel=0.01)


def test_equal_noise_has_one_temperature_and_its_gibbs_covariance():
    """Rows with noise of their own in each direction, besides a common curvature: C = 1 while H is not."""
    h = np.array([0.5, 1.0, 3.0])
    shifts = np.concatenate([np.eye(3), -np.eye(3)]) * math.sqrt(3)
    found = sgd_temperature(lambda w, s: (s @ w).mean() + (h * w**2).sum() / 2, np.zeros(3), shifts, 0.001, 2)
    assert found.status is Status.OK
    assert found.diagnostics["scatter"] == pytest.approx(0, abs=1e-9)
    variance = 4 / (2 * 5)  # (n − B)/(B(n − 1)), C = 1
    sigma = 0.001**2 * variance / (1 - (1 - 0.001 * h) ** 2)
    np.testing.assert_allclose(sigma, found.value / h, rtol=0.002)
    assert found.diagnostics["nβ"] == 1 / found.value


def test_all_rows_at_once_have_no_temperature():
    x, y, w = regression(UNEQUAL)
    assert sgd_temperature(half_square, w, (x, y), 0.02, len(x)).value == 0


def test_flat_directions_do_not_count():
    x, y, w = regression(UNEQUAL)
    wider = sgd_temperature(lambda w, d: half_square(w["used"], d), {"used": w, "idle": np.ones(2)}, (x, y), 0.02, 16)
    assert wider.value == pytest.approx(sgd_temperature(half_square, w, (x, y), 0.02, 16).value)
    assert wider.diagnostics["directions"] == 4


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"shift": 0.5}, "above the minimum"),
        ({"lr": 1.0}, "unstable"),
        ({"sign": -1}, "not a minimum"),
        ({"tilt": 1.0}, "flat"),
    ],
)
def test_where_sgd_does_not_settle_it_is_refused(change, reason):
    x, y, w = regression(UNEQUAL)

    def loss(w, data):
        x, y = data
        return change.get("sign", 1) * half_square(w[:4], (x, y)) + change.get("tilt", 0) * (y * w[4]).mean()

    y = y - y.mean()
    w = np.append(np.linalg.lstsq(x, y, rcond=None)[0] + change.get("shift", 0), 0.0)
    found = sgd_temperature(loss, w, (x, y), change.get("lr", 0.02), 16)
    assert reason in found.reasons[0]
    with pytest.raises(Refused):
        _ = found.value


def test_what_cannot_be_is_refused_in_one_line():
    x, y, w = regression(UNEQUAL)
    with pytest.raises(BadInput, match="choose batch ≤ 64"):
        sgd_temperature(half_square, w, (x, y), 0.02, 65)
    with pytest.raises(BadInput, match="give a positive number"):
        sgd_temperature(half_square, w, (x, y), 0.0, 16)
    with pytest.raises(BadInput, match="not the mean of the losses"):
        sgd_temperature(lambda w, d: len(d[0]) * half_square(w, d), w + 1, (x, y), 0.02, 16)
