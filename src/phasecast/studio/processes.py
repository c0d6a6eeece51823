"""How are runs started, stopped and resumed from a page? As processes of their own, which outlive the studio.

A run is ``phasecast run RECIPE --set …``, the command one would type; what it prints goes to ``.studio/RUN.log`` in the
store. Stopping sends Ctrl-C to the process that holds the lock of the run, so that it writes a checkpoint first.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from phasecast.core.errors import BadInput
from phasecast.lab.files import disk_errors, read_regular, refuse_links
from phasecast.lab.recipe import find_recipe
from phasecast.lab.spec import content_fields
from phasecast.lab.store import FINISHED, RunFolder, Store
from phasecast.studio.forms import CODE_HINT

LOGS = ".studio"  # in the store; not the id of a run, because of the dot
LONGEST_LOG = 20_000  # bytes from the end of a log; chosen: what one reads on a page
LONGEST_OUTPUT = 10_000  # characters of what a counterexample prints

_started: list[tuple[str, subprocess.Popen[bytes]]] = []  # run and process, in the order of their starts


@dataclass(frozen=True)
class Output:
    """What a short program printed, and how it ended: ``code`` is None if it took too long."""

    text: str
    code: int | None


def start_run(recipe: str, words: Sequence[str], run: str, store: Store) -> None:
    """Start a recipe with the words of ``--set``; ``run`` is the id that it will have."""
    _launch(["run", recipe, "--store", str(store.path), *(["--set", *words] if words else [])], run, store)


def resume_run(run: str, store: Store, *, allow_code: bool = False) -> None:
    """Continue an interrupted, killed or failed run; one that imports the user's code only if that is allowed."""
    status = store.folder(run).status()["status"]
    if status in FINISHED or status == "running":
        raise BadInput(f"{run} is {status}", "only an interrupted or failed run can be resumed")
    if not allow_code and _names_code(run, store):
        raise BadInput(f"{run} imports code", CODE_HINT)
    _launch(["runs", "resume", run, "--store", str(store.path)], run, store)


def stop_run(run: str, store: Store) -> None:
    """Ask the process that computes a run to write a checkpoint and end."""
    folder = store.folder(run)
    status = folder.status()
    if status["status"] != "running":
        raise BadInput(f"{run} is {status['status']}", "only a running run can be stopped")
    if status["host"] != platform.node():
        raise BadInput(f"{run} is computed on another machine", "stop it there")
    if not holds_lock(status["pid"], folder):
        raise BadInput(f"process {status['pid']} does not compute {run}", "stop it where it was started")
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.kill(status["pid"], signal.SIGINT)


def holds_lock(pid: int, folder: RunFolder) -> bool:
    """Whether a process has the lock of a run open: a pid in a file may be old, or written by somebody else."""
    handles = Path("/proc") / str(pid) / "fd"
    if pid <= 1 or pid == os.getpid():
        return False
    if not Path("/proc/self/fd").exists():  # no such thing here; the lock is held, and the run wrote the pid
        return True
    try:
        facts = (folder.path / "lock").stat()
        for handle in handles.iterdir():
            with contextlib.suppress(OSError):
                opened = handle.stat()
                if (opened.st_dev, opened.st_ino) == (facts.st_dev, facts.st_ino):
                    return True
    except OSError:
        return False
    return False


def launch_log(run: str, store: Store) -> str:
    """The end of what the process of a run printed; empty if it was not started from a studio."""
    with contextlib.suppress(FileNotFoundError):
        return read_regular(store.path / LOGS / f"{store.folder(run).id}.log")[-LONGEST_LOG:].decode(errors="replace")
    return ""


def was_started(run: str, store: Store) -> bool:
    """Whether a studio started a process for this run; it may not have printed or stored anything yet."""
    return (store.path / LOGS / f"{store.folder(run).id}.log").is_file()


def has_ended(run: str) -> bool:
    """Whether this studio started a process for the run and that process is over."""
    ours = [process for name, process in _reaped() if name == run]
    return bool(ours) and all(process.returncode is not None for process in ours)


def run_program(text: str, seconds: float) -> Output:
    """Run a short program of ours in a process of its own; it is killed when the time is over."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as late:
        return Output((late.stdout or b"").decode(errors="replace")[:LONGEST_OUTPUT], None)
    return Output((done.stdout + done.stderr).decode(errors="replace")[:LONGEST_OUTPUT], done.returncode)


def _names_code(run: str, store: Store) -> bool:
    request = store.folder(run).spec()
    if ":" in request["recipe"]:
        return True
    fields = content_fields(find_recipe(request["recipe"]).spec)
    return any(kind == "factory" and request["spec"].get(name) for name, kind in fields.items())


def _launch(words: list[str], run: str, store: Store) -> None:
    store.prepare()
    folder = store.path / LOGS
    refuse_links(folder, folder=True)
    log = folder / f"{store.folder(run).id}.log"
    refuse_links(log, folder=False)
    _reaped()
    with disk_errors(folder):
        folder.mkdir(exist_ok=True)
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "phasecast.cli", *words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal of the studio must not reach it
            )
    _started.append((run, process))


def _reaped() -> list[tuple[str, subprocess.Popen[bytes]]]:
    """The processes that this studio started; those that ended are collected, so that none stays a zombie."""
    for _, process in _started:
        process.poll()
    return _started
