"""Measurements along a grokking run against finite differences, dense matrices and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.core.precision import float64
from phasecast.core.results import Measurement, Status
from phasecast.grokking.theory.basin_competition import basin_crossing, free_energies
from phasecast.grokking.theory.fourier_features import best_frequency, kernel_change, neuron_spectra, power, weight_norm
from phasecast.grokking.theory.gradient_signal import (
    climb,
    energy,
    fourier_energy,
    gradient_signal,
    ridge_signal,
    wide_scale,
)
from phasecast.grokking.theory.pair_features import centred
from phasecast.grokking.theory.predictions import (
    exact_lines,
    gauss_newton,
    gauss_newton_sampled,
    jacobian_eigenvalues,
    nonlinearity,
    rank_from_eigenvalues,
)
from phasecast.grokking.theory.ridge import ridge_solution
from phasecast.models import fourier_solution, modular_table, quadratic_network


def table(p: int, n: int | None = None, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs, labels and one-hot inputs of the full table or of n pairs of it."""
    rows = np.random.default_rng(seed).permutation(p * p)[: n or p * p]
    first, second = np.divmod(rows, p)
    return np.stack([first, second], axis=1), (first + second) % p, modular_table(p)[0][rows]


def network(p: int, width: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng([p, width, seed])
    return {"W": rng.standard_normal((2 * p, width)) / math.sqrt(p), "V": rng.standard_normal((p, width))}


def dense_jacobian(params: dict[str, np.ndarray], inputs: np.ndarray) -> np.ndarray:
    import jax

    with float64():
        tree = jax.tree.map(lambda leaf: jax.numpy.asarray(leaf, dtype=float), params)
        blocks = jax.jacrev(lambda w: quadratic_network(w, inputs))(tree)
    n, p = len(inputs), len(params["V"])
    whole = np.concatenate([np.asarray(blocks[name]).reshape(n, p, -1) for name in ("V", "W")], axis=2)
    return centred(whole).reshape(n * p, -1)


def test_the_gradient_signal_is_minus_the_derivative_by_the_features():
    p, (tokens, labels, inputs) = 5, table(5, 14)
    params = network(p, 6)
    features, targets = (inputs @ params["W"]) ** 2, np.eye(p)[labels]

    def loss(f: np.ndarray) -> float:
        return 0.5 * float(np.sum(centred(targets - f @ params["V"].T) ** 2))

    signal = gradient_signal(params, tokens, labels, p)
    for i, j in ((0, 0), (3, 2), (13, 5)):
        nudge = np.zeros_like(features)
        nudge[i, j] = 1e-5
        slope = (loss(features + nudge) - loss(features - nudge)) / 2e-5
        assert slope == pytest.approx(-signal.gradient[i, j], rel=1e-6)
    assert signal.residual == pytest.approx(math.sqrt(1 - signal.cosine**2))


def test_at_the_ridge_solution_the_signal_has_its_exact_form():
    p, eta, (tokens, labels, inputs) = 5, 0.3, table(5, 14)
    W = network(p, 9)["W"]
    F, Y = centred((inputs @ W) ** 2), centred(np.eye(p)[labels])
    inverse = np.linalg.inv(F @ F.T + eta * np.eye(len(F)))
    assert ridge_signal(W, tokens, labels, p, eta).gradient == pytest.approx(eta * inverse @ Y @ Y.T @ inverse @ F)


def test_wide_layers_on_the_full_table_follow_the_label_aligned_signal():
    p, width, eta = 7, 128 * 49, 1e-3
    tokens, labels, _ = table(p)
    W = np.random.default_rng(0).standard_normal((2 * p, width)) * 0.4
    signal = ridge_signal(W, tokens, labels, p, eta)
    assert signal.cosine > 0.97
    assert signal.scale == pytest.approx(wide_scale(width, eta, 0.4), rel=0.1)


def test_the_gradient_of_the_energy_is_that_of_finite_differences():
    p, (tokens, labels, _) = 5, table(5, 14)
    w = network(p, 3)["W"]
    value, slope = energy(w, tokens, labels, p)
    for i in range(2 * p):
        nudge = np.zeros_like(w)
        nudge[i] = 1e-5
        difference = energy(w + nudge, tokens, labels, p)[0] - energy(w - nudge, tokens, labels, p)[0]
        assert difference / 2e-5 == pytest.approx(slope[i], rel=1e-6, abs=1e-8)
    assert np.sum(w * slope, axis=0) == pytest.approx(4 * value)  # a form of degree four


def test_one_frequency_has_the_energy_of_the_closed_form_whatever_its_phases():
    p, (tokens, labels, _) = 11, table(11)
    angle = 2 * np.pi * 3 * np.arange(p) / p
    u, v = 0.7 * np.cos(angle + 0.4), 1.3 * np.cos(angle + 2.2)
    value, _ = energy(np.concatenate([u, v])[:, None], tokens, labels, p)
    assert value[0] == pytest.approx(fourier_energy(p, float(u @ u), float(v @ v)))


def test_the_energy_on_the_full_table_is_a_sum_over_frequencies():
    p, (tokens, labels, _) = 7, table(7)
    w = network(p, 4)["W"]
    expected = p * np.sum(power(w[:p])[1:] * power(w[p:])[1:], axis=0)
    assert energy(w, tokens, labels, p)[0] == pytest.approx(expected)


def test_every_ascent_on_the_full_table_ends_at_one_frequency():
    p, (tokens, labels, _) = 11, table(11)
    found = climb(tokens, labels, p, starts=40)
    assert found.converged.all()
    assert found.energies == pytest.approx(p / 4)
    assert found.shares.min() > 1 - 1e-9
    assert len(np.unique(found.frequencies)) == 5  # each frequency is found


def test_on_part_of_the_table_maxima_of_the_energy_are_not_fourier_features():
    p, (tokens, labels, _) = 23, table(23, 211, seed=1)
    assert np.median(climb(tokens, labels, p, starts=24).shares) < 0.5


def test_the_ridge_solution_makes_the_gradient_zero():
    p, eta, (tokens, labels, inputs) = 5, 0.05, table(5, 16)
    W = network(p, 9)["W"]
    found = ridge_solution(W, tokens, labels, p, eta, (tokens[:4], labels[:4]))
    F, Y = centred((inputs @ W) ** 2), centred(np.eye(p)[labels])
    pull = F.T @ (Y - F @ found.V.T)
    assert pull == pytest.approx(eta * found.V.T)
    assert found.residual == pytest.approx(np.linalg.norm(Y - F @ found.V.T) / np.linalg.norm(Y))
    assert float(found.coefficient.value) == 0.5 * p * 9
    outputs = (inputs @ W) ** 2 @ found.V.T
    guesses = (outputs - outputs.mean(0) + np.eye(p)[labels].mean(0)).argmax(1)
    assert found.train_accuracy == np.mean(guesses == labels)
    assert found.val_accuracy == np.mean((guesses == labels)[:4])


def test_lambda_of_the_second_layer_alone_is_that_of_its_hessian():
    p, (tokens, labels, inputs) = 5, table(5, 12)
    W = network(p, 20)["W"]
    found = ridge_solution(W, tokens, labels, p, 1e-3)
    F = centred((inputs @ W) ** 2)
    assert float(found.coefficient.value) == 0.5 * np.linalg.matrix_rank(np.kron(np.eye(p), F)) == 0.5 * p * 11
    curvature = np.linalg.eigvalsh(np.kron(np.eye(p), F.T @ F / 12))
    assert found.at(30.0, 0.5) == pytest.approx(float(gauss_newton(curvature, 30.0, 0.5).value))


def test_the_exact_fourier_solution_has_four_units_of_one_frequency_each():
    p = 11
    found = neuron_spectra(fourier_solution(p, 4), p)
    assert found.shares == pytest.approx(1)
    assert found.agreement.all()
    assert found.live.all()
    assert found.histogram.tolist() == [4] * 5


def test_spectra_do_not_see_the_constant_that_moves_between_operands():
    params = network(7, 5)
    moved = {**params, "W": params["W"] + np.repeat([[1.5], [-1.5]], 7, axis=0)}
    assert neuron_spectra(moved, 7).shares == pytest.approx(neuron_spectra(params, 7).shares)
    assert power(params["V"]).sum(axis=0) == pytest.approx(np.sum(params["V"] ** 2, axis=0))
    assert best_frequency(np.ones((7, 1)))[1] == pytest.approx(0)


def test_weight_norm_is_that_of_all_parameters():
    assert weight_norm({"W": np.ones((4, 2)), "V": np.full((2, 2), 2.0)}) == pytest.approx(math.sqrt(24))


def test_the_change_of_the_kernel_is_that_of_dense_kernels():
    p, (tokens, _, inputs) = 5, table(5, 14)
    old, new = network(p, 6, 1), network(p, 6, 2)
    first, second = (J @ J.T for J in (dense_jacobian(old, inputs), dense_jacobian(new, inputs)))
    aligned = np.sum(first * second) / np.linalg.norm(first) / np.linalg.norm(second)
    assert kernel_change(old, new, tokens, p) == pytest.approx(1 - aligned)
    assert kernel_change(old, {k: 3 * v for k, v in old.items()}, tokens, p) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("width", [3, 12])  # fewer parameters than outputs, and more
def test_eigenvalues_are_those_of_the_dense_jacobian(width):
    p, n = 5, 14
    tokens, _, inputs = table(p, n)
    params = network(p, width)
    J = dense_jacobian(params, inputs)
    squared = np.sort(np.linalg.svd(J, compute_uv=False) ** 2 / n)
    values = jacobian_eigenvalues(params, tokens, p)
    assert values == pytest.approx(squared, abs=1e-10)
    assert jacobian_eigenvalues(params, tokens, p, single=True) == pytest.approx(squared, rel=1e-3, abs=1e-4)
    rank = rank_from_eigenvalues(values, n, p)
    assert rank.rank == np.linalg.matrix_rank(J)
    assert rank.clear


def test_gauss_newton_is_the_exact_mean_of_a_quadratic_loss():
    p, n, nbeta, gamma = 5, 14, 30.0, 2.0
    tokens, _, inputs = table(p, n)
    params = network(p, 4)
    J = dense_jacobian(params, inputs)
    H = J.T @ J / n
    covariance = np.linalg.inv(nbeta * H + gamma * np.eye(len(H)))  # of the posterior under the pull
    exact = nbeta * 0.5 * float(np.trace(H @ covariance))
    assert float(gauss_newton(jacobian_eigenvalues(params, tokens, p), nbeta, gamma).value) == pytest.approx(exact)
    sampled = gauss_newton_sampled(params, tokens, p, nbeta, gamma, probes=60)
    assert abs(float(sampled.value) - exact) < 4 * float(sampled.error) < 0.2 * exact


def test_nonlinearity_falls_as_one_over_gamma_and_widens_the_prediction():
    p, (tokens, _, _) = 5, table(5, 14)
    params = network(p, 8)
    far, near = (nonlinearity(params, tokens, p, gamma) for gamma in (1e3, 1e5))
    assert far == pytest.approx(100 * near, rel=0.05)  # the quadratic part of Δf is of order 1/γ, the linear 1/√γ
    values = jacobian_eigenvalues(params, tokens, p)
    wide = gauss_newton(values, 30.0, 2.0, nonlinear=nonlinearity(params, tokens, p, 2.0))
    assert wide.value == gauss_newton(values, 30.0, 2.0).value
    assert float(wide.systematic) > 0.5 * float(wide.value)  # at such a pull it is no prediction


def test_exact_lines_are_ranks_of_random_networks_on_a_training_set():
    p, width, n = 5, 4, 18
    tokens, labels, _ = table(p, n)
    lines = exact_lines(p, width, n, k_eff=2)
    rank = rank_from_eigenvalues(jacobian_eigenvalues(network(p, width), tokens, p), n, p)
    few = rank_from_eigenvalues(jacobian_eigenvalues(network(p, 2), tokens, p), n, p)
    assert 2 * lines["tangent"].value == rank.rank
    assert 2 * lines["feature"].value == few.rank == 2 * (3 * p - 2)
    assert lines["lazy"].value == ridge_solution(network(p, width)["W"], tokens, labels, p, 1.0).coefficient.value


@pytest.mark.slow
def test_the_rank_at_initialisation_of_the_demo_is_known():
    values = jacobian_eigenvalues(network(23, 128), table(23, 211)[0], 23)
    rank = rank_from_eigenvalues(values, 211, 23)
    assert rank.rank == 4830 == 2 * exact_lines(23, 128, 211)["tangent"].value
    assert rank.clear


LOSSES, CURVATURES = (0.05, 0.0), (np.array([1.0, 0.5, 0.2]), np.array([60.0, 50.0, 40.0]))


def bowl_free_energy(n: float, basin: int) -> float:
    """nL + ½ Σ log(1 + nh) under a pull of one: the evidence of a quadratic basin in closed form."""
    return n * LOSSES[basin] + 0.5 * float(np.sum(np.log1p(n * CURVATURES[basin])))


def exact_crossing() -> float:
    from scipy.optimize import brentq

    return float(brentq(lambda n: bowl_free_energy(n, 0) - bowl_free_energy(n, 1), 20, 500))  # pyright: ignore


def test_the_crossing_of_two_gaussian_basins_is_found():
    ns, rng = (20, 60, 180, 540), np.random.default_rng(0)
    curves = [[Measurement(bowl_free_energy(n, i) + 0.05 * rng.standard_normal(), 0.05) for n in ns] for i in (0, 1)]
    found = basin_crossing(ns, *curves, losses=LOSSES)
    assert abs(float(found.value) - exact_crossing()) < 4 * float(found.error) < 0.1 * exact_crossing()
    assert (found.diagnostics["below"], found.diagnostics["above"]) == ("first", "second")


def test_a_crossing_that_was_not_seen_is_refused():
    ns = (20, 40, 80)
    curves = [[Measurement(bowl_free_energy(n, i), 0.05) for n in ns] for i in (0, 1)]
    assert "the first basin wins at every n" in basin_crossing(ns, *curves, losses=LOSSES).reasons[0]
    assert basin_crossing(ns, *curves, losses=LOSSES, shift=5.0).status is Status.OK  # a prior may decide otherwise
    noisy = [[Measurement(float(one.value), 20.0) for one in curve] for curve in curves]
    assert basin_crossing(ns, *noisy, losses=LOSSES, shift=5.0).status is Status.REFUSED


@pytest.mark.slow
def test_the_crossing_of_two_sampled_basins_is_the_exact_one():
    import jax.numpy as jnp

    ns = (40, 120, 360)

    def bowl(basin: int):
        return lambda w: LOSSES[basin] + (jnp.asarray(CURVATURES[basin]) * w**2).sum() / 2

    curves = [free_energies(bowl(basin), np.zeros(3), ns=ns, gamma=1) for basin in (0, 1)]
    found = basin_crossing(ns, *curves, losses=LOSSES)
    assert abs(float(found.value) - exact_crossing()) < 4 * float(found.error) < 0.2 * exact_crossing()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: climb(np.zeros((4, 3), int), np.zeros(4, int), 3), "shape (n, 2)"),
        (lambda: energy(np.ones((6, 1)), np.full((4, 2), 3), np.zeros(4, int), 3), "from 0 to 2"),
        (lambda: gradient_signal({"W": np.ones((6, 2))}, np.zeros((4, 2), int), np.zeros(4, int), 3), "no V"),
        (lambda: ridge_solution(np.ones((6, 2)), np.zeros((4, 2), int), np.zeros(4, int), 3, 0.0), "positive"),
        (lambda: kernel_change(network(3, 2), network(3, 2), np.zeros((4, 2), int), 3), "each pair once"),
        (lambda: jacobian_eigenvalues(network(53, 256), table(53, 1123)[0], 53), "gauss_newton_sampled"),
        (lambda: gauss_newton([1.0], 1.0, 0.0), "positive"),
        (lambda: power(np.ones((4, 2))), "odd"),
        (lambda: basin_crossing((1, 2), [], []), "increasing n"),
    ],
)
def test_bad_input_is_named_with_a_remedy(call, words):
    with pytest.raises(BadInput, match=words.replace("(", r"\(").replace(")", r"\)")):
        call()
