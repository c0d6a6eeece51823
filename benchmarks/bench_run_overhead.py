"""What does the run machinery cost beyond a recipe's own work? Claimed: under 50 ms a run.

The recipe here does nothing but hand over one small row, so all of a run's time is the machinery's.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from phasecast.core import Comparison, Measurement, Prediction
from phasecast.lab import Answer, Chunk, Conclusion, Recipe, Spec, Store, Table
from phasecast.lab.runs import execute

LIMIT = 0.050
RUNS = 40

EMPTY = Recipe(
    name="empty",
    version=1,
    question="What does a run cost that computes nothing?",
    spec=Spec,
    work=lambda spec, state: iter([Chunk({}, {"only": {"x": np.zeros(1)}}, 1, 1)]),
    layout=lambda spec: {"only": Table("row", {"x": ()})},
    conclude=lambda spec, results: Conclusion(
        [Answer("x", Comparison(Prediction(0.0), Measurement(float(results["only/x"].values[0]), 0.1)))]
    ),
    figures=lambda spec, results: {},
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        times = []
        for seed in range(RUNS):
            began = time.perf_counter()
            execute(EMPTY, Spec(seed=seed), store)
            times.append(time.perf_counter() - began)
        began = time.perf_counter()
        execute(EMPTY, Spec(seed=0), store)
        again = time.perf_counter() - began
    first, later = times[0], statistics.median(times[1:])
    print(
        f"run machinery: {1e3 * later:.1f} ms a run (median of {RUNS - 1}; claimed < {1e3 * LIMIT:g} ms); "
        f"first in a process {1e3 * first:.0f} ms with its imports; a finished run again {1e3 * again:.1f} ms"
    )
    assert later < LIMIT


if __name__ == "__main__":
    main()
