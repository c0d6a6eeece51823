"""What does this text mean as arithmetic? Expressions from users, parsed and never evaluated.

Python's own parser builds the tree. A :class:`Reader` walks it over a whitelist of nodes: numbers, names, signs,
``+ - * /`` and ``**``; a reader that allows more says so in ``other``. Anything else is bad input.
"""

from __future__ import annotations

import ast
import math
import sys
from abc import ABC, abstractmethod
from typing import Generic, Literal, TypeVar

from phasecast.core.errors import BadInput
from phasecast.core.parsing import syntax

T = TypeVar("T")
Operator = Literal["+", "-", "*", "/"]
_OPERATORS: dict[type, Operator] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def parse_expression(text: str, *, longest: int, name: str, how: str) -> ast.expr:
    """The tree of one expression; ``name`` and ``how`` word the errors ("the target", "write it like z**2")."""
    if len(text) > longest:
        raise BadInput(f"{name} has {len(text)} characters", f"use at most {longest}")
    try:
        return syntax.expression_tree(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadInput(f"invalid expression '{shortened(text)}' for {name}", how) from None


def number(node: ast.expr) -> int | float | None:
    """The number that a node is, or None; neither ``True`` nor what is too large for a float is a number."""
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) <= sys.float_info.max else None


def shortened(text: str, longest: int = 40) -> str:
    """A text short enough to be quoted in an error message."""
    return text if len(text) <= longest else text[: longest - 3] + "…"


class Reader(ABC, Generic[T]):
    """Turns a tree into a ``T``: a polynomial, a function; subclasses say what each operation means."""

    deepest: float = math.inf
    """The deepest nesting that is accepted."""

    def read(self, node: ast.expr, depth: int = 0) -> T:
        """The meaning of a node, from the meaning of its parts."""
        if depth > self.deepest:
            raise BadInput("the expression is nested too deeply", "write it flatter")
        if (value := number(node)) is not None:
            return self.constant(value)
        if isinstance(node, ast.Name):
            return self.variable(node.id)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            operand = self.read(node.operand, depth + 1)
            return operand if isinstance(node.op, ast.UAdd) else self.negative(operand)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            return self.power(self.read(node.left, depth + 1), node.right)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left, right = self.read(node.left, depth + 1), self.read(node.right, depth + 1)
            return self.combine(_OPERATORS[type(node.op)], left, right)
        return self.other(node, depth)

    @abstractmethod
    def constant(self, value: int | float) -> T: ...

    @abstractmethod
    def variable(self, name: str) -> T: ...

    @abstractmethod
    def negative(self, operand: T) -> T: ...

    @abstractmethod
    def combine(self, operation: Operator, left: T, right: T) -> T: ...

    @abstractmethod
    def power(self, base: T, exponent: ast.expr) -> T:
        """``base ** exponent``; the exponent is a node, because most readers accept only a plain number."""

    @abstractmethod
    def not_allowed(self, node: ast.expr) -> BadInput:
        """The error for a node that is not on the list."""

    def other(self, node: ast.expr, depth: int) -> T:
        """Nodes beyond arithmetic (calls, comparisons); refused by default."""
        raise self.not_allowed(node)
