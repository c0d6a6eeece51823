"""``phasecast threshold``: what it prints, what it refuses, and that it is the library's answer."""

from __future__ import annotations

import importlib
import json
import math
import re
from typing import Any

import numpy as np
import pytest

from phasecast import features
from phasecast.core.results import Status
from phasecast.features import threshold_search
from phasecast.features.curvature import methods
from phasecast.features.outliers import Scan

TABLE = importlib.import_module("phasecast.features.threshold_table")  # the function has the same name
SETTING = ("threshold", "--target", "z**2", "--activation", "gelu", "--loss", "pseudo-huber", "--lr", 0.5)


def test_the_threshold_at_the_start_with_the_spectrum_at_one_delta(command_json, tmp_path):
    figure = tmp_path / "threshold.svg"
    found = command_json(*SETTING, "--time", 0, "--delta", 10, "--plot", figure)
    assert found["delta_star"] == found["value"] == pytest.approx(1.69276, abs=1e-4)
    assert (found["method"], found["status"], found["time"]) == ("quadrature", "ok", 0)
    assert found["error"] < 1e-6
    assert found["edge"] == pytest.approx(-0.220486, abs=1e-4)
    assert found["outlier"] == pytest.approx(-0.298327, abs=1e-4)
    assert found["overlap2"] == pytest.approx(0.680258, abs=1e-4)
    assert found["margin"] < 0
    assert found["outliers"][0]["informative"]
    assert found["intervals"][0][0] == found["delta_star"]
    assert found["simulation"] is None
    assert figure.read_text().lstrip().startswith("<?xml")


def test_below_the_threshold_there_is_no_outlier(command_json):
    found = command_json(*SETTING, "--time", 0, "--delta", 1.2)
    assert found["outlier"] is None
    assert found["overlap2"] is None
    assert found["outliers"] == []
    assert found["margin"] > 0
    assert found["edge"] < 0


def test_what_is_measured_stands_beside(command_json):
    found = command_json(*SETTING, "--time", 2, "--delta", 8, "--simulate", 150, "--seeds", 6, "--samples", 4000)
    measured = found["simulation"]
    assert (measured["dimension"], measured["steps"], measured["seeds"]) == (150, 2, 6)
    assert abs(measured["outlier"] - found["outlier"]) < 4 * math.hypot(measured["outlier_error"], 2 / 150)
    assert abs(measured["overlap2"] - found["overlap2"]) < 4 * math.hypot(measured["overlap2_error"], 5 / 150)
    assert found["method"] == "dmft"
    assert found["error_kind"] == "seeds"
    assert 1.7 < found["delta_star"] < 3
    assert 0 < found["error"] < 0.3


@pytest.mark.slow
def test_a_wide_network_and_several_latents(command_json):
    wide = command_json(
        "threshold",
        "--target",
        "tanh(z)**2",
        "--activation",
        "gelu",
        "--loss",
        "square",
        "--width",
        "wide",
        "--time",
        0,
    )
    assert wide["delta_star"] == pytest.approx(1.85899, abs=1e-3)
    both = command_json("threshold", "--target", "z1*z2", "--delta", 10, "--time", 0)
    assert len(both["outliers"][0]["direction"]) == 2
    assert both["intervals"][0][1] < 100  # the set ends: much data has no negative direction


@pytest.mark.slow
def test_where_g_has_no_lower_bound_no_single_number_is_given(command):
    code, out, _ = command("threshold", "--target", "z**2", "--loss", "square", "--delta", 10, "--seeds", 8,
                           "--up-to", 16, "--time", 0, "--json")  # fmt: skip
    found = json.loads(out)
    assert code == 0
    assert found["status"] == "warning"
    assert found["delta_star"] is None
    assert found["edge"] is None
    assert "unbounded below" in found["reasons"][0]
    table = found["unbounded"]
    assert table["raw"] == {"delta_star": None}
    assert table["clipped"]["0.01"] < table["clipped"]["0.001"] < table["clipped"]["0.0001"]
    assert table["finite_d_spectrum"]["3000"]["edge"] < table["finite_d_spectrum"]["300"]["edge"]  # it falls with d
    code, out, _ = command("threshold", "--target", "z**2", "--loss", "square", "--seeds", 2, "--up-to", 4,
                           "--time", 0)  # fmt: skip
    assert "clipped" in out
    assert "finite d" in out


