"""Newton polyhedra against volume scaling, brute force over weights, and other exact forms; and what is refused."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

from phasecast.coefficients import ideal, monomial, newton, sum_of_powers, volume_scaling
from phasecast.coefficients.exact.polynomial import parse
from phasecast.core import Comparison, Problem, Verdict
from phasecast.core.errors import BadInput


@pytest.mark.parametrize(
    ("found", "value", "multiplicity"),
    [
        (newton("x**4 + x**2*y**2 + y**6"), Fraction(1, 2), 2),
        (newton("x**2*y**2"), Fraction(1, 2), 2),
        (newton("x**4 + x**2*y**6"), Fraction(1, 3), 1),
        (newton("x**2*y**2 + z**2"), 1, 2),
        (newton("x**2 + x*y + y**2"), 1, 1),
        (ideal("x1*x2", "x1*x3", "x2*x3"), Fraction(3, 4), 1),
        (ideal("x*y"), Fraction(1, 2), 2),
        (ideal("x", "y"), 1, 1),
    ],
)
def test_reference_values(found, value, multiplicity):
    """Those of tests/reference/coefficients.py, which solves the linear programme."""
    assert (found.value, found.multiplicity, found.kind) == (value, multiplicity, "exact")


def test_monomials_and_sums_of_powers_are_special_cases():
    for powers in itertools.product((0, 2, 4, 6), repeat=3):
        text = "*".join(f"{name}**{power}" for name, power in zip("xyz", powers, strict=True))
        if any(powers):
            found, exact = newton(text), monomial(powers)
            assert (found.value, found.multiplicity) == (exact.value, exact.multiplicity), powers
        if all(powers):
            text = " + ".join(f"{name}**{power}" for name, power in zip("xyz", powers, strict=True))
            assert newton(text).value == sum_of_powers(powers).value


def brute_force(exponents: list[tuple[int, ...]]) -> Fraction:
    """The least Σw / min w·α over many rational weights: an upper bound on λ that is reached at simple weights."""
    size = len(exponents[0])
    best = None
    for weights in itertools.product(range(13), repeat=size):
        level = min(sum(w * a for w, a in zip(weights, alpha, strict=True)) for alpha in exponents)
        if level > 0:
            ratio = Fraction(sum(weights), level)
            best = ratio if best is None else min(best, ratio)
    assert best is not None
    return best


def random_exponents(rng: random.Random, size: int, count: int, top: int) -> list[tuple[int, ...]]:
    while True:
        found = [tuple(2 * rng.randint(0, top) for _ in range(size)) for _ in range(count)]
        if all(any(alpha) for alpha in found) and all(any(alpha[i] for alpha in found) for i in range(size)):
            return found


def written(exponents) -> str:
    return " + ".join(
        "*".join(f"{name}**{power}" for name, power in zip("xyz", alpha, strict=False)) for alpha in exponents
    )


def test_lambda_is_the_least_over_weights():
    rng = random.Random(0)
    for _ in range(40):
        exponents = random_exponents(rng, 3, rng.randint(1, 5), 2)
        assert newton(written(exponents)).value <= brute_force(exponents)
    for _ in range(40):  # in two variables small weights reach it
        exponents = random_exponents(rng, 2, rng.randint(1, 5), 3)
        assert newton(written(exponents)).value == brute_force(exponents), exponents


def test_adding_a_monomial_never_lowers_lambda():
    rng = random.Random(1)
    for _ in range(60):
        exponents = random_exponents(rng, 3, 3, 4)
        more = [*exponents, *random_exponents(rng, 3, 1, 4)]
        assert newton(written(more)).value >= newton(written(exponents)).value


@pytest.mark.slow
def test_random_nondegenerate_polynomials_have_the_volume_of_their_polyhedron():
    rng = random.Random(2)
    for _ in range(5):
        exponents = random_exponents(rng, 2, rng.randint(2, 4), 3)
        predicted = newton(written(exponents))
        powers = jnp.asarray(exponents)
        problem = Problem(lambda w, powers=powers: jnp.sum(jnp.prod(w**powers, axis=1)), np.zeros(2))
        measured = volume_scaling(problem, multiplicity=predicted.multiplicity, samples=200_000)
        assert Comparison(predicted, measured).verdict is not Verdict.DIFFERS, (written(exponents), measured)


@pytest.mark.parametrize("text", ["(x - y)**2", "(x**2 - y**3)**2", "x**2*(x - y)**2"])
def test_a_degenerate_polynomial_gives_a_bound_and_says_so(text):
    found = newton(text)
    assert found.kind == "upper-bound"
    assert "degenerate" in found.regime


def test_with_three_variables_the_assumption_is_said():
    assert "assumed" in newton("x**2 + y**2 + z**2 - x*y*z").regime


BAD = {
    "x**2 - y**2": "negative near the origin",
    "x**2 - 3*x*y + y**2": "negative near the origin",
    "x**3": "negative near the origin",
    "1 + x**2": "constant term",
    "x - x": "is zero",
    "x**-2": "no negative powers",
    "x**2.5": "not a whole number",
    "x**y": "not a whole number",
    "x**1000": "up to 100",
    "foo**2": "unknown name 'foo'",
    "λ**2": "unknown name 'λ'",
    "__import__('os').system('true')": "unknown name '__import__'",
    "x.real": "a polynomial may contain only",
    "x[0]": "a polynomial may contain only",
    "x if x else y": "a polynomial may contain only",
    "1/x": "a polynomial may contain only",
    "1e999*x": "a polynomial may contain only",
    "True*x": "a polynomial may contain only",
    "x**2 +": "invalid expression .* for the polynomial",
    "(" * 300 + "x" + ")" * 300: "polynomial",
    "x" * 6000: "at most 5000",
    "(x+y+z+a+b+c+d)**60": "too many terms",
}


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[:20])
def test_what_is_not_a_loss_is_bad_input(text):
    with pytest.raises(BadInput, match=BAD[text]):
        newton(text)


def test_ideals_are_of_monomials():
    for words in (("x + y",), ("3",), ()):
        with pytest.raises(BadInput, match=r"not a monomial|without generators"):
            ideal(*words)


def test_polynomials_are_multiplied_out_exactly():
    assert parse("(x + 0.1)**2").terms == {(2,): 1, (1,): Fraction(1, 5), (0,): Fraction(1, 100)}
    assert parse("x10*x2 - x2*x10/2").terms == {(1, 1): Fraction(1, 2)}
    assert parse("x10 + x2").variables == ("x2", "x10")
