"""How many examples until nine of ten runs find the direction: what theory plans, and gradient descent at finite d.

Run ``python benchmarks/feature_plans.py`` (ten minutes or more); ``--dimensions 100 --seeds 4 --targets "z**2"`` for a
quick look; ``--skip-limit`` leaves out δ_NN, which takes minutes per target.

The plan is for d → ∞, where success has a sharp threshold in δ = n/d: n₉₀ and n₅₀ are then both δ·d. Three are
planned: δ*(0), δ*(20) and δ_NN. Runs are gradient descent within T(d) = 50 ln(d)/η steps (GeLU unit, pseudo-Huber
loss, η = 0.5), at δ in steps of a fifth from 0.8 δ*(0) on, until two δ in a row succeed with every seed. Their share
is logistic in ln δ, which gives n₉₀ between the δ tried; its error is by bootstrap over runs.

Found with ``--seeds 8 --skip-limit`` (three minutes): n₉₀ is 1.5 to 5.2 times n at δ*(0), 1.3 to 2.2 times n at δ*(20).
The table is in docs/forecasting.md.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from phasecast.core.results import Status
from phasecast.features import Network, half_success, successes, threshold
from phasecast.forecasting.planning.theory import late_success

TARGETS = ("z**2", "abs(z)", "tanh(2*z)**2")
DIMENSIONS = (100, 200, 400)
LR, RATIO, FIRST, MOST = 0.5, 1.2, 0.8, 18.0  # η; of neighbouring δ; first and last δ in units of δ*(0)


def simulated(target: str, dimension: int, seeds: int, first: float) -> tuple[np.ndarray, np.ndarray]:
    """The δ tried and the numbers of successes."""
    network, deltas, won = Network("gelu", "pseudo-huber"), [], []
    for delta in np.geomspace(FIRST * first, MOST * first, round(math.log(MOST / FIRST) / math.log(RATIO)) + 1):
        steps = successes(network, target, float(delta), LR, dimension=dimension, seeds=seeds, progress=False)
        deltas.append(float(delta))
        won.append(int(np.isfinite(steps).sum()))
        if won[-2:] == [seeds, seeds]:
            break
    return np.array(deltas), np.array(won)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--targets", nargs="*", default=TARGETS)
    parser.add_argument("--dimensions", type=int, nargs="*", default=DIMENSIONS)
    parser.add_argument("--seeds", type=int, default=10, help="runs at each δ")
    parser.add_argument("--skip-limit", action="store_true", help="without δ_NN")
    chosen = parser.parse_args()
    times = (0.0, 20.0) if chosen.skip_limit else (0.0, 20.0, math.inf)
    for target in chosen.targets:
        plans = [threshold(target, lr=LR, time=time, progress=False) for time in times]
        words = ", ".join(
            f"{name} = {float(np.asarray(one.estimate)):.3g} ({one.status})"
            for name, one in zip(("δ*(0)", "δ*(20)", "δ_NN"), plans, strict=False)
        )
        print(f"{target}: {words}", flush=True)
        known = np.array([float(np.asarray(one.estimate)) for one in plans])
        for dimension in chosen.dimensions:
            deltas, won = simulated(target, dimension, chosen.seeds, float(known[0]))
            half = half_success(deltas, won, np.full(len(deltas), chosen.seeds))
            if half.status is Status.REFUSED:
                print(f"  d = {dimension}: {'; '.join(half.reasons)}", flush=True)
                continue
            late, error = late_success(deltas, half, chosen.seeds)
            ratios = " ".join(f"{late / one:.2f}" for one in known)
            print(
                f"  d = {dimension}: n₅₀ = {float(half) * dimension:.0f} ± {float(half.error) * dimension:.0f}, n₉₀ = "
                f"{late * dimension:.0f} ± {error * dimension:.0f} (δ₉₀ = {late:.2f}); planned "
                f"{' '.join(f'{one * dimension:.0f}' for one in known)}; n₉₀ over planned {ratios}; "
                f"successes {' '.join(map(str, won))}",
                flush=True,
            )


if __name__ == "__main__":
    main()
