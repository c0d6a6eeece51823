"""How is a recipe run many times? A sweep: a grid, zipped values and seeds, from Python, TOML or the command line.

A sweep file is TOML::

    recipe = "toy-landscapes"
    seeds = 5                     # or a list of seeds
    [set]
    blocks = 32
    [grid]                        # every combination
    samples = [10000, 20000]
    [zip]                         # first with first, second with second
    radius = [0.25, 0.5]
    nodes = [256, 512]
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import shutil
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phasecast.core.errors import BadInput, PhasecastError, StoreError, unknown
from phasecast.lab.engines import Engine, Outcome, RunTask
from phasecast.lab.engines.local import LocalEngine
from phasecast.lab.files import disk_errors, read_json, refuse_links, write_json
from phasecast.lab.overview.listed_runs import ListedRun, list_runs
from phasecast.lab.overview.stored_answers import key_number
from phasecast.lab.recipe import Recipe, find_recipe
from phasecast.lab.records import SweepRecord, check_id, check_record
from phasecast.lab.runs import Run, identify, is_finished
from phasecast.lab.spec import Spec, check_fields, check_version, make_spec, read_toml
from phasecast.lab.store import FINISHED, RunFolder, Store
from phasecast.progress import show_progress

MOST_RUNS = 100_000  # chosen: a sweep of more is a typing error rather than a plan
FOLDER = "sweeps"  # in the store, one folder per sweep
FORMAT = 1  # of sweep.json; see docs/versions.md
_KEYS = ("recipe", "version", "seeds", "set", "grid", "zip")


@dataclass(frozen=True)
class Sweep:
    """A recipe and the specs to run it with."""

    recipe: Recipe
    specs: tuple[Spec, ...]
    varied: tuple[str, ...]

    def ids(self) -> list[str]:
        """The ids of the runs, in order."""
        return [identify(self.recipe, spec) for spec in self.specs]


def make_sweep(
    recipe: str,
    fixed: Mapping[str, Any] | None = None,
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    zipped: Mapping[str, Sequence[Any]] | None = None,
    seeds: int | Sequence[int] | None = None,
) -> Sweep:
    """The runs of a sweep: every point of ``grid`` with every step of ``zipped`` and every seed."""
    chosen = find_recipe(recipe)
    fixed, grid, zipped = dict(fixed or {}), dict(grid or {}), dict(zipped or {})
    seed_list = _seeds(seeds)
    axes = [*grid, *zipped, *(["seed"] if seed_list else [])]
    check_fields(chosen.spec, [*fixed, *axes])
    twice = [name for name in {*fixed, *axes} if [*fixed, *axes].count(name) > 1]
    if twice:
        raise BadInput(f"'{sorted(twice)[0]}' is given twice", "set it, or vary it once")
    for name, values in {**grid, **zipped}.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise BadInput(f"'{name}' has no list of values", f"give {name} = [first, second, …]")
    if len({len(values) for values in zipped.values()}) > 1:
        lengths = ", ".join(f"{name} has {len(values)}" for name, values in zipped.items())
        raise BadInput(f"zipped fields must have equally many values, but {lengths}", "give the same number for each")
    steps = [dict(zip(zipped, values, strict=True)) for values in zip(*zipped.values(), strict=True)] or [{}]
    seeded = [{"seed": seed} for seed in seed_list] or [{}]
    if math.prod(map(len, grid.values())) * len(steps) * len(seeded) > MOST_RUNS:
        raise BadInput(f"this sweep has more than {MOST_RUNS} runs", "vary fewer values at a time")
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    specs = [
        make_spec(chosen.spec, {**fixed, **point, **step, **seed})
        for point in points
        for step in steps
        for seed in seeded
    ]
    return Sweep(chosen, tuple({spec.model_dump_json(): spec for spec in specs}.values()), tuple(axes))


def read_sweep(path: Path) -> Sweep:
    """The sweep that a TOML file describes."""
    tables = read_toml(path)
    for key in tables:
        if key not in _KEYS:
            raise unknown(f"key in {path.name}", key, _KEYS)
    if not isinstance(tables.get("recipe"), str):
        raise BadInput(f"{path.name} names no recipe", 'start with recipe = "…"')
    for key in ("set", "grid", "zip"):
        if not isinstance(tables.get(key, {}), dict):
            raise BadInput(f"'{key}' in {path.name} is not a table", f"write [{key}] and fields below it")
    if "version" in tables:
        check_version(f"the spec in {path.name}", tables["version"], find_recipe(tables["recipe"]).version)
    return make_sweep(
        tables["recipe"],
        tables.get("set"),
        grid=tables.get("grid"),
        zipped=tables.get("zip"),
        seeds=tables.get("seeds"),
    )


@dataclass(frozen=True)
class Swept:
    """A computed sweep: its id, the runs that finished, and the errors of the others."""

    id: str
    store: Store
    runs: tuple[Run, ...]
    errors: tuple[str, ...]
    varied: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """``failed`` if a run failed, else the worst status of the runs."""
        if self.errors:
            return "failed"
        statuses = {run.status for run in self.runs}
        return next((status for status in ("refused", "warning") if status in statuses), "ok")

    def plain(self) -> dict[str, Any]:
        """``{"sweep", "status", "runs", "errors"}``; each run with its varied values and its key answer."""
        runs = []
        for run in self.runs:
            status, spec = run.folder.status(), run.folder.read_spec()["spec"]
            runs.append(
                {
                    "run": run.id,
                    "path": str(run.path),
                    "status": status["status"],
                    "varied": {name: spec.get(name) for name in self.varied},
                    "key": key_number(status.get("summary") or {}),
                }
            )
        return {"sweep": self.id, "status": self.status, "runs": runs, "errors": list(self.errors)}


def sweep(  # wide signature: the fields of a sweep beside those of run(), both documented API
    recipe: str | Sweep,
    fixed: Mapping[str, Any] | None = None,
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    zipped: Mapping[str, Sequence[Any]] | None = None,
    seeds: int | Sequence[int] | None = None,
    engine: Engine | None = None,
    store: Store | str | Path | None = None,
    checkpoint_every: float | None = None,
    quiet: bool = False,
) -> Swept:
    """Compute the runs of a sweep that the store does not have; by default on all cores of this machine.

    Parameters
    ----------
    recipe: a recipe's name with the fields below, or a whole :class:`Sweep`, as :func:`read_sweep` returns it.
    fixed: values for all runs.
    grid, zipped, seeds: what varies; see :func:`make_sweep`.
    engine: a ``LocalEngine`` or a ``phasecast.lab.engines.dask.DaskEngine``.
    """
    planned = recipe if isinstance(recipe, Sweep) else make_sweep(recipe, fixed, grid=grid, zipped=zipped, seeds=seeds)
    place = Store.of(store)
    ids = planned.ids()
    identity = _remember(planned, ids, place)
    tasks = [
        RunTask(index, planned.recipe.name, spec.model_dump(mode="json"), str(place.path), checkpoint_every)
        for index, spec in enumerate(planned.specs)
    ]
    runs: list[Run] = []
    errors: list[str] = []
    name = f"{planned.recipe.name} × {len(tasks)}"
    for outcome in compute_tasks(tasks, ids, name, engine=engine, quiet=quiet):
        if outcome.run is None:
            varied = {name: outcome.task.spec[name] for name in planned.varied}
            errors.append(f"{varied}: {outcome.error}")
        else:
            runs.append(Run(outcome.run, place, allow_code=True))
    return Swept(identity, place, tuple(runs), tuple(errors), planned.varied)


def compute_tasks(
    tasks: Sequence[RunTask], runs: Sequence[str], name: str, *, engine: Engine | None = None, quiet: bool = False
) -> list[Outcome]:
    """What becomes of each task, in their order; shows progress, and SIGTERM stops it like Ctrl-C.

    runs: the run id of each task; no worker is started for those that the store has.
    """
    outcomes: dict[int, Outcome] = {}
    with show_progress(name, quiet=quiet) as progress, _sigterm_is_ctrl_c():
        progress.update(0, len(tasks))
        for outcome in _outcomes(tasks, runs, engine or LocalEngine()):
            outcomes[outcome.task.index] = outcome
            progress.update(len(outcomes), len(tasks))
    return [outcomes[index] for index in sorted(outcomes)]


def _outcomes(tasks: Sequence[RunTask], runs: Sequence[str], engine: Engine) -> Iterator[Outcome]:
    """Those of finished runs at once, then those that the engine computes."""
    left = []
    for task, run in zip(tasks, runs, strict=True):
        if _is_stored(Store(task.store).folder(run)):
            yield Outcome(task, run)
        else:
            left.append(task)
    if left:
        yield from engine(left)


def _is_stored(folder: RunFolder) -> bool:
    with contextlib.suppress(PhasecastError):  # what is wrong with a damaged run is said by who computes it
        return is_finished(folder)
    return False


@contextlib.contextmanager
def _sigterm_is_ctrl_c() -> Iterator[None]:
    """Let a queue's SIGTERM stop the tasks like Ctrl-C, so that no worker is left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; run the same command again to continue") from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _remember(sweep: Sweep, runs: Sequence[str], store: Store) -> str:
    """Store which runs belong together; the id of the sweep, which `phasecast report` takes."""
    digest = hashlib.sha256(json.dumps(runs).encode()).hexdigest()[:12]
    identity = f"sweep-{digest}"
    store.prepare()
    folder = _folder(identity, store)
    with disk_errors(store.path):
        folder.mkdir(parents=True, exist_ok=True)
        write_json(
            folder / "sweep.json",
            {"format": FORMAT, "sweep": identity, "recipe": sweep.recipe.name, "varied": sweep.varied, "runs": runs},
        )
    return identity


