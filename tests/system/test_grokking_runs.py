"""A training as a run: its numbers in JSON, the same bits after a kill, one line for bad input, a loss that breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from conftest import answer_of, python_path
from phasecast.core.results import Verdict
from phasecast.grokking import effective_width, quadratic, train
from phasecast.grokking import task as make_task
from phasecast.grokking.analysis.timeline import timeline
from phasecast.grokking.tasks import TASKS
from phasecast.lab import Store, find_recipe, load, run
from phasecast.studies.grokking import training as study

TINY = find_recipe("grokking").tiny
NUMBERS = {"train99", "val50", "val95", "gsm", "k_eff", "train_accuracy", "val_accuracy"}


def words(**settings: object) -> list[str]:
    return [f"{name}={'null' if value is None else value}" for name, value in settings.items()]


@pytest.mark.bare
def test_a_run_prints_its_numbers(store, command_json):
    settings = words(p=23, width=128, fraction=0.4, lr=5e-3, weight_decay=1e-4, batch=None, steps=2500, llc="false")
    found = command_json("run", "grokking", "--set", *settings, "--store", store)
    numbers = found["summary"]["numbers"]
    assert set(numbers) >= NUMBERS
    assert found["status"] == "ok"
    assert numbers["train99"] <= 100 < numbers["val50"] < numbers["val95"] < 2500
    assert numbers["train_accuracy"] == numbers["val_accuracy"] == 1
    assert 0 < numbers["gsm"] < 1
    assert 44 <= numbers["k_eff"] <= 128
    assert answer_of(found, "gsm")["diagnostics"]["T"] == 2500


@pytest.mark.bare
def test_a_run_stores_what_the_library_computes(store):
    found = run("grokking", TINY, store=store, quiet=True)
    table = make_task("addition", 7)
    settings = {name: TINY[name] for name in ("fraction", "lr", "steps", "batch")}
    *_, last = train(table, quadratic(table, 32), **settings)
    kept = found.results()["checkpoints"].to_dataset()
    assert kept["step"].values[0] == 0
    assert kept["step"].values[-1] == TINY["steps"]
    for name, leaf in last.params().items():
        np.testing.assert_array_equal(kept[f"weights.{name}"].values[-1], leaf)
    assert kept["k_eff"].values[-1] == effective_width(last.params()["V"])
    np.testing.assert_array_equal(found.results()["curves/step"].values, np.arange(0, 301, 20))


@pytest.mark.bare
def test_a_run_that_never_generalises_has_no_severity(store, command):
    code, out, _ = command(
        "run", "grokking", "--set", *words(p=7, width=16, steps=60, llc="false"), "--store", store, "--json"
    )
    found = json.loads(out)
    assert code == 3
    assert found["status"] == "refused"
    assert found["summary"]["numbers"]["gsm"] is None
    assert found["summary"]["numbers"]["val95"] is None
    assert "not generalised" in answer_of(found, "gsm")["reasons"][0]


@pytest.mark.bare
def test_a_run_whose_loss_is_no_number_stops_and_keeps_what_it_has(store, command):
    settings = words(p=7, width=16, steps=100000, lr=1e12, log_every=10, llc="false")
    code, out, _ = command("run", "grokking", "--set", *settings, "--store", store, "--json")
    found = json.loads(out)
    assert code == 3
    numbers = found["summary"]["numbers"]
    assert numbers["diverged"] == 10
    assert numbers["train_accuracy"] is not None
    reason = answer_of(found, "training-loss")["reasons"][0]
    assert "step 10" in reason
    assert "smaller learning rate than 1e+12" in reason
    results = load("grokking", store=store).results()
    assert np.asarray(results["curves/step"]).tolist() == [0, 10]
    assert np.isfinite(np.asarray(results["checkpoints/weights.W"])[0]).all()


@pytest.mark.bare
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"task": "division", "p": 24}, "24 is not prime"),
        ({"fraction": 1.0}, "between 0 and 1"),
        ({"fraction": 0}, "between 0 and 1"),
        ({"batch": 500}, "larger than the 211 training rows"),
        ({"task": "additon"}, "addition"),
        ({"network": "resnet"}, "quadratic"),
        ({"activation": "cube"}, "unknown activation"),
        ({"network": "transformer", "activation": "relu"}, "leave activation"),
        ({"lr": -1}, "greater than 0"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(store, command, settings, said):
    code, out, err = command("run", "grokking", "--set", *words(**settings), "--store", store)
    assert code == 2
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert said in err
    assert not list(store.glob("grokking-*"))


@pytest.mark.parametrize("name", TASKS[1:])
def test_every_task_runs(store, name):
    settings = {**TINY, "task": name, "degree": 3, "bits": 6, "steps": 40, "batch": None, "llc": False}
    assert run("grokking", settings, store=store, quiet=True).summary["numbers"]["steps"] == 40


def test_a_training_killed_twice_gives_the_same_bits(tmp_path):
    spec = {"p": 7, "width": 32, "fraction": 0.6, "batch": 16, "steps": 4000, "checkpoints": 12, "llc": "false"}
    whole = run("grokking", spec, store=tmp_path / "whole", quiet=True)
    store = Store(tmp_path / "killed")
    paths = python_path()
    command = ["run", "grokking", "--set", *words(**spec), "--store", str(store.path), "--checkpoint-every", "0.01"]
    for wanted in (3, 8):
        process = subprocess.Popen(
            [sys.executable, "-m", "phasecast.cli", *command],
            env={**os.environ, "PYTHONPATH": paths},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while not any((status.get("done") or 0) >= wanted for status in store.statuses()):
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.005)
        process.kill()
        process.wait()
    killed = run("grokking", spec, store=store, quiet=True)
    begun = [event["checkpoint"] for event in killed.folder.events() if event["event"] == "started"]
    assert len(begun) >= 2
    assert max(begun) > 0
    for node in whole.results().subtree:
        for name, variable in node.to_dataset().data_vars.items():
            other = np.asarray(killed.results()[f"{node.path}/{name}"])
            assert variable.values.tobytes() == other.tobytes(), name


@pytest.mark.slow
@pytest.mark.bare
def test_the_learning_coefficient_is_sampled_on_the_training_rows_at_every_checkpoint(store, monkeypatch):
    settings = {"p": 5, "width": 6, "fraction": 0.7, "lr": 1e-2, "steps": 300, "checkpoints": 2, "llc": True}
    found = run("grokking", settings, store=store, quiet=True)
    sampled = found.results()["llc"].to_dataset()
    assert (sampled["step"].values == found.results()["checkpoints/step"].values).all()
    weights = sum(leaf.size for leaf in quadratic(make_task("addition", 5), 6).init(0).values())
    assert 0 < sampled["value"].values[-1] < weights / 2
    calls = []
    study._timeline.cache_clear()
    monkeypatch.setattr(study, "timeline", lambda *tables: calls.append(tables) or timeline(*tables))
    found.conclusion()
    spec = found.spec
    assert isinstance(spec, study.Grokking)
    study.figures(spec, found.results())
    assert len(calls) == 1  # bootstraps: once for conclusion, figures and page together


@pytest.mark.bare
def test_weights_of_every_checkpoint_leave_as_safetensors(store, tmp_path, command):
    from safetensors.numpy import load_file

    found = run("grokking", {**TINY, "llc": False}, store=store, quiet=True)
    code, out, _ = command("runs", "export", found.id, "--to", tmp_path / "w.safetensors", "--store", store)
    kept = found.results()["checkpoints"].to_dataset()
    assert code == 0
    assert len(out.splitlines()) == kept.sizes["checkpoint"]
    last = load_file(tmp_path / f"w-{TINY['steps']:08d}.safetensors")
    np.testing.assert_array_equal(last["V"], kept["weights.V"].values[-1])
    code, out, _ = command("runs", "export", found.id, "--to", tmp_path / "w.csv", "--store", store)
    names = {path.name for path in tmp_path.glob("w-*.csv")}
    assert names == {"w-curves.csv", "w-checkpoints.csv", "w-checkpoints-weights.V.csv", "w-checkpoints-weights.W.csv"}


def test_the_units_in_use_are_compared_with_two_per_residue_once_they_have_settled():
    spec = study.Grokking(p=23, width=115)
    (settled,) = study._units_in_use(spec, np.array([115, 60, 44, 44]))
    assert settled.id == "k-eff"
    assert settled.result.verdict is Verdict.AGREES  # pyright: ignore[reportAttributeAccessIssue]
    (wrong,) = study._units_in_use(spec, np.array([115, 60, 50, 50]))
    assert wrong.result.verdict is Verdict.DIFFERS  # pyright: ignore[reportAttributeAccessIssue]
    (dying,) = study._units_in_use(spec, np.array([115, 80, 60]))
    assert dying.result.prediction.kind == "lower-bound"  # pyright: ignore[reportAttributeAccessIssue]
    assert study._units_in_use(study.Grokking(p=23, width=40), np.array([40, 40])) == []
    assert study._units_in_use(study.Grokking(p=23, width=115, weight_decay=0), np.array([44, 44])) == []
