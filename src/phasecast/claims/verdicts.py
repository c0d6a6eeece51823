"""What does a check say about a claim? One rule from what passed to a verdict, and what the checks share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from phasecast.core.claim import ClaimVerdict, Finding
from phasecast.core.results import Comparison, Verdict


def verdict_of(printed: bool, corrected: bool | None = None, *, experiment: bool = False) -> ClaimVerdict:
    """The verdict on a claim, by one rule for all papers.

    =========================================== =======================
    the printed statement passes its check      holds
    it fails, and our correction passes         holds with a correction
    it fails, and our correction fails too      not reproduced
    it fails, we have no correction             does not hold
    the same, and the check is an experiment    not reproduced
    =========================================== =======================

    An experiment that fails shows that we could not reproduce a result, not that it is false.
    """
    if printed:
        return ClaimVerdict.HOLDS
    if corrected is None:
        return ClaimVerdict.NOT_REPRODUCED if experiment else ClaimVerdict.DOES_NOT_HOLD
    return ClaimVerdict.HOLDS_CORRECTED if corrected else ClaimVerdict.NOT_REPRODUCED


def finding(
    words: str,
    comparisons: Sequence[Comparison] = (),
    *,
    printed: bool,
    corrected: bool | None = None,
    experiment: bool = False,
) -> Finding:
    """What a check found: the verdict by :func:`verdict_of`, a sentence, and the comparisons behind it."""
    return Finding(verdict_of(printed, corrected, experiment=experiment), words, tuple(comparisons))


def undecided(words: str, comparisons: Sequence[Comparison] = ()) -> Finding:
    """A check that ran and cannot decide either way: the claim stays open."""
    return Finding(ClaimVerdict.OPEN, words, tuple(comparisons))


def exact_finding(rows: Iterable[tuple[str, int, int]], corrected: bool | None = None) -> Finding:
    """What exact numbers say of printed ones: rows (case, printed, exact), and whether our version is exact."""
    rows = list(rows)
    sentence = "; ".join(f"{case}: printed {printed}, exact {exact}" for case, printed, exact in rows)
    return finding(sentence, printed=all(printed == exact for _, printed, exact in rows), corrected=corrected)


def all_agree(comparisons: Sequence[Comparison]) -> bool:
    """Whether every measurement agrees with its prediction."""
    return all(comparison.verdict is Verdict.AGREES for comparison in comparisons)


def shown(comparisons: Sequence[Comparison]) -> str:
    """Comparisons in words."""
    return "; ".join(
        f"{c.name}: {float(np.asarray(c.measurement.estimate)):.4g} ± {float(np.max(c.measurement.error)):.1g}, "
        f"predicted {c.prediction.value}"
        for c in comparisons
    )
