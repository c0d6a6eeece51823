"""λ at points: bounds by elimination, changes of coordinates, priors, and what λ must not depend on."""

from __future__ import annotations

import itertools
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

from phasecast.coefficients import (
    bounds,
    ideal,
    jacobian_rank,
    monomial,
    quadratic,
    reduced_rank,
    relu,
    reparametrise,
    volume_scaling,
)
from phasecast.core import Problem, Status
from phasecast.core.errors import BadInput, OutsideRegime
from phasecast.models import quadratic_network


def product(w, x):
    return x @ w["A"] @ w["B"]


@pytest.mark.parametrize(
    ("a", "b"), [(a, b) for a, b in itertools.product(range(3), repeat=2)], ids=lambda rank: f"rank {rank}"
)
def test_bounds_hold_the_local_coefficient_of_a_product(a, b):
    """At A = diag(1…, 0…) and B = diag(0…, 1…) the product has the rank a + b − 2, or zero."""
    left, right = np.diag([1] * a + [0] * (2 - a)), np.diag([0] * (2 - b) + [1] * b)
    found = bounds(product, {"A": left, "B": right}, np.eye(2, dtype=int), order=3)
    exact = reduced_rank(2, 2, 2, max(0, a + b - 2), a, b).value
    assert found.lower.value <= exact <= found.upper.value
    assert found.exact == (found.lower.kind == "exact")


def test_bounds_meet_where_the_rank_is_constant():
    rng = np.random.default_rng(3)
    weights = {"W": rng.integers(1, 9, (3, 2)), "V": rng.integers(1, 9, (2, 2))}
    found = bounds(quadratic_network, weights, rng.integers(-5, 6, (12, 3)))
    assert found.exact
    assert found.upper.value == quadratic(3, 2, 2).value


def test_a_higher_order_narrows_the_bounds():
    weights = {"A": np.diag([1, 0]), "B": np.diag([1, 0])}
    coarse, fine = (bounds(product, weights, np.eye(2, dtype=int), order=order) for order in (2, 6))
    assert coarse.upper.value > fine.upper.value > 2  # the truth, which the coordinates at hand do not reach


def test_bounds_of_monomials_are_those_of_their_ideal():
    """Outputs a², ab² at zero, with nothing linear: the Newton polyhedron of the squares."""

    def network(w, x):
        return x * np.stack([w["a"] ** 2, w["a"] * w["b"] ** 2], axis=-1)

    found = bounds(network, {"a": np.zeros(1), "b": np.zeros(1)}, np.ones((1, 2)), order=6)
    assert found.lower.value == 0
    assert found.upper.value == ideal("x**2", "x*y**2", "y**7").value


def test_the_generic_rank_is_no_upper_bound():
    """One output x²+y²+z²+t² has generic rank one, and λ = 1 at the origin: V(ε) is the volume of |w|⁴ < ε."""

    def network(w, x):
        return x * (w["w"] ** 2).sum()

    found = bounds(network, {"w": np.zeros(4)}, np.ones((1, 1)))
    random = {"w": np.arange(1, 5)}
    assert jacobian_rank(network, random, np.ones((1, 1)), exact=True).rank == 1
    assert found.upper.value == 1


@pytest.mark.parametrize(
    ("network", "params", "words"),
    [
        (lambda w, x: np.tanh(w["w"]) * x, {"w": np.zeros(1)}, "does not work on polynomials"),
        (lambda w, x: w["w"] ** 0.5 * x, {"w": np.ones(1)}, "whole powers"),
        (lambda w, x: w["w"].sum() * x, {"w": np.ones(40)}, "at most 24"),
    ],
)
def test_bounds_refuse_what_is_not_a_small_polynomial_network(network, params, words):
    with pytest.raises(BadInput, match=words):
        bounds(network, params, np.ones((1, 1)))


def test_lambda_does_not_depend_on_the_coordinates():
    """Two landscapes at the origin in three curved coordinates for their two (Theorem F.1)."""
    flat = Problem(lambda v: v[0] ** 2 * v[1] ** 4, np.zeros(2))
    curved = reparametrise(flat, lambda w: jnp.stack([w[0] * jnp.exp(w[2]), jnp.sinh(w[1]) + w[1] * w[0]]), np.zeros(3))
    bowl = Problem(lambda v: v[0] ** 2 + v[1] ** 4, np.zeros(2))
    bent = reparametrise(bowl, lambda w: jnp.stack([w[0] * (1 + w[2]) + w[1] ** 3, w[1] - w[0] ** 2]), np.zeros(3))
    for problem, exact in ((flat, 0.25), (curved, 0.25), (bowl, 0.75), (bent, 0.75)):
        found = volume_scaling(problem, multiplicity=1)
        assert found.status is Status.OK
        assert abs(found.value - exact) < 4 * found.error


def test_coordinates_that_lose_a_direction_change_lambda_and_are_refused():
    flat = Problem(lambda v: v[0] ** 2, np.zeros(1))
    with pytest.raises(OutsideRegime, match="rank 0 of 1"):
        reparametrise(flat, lambda w: w**3, np.zeros(1))
    cubed = Problem(lambda w: w[0] ** 6, np.zeros(1))
    found = volume_scaling(cubed)
    assert abs(found.value - 1 / 6) < 4 * found.error  # and not 1/2


@pytest.mark.parametrize(
    ("change", "params", "words"),
    [
        (lambda w: w, np.ones(1), "maps params 1 away"),
        (lambda w: jnp.stack([w[0], w[0]]), np.zeros(1), "gives 2 numbers"),
    ],
)
def test_coordinates_of_another_point_are_bad_input(change, params, words):
    with pytest.raises(BadInput, match=words):
        reparametrise(Problem(lambda v: v[0] ** 2, np.zeros(1)), change, params)


