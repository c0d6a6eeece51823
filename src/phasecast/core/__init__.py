"""The words everything else is said in: problems, predictions, measurements, comparisons, claims, errors."""

from phasecast.core.claim import Claim, ClaimVerdict, Finding
from phasecast.core.precision import float64, in_float64
from phasecast.core.problem import Problem
from phasecast.core.results import Comparison, Measurement, Prediction, Result, Status, Verdict

__all__ = [
    "Claim",
    "ClaimVerdict",
    "Comparison",
    "Finding",
    "Measurement",
    "Prediction",
    "Problem",
    "Result",
    "Status",
    "Verdict",
    "float64",
    "in_float64",
]
