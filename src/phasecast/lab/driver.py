"""How is a run computed? One attempt: drive its recipe chunk by chunk, write checkpoints, stop on request, conclude."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from phasecast.core.errors import BadInput, PhasecastError, RecipeFailed, RunInterrupted, StoreError
from phasecast.core.results import Status
from phasecast.core.types import PyTree
from phasecast.lab import checkpoint, integrity, tables
from phasecast.lab.files import disk_errors
from phasecast.lab.forecasts import archive
from phasecast.lab.provenance import provenance
from phasecast.lab.recipe import Conclusion, Recipe
from phasecast.lab.records import is_checkpoint
from phasecast.lab.spec import Spec
from phasecast.lab.store import FORMAT, RunFolder, now
from phasecast.progress import Progress

if TYPE_CHECKING:
    from phasecast.forecasting.result import Forecast

SHORTEST_INTERVAL = 1.0  # seconds; chosen: nobody minds losing one second of work
COST_SHARE = 0.01  # chosen: without an interval of the user's, checkpoints take at most this share of the time


class Driver:
    """One attempt at one run, by the process that holds its lock."""

    def __init__(
        self,
        recipe: Recipe,
        spec: Spec,
        folder: RunFolder,
        progress: Progress,
        checkpoint_every: float | None,
        is_same: Callable[[], bool],
    ):
        self.recipe, self.spec, self.folder, self.progress = recipe, spec, folder, progress
        self.checkpoint_every, self.is_same = checkpoint_every, is_same
        self.start = (time.monotonic(), time.process_time())
        before: dict[str, Any] = {}
        folder.refuse_links()
        with contextlib.suppress(StoreError, FileNotFoundError):
            before = folder.read_status()
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

    def drive(self) -> Conclusion:
        """Work from the newest checkpoint to the end; the conclusion."""
        with disk_errors(self.folder.path):
            self.number, saved, notes = checkpoint.load_newest(self.folder.checkpoints)
        if saved is not None and not is_checkpoint(saved):
            notes.append(f"checkpoint {self.number} is not that of a run; started from the beginning")
            saved = None
        self.spent = (saved["wall_seconds"], saved["cpu_seconds"]) if saved else (0.0, 0.0)
        if saved:  # there may be no chunk left that would update these
            self.status |= {"done": saved.get("done", 0), "total": saved.get("total")}
        for leftover in self.folder.path.rglob("*.partial") if self.status["attempts"] > 1 else ():
            leftover.unlink(missing_ok=True)  # from a process that was killed
        self._write("running")
        self.folder.log("started", attempt=self.status["attempts"], checkpoint=self.number, notes=notes)
        for note in notes:
            self.progress.say(note)
        try:
            self._archive(self.recipe.foresee(self.spec) if self.status["attempts"] == 1 else (), refused=True)
            layout = self.recipe.layout(self.spec)
            with disk_errors(self.folder.path):
                try:
                    self.writer = tables.ResultsWriter(self.folder.results, layout, saved["results"] if saved else None)
                except tables.LostRows as loss:
                    self.folder.log("restarted", notes=[f"{loss}; started from the beginning"])
                    saved, self.writer = None, tables.ResultsWriter(self.folder.results, layout)
                    self.status |= {"done": 0, "total": None}
            self._work(saved["recipe"] if saved else None)
            return self._conclude()
        except BadInput as error:
            nothing_yet = self.status["attempts"] == 1 and self.status["done"] == 0
            if nothing_yet and not isinstance(error, StoreError):
                shutil.rmtree(self.folder.path, ignore_errors=True)  # bad input leaves nothing behind
            else:
                self._fail(error)
            raise
        except PhasecastError as error:
            self._fail(error)
            raise
        except (Exception, SystemExit) as error:
            self._fail(error)
            raise RecipeFailed(
                f"{self.recipe.name} failed with {type(error).__name__}: {error}",
                f"the traceback is in {self.folder.path / 'log.jsonl'}; --debug shows it",
            ) from error

    def _work(self, state: PyTree) -> None:
        last, interval = time.monotonic(), self.checkpoint_every or SHORTEST_INTERVAL
        with _stop_signals() as stop:
            for chunk in self.recipe.work(self.spec, state):
                with disk_errors(self.folder.path):
                    self.writer.append(chunk.rows)
                self.status["done"] = int(chunk.done)
                self.status["total"] = None if chunk.total is None else int(chunk.total)
                self.progress.update(chunk.done, chunk.total, chunk.metric)
                self._archive(chunk.forecasts)
                if stop.is_set() or time.monotonic() - last >= interval:
                    began = time.monotonic()
                    self._checkpoint(chunk.state)
                    last = time.monotonic()
                    if self.checkpoint_every is None:
                        interval = max(SHORTEST_INTERVAL, (last - began) / COST_SHARE)
                if stop.is_set():
                    self._write("interrupted")
                    self.folder.log("interrupted", done=chunk.done, total=chunk.total)
                    raise RunInterrupted(self.folder.id, f"{chunk.done} of {chunk.total or '?'}")

    def _archive(self, forecasts: Sequence[Forecast], *, refused: bool = False) -> None:
        """Keep forecasts as they were made, and print them; refused ones only where that is news."""
        for forecast in forecasts:
            if archive.keep(self.folder, forecast) and (refused or forecast.status is not Status.REFUSED):
                self.progress.say(forecast.line())

    def _checkpoint(self, state: PyTree) -> None:
        self.number += 1
        wall, cpu = self._clock()
        with disk_errors(self.folder.path):
            checkpoint.save(
                self.folder.checkpoints,
                self.number,
                {
                    "recipe": state,
                    "results": self.writer.state(),
                    "wall_seconds": wall,
                    "cpu_seconds": cpu,
                    "done": self.status["done"],
                    "total": self.status["total"],
                },
            )
        self._write("running")

    def _conclude(self) -> Conclusion:
        with disk_errors(self.folder.path):
            self.writer.finish()
            seal = integrity.make_seal(self.folder.results)
        conclusion = self.recipe.conclude(self.spec, tables.read(self.folder.results, self.folder.id, seal))
        if not self.is_same():
            raise BadInput("the code or data changed while the run was computed", "run it again")
        self.status |= {"summary": conclusion.summary(), "seal": seal}
        self._write(str(conclusion.status), durable=True)
        self.folder.log("finished", status=str(conclusion.status))
        return conclusion

    def _fail(self, error: BaseException) -> None:
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

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
