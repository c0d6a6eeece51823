"""Networks are singular: ranks, the symmetry of Lemma A.1, volumes, and flatness that is in the eye of the scale."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import phasecast.posterior as singular
from phasecast.core.errors import BadInput
from phasecast.posterior.singularity import change_along, relu_network

pytestmark = pytest.mark.bare


def network(widths, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in pairwise(widths)]


INPUTS = np.random.default_rng(9).normal(size=(400, 2))


@pytest.mark.parametrize(("widths", "layer", "unit"), [((2, 3, 1), 0, 1), ((2, 4, 3, 2), 0, 0), ((2, 4, 3, 2), 1, 2)])
def test_lemma_a1_a_unit_can_be_rescaled(widths, layer, unit):
    layers = network(widths)
    direction = singular.scaling_direction(layers, layer, unit)
    assert change_along(layers, direction, INPUTS) < 1e-12
    here, there = (
        np.asarray(relu_network(one, INPUTS)) for one in (layers, singular.rescale(layers, layer, unit, 3.7))
    )
    np.testing.assert_allclose(there, here, rtol=2e-4, atol=2e-5)
    direction[-1][0][:] += 0.1  # another direction is no symmetry
    assert change_along(layers, direction, INPUTS) > 1e-3


def test_a_relu_network_is_singular_and_loses_a_direction_for_each_unit():
    angles = 2 * np.pi * np.arange(3) / 3
    layers = [(np.stack([np.cos(angles), np.sin(angles)], axis=1), np.full(3, -0.3)), (np.ones((1, 3)), np.zeros(1))]
    found = singular.singularity(lambda w, x: relu_network(w, x), layers, INPUTS)
    assert found.parameters == 13
    assert found.fisher_rank.rank == found.hessian_rank.rank == 13 - 3
    assert found.singular
    np.testing.assert_allclose(found.fisher, found.hessian, atol=1e-12)


def test_the_fisher_information_is_the_covariance_of_the_score():
    """Against draws of y, away from the truth, where eq. (13) leaves a term out; and its constant is 1."""
    w, w0 = np.array([0.7, -0.4]), np.array([1.0, 0.5])

    def f(w, x):
        return w[0] * np.asarray(x) + w[1] * np.asarray(x) ** 2 if isinstance(x, np.ndarray) else w[0] * x + w[1] * x**2

    x = np.linspace(-1, 1, 11)[:, None]
    found = singular.singularity(f, w, x, truth=f(w0, x))
    rng = np.random.default_rng(0)
    y = f(w0, x) + rng.normal(size=(11, 200_000))
    score = np.stack([(y - f(w, x)) * x, (y - f(w, x)) * x**2])
    products = np.einsum("inr,jnr->ijr", score, score) / 11
    error = products.std(axis=-1) / np.sqrt(200_000)
    assert np.all(abs(products.mean(axis=-1) - found.fisher) < 4.5 * error)
    printed = np.einsum("in,jn->ij", *[np.stack([x[:, 0], x[:, 0] ** 2])] * 2) / 11
    assert np.any(abs(products.mean(axis=-1) - printed) > 20 * error)


def test_a_regular_model_is_not_singular():
    found = singular.singularity(lambda w, x: x @ w, np.ones(2), INPUTS)
    assert not found.singular
    assert found.fisher_rank.clear


def test_example_a4_two_derivatives_and_no_third():
    """K(b) ∝ b²N − 2b³/3 above zero, b²N − b³/3 below, by quadrature of the integral itself."""
    N = 1.0

    def loss(b):  # exact on each smooth piece
        nodes, weights = np.polynomial.legendre.leggauss(8)
        cuts = sorted({-N, 0.0, b, N})
        total = 0.0
        for low, high in pairwise(cuts):
            x = (low + high) / 2 + (high - low) / 2 * nodes
            total += (high - low) / 2 * weights @ (np.maximum(x - b, 0) - np.maximum(x, 0)) ** 2
        return total

    for b in (0.3, 0.7):
        assert loss(b) == pytest.approx(b**2 * N - 2 / 3 * b**3, abs=1e-14)
        assert loss(-b) == pytest.approx(b**2 * N + b**3 / 3, abs=1e-14)
    h = 1e-2
    third = [(loss(s * 3 * h) - 3 * loss(s * 2 * h) + 3 * loss(s * h) - loss(0.0)) / (s * h) ** 3 for s in (1, -1)]
    assert third == pytest.approx([-4, -2], abs=1e-6)


@pytest.mark.parametrize("zeros", [0, 1])
def test_the_entropy_of_a_flat_minimum_is_the_log_volume(zeros):
    """The volume of {Σ c w² < t} in a box as wide as one in the flat directions, at two tolerances."""
    c = np.array([2.0, 5.0])
    hessian = np.diag([*(2 * c), *[0.0] * zeros])
    tolerances = (1e-4, 1e-3)
    entropies = [singular.flat_minimum_entropy(hessian, t) for t in tolerances]
    volumes = [np.pi * t / np.sqrt(np.prod(c)) for t in tolerances]
    expected = [-np.log(v / t ** ((2 + zeros) / 2)) for v, t in zip(volumes, tolerances, strict=True)]
    np.testing.assert_allclose(np.diff(entropies), np.diff(expected), atol=1e-12)
    np.testing.assert_allclose(entropies[0] - np.log(np.prod(c)) / 2, zeros / 2 * np.log(tolerances[0]), atol=1e-12)


def test_determinant_flatness_moves_with_the_scale_and_lambda_does_not():
    found = singular.rescaling((0.5, 1.0, 4.0), samples=20_000)
    # the one eigenvalue is (s² + 1/s²) E[ReLU(x)²]
    np.testing.assert_allclose(np.exp(found.log_determinant), (found.scales**2 + found.scales**-2.0) / 6, rtol=0.02)
    assert list(found.rank) == [1, 1, 1]
    np.testing.assert_allclose(np.diff(found.entropy), np.diff(found.log_determinant)[None] / 2 + np.zeros((2, 1)))
    np.testing.assert_allclose(np.diff(found.entropy, axis=0), np.log(found.tolerances[1] / found.tolerances[0]) / 2)
    for one in found.effective:
        assert abs(one.value - 1) < 4 * one.error
        assert one.error < 0.2
    assert len(found.figure().axes) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: singular.scaling_direction(network((2, 3, 1)), 1, 0), "not hidden"),
        (lambda: singular.scaling_direction(network((2, 3, 1)), 0, 3), "no unit 3"),
        (lambda: singular.rescale(network((2, 3, 1)), 0, 0, -1.0), "positive"),
        (lambda: singular.flat_minimum_entropy(np.eye(2), 0.0), "tolerance"),
        (lambda: singular.flat_minimum_entropy(-np.eye(2), 1.0), "go down"),
        (lambda: singular.singularity(lambda w, x: w @ w, np.ones(2), INPUTS), "one number"),
        (lambda: singular.singularity(lambda w, x: x @ w, np.ones(2), INPUTS, truth=np.ones(3)), "truth has shape"),
    ],
)
def test_bad_input_says_what_would_be_right(call, message):
    with pytest.raises(BadInput, match=message):
        call()
