"""The exact sampler of matrix products against dense Gaussians, quadrature, identities and values found elsewhere."""

from __future__ import annotations

import functools
import itertools
import math
import subprocess
import sys

import jax
import numpy as np
import pytest

from phasecast.coefficients import deep_linear
from phasecast.core import Comparison, Measurement, Prediction, Status, Verdict, float64
from phasecast.core.errors import BadInput
from phasecast.models import matrix_product
from phasecast.models.matrix_products import true_factors
from phasecast.sampling import gibbs_coefficient
from phasecast.sampling.gibbs import Conditional, autocorrelation_time, gibbs, long_batch_error


def verdict(value: float, measured: Measurement, systematic: float = 0.0) -> Verdict:
    return Comparison(Prediction(value, systematic=systematic), measured).verdict


def mean_of(series: np.ndarray) -> Measurement:
    return Measurement(float(series.mean()), long_batch_error(series))


@functools.cache
def two_numbers(rank: int, nbeta: float, gamma: float) -> tuple[float, float]:
    """nβE[L] and E|w−w*|² for a factor a times a factor b, on a fine grid: smooth, with Gaussian tails.

    Where the weight is above 1e-5 the grid is finer than the narrowest standard deviation, so that sums converge.
    """
    grid = np.linspace(-1, 1, 1001) * (rank + 7 / math.sqrt(gamma))
    sums = np.zeros(3)
    for a in grid:
        excess = nbeta / 2 * (a * grid - rank) ** 2
        distance = (a - rank) ** 2 + (grid - rank) ** 2
        weight = np.exp(-excess - gamma / 2 * distance)
        sums += weight.sum(), weight @ excess, weight @ distance
    return sums[1] / sums[0], sums[2] / sums[0]


@functools.cache
def coefficient(widths: tuple[int, ...], gamma: float, nbeta: float, rank: int) -> Measurement:
    return gibbs_coefficient(widths, rank, nbeta=nbeta, gamma=gamma)


@pytest.mark.parametrize("seed", [None, 3])
def test_the_true_factors_have_the_rank_and_their_product_the_singular_values(seed):
    factors = true_factors((5, 4, 6), 2, singular_values=(2.0, 0.5), seed=seed)
    assert [np.linalg.matrix_rank(factor) for factor in factors] == [2, 2]
    values = np.linalg.svd(factors[0] @ factors[1], compute_uv=False)
    assert values == pytest.approx([2.0, 0.5, 0, 0, 0], abs=1e-12)


def test_the_loss_is_half_the_squared_distance_of_the_products_and_can_be_compiled_and_mapped():
    problem = matrix_product((3, 2, 4), 1, seed=0)
    rng = np.random.default_rng(1)
    batch = [factor + rng.standard_normal((5, *factor.shape)) for factor in problem.params]
    expected = np.sum((batch[0] @ batch[1] - problem.params[0] @ problem.params[1]) ** 2, axis=(1, 2)) / 2
    with float64():
        assert jax.jit(jax.vmap(problem.loss))(batch) == pytest.approx(expected, rel=1e-12)
        assert float(problem.value(problem.params)) == pytest.approx(0, abs=1e-24)
    assert problem.name == "product 3-2-4 of rank 1"


