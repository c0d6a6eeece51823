"""Lists of runs and sweeps: what tells them apart, filters, and names that are hostile."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from conftest import python_path
from phasecast.lab import run, sweep
from phasecast.lab.engines import Outcome, compute
from phasecast.lab.overview.listed_runs import ListedRun, RunFilter, differing_fields, list_runs
from phasecast.lab.overview.stored_answers import key_number, stored_rows
from phasecast.lab.store import Store, run_id

pytestmark = pytest.mark.bare


def here(tasks):
    """An engine without processes."""
    return (Outcome(task, *compute(task)) for task in tasks)


@pytest.fixture
def walks(store):
    """Three runs that differ in two fields."""
    for values in ({"steps": 20}, {"steps": 30}, {"steps": 30, "refuse": True}):
        run("walks:WALK", values, store=store, quiet=True)
    return store


def listed(command_json, store, *words):
    return command_json("runs", *words, "--store", store)["runs"]


def test_a_list_tells_runs_apart_by_the_fields_in_which_they_differ(command, command_json, walks):
    rows = listed(command_json, walks)
    assert [row["differing"] for row in rows] == [
        {"steps": 20, "refuse": False}, {"steps": 30, "refuse": False}, {"steps": 30, "refuse": True}]  # fmt: skip
    _, out, _ = command("runs", "--store", walks)
    head, *lines = out.splitlines()
    assert head.split("  ")[0] == "run"
    for word in ("age", "recipe", "status", "fields that differ", "key answer"):
        assert word in head
    assert "steps=20 refuse=false" in lines[0]
    assert "mean step" in lines[0]
    assert "±" in lines[0]
    assert "mean step refused" in lines[2]


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--where", "steps=30"], 2),
        (["--where", "steps=30", "refuse=true"], 1),
        (["--where", "steps=31"], 0),
        (["--status", "refused"], 1),
        (["--status", "ok", "refused"], 3),
        (["--status", "ok,refused"], 3),
        (["--last", "2"], 2),
        (["--recipe", "walks:WALK", "--last", "1"], 1),
        (["--since", "1h"], 3),
        (["--since", "2020-01-01"], 3),
        (["--since", "2999-01-01"], 0),
        (["ls", "--where", "steps=20"], 1),
    ],
)
def test_filters(command_json, walks, words, count):
    assert len(listed(command_json, walks, *words)) == count


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--where", "stepps=3"], "did you mean 'steps'?"),
        (["--where", "steps"], "write key=value"),
        (["--recipe", "walks:WALT"], "did you mean 'walks:WALK'?"),
        (["--status", "fine"], "unknown status 'fine'"),
        (["--since", "yesterday"], "write 90m, 6h, 2d, 3w or a date"),
        (["--last", "0"], "use at least 1"),
    ],
)
def test_a_wrong_filter_is_one_line(command, walks, words, expected):
    code, out, err = command("runs", *words, "--store", walks)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert expected in err


def test_where_reads_values_as_set_does():
    rows = [ListedRun("a", "r", "ok", 1, 1, "", "", "", spec={"x": None, "flag": True, "items": ["u", "v"], "n": 1})]
    for word in ("x=null", "flag=true", "items=u,v", 'items=["u", "v"]', "n=1", "n=1.0"):
        assert RunFilter.parse(where=[word]).keep(rows) == rows, word
    for word in ("flag=1", "n=true", "items=u", "x=0"):
        assert RunFilter.parse(where=[word]).keep(rows) == [], word


def test_the_seed_comes_last_among_the_fields_that_differ():
    specs = [("r", {"seed": 0, "b": 1, "a": 1}), ("r", {"seed": 1, "b": 2, "a": 3}), ("other", {"b": 5}), ("r", {})]
    assert differing_fields(specs) == {"r": ["b", "a", "seed"]}


@pytest.mark.parametrize(("ago", "age"), [(5, "5s"), (119, "119s"), (120, "2m"), (7200, "2h"), (2 * 86400, "2d"),
                                         (15 * 86400, "2w"), (-5, "0s")])  # fmt: skip
def test_an_age_has_one_unit(ago, age):
    now = datetime(2026, 5, 1, tzinfo=UTC)
    row = ListedRun("a", "r", "ok", 1, 1, (now - timedelta(seconds=ago)).isoformat(), "", "")
    assert row.age(now) == age


def test_key_numbers_of_all_forms():
    refused = {"label": "x", "estimate": 1.0, "error": 0.1, "status": "refused"}
    measured = {"label": "y", "measurement": {"estimate": 2.0, "error": 0.5, "status": "ok"}, "prediction": {}}
    assert key_number({"answers": [refused, measured]}) == "y 2.00 ± 0.50"
    assert key_number({"answers": [refused]}) == "x refused"
    assert key_number({"answers": {"old": {k: v for k, v in refused.items() if k != "status"}}}) == "old 1.00 ± 0.10"
    assert key_number({"answers": [{"label": "curve", "estimate": [1.0, 2.0]}], "numbers": {"n": 3}}) == "n 3"
    assert key_number({"answers": [{"label": "λ", "value": "1/2", "value_float": 0.5, "systematic": 0.0}]}) == "λ 0.5"
    assert key_number({}) == ""
    second = {"id": "y", "label": "y", "estimate": 5.0, "error": 0.0, "status": "ok"}
    assert key_number({"answers": [{**second, "id": "x", "label": "x"}, second], "key": "y"}) == "y 5"
    assert key_number({"answers": [{**second, "id": "x", "label": "x"}], "key": "y"}) == "x 5"


def test_stored_answers_are_the_rows_of_the_conclusion(store):
    done = run("walks:WALK", {"steps": 30}, store=store, quiet=True)
    (computed,), (stored,) = done.conclusion().rows(), stored_rows(done.summary)
    for part in ("name", "predicted", "measured", "verdict", "distance", "address", "theory"):
        assert getattr(computed, part) == getattr(stored, part), part
    assert stored_rows({"answers": [{"id": "x"}, 3, {"id": "ü", "estimate": 1, "status": "odd"}]}) == []


def test_sweeps_are_listed_shown_and_removed(command, command_json, store):
    swept = sweep("walks:WALK", {"pause": 0.0}, grid={"steps": [20, 30]}, seeds=2, store=store, engine=here, quiet=True)
    (row,) = command_json("sweeps", "--store", store)["sweeps"]
    assert row["values"] == {"steps": [20, 30], "seed": [0, 1]}
    assert (row["finished"], row["runs"]) == (4, 4)
    assert "steps=20,30 × seed=0,1" in command("sweeps", "ls", "--store", store)[1]
    shown = command_json("sweeps", "show", swept.id[:9], "--store", store)["runs"]
    assert [one["varied"] for one in shown][:2] == [{"steps": 20, "seed": 0}, {"steps": 20, "seed": 1}]
    assert "steps=30 seed=1" in command("sweeps", swept.id, "--store", store)[1]
    assert command_json("sweeps", "rm", swept.id, "--store", store) == {"removed": [swept.id]}
    assert command_json("sweeps", "--store", store)["sweeps"] == []
    assert len(command_json("runs", "--store", store)["runs"]) == 4
    assert "no sweeps" in command("sweeps", "--store", store)[1]


def test_a_sweep_prints_what_it_varied_and_refused_answers_are_no_error(command, store, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", python_path())
    words = ("sweep", "walks:WALK", "--set", "steps=20", "--grid", "refuse=false,true", "--workers", "1")
    code, out, _ = command(*words, "--store", store)
    assert code == 0
    assert "refuse=false  ok" in out
    assert "refuse=true   refused" in out
    code, _, _ = command(
        "sweep", "walks:SOME_HOLES", "--set", "steps=20", "--seeds", "2", "--workers", "1", "--store", store
    )
    assert code == 1


HOSTILE = "<script>alert(1)</script>\x1b[31m\x07\u202e\n[red]x[/red] $\\frac$ " + "é" * 500


def test_hostile_names_are_inert_in_the_terminal(command, store):
    done = run("walks:WALK", {"steps": 20}, store=store, quiet=True)
    path = store / run_id(HOSTILE, 1, {"steps": 1, "name": HOSTILE}, {})
    done.path.rename(path)
    status = json.loads((path / "status.json").read_text())
    status.pop("digest")
    answer = {**status["summary"]["answers"][0], "label": HOSTILE}
    summary = {**status["summary"], "sentence": HOSTILE, "answers": [answer]}
    folder = Store(store).folder(path.name)
    folder.write_status({**status, "run": path.name, "recipe": HOSTILE, "summary": summary})
    request = {
        "format": 1,
        "recipe": HOSTILE,
        "recipe_version": 1,
        "spec": {"steps": 1, "name": HOSTILE},
        "contents": {},
    }
    (path / "spec.json").write_text(json.dumps(request))
    run("walks:WALK", {"steps": 20}, store=store, quiet=True)
    for words in (["runs"], ["runs", "show", path.name], ["runs", "check", "--all"], ["runs", "--json"]):
        code, out, err = command(*words, "--store", store)
        assert code in (0, 2)
        for mark in ("\x1b", "\x07", "\u202e"):
            assert mark not in out + err
    lines = command("runs", "--store", store)[1].splitlines()
    assert len(lines) == 3  # a name with a line break does not add a row
    assert max(map(len, lines)) < 320
    assert len(list_runs(Store(store))) == 2


def test_exported_weights_say_which_run_and_step_they_are_from(store, tmp_path):
    from safetensors import safe_open

    from phasecast.lab import find_recipe
    from phasecast.lab.export import export

    done = run("grokking", {**find_recipe("grokking").tiny, "steps": 40, "checkpoints": 2}, store=store, quiet=True)
    for path in export(done, tmp_path / "w.safetensors"):
        with safe_open(path, "numpy") as file:
            assert file.metadata() == {"run": done.id, "recipe": "grokking", "step": str(int(path.stem[-8:]))}