def test_no_crossing_is_refused_and_says_where_it_looked(command):
    code, out, _ = command("threshold", "--target", "tanh(z)**2", "--activation", "tanh", "--loss", "square",
                           "--time", 0, "--json")  # fmt: skip
    found = json.loads(out)
    assert code == 3
    assert found["status"] == "refused"
    assert found["delta_star"] is None
    assert "from 0.01 to 10000" in found["reasons"][0]
    code, out, _ = command(*SETTING, "--time", 3, "--up-to", 1.1, "--samples", 2000, "--seeds", 2, "--json")
    found = json.loads(out)
    assert code == 3
    assert "from 0.5 to 1.1" in found["reasons"][0]
    assert "up_to" in found["reasons"][0]
    code, out, _ = command("threshold", "--target", "z", "--json")
    assert code == 3
    assert "easy" in json.loads(out)["reasons"][0]


@pytest.mark.parametrize("loss", ["square", "pseudo-huber", "logcosh"])
@pytest.mark.parametrize("time", [(), ("--time", 0), ("--time", "inf")])
def test_a_target_whose_directions_are_easy_is_recognised_first(command, loss, time):
    code, out, _ = command("threshold", "--target", "z**3 - 3*z", "--loss", loss, *time, "--json")
    found = json.loads(out)
    assert (code, found["status"], found["delta_star"]) == (3, "refused", None)
    assert "all directions of this target are easy" in found["reasons"][0]


def test_the_rows_of_the_table_come_one_by_one_and_the_last_is_the_answer(command, command_json, monkeypatch):
    """With the search replaced: δ*(t) grows with t, and the answer is that of t = ∞."""
    stars = {0: 1.5, 20: 3.0, math.inf: 6.0}

    def known(target, *functions, time, **settings):
        return features.Threshold(
            stars[time], 0.1, error_kind="seeds", time=time, intervals=((stars[time], 40.0),), searched=(0.5, 64.0)
        )

    monkeypatch.setattr(TABLE, "threshold", known)
    code, out, _ = command("threshold", "--target", "z**2")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["δ*(0)", "δ_alg", "δ*(20)", "δ_NN", "status"]
    assert "outlier for δ in (6, 40)" in out
    assert "the data that this network needs" in out
    found = command_json("threshold", "--target", "z**2")
    assert found["delta_star"] == found["value"] == 6.0
    assert [row["time"] for row in found["table"]] == [0, None, 20, "inf"]
    assert [row["value"] for row in found["table"]] == [1.5, pytest.approx(0.5, abs=1e-4), 3.0, 6.0]
    assert all(row["meaning"] for row in found["table"])
    table = features.threshold_table("z**2")
    assert features.ThresholdTable.from_json(table.to_json()) == table
    assert [text.get_text() for text in table.figure().axes[0].get_yticklabels()] == ["δ*(0)", "δ*(20)", "δ_NN"]


def test_a_table_without_any_outlier_says_so_and_a_wide_network_has_no_end(monkeypatch):
    def nothing(target, *functions, time, **settings):
        return features.Threshold.refused("no outlier", error_kind="seeds", time=time)

    monkeypatch.setattr(TABLE, "threshold", nothing)
    found = features.threshold_table("z1*z2*z3")
    assert found.status is Status.REFUSED
    assert "at any time and any δ" in found.reasons[0]
    assert [row["name"] for row in found.table] == ["δ*(0)", "δ*(20)", "δ_NN"]
    wide = features.threshold_table("z1*z2", width="wide")
    assert "not known for wide networks" in wide.reasons[0]
    assert [row["name"] for row in wide.table] == ["δ*(0)", "δ*(20)"]


@pytest.mark.parametrize(
    ("margins", "hopeless"),
    [
        (lambda d: 0.2 + 0 * d, True),
        (lambda d: 0.1 + 0.01 * np.log(d), True),
        (lambda d: 1 - 0.2 * np.log(d), False),  # crosses at δ = e⁵ = 148
        (lambda d: 1 - 0.05 * np.log(d), True),  # would cross at e²⁰
    ],
)
def test_a_longer_search_is_advised_only_where_the_margin_comes_down(margins, hopeless):
    deltas = np.asarray(threshold_search.scan_deltas(64.0))
    scan = Scan(tuple(deltas), tuple(margins(deltas)))
    assert threshold_search._hopeless(scan) is hopeless


