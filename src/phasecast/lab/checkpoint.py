"""A run's state on disk: one file a checkpoint, with a checksum; the last two are kept.

A file is a line of JSON ``{"format": 1, "sha256": …, "bytes": …}`` and then an uncompressed ``.npz`` archive:
the member ``tree`` is JSON in which every array is replaced by the name of another member. Nothing in it can
run code when it is read.
"""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from phasecast.core import codec
from phasecast.core.errors import BadInput, NewerVersion
from phasecast.lab.files import write_atomically

FORMAT = 1
KEPT = 2


class Damaged(Exception):
    """A checkpoint file whose content is not what was written."""


def save(folder: Path, number: int, state: Any) -> None:
    """Write checkpoint ``number`` and remove all but the newest two."""
    folder.mkdir(exist_ok=True)
    payload = _pack(state)
    header = {"format": FORMAT, "sha256": hashlib.sha256(payload).hexdigest(), "bytes": len(payload)}
    content = json.dumps(header).encode() + b"\n" + payload
    write_atomically(folder / f"{number:08d}.ckpt", content, durable=True)
    for old in _files(folder)[KEPT:]:
        old.unlink(missing_ok=True)


def load_newest(folder: Path) -> tuple[int, Any, list[str]]:
    """Number and state of the newest sound checkpoint, with a note on each damaged one that was passed over.

    Number 0 and state None where there is none.
    """
    notes = []
    for path in _files(folder):
        try:
            return int(path.stem), _read(path), notes
        except Damaged as damage:
            notes.append(f"{path.name} is damaged ({damage}); used the one before")
    return 0, None, notes


def _read(path: Path) -> Any:
    header, separator, payload = path.read_bytes().partition(b"\n")
    try:
        facts = json.loads(header) if separator else {}
        written_by, checksum, length = int(facts["format"]), str(facts["sha256"]), int(facts["bytes"])
    except (ValueError, KeyError, TypeError):
        raise Damaged("no header") from None
    if written_by > FORMAT:
        raise NewerVersion(f"{path.name} was written by a newer phasecast", "upgrade phasecast")
    if len(payload) != length:
        raise Damaged(f"{len(payload)} of {length} bytes")
    if hashlib.sha256(payload).hexdigest() != checksum:
        raise Damaged("wrong checksum")
    return _unpack(payload)


def _pack(state: Any) -> bytes:
    arrays: dict[str, np.ndarray] = {}

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                raise BadInput("a recipe's state has keys that are not strings", "use string keys")
            return {"dict": {key: strip(item) for key, item in value.items()}}
        if isinstance(value, list | tuple):
            return {type(value).__name__: [strip(item) for item in value]}
        if hasattr(value, "__array__"):
            name = f"a{len(arrays)}"
            arrays[name] = np.asarray(value)
            return {"array": name}
        return {"value": codec.encode(value)}

    tree = json.dumps(strip(state)).encode()
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, tree=np.frombuffer(tree, dtype=np.uint8), **arrays)
    return file.getvalue()


def _unpack(payload: bytes) -> Any:
    with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
        arrays = dict(archive)

    def fill(tree: dict[str, Any]) -> Any:
        ((kind, content),) = tree.items()
        if kind == "dict":
            return {key: fill(item) for key, item in content.items()}
        if kind == "list":
            return [fill(item) for item in content]
        if kind == "tuple":
            return tuple(fill(item) for item in content)
        return arrays[content] if kind == "array" else codec.decode(content)

    return fill(json.loads(arrays.pop("tree").tobytes()))


def _files(folder: Path) -> list[Path]:
    """Checkpoint files, newest first."""
    return sorted(folder.glob("[0-9]*.ckpt"), reverse=True)
