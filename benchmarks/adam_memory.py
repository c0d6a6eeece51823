"""Is Adam's second moment what the clock law says? √v̂ measured along trainings, beside √((1−β₂)β₂ᵗ/(1−β₂ᵗ)).

The law says that after memorisation √v̂ only forgets: its ratio to that curve stays where it was until the network
generalises. Printed per training: the ratio of the root mean square of √v̂ (and of its median over weights) to it,
relative to its value at twice train99, at shares of the wait; and the fitted decay rate of ln v̂ in units of that of the
curve. A ratio of 1 throughout confirms the mechanism; a ratio that grows says that later gradients feed v.

Found (p = 13 and 23, four settings each): from a tenth of the wait until val50 the ratio changes by at most 1.5%, and
ln v̂ decays at 0.99 to 1.00 times the rate of pure forgetting. Between twice train99 and a tenth of the wait the rms
grows by 0 to 14%: the last gradients of memorisation still arrive. So it is confirmed that v̂ only forgets. That the
drift lr·wd/√v̂ then decides when a network generalises does not follow from this: it takes a change of β₂.
"""

from __future__ import annotations

import argparse

import numpy as np

from phasecast.grokking import quadratic, task, train
from phasecast.grokking.analysis.curves import first_step_at
from phasecast.grokking.optimisers import BETA2

SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
SETTINGS = ((1e-3, 5e-5), (1e-3, 2e-4), (5e-3, 5e-5), (5e-3, 2e-4))


def measured(p: int, n: int, steps: int, every: int) -> None:
    table = task("addition", p)
    lr, decay = zip(*SETTINGS, strict=True)
    pieces = train(
        table,
        quadratic(table, 5 * p),
        steps=steps,
        count=n,
        lr=lr,
        weight_decay=decay,
        seeds=list(range(len(lr))),
        log_every=20,
        checkpoints=range(every, steps + 1, every),
    )
    marks, means, medians, curves = [], [], [], []
    for piece in pieces:
        curves.append(piece.curves)
        if not piece.at_checkpoint:
            continue
        second = piece.state["moments"][1]
        flat = np.concatenate([leaf.reshape(len(lr), -1) for leaf in second.values()], axis=1).astype(float)
        hat = flat / -np.expm1(piece.step * np.log(BETA2))
        marks.append(piece.step)
        means.append(np.sqrt(hat.mean(axis=1)))
        medians.append(np.median(np.sqrt(hat), axis=1))
    log = {name: np.concatenate([one[name] for one in curves]) for name in curves[0]}
    t = np.array(marks, dtype=float)
    curve = np.sqrt((1 - BETA2) * BETA2**t / -np.expm1(t * np.log(BETA2)))
    for member, (rate, weight_decay) in enumerate(SETTINGS):
        known = first_step_at(log["step"], log["train_accuracy"][:, member], 0.99)
        half = first_step_at(log["step"], log["validation_accuracy"][:, member], 0.5)
        if known is None or half is None:
            print(f"  lr {rate:g} wd {weight_decay:g}: no val50 within {steps} steps")
            continue
        wanted = [2 * known, *(known + share * (half - known) for share in SHARES)]
        row = []
        for values in (means, medians):
            ratio = np.interp(wanted, t, np.log(np.array(values)[:, member] / curve))
            row.append(" ".join(f"{value:5.2f}" for value in np.exp(ratio[1:] - ratio[0])))
        inside = (t >= 2 * known) & (t <= half)
        slope = np.polyfit(t[inside], 2 * np.log(np.array(means)[inside, member]), 1)[0]
        exact = np.polyfit(t[inside], 2 * np.log(curve[inside]), 1)[0]
        print(
            f"  lr {rate:g} wd {weight_decay:g}: train99 {known}, val50 {half}; rms {row[0]} | median {row[1]}"
            f" | decay of v̂ {slope / exact:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one small modulus")
    chosen = parser.parse_args()
    print("√v̂ over its curve, relative to twice train99, at shares of the wait", *(f"{share:.0%}" for share in SHARES))
    for p, n, steps in ((13, 100, 6000),) if chosen.quick else ((13, 100, 6000), (23, 216, 6000)):
        print(f"p = {p}, N = {n}")
        measured(p, n, steps, every=50 if chosen.quick else 20)


if __name__ == "__main__":
    main()
