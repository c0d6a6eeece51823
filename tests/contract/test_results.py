"""Predictions, measurements and comparisons: what they say, print, refuse, and that JSON keeps all of it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from phasecast.coefficients import Coefficient
from phasecast.core import Comparison, Measurement, Prediction, Result, Status, Verdict, codec
from phasecast.core.errors import BadInput, NewerVersion, OutsideRegime, Refused
from phasecast.core.results import NOT_STORED

pytestmark = pytest.mark.bare

numbers = st.floats(allow_nan=True, allow_infinity=True) | st.fractions() | st.integers()
arrays = hnp.arrays(
    st.sampled_from([np.float64, np.float32, np.int64, np.uint8, np.bool_, np.complex128, np.dtype("U3")]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
leaves = st.none() | st.booleans() | st.text() | numbers | st.complex_numbers() | arrays
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)


def same(left, right) -> bool:
    """Equal bit for bit, NaN equal to NaN, 0.0 and −0.0 different."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    if isinstance(left, float):
        return repr(left) == repr(right)
    if isinstance(left, complex):
        return same(left.real, right.real) and same(left.imag, right.imag)
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def _canonical(tree):
    """NaN has many bit patterns and text only one; arrays are compared after writing the common one."""
    if isinstance(tree, np.ndarray) and tree.dtype.kind in "fc":
        parts = [tree.real, tree.imag] if tree.dtype.kind == "c" else [tree]
        clean = [np.where(np.isnan(part), np.float64(math.nan).astype(part.dtype), part) for part in parts]
        if tree.dtype.kind == "f":
            return clean[0]
        whole = np.empty(tree.shape, tree.dtype)
        whole.real, whole.imag = clean
        return whole
    if isinstance(tree, dict):
        return {key: _canonical(item) for key, item in tree.items()}
    return type(tree)(map(_canonical, tree)) if isinstance(tree, list | tuple) else tree


@given(trees)
def test_every_tree_of_values_survives_json_exactly(tree):
    import json

    again = codec.decode(json.loads(json.dumps(codec.encode(tree), allow_nan=False)))
    assert same(_canonical(tree), _canonical(again))


@given(numbers | hnp.arrays(np.float64, 3), st.floats(min_value=0), st.dictionaries(st.text(), leaves), st.text())
def test_a_measurement_survives_json_exactly(value, error, diagnostics, name):
    measured = Measurement(value, error, Status.WARNING, diagnostics, reasons=["why: what to do"], name=name)
    again = Measurement.from_json(measured.to_json())
    assert again == measured
    assert same(_canonical(again.estimate), _canonical(measured.estimate))


@given(numbers, st.floats(min_value=0), st.text(), st.sampled_from(Prediction.KINDS))
def test_a_prediction_survives_json_exactly(value, systematic, words, kind):
    predicted = Prediction(value, words, words, systematic, kind)
    assert Prediction.from_json(predicted.to_json()) == predicted


def test_a_comparison_survives_json_with_the_kinds_of_its_parts():
    compared = Comparison(
        Coefficient(Fraction(7, 2), multiplicity=2), Measurement(np.array([1.0, math.nan]), 0.1), name="λ"
    )
    again = Result.from_json(compared.to_json())
    assert again == compared
    assert isinstance(again, Comparison)
    assert isinstance(again.prediction, Coefficient)


def test_zero_dimensional_and_float32_values_keep_their_type():
    values: tuple[Any, ...] = (np.float32(0.1), np.array(2.5), np.int8(3))
    for value in values:
        again = Measurement.from_json(Measurement(value, 0.0).to_json())
        assert np.asarray(again.estimate).dtype == np.asarray(value).dtype


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "not a phasecast result"),
        ('{"type": "Measurement"}', "not a phasecast result"),
        ('{"type": "Nonsense", "format": 1, "fields": {}}', "unknown result type 'Nonsense'"),
    ],
)
def test_what_is_not_a_result_is_bad_input(text, words):
    with pytest.raises(BadInput, match=words):
        Result.from_json(text)


def test_a_result_of_a_newer_phasecast_is_named_so():
    text = Prediction(1.0).to_json().replace('"format": 1', '"format": 99')
    with pytest.raises(NewerVersion, match="upgrade"):
        Prediction.from_json(text)


def test_a_measurement_is_not_read_as_a_prediction():
    with pytest.raises(BadInput, match="is a Measurement, not a Prediction"):
        Prediction.from_json(Measurement(1.0, 0.1).to_json())


def test_the_value_of_a_refused_measurement_raises_and_the_estimate_does_not():
    refused = Measurement(3.0, 0.1, Status.REFUSED, reasons=["R-hat is 1.3: run longer"])
    assert refused.estimate == 3.0
    with pytest.raises(Refused, match="R-hat"):
        _ = refused.value
    plain = refused.plain()
    assert plain["value"] is None
    assert plain["estimate"] == 3.0


