"""Where are runs kept? In a store: a folder of run folders, human-readable, and the only source of truth about runs.

A run folder holds ``spec.json``, ``status.json``, ``log.jsonl``, ``checkpoint/``, ``results.zarr``,
``figures/`` and ``report.html``, and a ``lock`` that the computing process holds and the kernel frees when that
process dies. Listing runs reads only the status files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from phasecast.core.errors import BadInput, NewerVersion, StoreError, unknown
from phasecast.core.results import Status
from phasecast.lab.files import disk_errors, read_json, write_json

FORMAT = 1  # of the files of a run; see docs/versions.md
MARKER = "store.json"
VARIABLE = "PHASECAST_STORE"
DEFAULT = "phasecast-runs"
FINISHED = tuple(str(status) for status in Status)


class Store:
    """A folder of runs: ``path``, else ``$PHASECAST_STORE``, else ``phasecast-runs`` in the working folder."""

    def __init__(self, path: str | Path | None = None):
        self.path = Path(path or os.environ.get(VARIABLE) or DEFAULT).absolute()
        with disk_errors(self.path):
            exists = self.path.exists()
        if exists and not self.path.is_dir():
            raise StoreError(f"the store {self.path} is a file", "give a folder with --store")
        if (self.path / MARKER).exists():
            written = read_json(self.path / MARKER).get("format")
            if not isinstance(written, int) or written > FORMAT:
                raise NewerVersion(
                    f"the store {self.path} has format {written}, this phasecast knows {FORMAT}",
                    "upgrade phasecast",
                )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Store) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    @classmethod
    def of(cls, place: Store | str | Path | None) -> Store:
        """The store itself, or the one at a path."""
        return place if isinstance(place, Store) else cls(place)

    def prepare(self) -> None:
        """Create the folder if it does not exist."""
        with disk_errors(self.path):
            try:
                self.path.mkdir(parents=True, exist_ok=True)
            except FileNotFoundError:  # /proc answers like this
                raise StoreError(f"{self.path} cannot be created", "choose another --store") from None
            if not (self.path / MARKER).exists():
                write_json(self.path / MARKER, {"what": "phasecast runs", "format": FORMAT})

    def folder(self, run: str) -> RunFolder:
        """The folder of a run, whether it exists or not."""
        return RunFolder(self.path / run)

    def statuses(self) -> Iterator[dict[str, Any]]:
        """The status of every run, oldest first; folders without a readable status are skipped."""
        statuses = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.startswith("."):  # left by a killed removal
                    continue
                with contextlib.suppress(OSError, ValueError), open(f"{entry.path}/status.json", "rb") as file:
                    status = json.loads(file.read())
                    if isinstance(status, dict) and status.get("run") == entry.name:
                        statuses.append(status)
        for status in sorted(statuses, key=lambda status: (str(status.get("created")), status["run"])):
            try:
                yield _as_it_is(status, self.path)
            except NewerVersion:
                yield {**status, "status": "newer"}

    def find(self, text: str) -> str:
        """The full id of a run, from its beginning or the beginning of its hash."""
        if not re.fullmatch(r"[\w.-]+", text):
            raise BadInput(f"'{text}' is not the id of a run", "see `phasecast runs ls`")
        if (self.path / text / "status.json").is_file():
            return text
        ids = self._ids()
        near = [run for run in ids if run.startswith(text) or run.rpartition("-")[2].startswith(text)]
        if len(near) == 1:
            return near[0]
        if near:
            raise BadInput(f"'{text}' is ambiguous: {', '.join(near[:4])}", "give more of the id")
        if not ids:
            raise BadInput(
                f"there is no run '{text}': the store {self.path} has none", "start one with `phasecast run`"
            )
        raise (
            unknown("run", text, ids)
            if len(ids) <= 8
            else BadInput(f"there is no run '{text}' in {self.path}", "see `phasecast runs ls`")
        )

    def remove(self, run: str) -> None:
        """Delete a run that no process is computing."""
        folder = self.folder(run)
        with folder.lock(wait=False) as mine:
            if not mine:
                raise BadInput(f"{run} is being computed by another process", "stop it first")
            with disk_errors(folder.path):
                gone = folder.path.with_name(f".{run}.{os.getpid()}.removed")
                folder.path.rename(gone)  # in one step, so that a killed removal leaves no partial run
                for removed in [gone, *self.path.glob(".*.removed")]:
                    shutil.rmtree(removed, ignore_errors=True)

    def _ids(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            entries = [entry for entry in self.path.iterdir() if not entry.name.startswith(".")]
            return sorted(entry.name for entry in entries if (entry / "status.json").is_file())
        return []


class RunFolder:
    """One run on disk."""

    def __init__(self, path: Path):
        self.path = path
        self.id = path.name
        self.results = path / "results.zarr"
        self.checkpoints = path / "checkpoint"
        self.figures = path / "figures"
        self.report = path / "report.html"

    def status(self) -> dict[str, Any]:
        """The content of ``status.json``; a run that is marked running but whose process died is interrupted."""
        return _as_it_is(read_json(self.path / "status.json"), self.path.parent)

    def spec(self) -> dict[str, Any]:
        """The content of ``spec.json``."""
        return _readable(read_json(self.path / "spec.json"), self.id)

    def write_status(self, status: dict[str, Any], *, durable: bool = False) -> None:
        with disk_errors(self.path):
            write_json(self.path / "status.json", {**status, "updated": now()}, durable=durable)

    def log(self, event: str, **facts: Any) -> None:
        """Append one line to ``log.jsonl``."""
        line = json.dumps({"time": now(), "event": event, "pid": os.getpid(), **facts}, ensure_ascii=False)
        with disk_errors(self.path), open(self.path / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def events(self) -> list[dict[str, Any]]:
        """The lines of ``log.jsonl``, without one that a crash cut short."""
        events = []
        with contextlib.suppress(FileNotFoundError):
            for line in (self.path / "log.jsonl").read_text(encoding="utf-8").splitlines():
                with contextlib.suppress(json.JSONDecodeError):
                    events.append(json.loads(line))
        return events

    @contextlib.contextmanager
    def lock(self, *, wait: bool = True, on_wait: Callable[[], None] | None = None) -> Iterator[bool]:
        """Hold the lock of this run; yields False if another process holds it and ``wait`` is off."""
        from filelock import FileLock, Timeout

        with disk_errors(self.path):
            lock = FileLock(self.path / "lock", thread_local=False)
            announced = False
            while not lock.is_locked:
                try:
                    lock.acquire(timeout=0)
                except Timeout:
                    if not wait:
                        break
                    if on_wait is not None and not announced:
                        on_wait()
                        announced = True
                    time.sleep(0.1)
        try:
            yield lock.is_locked
        finally:
            if lock.is_locked:
                lock.release()


def run_id(recipe: str, version: int, spec: dict[str, Any], contents: dict[str, str]) -> str:
    """The id of a run: the recipe and a hash of everything that determines its result."""
    text = json.dumps(
        {"recipe": recipe, "version": version, "spec": spec, "contents": contents},
        sort_keys=True,
        ensure_ascii=True,
        separators=(",", ":"),
    )
    slug = re.sub(r"[^A-Za-z0-9]+", "-", recipe).strip("-")[:60]
    return f"{slug}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def now() -> str:
    """The current time, in the form that all files use."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _as_it_is(status: dict[str, Any], store: Path) -> dict[str, Any]:
    if _readable(status, status.get("run")).get("status") != "running":
        return status
    try:
        with RunFolder(store / str(status.get("run"))).lock(wait=False) as free:
            if free:  # it may have finished since its status was read
                status = read_json(store / status["run"] / "status.json")
            return {**status, "status": "interrupted"} if free and status["status"] == "running" else status
    except (StoreError, OSError):  # nobody can be running in a store that cannot be written
        return {**status, "status": "interrupted"}


def _readable(content: dict[str, Any], run: str | None) -> dict[str, Any]:
    if content.get("format", 0) > FORMAT:
        raise NewerVersion(f"run {run} was written by a newer phasecast", "upgrade phasecast")
    return content
