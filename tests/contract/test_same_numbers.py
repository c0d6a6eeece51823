"""The same seeds give the numbers of release 0.1.0."""

from __future__ import annotations

import json
import math
import sys
from fractions import Fraction
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("full_optimisation")

REFERENCE = Path(__file__).parents[1] / "reference"
sys.path.insert(0, str(REFERENCE))

import results_before as before  # noqa: E402

STORED = json.loads((REFERENCE / "results_before.json").read_text())
ROUNDING = 1e-6  # relative, on another processor or with other libraries, whose sums are in another order


def numbers(parts: dict) -> dict[str, list[float]]:
    return {
        name: [float.fromhex(number) for number in (value if isinstance(value, list) else [value])]
        for name, value in parts.items()
    }


def within_errors(was: dict[str, list[float]], now: dict[str, list[float]]) -> bool:
    (old,), (new,) = was["estimate"], now["estimate"]
    return abs(new - old) < 3 * math.hypot(was["error"][0], now["error"][0])


@pytest.mark.parametrize("name", before.RESULTS)
def test_a_result_is_what_it_was(name):
    from threadpoolctl import threadpool_limits  # not in the bare environment, which does not run this test

    if "torch" in name:
        pytest.importorskip("torch")
    kind, was = before.RESULTS[name][0], STORED["results"][name]
    with threadpool_limits(before.THREADS):  # which sums are made apart decides about the last bits
        now = before.compute(name)
    same_machine = before.machine() == STORED["machine"]
    if kind == before.EXACT or (kind == before.BITS and same_machine):
        assert now == was
    elif kind == before.SAMPLED or ("error" in was and len(numbers(was)["error"]) == 1):
        assert within_errors(numbers(was), numbers(now))
    else:
        for part, values in numbers(was).items():
            assert numbers(now)[part] == pytest.approx(values, rel=ROUNDING)


def test_another_number_is_told_apart():
    """The negative control of the comparison within errors."""
    was = numbers(STORED["results"]["llc-of-a-bowl"])
    moved = {**was, "estimate": [was["estimate"][0] + 5 * was["error"][0]]}
    assert not within_errors(was, moved)


def test_every_stored_result_is_computed():
    assert set(STORED["results"]) == set(before.RESULTS)
    assert Fraction(STORED["results"]["coefficients"]["x²y²"].split()[0]) == Fraction(1, 2)
