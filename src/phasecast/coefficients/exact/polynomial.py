"""Polynomials from text, parsed and never evaluated: ``x**4 + 3*x**2*y**2``, ``(x - y)**2``, ``x1*x2/2``.

A polynomial is a dictionary from exponents to rational coefficients, with the names of its variables.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from fractions import Fraction

from phasecast.core.errors import BadInput

LONGEST_TEXT = 5000
HIGHEST_POWER = 100
MOST_TERMS = 5000
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
                coefficient *= value**exponent
            total += coefficient
        return total


def parse(text: str) -> Polynomial:
    """The polynomial that ``text`` writes; anything that is not one is bad input.

    >>> parse("(x - y)**2").terms[(1, 1)]
    Fraction(-2, 1)
    """
    if len(text) > LONGEST_TEXT:
        raise BadInput(f"the polynomial has {len(text)} characters", f"use at most {LONGEST_TEXT}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadInput(f"'{_short(text)}' is not a polynomial", "write it like x**4 + 3*x**2*y**2") from None
    names = sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}, key=_order)
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise BadInput(f"unknown name '{name}' in the polynomial", "use variables like x, y, x1, x2")
    try:
        terms = _terms(tree, {name: index for index, name in enumerate(names)})
    except RecursionError:
        raise BadInput("the polynomial is nested too deeply", "write it as a sum of terms") from None
    return Polynomial(tuple(names), terms)


def _terms(node: ast.expr, places: dict[str, int]) -> Terms:
    constant = (0,) * len(places)
    if isinstance(node, ast.Name):
        place = places[node.id]
        return {(*constant[:place], 1, *constant[place + 1 :]): Fraction(1)}
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        value = Fraction(str(node.value))
        return {constant: value} if value else {}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        sign = -1 if isinstance(node.op, ast.USub) else 1
        return {exponents: sign * c for exponents, c in _terms(node.operand, places).items()}
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Pow):
            return _power(_terms(node.left, places), _exponent(node.right), constant)
        left, right = _terms(node.left, places), _terms(node.right, places)
        if isinstance(node.op, ast.Add):
            return _sum(left, right, 1)
        if isinstance(node.op, ast.Sub):
            return _sum(left, right, -1)
        if isinstance(node.op, ast.Mult):
            return _product(left, right)
        if isinstance(node.op, ast.Div) and set(right) == {constant}:
            return {exponents: c / right[constant] for exponents, c in left.items()}
    raise BadInput(
        "only numbers, variables, +, -, *, ** and division by numbers make a polynomial", "leave out the rest"
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
    return {exponents: coefficient for exponents, coefficient in total.items() if coefficient}


def _product(left: Terms, right: Terms) -> Terms:
    if len(left) * len(right) > MOST_TERMS * 20:
        raise BadInput("the polynomial has too many terms when it is multiplied out", f"use at most {MOST_TERMS}")
    total: Terms = {}
    for first, a in left.items():
        for second, b in right.items():
            exponents = tuple(map(int.__add__, first, second))
            total[exponents] = total.get(exponents, Fraction(0)) + a * b
    if len(total) > MOST_TERMS:
        raise BadInput("the polynomial has too many terms when it is multiplied out", f"use at most {MOST_TERMS}")
    return {exponents: coefficient for exponents, coefficient in total.items() if coefficient}


def _power(base: Terms, power: int, constant: tuple[int, ...]) -> Terms:
    result: Terms = {constant: Fraction(1)}
    for _ in range(power):
        result = _product(result, base)
    return result


def _order(name: str) -> tuple[str, int]:
    return name[:1], int(name[1:]) if name[1:].isdigit() else -1


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "…"
