"""How well do a few autocorrelation times know λ̂, and what do noisy gradients add to it?

Linear dynamics, where everything has a closed form: the autocorrelation of a damped oscillator, the variance of the
mean of an AR(1) series, and the stationary covariance of BAOAB with noisy gradients by a Lyapunov equation.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import solve_discrete_lyapunov
from scipy.optimize import minimize

from phasecast.coefficients.llc.estimate import _beside_centre
from phasecast.coefficients.llc.level import Level, LevelPhase
from phasecast.coefficients.llc.noise import heating, loss_share
from phasecast.coefficients.llc.policy import POLICY
from phasecast.sampling.kernels.kernel import Tuning
from phasecast.sampling.traces import Record, batch_error, mean_variance, slow_error


def loss_autocorrelation_time(stiffness: float) -> float:
    """2∫ρ(t)² dt of an offset with u'' = −(1 + stiffness) u − 2u' + noise: time in 1/√γ, stiffness nβh/γ."""
    frequency = math.sqrt(stiffness)

    def rho(t: float) -> float:
        return math.exp(-t) * (math.cos(frequency * t) + t * np.sinc(frequency * t / np.pi))

    return 2 * quad(lambda t: rho(t) ** 2, 0, 30, limit=1000)[0]


def test_no_direction_of_a_bowl_is_slower_than_the_one_that_gamma_holds():
    times = [loss_autocorrelation_time(stiffness) for stiffness in (0.0, 0.1, 1.0, 10.0, 100.0)]
    assert times[0] == pytest.approx(POLICY.slowest_time)
    assert times == sorted(times, reverse=True)
    assert times[2] == pytest.approx(1.5)  # ∫e^(−2t)(1 + sin 2t) dt = 3/4


def ar1(times: float, replicates: int, steps: int = 100, seed: int = 0) -> np.ndarray:
    """Stationary series of unit variance, so many autocorrelation times τ long: (steps, replicates)."""
    rng = np.random.default_rng(seed)
    kept = math.exp(-2 * times / steps)
    now, series = rng.normal(size=replicates), []
    for _ in range(steps):
        series.append(now)
        now = kept * now + math.sqrt(1 - kept**2) * rng.normal(size=replicates)
    return np.array(series)


@pytest.mark.parametrize("times", [0.5, 2.4, 20.0])
def test_the_variance_of_the_mean_of_a_correlated_series(times):
    steps = 2000
    apart = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps))) * times / steps
    assert mean_variance(times) == pytest.approx(np.exp(-2 * apart).mean(), rel=2e-3)


@pytest.mark.parametrize("times", [1.0, 2.4, 5.0, 20.0])
def test_two_errors_hold_the_mean_of_a_short_series(times):
    series = ar1(times, replicates=400)
    means = series.mean(axis=0)
    errors = np.array([slow_error(one[:, None], times) for one in series.T])
    assert np.mean(abs(means) < 2 * errors) > 0.93
    assert np.median(errors) < 2 * means.std()  # not wide for nothing
    if times < 3:  # the negative control: batches that know nothing of τ
        plain = np.array([batch_error(one[:, None], 10) for one in series.T])
        assert np.mean(abs(means) < 2 * plain) < 0.8


@pytest.mark.parametrize("times", [30.0, 4000.0])
def test_the_error_of_a_long_series_is_that_of_independent_batches(times):
    """Five independent means: √(Var/5) of them, with Student's t of four degrees of freedom."""
    means = np.random.default_rng(0).normal(size=(500, 1))
    plain = batch_error(means, 5)
    assert slow_error(means, times) == pytest.approx(plain, rel=3 / times)