@pytest.mark.parametrize(
    ("powers", "prior", "multiplicity"), [((2, 4), None, 1), ((2, 4), (0, 2), 1), ((2, 2), None, 2), ((2,), (1,), 1)]
)
def test_draws_from_a_prior_show_the_exact_coefficient(powers, prior, multiplicity):
    """|w|^h as a density on [−1, 1] is drawn as ±u^(1/(h+1))."""
    exponents = np.array([1 / (h + 1) for h in (prior or [0] * len(powers))])

    def draw(rng, count):
        shape = (count, len(powers))
        return rng.choice([-1, 1], shape) * rng.uniform(size=shape) ** exponents

    found = volume_scaling(lambda w: jnp.prod(w ** np.array(powers)), draw, multiplicity=multiplicity)
    exact = monomial(powers, prior)
    assert exact.multiplicity == multiplicity
    assert found.status is Status.OK
    assert abs(found.value - float(exact.value)) < 4 * found.error


def test_a_slope_of_the_prior_is_not_mistaken_for_none():
    """The negative control: x²y⁴ under the prior |y|² has 1/2, not the 1/4 of a flat prior."""

    def draw(rng, count):
        return rng.choice([-1, 1], (count, 2)) * rng.uniform(size=(count, 2)) ** np.array([1, 1 / 3])

    found = volume_scaling(lambda w: w[0] ** 2 * w[1] ** 4, draw, multiplicity=1)
    assert abs(found.estimate - 0.25) > 10 * found.error


@pytest.mark.parametrize(
    ("loss", "sampler", "words"),
    [
        (lambda w: w @ w, None, "needs a sampler"),
        (lambda w: w @ w - 1, lambda rng, count: rng.uniform(size=(count, 2)), "one number ≥ 0"),
        (lambda w: w @ w, lambda rng, count: rng.uniform(size=(2, count)), "does not return count draws"),
        (lambda w: jnp.maximum(w[0], 0.0), lambda rng, count: rng.normal(size=(count, 1)), "its zeros have volume"),
        (Problem(lambda w: w @ w, np.zeros(2)), lambda rng, count: rng.normal(size=(count, 2)), "in a box"),
    ],
)
def test_draws_that_say_nothing_are_bad_input(loss, sampler, words):
    with pytest.raises(BadInput, match=words):
        volume_scaling(loss, sampler)


@pytest.mark.parametrize("density", ["uniform", "normal", "skewed"])
def test_lambda_does_not_depend_on_the_input_density(density):
    """a·tanh(b x) learning zero: λ = 1/2, m = 2, wherever the inputs are, as long as they are somewhere."""
    x = {
        "uniform": np.linspace(-1, 1, 21),
        "normal": np.random.default_rng(0).normal(size=25),
        "skewed": np.random.default_rng(1).exponential(size=25) ** 2,
    }[density]
    problem = Problem(lambda w: jnp.mean((w[0] * jnp.tanh(w[1] * x)) ** 2), np.zeros(2))
    found = volume_scaling(problem, multiplicity=2)
    assert found.status is Status.OK
    assert abs(found.value - 0.5) < 4 * found.error


@pytest.mark.parametrize("density", ["small", "large", "few values"])
def test_ranks_do_not_depend_on_the_input_density(density):
    rng = np.random.default_rng(0)
    x = {
        "small": rng.integers(-2, 3, (60, 3)),
        "large": rng.integers(-50, 51, (60, 3)),
        "few values": rng.choice([1, 2, 5], (60, 3)),
    }[density]
    weights = {"W": rng.integers(1, 30, (3, 2)), "V": rng.integers(1, 30, (2, 2))}
    rank = jacobian_rank(quadratic_network, weights, x, exact=True).rank
    assert Fraction(rank, 2) == quadratic(3, 2, 2).value


def hinge_loss(w):
    """‖Σ a_j relu(x − b_j) − relu(x)‖² on [−1, 1] of two units with their hinges near 0, in coordinates s, t, u, b.

    With a = (1/2 + t, 1/2 + s − t), b₁ = b and a·b = u the function beyond the hinges is s·x − u. The difference is
    piecewise linear, and so is its square integrated exactly.
    """
    s, t, u, b = w
    slopes = jnp.stack([0.5 + t, 0.5 + s - t])
    places = jnp.stack([b, (u - slopes[0] * b) / slopes[1]])
    kinks = jnp.sort(jnp.concatenate([places, jnp.zeros(1)]))
    at_kinks = jnp.sum(slopes * jnp.maximum(kinks[:, None] - places, 0), axis=1) - jnp.maximum(kinks, 0)
    x, y = jnp.append(kinks, 1.0), jnp.append(at_kinks, s - u)
    return jnp.sum(jnp.diff(x) * (y[1:] ** 2 + y[1:] * y[:-1] + y[:-1] ** 2)) / 3


def test_the_additive_relu_rule_is_only_a_lower_bound_on_one_hinge():
    """Two units on one interior hinge: s² + u² + |b|³, so 1/2 + 1/2 + 1/3, where the rule adds up to 1."""
    small = np.logspace(-24, -10, 17)
    found = volume_scaling(Problem(hinge_loss, np.zeros(4)), radius=0.1, epsilons=small, multiplicity=1)
    assert found.status is Status.OK
    assert abs(found.value - 4 / 3) < 4 * found.error
    assert relu([(1, 2, 1, 1, "hinge")]).value == 1
