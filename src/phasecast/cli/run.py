"""``phasecast run``, ``sweep``, ``demo`` and ``arena``: one run of a recipe or many, here or on a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from phasecast.cli.options import Computing, Stored, Words
from phasecast.cli.output import clip, emit, exit_code, interruption_as_json, table

if TYPE_CHECKING:
    from phasecast.lab import Run, Sweep
    from phasecast.lab.engines import Engine
    from phasecast.lab.recipe import Row

Recipe = Annotated[str, Parameter(help='a recipe, package.module:RECIPE, or a TOML file with recipe = "…" and [set]')]
Settings = Annotated[
    Words,
    Parameter(
        name="--set", help="key=value …, fields that differ from their defaults; `phasecast recipes NAME` lists them"
    ),
]


def run(recipe: Recipe, /, *, settings: Settings = None, options: Computing = Computing()) -> int:
    pin_threads(options.threads)
    from phasecast.core.errors import BadInput
    from phasecast.lab import run as compute

    plan = planned_runs(recipe, settings)
    if len(plan.specs) != 1:
        raise BadInput(f"{recipe} describes {len(plan.specs)} runs", "use `phasecast sweep`")
    with interruption_as_json(options):
        finished = compute(plan.recipe, plan.specs[0], store=options.store, checkpoint_every=options.checkpoint_every)
    return emit_run(finished, options)


@Parameter(name="*")
@dataclass(frozen=True)
class Axes:
    """What a sweep varies."""

    grid: Annotated[Words, Parameter(help="key=value,value …, every combination")] = None
    zipped: Annotated[
        Words, Parameter(name="--zip", help="key=value,value …, first with first, second with second")
    ] = None
    seeds: Annotated[str | None, Parameter(help="how many seeds, or a list like 3,5,8")] = None


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
    content = swept.plain()
    lines = [swept_table(content["runs"])] if content["runs"] else []
    lines += [f"failed  {error}" for error in swept.errors]
    lines += [f"{swept.id}: {len(swept.runs)} of {len(plan.specs)} runs finished"]
    lines += [f"`phasecast report {swept.id}` writes a page"]
    emit(content, "\n".join(lines), options)
    return exit_code("failed") if swept.errors else 0  # a run that refuses an answer has finished all the same


def demo(*, options: Stored = Stored()) -> int:
    from phasecast.demonstration import demo as compute
    from phasecast.lab import Store, load

    with interruption_as_json(options):
        path = compute(store=options.store, quiet=options.quiet)
    run = load(path.parent.name, store=Store.of(options.store))
    lines = [] if options.json else [run.summary["sentence"], "", *run_lines(run), ""]
    emit({"report": str(path), **run.plain()}, "\n".join([*lines, f"report: {path}"]), options)
    return exit_code(run.status)


@Parameter(name="*")
@dataclass(frozen=True)
class Problems:
    """Which problems the arena draws."""

    seed: Annotated[int, Parameter(help="draws every problem and seeds every sampler")] = 0
    quick: Annotated[bool, Parameter(negative=(), help="a few problems of each family, the first of the full run")] = (
        False
    )
    family: Annotated[Words, Parameter(help="NAME …, families or areas such as llc; defaults to all")] = None
    problem: Annotated[int | None, Parameter(help="this problem of each family only")] = None


def arena(*, problems: Problems = Problems(), options: Computing = Computing()) -> int:
    pin_threads(options.threads)
    from phasecast.lab import run as compute
    from phasecast.studies.arena.study import record

    drawn = {"seed": problems.seed, "quick": problems.quick, "problem": problems.problem}
    chosen = {} if problems.family is None else {"families": problems.family}
    with interruption_as_json(options):
        finished = compute("arena", {**drawn, **chosen}, store=options.store, checkpoint_every=options.checkpoint_every)
    found = record(finished)
    text = f"{found}\n`phasecast report {finished.id}` writes a page with the figures"
    emit(found.plain(), text, options)
    return 0


def _check(where: Where, options: Computing) -> None:
    from phasecast.core.errors import BadInput

    if where.engine == "local" and (where.address or where.cluster):
        raise BadInput("--address and --cluster need the dask engine", "add --engine dask")
    if where.workers is not None and (where.address or where.cluster):
        raise BadInput("--workers counts processes on this machine", "leave it out with --address and --cluster")
    if where.engine == "dask" and options.threads is not None:
        raise BadInput("--threads needs the local engine", "start dask workers with one thread each")


def _engine(where: Where, threads: int | None) -> Engine:
    if where.engine == "local":
        from phasecast.lab.engines.local import LocalEngine

        return LocalEngine(where.workers, 1 if threads is None else threads)
    from phasecast.lab.engines.dask import DaskEngine, read_cluster

    return DaskEngine(where.address, read_cluster(where.cluster) if where.cluster else None, where.workers)


def planned_runs(recipe: str, settings: Sequence[str] | None, axes: Axes = Axes()) -> Sweep:
    """The runs that a command line describes, by the name of a recipe or by a TOML file."""
    from phasecast.core.errors import BadInput
    from phasecast.lab import find_recipe, make_sweep, read_sweep
    from phasecast.lab.spec import parse_assignments, parse_axes

    if recipe.endswith(".toml"):
        if settings or axes != Axes():
            raise BadInput("a TOML file cannot be combined with other settings", "put them in the file")
        return read_sweep(Path(recipe))
    spec = find_recipe(recipe).spec
    return make_sweep(
        recipe,
        parse_assignments(spec, settings or ()),
        grid=parse_axes(spec, axes.grid or ()),
        zipped=parse_axes(spec, axes.zipped or ()),
        seeds=_seeds(axes.seeds),
    )


def pin_threads(threads: int | None) -> None:
    """Keep this process to some cores; must be called before JAX starts its threads."""
    from phasecast.core.bounds import check_bounds
    from phasecast.core.errors import BadInput

    if threads is None:
        return
    if threads < 1:
        raise BadInput(f"--threads is {threads}", "use at least 1")
    check_bounds(threads=threads)
    from phasecast.lab.provenance import pin_threads

    pin_threads(threads)


def emit_run(run: Run, options: Computing) -> int:
    """Print what a run concluded, and return the exit code of its status."""
    lines = [] if options.json else [*run_lines(run), "", run.summary["sentence"], ""]
    lines += [f"{run.id}: {run.status}", f"  {run.path}", f"  `phasecast report {run.id}` writes a page"]
    emit(run.plain(), "\n".join(lines), options)
    return exit_code(run.status)


def run_lines(run: Run) -> list[str]:
    """The answers of a run, the first forecast beside what it was about."""
    from phasecast.lab.forecasts.archive import kept
    from phasecast.report.forecasts import beside_forecasts

    return answer_lines(beside_forecasts(run.conclusion().rows(), kept(run.folder)))


def answer_lines(rows: Sequence[Row]) -> list[str]:
    """Answers as a table, and the reasons of those that are refused or have a warning below it."""
    reasons = [
        f"{row.name} is {row.measurement.status}: {reason}"
        for row in rows
        if row.measurement
        for reason in row.measurement.reasons
    ]
    answers = table(
        ("quantity", "predicted", "measured", "verdict"),
        [(row.name, row.predicted, row.measured, row.verdict) for row in rows],
    )
    return [answers, *(["", *reasons] if reasons else [])]


def swept_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The runs of a sweep: what was varied, how each ended, and its key answer."""
    return table(
        ("varied", "status", "key answer", "run"),
        [(field_words(row["varied"]), row["status"], clip(row["key"], 48), row["run"]) for row in rows],
    )


def field_words(values: Mapping[str, Any]) -> str:
    """Fields of a spec with their values, in one cell of a table."""
    from phasecast.lab.overview.listed_runs import value_in_words

    return clip(" ".join(f"{name}={clip(value_in_words(value), 32)}" for name, value in values.items()), 72)


def _seeds(text: str | None) -> int | list[int] | None:
    from phasecast.core.errors import BadInput

    if text is None:
        return None
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"invalid --seeds '{text[:40]}'", "give how many, or a list like 3,5,8") from None
    return numbers if "," in text else numbers[0]