def recall(identity: str, store: Store, *, allow_code: bool = False) -> tuple[dict[str, Any], list[Run]]:
    """A stored sweep by its id or the beginning of it: the content of ``sweep.json``, and its runs."""
    name = find_sweep(identity, store)
    path = _folder(name, store) / "sweep.json"
    facts = check_record(SweepRecord, read_json(path), path)
    check_version(f"sweep {name}", facts["format"], FORMAT)
    if facts["sweep"] != name:
        raise StoreError(f"{path} is that of another sweep, {facts['sweep']}", "remove the folder")
    return facts, [Run(run, store, allow_code=allow_code) for run in facts["runs"]]


def find_sweep(identity: str, store: Store) -> str:
    """The id of a stored sweep, from its beginning."""
    names = _names(store)
    matches = [name for name in names if name.startswith(identity)]
    if len(matches) != 1:
        raise unknown("sweep", identity, names)
    return matches[0]


def list_sweeps(store: Store, listed: Sequence[ListedRun] | None = None) -> list[dict[str, Any]]:
    """The sweeps of a store: id, recipe, what varies over which values, how many runs, how many of them finished.

    ``listed`` are the runs of the store if they are known already.
    """
    names = _names(store)
    known = {run.run: run for run in (list_runs(store) if listed is None and names else listed or ())}
    rows = []
    for name in names:
        with contextlib.suppress(BadInput):  # a damaged or newer file does not stop the list
            facts, runs = recall(name, store)
            members = [known[run.id] for run in runs if run.id in known]
            rows.append(
                {
                    "sweep": name,
                    "recipe": facts["recipe"],
                    "varied": facts["varied"],
                    "values": swept_values(facts["varied"], [member.spec for member in members]),
                    "runs": len(runs),
                    "finished": sum(member.status in FINISHED for member in members),
                }
            )
    return rows