def test_rotated_factors_are_the_same_problem_so_that_the_sampler_needs_no_rotation():
    plain, turned = matrix_product((4, 4, 4), 4), matrix_product((4, 4, 4), 4, seed=5)
    rng = np.random.default_rng(2)
    first, second = (factor + rng.standard_normal((4, 4)) for factor in plain.params)
    there = turned.params[0] @ first, second @ turned.params[1]  # at full rank the true factors are rotations
    with float64():
        assert float(turned.value(there)) == pytest.approx(float(plain.value((first, second))), rel=1e-10)
    near, far = np.subtract((first, second), plain.params), np.subtract(there, turned.params)
    assert np.sum(near**2) == pytest.approx(np.sum(far**2))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_conditional_of_a_factor_is_the_gaussian_of_the_dense_quadratic_form(place):
    nbeta, gamma = 7.0, 0.3
    truth = true_factors((3, 2, 4, 3), 1)
    target = truth[0] @ truth[1] @ truth[2]
    rng = np.random.default_rng(place)
    factors = [rng.standard_normal(factor.shape) for factor in truth]
    left = functools.reduce(np.matmul, factors[:place], np.eye(3))
    right = functools.reduce(np.matmul, factors[place + 1 :], np.eye(factors[place].shape[1]))
    design = np.kron(left, right.T)  # row-major: vec(A W B) = (A ⊗ Bᵀ) vec(W)
    precision = nbeta * design.T @ design + gamma * np.eye(design.shape[1])
    mean = np.linalg.solve(precision, nbeta * design.T @ target.ravel() + gamma * truth[place].ravel())

    found = Conditional.of(
        left[None] if place else None, right[None] if place < 2 else None, target, truth[place], nbeta, gamma
    )
    shape = truth[place].shape
    centre = found.draw(np.zeros((1, *shape)))
    assert centre.ravel() == pytest.approx(mean, abs=1e-10)
    units = np.eye(math.prod(shape)).reshape(-1, 1, *shape)
    directions = np.array([(found.draw(unit) - centre).ravel() for unit in units])
    np.testing.assert_allclose(directions.T @ directions, np.linalg.inv(precision), atol=1e-10)
    if place == 2:
        residual = design @ mean - target.ravel()
        dense = nbeta / 2 * (residual @ residual + np.trace(design.T @ design @ np.linalg.inv(precision)))
        assert found.expected_excess(left[None], target, nbeta, gamma) == pytest.approx(dense)


def test_a_single_factor_has_half_a_unit_for_each_entry_shrunk_by_gamma():
    nbeta, gamma, exact = 50.0, 20.0, 4 * 3 / 2 * 50 / 70
    assert gibbs_coefficient((4, 3), 2, nbeta=nbeta, gamma=gamma, sweeps=200).value == pytest.approx(exact)
    trace = gibbs(true_factors((4, 3), 2), nbeta=nbeta, gamma=gamma, sweeps=2000)
    assert verdict(exact, mean_of(trace.excess)) is Verdict.AGREES
    assert verdict(12 / 70, mean_of(trace.distance)) is Verdict.AGREES


@pytest.mark.parametrize(("rank", "nbeta", "gamma"), [(0, 300.0, 1.0), (1, 100.0, 0.5), (1, 100.0, 4.0)])
def test_two_numbers_have_the_moments_of_a_quadrature(rank, nbeta, gamma):
    excess, distance = two_numbers(rank, nbeta, gamma)
    trace = gibbs(true_factors((1, 1, 1), rank), nbeta=nbeta, gamma=gamma, sweeps=1500, chains=8, seed=1)
    assert verdict(excess, mean_of(trace.excess[:, 200:])) is Verdict.AGREES
    assert verdict(excess, mean_of(trace.expected[:, 200:])) is Verdict.AGREES
    assert verdict(distance, mean_of(trace.distance[:, 200:])) is Verdict.AGREES


def test_two_numbers_at_another_gamma_are_many_errors_away():
    wrong, _ = two_numbers(0, 300.0, 1.0)
    measured = gibbs_coefficient((1, 1, 1), 0, nbeta=300.0, gamma=2.0)
    assert abs(measured.estimate - wrong) > 8 * measured.error
    assert verdict(wrong, measured) is Verdict.DIFFERS


@pytest.mark.parametrize("widths", [(1, 1, 5), (4, 2, 1), (3, 2, 4, 1)])
def test_at_rank_zero_excess_and_distance_obey_the_virial_identity(widths):
    """E⟨w, ∇(nβL + γ|w|²/2)⟩ = d, and L has degree 2·depth: 2·depth·nβE[L] + γE|w|² = d, whatever the widths."""
    gamma, depth = 0.7, len(widths) - 1
    trace = gibbs(true_factors(widths, 0), nbeta=200.0, gamma=gamma, sweeps=1500, seed=2)
    parameters = sum(rows * columns for rows, columns in itertools.pairwise(widths))
    assert verdict(parameters, mean_of((2 * depth * trace.excess + gamma * trace.distance)[:, 200:])) is Verdict.AGREES


