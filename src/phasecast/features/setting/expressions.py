"""Which function does a text describe? Links like ``z**2``, ``minimum(z**2, 3)``, ``(z1 > 0)*(z2 > 0)``, parsed only.

Python's own parser makes the tree; a whitelist of node types, names and functions turns it into a JAX function.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from phasecast.core.errors import BadInput, unknown
from phasecast.core.parsing.expressions import Operator, Reader, number, parse_expression, shortened
from phasecast.core.types import Array

LONGEST_TEXT = 500  # characters; chosen: an expression that long is a mistake, and Python's parser is recursive
DEEPEST = 50  # nested operations; chosen well below Python's recursion limit of 1000
HIGHEST_POWER = 20  # chosen: 40^20, at the far end of the grids, is still a finite double
MOST_LATENTS = 3  # the grids that split the latents into easy and hard grow like points^k
_LATENT = re.compile(r"z([0-9]*)")
HOW = "write a function of z, or of z1, z2, z3, like z**2 or tanh(z1)*z2"

Link = Callable[[Any], Any]
"""A JAX function from latents of shape (..., k) to labels of shape (...)."""

Value: TypeAlias = "Array | float"
Compiled = Callable[[dict[str, Any]], Any]


def parse_link(text: str) -> tuple[Link, int]:
    """The function of latents (..., k) that ``text`` describes, and k.

    >>> import numpy as np
    >>> link, latents = parse_link("z1*z2")
    >>> latents, float(link(np.array([2.0, 3.0])))
    (2, 6.0)
    """
    tree = parse_expression(text, longest=LONGEST_TEXT, name="the target", how=HOW)
    build = _Compiler().read(tree)
    latents = _latents(tree)

    def link(z: Array) -> Array:
        import jax.numpy as jnp

        z = jnp.asarray(z)
        names = {f"z{index + 1}": z[..., index] for index in range(latents)}
        return build({**names, "z": z[..., 0]}) + jnp.zeros_like(z[..., 0])

    return link, latents


def _latents(tree: ast.expr) -> int:
    """k: the highest index used; ``z`` alone is one latent."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called}
    used = sorted(name for name in names if _LATENT.fullmatch(name))
    if not used:
        raise BadInput("the target is not a function of z", HOW)
    if "z" in used and len(used) > 1:
        raise BadInput(f"the target uses z and {used[1]}", "number all of them, z1, z2, z3")
    indices = [int(name[1:] or 1) for name in used]
    if min(indices) < 1 or max(indices) > MOST_LATENTS:
        raise BadInput(f"the target uses {used[-1]}", f"use at most {MOST_LATENTS} latents, z1, z2, z3")
    return max(indices)


class _Compiler(Reader[Compiled]):
    """Turns an expression into a function of its variables."""

    deepest = DEEPEST

    def constant(self, value: int | float) -> Compiled:
        return lambda names: float(value)

    def variable(self, name: str) -> Compiled:
        if name == "pi":
            return lambda names: math.pi
        if not _LATENT.fullmatch(name):
            raise BadInput(f"unknown name '{name}' in the target", HOW)
        return operator.itemgetter(name)

    def negative(self, operand: Compiled) -> Compiled:
        return lambda names: -operand(names)

    def combine(self, operation: Operator, left: Compiled, right: Compiled) -> Compiled:
        combine = _ARITHMETIC[operation]
        return lambda names: combine(left(names), right(names))

    def power(self, base: Compiled, exponent: ast.expr) -> Compiled:
        negative = isinstance(exponent, ast.UnaryOp) and isinstance(exponent.op, ast.USub)
        size = number(exponent.operand if isinstance(exponent, ast.UnaryOp) else exponent)
        if size is None or size > HIGHEST_POWER:
            wrong = "is not a plain number" if size is None else "is too large"
            raise BadInput(f"the exponent '{shortened(ast.unparse(exponent))}' {wrong}", f"use at most {HIGHEST_POWER}")
        signed = float(-size if negative else size)
        return lambda names: _power(base(names), signed)

    def other(self, node: ast.expr, depth: int) -> Compiled:
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
            compare = _COMPARED[type(node.ops[0])]
            left, right = self.read(node.left, depth + 1), self.read(node.comparators[0], depth + 1)
            return lambda names: compare(left(names), right(names)) * 1.0
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            if node.func.id not in FUNCTIONS:
                raise unknown("function", node.func.id, FUNCTIONS)
            function, count = FUNCTIONS[node.func.id]
            if len(node.args) != count:
                raise BadInput(f"{node.func.id} has {len(node.args)} arguments", f"give it {count}")
            arguments = [self.read(argument, depth + 1) for argument in node.args]
            return lambda names: function(*(argument(names) for argument in arguments))
        raise self.not_allowed(node)

    def not_allowed(self, node: ast.expr) -> BadInput:
        return BadInput(f"the target contains '{shortened(ast.unparse(node))}', which is not arithmetic", HOW)


def _power(base: Value, exponent: float) -> Value:
    import jax.numpy as jnp

    whole = int(exponent) if exponent == int(exponent) else exponent  # (−2)^2.0 has no derivative in JAX
    return jnp.asarray(base) ** whole


def _numpy(name: str) -> Callable[..., Any]:
    """A function of ``jax.numpy`` by name, looked up when it is first called."""

    def applied(*arguments: Value) -> Value:
        import jax.numpy as jnp

        return getattr(jnp, name)(*arguments)

    return applied


def _smooth(name: str, *arguments: Value) -> Value:
    import jax.numpy as jnp

    from phasecast.features.setting.functions import ACTIVATIONS

    return ACTIVATIONS[name](*(jnp.asarray(argument, float) for argument in arguments))


def _relu(u: Value) -> Value:
    import jax.numpy as jnp

    return jnp.maximum(u, 0)


_ARITHMETIC: dict[Operator, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: _numpy("divide")(left, right),
}
_COMPARED: dict[type, Callable[[Any, Any], Any]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}
FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    **{name: (_numpy(name), 1) for name in ("abs", "sqrt", "exp", "log", "sin", "cos", "tanh", "sign")},
    **{name: (_numpy(name), 2) for name in ("minimum", "maximum")},
    "min": (_numpy("minimum"), 2),
    "max": (_numpy("maximum"), 2),
    **{name: (functools.partial(_smooth, name), 1) for name in ("gelu", "softplus", "swish", "erf")},
    "relu": (_relu, 1),
}
"""What an expression may call, with the number of arguments."""
