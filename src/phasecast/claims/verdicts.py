"""What does a check say about a claim? One rule from what passed to a verdict, and what the checks share."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.core.claim import ClaimVerdict, Finding
from phasecast.core.results import Comparison, Verdict


def integers(seed: int, *shape: int) -> np.ndarray:
    """Random integers without zeros, which would be special points."""
    rng = np.random.default_rng(seed)
    return rng.integers(1, 12, shape) * rng.choice([-1, 1], shape)


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


def exact_value(coefficient: Coefficient) -> Fraction:
    """λ as a Fraction, for arithmetic."""
    return Fraction(coefficient.value)  # pyright: ignore[reportArgumentType, reportCallIssue]


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