def bowl_chains(stiffness: np.ndarray, steps: int, step: float, replicates: int) -> tuple[np.ndarray, np.ndarray]:
    """nβL and |w − w*|² of stationary BAOAB chains in a bowl with γ = 1: (steps, replicates) each."""
    rng = np.random.default_rng(1)
    curvature, kept = stiffness + 1, math.exp(-POLICY.langevin_friction * step)
    u = rng.normal(size=(replicates, len(stiffness))) / np.sqrt(curvature)
    p = rng.normal(size=u.shape)
    losses, squares = [], []
    for _ in range(steps):
        p = p - step / 2 * curvature * u
        u = u + step / 2 * p
        p = kept * p + math.sqrt(1 - kept**2) * rng.normal(size=u.shape)
        u = u + step / 2 * p
        p = p - step / 2 * curvature * u
        losses.append(u**2 @ stiffness / 2)
        squares.append(np.sum(u**2, axis=1))
    return np.array(losses), np.array(squares)


@pytest.mark.parametrize(("times", "phase"), [(2.4, LevelPhase.DONE), (1.2, LevelPhase.SPENT), (8.0, LevelPhase.SPENT)])
def test_the_error_of_short_chains_in_a_bowl_holds(times, phase):
    stiffness, step = np.logspace(-2, 1, 40), 0.15
    steps = round(times * POLICY.slowest_time / step)
    exact = float(np.sum(stiffness / (stiffness + 1)) / 2)
    inside, shares = [], []
    for losses in bowl_chains(stiffness, steps, step, replicates=200)[0].T:
        record = Record.empty(1)
        record.loss.append(losses[:, None])
        tuning = Tuning(step, 1.0, POLICY.langevin_friction, 1.0, 1.0)
        level = Level(tuning, {}, 40, False, record, phase, slowest=POLICY.slowest_time)
        inside.append(abs(level.value - exact) < 2 * level.error)
        shares.append(level.error / math.sqrt(exact * mean_variance(times)))
    assert np.mean(inside) > 0.93
    assert np.median(shares) < 1.6


def test_steins_identity_of_short_chains_holds_within_its_error():
    stiffness, step, times = np.logspace(-2, 1, 40), 0.15, 1.2
    steps = round(times * POLICY.slowest_time / step)
    tuning = Tuning(step, 1.0, POLICY.langevin_friction, 1.0, 1.0)
    far = {}
    for slowest in (POLICY.slowest_time, 0.0):  # the control: as if nothing were known of autocorrelation
        distances = []
        for losses, squares in zip(*(array.T for array in bowl_chains(stiffness, steps, step, 200)), strict=True):
            record = Record.empty(1)
            record.pull.append(2 * losses[:, None])  # u·∇(nβL) of a bowl
            record.radius.append(squares[:, None])
            record.loss.append(losses[:, None])
            off, error = Level(tuning, {}, 40, False, record, LevelPhase.DONE, slowest=slowest).stein
            distances.append(off / error)
        far[slowest] = np.mean(np.abs(distances) > POLICY.large_stein)
    assert far[POLICY.slowest_time] <= 0.02
    assert far[0.0] > 0.05


@pytest.mark.parametrize("stiffness", [0.0, 0.3, 1.0, 3.0, 1e6])
def test_chains_that_follow_a_moved_centre_are_at_most_half_of_its_move_from_their_new_mean(stiffness):
    before, after, lowest = np.array([1.0]), np.array([1.8]), np.array([0.4])

    def mean_offset(centre: np.ndarray) -> np.ndarray:
        return minimize(lambda u: stiffness * (centre + u - lowest) ** 2 + u**2, [0.0], tol=1e-12).x

    start = {"position": mean_offset(before)[None], "centre": before}
    begin = _beside_centre(start, after, POLICY.follow)["position"][0]
    assert abs(begin - mean_offset(after)) <= 0.5 * abs(after - before) + 1e-4