@pytest.mark.parametrize(
    ("widths", "rank", "nbeta", "gamma", "value", "width"),
    [
        ((10, 10, 10, 10), 3, 1086.0, 1.0, 40.5, 0.2),
        ((10, 10, 10, 10), 3, 1086.0, 100.0, 24.7, 0.1),
        ((4, 3, 4), 1, 1e4, 1.0, 5.96, 0.06),
    ],
)
def test_values_that_another_sampler_found(widths, rank, nbeta, gamma, value, width):
    measured = coefficient(widths, gamma, nbeta, rank)
    assert measured.status is Status.OK
    assert measured.error < width / 2
    assert abs(measured.estimate - value) < width + 3 * measured.error
    assert measured.estimate < deep_linear(widths, rank).value


def test_ten_percent_more_gamma_is_seen():
    one, other = (coefficient((10,) * 4, gamma, 1086.0, 3) for gamma in (100.0, 110.0))
    assert one.estimate - other.estimate > 6 * math.hypot(one.error, other.error)


def test_the_error_is_as_large_as_the_spread_over_seeds():
    exact, _ = two_numbers(0, 300.0, 1.0)
    found = [gibbs_coefficient((1, 1, 1), 0, nbeta=300.0, gamma=1.0, sweeps=400, seed=seed) for seed in range(20)]
    square = sum(((one.estimate - exact) / one.error) ** 2 for one in found)
    assert 5.4 < square < 47.5  # χ² with 20 degrees of freedom, at 1/2000 on either side
    assert np.mean([float(one.estimate) for one in found]) == pytest.approx(
        exact, abs=3 * math.sqrt(sum(one.error**2 for one in found)) / 20
    )


def test_moves_along_the_gauge_orbits_change_the_mixing_but_not_the_answer():
    setting = {"nbeta": 2e3, "gamma": 20.0, "sweeps": 3000, "seed": 3}
    slow, fast = (
        gibbs(true_factors((1, 1, 1), 1), gauge=gauge, **setting).distance[:, 500:] for gauge in (False, True)
    )
    assert autocorrelation_time(slow) > 5 * autocorrelation_time(fast)
    difference = Measurement(slow.mean() - fast.mean(), math.hypot(long_batch_error(slow), long_batch_error(fast)))
    assert verdict(0.0, difference) is Verdict.AGREES


def test_the_autocorrelation_time_of_a_known_process():
    """x ← φx + noise has time (1+φ)/(1−φ) = 19 at φ = 0.9."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((4, 20_000))
    series = np.zeros_like(noise)
    for t in range(1, noise.shape[1]):
        series[:, t] = 0.9 * series[:, t - 1] + noise[:, t]
    assert autocorrelation_time(series) == pytest.approx(19, rel=0.15)
    assert autocorrelation_time(noise) == pytest.approx(1, abs=0.1)


def test_too_few_sweeps_come_with_a_warning_that_says_how_many():
    short = gibbs_coefficient((3, 3, 3), 3, nbeta=1e4, gamma=0.1, sweeps=64)
    assert short.status is Status.WARNING
    assert "sweeps" in short.reasons[0]


def test_a_trace_goes_on_from_where_another_ended():
    setting = {"nbeta": 100.0, "gamma": 1.0, "chains": 2}
    first = gibbs(true_factors((3, 2, 3), 1), sweeps=5, **setting)
    second = gibbs(true_factors((3, 2, 3), 1), sweeps=5, start=first.factors, seed=1, **setting)
    assert second.excess.shape == (2, 5)
    with pytest.raises(BadInput, match="other shapes"):
        gibbs(true_factors((3, 3, 3), 1), sweeps=5, start=first.factors, **setting)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 4}, "rank 4 exceeds the narrowest layer"),
        ({"rank": 1, "singular_values": (1.0, 2.0)}, "singular values"),
        ({"rank": 1, "gamma": 0.0}, "positive gamma"),
        ({"rank": 1, "nbeta": math.nan}, "positive nbeta"),
        ({"rank": 1, "sweeps": 10}, "sweeps is 10"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(arguments, message):
    with pytest.raises(BadInput, match=message):
        gibbs_coefficient((3, 3), **{"nbeta": 10.0, "gamma": 1.0, **arguments})


def test_importing_the_models_does_not_import_jax():
    check = "import sys, phasecast.models; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
