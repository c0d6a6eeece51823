"""Polynomials from text, parsed and never evaluated: ``x**4 + 3*x**2*y**2``, ``(x - y)**2``, ``x1*x2/2``.

A polynomial is a dictionary from exponents to rational coefficients, with the names of its variables.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from phasecast.core.errors import BadInput
from phasecast.core.parsing.expressions import Operator, Reader, parse_expression

# Chosen so that every accepted text is multiplied out within about a second; far above any loss in the literature.
LONGEST_TEXT, HIGHEST_POWER, MOST_TERMS = 5000, 100, 5000
HIGHEST_DEGREE = 200  # of one variable after multiplying out; Sturm chains of longer edges take minutes
MOST_DIGITS = 1000  # of a coefficient; far above any loss, and such numbers are still multiplied at once
MOST_PRODUCTS = 20 * MOST_TERMS  # pairs of terms in one multiplication, before equal powers are collected
_MOST_BITS = MOST_DIGITS * math.log2(10)
_VARIABLE = re.compile(r"[a-z][0-9]{0,3}")

Terms = dict[tuple[int, ...], Fraction]


@dataclass(frozen=True)
class Polynomial:
    """``terms[(2, 0)] = 3`` means 3·x² for variables (x, y)."""

    variables: tuple[str, ...]
    terms: Terms

    def at(self, point: tuple[Fraction, ...]) -> Fraction:
        """The exact value at a rational point."""
        total = Fraction(0)
        for exponents, coefficient in self.terms.items():
            for value, exponent in zip(point, exponents, strict=True):
                if exponent:
                    coefficient *= value**exponent
            total += coefficient
        return total


def parse(text: str) -> Polynomial:
    """The polynomial written in ``text``; anything else is bad input.

    >>> parse("(x - y)**2").terms[(1, 1)]
    Fraction(-2, 1)
    """
    tree = parse_expression(text, longest=LONGEST_TEXT, name="the polynomial", how="write it like x**4 + 3*x**2*y**2")
    names = sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}, key=_order)
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise BadInput(f"unknown name '{name}' in the polynomial", "use variables like x, y, x1, x2")
    try:
        terms = _Expansion(names).read(tree)
    except RecursionError:
        raise BadInput("the polynomial is nested too deeply", "write it as a sum of terms") from None
    return Polynomial(tuple(names), terms)


class _Expansion(Reader[Terms]):
    """Multiplies an expression out, in exact rationals."""

    def __init__(self, names: Sequence[str]):
        self.positions = {name: index for index, name in enumerate(names)}
        self.one = (0,) * len(names)

    def constant(self, value: int | float) -> Terms:
        exact = Fraction(str(value)) if abs(value) < 10**MOST_DIGITS else Fraction(value)
        return {self.one: exact} if exact else {}

    def variable(self, name: str) -> Terms:
        index = self.positions[name]
        return {(*self.one[:index], 1, *self.one[index + 1 :]): Fraction(1)}

    def negative(self, operand: Terms) -> Terms:
        return {exponents: -coefficient for exponents, coefficient in operand.items()}

    def combine(self, operation: Operator, left: Terms, right: Terms) -> Terms:
        if operation == "*":
            return _product(left, right)
        if operation != "/":
            return _sum(left, right, 1 if operation == "+" else -1)
        if set(right) != {self.one}:
            raise _not_a_polynomial()
        return _bounded({exponents: coefficient / right[self.one] for exponents, coefficient in left.items()})

    def power(self, base: Terms, exponent: ast.expr) -> Terms:
        result: Terms = {self.one: Fraction(1)}
        for _ in range(_exponent(exponent)):
            result = _product(result, base)
        return result

    def not_allowed(self, node: ast.expr) -> BadInput:
        return _not_a_polynomial()


def _not_a_polynomial() -> BadInput:
    return BadInput(
        "a polynomial may contain only numbers, variables, +, -, *, ** and division by numbers", "remove the rest"
    )


def _exponent(node: ast.expr) -> int:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        raise BadInput("a polynomial has no negative powers", "use powers ≥ 0")
    if not (isinstance(node, ast.Constant) and type(node.value) is int):
        raise BadInput("a power is not a whole number", "use powers like 2 or 4")
    if node.value > HIGHEST_POWER:
        raise BadInput(f"power {node.value} is too high", f"use powers up to {HIGHEST_POWER}")
    return node.value


def _sum(left: Terms, right: Terms, sign: int) -> Terms:
    total = dict(left)
    for exponents, coefficient in right.items():
        total[exponents] = total.get(exponents, Fraction(0)) + sign * coefficient
    return _bounded({exponents: coefficient for exponents, coefficient in total.items() if coefficient})


def _product(left: Terms, right: Terms) -> Terms:
    if len(left) * len(right) > MOST_PRODUCTS:
        raise BadInput("the polynomial has too many terms when multiplied out", f"use at most {MOST_TERMS}")
    total: Terms = {}
    for first, a in left.items():
        for second, b in right.items():
            exponents = tuple(map(int.__add__, first, second))
            total[exponents] = total.get(exponents, Fraction(0)) + a * b
    if len(total) > MOST_TERMS:
        raise BadInput("the polynomial has too many terms when multiplied out", f"use at most {MOST_TERMS}")
    return _bounded({exponents: coefficient for exponents, coefficient in total.items() if coefficient})


def _bounded(terms: Terms) -> Terms:
    """The terms, if neither a degree nor a coefficient is too large to go on with."""
    for exponents, coefficient in terms.items():
        if max(exponents, default=0) > HIGHEST_DEGREE:
            raise BadInput("a power of the polynomial is too high when multiplied out", f"use at most {HIGHEST_DEGREE}")
        if max(coefficient.numerator.bit_length(), coefficient.denominator.bit_length()) > _MOST_BITS:
            raise BadInput("a coefficient of the polynomial has too many digits", f"use at most {MOST_DIGITS}")
    return terms


def _order(name: str) -> tuple[str, int]:
    return name[:1], int(name[1:]) if name[1:].isdigit() else -1
