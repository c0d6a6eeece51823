"""What do checksums and seals cost? Claimed: under 3% of reading results, and under 1% of a run's time.

The same files are read by turns with plain zarr, with our reader without its checks, and with our reader as it is,
which checks the seal, every chunk's checksum and, through zarr, each checksum again. Ours opens each file once and in
the thread that asks, so that with all checks it takes less time than zarr without any; what the checks alone take is
printed beside it. A run's share is the time inside the functions that seal and check, of all that the run takes. All
times are CPU times, the median of several; inside a function they are those of its thread.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from phasecast.lab import Store, integrity, run, tables

READING, RUNNING = 0.03, 0.01
REPEATS = 25
SIZES = {"200 rows": 200, "20,000 rows": 20_000}
RUNS = {
    "toy-landscapes": {"landscapes": ("x2y2",), "samples": 20_000, "blocks": 30},
    "grokking": {"p": 7, "width": 20, "steps": 400, "llc": False},
}


def cpu(action: Callable[[], object]) -> float:
    """Seconds of CPU that an action takes, in all threads of this process."""
    began = time.process_time()
    action()
    return time.process_time() - began


def written(folder: Path, rows: int) -> Path:
    """Results of the size of a training with weights: a few curves and checkpoints of 500 numbers."""
    layout = {
        "curve": tables.Table("step", dict.fromkeys(("loss", "accuracy", "norm"), ()), rows_per_chunk=64),
        "checkpoints": tables.Table("step", {"weights": ("parameter",)}, rows_per_chunk=64),
    }
    writer, draw = tables.ResultsWriter(folder / "results.zarr", layout), np.random.default_rng(0)
    writer.append({"curve": {name: draw.normal(size=rows) for name in ("loss", "accuracy", "norm")}})
    writer.append({"checkpoints": {"weights": draw.normal(size=(rows // 10, 500))}})
    writer.finish()
    return folder / "results.zarr"


@contextmanager
def timed(*names: str) -> Iterator[list[float]]:
    """Times of the calls of some functions of ``integrity`` inside the block."""
    spent: list[float] = []
    before = {name: getattr(integrity, name) for name in names}

    def clocked(function: Callable[..., object]) -> Callable[..., object]:
        def called(*arguments: object, **named: object) -> object:
            began = time.thread_time()
            try:
                return function(*arguments, **named)
            finally:
                spent.append(time.thread_time() - began)

        return called

    for name in names:
        setattr(integrity, name, clocked(before[name]))
    try:
        yield spent
    finally:
        for name in names:
            setattr(integrity, name, before[name])


def of_reading(results: Path) -> tuple[float, float, float]:
    """Seconds to read everything with plain zarr, with our reader without its checks, and with them."""
    from zarr.storage import LocalStore

    seal = integrity.make_seal(results)

    def load(store: Any) -> None:
        xr.open_datatree(store, engine="zarr", consolidated=False).load()

    def plain() -> None:
        load(LocalStore(results, read_only=True))

    def unchecked() -> None:
        load(integrity.open_checked(results, "a run", {}))  # of no array does it know that it has checksums

    def checked() -> None:
        tables.read(results, "a run", seal).load()

    readers = (plain, unchecked, checked)
    for reader in readers:  # imports and caches
        reader()
    times = np.median([[cpu(reader) for reader in readers] for _ in range(REPEATS)], axis=0)
    return float(times[0]), float(times[1]), float(times[2])


def of_running(recipe: str, spec: dict[str, object]) -> tuple[float, float]:
    """Seconds of CPU that a run takes, and those inside what seals and checks."""
    with timed("make_seal", "check_seal", "check_rows", "is_sound") as spent, tempfile.TemporaryDirectory() as folder:
        took = cpu(lambda: run(recipe, spec, store=Store(folder), quiet=True))
    return took, sum(spent)


def main() -> None:
    shares = {}
    for name, rows in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            plain, unchecked, checked = of_reading(written(Path(folder), rows))
        shares[name] = checked / plain - 1
        print(
            f"reading {name}: {1e3 * checked:.1f} ms of CPU with all checks, {checked / plain:.2f} of plain zarr "
            f"({1e3 * plain:.1f} ms), {checked / unchecked:.3f} of our reader without checks"
        )
    for recipe, spec in RUNS.items():
        took, spent = of_running(recipe, spec)
        shares[recipe] = spent / took
        print(f"run {recipe}: {took:.2f} s of CPU, seals and checks {1e3 * spent:.2f} ms, {spent / took:.2%}")
    assert all(shares[name] < READING for name in SIZES), f"claimed < {READING:.0%} of reading"
    assert all(shares[name] < RUNNING for name in RUNS), f"claimed < {RUNNING:.0%} of a run"


if __name__ == "__main__":
    main()
