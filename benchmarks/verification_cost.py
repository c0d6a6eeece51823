"""What do checksums and seals cost? Claimed: under 3% of reading results, and under 1% of a run's time.

Reading is timed from a plain zarr store; the checks are the time inside the functions that check the seal and every
chunk, while the same files are read with them, and one CRC-32C over all bytes for zarr's own check, which cannot be
left out. (Times of whole readings with and without checks vary by more than the checks take, because of zarr's
threads.) A run's share is the time inside the functions that seal and check, of all that the run takes. All times are
CPU times, the median of several; inside a function they are those of its thread.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import xarray as xr

from phasecast.lab import Store, integrity, run, tables

READING, RUNNING = 0.03, 0.01
REPEATS = 15
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
        def called(*arguments: object) -> object:
            began = time.thread_time()
            try:
                return function(*arguments)
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


def of_reading(results: Path) -> tuple[float, float]:
    """Seconds to read everything without checks, and what the checks add."""
    from google_crc32c import value
    from zarr.storage import LocalStore

    seal = integrity.make_seal(results)
    chunks = [path.read_bytes() for path in results.rglob("*") if path.is_file() and path.name != integrity.METADATA]

    def plain() -> None:
        xr.open_datatree(LocalStore(results, read_only=True), engine="zarr", consolidated=False).load()  # type: ignore

    def checked() -> float:
        with timed("check_seal", "check_chunk") as spent:
            tables.read(results, "a run", seal).load()
        assert len(spent) > len(chunks), "not every chunk was checked"
        return sum(spent) - len(spent) * clock

    began = time.thread_time()
    clock = (max(time.thread_time() for _ in range(10_000)) - began) / 10_000  # what looking at it takes
    plain(), checked()  # imports and caches
    unchecked = np.median([cpu(plain) for _ in range(REPEATS)])
    checks = np.median([checked() for _ in range(REPEATS)])
    codec = np.median([cpu(lambda: [value(chunk) for chunk in chunks]) for _ in range(REPEATS)])
    return float(unchecked), float(checks + codec)


def of_running(recipe: str, spec: dict[str, object]) -> tuple[float, float]:
    """Seconds of CPU that a run takes, and those inside what seals and checks."""
    with timed("make_seal", "check_seal", "check_rows", "is_sound") as spent, tempfile.TemporaryDirectory() as folder:
        took = cpu(lambda: run(recipe, spec, store=Store(folder), quiet=True))
    return took, sum(spent)


def main() -> None:
    shares = {}
    for name, rows in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            reading, checking = of_reading(written(Path(folder), rows))
        shares[name] = checking / reading
        print(f"reading {name}: {1e3 * reading:.1f} ms of CPU, checks {1e3 * checking:.2f} ms, {shares[name]:.1%}")
    for recipe, spec in RUNS.items():
        took, spent = of_running(recipe, spec)
        shares[recipe] = spent / took
        print(f"run {recipe}: {took:.2f} s of CPU, seals and checks {1e3 * spent:.2f} ms, {spent / took:.2%}")
    assert all(shares[name] < READING for name in SIZES), f"claimed < {READING:.0%} of reading"
    assert all(shares[name] < RUNNING for name in RUNS), f"claimed < {RUNNING:.0%} of a run"


if __name__ == "__main__":
    main()
