"""Are the results of a run still what was written? A seal in ``status.json``, and a checksum in every chunk.

Every chunk of ``results.zarr`` ends in its CRC-32C, which is checked whenever the chunk is read. The seal, made when a
run finishes, holds the names of all groups and arrays, the SHA-256 of their metadata, and for each array its shape, its
type and a digest over the names, sizes and checksums of its chunks. So a chunk that is missing, cut short, exchanged or
changed in one bit is found before its numbers are used. A seal protects against accidents; somebody who can write to a
store can also write a seal.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import from_json

from phasecast.core.errors import DamagedRun
from phasecast.lab.files import not_regular, read_regular, refuse_links

METADATA = "zarr.json"
CHECKSUM = 4  # bytes of a CRC-32C, the last of a chunk
KEPT = 64 * 2**20  # bytes; chosen: what a reader holds for its user anyway, far below what a computer has


class Unsound(Exception):
    """What is wrong with a results folder, in a few words."""


@dataclass
class Node:
    """One group or array of ``results.zarr`` on disk."""

    metadata: bytes
    chunks: list[str] = field(default_factory=list)
    read: dict[str, bytes] = field(default_factory=dict)
    """The chunks that were read in order to check them."""

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Its metadata as JSON."""
        try:
            facts = from_json(self.metadata, allow_inf_nan=False)
        except ValueError:
            raise Unsound("metadata that is not JSON") from None
        if not isinstance(facts, dict) or facts.get("node_type") not in ("array", "group"):
            raise Unsound("metadata of neither an array nor a group")
        return facts

    def has_checksums(self) -> bool:
        """Whether the chunks end in a CRC-32C."""
        codecs = self.facts.get("codecs")
        last = codecs[-1] if isinstance(codecs, list) and codecs else None
        return isinstance(last, dict) and last.get("name") == "crc32c"


def nodes_of(results: Path) -> dict[str, Node]:
    """The groups and arrays below ``results`` by path; links and special files are refused."""
    refuse_links(results, folder=True)
    nodes: dict[str, Node] = {}

    def walk(folder: str, inside: str, owner: Node | None) -> None:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        if any(entry.name == METADATA for entry in listed):
            owner = nodes[inside] = Node(read_regular(f"{folder}{os.sep}{METADATA}"))
        for entry in listed:
            if entry.is_dir(follow_symlinks=False):
                walk(entry.path, f"{inside}/{entry.name}" if inside else entry.name, owner)
            elif not entry.is_file(follow_symlinks=False):
                raise not_regular(Path(entry.path))
            elif owner is not None and entry.name != METADATA and not entry.name.endswith(".partial"):
                owner.chunks.append(f"{inside}/{entry.name}" if inside else entry.name)

    walk(str(results), "", None)
    return nodes


def make_seal(results: Path) -> dict[str, dict[str, Any]]:
    """What ``status.json`` says about finished results."""
    return {path: _describe(results, node) for path, node in nodes_of(results).items()}


def check_seal(results: Path, seal: Mapping[str, Mapping[str, Any]], keep: int = 0) -> dict[str, Node]:
    """The nodes of the results on disk if they are those of the seal; the first difference is :class:`Unsound`.

    keep: how many bytes of chunks to read as a whole, for somebody who reads them next; each file is opened once then.
    """
    if not results.is_dir():
        raise Unsound("results.zarr is missing")
    nodes = nodes_of(results)
    for path in sorted({*seal, *nodes}):
        name = f"results.zarr/{path}".rstrip("/")
        if path not in nodes:
            raise Unsound(f"{name} is missing")
        if path not in seal:
            raise Unsound(f"{name} does not belong to it")
        sealed, node = seal[path], nodes[path]
        if hashlib.sha256(node.metadata).hexdigest() != sealed["metadata"]:
            raise Unsound(f"{name}/{METADATA} changed")
        if sealed.get("chunks") is None:
            continue
        if len(node.chunks) != sealed["chunks"]:
            raise Unsound(f"{name} has {len(node.chunks)} of {sealed['chunks']} chunks")
        if _digest(results, node, keep) != sealed["content"]:
            raise Unsound(f"a chunk of {name} changed")
        keep -= sum(map(len, node.read.values()))
    return nodes


def damaged_chunks(results: Path, node: Node) -> Iterator[str]:
    """The chunks of a node whose content does not have its checksum."""
    if node.has_checksums():
        for chunk in node.chunks:
            if not is_sound(node.read.get(chunk) or read_regular(results / chunk)):
                yield chunk