def test_a_kind_of_measurement_with_fields_of_its_own_is_refused_and_stored_like_any_other():
    @dataclass(frozen=True, eq=False, kw_only=True)
    class Curved(Measurement):
        curve: tuple[float, ...] = ()

    @dataclass(frozen=True, eq=False)
    class Careless(Measurement):
        curve: tuple[float, ...] = ()

    curved = Curved(1.0, 0.1, Status.REFUSED, reasons=["no: do"], curve=(1.0, 2.0))
    for result in (curved, Careless(1.0, 0.1, Status.REFUSED, reasons=["no: do"])):
        with pytest.raises(Refused):
            _ = result.value
    assert Result.from_json(curved.to_json()) == curved
    assert Curved(1.0, 0.1).curve == ()
    with pytest.raises(TypeError, match="colour"):
        Curved(1.0, 0.1, colour="red")  # pyright: ignore[reportCallIssue] - what is tested


def test_a_measurement_is_an_ordinary_dataclass():
    measured = Measurement(1.0, 0.1, error_kind="seeds", name="λ")
    assert dataclasses.replace(measured, error=0.2) == Measurement(1.0, 0.2, error_kind="seeds", name="λ")
    assert float(measured) == 1.0
    assert float(Prediction(Fraction(1, 2))) == 0.5


def test_a_refusal_has_one_factory():
    refused = Measurement.refused("R-hat is 1.3: run longer", error_kind="mcse", name="λ")
    assert refused.status is Status.REFUSED
    assert refused.reasons == ("R-hat is 1.3: run longer",)
    with pytest.raises(Refused, match="R-hat"):
        float(refused)


def test_what_is_kept_in_memory_only_is_neither_stored_nor_compared():
    @dataclass(frozen=True, eq=False, kw_only=True)
    class WithChains(Measurement):
        chains: object = field(default=None, repr=False, compare=False, metadata=NOT_STORED)

    kept = WithChains(1.0, 0.1, chains=object())
    assert Result.from_json(kept.to_json()) == kept
    assert "chains" not in kept.to_json()


def test_the_policy_that_judged_is_recorded():
    measured = Measurement(1.0, 0.1, policy={"name": "SomePolicy", "largest_rhat": 1.01})
    assert measured.plain()["policy"]["largest_rhat"] == 1.01
    assert Result.from_json(measured.to_json()) == measured


@pytest.mark.parametrize(
    ("prediction", "measurement", "scale", "verdict"),
    [
        (Prediction(3.85), Measurement(14.0, 10.0), None, Verdict.INCONCLUSIVE),
        (Prediction(3.85, systematic=0.27), Measurement(3.9, 0.1), None, Verdict.AGREES),
        (Prediction(3.85), Measurement(14.0, 1.0), None, Verdict.DIFFERS),
        (Prediction(3.85, kind="upper-bound"), Measurement(2.0, 10.0), None, Verdict.INCONCLUSIVE),
        (Prediction(0.0), Measurement(0.1, 0.2), None, Verdict.AGREES),  # 0 has no size to compare the error with
        (Prediction(0.0), Measurement(0.1, 0.2), 0.5, Verdict.INCONCLUSIVE),
        (Prediction(np.array([1.0, 0.0])), Measurement(np.array([1.0, 0.1]), 0.1), None, Verdict.AGREES),  # falls to 0
    ],
)
def test_a_comparison_that_cannot_tell_is_inconclusive(prediction, measurement, scale, verdict):
    assert Comparison(prediction, measurement, scale=scale).verdict is verdict


def test_two_kinds_of_result_cannot_share_a_name():
    with pytest.raises(TypeError, match="use another name"):
        type("Coefficient", (Prediction,), {"__module__": "somewhere.else"})


def test_lists_are_arrays():
    rows: Any = ([1, 2], [1.1, 2.2], [0.1, 0.1])  # not what the annotations promise
    compared = Comparison(Prediction(rows[0]), Measurement(rows[1], rows[2]))
    assert compared.verdict is Verdict.AGREES
    assert "combined errors" in str(compared)


def test_a_refusal_without_a_reason_cannot_be_made():
    with pytest.raises(BadInput, match="needs a reason"):
        Measurement(3.0, 0.1, Status.REFUSED)


