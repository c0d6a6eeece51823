"""Has the user's code or data changed? A hash of what a reference leads to, so that no edit gets a stale answer.

The fingerprint of a factory covers the source of its module and of every module of the user's own that it
imports (not the standard library, not installed packages), and the values in what it returns: parameters, data,
and the arrays and numbers that the loss function closes over.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pickle
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.user_code import digest_of, is_installed, own_sources


def of_factory(reference: str) -> str:
    """The fingerprint of a factory's code and of what it returns."""
    from phasecast.coefficients.llc.problems import load_sampled_problem

    problem = load_sampled_problem(reference)
    digest = hashlib.sha256(of_source(reference).encode())
    fields = {entry.name: getattr(problem, entry.name) for entry in dataclasses.fields(problem)}
    for piece in _values(fields):
        digest.update(piece)
    return digest.hexdigest()


def of_source(reference: str) -> str:
    """The fingerprint of the module behind a reference and of the user's own modules it imports."""
    digest = hashlib.sha256(reference.encode())
    for name, path in own_sources(reference.partition(":")[0]).items():
        digest.update(name.encode() + bytes.fromhex(digest_of(path)))
    return digest.hexdigest()


def of_file(path: str) -> str:
    """The fingerprint of a file's bytes."""
    try:
        return digest_of(Path(path))
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror})", "give the path of a readable file") from None


def _values(value: object, visited: set[int] | None = None) -> Iterator[bytes]:
    """Bytes that identify a value: arrays by content, the user's functions by code and what they refer to.

    Objects of installed packages are identified by their name only: their contents are not the user's, and may differ
    from process to process.
    """
    visited = set() if visited is None else visited
    yield type(value).__qualname__.encode()
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield repr(value).encode()
        return
    if id(value) in visited:
        return
    visited.add(id(value))
    if isinstance(value, set | frozenset):
        yield b"".join(sorted(b"".join(_values(item, set())) for item in value))
    elif (array := _array(value)) is not None:
        yield f"{array.dtype}{array.shape}".encode()
        yield np.ascontiguousarray(array).tobytes() if array.dtype != object else repr(array.tolist()).encode()
    elif (parts := _parts(value)) is None:
        yield _opaque(value)
    else:
        yield b"("
        for part in parts:
            yield from _values(part, visited)
        yield b")"


def _array(value: Any) -> np.ndarray | None:
    if not hasattr(value, "__array__"):
        return None
    try:
        return np.asarray(value.detach() if hasattr(value, "detach") else value)  # torch asks to detach
    except TypeError:  # a typed random key of JAX
        import jax

        return np.asarray(jax.random.key_data(value))


def _opaque(value: object) -> bytes:
    """A value without visible parts: its pickle, which is written here but never read."""
    try:
        return pickle.dumps(value)
    except Exception:
        return getattr(value, "__qualname__", "").encode()


def _parts(value: Any) -> list[Any] | None:
    """The parts of a container, a function or an object; None if they cannot be inspected."""
    if isinstance(value, dict):
        return [part for item in value.items() for part in item]
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        wrapped = [value.__wrapped__] if hasattr(value, "__wrapped__") else []  # pyright: ignore[reportFunctionMemberAccess]
        if not _is_own(value.__globals__.get("__name__")):
            return [f"{value.__module__}.{value.__qualname__}", *cells, *wrapped]
        names = [name for name in _global_names(value.__code__) if name in value.__globals__]
        referred = [value.__globals__[name] for name in names]
        return [value.__code__, value.__defaults__, value.__kwdefaults__, *cells, *wrapped, *referred]
    if isinstance(value, types.CodeType):
        return [value.co_code, value.co_names, value.co_consts]
    if isinstance(value, types.ModuleType | type):
        name = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
        if not _is_own(name):
            return [f"{name}.{getattr(value, '__qualname__', '')}"]
        return [part for key, item in vars(value).items() if not _is_machinery(key) for part in (key, item)]
    if hasattr(value, "__wrapped__"):
        return [value.__wrapped__]
    return [type(value), vars(value)] if hasattr(value, "__dict__") else None


def _is_machinery(name: str) -> bool:
    return name.startswith("__") and name not in ("__call__", "__init__", "__getitem__", "__matmul__")


@functools.cache
def _is_own(module: str | None) -> bool:
    """Whether a module is the user's own."""
    path = getattr(sys.modules.get(module or ""), "__file__", None)
    return module == "__main__" or (path is not None and not is_installed(Path(path)))


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
