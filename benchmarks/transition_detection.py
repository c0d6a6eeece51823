"""Does `transition` find the transitions of random curves, and only those? Does its interval hold?

python benchmarks/transition_detection.py                       200 curves of each sort, seed 1
python benchmarks/transition_detection.py --seed 2 --curves 400  others

The curves are those of `phasecast.studies.arena.transitions`: twelve kinds without a transition, six shapes with one,
five sorts of noise, four samplings. Claimed, written before running: of the curves without a transition at most 2% are
accepted; of those with one at least 90% are accepted, and at least 90% of their intervals hold the true time. The
policy of `transition` was chosen on seeds from 1000 on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np

from phasecast.core.results import Status
from phasecast.grokking.analysis.transition import Transition, transition
from phasecast.studies.arena.transitions import KINDS, Curve, with_transition, without_transition

Judged = tuple[Curve, Transition]


def curves(seed: int, count: int) -> tuple[list[Curve], list[Curve]]:
    """Curves without a transition, all kinds in turn, and curves with one."""
    kinds = list(KINDS)
    without = [
        without_transition(np.random.default_rng([seed, 0, number]), kinds[number % len(kinds)])
        for number in range(count)
    ]
    return without, [with_transition(np.random.default_rng([seed, 1, number])) for number in range(count)]


def accepted(judged: Sequence[Judged]) -> list[Judged]:
    return [(curve, found) for curve, found in judged if found.status is not Status.REFUSED]


def held(judged: Sequence[Judged]) -> int:
    """How many intervals hold the true time."""
    return sum(found.low <= curve.truth <= found.high for curve, found in judged)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--curves", type=int, default=200, help="of each sort")
    options = parser.parse_args()
    without, real = curves(options.seed, options.curves)
    began = time.process_time()
    nothing, something = (
        [(curve, transition(curve.steps, curve.values)) for curve in part] for part in (without, real)
    )
    spent = (time.process_time() - began) / (2 * options.curves)
    print(
        f"seed {options.seed}: {options.curves} curves without a transition\n{'kind':24}{'curves':>8}{'accepted':>10}"
    )
    for kind in KINDS:
        of_kind = [one for one in nothing if one[0].kind == kind]
        print(f"{kind:24}{len(of_kind):8}{len(accepted(of_kind)):10}")
    print(f"\n{options.curves} curves with one\n{'':24}{'curves':>8}{'found':>10}{'held':>8}")
    for part, number in (("shape", 0), ("noise", 1)):
        for label in sorted({curve.kind.split(", ")[number] for curve in real}):
            of_kind = [one for one in something if one[0].kind.split(", ")[number] == label]
            located = accepted(of_kind)
            print(f"{label:24}{len(of_kind):8}{len(located):10}{held(located):8}")
        print(f"{'all, by ' + part:24}{len(something):8}{len(accepted(something)):10}{held(accepted(something)):8}")
    located = accepted(something)
    print(f"\naccepted without a transition {len(accepted(nothing)) / len(nothing):.1%} (claimed ≤ 2%)")
    print(f"found {len(located) / len(something):.1%} (claimed ≥ 90%)")
    print(f"intervals that hold the true time {held(located) / max(1, len(located)):.1%} (claimed ≥ 90%)")
    print(f"{1e3 * spent:.0f} ms of processor time per curve")


if __name__ == "__main__":
    main()
