"""What has a run logged so far? Its columns of numbers, read while it computes, and thinned to what a screen can show.

Rows are in ``results.zarr`` where they fill a chunk, and in the newest checkpoint until then. Chunks are decoded here,
not by zarr, which opens every one of the thousands that a long run has. A chunk that is full never changes, so a second
look reads only what is new.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from phasecast.core.errors import StoreError
from phasecast.lab import checkpoint
from phasecast.lab.files import parse_json, read_regular, refuse_links
from phasecast.lab.integrity import CHECKSUM, is_sound
from phasecast.lab.records import is_checkpoint
from phasecast.lab.store import RunFolder

MOST_COLUMNS = 512  # kept in memory; of 10⁵ float64 rows each, 400 MB, and far less for usual runs
MOST_POINTS = 2000  # per line; chosen: more than a screen has pixels across
MOST_ROWS, LARGEST_CHUNK = 10**7, 10**6  # of a column; a file from elsewhere must not fill the memory
AXES = ("step", "alpha", "n", "delta", "time", "epoch")  # columns to draw others over, in this order


@dataclass(frozen=True)
class StoredLine:
    """One column over another, ready to draw. ``error`` are bars, empty if there are none; ``meaning`` is in words."""

    table: str
    name: str
    axis: str
    x: np.ndarray
    y: np.ndarray
    error: np.ndarray = field(default_factory=lambda: np.empty(0))
    meaning: str = ""

    @property
    def title(self) -> str:
        return f"{self.table}/{self.name}"


@dataclass
class _Column:
    """The rows of an array that were read so far, and the number of chunks that they fill."""

    signature: tuple[Any, ...]
    rows: np.ndarray
    chunks: int


class CurveReader:
    """Reads the logged columns of runs; one object serves all sessions of a server, and keeps a bounded number."""

    def __init__(self) -> None:
        self._columns: OrderedDict[Path, _Column] = OrderedDict()
        self._waiting: OrderedDict[Path, tuple[tuple[str, int], dict[str, Any]]] = OrderedDict()
        self._lock = threading.Lock()

    def lines(self, folder: RunFolder) -> list[StoredLine]:
        """Every column of numbers that a run has logged, with what it is drawn over."""
        folder.refuse_links()
        with self._lock:
            waiting = self._checkpointed(folder)
            return [line for table in self._tables(folder, waiting) for line in self._of_table(folder, table, waiting)]

    def _tables(self, folder: RunFolder, waiting: Mapping[str, Any]) -> list[str]:
        names = set(waiting.get("waiting", {}))
        with contextlib.suppress(FileNotFoundError):
            for place in folder.results.iterdir():
                if place.is_dir() and not place.is_symlink():
                    names.add(place.name)
        return sorted(names)

    def _of_table(self, folder: RunFolder, table: str, waiting: Mapping[str, Any]) -> Iterator[StoredLine]:
        pending = waiting.get("waiting", {}).get(table, {})
        counted = int(waiting.get("written", {}).get(table, 0))
        columns: dict[str, np.ndarray] = {}
        place = folder.results / table
        names = set(pending)
        with contextlib.suppress(FileNotFoundError):
            names |= {entry.name for entry in place.iterdir() if entry.is_dir() and not entry.is_symlink()}
        for name in names:
            written = self._column(place / name)
            rows = np.asarray(pending[name]) if name in pending else np.empty(0)
            if rows.ndim != 1 or rows.dtype.kind not in "fiub" or (written is None and (place / name).exists()):
                continue
            column = written if written is not None else rows[:0]
            if rows.size and column.size < counted + rows.size:
                column = np.concatenate([column[:counted], rows]) if column.size >= counted else column
            columns[name] = column
        for line in _lines(table, columns):
            yield replace(line, meaning=_meaning(place / line.name))

    def _column(self, path: Path) -> np.ndarray | None:
        """The rows of a one-dimensional array of numbers that are on disk; None if it is something else."""
        described = _description(path)
        if described is None:
            return None
        kind, per_chunk, codecs, total = described
        signature = (kind.str, per_chunk, codecs)
        known = self._columns.get(path)
        if known is None or known.signature != signature or known.rows.size > total:
            known = _Column(signature, np.empty(0, kind), 0)
        pieces = [known.rows[: known.chunks * per_chunk]]
        full = known.chunks
        for number in range(known.chunks, -(-total // per_chunk)):
            piece = _chunk(path / "c" / str(number), kind, per_chunk, codecs)
            if piece is None:
                break
            piece = piece[: total - number * per_chunk]
            pieces.append(piece)
            full += piece.size == per_chunk
        known = _Column(signature, np.concatenate(pieces), full)
        self._columns[path] = known
        self._columns.move_to_end(path)
        while len(self._columns) > MOST_COLUMNS:
            self._columns.popitem(last=False)
        return known.rows

    def _checkpointed(self, folder: RunFolder) -> dict[str, Any]:
        """What the newest checkpoint says about the results: rows written, and rows that wait."""
        newest = max((path.name for path in folder.checkpoints.glob("[0-9]*.ckpt")), default="")
        if not newest or _is_finished(folder):
            return {}
        with contextlib.suppress(OSError, StoreError):
            signature = (newest, (folder.checkpoints / newest).stat().st_mtime_ns)
            known = self._waiting.get(folder.path)
            if known is None or known[0] != signature:
                state = checkpoint.peek(folder.checkpoints)
                known = (signature, state["results"] if is_checkpoint(state) else {})
                self._waiting[folder.path] = known
                while len(self._waiting) > 16:  # runs that are being watched
                    self._waiting.popitem(last=False)
            return known[1]
        return {}


def thinned(line: StoredLine, most: int = MOST_POINTS) -> StoredLine:
    """A line with at most so many points: the lowest and the highest of each stretch, so that no spike is lost."""
    finite = np.isfinite(line.y) & np.isfinite(line.x)
    x, y = line.x[finite], line.y[finite]
    error = line.error[finite] if line.error.size else line.error
    if y.size <= most:
        return replace(line, x=x, y=y, error=error)
    edges = np.linspace(0, y.size, most // 2 + 1).astype(int)
    ends = {0, y.size - 1}
    for low, high in itertools.pairwise(edges):
        ends |= {low + int(np.argmin(y[low:high])), low + int(np.argmax(y[low:high]))}
    kept = np.array(sorted(ends))
    return replace(line, x=x[kept], y=y[kept], error=error[kept] if error.size else error)


def panels_of(lines: Sequence[StoredLine]) -> dict[str, list[StoredLine]]:
    """Lines that belong into one picture, by its title: those of a table whose names end in the same word."""
    groups: dict[str, list[StoredLine]] = {}
    for line in lines:
        groups.setdefault(f"{line.table}: {line.name.rpartition('_')[2]}", []).append(line)
    return {
        (title.replace("_", " ") if len(group) > 1 else f"{group[0].table}: {group[0].name.replace('_', ' ')}"): group
        for title, group in groups.items()
    }


def is_logarithmic(lines: Sequence[StoredLine]) -> bool:
    """Whether a picture needs a logarithmic axis: a positive quantity that spans more than two decades."""
    values = np.concatenate([line.y[np.isfinite(line.y)] for line in lines] or [np.empty(0)])
    return bool(values.size) and bool(values.min() > 0) and bool(values.max() > 100 * values.min())


def _lines(table: str, columns: Mapping[str, np.ndarray]) -> Iterator[StoredLine]:
    axis = next((name for name in AXES if name in columns), None)
    for name, column in sorted(columns.items()):
        if name == axis or name == "status" or name == "error" or name.endswith("_error"):
            continue
        bars = columns.get("error" if name == "value" else name.replace("_value", "_error") if "_value" in name
                           else f"{name}_error", np.empty(0))  # fmt: skip
        x = columns[axis] if axis else np.arange(column.size)
        count = min(x.size, column.size)  # the columns of a table are written one after the other
        error = bars[:count].astype(float) if bars.size >= count else np.empty(0)
        yield StoredLine(table, name, axis or "row", x[:count].astype(float), column[:count].astype(float), error)


def _description(path: Path) -> tuple[np.dtype, int, tuple[str, ...], int] | None:
    """Type, rows per chunk, codecs and rows of a one-dimensional array of numbers."""
    with contextlib.suppress(OSError, StoreError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        refuse_links(path, folder=True)
        refuse_links(path / "c", folder=True)
        facts = parse_json(read_regular(path / "zarr.json"))
        (total,), (per_chunk,) = facts["shape"], facts["chunk_grid"]["configuration"]["chunk_shape"]
        kind = np.dtype(facts["data_type"])
        codecs = tuple(codec["name"] for codec in facts["codecs"])
        simple = set(codecs) <= {"bytes", "zstd", "crc32c"} and codecs[0] == "bytes"
        named = facts.get("dimension_names") or ()
        bounded = 0 < per_chunk <= LARGEST_CHUNK and 0 <= total <= MOST_ROWS
        if simple and bounded and kind.kind in "fiub" and path.name not in named:
            return kind.newbyteorder("<"), per_chunk, codecs, total
    return None


def _meaning(path: Path) -> str:
    """What the recipe says that a column is."""
    with contextlib.suppress(OSError, StoreError, ValueError, KeyError, TypeError, AttributeError):
        return str(parse_json(read_regular(path / "zarr.json"))["attributes"].get("long_name", ""))
    return ""


def _chunk(path: Path, kind: np.dtype, per_chunk: int, codecs: tuple[str, ...]) -> np.ndarray | None:
    """The rows of one chunk; None if it is not there yet or not sound."""
    from numcodecs.zstd import Zstd

    with contextlib.suppress(OSError, StoreError, ValueError, RuntimeError):
        content = read_regular(path)
        if "crc32c" in codecs:
            if not is_sound(content):
                return None
            content = content[:-CHECKSUM]
        rows = np.empty(per_chunk, kind)  # a full chunk, always: a file from elsewhere must not ask for more memory
        if "zstd" in codecs:
            Zstd().decode(content, out=rows)
        else:
            rows[:] = np.frombuffer(content, kind)
        return rows
    return None


def _is_finished(folder: RunFolder) -> bool:
    with contextlib.suppress(OSError, StoreError):
        return folder.read_status().get("seal") is not None
    return False
