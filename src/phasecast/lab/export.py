"""How do other programs read a run? NetCDF with one group per table, CSV per table, safetensors per checkpoint."""

from __future__ import annotations

import json
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.lab.files import disk_errors, replacing
from phasecast.lab.runs import Run

if TYPE_CHECKING:
    import xarray as xr

WEIGHTS = "weights."  # prefix of the columns with parameters in a table of checkpoints


def export(run: Run, to: Path) -> list[Path]:
    """Write the results of a finished run to ``to``, a .nc, .csv or .safetensors path; the files written."""
    if to.suffix not in (".nc", ".csv", ".safetensors"):
        raise BadInput(f"unknown format of '{to.name}'", "end in .nc, .csv or .safetensors")
    if not to.absolute().parent.is_dir():
        raise BadInput(f"there is no folder {to.absolute().parent}", "create it first")
    tree = run.results().copy()
    run.check()  # before anything is written
    tree.attrs = {**tree.attrs, "run": run.id, "spec": json.dumps(run.folder.spec(), ensure_ascii=False)}
    with disk_errors(to):
        if to.suffix == ".nc":
            with replacing(to) as partial:
                _plain_strings(tree).to_netcdf(partial, engine="h5netcdf")
            return [to]
        if to.suffix == ".safetensors":
            return _weights(tree, to, {"run": run.id, "recipe": str(run.folder.spec()["recipe"])})
        written = []
        for name, node in sorted(tree.children.items()):  # folders are listed in any order
            table = _plain_strings(node).to_dataset()
            for extra, columns in _together(table):
                path = to.with_name(f"{to.stem}-{name}{extra}.csv")
                with replacing(path) as partial:
                    table[columns].to_dataframe().to_csv(partial)
                written.append(path)
        return written


def _together(table: xr.Dataset) -> list[tuple[str, list[Hashable]]]:
    """Columns that share a file, with the end of its name: all, unless their arrays have axes of different kinds."""
    shapes: dict[tuple[Hashable, ...], list[Hashable]] = {}
    names = sorted(table.data_vars, key=str)  # arrays are folders too
    for column in names:
        shapes.setdefault(table[column].dims, []).append(column)
    if any(set(dims) == set(table.sizes) for dims in shapes):
        return [("", names)]
    return [("" if len(dims) <= 1 else f"-{columns[0]}", columns) for dims, columns in shapes.items()]


def _weights(tree: xr.DataTree, to: Path, origin: dict[str, str]) -> list[Path]:
    """One file per row of the table ``checkpoints``, with the step in its name; ``origin`` and step are metadata."""
    from safetensors.numpy import save_file

    table = tree["checkpoints"].to_dataset() if "checkpoints" in tree.children else None
    names = [] if table is None else [str(name) for name in table.data_vars if str(name).startswith(WEIGHTS)]
    if table is None or not names:
        raise BadInput("this run has no weights", "export it as .nc or .csv")
    written = []
    for place, step in enumerate(table["step"].values):
        path = to.with_name(f"{to.stem}-{int(step):08d}.safetensors")
        arrays = {name.removeprefix(WEIGHTS): np.ascontiguousarray(table[name].values[place]) for name in names}
        with replacing(path) as partial:
            save_file(arrays, partial, metadata={**origin, "step": str(int(step))})
        written.append(path)
    return written


def _plain_strings(tree: xr.DataTree) -> xr.DataTree:
    """Text as Python strings: NetCDF and pandas do not support numpy's variable-length string type."""

    def convert(dataset: xr.Dataset) -> xr.Dataset:
        texts = {
            name: (array.dims, array.values.astype(object))
            for name, array in dataset.variables.items()
            if array.dtype.kind == "T"
        }
        return dataset.assign({name: text for name, text in texts.items() if name in dataset.data_vars}).assign_coords(
            {name: text for name, text in texts.items() if name in dataset.coords}
        )

    return tree.map_over_datasets(convert)
