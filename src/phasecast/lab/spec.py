"""What determines a run? Its spec: frozen, without unknown fields, from Python, TOML or the command line."""

from __future__ import annotations

import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from phasecast.core.errors import BadInput, NewerVersion, unknown
from phasecast.lab import fingerprint


@dataclass(frozen=True)
class _Content:
    """Marks a field whose *content* is part of the run id: the code of a reference, the bytes of a file."""

    kind: str


Factory = Annotated[str, _Content("factory")]
"""``package.module:function``, a function without arguments that returns a :class:`~phasecast.Problem`."""

DataFile = Annotated[str, _Content("file")]
"""The path of a file whose bytes are part of the run id."""


class Spec(BaseModel):
    """The base of every spec: values cannot change, unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    seed: int = Field(default=0, ge=0, lt=2**32, description="seed of all randomness")

    def contents(self) -> dict[str, str]:
        """Fingerprints of the user's code and data that this spec refers to, by field."""
        prints: dict[str, str] = {}
        for name, kind in content_fields(type(self)).items():
            value = getattr(self, name)
            of = fingerprint.of_factory if kind == "factory" else fingerprint.of_file
            for number, one in enumerate(value if isinstance(value, tuple | list) else [value]):
                if one is not None:
                    prints[f"{name}.{number}" if isinstance(value, tuple | list) else name] = of(one)
        return prints


AnySpec = TypeVar("AnySpec", bound=Spec)
AnyModel = TypeVar("AnyModel", bound=BaseModel)


def make_spec(kind: type[AnySpec], values: Mapping[str, Any]) -> AnySpec:
    """A spec from values, or a :class:`BadInput` of one line with cause and fix."""
    check_fields(kind, values)
    return checked(kind, values)


def check_fields(kind: type[BaseModel], names: Iterable[str], what: str = "field") -> None:
    """Refuse names that are not fields, with the nearest right one."""
    for name in names:
        if name not in kind.model_fields:
            raise unknown(what, name, kind.model_fields)


def checked(kind: type[AnyModel], values: Mapping[str, Any], where: str = "") -> AnyModel:
    """A pydantic model from values; the first invalid value is a :class:`BadInput` of one line."""
    try:
        return kind(**values)
    except ValidationError as error:
        raise first_problem(error, where) from None


def first_problem(error: ValidationError, where: str = "") -> BadInput:
    """The first of the values that a pydantic model refused, in one line."""
    first, *others = error.errors(include_url=False)
    field = where + ".".join(str(part) for part in first["loc"])
    given = "" if first["type"] == "missing" or not first["loc"] else f", got {_short(first['input'])}"
    more = f" (and {len(others)} more)" if others else ""
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    prefix = f"{field}: " if field else ""
    return BadInput(f"{prefix}{message[:1].lower()}{message[1:]}{given}{more}")


def parse_assignments(kind: type[Spec], assignments: Iterable[str]) -> dict[str, Any]:
    """Values from ``key=value`` words: TOML, else plain text; ``null`` is None."""
    values: dict[str, Any] = {}
    for name, text in _split(assignments):
        check_fields(kind, [name])
        values[name] = _items(text) if _is_sequence(kind, name) and text != "null" else _scalar(text)
    return values


def parse_axes(kind: type[Spec], assignments: Iterable[str]) -> dict[str, list[Any]]:
    """Sweep axes from ``key=value,value,…`` words."""
    axes: dict[str, list[Any]] = {}
    for name, text in _split(assignments):
        check_fields(kind, [name])
        items = _items(text)
        whole = _is_sequence(kind, name)  # then each value of the axis is itself a list
        axes[name] = [item if isinstance(item, list) or not whole else [item] for item in items]
    return axes


def parse_value(text: str) -> Any:
    """The value that ``key=text`` stands for: TOML, else plain text; ``null`` is None."""
    return _scalar(text)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}", "give the path of a TOML file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read ({error})", "give the path of a TOML file") from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise BadInput(f"{path} is not TOML ({error})", "see `phasecast recipes NAME` for an example") from None


def check_version(what: str, version: object, known: int) -> None:
    """Refuse files of a newer phasecast."""
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BadInput(f"{what} has version {version!r}", f"use an integer from 1 to {known}")
    if version > known:
        raise NewerVersion(f"{what} has version {version}, this phasecast knows {known}", "upgrade phasecast")


def content_fields(kind: type[Spec]) -> dict[str, str]:
    """Fields marked Factory (``factory``) or DataFile (``file``), also inside ``| None`` and in tuples."""

    def marks(annotation: Any) -> list[str]:
        found = [mark.kind for mark in getattr(annotation, "__metadata__", ()) if isinstance(mark, _Content)]
        return found + [mark for part in typing.get_args(annotation) for mark in marks(part)]

    found: dict[str, str] = {}
    for name, info in kind.model_fields.items():
        kinds = [mark.kind for mark in info.metadata if isinstance(mark, _Content)] + marks(info.annotation)
        if kinds:
            found[name] = kinds[0]
    return found


def _split(assignments: Iterable[str]) -> Iterable[tuple[str, str]]:
    names: set[str] = set()
    for word in assignments:
        name, equals, text = (part.strip() for part in word.partition("="))
        if not equals or not name:
            raise BadInput(f"invalid assignment '{word}'", "write key=value")
        if name in names:
            raise BadInput(f"'{name}' is given twice", "give it once")
        names.add(name)
        yield name, text


def _is_sequence(kind: type[Spec], name: str) -> bool:
    annotation = kind.model_fields[name].annotation
    return any(typing.get_origin(part) in (tuple, list) for part in (annotation, *typing.get_args(annotation)))


def _scalar(text: str) -> Any:
    if text == "null":  # TOML has no word for it
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    except (RecursionError, ValueError):  # nested a thousand deep, or an integer of thousands of digits
        raise BadInput(f"'{_short(text)}' cannot be read", "write a shorter value") from None


def _items(text: str) -> list[Any]:
    whole = _scalar(text)
    if isinstance(whole, list):
        return whole
    bracketed = _scalar(f"[{text}]")
    return bracketed if isinstance(bracketed, list) else [_scalar(part.strip()) for part in text.split(",")]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "…"
