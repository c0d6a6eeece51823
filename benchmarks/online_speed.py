"""How long the equations and SGD take, compilation apart; run alone on the machine.

python benchmarks/online_speed.py [--plot growth.svg] [--quick]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from phasecast.online import Curve, OrderParameters, Spectrum, simulate, solve


def timed(call: Callable[[], object], repeats: int = 3) -> tuple[float, float]:
    """Seconds of the first call, compilation included, and of the fastest of some more."""
    times = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times[0], min(times[1:])


def solving(modes: int, units: int, end: float, lr: float, order: int, inputs: int, sigma: float = 0.01):
    return apart(modes, units, units, end, lr, order, inputs, sigma)


def apart(modes: int, students: int, teachers: int, end: float, lr: float, order: int, inputs: int, sigma: float):
    spectrum = Spectrum.power_law(modes, 1.0)
    start = OrderParameters.draw(students, teachers, spectrum, inputs=inputs, sigma=sigma, seed=0)
    return lambda: solve(start, spectrum, lr, np.linspace(0, end, 50), order=order)


def per_step(call: Callable[[], Curve]) -> float:
    """Milliseconds of one step of the solver, compilation apart, so that stiffer equations do not look slower."""
    steps = call().diagnostics["steps"]
    return 1e3 * timed(call, 1)[1] / steps


def main(words: list[str]) -> None:
    quick = "--quick" in words
    rows = [
        ("L=64, K=M=2, α to 1000, order 1", solving(64, 2, 1000, 0.1, 1, 1024), 0.2, 3),
        ("L=64, K=M=2, α to 1000, order 2", solving(64, 2, 1000, 0.1, 2, 1024), 0.2, 3),
        ("L=N=1024, K=M=2, α to 300, order 1", solving(1024, 2, 300, 0.1, 1, 1024), 15.0, 2),
        ("L=N=1024, K=M=2, α to 300, order 2", solving(1024, 2, 300, 0.1, 2, 1024), 15.0, 1),
    ]
    if not quick:
        rows.append(("K=M=40, L=N=512, α to 20000, order 1", solving(512, 40, 2e4, 0.01, 1, 512, 1e-6), 180.0, 1))
    for name, call, bar, repeats in rows:
        first, again = timed(call, repeats)
        print(f"{name}: {again:.3f} s (first call {first:.1f} s; bar {bar:g} s) {'ok' if again < bar else 'MISSED'}")
    spectrum = Spectrum.power_law(1024, 1.0)
    for seeds in (1, 8):

        def walk(seeds: int = seeds) -> object:
            return simulate(2, 2, spectrum, 0.1, [20.0], inputs=1024, seeds=seeds)

        _, again = timed(walk, 2)
        print(f"SGD, N=1024, K=M=2, {seeds} seeds: {again / (20 * 1024 * seeds) * 1e6:.1f} µs a step a seed (bar 19.8)")
    sizes, units = (64, 256, 1024, 4096), (2, 4, 8, 16)
    growth = {
        "L, order 1 (K=M=2)": [(n, per_step(solving(n, 2, 2e4 / n, 0.1, 1, n))) for n in sizes],
        "L, order 2 (K=M=2)": [(n, per_step(solving(n, 2, 2e4 / n, 0.1, 2, n))) for n in sizes],
        "K, order 2 (M=2, L=64)": [(n, per_step(apart(64, n, 2, 20, 0.1, 2, 64, 0.01))) for n in units],
        "M, order 2 (K=2, L=64)": [(n, per_step(apart(64, 2, n, 20, 0.1, 2, 64, 0.01))) for n in units],
        "K=M, order 1 (L=64)": [(n, per_step(solving(64, n, 20, 0.1, 1, 64))) for n in units],
    }
    for name, points in growth.items():
        at, cost = np.array(points).T
        slope = np.log(cost[-1] / cost[-2]) / np.log(at[-1] / at[-2])
        print(f"a step over {name}: power {slope:.2f} at the end  {[(int(n), round(ms, 4)) for n, ms in points]} ms")
    if "--plot" in words:
        _plot(growth, Path(words[words.index("--plot") + 1]))


def _plot(growth: dict[str, list[tuple[int, float]]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.add_subplot()
    for name, points in growth.items():
        axes.loglog(*np.array(points).T, "o-", label=name)
    axes.set_xlabel("size")
    axes.set_ylabel("milliseconds of a step")
    axes.legend(fontsize=7)
    figure.savefig(path)


if __name__ == "__main__":
    main(sys.argv[1:])