@pytest.mark.parametrize(
    ("prediction", "measurement", "verdict"),
    [
        (Prediction(Fraction(1, 2)), Measurement(0.51, 0.01), Verdict.AGREES),
        (Prediction(Fraction(1, 2)), Measurement(0.56, 0.01), Verdict.DIFFERS),
        (Prediction(42.0, systematic=2.0), Measurement(40.5, 0.2), Verdict.AGREES),
        (Prediction(42.0), Measurement(40.5, 0.2), Verdict.DIFFERS),
        (Prediction(5, kind="upper-bound"), Measurement(1.0, 0.1), Verdict.BOUND_RESPECTED),
        (Prediction(5, kind="upper-bound"), Measurement(6.0, 0.1), Verdict.DIFFERS),
        (Prediction(5, kind="lower-bound"), Measurement(6.0, 0.1), Verdict.BOUND_RESPECTED),
        (Prediction(5, kind="lower-bound"), Measurement(4.9, 0.1), Verdict.BOUND_RESPECTED),
        (Prediction(5, kind="lower-bound"), Measurement(4.0, 0.1), Verdict.DIFFERS),
        (Prediction(2), Measurement(2, 0.0), Verdict.AGREES),
        (Prediction(2), Measurement(2.1, 0.0), Verdict.DIFFERS),
        (Prediction(2), Measurement(2.0, 0.1, Status.REFUSED, reasons=["no: do"]), Verdict.NOT_COMPARABLE),
        (Prediction(2), Measurement(math.nan, 0.1), Verdict.NOT_COMPARABLE),
        (Prediction(2), Measurement(math.inf, 0.1), Verdict.NOT_COMPARABLE),
        (Prediction(2), Measurement(2.0, math.nan), Verdict.NOT_COMPARABLE),
        (Prediction(np.array([1.0, 2.0])), Measurement(np.array([1.1, 2.0]), 0.1), Verdict.AGREES),
        (Prediction(np.array([1.0, 2.0])), Measurement(np.array([1.1, 3.0]), 0.1), Verdict.DIFFERS),
        (Prediction(np.array([1.0, 2.0])), Measurement(np.ones(3), 0.1), Verdict.NOT_COMPARABLE),
        (Prediction(np.array([])), Measurement(np.array([]), 0.1), Verdict.NOT_COMPARABLE),
    ],
)
def test_the_verdict_of_a_comparison(prediction, measurement, verdict):
    assert Comparison(prediction, measurement).verdict is verdict


def test_the_distance_is_in_combined_errors():
    assert Comparison(Prediction(1.0, systematic=0.3), Measurement(2.0, 0.4)).distance == pytest.approx(2.0)


def test_results_print_as_a_small_table():
    text = str(
        Comparison(
            Coefficient(Fraction(1, 2), regime="ε → 0", source="theory", multiplicity=2),
            Measurement(0.5003, 0.0011, diagnostics={"blocks": 32}),
            name="λ of x²y²",
        )
    )
    assert text.splitlines() == [
        "λ of x²y²",
        "  predicted  1/2, m = 2",
        "  regime     ε → 0",
        "  source     theory",
        "  measured   0.5003 ± 0.0011 (mcse)",
        "  status     ok",
        "  blocks     32",
        "  verdict    agrees (+0.3 combined errors)",
    ]


@pytest.mark.parametrize("value", [0, 1e9, 1e-30, math.nan, math.inf, np.arange(7.0), np.array(3), np.float32(2)])
@pytest.mark.parametrize("error", [0.0, 1e-300, 0.3, 1e8, math.inf, math.nan])
def test_every_value_and_error_can_be_printed(value, error):
    assert str(Measurement(value, error))


def test_bad_kinds_errors_and_widths_are_refused():
    with pytest.raises(BadInput, match="exact, upper-bound, lower-bound"):
        Prediction(1.0, kind="guess")
    with pytest.raises(BadInput, match="mcse, seeds"):
        Measurement(1.0, 0.1, error_kind="gut")
    with pytest.raises(BadInput, match="negative"):
        Measurement(1.0, -0.1)
    with pytest.raises(BadInput, match="negative"):
        Prediction(1.0, systematic=-1)
    with pytest.raises(BadInput, match="ok, warning, refused"):
        Measurement(1.0, 0.1, "fine")  # pyright: ignore[reportArgumentType] - what is tested


def test_a_prediction_without_a_finite_size_form_says_so():
    with pytest.raises(OutsideRegime, match="systematic width"):
        Prediction(1.0).at(nbeta=100.0)


def test_plain_json_has_null_for_what_is_not_finite():
    assert Measurement(math.inf, math.nan).plain() | {} == {
        "name": "",
        "value": None,
        "estimate": None,
        "error": None,
        "error_kind": "mcse",
        "status": "ok",
        "reasons": [],
        "diagnostics": {},
    }


def test_what_json_cannot_keep_is_named():
    with pytest.raises(BadInput, match="a set cannot be stored"):
        Measurement(1.0, 0.1, diagnostics={"seen": {1, 2}}).to_json()
