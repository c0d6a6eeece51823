"""How long thresholds, the limit and gradient descent take, compilation apart; run alone on the machine.

python benchmarks/features_speed.py [--quick] [--plot growth.svg]
"""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from phasecast.features.curvature.dmft import dmft
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import target
from phasecast.features.simulation.descent import draw_data, lowest_curvatures, walk
from phasecast.features.threshold import threshold

PSEUDO, RETRIEVAL = Network("gelu", "pseudo-huber"), target("z**2")


def timed(call: Callable[[], object], repeats: int = 3) -> tuple[float, float]:
    """Seconds of the first call, compilation included, and of the fastest of some more."""
    times = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times[0], min(times[1:], default=times[0])


def report(name: str, seconds: float, bar: float, more: str = "") -> None:
    print(f"{name}: {seconds:.3f} s (bar {bar:g} s) {'ok' if seconds < bar else 'MISSED'} {more}", flush=True)


def step_against_products(dimension: int, delta: float, steps: int) -> tuple[float, float]:
    """Seconds of a step of descent and of two products of X with a vector, medians, taken in turns."""
    data = draw_data(PSEUDO, RETRIEVAL, delta, dimension)
    theta, ones = data.theta.astype(np.float32), np.ones((len(data.X), 1), np.float32)
    each, products, last = [], [], None
    for t, _, _ in walk(data, 0.5, steps):
        now = time.perf_counter()
        if last is not None and t > 1:  # the first step compiles
            each.append(now - last)
        start = time.perf_counter()
        _ = data.X @ theta, data.X.T @ ones
        products.append(time.perf_counter() - start)
        last = time.perf_counter()
    return float(np.median(each)), float(np.median(products))


def main(words: list[str]) -> None:
    quick = "--quick" in words
    first, again = timed(lambda: threshold("z**2", "gelu", "pseudo-huber"))
    report("δ*(0), GeLU, z², pseudo-Huber, from cold", first, 2.0, f"again {again:.3f} s")
    first, again = timed(lambda: dmft(PSEUDO, RETRIEVAL, 8.0, 0.5, 20, samples=20_000))
    report("DMFT, N = 20000, T = 20", again, 3.0, f"first call {first:.1f} s")
    if not quick:
        start = time.perf_counter()
        found = threshold("z**2", "gelu", "pseudo-huber", time=math.inf)
        relative = float(np.asarray(found.error)) / float(np.asarray(found.estimate))
        report("δ_NN, GeLU, z², pseudo-Huber", time.perf_counter() - start, 180.0,
               f"{found.estimate:.3g} ± {found.error:.2g} ({relative:.1%}, bar 5%), {found.method}")  # fmt: skip
    dimension = 1000 if quick else 5000
    step, products = step_against_products(dimension, 17.5, 6)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    verdict = "ok" if step < 2 * products and peak < 6 else "MISSED"
    print(f"step at d = {dimension}, δ = 17.5: {step * 1e3:.0f} ms, two products {products * 1e3:.0f} ms: ratio "
          f"{step / products:.2f} (bar 2), peak {peak:.1f} GB (bar 6) {verdict}", flush=True)  # fmt: skip
    data = draw_data(PSEUDO, RETRIEVAL, 8.0, 600)
    print(f"lowest 2 eigenpairs, d = 600, δ = 8: {timed(lambda: lowest_curvatures(data, data.theta, 2))[1]:.2f} s")
    growth = {
        "N (T = 20)": [(n, timed(lambda n=n: dmft(PSEUDO, RETRIEVAL, 8.0, 0.5, 20, samples=n), 2)[1])
                       for n in (5_000, 20_000, 80_000)],
        "T (N = 20000)": [(t, timed(lambda t=t: dmft(PSEUDO, RETRIEVAL, 8.0, 0.5, t, samples=20_000), 2)[1])
                          for t in ((10, 20, 40) if quick else (10, 20, 40, 60))],
        "d (a step, δ = 8)": [(d, step_against_products(d, 8.0, 10)[0]) for d in (250, 500, 1000, 2000)],
    }  # fmt: skip
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
    axes.set_ylabel("seconds")
    axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    main(sys.argv[1:])
