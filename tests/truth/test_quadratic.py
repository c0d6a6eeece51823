"""Rank laws of quadratic networks against exact ranks of their Jacobians."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from phasecast.coefficients import (
    feature_span,
    jacobian_rank,
    modular_addition,
    ntk_coefficient,
    quadratic,
    rank_mod_prime,
)
from phasecast.coefficients.exact.quadratic_networks import generic_rank
from phasecast.core.errors import BadInput, OutsideRegime
from phasecast.models import fourier_solution, modular_table, quadratic_network


def nonzero(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Random integers without zeros, which would be special points."""
    return rng.integers(1, 30, shape) * rng.choice([-1, 1], shape)


def random_network(d: int, p: int, k: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng([d, p, k, seed])
    return {"W": nonzero(rng, d, k), "V": nonzero(rng, p, k)}


def general_inputs(d: int, forms: int) -> np.ndarray:
    """A few more integer points than there are forms, so that no form vanishes on them."""
    return nonzero(np.random.default_rng(d), forms + 6, d)


def exact_rank(d: int, p: int, k: int) -> int:
    inputs = general_inputs(d, d * (d + 1) // 2)
    return jacobian_rank(quadratic_network, random_network(d, p, k), inputs, exact=True).rank


@pytest.mark.parametrize("d", range(1, 4))
@pytest.mark.parametrize("p", range(1, 6))
def test_the_rank_law_is_the_exact_rank_up_to_saturation(d, p):
    forms = d * (d + 1) // 2
    for k in range(1, forms + 2):
        assert exact_rank(d, p, k) == generic_rank(d, p, k), (d, p, k)


@pytest.mark.slow
@pytest.mark.parametrize("d", [4, 5])
@pytest.mark.parametrize("p", range(1, 6))
def test_the_rank_law_is_the_exact_rank_for_more_inputs(d, p):
    forms = d * (d + 1) // 2
    for k in range(1, forms + 2):
        assert exact_rank(d, p, k) == generic_rank(d, p, k), (d, p, k)


@pytest.mark.parametrize(("d", "p", "k"), [(4, 3, 5), (4, 5, 6), (6, 3, 8), (2, 1, 2), (4, 2, 5), (3, 7, 5), (3, 9, 5)])
def test_defective_and_other_special_cases(d, p, k):
    assert exact_rank(d, p, k) == generic_rank(d, p, k)


def test_the_printed_law_is_wrong_where_we_say_so():
    """Theorem 4.2 of Cullen et al. says K(d+p−1) below saturation."""
    for d, p, k, printed in ((2, 1, 2, 4), (4, 2, 5, 25), (4, 3, 5, 30)):
        assert k * (d + p - 1) == printed
        assert exact_rank(d, p, k) < printed


@pytest.mark.parametrize("d", range(1, 5))
def test_biases_add_what_g1_and_g2_say(d):
    def network(w, x):
        return ((x @ w["W"] + w["b"]) ** 2 @ w["V"].T) + w["c"]

    inputs = general_inputs(d, (d + 1) * (d + 2) // 2)
    rng = np.random.default_rng(d)
    for k in range(1, d + 3):
        weights = {**random_network(d, 1, k), "b": nonzero(rng, k), "c": nonzero(rng, 1)}
        rank = jacobian_rank(network, weights, inputs, exact=True).rank
        assert quadratic(d, 1, k, bias=True).value == Fraction(rank, 2), (d, k)


@pytest.mark.parametrize("p", [2, 3, 5, 7])
@pytest.mark.parametrize("centred", [True, False])
def test_modular_networks_on_the_full_table(p, centred):
    inputs, _ = modular_table(p)
    for k in (1, 2, 3, p, p + 1, 2 * p, *([] if p == 7 else [4 * p])):
        rank = jacobian_rank(quadratic_network, random_network(2 * p, p, k), inputs, exact=True, centred=centred).rank
        assert modular_addition(p, k, centred=centred).value == Fraction(rank, 2), (p, k)


@pytest.mark.parametrize("p", [3, 5, 7])
def test_modular_networks_on_training_subsets(p):
    inputs, _ = modular_table(p)
    for share in (0.6, 0.8):
        chosen = np.random.default_rng(p).permutation(p * p)[: int(share * p * p)]
        if np.linalg.matrix_rank(inputs[chosen]) < min(len(chosen), 2 * p - 1):
            continue
        for k in (2, p, 3 * p):
            rank = jacobian_rank(
                quadratic_network, random_network(2 * p, p, k), inputs[chosen], exact=True, centred=True
            ).rank
            assert modular_addition(p, k, train=len(chosen)).value == Fraction(rank, 2), (p, k, share)


def test_the_lazy_network_sees_all_of_the_table():
    """Corollary 5.3 gives bounds; random squares of the one-hot pairs span all p² directions, one less when centred."""
    for p in (3, 5):
        inputs, _ = modular_table(p)
        assert feature_span(inputs, np.square) == p * p
        for k in (2, p * p, p * p + 5):
            weights = random_network(2 * p, p, k)
            only_v = jacobian_rank(
                lambda v, x, w=weights: quadratic_network({"W": w["W"], "V": v}, x), weights["V"], inputs, exact=True,
                centred=True,
            )  # fmt: skip
            assert modular_addition(p, k, regime="lazy").value == Fraction(only_v.rank, 2)


@pytest.mark.parametrize(("p", "phases", "rank"), [(5, 4, 91), (5, 6, 94), (7, 4, 208), (7, 6, 219), (3, 6, 21)])
def test_fourier_solutions_are_exact_and_have_the_known_ranks(p, phases, rank):
    inputs, targets = modular_table(p)
    weights = fourier_solution(p, phases)
    outputs = quadratic_network(weights, inputs)
    assert weights["W"].shape == (2 * p, phases * (p - 1) // 2)
    centred = outputs - outputs.mean(axis=0)
    np.testing.assert_allclose(centred, targets - 1 / p, atol=1e-12)
    if phases == 6:
        np.testing.assert_allclose(outputs, targets - 1 / p, atol=1e-12)
    found = jacobian_rank(quadratic_network, weights, inputs, centred=True)
    assert found.clear
    assert found.rank == rank
    assert found.coefficient().kind == "lower-bound"


def test_a_loss_that_is_flat_in_a_direction_lowers_the_ntk_coefficient():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(40, 3))
    weights = {"W": rng.normal(size=(3, 2)), "V": rng.normal(size=(2, 2))}
    targets = np.asarray(quadratic_network(weights, inputs))
    square = ntk_coefficient(quadratic_network, weights, inputs, lambda f, y: 0.5 * ((f - y) ** 2).sum(), targets)
    first = ntk_coefficient(quadratic_network, weights, inputs, lambda f, y: 0.5 * (f[0] - y[0]) ** 2, targets)
    assert square.value == quadratic(3, 2, 2).value
    assert first.value == quadratic(3, 1, 2).value


@pytest.mark.parametrize("shape", [(7, 5), (5, 9), (120, 100), (60, 130)])
def test_the_rank_modulo_a_prime_is_the_rank(shape):
    rng = np.random.default_rng(0)
    for rank in (0, 1, min(shape) // 2, min(shape)):
        left, right = rng.integers(-9, 10, (shape[0], rank)), rng.integers(-9, 10, (rank, shape[1]))
        assert rank_mod_prime(left @ right) == np.linalg.matrix_rank((left @ right).astype(float))


def test_the_rank_modulo_a_prime_sees_what_floats_do_not():
    """A Hilbert-like integer matrix: full rank, and beyond float64."""
    n = 24
    matrix = np.array([[pow(i + 2, j, 2**31 - 20) for j in range(n)] for i in range(n)])
    assert rank_mod_prime(matrix) == n


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: modular_addition(9, 3), "9 is not prime"),
        (lambda: modular_addition(7, 3, train=50), "only 49 pairs"),
        (lambda: modular_addition(7, 3, regime="rich"), "feature, lazy, ntk"),
        (lambda: modular_addition(7, 3, dead_v=4), "exceed the width"),
        (lambda: quadratic(0, 1, 1), "inputs is 0"),
        (lambda: jacobian_rank(lambda w, x: x @ w / 3, np.ones((2, 1)), np.eye(2), exact=True), "not integers"),
        (lambda: fourier_solution(4, 4), "odd prime"),
        (lambda: fourier_solution(5, 5), "use 4"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_bad_input(call, words):
    with pytest.raises(BadInput, match=words):
        call()


def test_what_is_not_known_is_outside_the_regime():
    with pytest.raises(OutsideRegime, match="2 outputs"):
        quadratic(3, 2, 2, bias=True)
    with pytest.raises(OutsideRegime, match="dead units"):
        modular_addition(5, 3, regime="lazy", dead_v=1)


def test_dead_units_are_not_free():
    assert modular_addition(7, 10, dead_v=1).value == modular_addition(7, 9).value + Fraction(7, 2)
    assert modular_addition(7, 10, dead_both=1).value == modular_addition(7, 9).value + Fraction(13, 4)
    assert modular_addition(3, 40, dead_v=5).value == Fraction(3 * 8, 2)
