"""How are the results of a run stored? As ``results.zarr``, an xarray DataTree that grows by whole chunks of rows.

A recipe lays out one :class:`Table` per node of the tree. Rows are written when they fill a whole zarr chunk; the
others wait in memory and in the checkpoint. So rows that a checkpoint counts are never rewritten, and after a crash the
table is cut back to the checkpoint and continues with the same rows in the same places. We write with zarr itself,
because appending through xarray rewrites the coordinates each time. Every chunk ends in a checksum, also one that holds
nothing but zeros, so that a missing one is noticed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import DamagedRun, PhasecastError, StoreError
from phasecast.lab import integrity
from phasecast.lab.files import refuse_links

if TYPE_CHECKING:
    import xarray as xr

Rows = Mapping[str, Mapping[str, Any]]
"""New rows of each table: arrays or lists by variable, one entry per row."""

_TEXT = np.dtypes.StringDType()


@dataclass(frozen=True)
class Table:
    """One node of the results.

    Parameters
    ----------
    grows: the dimension along which rows are appended.
    variables: the dimensions of each variable after ``grows``.
    coordinates: fixed labels of dimensions: numbers or strings.
    meanings: what each variable is, e.g. ``{"V": "volume below epsilon"}``.
    dtypes: of the variables that are not float64, as numpy names them; ``string`` for text of any length.
    rows_per_chunk: how many rows share a file.
    """

    grows: str
    variables: Mapping[str, tuple[str, ...]]
    coordinates: Mapping[str, Any] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    rows_per_chunk: int = 64

    def dtype(self, variable: str) -> np.dtype:
        """The numpy type of a variable."""
        name = self.dtypes.get(variable, "float64")
        return _TEXT if name == "string" else np.dtype(name)


class LostRows(Exception):
    """The results on disk have fewer rows than the checkpoint counts."""


class ResultsWriter:
    """Appends rows to ``results.zarr``; ``state()`` goes into the checkpoint and comes back as ``resume``."""

    def __init__(self, path: Path, layout: Mapping[str, Table], resume: dict[str, Any] | None = None):
        import zarr

        self._layout, self._path = layout, path
        refuse_links(path, folder=True)
        if resume is None:
            shutil.rmtree(path, ignore_errors=True)
        elif path.is_dir():
            integrity.nodes_of(path)  # a link in it would lead the writer elsewhere
        try:
            self._root = zarr.open_group(path, mode="a")
            self._written = {name: int(resume["written"][name]) if resume else 0 for name in layout}
            waiting = resume["waiting"] if resume else {}
            self._waiting: dict[str, dict[str, np.ndarray]] = {
                name: {variable: column.astype(layout[name].dtype(variable)) for variable, column in columns.items()}
                for name, columns in waiting.items()
            }
            self._cut_back()
        except (LostRows, StoreError, OSError):
            raise
        except Exception as error:
            if resume is None:
                raise
            raise LostRows(f"results.zarr cannot be continued ({type(error).__name__})") from error

    def append(self, rows: Rows) -> None:
        """Append rows, all variables of a table together; write those that fill whole chunks."""
        for name, columns in rows.items():
            table = self._layout[name]
            if set(columns) != set(table.variables):
                raise PhasecastError(f"rows of '{name}' have {sorted(columns)}", f"give {sorted(table.variables)}")
            fresh = {variable: _column(name, table, variable, column) for variable, column in columns.items()}
            if len({len(column) for column in fresh.values()}) != 1:
                raise PhasecastError(
                    f"the variables of '{name}' have different numbers of rows", "give the same number of each"
                )
            before = self._waiting.get(name)
            self._waiting[name] = (
                {v: np.concatenate([before[v], column]) for v, column in fresh.items()} if before else fresh
            )
            waiting = len(next(iter(self._waiting[name].values())))
            self._write(name, waiting - waiting % table.rows_per_chunk)

    def finish(self) -> None:
        """Write the remaining rows as a last, shorter chunk; a table without rows is created too."""
        for name, columns in self._waiting.items():
            self._write(name, len(next(iter(columns.values()))))
        with _every_chunk():
            for name, table in self._layout.items():
                for variable, dimensions in table.variables.items():
                    sizes = [len(table.coordinates.get(dimension, ())) for dimension in dimensions]
                    self._array(name, variable, np.empty((0, *sizes), table.dtype(variable)))

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs: the number of rows on disk, and the rows that wait in memory."""
        waiting = {
            name: {variable: _fixed_width(column) for variable, column in columns.items()}
            for name, columns in self._waiting.items()
        }
        return {"written": dict(self._written), "waiting": waiting}

    def _write(self, name: str, count: int) -> None:
        if count == 0:
            return
        start = self._written[name]
        with _every_chunk():
            for variable, column in self._waiting[name].items():
                array = self._array(name, variable, column)
                array.resize((start + count, *column.shape[1:]))
                array[start : start + count] = column[:count]
                self._waiting[name][variable] = column[count:]
        self._written[name] = start + count

    def _array(self, name: str, variable: str, like: np.ndarray) -> Any:
        """The zarr array of a variable, created with its coordinates when its first rows arrive."""
        table = self._layout[name]
        group = self._root.require_group(name)
        for dimension, labels in table.coordinates.items():
            if dimension not in group:
                group.create_array(
                    dimension, data=_labels(labels), dimension_names=(dimension,), compressors=_compressors()
                )
        if variable in group:
            return group[variable]
        dimensions = (table.grows, *table.variables[variable])
        array = group.create_array(
            variable,
            shape=(0, *like.shape[1:]),
            chunks=(table.rows_per_chunk, *(max(size, 1) for size in like.shape[1:])),
            dtype=like.dtype,
            dimension_names=dimensions,
            compressors=_compressors(),
        )
        if variable in table.meanings:
            array.attrs["long_name"] = table.meanings[variable]
        return array

    def _cut_back(self) -> None:
        """Drop the rows written after the checkpoint, and any node that it had not begun."""
        for name, table in self._layout.items():
            if name not in self._root:
                if self._written[name]:
                    raise LostRows(f"{name} is missing")
                continue
            if self._written[name] == 0:  # in one step: a killed removal must not leave half a node
                gone = self._path.with_name(f".{name.replace('/', '-')}.{os.getpid()}.removed")
                (self._path / name).rename(gone)
                shutil.rmtree(gone, ignore_errors=True)
                continue
            for variable in table.variables:
                if f"{name}/{variable}" not in self._root:
                    raise LostRows(f"{name}/{variable} is missing")
                array: Any = self._root[f"{name}/{variable}"]
                if array.shape[0] < self._written[name]:
                    raise LostRows(f"{name}/{variable} has {array.shape[0]} of {self._written[name]} rows")
                array.resize((self._written[name], *array.shape[1:]))
            for child, array in self._root[name].arrays():  # pyright: ignore[reportAttributeAccessIssue]
                try:
                    integrity.check_rows(self._path, f"{name}/{child}", array.nchunks)
                except integrity.Unsound as loss:
                    raise LostRows(str(loss)) from None


