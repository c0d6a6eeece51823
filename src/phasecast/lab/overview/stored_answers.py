"""What did a run conclude, without its recipe? The answers in ``status.json``, as rows and as one number."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from phasecast.core.answers import Answer
from phasecast.core.errors import BadInput
from phasecast.core.results import Comparison, Measurement, Prediction, Result, Status, show
from phasecast.lab.recipe import Row


def stored_rows(summary: Mapping[str, Any]) -> list[Row]:
    """The answers of a stored conclusion as rows of a table, with the verdicts that were stored.

    What does not have the form of an answer is left out: a summary may come from somebody else.
    """
    rows = []
    for number, answer in enumerate(_answers(summary)):
        with contextlib.suppress(BadInput, ValueError, TypeError, KeyError, AttributeError):
            rows.append(_row(answer, number))
    return rows


def key_number(summary: Mapping[str, Any]) -> str:
    """The answer that the recipe names as its key, else the first that is a number, in words.

    Of measured ones it is the first that is not refused, if there is one.
    """
    refused, key = "", summary.get("key")
    for answer in sorted(_answers(summary), key=lambda answer: answer.get("id") != key if key else False):
        measured = answer.get("measurement", answer)
        if not isinstance(measured, Mapping) or not _is_number(measured.get("estimate", measured.get("value_float"))):
            continue
        label = str(answer.get("label", ""))
        if measured.get("status") == "refused":
            refused = refused or f"{label} refused"
            continue
        error = measured.get("error", measured.get("systematic"))
        return f"{label} {show(measured.get('estimate', measured.get('value_float')), _number(error, 0.0))}"
    numbers = summary.get("numbers") or {}
    return refused or next((f"{name} {value:.6g}" for name, value in numbers.items() if _is_number(value)), "")


def _answers(summary: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    answers = summary.get("answers") or ()
    if isinstance(answers, Mapping):  # release 0.1.0 had them by label
        answers = [{**answer, "label": label} for label, answer in answers.items() if isinstance(answer, Mapping)]
    return (answer for answer in answers if isinstance(answer, Mapping))


def _row(answer: Mapping[str, Any], number: int) -> Row:
    result, verdict = _result(answer), answer.get("verdict")
    stored = Answer(str(answer.get("id") or f"answer-{number}"), result, str(answer.get("label", "")),
                    dict(answer.get("where") or {}), bool(answer.get("theory", False)))  # fmt: skip
    row = Row.of(stored)
    return replace(row, verdict=str(verdict)) if verdict is not None else row


def _result(answer: Mapping[str, Any]) -> Result:
    if "measurement" in answer:
        return Comparison(_prediction(answer["prediction"]), _measurement(answer["measurement"]))
    return _measurement(answer) if "estimate" in answer else _prediction(answer)


def _prediction(facts: Mapping[str, Any]) -> Prediction:
    value = facts["value"]
    exact = Fraction(value) if isinstance(value, str) else _numbers(value)
    width = np.nan_to_num(_numbers(facts.get("systematic"), 0.0))
    words = (str(facts.get(name, "")) for name in ("regime", "source"))
    return Prediction(exact, *words, systematic=width, kind=str(facts.get("kind", "exact")))


def _measurement(facts: Mapping[str, Any]) -> Measurement:
    reasons = [str(reason) for reason in facts.get("reasons") or ()]
    if not reasons and facts["status"] != "ok":
        reasons = ["no reason was stored"]
    return Measurement(_numbers(facts.get("estimate")), _numbers(facts.get("error")), Status(facts["status"]),
                       error_kind=str(facts.get("error_kind", "mcse")), reasons=reasons)  # fmt: skip


def _numbers(value: object, missing: float = math.nan) -> Any:
    """A stored number or list of numbers; null is NaN, as what was stored as null was not finite."""
    if isinstance(value, list):
        return np.asarray([_numbers(item, missing) for item in value], dtype=float)
    if isinstance(value, str):
        return float(Fraction(value))
    return missing if value is None else value


def _number(value: object, missing: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else missing


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
