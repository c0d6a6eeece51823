"""What the judges of the feature claims say about answers of every kind, without the runs."""

from __future__ import annotations

import pytest

from phasecast.claims.registry import check_of
from phasecast.core import Comparison, Measurement, Prediction, RecipeCheck
from phasecast.core.answers import Answer, Answers
from phasecast.core.claim import ClaimVerdict

pytestmark = pytest.mark.bare


def judged(claim: str, *answers: Answer) -> ClaimVerdict:
    check = check_of(claim)
    assert isinstance(check, RecipeCheck)
    return check.judge(Answers(answers)).verdict


def measured(id: str, value: float, **where: str | float) -> Answer:
    return Answer(id, Measurement(value, 0.1, error_kind="seeds"), "any label", where)


def compared(id: str, predicted: float, value: float, **where: str | float) -> Answer:
    return Answer(id, Comparison(Prediction(predicted), Measurement(value, 0.01, error_kind="seeds")), "any", where)


def test_grokking_is_late_moderately_above_the_threshold_only():
    late, prompt = measured("early-share", 0.6, delta=10.0), measured("early-share", 0.2, delta=50.0)
    assert judged("features/grokking", late, prompt) is ClaimVerdict.HOLDS
    below = measured("early-share", 0.5, delta=5.0)
    assert judged("features/grokking", below, late, prompt) is ClaimVerdict.NOT_REPRODUCED
    assert judged("features/grokking", late, measured("early-share", 0.6, delta=50.0)) is ClaimVerdict.NOT_REPRODUCED
    assert judged("features/grokking") is ClaimVerdict.NOT_REPRODUCED


def halves(small: float, large: float, star: float) -> list[Answer]:
    return [
        measured("half-success", small, activation="gelu", dimension=100),
        measured("half-success", large, activation="gelu", dimension=400),
        compared("half-success-limit", star, star, activation="gelu"),
    ]


def test_success_that_comes_early_and_rises_needs_a_correction():
    assert judged("features/predictive", *halves(4.9, 6.2, 9.5)) is ClaimVerdict.HOLDS_CORRECTED
    assert judged("features/predictive", *halves(8.9, 9.2, 9.5)) is ClaimVerdict.HOLDS
    assert judged("features/predictive", *halves(6.2, 4.9, 9.5)) is ClaimVerdict.NOT_REPRODUCED
    assert judged("features/predictive", *halves(4.9, 6.2, 9.5)[:2]) is ClaimVerdict.NOT_REPRODUCED


def test_an_outlier_above_the_threshold_alone():
    above = [compared("outlier", -0.2, -0.2, delta=10.0), compared("overlap2", 0.5, 0.5, delta=10.0)]
    assert judged("features/spectrum", *above) is ClaimVerdict.HOLDS
    below = compared("outlier", -0.2, -0.2, delta=3.0)
    assert judged("features/spectrum", *above, below) is ClaimVerdict.NOT_REPRODUCED
    off = compared("edge", -0.1, -0.2, delta=3.0)
    assert judged("features/spectrum", *above, off) is ClaimVerdict.NOT_REPRODUCED


def test_a_threshold_that_does_not_round_to_six():
    id = "threshold-beside-success"
    assert judged("features/gelu-six", compared(id, 9.5, 6.7, loss="pseudo-huber")) is ClaimVerdict.NOT_REPRODUCED
    assert judged("features/gelu-six", compared(id, 6.2, 6.2, loss="pseudo-huber")) is ClaimVerdict.HOLDS
    assert judged("features/gelu-six") is ClaimVerdict.NOT_REPRODUCED
