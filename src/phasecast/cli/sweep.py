"""``phasecast sweep``: many runs of one recipe, on this machine or on a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from phasecast.cli.options import Computing
from phasecast.cli.output import emit, exit_code
from phasecast.cli.run import Axes, Recipe, Settings, planned_runs

if TYPE_CHECKING:
    from phasecast.lab.engines import Engine


@Parameter(name="*")
@dataclass(frozen=True)
class Where:
    """Where the runs of a sweep are computed."""

    engine: Annotated[Literal["local", "dask"], Parameter(help="processes on this machine, or dask")] = "local"
    workers: Annotated[int | None, Parameter(help="processes on this machine; defaults to one per core")] = None
    address: Annotated[str | None, Parameter(help="dask scheduler, tcp://host:port")] = None
    cluster: Annotated[Path | None, Parameter(help="TOML file with a [slurm] table, for the dask engine")] = None


def sweep(
    recipe: Recipe,
    /,
    *,
    settings: Settings = None,
    axes: Axes = Axes(),
    where: Where = Where(),
    options: Computing = Computing(),
) -> int:
    from phasecast.lab import sweep as compute

    _check(where, options)
    plan = planned_runs(recipe, settings, axes)
    engine = _engine(where, options.threads)
    swept = compute(plan, engine=engine, store=options.store, checkpoint_every=options.checkpoint_every)
    lines = [f"{run.id}  {run.status}" for run in swept.runs]
    lines += [f"failed  {error}" for error in swept.errors]
    lines += [f"{swept.id}: {len(swept.runs)} of {len(plan.specs)} runs finished"]
    lines += [f"`phasecast report {swept.id}` writes a page"]
    emit(swept.plain(), "\n".join(lines), options)
    return exit_code(swept.status)


def _check(where: Where, options: Computing) -> None:
    from phasecast.core.errors import BadInput

    if where.engine == "local" and (where.address or where.cluster):
        raise BadInput("--address and --cluster need the dask engine", "add --engine dask")
    if where.engine == "dask" and options.threads is not None:
        raise BadInput("--threads needs the local engine", "start dask workers with one thread each")


def _engine(where: Where, threads: int | None) -> Engine:
    if where.engine == "local":
        from phasecast.lab.engines.local import LocalEngine

        return LocalEngine(where.workers, 1 if threads is None else threads)
    from phasecast.lab.engines.dask import DaskEngine, read_cluster

    return DaskEngine(where.address, read_cluster(where.cluster) if where.cluster else None, where.workers)
