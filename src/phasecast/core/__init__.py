"""Types shared by everything: problems, predictions, measurements, comparisons, answers, policies, claims, errors."""

from phasecast.core.claim import Claim, ClaimVerdict, Finding, RecipeCheck
from phasecast.core.precision import float64
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
    "RecipeCheck",
    "Result",
    "Status",
    "Verdict",
    "float64",
]
