"""Has the user's code or data changed? A hash of what a reference leads to, so that no edit gets a stale answer.

The fingerprint of a factory covers the source of its module and of every module of the user's own that it
imports (not the standard library, not installed packages), and the values in what it returns: parameters, data,
and the arrays and numbers that the loss function closes over.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.lab.reference import digest_of, load_problem, own_sources


def of_factory(reference: str) -> str:
    """The fingerprint of a factory's code and of what it returns."""
    problem = load_problem(reference)
    digest = hashlib.sha256(of_source(reference).encode())
    fields = {entry.name: getattr(problem, entry.name) for entry in dataclasses.fields(problem)}
    for piece in _values(fields):
        digest.update(piece)
    return digest.hexdigest()


def of_source(reference: str) -> str:
    """The fingerprint of the module behind a reference and of the user's own modules it imports."""
    digest = hashlib.sha256(reference.encode())
    for path in own_sources(reference.partition(":")[0]):
        digest.update(path.name.encode() + bytes.fromhex(digest_of(path)))
    return digest.hexdigest()


def of_file(path: str) -> str:
    """The fingerprint of a file's bytes."""
    try:
        return digest_of(Path(path))
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror})", "give the path of a readable file") from None


def _values(value: Any, seen: set[int] | None = None) -> Iterator[bytes]:
    """Bytes that identify a value: arrays by content, functions by code and what they refer to."""
    seen = set() if seen is None else seen
    yield type(value).__name__.encode()
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield repr(value).encode()
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, set | frozenset):
        yield repr(sorted(map(repr, value))).encode()
        return
    if hasattr(value, "__array__"):
        array = np.asarray(value.detach() if hasattr(value, "detach") else value)  # torch asks to detach
        yield f"{array.dtype}{array.shape}".encode()
        yield (np.ascontiguousarray(array).tobytes() if array.dtype != object else repr(array.tolist()).encode())
        return
    for part in _parts(value):
        yield from _values(part, seen)


def _parts(value: Any) -> Iterator[Any]:
    """What a container, a function or an object consists of."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield repr(key)
            yield item
    elif isinstance(value, list | tuple):
        yield from value
    elif isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, types.MethodType):
        yield from (value.__func__, value.__self__)
    elif isinstance(value, types.FunctionType):
        yield value.__code__
        yield from (value.__defaults__, value.__kwdefaults__)
        yield from (cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell))
        names = _global_names(value.__code__)
        yield from (value.__globals__[name] for name in names if name in value.__globals__)
    elif isinstance(value, types.CodeType):
        yield from (value.co_code, value.co_names, value.co_consts)
    elif hasattr(value, "__wrapped__"):
        yield value.__wrapped__
    elif not isinstance(value, types.ModuleType | type) and hasattr(value, "__dict__"):
        yield vars(value)


def _global_names(code: types.CodeType) -> list[str]:
    """Names a function may look up outside itself, also in the functions inside it."""
    inner = [name for part in code.co_consts if isinstance(part, types.CodeType) for name in _global_names(part)]
    return [*code.co_names, *inner]


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
