"""What does a sweep cost beyond its runs? A thousand short runs, with processes killed on the way.

``python benchmarks/thousand_runs.py [RUNS] [SECONDS]`` (1,000 runs of about 1 s by default). Each run compiles the same
small program and then computes for its seconds. Printed for the local engine and for dask (a scheduler and two workers
as processes of this machine): time over the runs' own, how many runs compiled anything, and whether every run finished
once although a worker was killed and, for dask, the scheduler restarted; then the time of the sweep's page.
Claimed: at most 15% over the runs' own time without kills, every run finished once, and a page in 10 s.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from phasecast.core import Comparison, Measurement, Prediction
from phasecast.lab import Answer, Chunk, Conclusion, Recipe, Spec, Table, load

HERE = Path(__file__).resolve().parent
OVERHEAD, PAGE = 0.15, 10.0
WORKERS = 2


class Busy(Spec):
    """A run that computes for a while."""

    busy: float = Field(default=1.0, gt=0, description="seconds of computing")


_PROCESS: dict[str, Any] = {"compilations": 0}
"""Of this process: its program, compiled once, and how often anything was compiled."""


def _program() -> Any:
    """The program of all runs; a process that has it does not compile it again."""
    if "step" not in _PROCESS:
        import jax
        import jax.numpy as jnp

        def count(event: str, seconds: float, **about: object) -> None:
            _PROCESS["compilations"] += event.endswith("backend_compile_duration")

        jax.monitoring.register_event_duration_secs_listener(count)
        _PROCESS["step"] = jax.jit(lambda x: jnp.sin(x @ x) / 2)
    return _PROCESS["step"]


def work(spec: Busy, state: object) -> Iterator[Chunk]:
    began = time.perf_counter()
    step, before = _program(), _PROCESS["compilations"]
    x = np.random.default_rng(spec.seed).normal(size=(64, 64)).astype(np.float32)
    while time.perf_counter() - began < spec.busy:
        x = np.asarray(step(x))
    own, compiled = time.perf_counter() - began, _PROCESS["compilations"] - before
    yield Chunk({}, {"run": {"own": [own], "compiled": [float(compiled)]}}, 1, 1)


RECIPE = Recipe(
    name="thousand_runs:RECIPE",
    version=1,
    question="How long is a run that computes for a while?",
    spec=Busy,
    work=work,
    layout=lambda spec: {"run": Table("row", {"own": (), "compiled": ()})},
    conclude=lambda spec, results: Conclusion(
        [Answer("own", Comparison(Prediction(spec.busy), Measurement(float(results["run/own"].values[0]), spec.busy)))]
    ),
    figures=lambda spec, results: {},
)


def environment() -> dict[str, str]:
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "phasecast.cli", *map(str, words)]


def children(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(parent)], capture_output=True, text=True)
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if "spawn_main" in line]


def summary(store: Path) -> tuple[int, float, int]:
    """Runs that finished, the sum of their own times, and how many of them compiled anything."""
    own, compiled, count = 0.0, 0, 0
    for folder in sorted(store.iterdir()):
        if not (folder / "status.json").exists():
            continue
        results = load(folder.name, store=store, allow_code=True).results()
        values = results["run/own"].values
        assert len(values) == 1, f"{folder.name} has {len(values)} rows"
        own, compiled, count = own + float(values[0]), compiled + int(results["run/compiled"].values[0] > 0), count + 1
    return count, own, compiled


def local(store: Path, runs: int, busy: float, *, kill: bool) -> float:
    """Seconds of a sweep on the local engine."""
    words = command("sweep", "thousand_runs:RECIPE", "--set", f"busy={busy}", "--seeds", runs, "--workers", WORKERS,
                    "--store", store)  # fmt: skip
    began = time.perf_counter()
    process = subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if kill:
        threading.Thread(target=_kill_one, args=(process.pid, runs * busy / WORKERS / 3), daemon=True).start()
    if process.wait():
        raise SystemExit("the local sweep failed")
    return time.perf_counter() - began


def _kill_one(parent: int, after: float) -> None:
    time.sleep(after)
    workers = children(parent)
    if workers:
        os.kill(workers[0], signal.SIGKILL)


class Cluster:
    """A dask scheduler and workers as processes of their own."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")
        self.workers = [self.worker() for _ in range(WORKERS)]

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:]], env=environment(),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def worker(self) -> subprocess.Popen[bytes]:
        return self._start("worker", self.address, "--nthreads", "1", "--no-dashboard", "--no-nanny")

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    one = Cluster()
    try:
        yield one
    finally:
        one.close()


def on_dask(store: Path, runs: int, busy: float, *, kill: bool) -> float:
    """Seconds of a sweep on a cluster; with kills, of the sweep begun again after its scheduler died, too."""
    began = time.perf_counter()
    words = ["sweep", "thousand_runs:RECIPE", "--set", f"busy={busy}", "--seeds", runs, "--engine", "dask"]
    with cluster() as dask:
        sweep = subprocess.Popen(command(*words, "--address", dask.address, "--store", store), env=environment(),
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        if kill:
            time.sleep(runs * busy / WORKERS / 4)
            dask.workers[0].kill()
            dask.workers[0] = dask.worker()
            time.sleep(runs * busy / WORKERS / 4)
            dask.close()
            sweep.wait()
        elif sweep.wait():
            raise SystemExit("the sweep on dask failed")
    if kill:
        with cluster() as dask:
            again = command(*words, "--address", dask.address, "--store", store)
            if subprocess.run(again, env=environment(), capture_output=True).returncode:
                raise SystemExit("the sweep on dask did not finish after its scheduler was restarted")
    return time.perf_counter() - began


def main() -> None:
    runs, busy = int(sys.argv[1]) if len(sys.argv) > 1 else 1000, float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    missed = []
    with tempfile.TemporaryDirectory() as temporary:
        for name, engine in (("local", local), ("dask", on_dask)):
            for kill in (False, True):
                store = Path(temporary) / f"{name}-{kill}"
                wall = engine(store, runs, busy, kill=kill)
                count, own, compiled = summary(store)
                overhead = wall * WORKERS / own - 1
                print(
                    f"{name:<6} {'with kills' if kill else 'undisturbed':<12} {count} of {runs} runs, {wall:7.1f} s, "
                    f"{overhead:+.1%} over their own {own:.0f} s on {WORKERS} workers; {compiled} runs compiled",
                    flush=True,
                )
                if count != runs or (not kill and overhead > OVERHEAD):
                    missed.append(f"{name}{' with kills' if kill else ''}")
        store = Path(temporary) / "local-False"
        sweep = next(path.name for path in (store / "sweeps").iterdir())
        began = time.perf_counter()
        words = command("report", sweep, "--allow-code", "--store", store)
        subprocess.run(words, env=environment(), check=True, stdout=subprocess.DEVNULL)
        page = time.perf_counter() - began
        print(f"the page of {runs} runs: {page:.1f} s (claimed ≤ {PAGE:g} s)")
        if page > PAGE:
            missed.append("page")
    print(f"missed: {', '.join(missed) or 'none'}")


if __name__ == "__main__":
    main()