def test_an_unbounded_curvature_without_any_outlier_is_refused(command):
    """Square loss and three latents: neither clipped nor at finite d is there an outlier."""
    code, out, _ = command("threshold", "--target", "z1*z2*z3", "--loss", "square", "--time", 0, "--seeds", 2,
                           "--up-to", 4, "--json")  # fmt: skip
    found = json.loads(out)
    assert (code, found["status"]) == (3, "refused")
    assert "neither with G clipped" in found["reasons"][0]
    assert set(found["unbounded"]["clipped"].values()) == {None}


def test_it_prints_a_table_for_people(command):
    code, out, _ = command(*SETTING, "--time", 0, "--delta", 10)
    assert code == 0
    for words in ("δ*", "1.69275668", "quadrature", "outlier -0.298327", "outlier for δ in"):
        assert words in out


def test_what_is_measured_is_printed_with_its_error(command):
    _, out, _ = command(*SETTING, "--time", 0, "--delta", 10, "--simulate", 40, "--seeds", 4)
    assert re.search(r"measured, d = 40 +steps 0, seeds 4, edge -[0-9.]+ ± [0-9.]+, outlier -[0-9.]+ ± [0-9.]+", out)


def test_a_figure_without_a_margin_says_so():
    axes = features.threshold("z", curves=True).figure().axes[1]
    assert [text.get_text() for text in axes.texts] == ["no margin (see reasons)"]
    assert axes.get_legend() is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--activation", "gelo"), "did you mean 'gelu'"),
        (("--activation", "relu"), "no second derivative"),
        (("--loss", "absolute"), "no second derivative"),
        (("--target", "3"), "not a function of z"),
        (("--target", "z1*z4"), "at most 3 latents"),
        (("--target", "__import__('os')"), "unknown function"),
        (("--delta", 0), "n/d > 0"),
        (("--delta", -3), "n/d > 0"),
        (("--lr", 0), "η > 0"),
        (("--time", "soon"), "steps"),
        (("--time", -1), "steps"),
        (("--width", 5), "1 to 4"),
        (("--width", "narrow"), "1 to 4, or wide"),
        (("--width", "wide", "--time", "inf"), "up to t = 40"),
        (("--noise", -1), "≥ 0"),
        (("--seeds", 1), "≥ 2"),
        (("--samples", 0), "≥ 100"),
        (("--loss", "logistic"), "labels in [0, 1]"),
        (("--loss", "logistic", "--target", "z > 0", "--noise", 0.1), "labels in [0, 1]"),
        (("--target", "halfspace"), "did you mean 'halfspaces'"),
        (("--simulate", 3), "≥ 20"),
        (("--up-to", 0), "above 1"),
        (("--initial-norm", 0), "> 0"),
        (("--plot", "threshold.txt"), ".svg"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(command, change, words):
    given = dict(zip(SETTING[1::2], SETTING[2::2], strict=True))
    given.update(zip(change[::2], change[1::2], strict=True))
    code, out, err = command("threshold", *[word for pair in given.items() for word in pair], "--json")
    assert code == 2
    assert out == ""
    assert words in err
    assert len(err.strip().splitlines()) == 1


def test_a_result_comes_back_from_json():
    found = features.threshold("z**2", delta=10.0, curves=True)
    again = features.Threshold.from_json(found.to_json())
    assert again == found
    assert again.spectrum.get("edge") == found.spectrum.get("edge")
    assert again.figure().axes


@pytest.mark.slow
def test_the_end_of_training_by_the_fixed_point(monkeypatch):
    """Softplus settles: the fixed point has the threshold, and no outlier at δ = 12."""
    monkeypatch.setattr(
        methods, "EXAMPLES", 2000
    )  # of the descents that bracket the crossing, the fixed point has none
    found = features.threshold("minimum(z**2, 3)", "softplus", "square", time=math.inf, delta=12.0, up_to=32.0)
    assert found.method == "fixed-point"
    spectrum: dict[str, Any] = {**found.spectrum}
    assert spectrum["margin"] == pytest.approx(0.0376, abs=2e-4)
    assert spectrum["edge"] > 0
    assert np.isfinite(found.value)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_end_of_training_by_descent_where_it_does_not_settle(monkeypatch):
    """GeLU; with 2000 examples the seeds disagree, which is refused."""
    monkeypatch.setattr(methods, "EXAMPLES", 4000)  # of 6000: half the time
    gelu = features.threshold("z**2", time=math.inf, lr=0.5, up_to=16.0, seeds=3)
    assert gelu.method == "decoupled"
    assert 8 < float(gelu.value) < 13
