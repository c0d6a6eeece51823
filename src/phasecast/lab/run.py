"""Runs that survive: drive a recipe chunk by chunk, checkpoint, stop, resume, and never compute twice."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasecast.core.errors import BadInput, PhasecastError, RecipeFailed, RunInterrupted, StoreError
from phasecast.lab import checkpoint, results
from phasecast.lab.files import disk_errors, read_json, write_json
from phasecast.lab.progress import Progress, Silent, show_progress
from phasecast.lab.provenance import provenance
from phasecast.lab.recipe import Conclusion, Recipe, find_recipe
from phasecast.lab.spec import Spec, check_version, make_spec
from phasecast.lab.store import FINISHED, FORMAT, RunFolder, Store, now, run_id

if TYPE_CHECKING:
    import xarray as xr

CHECKPOINT_EVERY = 30.0
"""The longest time between two checkpoints, in seconds."""
SHORTEST_INTERVAL = 1.0
COST_SHARE = 0.02
"""Checkpoints come sooner than CHECKPOINT_EVERY as long as they cost less than this share of the time."""


@dataclass(frozen=True)
class Run:
    """A run in a store."""

    id: str
    store: Store

    @property
    def folder(self) -> RunFolder:
        return self.store.folder(self.id)

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.folder.path

    @property
    def status(self) -> str:
        """``ok``, ``warning`` or ``refused`` once finished; ``running``, ``interrupted`` or ``failed`` before."""
        return self.folder.status()["status"]

    @property
    def recipe(self) -> Recipe:
        return find_recipe(self.folder.spec()["recipe"])

    @property
    def spec(self) -> Spec:
        """What was asked."""
        return make_spec(self.recipe.spec, self.folder.spec()["spec"])

    @property
    def summary(self) -> dict[str, Any]:
        """What was found, in short."""
        return self.folder.status().get("summary") or {}

    def results(self) -> xr.DataTree:
        """The arrays, as an xarray DataTree."""
        if self.status not in FINISHED:
            raise BadInput(f"{self.id} is {self.status}", f"finish it with `phasecast runs resume {self.id}`")
        return results.read(self.folder.results)

    def conclusion(self) -> Conclusion:
        """What the results say, worked out from the arrays again."""
        return self.recipe.conclude(self.spec, self.results())

    def plain(self) -> dict[str, Any]:
        """``{"run", "path", "status", "summary"}``."""
        return {"run": self.id, "path": str(self.path), "status": self.status, "summary": self.summary}

    def __str__(self) -> str:
        status = self.folder.status()
        return f"{self.id}: {status['status']}. {(status.get('summary') or {}).get('sentence', '')}".rstrip()


def run(
    recipe: str,
    spec: Mapping[str, Any] | Spec | None = None,
    *,
    store: Store | str | Path | None = None,
    checkpoint_every: float = CHECKPOINT_EVERY,
    quiet: bool = False,
) -> Run:
    """Run a recipe, or return the run if the store has it finished, or go on with it if it was interrupted.

    Parameters
    ----------
    recipe: a name from ``phasecast recipes``, or ``package.module:RECIPE``.
    spec: values that differ from the recipe's defaults.
    store: a folder; by default ``$PHASECAST_STORE`` or ``phasecast-runs``.
    checkpoint_every: the longest time between checkpoints, in seconds.
    """
    found = find_recipe(recipe)
    checked = spec if isinstance(spec, found.spec) else make_spec(found.spec, dict(spec or {}))
    place = store if isinstance(store, Store) else Store(store)
    with show_progress(found.name, quiet=quiet) as progress:
        return execute(found, checked, place, progress=progress, checkpoint_every=checkpoint_every)


def resume(
    run: str,
    *,
    store: Store | str | Path | None = None,
    checkpoint_every: float = CHECKPOINT_EVERY,
    quiet: bool = False,
) -> Run:
    """Go on with an interrupted, killed or failed run; a finished one is returned as it is."""
    place = store if isinstance(store, Store) else Store(store)
    folder = place.folder(place.find(run))
    if folder.status()["status"] in FINISHED:
        return Run(folder.id, place)
    asked = folder.spec()
    recipe = find_recipe(asked["recipe"])
    check_version(f"run {folder.id} of recipe '{recipe.name}'", asked["recipe_version"], recipe.version)
    spec = make_spec(recipe.spec, asked["spec"])
    if identify(recipe, spec) != folder.id:
        raise BadInput(
            f"the recipe, code or data behind {folder.id} changed since it was started",
            "start a new run with `phasecast run`, or undo the change",
        )
    with show_progress(recipe.name, quiet=quiet) as progress:
        return execute(recipe, spec, place, progress=progress, checkpoint_every=checkpoint_every)


def load(run: str, *, store: Store | str | Path | None = None) -> Run:
    """A run of the store, by its id or the beginning of it."""
    place = store if isinstance(store, Store) else Store(store)
    return Run(place.find(run), place)


def identify(recipe: Recipe, spec: Spec) -> str:
    """The id of the run of this recipe with this spec, and with the user's code and data as they are now."""
    return run_id(recipe.name, recipe.version, spec.model_dump(mode="json"), _contents(recipe, spec))


