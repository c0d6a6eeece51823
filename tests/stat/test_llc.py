"""λ̂ against long-run expectations that are known by other ways: closed forms, quadrature, exact Gibbs sampling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import phasecast as pc
from phasecast.coefficients.llc.estimate import Estimator
from phasecast.coefficients.llc.options import LLCOptions
from phasecast.coefficients.llc.policy import POLICY
from phasecast.coefficients.llc.problems import on_backend
from phasecast.coefficients.llc.studies.sweep import LLCSweep
from phasecast.core import Status, float64
from phasecast.core.errors import BadInput
from phasecast.models import fourier_solution, matrix_product, modular_table
from phasecast.sampling import Fixed, gibbs_coefficient

pytestmark = pytest.mark.usefixtures("full_optimisation")


def bowl(w):
    return (w**2).sum() / 2


def cross(w):
    return w[0] ** 2 * w[1] ** 4


def quadrature(loss, nbeta: float, gamma: float) -> tuple[float, float]:
    """nβE[L] and (nβ)²Var L of a loss of two parameters, even in both, on a grid of sinh-spaced points."""
    x = np.sinh(np.linspace(0, np.arcsinh(1e4), 3000)) * 1e-3
    weight = np.gradient(x)
    energy = nbeta * loss(np.stack(np.meshgrid(x, x, indexing="ij")))
    density = np.exp(-energy - gamma / 2 * (x[:, None] ** 2 + x[None, :] ** 2)) * weight[:, None] * weight[None, :]
    mean = np.sum(energy * density) / np.sum(density)
    return mean, np.sum(energy**2 * density) / np.sum(density) - mean**2


def regression(shift: float = 0.0):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 20))
    y = x @ rng.normal(size=20) + rng.normal(size=2000)
    best = np.linalg.lstsq(x, y, rcond=None)[0]

    def exact(nbeta: float, gamma: float) -> float:
        curvatures = nbeta * np.linalg.eigvalsh(x.T @ x / len(x))
        return float(np.sum(curvatures / (curvatures + gamma)) / 2)

    return pc.Problem(lambda w, d: jnp.mean((d[0] @ w - d[1]) ** 2) / 2, best + shift, (x, y)), exact


def within(found: pc.LLC, exact: float, errors: float = 3.5) -> bool:
    return abs(float(found) - exact) < errors * float(found.error)


def test_a_bowl_at_a_given_pull():
    found = pc.llc(bowl, np.zeros(20), nbeta=1086, gamma=1.0)
    assert found.status is Status.OK
    assert within(found, 10 * 1086 / 1087)
    assert found.error < 0.05 * found.value
    assert len(found.curve) >= 2


def test_a_cross_at_a_given_pull():
    mean, variance = quadrature(cross, 1e4, 1.0)
    assert mean == pytest.approx(0.2358, abs=2e-4)
    assert variance == pytest.approx(0.2323, abs=3e-4)
    found = pc.llc(cross, np.zeros(2), nbeta=1e4, gamma=1.0)
    assert found.status is Status.OK
    assert within(found, mean)
    assert abs(found.value_var - variance) < 0.1 * variance


@pytest.mark.slow
@pytest.mark.parametrize(
    ("widths", "rank", "nbeta", "gamma", "elsewhere"),
    [((4, 3, 4), 1, 1e4, 1.0, 100.0), ((10,) * 4, 3, 1086, 100.0, 400.0)],
)
def test_products_of_matrices_against_exact_gibbs_sampling(widths, rank, nbeta, gamma, elsewhere):
    """The negative control is the same at another γ, ``elsewhere``."""
    exact = gibbs_coefficient(widths, rank, nbeta=nbeta, gamma=gamma, seed=1)
    found = pc.llc(matrix_product(widths, rank), nbeta=nbeta, gamma=gamma)
    assert found.status is Status.OK
    assert abs(float(found) - float(exact)) < 3.5 * np.hypot(found.error, exact.error)
    wrong = gibbs_coefficient(widths, rank, nbeta=nbeta, gamma=elsewhere, seed=1)
    assert abs(float(found) - float(wrong)) > 3.5 * np.hypot(found.error, wrong.error)


def test_a_regular_model_from_data_with_nothing_to_choose():
    problem, exact = regression()
    measured = pc.llc(problem)
    assert measured.status is Status.OK
    centre = np.asarray(problem.params)
    assert measured.gamma == pytest.approx(20 / (0.3**2 * centre @ centre))
    assert within(measured, exact(measured.nbeta, measured.gamma))
    assert measured.radius <= 0.3
    assert measured.nbeta == pytest.approx(2000 / np.log(2000))
    limit = pc.llc(problem, gamma="limit")
    assert limit.status is Status.OK
    assert limit.gamma == 0
    assert within(limit, 10.0)


def test_a_point_that_is_not_a_minimum_has_a_value_beside_it_that_says_so():
    shifted, exact = regression(shift=0.1)
    measured = pc.llc(shifted, gamma=1.0)
    assert measured.status is Status.WARNING
    assert any("not a minimum" in reason for reason in measured.reasons)
    assert measured.value < 0 < measured.value_min
    at_minimum = exact(measured.nbeta, 1.0)
    held_back = measured.gamma * 20 * 0.1**2 / 2  # γ/2 |w* − minimum|², which the localisation adds
    assert abs(measured.value_min - at_minimum) < 4 * measured.error + held_back


@pytest.mark.slow
def test_steps_that_bias_are_refused_and_small_ones_are_not():
    problem, exact = regression()
    good, long = (
        pc.llc(problem, gamma=1.0, chains=8, sampler=Fixed("sgld", step_size=size, draws=6000, burn_in=1000))
        for size in (1e-4, 2e-3)
    )
    truth = exact(good.nbeta, 1.0)
    assert good.status is not Status.REFUSED
    assert abs(good.estimate - truth) < 4 * np.hypot(good.error, good.diagnostics["bias_error"])
    assert long.status is Status.REFUSED
    assert long.estimate > 1.1 * truth


@pytest.mark.slow
def test_x2y2_has_no_limit_to_read_off_and_says_so():
    found = pc.llc(lambda w: w[0] ** 2 * w[1] ** 2, np.zeros(2), nbeta=1e4, gamma="limit", target=0.05, max_grads=6e7)
    assert found.status is not Status.OK
    assert found.reasons


@pytest.mark.slow
def test_a_quadratic_network_at_a_generic_point():
    """½E(xᵀDx)² = |D|² + (tr D)²/2 for standard normal x; λ = 7/2."""
    rng = np.random.default_rng(0)
    true = {"W": jnp.asarray(rng.normal(size=(4, 2))), "v": jnp.asarray(rng.normal(size=2))}

    def form(w):
        return (w["W"] * w["v"]) @ w["W"].T

    def loss(w):
        gap = form(w) - form(true)
        return jnp.sum(gap**2) + jnp.trace(gap) ** 2 / 2

    found = pc.llc(loss, true, nbeta=1e4, gamma="limit")
    assert found.status is Status.OK
    assert within(found, 3.5)


@pytest.mark.slow
def test_the_fourier_solution_of_modular_addition():
    inputs, _ = modular_table(5)
    weights = fourier_solution(5, 4)

    def centred(w):
        outputs = (inputs @ w["W"]) ** 2 @ w["V"].T
        return outputs - outputs.mean(axis=0)

    right = centred(weights)

    def loss(w):
        return jnp.mean(jnp.sum((centred(w) - right) ** 2, axis=1)) / 2

    found = pc.llc(loss, weights, nbeta=1e4, gamma=5.0)
    with float64():
        flat, shape = ravel_pytree(weights)
        curvatures = 1e4 * np.linalg.eigvalsh(np.asarray(jax.hessian(lambda w: loss(shape(w)))(flat)))
    assert np.sum(curvatures > 1) == 2 * 45.5  # λ of a smooth set of minima is half its codimension
    at_gamma = float(np.sum(curvatures / (curvatures + 5.0)) / 2)
    assert found.status is not Status.REFUSED
    assert abs(found.estimate - at_gamma) < 4 * found.error


@pytest.mark.slow
def test_the_same_seed_is_the_same_answer_and_another_is_another():
    first, second, other = (pc.llc(bowl, np.zeros(3), nbeta=100, gamma=1.0, seed=seed) for seed in (1, 1, 2))
    assert first.estimate == second.estimate
    assert np.array_equal(first.traces["excess"], second.traces["excess"])
    assert first.estimate != other.estimate


@pytest.mark.slow
def test_a_training_time_l2_is_sampled_and_not_counted():
    """With L = ½(w − 1)² and s = 1 the training ends at 1/2; nβL around it is (nβ + nβs + γ) wide."""
    found = pc.llc(lambda w: ((w - 1) ** 2).sum() / 2, np.full(4, 0.5), nbeta=1000, gamma=1.0, prior=1.0, target=0.1)
    assert found.status is Status.OK
    assert within(found, 4 * 1000 / (2 * 2001))
    without = pc.llc(lambda w: ((w - 1) ** 2).sum() / 2, np.full(4, 0.5), nbeta=1000, gamma=1.0)
    assert without.status is Status.WARNING
    assert without.value < -400
    assert "not a minimum" in without.reasons[0]


def test_only_the_named_parameters_count():
    params = {"first": np.zeros(6), "second": np.zeros(4)}
    found = pc.llc(lambda w: bowl(w["first"]) + bowl(w["second"]), params, nbeta=1e4, gamma=1.0, only="sec*")
    assert within(found, 2 * 1e4 / (1e4 + 1))


@pytest.mark.slow
def test_the_free_energy_of_a_bowl_and_of_a_cross():
    found = pc.local_free_energy(bowl, np.zeros(4), nbeta=1000.0, gamma=2.0)
    assert abs(found.value - 2 * np.log(1 + 1000 / 2)) < 3.5 * found.error
    x = np.linspace(-6, 6, 4001)
    density = np.exp(-1e3 * x[:, None] ** 2 * x[None, :] ** 4 - (x[:, None] ** 2 + x[None, :] ** 2) / 2)
    evidence = density.sum() * (x[1] - x[0]) ** 2 / (2 * np.pi)
    crossed = pc.local_free_energy(cross, np.zeros(2), nbeta=1e3, gamma=1.0)
    assert abs(crossed.value + np.log(evidence)) < 3.5 * crossed.error
    assert abs(crossed.value + np.log(evidence / 2)) > 3.5 * crossed.error  # a wrong evidence is seen


@pytest.mark.slow
def test_a_sweep_and_a_trajectory_draw_what_they_found():
    swept = pc.llc_sweep(bowl, np.zeros(2), nbetas=[100.0], gammas=[1.0, 10.0], target=0.05)
    values = [result.estimate for result in swept.results[0]]
    assert values[0] > values[1]
    assert swept.plot().axes
    path = pc.llc_trajectory({0: np.ones(2), 10: np.zeros(2)}, bowl, nbeta=100.0, gamma=1.0, target=0.05)
    assert [result.status for result in path.results] == [Status.WARNING, Status.OK]
    assert path.plot().axes
    assert path.results[1].plot().axes
    assert set(path.results[1].datatree()["posterior"].data_vars) == {"excess", "radius"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pc.llc(bowl, np.zeros(2)), "give nbeta"),
        (lambda: pc.llc(bowl), "no parameters"),
        (lambda: pc.llc(bowl, np.zeros(2), nbeta=-1), "nbeta is -1"),
        (lambda: pc.llc(bowl, np.zeros(2), nbeta=10, gamma=0), "gamma is 0"),
        (lambda: pc.llc(bowl, np.zeros(2), nbeta=10, sampler="hcm"), "did you mean 'hmc'"),
        (lambda: pc.llc(bowl, np.zeros(2), nbeta=10, sampler="sgld"), "give gamma"),
        (lambda: pc.llc(bowl, np.zeros(2), nbeta=10, only="layer.*"), "no parameter is called like"),
        (lambda: pc.llc(lambda w: w, np.zeros(2), nbeta=10), "return one number"),
        (lambda: pc.llc(lambda w: bowl(w) / 0, np.ones(2), nbeta=10), "the loss at params is"),
        (lambda: pc.llc(bowl, np.zeros(2), nbeta=10, prior=-1), "prior is -1"),
        (lambda: pc.llc(bowl, np.zeros(2), nbeta=10, chains=0), "chains is 0"),
        (lambda: Fixed("hmc"), "no fixed step"),
        (lambda: pc.llc_sweep(bowl, np.zeros(2), nbetas=[], gammas=[1.0]), "nothing to sweep"),
        (lambda: pc.llc_trajectory({}, bowl), "no checkpoints"),
        (lambda: pc.local_free_energy(bowl, np.zeros(2), gamma=1.0), "give nbeta"),
    ],
)
def test_what_cannot_be_sampled_is_bad_input(call, words):
    with pytest.raises(BadInput, match=words):
        call()


@pytest.mark.slow
def test_the_intercept_in_one_over_log_helps_x2y2_and_hurts_x2y4():
    nbetas = (1e4, 1e5, 1e6)
    for loss, exact, helps in ((lambda w: w[0] ** 2 * w[1] ** 2, 0.5, True), (cross, 0.25, False)):
        values = [quadrature(loss, nbeta, 1.0)[0] for nbeta in nbetas]
        exactly: Any = tuple((pc.Measurement(value, 1e-4),) for value in values)  # not sampled
        found = LLCSweep(nbetas, (1.0,), exactly).intercept()
        assert found.status is Status.WARNING
        assert (abs(found.value - exact) < abs(values[-1] - exact)) == helps
        assert abs(found.value - np.polyfit(1 / np.log(nbetas), values, 1)[1]) < 1e-9
    sampled = pc.llc_sweep(bowl, np.zeros(3), nbetas=[10.0, 100.0], gammas=[1e-3], target=0.1)
    with pytest.raises(BadInput, match="three nβ"):
        sampled.intercept(gamma=2.0)


@pytest.mark.slow
def test_minibatches_are_taken_where_all_rows_cost_too_much_and_the_error_holds_their_bias():
    policy = replace(POLICY, largest_full_work=1e3, cheap_gradient=1e2)
    problem, exact = regression()
    for gamma in (None, 5.0):
        options = LLCOptions(gamma=gamma)
        found = Estimator(on_backend(problem, options), options, policy=policy).run()
        assert found.policy["largest_full_work"] == 1e3
        assert found.status is not Status.REFUSED
        assert found.diagnostics["batch"] == 16
        assert 0 < found.diagnostics["bias_bound"] < found.value
        assert abs(found.value - exact(found.nbeta, found.gamma)) < 3 * found.error
        assert found.error < 0.25 * found.value


@pytest.mark.slow
def test_losses_of_single_rows_add_up_to_the_excess_of_the_chains():
    problem, exact = regression()

    def row_losses(w, data):
        return (data[0] @ w - data[1]) ** 2 / 2

    found = pc.llc(problem, gamma=5.0, target=0.05)
    rows = found.sample_losses(row_losses, draws=40, thin=5)
    assert rows.shape == (40, found.traces["excess"].shape[1], 2000)
    lowest = float(np.mean(row_losses(problem.params, problem.data)))
    excess = found.nbeta * (rows.mean(axis=2) - lowest)
    error = excess.std() / np.sqrt(excess.size / 4)  # draws are five trajectories apart
    assert abs(excess.mean() - exact(found.nbeta, 5.0)) < 4 * error
    with pytest.raises(BadInput, match="one number for each of 2000 rows"):
        found.sample_losses(lambda w, data: row_losses(w, data)[:5], draws=1)
    with pytest.raises(BadInput, match="without data"):
        pc.llc(bowl, np.zeros(2), nbeta=10.0, gamma=1.0, target=0.2).sample_losses(row_losses)
