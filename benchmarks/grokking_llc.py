"""How long does λ̂ along a training take? 100 checkpoints of the quadratic network, p = 53, K = 256; goal: 20 minutes.

python benchmarks/grokking_llc.py [checkpoints]
"""

from __future__ import annotations

import sys
import time

import numpy as np

import phasecast as pc
from phasecast.grokking import quadratic, split, task, train
from phasecast.grokking.training import centred_loss

GOAL = 20.0  # minutes
STEPS, FRACTION = 6000, 0.4


def main(many: int) -> None:
    table = task("addition", 53)
    network = quadratic(table, 256)
    asked = np.linspace(0, STEPS, many).round().astype(int)
    begun = time.monotonic()
    pieces = train(table, network, steps=STEPS, fraction=FRACTION, lr=1e-3, batch=128, checkpoints=asked)
    kept = {piece.step: piece.params() for piece in pieces if piece.at_checkpoint}
    trained = time.monotonic()
    rows = split(table, FRACTION, 0)[0]
    found = pc.llc_trajectory(
        kept,
        lambda params, data: centred_loss(network.apply(params, data[0]), data[1]),
        (table.tokens[rows].astype(np.int32), table.labels[rows].astype(np.int32)),
        nbeta=30.0,
        gamma=5.0,
        sampler="langevin",
    )
    minutes = (time.monotonic() - trained) / 60
    statuses = [str(one.status) for one in found.results]
    worst = max(float(one.error / one.estimate) for one in found.results if np.isfinite(one.estimate))
    print(
        f"training {STEPS} steps: {trained - begun:.0f} s; {len(rows)} rows, {found.results[0].gradients:.0f} gradients"
    )
    print(
        f"{len(kept)} checkpoints: {minutes:.1f} min, {60 * minutes / len(kept):.1f} s each; largest error {worst:.1%}"
    )
    print(", ".join(f"{statuses.count(kind)} {kind}" for kind in sorted(set(statuses))))
    share = minutes * 100 / len(kept) / GOAL
    print(
        f"100 checkpoints take {share:.2f} of the goal of {GOAL:.0f} minutes: {'reached' if share <= 1 else 'MISSED'}"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
