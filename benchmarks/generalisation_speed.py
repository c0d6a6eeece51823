"""How long a whole panel of Tables 1 and 3-5 takes, compilation included, and what it finds; run alone on the machine.

python benchmarks/generalisation_speed.py [--table 1a] [--datasets 30] [--protocol corrected] [--quick]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from phasecast.posterior.last_layers.generalisation import PAPER_SIZES, curves, describe_setting, study, table_setting

BAR = 15 * 60.0  # seconds for 10 sizes and 30 datasets on two cores


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--table", default="1a")
    words.add_argument("--protocol", default="corrected")
    words.add_argument("--datasets", type=int, default=30)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--quick", action="store_true", help="the smallest and the largest size alone")
    given = words.parse_args()
    sizes = (PAPER_SIZES[0], PAPER_SIZES[-1]) if given.quick else PAPER_SIZES
    setting = table_setting(given.table, protocol=given.protocol)
    print(f"{describe_setting(setting)}; n = {sizes}, {given.datasets} datasets")
    start = time.perf_counter()
    parts = list(study(setting, sizes, given.datasets, seed=given.seed, at_once=5))
    seconds = time.perf_counter() - start
    found = curves(setting, sizes, {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]})
    print(f"{seconds:.0f} s (bar {BAR:.0f} s for all sizes and 30 datasets) {'ok' if seconds < BAR else 'MISSED'}")
    for curve in found.values():
        scaled = [f"{n * g:.2f} ± {n * e:.2f}" for n, g, e in zip(sizes, curve.estimate, curve.error, strict=True)]
        print(f"{curve.name:26} {curve.status!s:8} nG: {', '.join(scaled)}")
        if len(sizes) > 2:
            slope = curve.slope(intercept=not setting.realisable)
            print(f"{'':26} slope {slope.estimate:.3g} ± {slope.error:.2g}, R² {slope.diagnostics['r_squared']:.3f}")
        for note in (*curve.reasons, *(f"{key} {value:.3g}" for key, value in curve.diagnostics.items())):
            print(f"{'':26} {note}")
    for name in ("last", "two", "laplace-last"):
        less = found[name].less(found["map"])
        shown = [f"{n * g:+.2f} ± {n * e:.2f}" for n, g, e in zip(sizes, less.estimate, less.error, strict=True)]
        print(f"nG, {found[name].name} less MAP: {', '.join(shown)}")


if __name__ == "__main__":
    main()
