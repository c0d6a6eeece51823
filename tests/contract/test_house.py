"""The code stays a place to find one's way in: the goals of ``benchmarks/bench_house.py`` are met."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "bench_house.py"


@pytest.fixture(scope="module")
def house():
    spec = importlib.util.spec_from_file_location("bench_house", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def places(house):
    return house.places_of(house.modules())


def test_the_goals_are_met(house, places):
    assert not [f"{row.label}: {row.count}, goal {row.goal}" for row in house.counts(places) if not row.met]


def test_a_full_folder_and_a_constant_without_a_reason_are_seen(house, places):
    crowded = places | {"folders": ["core: 15"], "constants": ["core/errors.py:3 LARGE"]}
    missed = {row.label for row in house.counts(crowded) if not row.met}
    assert missed >= {"modules in the fullest folder", "decision constants without a reason"}
