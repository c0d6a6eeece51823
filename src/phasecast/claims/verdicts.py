"""What the checks of claims share."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.core.claim import ClaimVerdict
from phasecast.core.results import Comparison, Verdict


def integers(seed: int, *shape: int) -> np.ndarray:
    """Random integers without zeros, which would be special points."""
    rng = np.random.default_rng(seed)
    return rng.integers(1, 12, shape) * rng.choice([-1, 1], shape)


def verdict_of(printed: bool, corrected: bool = False) -> ClaimVerdict:
    """The verdict, from whether the printed and the corrected statement hold."""
    if printed:
        return ClaimVerdict.HOLDS
    return ClaimVerdict.HOLDS_CORRECTED if corrected else ClaimVerdict.DOES_NOT_HOLD


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
