"""Which transition came first, where the intervals of their times tell?"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from phasecast.core.results import Status
from phasecast.grokking.analysis.transition import Transition


@dataclass(frozen=True)
class Ordering:
    """Transitions in the order of their times.

    ``names`` from first to last; ``pairs`` gives, between each two neighbours, ``"before"`` if the 95% intervals of all
    up to there end before those of all later ones begin, else ``"overlap"``; ``refused`` lists the curves without a
    transition.
    """

    names: tuple[str, ...]
    pairs: tuple[str, ...]
    refused: tuple[str, ...]

    def words(self) -> str:
        """One line, with < if one came first and ≈ if the 95% intervals overlap."""
        signs = [{"before": " < ", "overlap": " ≈ "}[pair] for pair in self.pairs]
        return "".join(itertools.chain.from_iterable(itertools.zip_longest(self.names, signs, fillvalue="")))


def in_order(transitions: Mapping[str, Transition]) -> Ordering:
    """Which transition came first, where the 95% intervals tell.

    "Before" holds for all transitions on its left and all on its right, so a wide interval anywhere takes it away.
    """
    located = {name: change for name, change in transitions.items() if change.status is not Status.REFUSED}
    names = sorted(located, key=lambda name: float(located[name]))
    lows, highs = ([getattr(located[name], end) for name in names] for end in ("low", "high"))
    pairs = ["before" if max(highs[:i]) < min(lows[i:]) else "overlap" for i in range(1, len(names))]
    return Ordering(tuple(names), tuple(pairs), tuple(name for name in transitions if name not in located))