def check_rows(results: Path, path: str, chunks: int) -> None:
    """Check an array that a run goes on to fill: ``chunks`` are there and sound. Arrays without checksums pass."""
    node = nodes_of(results / path).get("")
    if node is None:
        raise Unsound(f"{path} is missing")
    if node.has_checksums():
        if len(node.chunks) < chunks:
            raise Unsound(f"{path} has {len(node.chunks)} of {chunks} chunks")
        for chunk in damaged_chunks(results / path, node):
            raise Unsound(f"{path}/{chunk} is damaged")


def is_sound(chunk: bytes) -> bool:
    """Whether a chunk ends in the checksum of the rest."""
    if len(chunk) <= CHECKSUM:
        return False
    rest = np.frombuffer(chunk, np.uint8, len(chunk) - CHECKSUM)  # a copy of a large chunk would take longer
    return _checksum()(rest) == int.from_bytes(chunk[-CHECKSUM:], "little")


@cache  # an import statement takes longer than the checksum of a small chunk
def _checksum() -> Callable[[np.ndarray], int]:
    from google_crc32c import value  # what zarr's own codec uses

    return value


def open_checked(results: Path, run: str, nodes: Mapping[str, Node]) -> Any:
    """A zarr store of these nodes that checks each chunk that it reads."""
    store = _checked_store()(results, read_only=True)
    store.run, store.has_checksums = run, {path: node.has_checksums() for path, node in nodes.items()}
    store.read = {name: content for node in nodes.values() for name, content in node.read.items()}
    return store


@cache  # zarr is slow to import, and a class of its kind slow to make
def _checked_store() -> Any:
    from zarr.buffer import default_buffer_prototype
    from zarr.storage import LocalStore

    class Checked(LocalStore):
        run: str
        has_checksums: dict[str, bool]
        read: dict[str, bytes]

        async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:  # zarr's own signature
            if byte_range is not None:
                return await super().get(key, prototype, byte_range)
            try:  # here and now: zarr's own hands each file to a thread, which takes longer than to read it
                content = self.read.pop(key, None) or read_regular(f"{self.root}{os.sep}{key}")
            except FileNotFoundError:
                return None
            if not key.endswith(METADATA):
                check_chunk(self.run, self.has_checksums, key, content)
            return (prototype or default_buffer_prototype()).buffer.from_bytes(content)

    return Checked


def check_chunk(run: str, has_checksums: Mapping[str, bool], key: str, content: bytes) -> None:
    """Refuse a chunk of an array with checksums that does not have its own; zarr's error would not name the run."""
    owner = key.partition("/c/")[0]  # as zarr names the chunks of an array, unless its own name has such a part
    if owner not in has_checksums:
        owner = next((path for path in _parents(key) if path in has_checksums), "")
    if has_checksums.get(owner) and not is_sound(content):
        raise DamagedRun(run, f"results.zarr/{key} does not have its checksum")


def _parents(key: str) -> Iterator[str]:
    while "/" in key:
        key = key.rpartition("/")[0]
        yield key


def _describe(results: Path, node: Node) -> dict[str, Any]:
    facts = node.facts
    described: dict[str, Any] = {"metadata": hashlib.sha256(node.metadata).hexdigest()}
    if facts["node_type"] == "array":
        kind = facts.get("data_type")
        described |= {
            "shape": facts.get("shape"),
            "dtype": kind if isinstance(kind, str) else json.dumps(kind),
            "chunks": len(node.chunks),
            "content": _digest(results, node),
        }
    return described


def _digest(results: Path, node: Node, keep: int = 0) -> str:
    """A digest over the names, sizes and checksums of chunks; of chunks without a checksum over their content."""
    parts: list[bytes] = []
    whole, folder = not node.has_checksums(), f"{results}{os.sep}"  # a Path per chunk is slow
    for chunk in node.chunks:
        if whole:
            end = read_regular(folder + chunk)
            size = len(end)
        else:
            size, content = _size_and_end(folder + chunk, keep)
            end = content[-CHECKSUM:]
            if size <= keep:
                node.read[chunk] = content
                keep -= size
        parts += (chunk.encode(), size.to_bytes(8, "little"), end)
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _size_and_end(path: str, keep: int) -> tuple[int, bytes]:
    """The size of a file and its last bytes; all of it if it has at most ``keep``."""
    handle = os.open(path, os.O_RDONLY)
    try:
        size = os.lseek(handle, 0, os.SEEK_END)
        return size, os.pread(handle, size, 0 if size <= max(keep, CHECKSUM) else size - CHECKSUM)
    finally:
        os.close(handle)