def execute(
    recipe: Recipe,
    spec: Spec,
    store: Store,
    *,
    progress: Progress | None = None,
    checkpoint_every: float = CHECKPOINT_EVERY,
) -> Run:
    """Compute a run to its end, from its newest checkpoint if it has one; wait if another process is at it."""
    progress = progress or Silent()
    contents = _contents(recipe, spec)
    asked = {
        "format": FORMAT,
        "recipe": recipe.name,
        "recipe_version": recipe.version,
        "spec": spec.model_dump(mode="json"),
        "contents": contents,
    }
    identity = run_id(recipe.name, recipe.version, asked["spec"], contents)
    store.prepare()
    folder = store.folder(identity)
    with disk_errors(store.path):
        folder.path.mkdir(exist_ok=True)

    def waiting() -> None:
        progress.say(f"{identity} is being computed by another process; waiting for it")

    with folder.lock(on_wait=waiting):
        if _finished(folder):
            return Run(identity, store)
        with disk_errors(folder.path):
            write_json(folder.path / "spec.json", asked)
        _Driver(recipe, spec, folder, progress, checkpoint_every).drive()
    return Run(identity, store)


class _Driver:
    """One attempt at one run, by the process that holds its lock."""

    def __init__(self, recipe: Recipe, spec: Spec, folder: RunFolder, progress: Progress, checkpoint_every: float):
        self.recipe, self.spec, self.folder, self.progress = recipe, spec, folder, progress
        self.checkpoint_every = checkpoint_every
        self.start = (time.monotonic(), time.process_time())
        before: dict[str, Any] = {}
        with contextlib.suppress(StoreError):
            before = read_json(folder.path / "status.json")
        self.status: dict[str, Any] = {
            "format": FORMAT,
            "run": folder.id,
            "recipe": recipe.name,
            "recipe_version": recipe.version,
            "status": "running",
            "done": 0,
            "total": None,
            "attempts": int(before.get("attempts", 0)) + 1,
            "created": before.get("created") or now(),
            "host": platform.node(),
            "pid": os.getpid(),
            "wall_seconds": 0.0,
            "cpu_seconds": 0.0,
            "provenance": provenance(spec.seed),
            "summary": None,
        }

    def drive(self) -> None:
        with disk_errors(self.folder.path):
            self.number, saved, notes = checkpoint.load_newest(self.folder.checkpoints)
        self.spent = (saved["wall_seconds"], saved["cpu_seconds"]) if saved else (0.0, 0.0)
        self._write("running")
        self.folder.log("started", attempt=self.status["attempts"], checkpoint=self.number, notes=notes)
        for note in notes:
            self.progress.say(note)
        try:
            with disk_errors(self.folder.path):
                self.writer = results.ResultsWriter(
                    self.folder.results, self.recipe.layout(self.spec), saved["results"] if saved else None
                )
            self._work(saved["recipe"] if saved else None)
            self._conclude()
        except PhasecastError as error:
            self._fail(error)
            raise
        except Exception as error:
            self._fail(error)
            raise RecipeFailed(
                f"{self.recipe.name} failed with {type(error).__name__}: {error}",
                f"the traceback is in {self.folder.path / 'log.jsonl'}; --debug shows it",
            ) from error

    def _work(self, state: Any) -> None:
        last, interval = time.monotonic(), min(self.checkpoint_every, SHORTEST_INTERVAL)
        with _stop_signals() as stop:
            for chunk in self.recipe.work(self.spec, state):
                with disk_errors(self.folder.path):
                    self.writer.append(chunk.rows)
                self.status["done"], self.status["total"] = chunk.done, chunk.total
                self.progress.update(chunk.done, chunk.total, chunk.metric)
                if chunk.done >= chunk.total:
                    continue  # nothing is left that a checkpoint could save
                if stop.is_set() or time.monotonic() - last >= interval:
                    began = time.monotonic()
                    self._checkpoint(chunk.state)
                    last = time.monotonic()
                    interval = min(self.checkpoint_every, max(SHORTEST_INTERVAL, (last - began) / COST_SHARE))
                if stop.is_set():
                    self._write("interrupted")
                    self.folder.log("interrupted", done=chunk.done, total=chunk.total)
                    raise RunInterrupted(
                        f"{self.folder.id} stopped at {chunk.done} of {chunk.total}; "
                        f"go on with `phasecast runs resume {self.folder.id}`"
                    )

    def _checkpoint(self, state: Any) -> None:
        self.number += 1
        wall, cpu = self._clock()
        with disk_errors(self.folder.path):
            checkpoint.save(
                self.folder.checkpoints,
                self.number,
                {"recipe": state, "results": self.writer.state(), "wall_seconds": wall, "cpu_seconds": cpu},
            )
        self._write("running")

    def _conclude(self) -> None:
        with disk_errors(self.folder.path):
            self.writer.finish()
        conclusion = self.recipe.conclude(self.spec, results.read(self.folder.results))
        self.status["summary"] = conclusion.summary()
        self._write(str(conclusion.status), durable=True)
        self.folder.log("finished", status=str(conclusion.status))

    def _fail(self, error: Exception) -> None:
        self.status["error"] = f"{type(error).__name__}: {error}"
        with contextlib.suppress(PhasecastError, OSError):  # a full disk cannot take this note either
            self._write("failed")
            self.folder.log("failed", error=str(error), traceback=traceback.format_exc())

    def _clock(self) -> tuple[float, float]:
        return (
            self.spent[0] + time.monotonic() - self.start[0],
            self.spent[1] + time.process_time() - self.start[1],
        )

    def _write(self, status: str, *, durable: bool = False) -> None:
        wall, cpu = self._clock()
        self.status |= {"status": status, "wall_seconds": round(wall, 3), "cpu_seconds": round(cpu, 3)}
        self.folder.write_status(self.status, durable=durable)


@contextlib.contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets; a second Ctrl-C stops at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(number: int, frame: Any) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _contents(recipe: Recipe, spec: Spec) -> dict[str, str]:
    contents = spec.contents()
    source = recipe.source_print()
    return contents if source is None else {**contents, "recipe": source}


def _finished(folder: RunFolder) -> bool:
    with contextlib.suppress(StoreError):
        return read_json(folder.path / "status.json")["status"] in FINISHED
    return False