def read(path: Path, run: str = "", seal: Mapping[str, Mapping[str, Any]] | None = None) -> xr.DataTree:
    """The results of a run as a DataTree.

    With the seal of a finished run they are checked now, and chunk by chunk as they are loaded. Those of earlier
    releases have no checksums and are loaded at once, so that what cannot be decoded is noticed here.
    """
    import xarray as xr

    run = run or path.parent.name
    try:
        nodes = integrity.nodes_of(path) if seal is None else integrity.check_seal(path, seal, keep=integrity.KEPT)
        tree = xr.open_datatree(integrity.open_checked(path, run, nodes), engine="zarr", consolidated=False)
        return tree if seal is not None else tree.load()
    except integrity.Unsound as damage:
        raise DamagedRun(run, str(damage)) from None
    except FileNotFoundError:
        raise DamagedRun(run, "results.zarr is missing") from None
    except (StoreError, OSError):
        raise
    except Exception as error:
        raise DamagedRun(run, f"results.zarr cannot be read ({type(error).__name__}: {error})") from error


def check(path: Path, run: str, seal: Mapping[str, Mapping[str, Any]]) -> None:
    """Read every byte of the results of a finished run; what is not as its seal and its checksums say is damaged."""
    try:
        nodes = integrity.check_seal(path, seal, keep=integrity.KEPT)
        for owner, node in nodes.items():
            for chunk in integrity.damaged_chunks(path, node):
                raise integrity.Unsound(f"results.zarr/{chunk} in {owner} does not have its checksum")
    except integrity.Unsound as damage:
        raise DamagedRun(run, str(damage)) from None


