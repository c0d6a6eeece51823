"""How long the equations and SGD take, compilation apart; run alone on the machine.

python benchmarks/online_speed.py [--plot growth.svg] [--quick]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from phasecast.online import OrderParameters, Spectrum, simulate, solve


def timed(call: Callable[[], object], repeats: int = 3) -> tuple[float, float]:
    """Seconds of the first call, compilation included, and of the fastest of some more."""
    times = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times[0], min(times[1:])


def solving(modes: int, units: int, end: float, lr: float, order: int, inputs: int, sigma: float = 0.01):
    spectrum = Spectrum.power_law(modes, 1.0)
    start = OrderParameters.draw(units, units, spectrum, inputs=inputs, sigma=sigma, seed=0)
    return lambda: solve(start, spectrum, lr, np.linspace(0, end, 50), order=order)


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
    growth = {
        "L (K=M=2)": [(n, timed(solving(n, 2, 3e4 / n, 0.1, 2, n), 1)[1]) for n in (64, 256, 1024)],
        "K=M (L=64, order 2)": [(n, timed(solving(64, n, 20, 0.1, 2, 64), 1)[1]) for n in (2, 4, 8)],
    }
    for name, points in growth.items():
        sizes, seconds = np.array(points).T
        slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
        print(f"time over {name}: power {slope:.2f}  {[(int(n), round(s, 4)) for n, s in points]}")
    if "--plot" in words:
        _plot(growth, Path(words[words.index("--plot") + 1]))


def _plot(growth: dict[str, list[tuple[int, float]]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.add_subplot()
    for name, points in growth.items():
        axes.loglog(*np.array(points).T, "o-", label=name)
    axes.set_xlabel("size")
    axes.set_ylabel("seconds for a fixed number of steps")
    axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    main(sys.argv[1:])
