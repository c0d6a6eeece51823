"""How does a run survive being killed? Its state in one file per checkpoint, with a checksum; the last two are kept.

A file is a line of JSON ``{"format": 1, "sha256": …, "arrays": [[dtype, shape], …], "tree": …}`` followed by the
bytes of the arrays. In the tree every array is replaced by its number. The checksum covers everything else. Reading a
file cannot run code, and writing one copies nothing, since states may be large.
"""

from __future__ import annotations

import hashlib
import json
import math
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from phasecast.core import codec
from phasecast.core.errors import BadInput, NewerVersion
from phasecast.core.types import PyTree
from phasecast.lab.files import read_regular, refuse_links, write_atomically

FORMAT = 1  # of the file; see docs/versions.md
KEPT = 2  # the newest may be damaged by a power cut; then the one before is used


class Damaged(Exception):
    """A checkpoint file whose content is not what was written."""


def save(folder: Path, number: int, state: PyTree) -> None:
    """Write checkpoint ``number`` and remove all but the newest two."""
    refuse_links(folder, folder=True)
    folder.mkdir(exist_ok=True)
    tree, arrays = _take_apart(state)
    kinds = [[array.dtype.str, array.shape, "F" if _is_fortran(array) else "C"] for array in arrays]
    facts = {"format": FORMAT, "arrays": kinds, "tree": tree}
    pieces = [array.ravel("K").view(np.uint8).data for array in arrays if array.size]
    header = json.dumps({"sha256": _checksum(facts, pieces), **facts}).encode()
    write_atomically(folder / f"{number:08d}.ckpt", header, b"\n", *pieces, durable=True)
    for old in _files(folder)[KEPT:]:
        old.unlink(missing_ok=True)


def load_newest(folder: Path) -> tuple[int, Any, list[str]]:
    """Number and state of the newest sound checkpoint, with a note on each damaged one, which is removed.

    Number 0 and state None if there is none.
    """
    notes = []
    for path in _files(folder):
        try:
            return int(path.stem), _read(path), notes
        except Damaged as damage:
            notes.append(f"{path.name} is damaged ({damage}); used the one before")
            path.unlink(missing_ok=True)
    return 0, None, notes


def peek(folder: Path) -> Any:
    """The state of the newest sound checkpoint of a run that another process may be computing; None if there is none.

    Nothing is removed, unlike in :func:`load_newest`.
    """
    refuse_links(folder, folder=True)
    for path in _files(folder):
        try:
            return _read(path)
        except (Damaged, FileNotFoundError):  # the process that computes removes old ones
            continue
    return None


def _read(path: Path) -> Any:
    header, _, body = read_regular(path).partition(b"\n")
    try:
        facts = json.loads(header)
        checksum = facts.pop("sha256")
        written_by = int(facts["format"])
        kinds = [(np.dtype(kind), tuple(shape), order) for kind, shape, order in facts["arrays"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Damaged("no valid header") from None
    if written_by > FORMAT:
        raise NewerVersion(f"{path.name} was written by a newer phasecast", "upgrade phasecast")
    if _checksum(facts, [memoryview(body)]) != checksum:
        raise Damaged("wrong checksum")
    try:
        arrays, start = [], 0
        for kind, shape, order in kinds:
            length = kind.itemsize * math.prod(shape)
            piece = np.frombuffer(body[start : start + length], dtype=kind)
            arrays.append(piece.reshape(shape, order=order).copy(order))
            start += length
        return _put_together(facts["tree"], arrays)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise Damaged("content that does not fit its header") from None


def _is_fortran(array: np.ndarray) -> bool:
    return array.flags.f_contiguous and not array.flags.c_contiguous


def _checksum(facts: dict[str, Any], pieces: list[memoryview]) -> str:
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _take_apart(state: PyTree) -> tuple[Any, list[np.ndarray]]:
    """A tree of JSON types, and the arrays that its leaves number."""
    arrays: list[np.ndarray] = []

    def strip(value: PyTree) -> Any:
        if isinstance(value, dict | list | tuple | Enum | np.ma.MaskedArray) and type(value) not in (dict, list, tuple):
            raise BadInput(
                f"a recipe's state has a {type(value).__name__}", "use dicts, lists, tuples, arrays, numbers"
            )
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                raise BadInput("a recipe's state has keys that are not strings", "use string keys")
            return {"dict": {key: strip(item) for key, item in value.items()}}
        if isinstance(value, list | tuple):
            return {type(value).__name__: [strip(item) for item in value]}
        if hasattr(value, "__array__"):
            array = np.asarray(value)
            if not (array.flags.c_contiguous or array.flags.f_contiguous):
                array = np.ascontiguousarray(array)
            if array.dtype.hasobject or array.dtype.kind in "VT":
                raise BadInput(f"a recipe's state has an array of {array.dtype}", "use numbers, booleans or strings")
            arrays.append(array)
            return {"array": len(arrays) - 1}
        return {"value": codec.encode(value)}

    return strip(state), arrays


def _put_together(tree: dict[str, Any], arrays: list[np.ndarray]) -> Any:
    ((kind, content),) = tree.items()
    if kind == "dict":
        return {key: _put_together(item, arrays) for key, item in content.items()}
    if kind in ("list", "tuple"):
        items = [_put_together(item, arrays) for item in content]
        return items if kind == "list" else tuple(items)
    return arrays[content] if kind == "array" else codec.decode(content)


def _files(folder: Path) -> list[Path]:
    """Checkpoint files, newest first."""
    return sorted(folder.glob("[0-9]*.ckpt"), reverse=True)
