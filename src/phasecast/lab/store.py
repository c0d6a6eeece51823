"""Where are runs kept? In a store: a folder of run folders, human-readable, and the only source of truth about runs.

A run folder holds ``spec.json``, ``status.json``, ``log.jsonl``, ``checkpoint/``, ``results.zarr``,
``figures/`` and ``report.html``, and a ``lock`` that the computing process holds and the kernel frees when that
process dies. Listing runs reads only the status files. A store may come from somebody else: ids are checked, links and
special files are refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from phasecast.core.errors import BadInput, DamagedRun, NewerVersion, StoreError, unknown
from phasecast.core.results import Status
from phasecast.lab.files import (
    disk_errors,
    parse_json,
    read_json,
    read_regular,
    refuse_links,
    write_atomically,
    write_json,
)
from phasecast.lab.records import (
    FORMAT,
    ID,
    SpecRecord,
    StatusOutline,
    StatusRecord,
    StoreRecord,
    check_id,
    check_record,
    outline,
)

MARKER = "store.json"
VARIABLE = "PHASECAST_STORE"
DEFAULT = "phasecast-runs"
FINISHED = tuple(str(status) for status in Status)
_DIGEST = b',\n  "digest": '  # the last entry of a sealed status.json; the digest is of everything before it


class Store:
    """A folder of runs: ``path``, else ``$PHASECAST_STORE``, else ``phasecast-runs`` in the working folder."""

    def __init__(self, path: str | Path | None = None):
        self.path = Path(path or os.environ.get(VARIABLE) or DEFAULT).absolute()
        if "\0" in str(self.path):
            raise BadInput("the path of the store has a null character", "give a folder with --store")
        with disk_errors(self.path):
            exists = self.path.exists()
        if exists and not self.path.is_dir():
            raise StoreError(f"the store {self.path} is a file", "give a folder with --store")
        if not exists and not (above := next(path for path in self.path.parents if path.exists())).is_dir():
            raise StoreError(f"there can be no store {self.path}: {above} is a file", "give a folder with --store")
        if os.path.lexists(self.path / MARKER):
            check_record(StoreRecord, read_json(self.path / MARKER), self.path / MARKER)

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
        return RunFolder(self.path / check_id(run))

    def statuses(self) -> Iterator[dict[str, Any]]:
        """The status of every run, oldest first; of a damaged one the run, the status ``damaged`` and the error."""
        statuses = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path) as entries:
            for entry in entries:
                if not re.fullmatch(ID, entry.name):  # among others what a killed removal left
                    continue
                try:
                    statuses.append(RunFolder(Path(entry.path)).read_status(StatusOutline))
                except FileNotFoundError:  # not a run
                    continue
                except NewerVersion as error:
                    statuses.append(_unreadable(entry.name, "newer", error))
                except StoreError as error:
                    if os.path.lexists(f"{entry.path}/status.json"):
                        statuses.append(_unreadable(entry.name, "damaged", error))
        for status in sorted(statuses, key=lambda status: (str(status["created"]), status["run"])):
            yield _as_it_is(status, self.path)

    def find(self, text: str) -> str:
        """The full id of a run, from its beginning or the beginning of its hash."""
        if self.folder(text).exists:
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
        if folder.path.is_symlink() or (folder.path / "lock").is_symlink():
            raise StoreError(f"{folder.path} holds a symbolic link", "remove it with `rm`; what it leads to stays")
        with folder.lock(wait=False) as mine:
            if not mine:
                raise BadInput(f"{run} is being computed by another process", "stop it first")
            with disk_errors(folder.path):
                gone = folder.path.with_name(f".{run}.{os.getpid()}.{secrets.token_hex(4)}.removed")
                folder.path.rename(gone)  # in one step, so that a killed removal leaves no partial run
                for removed in [gone, *self.path.glob(".*.removed")]:
                    shutil.rmtree(removed, ignore_errors=True)

    def _ids(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            names = [entry.name for entry in self.path.iterdir() if re.fullmatch(ID, entry.name)]
            return sorted(name for name in names if self.folder(name).exists)
        return []


class RunFolder:
    """One run on disk."""

    def __init__(self, path: Path):
        self.path = path
        self.id = path.name

    @property
    def results(self) -> Path:
        return self.path / "results.zarr"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoint"

    @property
    def figures(self) -> Path:
        return self.path / "figures"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def exists(self) -> bool:
        """Whether there is a status, readable or not."""
        return os.path.lexists(self.path / "status.json")

    def refuse_links(self) -> None:
        """Refuse a run whose folder, or one of the files and folders in it, is a link or a special file."""
        refuse_links(self.path, folder=True)
        for name in ("checkpoint", "figures", "results.zarr"):
            refuse_links(self.path / name, folder=True)
        for name in ("spec.json", "status.json", "log.jsonl", "forecasts.jsonl", "lock", "report.html"):
            refuse_links(self.path / name, folder=False)

    def status(self) -> dict[str, Any]:
        """The content of ``status.json``; a run that is marked running but whose process died is interrupted."""
        self.refuse_links()
        try:
            return _as_it_is(self.read_status(), self.path.parent)
        except FileNotFoundError:
            raise StoreError(f"{self.path / 'status.json'} is missing", "remove the run or start it again") from None

    def read_status(self, kind: type[StatusRecord] | type[StatusOutline] = StatusRecord) -> dict[str, Any]:
        """The content of ``status.json`` as it stands there, if it is sound; a list checks its outline only."""
        path = f"{self.path}/status.json"
        refuse_links(self.path, folder=True)
        content = read_regular(path)
        status = outline(kind, content) if kind is StatusOutline else None
        if status is None or status["digest"] is None or status["format"] > FORMAT:  # errors, older releases: all of it
            try:
                parsed = parse_json(content)
            except ValueError:
                parsed = None
            status = check_record(kind, parsed, Path(path))
        if status["run"] != self.id:
            raise StoreError(f"{path} is that of another run, {status['run']}", "remove the folder")
        if status["status"] in FINISHED:
            _check_digest(status, content)
        return status

    def spec(self) -> dict[str, Any]:
        """The content of ``spec.json``, which must be what the id of the run is a hash of."""
        request = self.read_spec()
        if run_id(request["recipe"], request["recipe_version"], request["spec"], request["contents"]) != self.id:
            raise DamagedRun(self.id, "its spec.json changed")
        return request

    def read_spec(self) -> dict[str, Any]:
        """The content of ``spec.json`` as it stands there."""
        self.refuse_links()
        return check_record(SpecRecord, read_json(self.path / "spec.json"), self.path / "spec.json")

    def write_status(self, status: dict[str, Any], *, durable: bool = False) -> None:
        """Replace ``status.json``; that of a run with a seal ends in the digest of everything before it."""
        with disk_errors(self.path):
            content = json.dumps({**status, "updated": now()}, indent=2, ensure_ascii=False, allow_nan=False).encode()
            if "seal" in status:
                content = content.removesuffix(b"\n}")
                content += _DIGEST + f'"{hashlib.sha256(content).hexdigest()}"\n}}'.encode()
            write_atomically(self.path / "status.json", content, b"\n", durable=durable)

    def log(self, event: str, **facts: Any) -> None:
        """Append one line to ``log.jsonl``."""
        line = json.dumps({"time": now(), "event": event, "pid": os.getpid(), **facts}, ensure_ascii=False)
        refuse_links(self.path / "log.jsonl", folder=False)
        with disk_errors(self.path), open(self.path / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def events(self) -> list[dict[str, Any]]:
        """The lines of ``log.jsonl``, without one that a crash cut short."""
        events = []
        with contextlib.suppress(FileNotFoundError):
            for line in read_regular(self.path / "log.jsonl").splitlines():
                with contextlib.suppress(ValueError, RecursionError):
                    events.append(json.loads(line))
        return [event for event in events if isinstance(event, dict)]

    @contextlib.contextmanager
    def lock(
        self, *, wait: bool = True, create: bool = False, on_wait: Callable[[], None] | None = None
    ) -> Iterator[bool]:
        """Hold the lock of this run; yields False if another process holds it and ``wait`` is off.

        With ``create`` the folder is made, also when another process removes it meanwhile.
        """
        from filelock import FileLock, Timeout

        refuse_links(self.path / "lock", folder=False)
        with disk_errors(self.path):
            lock = FileLock(self.path / "lock", thread_local=False)
            announced = False
            while not lock.is_locked:
                try:
                    if create:
                        self.path.mkdir(exist_ok=True)
                    lock.acquire(timeout=0)
                except FileNotFoundError:
                    if not create:
                        raise StoreError(f"{self.path} was removed by another process", "start the run again") from None
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
    if status["status"] != "running":
        return status
    folder = RunFolder(store / status["run"])
    try:
        with folder.lock(wait=False) as free:
            if free:  # it may have finished since its status was read
                status = folder.read_status()
            return {**status, "status": "interrupted"} if free and status["status"] == "running" else status
    except (StoreError, OSError):  # nobody can be running in a store that cannot be written
        return {**status, "status": "interrupted"}


def _unreadable(run: str, word: str, error: BadInput) -> dict[str, Any]:
    nothing = {"recipe": "", "done": 0, "total": None, "created": "", "updated": "", "summary": None}
    return {**nothing, "run": run, "status": word, "error": str(error)}


def _check_digest(status: dict[str, Any], content: bytes) -> None:
    """Check a finished status against its digest; without one, against the fields that earlier releases wrote."""
    if "digest" in status:
        before, mark, _ = content.rpartition(_DIGEST)
        if not mark or hashlib.sha256(before).hexdigest() != status["digest"]:
            raise DamagedRun(status["run"], "its status.json changed")
    elif "seal" in status or not set(status) <= set(StatusRecord.model_fields):
        raise DamagedRun(status["run"], "its status.json lost its digest")
