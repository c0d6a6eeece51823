"""What share of a compute-bound run goes into checkpoints every 30 s? Claimed: under 2%.

A recipe multiplies matrices for a minute, with a state of 100 MB (12.5 million float64: a network of four million
parameters with its Adam moments). The time inside the checkpoints is measured in the run itself and divided by the
time of the run. Beside it, 200 MB with no interval asked for: checkpoints are then spaced to cost 1%.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from phasecast.lab import Chunk, Conclusion, Recipe, Spec, Store, Table, checkpoint
from phasecast.lab.runs import execute

LIMIT = 0.02


class Busy(Spec):
    seconds: float
    numbers: int


def work(spec, state):
    matrix = np.random.default_rng(0).normal(size=(512, 512)) / 512**0.5
    numbers = np.random.default_rng(1).normal(size=spec.numbers)
    began, done, total = time.monotonic(), 0, 10**9
    while done < total:
        for _ in range(20):
            matrix = np.tanh(matrix @ matrix)
        done += 1
        if time.monotonic() - began > spec.seconds:
            total = done
        rows = {"trace": {"norm": np.array([np.linalg.norm(matrix)])}}
        yield Chunk({"matrix": matrix, "numbers": numbers}, rows, done, total)


BUSY = Recipe(
    name="busy",
    version=1,
    question="What do checkpoints cost?",
    spec=Busy,
    work=work,
    layout=lambda spec: {"trace": Table("step", {"norm": ()})},
    conclude=lambda spec, results: Conclusion([]),
    figures=lambda spec, results: {},
)


def share(numbers: int, every: float | None) -> tuple[float, int]:
    """The share of a run's time that goes into checkpoints, and their number."""
    spent: list[float] = []
    genuine = checkpoint.save

    def timed(folder, number, state):
        began = time.monotonic()
        genuine(folder, number, state)
        spent.append(time.monotonic() - began)

    checkpoint.save = timed
    try:
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            began = time.monotonic()
            execute(BUSY, Busy(seconds=65, numbers=numbers), Store(folder), checkpoint_every=every)
            whole = time.monotonic() - began
    finally:
        checkpoint.save = genuine
    return sum(spent) / whole, len(spent)


def main() -> None:
    costs, written = share(12_500_000, every=30)
    print(f"checkpoints every 30 s: {100 * costs:.2f}% of the run ({written} of 100 MB; claimed < {100 * LIMIT:g}%)")
    by_itself, more = share(25_000_000, every=None)
    print(f"checkpoints by default: {100 * by_itself:.2f}% of the run ({more} of 200 MB)")
    assert costs < LIMIT


if __name__ == "__main__":
    main()
