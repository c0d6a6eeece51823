"""``phasecast coefficient NAME …``: each closed form of the catalogue as a command with the parameters of its function.

The commands are generated from the signatures in ``phasecast.coefficients.catalogue()``. A parameter that a command
line cannot spell (a sequence of integers, a group of units) is written as text and read by ``READERS``.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from phasecast.cli.options import Common
from phasecast.cli.output import emit

if TYPE_CHECKING:
    from phasecast.coefficients.exact.coefficient import Coefficient

KEYS = ("name", "lambda", "lambda_float", "multiplicity", "kind", "regime", "source")
"""What the JSON of a coefficient has, in this order."""

HELP = {
    "deep-linear": "λ of a linear network of any depth (Aoyagi); widths from input to output; "
    "a free output bias adds outputs/2",
    "reduced-rank": "λ of reduced rank regression (Aoyagi-Watanabe); with the ranks of both factors, the local value",
    "quadratic": "λ of a two-layer network with squares as activation, at a generic true parameter",
    "modular-addition": "λ of the quadratic network that learns addition modulo a prime p",
    "tanh": "λ of a sum of tanh units with one input and one output, where the true function is zero",
    "relu": "λ of a layer of ReLU units, added up over groups that switch at the same place; see its restriction",
    "mixture": "λ of a mixture of normals with known covariance",
    "factor-analysis": "λ of factor analysis without a free mean",
    "symmetric-factorisation": "λ of a factorisation U Uᵀ",
    "nmf": "an upper bound on λ of a nonnegative matrix factorisation",
    "monomial": "λ of a product of powers under a prior that is one too; the powers are those of K itself",
    "newton": "λ of a polynomial K ≥ 0 at the origin, by its Newton polyhedron",
    "ideal": "λ of the sum of the squares of monomials, at the origin",
}
"""One line per command in plain text, since the docstrings have TeX; a form without one here shows its docstring."""

FLAGS = {("modular-addition", "centred"): "--uncentred"}
"""The flag that turns a parameter off, where it is not --no-NAME."""


def coefficient_app() -> App:
    """The group of commands, one per closed form."""
    from phasecast import coefficients

    app = App(name="coefficient", help_format="plaintext", version_flags=[])
    for name, form in coefficients.catalogue().items():
        app.command(_command(name, form), name=name, help=HELP.get(name) or inspect.getdoc(form))
    return app


def _command(name: str, form: Callable[..., Coefficient]) -> Callable[..., int]:
    """A command that calls ``form``, with a signature that cyclopts can read."""
    hints = typing.get_type_hints(form)
    described = (form.__doc__ or "").partition("-----")[2].replace("``", "")
    meanings = dict(re.findall(r"^ *(\w+): (.+)\.$", described, re.MULTILINE))
    readers: dict[str, Callable[[Any], Any]] = {}
    parameters = []
    for parameter in inspect.signature(form).parameters.values():
        annotation, reader = READERS.get(_bare(hints[parameter.name]), (hints[parameter.name], None))
        if reader is not None:
            readers[parameter.name] = reader
            annotation = annotation if parameter.default is parameter.empty else annotation | None
        flag, meaning = FLAGS.get((name, parameter.name)), meanings.get(parameter.name)
        if flag or meaning:
            annotation = Annotated[annotation, Parameter(negative=flag, help=meaning)]
        parameters.append(parameter.replace(annotation=annotation, kind=_kind(parameter, annotation)))

    def command(*values: Any, options: Common = Common(), **named: Any) -> int:
        named = {key: _read(readers.get(key), value) for key, value in named.items()}
        result = form(*values, **named)
        plain = result.plain()
        emit({key: plain[key] for key in KEYS}, str(result), options)
        return 0

    shared = inspect.Parameter(
        "options", inspect.Parameter.KEYWORD_ONLY, default=Common(), annotation=Annotated[Common, Parameter(name="*")]
    )
    command.__signature__ = inspect.Signature([*parameters, shared])  # pyright: ignore[reportFunctionMemberAccess]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in (*parameters, shared)}
    return command


def _kind(parameter: inspect.Parameter, annotation: object) -> inspect._ParameterKind:
    """Positional for a lone text such as a polynomial and for ``*monomials``, otherwise a flag."""
    if parameter.kind is parameter.VAR_POSITIONAL:
        return parameter.kind
    lone_text = annotation is str and parameter.default is parameter.empty
    return parameter.POSITIONAL_ONLY if lone_text else parameter.KEYWORD_ONLY


def _bare(hint: object) -> object:
    """A type without ``| None``."""
    return next((part for part in typing.get_args(hint) if type(None) in typing.get_args(hint)), hint)


def _read(reader: Callable[[Any], object] | None, value: object) -> object:
    return value if reader is None or value is None else reader(value)


def _integers(text: str) -> list[int]:
    from phasecast.core.errors import BadInput

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"invalid list of integers '{text}'", "write it like 5,3,4") from None


def _groups(texts: list[str]) -> list[tuple[Any, ...]]:
    from phasecast.core.errors import BadInput

    groups = []
    for text in texts:
        *numbers, where = text.split(":")
        if len(numbers) != 4:
            raise BadInput(f"invalid group of units '{text}'", "write inputs:hidden:outputs:rank:active or …:hinge")
        groups.append((*_integers(",".join(numbers)), where))
    return groups


READERS: dict[Any, tuple[Any, Callable[[Any], Any]]] = {
    Sequence[int]: (Annotated[str, Parameter(help="integers separated by commas, like 5,3,4")], _integers),
    Sequence[tuple[int, int, int, int, str]]: (
        Annotated[
            list[str], Parameter(consume_multiple=True, negative=(), help="inputs:hidden:outputs:rank:active|hinge …")
        ],
        _groups,
    ),
}
"""How parameters of these types are spelled on a command line, and read from there."""