def positions_with_noise(curvature: np.ndarray, noise: np.ndarray, step: float, friction: float) -> np.ndarray:
    """The stationary covariance of BAOAB positions with gradient Au + η, η of covariance ``noise``.

    The gradient at the end of a step is used again at the beginning of the next, so η belongs to the state (u, p, η).
    """
    one, nothing, kept = np.eye(len(curvature)), np.zeros_like(curvature), math.exp(-friction * step)
    kick = np.block([[one, nothing, nothing], [-step / 2 * curvature, one, -step / 2 * one], [nothing, nothing, one]])
    drift = np.block([[one, step / 2 * one, nothing], [nothing, one, nothing], [nothing, nothing, one]])
    forget = np.block([[one, nothing, nothing], [nothing, kept * one, nothing], [nothing, nothing, nothing]])
    fresh = np.block([[nothing], [nothing], [one]])
    thermal = np.block([[nothing], [math.sqrt(1 - kept**2) * one], [nothing]])
    step_map = kick @ drift @ forget @ drift @ kick
    inputs = kick @ drift @ thermal @ thermal.T @ drift.T @ kick.T + kick @ fresh @ noise @ fresh.T @ kick.T
    size = len(curvature)
    return solve_discrete_lyapunov(step_map, inputs)[:size, :size]


def noisy_bowl() -> tuple[np.ndarray, np.ndarray]:
    """Curvatures of nβL in a basis of their own, and a noise that is neither diagonal there nor in proportion."""
    rng = np.random.default_rng(2)
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    curvature = basis @ np.diag([0.05, 0.2, 0.6, 1.5, 4.0, 9.0]) @ basis.T
    factor = rng.normal(size=(6, 3))
    return curvature, 5 * (factor @ factor.T + curvature)


def test_noisy_gradients_heat_the_loss_by_what_the_formula_says():
    curvature, noise = noisy_bowl()
    step, friction, total = 0.05, 2.0, curvature + np.eye(6)
    cold = np.trace(curvature @ np.linalg.inv(total)) / 2
    hot = np.trace(curvature @ positions_with_noise(total, noise, step, friction)) / 2
    bound = heating(Tuning(step, 1.0, friction, 1.0, 1.0), float(np.trace(noise)))
    share = np.trace(curvature @ np.linalg.inv(total) @ noise) / np.trace(noise)
    assert hot - cold == pytest.approx(share * bound, rel=0.03)
    assert abs(hot - cold - bound) > 0.1 * bound  # the control: all of the noise is too much
    without = np.trace(curvature @ positions_with_noise(total, 0 * noise, step, friction)) / 2
    assert without == pytest.approx(cold, rel=1e-9)  # BAOAB is exact in a bowl


def test_the_share_of_noise_that_heats_the_loss_by_lanczos():
    curvature, noise = noisy_bowl()
    exact = np.trace(curvature @ np.linalg.inv(curvature + np.eye(6)) @ noise) / np.trace(noise)
    pairs = np.random.default_rng(3).multivariate_normal(np.zeros(6), noise, size=2000)
    bounds, weights = [], np.sum(pairs**2, axis=1)
    for pair in pairs:
        bounds.append(loss_share(lambda u: u @ curvature, np.zeros((1, 6)), pair[None], 1.0, 1.0))
    lower, upper = np.average(bounds, axis=0, weights=weights)
    assert lower - 0.01 < exact < upper + 0.01  # 2000 pairs know it to 0.005
    assert upper - lower < 0.05


@pytest.mark.parametrize(("power", "apart"), [(1.0, 0.05), (0.5, 0.15), (0.0, 0.3)])
def test_the_share_is_between_its_bounds_over_six_decades_of_curvature(power, apart):
    curvatures = np.logspace(-4, 2, 1000)
    pair = np.random.default_rng(4).normal(size=1000) * curvatures ** (power / 2)
    exact = np.average(curvatures / (curvatures + 1), weights=pair**2)
    lower, upper = loss_share(lambda u: u * curvatures, np.zeros((1, 1000)), pair[None], 1.0, 1.0)
    assert lower <= exact <= upper
    assert upper - lower < apart


@pytest.mark.parametrize(("curvature", "share"), [(0.0, 0.0), (1.0, 0.5), (1e6, 1.0), (-0.5, 0.0)])
def test_the_share_of_an_even_bowl(curvature, share):
    ones = np.ones((2, 5))
    assert loss_share(lambda u: curvature * u, 0 * ones, ones, 1.0, 0.1) == pytest.approx((share, share), abs=1e-3)