def read_so_far(path: Path, state: Mapping[str, Any], layout: Mapping[str, Table] | None = None) -> xr.DataTree:
    """The rows of an unfinished run that a checkpoint counts: those on disk and those that wait in ``state``.

    They are never rewritten, so another process may go on meanwhile. Without the ``layout`` of the recipe, a table that
    has no rows on disk yet gets dimensions named by number.
    """
    import xarray as xr
    import zarr

    run = path.parent.name
    try:
        nodes = integrity.nodes_of(path) if path.is_dir() else {}
        root = zarr.open_group(path, mode="r") if nodes else None
        datasets = {}
        for name, count in state["written"].items():
            columns: dict[str, Any] = {}
            if root is not None and count and name in nodes:
                group: Any = root[name]
                for key, array in group.arrays():
                    dims = tuple(array.metadata.dimension_names)
                    columns[key] = (dims, array[:] if dims == (key,) else array[:count])
            for key, rows in state["waiting"].get(name, {}).items():
                table = None if layout is None else layout.get(name)
                dims = columns[key][0] if key in columns else _dimensions(name, key, rows.ndim, table)
                columns[key] = (dims, np.concatenate([columns[key][1], rows]) if key in columns else rows)
                fixed = {} if table is None else table.coordinates
                columns |= {axis: ((axis,), _labels(fixed[axis])) for axis in dims if axis in fixed}
            datasets[f"/{name}"] = xr.Dataset(columns)
        return xr.DataTree.from_dict(datasets)
    except integrity.Unsound as damage:
        raise DamagedRun(run, str(damage)) from None
    except (StoreError, OSError):
        raise
    except Exception as error:
        raise DamagedRun(run, f"results.zarr cannot be read ({type(error).__name__}: {error})") from error


def _dimensions(name: str, variable: str, count: int, table: Table | None) -> tuple[str, ...]:
    if table is not None and variable in table.variables:
        return (table.grows, *table.variables[variable])
    return (f"{name}-row", *(f"{variable}-{axis}" for axis in range(1, count)))


def _compressors() -> tuple[Any, ...]:
    from zarr.codecs import Crc32cCodec, ZstdCodec

    return ZstdCodec(level=0), Crc32cCodec()


def _every_chunk() -> Any:
    """Write chunks of zeros too; zarr leaves them out otherwise."""
    import zarr

    return zarr.config.set({"array.write_empty_chunks": True})


def _column(name: str, table: Table, variable: str, column: ArrayLike) -> np.ndarray:
    """Rows of one variable in its declared type; a type that cannot hold them is an error of the recipe."""
    array, declared = np.array(column), table.dtype(variable)
    holds = array.dtype.kind in "UT" if declared is _TEXT else np.can_cast(array.dtype, declared, "same_kind")
    if not holds:
        raise PhasecastError(
            f"'{name}/{variable}' is declared {declared} but got {array.dtype}", "change the dtypes of the table"
        )
    return array.astype(declared)


def _fixed_width(column: np.ndarray) -> np.ndarray:
    """A column as a checkpoint can hold it."""
    return np.array(column.tolist(), dtype=np.str_).reshape(column.shape) if column.dtype.kind == "T" else column


def _labels(labels: ArrayLike) -> np.ndarray:
    array = np.asarray(labels)
    return array.astype(_TEXT) if array.dtype.kind == "U" else array
