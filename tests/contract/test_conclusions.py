"""What a study concludes: its status follows from its comparisons, and theory is not shown as measured."""

from __future__ import annotations

import pytest

from phasecast.core.answers import Answer
from phasecast.core.results import Comparison, Measurement, Prediction, Status
from phasecast.lab.recipe import Conclusion, Row
from phasecast.report.rendering import answer_cells
from phasecast.report.sweep_page import _over_runs

AGREES = Comparison(Prediction(1.0), Measurement(1.01, 0.01, error_kind="seeds"))
DIFFERS = Comparison(Prediction(1.0), Measurement(2.0, 0.01, error_kind="seeds"))
VAGUE = Comparison(Prediction(3.85), Measurement(14.0, 10.0, error_kind="seeds"))
REFUSED = Measurement.refused("too short; take longer", error_kind="seeds")


@pytest.mark.parametrize(
    ("results", "status", "caution"),
    [
        ([AGREES, AGREES], Status.OK, ""),
        ([AGREES, DIFFERS, DIFFERS], Status.WARNING, "2 of 3 comparisons differ."),
        ([AGREES, VAGUE], Status.OK, ""),
        ([DIFFERS, REFUSED], Status.REFUSED, "1 of 1 comparisons differ."),
    ],
)
def test_a_study_with_a_differing_comparison_is_not_ok(results, status, caution):
    conclusion = Conclusion([Answer("number", one, where={"at": at}) for at, one in enumerate(results)])
    assert conclusion.status is status
    assert conclusion.caution == caution


def test_theory_is_shown_as_predicted():
    solved = Measurement(2.31, 0.16, error_kind="resolution")
    row = Row.of(Answer("delta-star", solved, theory=True))
    assert (row.predicted, row.measured, row.verdict) == ("2.31 ± 0.16", "", "ok")
    both = Row.of(Answer("height", Comparison(Prediction(2.2), solved), theory=True))
    assert (both.predicted, both.measured, both.verdict) == ("2.2; solved: 2.31 ± 0.16", "", "agrees")
    for one in (row, both):
        assert answer_cells(one)["measured"] == answer_cells(one)["kind"] == ""
    (line,) = _over_runs([[row], [row]])
    assert (line["measured"], line["predicted"]) == ("", "2.31 … 2.31 over 2 runs")
    assert Row.of(Answer("number", AGREES)).measured == "1.010 ± 0.010"


def test_a_script_can_tell_theory_from_measurement():
    assert Answer("delta-star", Measurement(2.31, 0.16), theory=True).plain()["theory"] is True
    assert "theory" not in Answer("number", AGREES).plain()