def swept_values(varied: Sequence[str], specs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The values of each varied field over the specs that have been started, in their order."""
    values: dict[str, dict[str, Any]] = {name: {} for name in varied}
    for spec in specs:
        for name in varied:
            if name in spec:
                values[name].setdefault(json.dumps(spec[name]), spec[name])
    return {name: list(different.values()) for name, different in values.items()}


def remove_sweep(identity: str, store: Store) -> None:
    """Delete the record and the page of a sweep; its runs stay."""
    folder = _folder(find_sweep(identity, store), store)
    with disk_errors(folder):
        shutil.rmtree(folder)


def _folder(identity: str, store: Store) -> Path:
    """The folder of a sweep; links in its place are refused."""
    folder = store.path / FOLDER / check_id(identity)
    for place in (folder.parent, folder, folder / "figures"):
        refuse_links(place, folder=True)
    return folder


def _names(store: Store) -> list[str]:
    refuse_links(store.path / FOLDER, folder=True)
    return sorted(path.parent.name for path in (store.path / FOLDER).glob("sweep-*/sweep.json"))


def _seeds(seeds: int | Sequence[int] | None) -> list[int]:
    if seeds is None:
        return []
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        if not 1 <= seeds <= MOST_RUNS:
            raise BadInput(f"seeds is {seeds}", f"use at least 1 and at most {MOST_RUNS}")
        return list(range(seeds))
    if isinstance(seeds, Sequence) and not isinstance(seeds, str) and all(type(seed) is int for seed in seeds):
        return list(seeds)
    raise BadInput(f"seeds is {seeds!r}", "give how many, or a list of integers")
