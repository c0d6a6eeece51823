"""``phasecast rlct``: a user's own Bayesian model from the command line."""

from __future__ import annotations

import sys

import pytest

MODEL = """
import numpy as np
import phasecast as pc
from phasecast.posterior import linear, linear_data
from phasecast.posterior import Model

def line():
    return linear(2), linear_data([[[1.0, -1.0]]], 200, seed=0)

def flat():
    import jax
    return Model(lambda w, y: -((y - w) ** 2) / 2, lambda w: 0.0 * w, jax.random.normal), np.zeros(20)

def summed():
    import jax
    return Model(lambda w, y: -((y - w) ** 2).sum() / 2, lambda w: -(w**2) / 2, jax.random.normal), np.zeros(20)

def holes():
    model, data = line()
    return model, {**data, "y": data["y"] * np.nan}

def fails():
    import jax
    return Model(lambda w, data: -((data["y"] - w) ** 2) / 2, lambda w: -(w**2) / 2, jax.random.normal), np.zeros(20)

def alone():
    return linear(2)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "my_posterior.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("my_posterior", None)


def test_a_regular_model_as_json_and_as_a_figure(project, command_json):
    settings = ("--draws", 600, "--warmup", 20, "--betas", "0.15,0.2,0.25", "--method", "slope", "--plot", "curve.svg")
    found = command_json("rlct", "my_posterior:line", *settings)
    assert found["status"] == "ok"
    assert abs(found["value"] - 1) < 4 * found["error"]
    assert found["value"] == found["slope"]
    assert [row["beta"] for row in found["curve"]] == [0.15, 0.2, 0.25]
    assert {"rhat", "ess", "excess", "predictive_r2", "n", "size", "reasons"} <= set(found)
    assert (project / "curve.svg").read_text().startswith("<?xml")


@pytest.mark.slow
def test_too_few_draws_are_refused_with_exit_code_3(project, command):
    code, out, _ = command("rlct", "my_posterior:line", "--draws", 40)
    assert code == 3
    assert "effective draws" in out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["my_posterior:summed"], "one number per observation, shape (20,)"),
        (["my_posterior:flat"], "the prior is improper"),
        (["my_posterior:holes"], "not finite"),
        (["my_posterior.py:line"], "write my_posterior:line, without .py"),
        (["my_posterior:line", "--betas", "-1,0.2"], "positive numbers that increase"),
        (["my_posterior:alone"], "return (phasecast.posterior.Model, data)"),
        (["my_posterior:line", "--betas", "0.1,-0.2"], "positive numbers that increase"),
        (["my_posterior:line", "--betas", "0.1"], "at least two"),
        (["my_posterior:line", "--betas", "warm"], "invalid --betas"),
        (["my_posterior:line", "--chains", "1"], "integer ≥ 2"),
        (["my_posterior:line", "--plot", "curve.gif"], ".svg, .png or .pdf"),
        (["my_posterior:nobody"], "has no 'nobody'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(project, command, words, complaint):
    code, out, err = command("rlct", *words)
    assert code == 2
    assert out == ""
    assert complaint in err
    assert len(err.strip().splitlines()) == 1


def test_a_model_that_raises_is_one_line_and_exit_code_1(project, command):
    code, out, err = command("rlct", "my_posterior:fails")
    assert code == 1
    assert out == ""
    assert "the log-likelihood raised" in err
    assert len(err.strip().splitlines()) == 1
