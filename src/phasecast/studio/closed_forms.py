"""Which families have an exact λ, and what does each need? Inputs and formulas, read from the functions themselves."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phasecast.coefficients import catalogue
from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.core.errors import BadInput

EXAMPLES: dict[str, dict[str, Any]] = {
    "deep-linear": {"widths": "5, 3, 4", "rank": 2},
    "reduced-rank": {"inputs": 5, "hidden": 3, "outputs": 4, "rank": 2},
    "quadratic": {"inputs": 6, "outputs": 1, "width": 3},
    "modular-addition": {"p": 23, "width": 16},
    "tanh": {"width": 4},
    "relu": {"groups": "3:4:1:1:active"},
    "mixture": {"components": 3, "true": 1, "dimension": 2},
    "factor-analysis": {"observed": 6, "factors": 2, "true_factors": 1},
    "symmetric-factorisation": {"size": 6, "factors": 3, "rank": 1},
    "nmf": {"rows": 6, "columns": 5, "rank": 3, "true_rank": 1},
    "monomial": {"powers": "2, 4"},
    "newton": {"polynomial": "x**2*y**2 + y**6"},
    "ideal": {"monomials": "x*y, y**3"},
}
"""What the inputs hold at first; an input without a value here holds its default, or 2."""


@dataclass(frozen=True)
class FormInput:
    """One parameter of a closed form; ``kind`` is integer, switch, choice, or text that ``read`` makes a value."""

    name: str
    kind: str
    example: Any
    help: str = ""
    low: int | None = None
    choices: tuple[str, ...] = ()
    read: Callable[[str], Any] = str
    star: bool = False


@dataclass(frozen=True)
class ClosedForm:
    """A family with its inputs, what the documentation says first, and the rest of it as paragraphs of Markdown."""

    name: str
    function: Callable[..., Coefficient]
    inputs: tuple[FormInput, ...]
    summary: str
    explained: tuple[str, ...]

    def compute(self, values: Mapping[str, Any]) -> Coefficient:
        """λ for what was filled in; empty inputs are left at their defaults."""
        named: dict[str, Any] = {}
        listed: list[Any] = []
        for entry in self.inputs:
            value = values.get(entry.name)
            if value is None or value == "":
                continue
            read = entry.read(value) if isinstance(value, str) else value
            if entry.star:
                listed = list(read)
            else:
                named[entry.name] = read
        missing = [entry.name for entry in self.inputs if self._needs(entry) and entry.name not in named]
        if missing:
            raise BadInput(f"{missing[0]} is empty", "fill it in")
        return self.function(*listed, **named)

    def _needs(self, entry: FormInput) -> bool:
        parameter = inspect.signature(self.function).parameters[entry.name]
        return parameter.default is parameter.empty and not entry.star


@functools.cache
def forms() -> dict[str, ClosedForm]:
    """Every closed form of the catalogue by its name."""
    return {name: _form(name, function) for name, function in catalogue().items()}


def _form(name: str, function: Callable[..., Coefficient]) -> ClosedForm:
    hints = typing.get_type_hints(function)
    words = inspect.getdoc(function) or ""
    meanings = dict(re.findall(r"^ *(\w+): (.+)\.$", words.replace("``", ""), re.MULTILINE))
    inputs = tuple(
        _input(parameter, hints[parameter.name], EXAMPLES.get(name, {}), meanings.get(parameter.name, ""))
        for parameter in inspect.signature(function).parameters.values()
    )
    first, *others = re.split(r"\n\n(?=>>>|Parameters\n)", words)[0].split("\n\n")
    explained = tuple(part for paragraph in others for part in _markdown(" ".join(paragraph.split())))
    return ClosedForm(name, function, inputs, _without_tex(first), explained)


def _markdown(paragraph: str) -> list[str]:
    """A paragraph of a docstring, or the formulas that it consists of."""
    if formula := paragraph.removeprefix(".. math::") if paragraph.startswith(".. math::") else "":
        return [f"$$\n{part.strip(' ,')}\n$$" for part in formula.split(r"\qquad")]
    return [re.sub(r":\w+:`~?([^`]*)`", r"`\1`", re.sub(r":math:`([^`]*)`", r"$\1$", paragraph))]


def _input(parameter: inspect.Parameter, hint: Any, examples: Mapping[str, Any], meaning: str) -> FormInput:
    parts = [part for part in typing.get_args(hint) if part is not type(None)]
    optional = type(None) in typing.get_args(hint)
    bare = parts[0] if optional else hint
    default = None if parameter.default is parameter.empty else parameter.default
    example = examples.get(parameter.name, default)
    if bare is bool:
        return FormInput(parameter.name, "switch", bool(example), meaning)
    if bare is int:
        return FormInput(parameter.name, "integer", example if optional or example is not None else 2, meaning, low=0)
    if typing.get_origin(bare) is typing.Literal:
        return FormInput(parameter.name, "choice", default, meaning, choices=typing.get_args(bare))
    if parameter.kind is parameter.VAR_POSITIONAL:
        return FormInput(
            parameter.name, "text", example or "", meaning or "separated by commas", read=_words, star=True
        )
    if bare == Sequence[int]:
        return FormInput(
            parameter.name, "text", example or "", meaning or "whole numbers, separated by commas", read=_integers
        )
    if bare is str:
        return FormInput(parameter.name, "text", example or "", meaning)
    hinted = meaning or "inputs:hidden:outputs:rank:active or …:hinge, separated by blanks"
    return FormInput(parameter.name, "text", example or "", hinted, read=_groups)


def _without_tex(words: str) -> str:
    """The first sentence of a docstring without its markup."""
    words = re.sub(r":math:`([^`]*)`", lambda found: found[1].replace("\\", ""), " ".join(words.split()))
    return re.sub(r":\w+:`~?([^`]*)`", r"\1", words).replace("``", "")


def _words(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _integers(text: str) -> list[int]:
    try:
        return [int(part) for part in _words(text)]
    except ValueError:
        raise BadInput(f"invalid list of integers '{text[:40]}'", "write it like 5, 3, 4") from None


def _groups(text: str) -> list[tuple[Any, ...]]:
    groups = []
    for word in text.split():
        *numbers, where = word.split(":")
        if len(numbers) != 4:
            raise BadInput(
                f"invalid group of units '{word[:40]}'", "write inputs:hidden:outputs:rank:active or …:hinge"
            )
        groups.append((*_integers(",".join(numbers)), where))
    return groups
