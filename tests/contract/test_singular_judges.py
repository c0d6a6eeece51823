"""What the judges of "Deep learning is singular, and that's good" say about answers of every kind, without the runs."""

from __future__ import annotations

import pytest

from phasecast.claims.registry import check_of
from phasecast.core import Comparison, Measurement, Prediction, RecipeCheck
from phasecast.core.answers import Answer, Answers
from phasecast.core.claim import ClaimVerdict
from phasecast.studies.posterior.printed_tables import PRINTED

pytestmark = pytest.mark.bare


def judged(claim: str, answers: list[Answer]) -> ClaimVerdict:
    check = check_of(claim)
    assert isinstance(check, RecipeCheck)
    return check.judge(Answers(answers)).verdict


def slopes(error: float = 1.0, **values: float) -> list[Answer]:
    """Answers of the recipe generalisation; methods with hyphens are written with underscores."""
    rows = {name.replace("_", "-"): Measurement(value, error, error_kind="datasets") for name, value in values.items()}
    return [
        Answer("slope", Comparison(Prediction(PRINTED["1a"][name][0]), one), "any label", {"method": name})
        for name, one in rows.items()
    ]


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({"map": 10.7, "last": 10.5, "laplace_last": 10.6}, ClaimVerdict.NOT_REPRODUCED),
        ({"map": 10.7, "last": 6.4, "laplace_last": 2000.0}, ClaimVerdict.HOLDS),
        ({"map": 10.7, "last": 10.5, "laplace_last": 2000.0}, ClaimVerdict.OPEN),
        ({"map": 30.0, "last": 30.0, "laplace_last": 30.0}, ClaimVerdict.OPEN),
    ],
    ids=["last as MAP", "last better", "Laplace far off", "MAP not as printed"],
)
def test_the_order_of_table_1(values, verdict):
    assert judged("singular/table-1", slopes(**values)) is verdict


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({"map": 10.0, "last": 7.0, "two": 9.0, "laplace_last": 50.0}, ClaimVerdict.HOLDS),
        ({"map": 10.0, "last": 12.0, "two": 9.0}, ClaimVerdict.NOT_REPRODUCED),
        ({"map": 10.0}, ClaimVerdict.NOT_REPRODUCED),
    ],
    ids=["all near", "one far", "one alone"],
)
def test_the_published_script_has_the_printed_slopes(values, verdict):
    assert judged("singular/table-1-script", slopes(**values)) is verdict


def coefficient(value: float, error: float, printed: float, m: int = 3, **phase: float) -> Answer:
    """An answer of the recipe rlct-relu."""
    measured = Measurement(value, error, diagnostics=phase)
    return Answer("lambda", Comparison(Prediction(printed, systematic=0.03), measured), "", {"true_units": m})


def test_table_2_is_contradicted_by_a_large_coefficient_and_not_by_a_vague_one():
    assert judged("singular/table-2", [coefficient(5.1, 0.1, 5.0)]) is ClaimVerdict.DOES_NOT_HOLD
    assert judged("singular/table-2", [coefficient(5.1, 1.0, 5.0)]) is ClaimVerdict.NOT_REPRODUCED
    assert judged("singular/table-2", [coefficient(0.5, 0.01, 5.0)]) is ClaimVerdict.NOT_REPRODUCED


@pytest.mark.parametrize(
    ("phase", "verdict"),
    [
        ({"excess": 40.0, "live_units": 0.1, "predictive_r2": 0.01}, ClaimVerdict.HOLDS),
        ({"excess": 0.5, "live_units": 0.1, "predictive_r2": 0.01}, ClaimVerdict.NOT_REPRODUCED),
        ({"excess": 40.0, "live_units": 3.0, "predictive_r2": 0.9}, ClaimVerdict.NOT_REPRODUCED),
    ],
    ids=["constant", "around the truth", "another phase"],
)
def test_the_estimates_of_table_2_are_of_the_constant_submodel(phase, verdict):
    answers = [coefficient(0.53, 0.01, 0.526, m, **phase) for m in (3, 4, 5)]
    assert judged("singular/table-2-estimates", answers) is verdict
