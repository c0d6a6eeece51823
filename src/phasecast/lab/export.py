"""The arrays of a run for other programs: NetCDF with a group a table, or CSV with a file a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from phasecast.core.errors import BadInput
from phasecast.lab.files import disk_errors, replacing
from phasecast.lab.runs import Run

if TYPE_CHECKING:
    import xarray as xr


def export(run: Run, to: Path) -> list[Path]:
    """Write the results of a finished run to ``to``, a ``.nc`` or ``.csv`` path; the files written."""
    if to.suffix not in (".nc", ".csv"):
        raise BadInput(f"'{to.name}' is neither NetCDF nor CSV", "end the name in .nc or .csv")
    if not to.absolute().parent.is_dir():
        raise BadInput(f"there is no folder {to.absolute().parent}", "make it first")
    tree = run.results().copy()
    tree.attrs = {**tree.attrs, "run": run.id, "spec": json.dumps(run.folder.spec(), ensure_ascii=False)}
    with disk_errors(to):
        if to.suffix == ".nc":
            with replacing(to) as partial:
                _plain_strings(tree).to_netcdf(partial, engine="h5netcdf")
            return [to]
        written = []
        for name, node in tree.children.items():
            path = to.with_name(f"{to.stem}-{name}.csv")
            with replacing(path) as partial:
                _plain_strings(node).to_dataset().to_dataframe().to_csv(partial)
            written.append(path)
        return written


def _plain_strings(tree: xr.DataTree) -> xr.DataTree:
    """Labels as ordinary strings; NetCDF and pandas do not know numpy's new string type."""

    def convert(dataset: xr.Dataset) -> xr.Dataset:
        labels = {
            name: (coordinate.dims, coordinate.values.astype(object))
            for name, coordinate in dataset.coords.items()
            if coordinate.dtype.kind == "T"
        }
        return dataset.assign_coords(labels)

    return tree.map_over_datasets(convert)
