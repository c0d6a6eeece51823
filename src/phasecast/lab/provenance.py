"""Where does a number come from? Versions, commit, threads and machine, read without network or subprocess."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import time
from pathlib import Path
from typing import Any

PACKAGES = ("phasecast", "jax", "jaxlib", "numpy", "scipy", "xarray", "zarr")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@functools.cache
def _fixed() -> dict[str, Any]:
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "versions": versions,
        "commit": _commit(Path(__file__).resolve()),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def provenance(seed: int) -> dict[str, Any]:
    """What is needed to reproduce a result."""
    return {**_fixed(), "seed": seed, "threads": available_threads()}


def available_threads() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pin_threads(count: int, first: int | None = None) -> None:
    """Keep this process to ``count`` of its cores; call it before JAX starts its threads.

    They are those from number ``first`` on; without it the least busy ones, so that commands that run side by side do
    not share a core while another is idle. XLA and BLAS size their pools by the cores a process may use and by these
    variables.
    """
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(count)
    if hasattr(os, "sched_setaffinity"):
        cores = _cores_at_start() if first is not None else _quietest_first(_cores_at_start())
        os.sched_setaffinity(0, {cores[((first or 0) + index) % len(cores)] for index in range(min(count, len(cores)))})


@functools.cache
def _cores_at_start() -> list[int]:
    """The cores this process had before it was pinned: a dask worker is pinned again with every task."""
    return sorted(os.sched_getaffinity(0))


def _quietest_first(cores: list[int]) -> list[int]:
    """By the time they are busy during a tenth of a second; which of equal ones comes first depends on the process."""
    before = _busy_times()
    time.sleep(0.1)
    busy = {core: ticks - before.get(core, 0) for core, ticks in _busy_times().items()}
    return sorted(cores, key=lambda core: (busy.get(core, 0), (core + os.getpid()) % len(cores)))


def _busy_times() -> dict[int, int]:
    """Ticks that each core has worked so far, by Linux; empty elsewhere."""
    stat = Path("/proc/stat")
    rows = [line.split() for line in stat.read_text().splitlines()] if stat.is_file() else []
    return {
        int(row[0][3:]): sum(map(int, row[1:4])) + sum(map(int, row[6:9]))
        for row in rows
        if row[0].startswith("cpu") and row[0] != "cpu"
    }


def _commit(inside: Path) -> str | None:
    """The git commit of the checkout that phasecast runs from, read from its files; None when installed."""
    package = inside.parents[1]
    git = package.parents[1] / ".git"
    if package.parent.name != "src" or not git.exists():
        return None
    if git.is_file():  # a linked worktree or a submodule: the file names the folder
        git = package.parents[1] / git.read_text().removeprefix("gitdir:").strip()
    if not (git / "HEAD").is_file():
        return None
    head = (git / "HEAD").read_text().strip()
    if not head.startswith("ref: "):
        return head
    reference = head.removeprefix("ref: ")
    shared = git / (git / "commondir").read_text().strip() if (git / "commondir").is_file() else git
    loose = shared / reference
    if loose.is_file():
        return loose.read_text().strip()
    packed = shared / "packed-refs"
    lines = packed.read_text().splitlines() if packed.is_file() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {reference}")), None)
