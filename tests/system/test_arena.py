"""The arena: what it counts is right, it repeats to the bit, goes on where it was stopped, and refuses bad input."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import phasecast as pc
from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement, Status
from phasecast.forecasting.result import Forecast
from phasecast.studies.arena.dates.held import judged
from phasecast.studies.arena.families import FAMILIES, select
from phasecast.studies.arena.family import Family, Outcome, stream
from phasecast.studies.arena.tally import Judged, Tally

CHEAP = ["exact-monomials", "exact-newton"]


def family(judge, **more) -> Family:
    return Family("test-family", "nothing", "nothing", lambda rng: rng.normal(), judge, 200, 2, **more)


def tally(judge, count=200, seed=1, **more) -> Tally:
    chosen = family(judge, **more)
    return Tally(chosen, [Judged("test-family", k, chosen.outcome(seed, k), 0.0) for k in range(count)])


def honest(scale: float, bias: float = 0.0):
    """A judge of a product whose errors are ``scale`` of what they should be."""

    def judge(truth: float, seed: int) -> Outcome:
        estimate = truth + np.random.default_rng(seed).normal() + bias
        return Outcome.of(Measurement(estimate, scale), truth, f"truth {truth:.3f}")

    return judge


def test_honest_errors_pass_and_dishonest_ones_do_not():
    assert tally(honest(1.0)).missed() == []
    assert any("±2 errors" in reason for reason in tally(honest(0.5)).missed())
    far = tally(honest(1.0, bias=6.0))
    assert any("are wrong" in reason for reason in far.missed())
    assert len(far.wrong) > 190


def test_a_refusal_is_a_miss_where_an_answer_is_expected_and_right_where_none_is():
    def refuses(truth, seed):
        return Outcome.of(Measurement.refused("no"), truth, "")

    assert any("less than 60%" in reason for reason in tally(refuses).missed())
    assert tally(refuses, refusing="there is no answer").missed() == []


def test_an_ok_answer_where_there_is_none_is_wrong():
    def answers(truth, seed):
        return Outcome("ok", 1.0, 0.1, math.nan)

    assert len(tally(answers, refusing="there is no answer").wrong) == 200


def test_an_exception_is_an_outcome_and_is_listed():
    def fails(truth, seed):
        raise ValueError("broken\nover two lines")

    outcome = family(fails).outcome(1, 0)
    assert (outcome.status, outcome.reasons) == ("failed", "ValueError: broken over two lines")
    assert any("failed" in reason for reason in tally(fails).missed())


def test_intervals_are_what_is_covered_where_they_are_the_answer():
    outcome = Outcome("ok", 10.0, 0.1, 12.0, interval=(9.0, 13.0))
    assert outcome.covered
    assert not Outcome("ok", 10.0, 0.1, 12.0, interval=(9.0, 11.0)).covered


def dated(low: float, value: float, high: float | None) -> Forecast:
    return Forecast(value, low=low, high=high, coverage=0.8, made_at=10.0)


def test_the_ends_of_an_80_percent_interval_are_1_28_errors_from_the_median_on_either_side():
    made = dated(500.0, 1000.0, 4000.0)
    assert judged(made, 4000.0, "", math.log).distance == pytest.approx(-1.2816, abs=1e-3)
    assert judged(made, 500.0, "", math.log).distance == pytest.approx(1.2816, abs=1e-3)
    assert judged(made, 1000 * 4.0**1.56, "", math.log).covered
    assert not judged(made, 1000 * 4.0**1.57, "", math.log).covered
    assert judged(made, 1000.0 * 4**3.2, "", math.log).wrong


def test_a_lower_bound_misses_what_came_long_before_it_and_nothing_else():
    made = dated(500.0, 1000.0, None)
    assert judged(made, 1e6, "").covered
    assert not judged(made, 100.0, "").covered
    alone = judged(dated(500.0, math.nan, None), 600.0, "")
    assert (alone.status, alone.covered, alone.wrong) == ("warning", True, False)
    assert not judged(dated(500.0, math.nan, None), 499.0, "").covered
    assert judged(Forecast.refused("too early"), 600.0, "").status == "refused"


def test_intervals_of_the_stated_coverage_pass_and_intervals_of_half_the_length_do_not():
    def judge(scale):
        def one(centre: float, seed: int) -> Outcome:
            rng = np.random.default_rng(seed)
            ends = [float(np.exp(centre + side * 1.2816 * scale)) for side in (-1, 0, 1)]
            return judged(dated(*ends), float(np.exp(centre + rng.normal())), "", math.log)

        return one

    assert tally(judge(1.0)).missed() == []
    assert any("±2 errors" in reason for reason in tally(judge(0.5)).missed())


@pytest.mark.parametrize("name", FAMILIES)
def test_problems_are_drawn_from_the_seed_the_family_and_their_number(name):
    chosen = FAMILIES[name]
    drawn = [str(chosen.problem(stream(seed, name, number))) for seed, number in ((1000, 0), (1000, 0), (1001, 0))]
    assert drawn[0] == drawn[1]
    many = {str(chosen.problem(stream(1000, name, number))) for number in range(8)}
    assert len(many) > 1
    assert chosen.full >= chosen.quick >= 1


def test_there_are_twelve_families_and_two_hundred_problems():
    assert len(FAMILIES) >= 12
    assert sum(one.full for one in FAMILIES.values()) >= 200


def test_an_area_means_all_of_its_families():
    assert set(select(["exact"])) == {name for name in FAMILIES if name.startswith("exact-")}
    with pytest.raises(BadInput, match="did you mean 'llc-bowls'"):
        select(["llc-bowl"])


def test_the_library_call_counts_prints_and_repeats_one_problem(tmp_path):
    record = pc.arena(CHEAP, seed=1000, quick=True, store=tmp_path, quiet=True)
    assert [one.family.name for one in record.tallies] == CHEAP
    assert record.wrong == []
    assert "exact-newton" in str(record)
    again = pc.arena("exact-newton", seed=1000, problem=3, store=tmp_path, quiet=True)
    assert again["exact-newton"].judged[0].outcome == record["exact-newton"].judged[3].outcome


def test_the_command_prints_a_table_or_json_and_a_report(command, command_json, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = command_json("arena", "--seed", "1000", "--quick", "--family", *CHEAP)
    assert found["status"] == "ok"
    assert {one["family"] for one in found["families"]} == set(CHEAP)
    assert found["wrong_and_ok"] == []
    assert found["families"][0]["worst"]["command"].startswith("phasecast arena --seed 1000 --family exact-monomials")
    code, out, _ = command("arena", "--seed", "1000", "--quick", "--family", *CHEAP)
    assert code == 0
    assert "wrong+ok" in out
    page = Path(command_json("report", found["run"])["report"]).read_text()
    assert "exact-newton" in page
    assert "phasecast arena --seed 1000 --family exact-newton --problem" in page


@pytest.mark.parametrize(
    "words",
    [("--family", "llamas"), ("--seed", "-1"), ("--problem", "-1"), ("--seed", "x"), ("--family", "exact-newtons")],
)
def test_bad_input_is_one_line_and_exit_code_2(command, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = command("arena", *words)
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_every_family_is_on_its_page():
    page = (Path(__file__).parents[2] / "docs" / "arena.md").read_text()
    assert [name for name in FAMILIES if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("online-plateau", 1.05),
        ("online-escape", 1.02),
        ("online-curves", 1.3),
        pytest.param("threshold-start", 1.5, marks=pytest.mark.slow),
    ],
)
def test_the_truth_is_known_well_enough_to_tell_a_wrong_answer(name, wrong):
    """The negative control of judges that simulate: they cover the right answer, and not one off by this factor."""
    right = FAMILIES[name].outcome(1000, 0)
    assert right.covered
    assert not replace(right, estimate=wrong * right.estimate).covered


@pytest.mark.slow
@pytest.mark.timeout(1500)  # twelve minutes beside other tests
def test_the_quick_arena_finds_nothing_wrong_and_ok(tmp_path):
    record = pc.arena(seed=1000, quick=True, store=tmp_path, quiet=True)
    assert record.failed == []
    assert [one.sentence() for one in record.wrong] == []
    assert record.run.status in ("ok", "warning")
    assert Status.OK in {one.outcome.status for tally in record.tallies for one in tally.judged}
