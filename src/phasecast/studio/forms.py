"""Which inputs does a recipe need? Its form, described from its spec, and the spec made from what was filled in.

What was filled in travels as the words of ``phasecast run --set``, so that a form and a command line cannot disagree.
"""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic.fields import FieldInfo

from phasecast.core.errors import BadInput
from phasecast.lab.spec import Spec, content_fields, make_spec, parse_assignments

LARGEST_EXACT = 2**53 - 1  # integers that a browser holds exactly
CODE_HINT = "start the studio with --allow-code to import your own code"


@dataclass(frozen=True)
class FormField:
    """One input of a form.

    Parameters
    ----------
    kind: ``integer``, ``number``, ``switch``, ``choice``, ``text`` or ``list`` (values separated by commas).
    default: None stands for nothing filled in, which is a value where the field is ``optional``.
    low, high: inclusive bounds of a number; ``bounds`` has them in words, with the exclusive ones.
    is_code: whether it names code to import.
    """

    name: str
    kind: str
    default: Any
    help: str = ""
    choices: tuple[Any, ...] = ()
    low: float | None = None
    high: float | None = None
    bounds: str = ""
    optional: bool = False
    required: bool = False
    is_code: bool = False

    @property
    def explanation(self) -> str:
        """What the field means, with its bounds."""
        extra = [self.bounds, "separated by commas" if self.kind == "list" else "", "may be empty" * self.optional]
        return "; ".join(part for part in (self.help, *extra) if part)


def form_of(spec: type[Spec]) -> list[FormField]:
    """The inputs of a recipe, in the order of its spec and the seed last."""
    code = {name for name, kind in content_fields(spec).items() if kind == "factory"}
    fields = [_field(name, info, name in code) for name, info in spec.model_fields.items()]
    return sorted(fields, key=lambda field: field.name == "seed")


def initial_values(fields: list[FormField], preset: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the inputs hold at first: the defaults, or the values of a preset where it has one."""
    given = dict(preset or {})
    return {field.name: _shown(field, given.get(field.name, field.default)) for field in fields}


def assignments(fields: list[FormField], values: Mapping[str, Any]) -> list[str]:
    """The words ``name=value`` of all inputs that differ from their defaults, for ``phasecast run --set``."""
    words = []
    for field in fields:
        value = values.get(field.name)
        if value == _shown(field, field.default) and type(value) is type(_shown(field, field.default)):
            continue
        if value is None or (isinstance(value, str) and not value.strip()):
            if not field.optional:
                raise BadInput(f"{field.name} is empty", f"fill it in: {field.explanation or field.kind}")
            words.append(f"{field.name}=null")
        else:
            words.append(f"{field.name}={_written(field, value)}")
    return words


def spec_of(kind: type[Spec], words: list[str], *, allow_code: bool = False) -> Spec:
    """The spec that the words describe; wrong ones, and code without leave, are a :class:`BadInput`."""
    values = parse_assignments(kind, words)
    for name, content in content_fields(kind).items():
        if content == "factory" and values.get(name) is not None and not allow_code:
            raise BadInput(f"{name} names code to import", CODE_HINT)
    return make_spec(kind, values)


def _field(name: str, info: FieldInfo, is_code: bool) -> FormField:
    annotation, optional = _without_none(info.annotation)
    kind, choices = _kind(annotation)
    limits = list(_limits(info))
    signed = dict(limits)
    low, high = signed.get("≥"), signed.get("≤")
    if kind == "integer":
        low = low if low is not None else signed[">"] + 1 if ">" in signed else None
        high = high if high is not None else signed["<"] - 1 if "<" in signed else None
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    return FormField(
        name,
        kind,
        default,
        help=info.description or "",
        choices=choices,
        low=low,
        high=high,
        bounds=", ".join(f"{sign} {value:g}" for sign, value in limits),
        optional=optional,
        required=info.is_required(),
        is_code=is_code,
    )


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """A type without ``| None`` and without annotations, and whether None was part of it."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType) and type(None) in parts:
        others = [part for part in parts if part is not type(None)]
        return (_without_none(others[0])[0] if len(others) == 1 else str), True
    return annotation, False


def _kind(annotation: Any) -> tuple[str, tuple[Any, ...]]:
    if typing.get_origin(annotation) is typing.Literal:
        return "choice", typing.get_args(annotation)
    if typing.get_origin(annotation) in (tuple, list):
        return "list", ()
    kinds = {bool: "switch", int: "integer", float: "number"}
    return (kinds.get(annotation, "text") if isinstance(annotation, type) else "text"), ()


def _limits(info: FieldInfo) -> Iterator[tuple[str, float]]:
    """The bounds of a number with their signs; pydantic keeps those of ``X | None`` in the same place."""
    for mark in info.metadata:
        for sign, attribute in ((">", "gt"), ("≥", "ge"), ("<", "lt"), ("≤", "le")):
            value = getattr(mark, attribute, None)
            if isinstance(value, int | float) and math.isfinite(value):
                yield sign, value


def _shown(field: FormField, value: Any) -> Any:
    """A value of the spec as its input holds it."""
    if field.kind == "list":
        return "" if value is None else ", ".join(_one(item) for item in value)
    if field.kind == "text":
        return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if field.kind == "number":
        return None if value is None else float(value)
    return value


def _written(field: FormField, value: Any) -> str:
    """A value of an input as the right side of ``--set name=value``."""
    if field.kind == "list":
        return str(value) if str(value).strip().startswith("[") else f"[{value}]"
    if field.kind == "number":
        return repr(float(value))
    if field.kind in ("integer", "switch", "choice"):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def _one(item: Any) -> str:
    return json.dumps(list(item) if isinstance(item, tuple) else item, ensure_ascii=False)
