"""The studies of grokking as runs: each small, bad input as one line, the same numbers after a kill and on dask."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from conftest import python_path
from phasecast.core import Status
from phasecast.grokking import quadratic, train
from phasecast.grokking import task as make_task
from phasecast.lab import LocalEngine, Store, find_recipe, run, sweep
from phasecast.lab.engines.dask import DaskEngine
from phasecast.lab.spec import make_spec
from phasecast.studies.grokking.coefficient import mean_share
from phasecast.studies.grokking.severity import GrokkingSeverity, peaks

STUDIES = [f"grokking-{name}" for name in ("coefficient", "data", "mirror", "sampler", "severity", "width")]
SIZES = (1.2, 1.5, 1.8, 2.1, 2.4, 2.7, 3.0, 3.3)
DATA = {"p": (11,), "ratios": SIZES, "seeds": 2, "width": 48, "lr": 1e-2, "steps": 400}
RATES = (5e-3, 6e-3, 7e-3, 8e-3, 1e-2)


@pytest.mark.bare
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_at_the_papers_scale_has_the_papers_sizes(name):
    recipe = find_recipe(name)
    small, paper = make_spec(recipe.spec, {}), make_spec(recipe.spec, {"scale": "paper"})
    assert paper.steps == 100_000 > small.steps
    assert paper.batch == 128
    assert make_spec(recipe.spec, {"scale": "paper", "steps": 500}).steps == 500
    assert make_spec(recipe.spec, paper.model_dump(mode="json")) == paper


@pytest.mark.bare
@pytest.mark.parametrize(
    ("name", "setting", "said"),
    [
        ("coefficient", "p=9", "9 is not prime"),
        ("coefficient", "fraction=1.5", "between 0 and 1"),
        ("coefficient", "batch=4000", "larger than the"),
        ("coefficient", "samplers=hmc", "calibrated"),
        ("data", "ratios=40", "rows to train on"),
        ("data", "ratios=[]", "give ratios or fractions"),
        ("mirror", "values=-1", "use positive numbers"),
        ("mirror", "vary=depth", "weight_decay"),
        ("sampler", "gammas=0", "use positive numbers"),
        ("severity", "rates=0.1,-0.1", "not positive"),
        ("severity", "weight_decays=-1e-4", "negative"),
        ("width", "scale=huge", "laptop"),
    ],
)
def test_bad_input_is_one_line(store, command, name, setting, said):
    code, out, err = command("run", f"grokking-{name}", "--set", setting, "--store", store)
    assert code == 2
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert said in err
    assert not list(store.glob("grokking-*"))


@pytest.mark.slow
@pytest.mark.bare
def test_a_study_stores_what_the_library_computes(store):
    found = run("grokking-data", DATA, store=store, quiet=True)
    curves = found.results()["curves"].to_dataset().to_dataframe()
    table, count = make_task("addition", 11), round(3.0 * 11 * np.log(11))
    *_, last = train(
        table, quadratic(table, 48), steps=400, count=count, lr=[1e-2] * 2, weight_decay=[1e-4] * 2, seeds=[0, 1]
    )
    ends = curves[(curves["group"] == SIZES.index(3.0)) & (curves["step"] == 400)]
    np.testing.assert_array_equal(ends["validation_accuracy"], last.curves["validation_accuracy"][-1])
    critical = found.conclusion().answers.measurement("critical-ratio", p=11)
    assert (critical.status is Status.REFUSED) == (found.conclusion().numbers["critical, M = 11"] is None)


@pytest.mark.bare
def test_a_rate_that_never_generalised_is_refused_and_not_fitted(store):
    settings = {
        "p": 7,
        "width": 16,
        "fraction": 0.6,
        "rates": tuple(rate / 1000 for rate in RATES),
        "weight_decays": (0.0,),
        "steps": 60,
    }
    found = run("grokking-severity", {**settings, "llc": False}, store=store, quiet=True)
    assert found.status == "refused"
    assert found.conclusion().numbers["generalised, weight decay 0"] == 0
    assert "too few for a law" in found.conclusion().sentence


@pytest.mark.slow
def test_the_largest_coefficient_of_each_rate_is_found(store):
    settings = {**find_recipe("grokking-severity").tiny, "llc": True, "checkpoints": 2, "rates": RATES}
    found = run("grokking-severity", settings, store=store, quiet=True)
    sampled = found.results()["llc"].to_dataset()
    assert sorted(set(sampled["step"].values.tolist())) == [14, 200]
    assert np.isfinite(sampled["value"].values).all()
    spec = found.spec
    assert isinstance(spec, GrokkingSeverity)
    [(top, _, step)] = peaks(spec, found.results()).values()
    kept = sampled["value"].values[(sampled["status"].values < 2) & (sampled["member"].values == 0)]
    assert top[0] == kept.max()
    assert step[0] > 0


def test_the_error_of_a_mean_over_networks_counts_those_that_are_left():
    left_out = mean_share(np.array([[0.2, np.nan], [0.5, 0.3]]))
    alone = mean_share(np.array([0.2, 0.5, 0.3]))
    assert alone.error == pytest.approx(np.std([0.2, 0.5, 0.3], ddof=1) / np.sqrt(3), rel=1e-12)
    assert (left_out.estimate, left_out.error) == (alone.estimate, alone.error)
    assert (left_out.status, alone.status) == (Status.WARNING, Status.OK)
    for few in ([0.2], [0.2, np.nan], [np.nan, np.nan]):
        assert mean_share(np.array(few)).status is Status.WARNING
        assert np.isnan(mean_share(np.array(few)).error)


def test_a_network_that_breaks_down_does_not_stop_the_others(store):
    settings = {"p": 7, "width": 16, "fraction": 0.6, "rates": (*RATES, 1e12), "weight_decays": (1e-3,), "steps": 300}
    found = run("grokking-severity", {**settings, "llc": False}, store=store, quiet=True)
    curves = found.results()["curves"].to_dataset().to_dataframe()
    assert np.isfinite(curves[curves["member"] == 0]["train_loss"]).all()
    assert not np.isfinite(curves[curves["member"] == len(RATES)]["train_loss"]).all()


def test_a_study_killed_between_two_samples_gives_the_same_bits(tmp_path):
    spec = {"p": "[5]", "widths": "[6,8]", "fraction": 0.7, "steps": 3000, "samplers": '["printed"]'}
    words = [f"{name}={value}" for name, value in spec.items()]
    settings = {"p": (5,), "widths": (6, 8), "fraction": 0.7, "steps": 3000, "samplers": ("printed",)}
    whole = run("grokking-coefficient", settings, store=tmp_path / "whole", quiet=True)
    store = Store(tmp_path / "killed")
    paths = python_path()
    command = ["run", "grokking-coefficient", "--set", *words, "--store", str(store.path), "--checkpoint-every", "0.01"]
    process = subprocess.Popen(
        [sys.executable, "-m", "phasecast.cli", *command],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not any((status.get("done") or 0) >= 3 for status in store.statuses()):
        assert time.monotonic() < deadline, "waited too long"
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.wait()
    killed = run("grokking-coefficient", settings, store=store, quiet=True)
    begun = [event["checkpoint"] for event in killed.folder.events() if event["event"] == "started"]
    assert max(begun) > 0
    for node in whole.results().subtree:
        for name, variable in node.to_dataset().data_vars.items():
            assert variable.values.tobytes() == np.asarray(killed.results()[f"{node.path}/{name}"]).tobytes(), name


def test_a_sweep_on_dask_gives_the_numbers_of_a_local_one(tmp_path, monkeypatch):
    from distributed import LocalCluster

    monkeypatch.setenv("PYTHONPATH", python_path())
    settings = {**find_recipe("grokking-severity").tiny, "rates": RATES, "steps": 60}
    local = sweep(
        "grokking-severity", settings, seeds=2, engine=LocalEngine(workers=1), store=tmp_path / "local", quiet=True
    )
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0")
    with cluster:
        engine = DaskEngine(address=cluster.scheduler_address)
        far = sweep("grokking-severity", settings, seeds=2, engine=engine, store=tmp_path / "dask", quiet=True)
    assert far.errors == local.errors == ()
    for here, there in zip(local.runs, far.runs, strict=True):
        assert here.id == there.id
        ours, theirs = (one.results()["curves"].to_dataset() for one in (here, there))
        for name, variable in ours.data_vars.items():
            np.testing.assert_array_equal(variable.values, theirs[name].values)


@pytest.mark.slow
def test_the_transformer_of_figure_13_runs(store):
    settings = {"network": "transformer", "p": 5, "width": 8, "fraction": 0.7, "steps": 40, "llc": False}
    found = run("grokking", settings, store=store, quiet=True)
    assert found.summary["numbers"]["steps"] == 40
    assert found.summary["numbers"]["k_eff"] is None
