"""The command line: what it prints, its exit codes, and one line for every bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import phasecast
from conftest import answer_of
from phasecast import coefficients
from phasecast.lab import Store, load, run

pytestmark = pytest.mark.bare

HEAVY = ("jax", "torch", "xarray", "zarr", "matplotlib", "numpy", "scipy", "pydantic", "cyclopts", "rich")


@pytest.fixture
def done(store):
    """A finished run in the store."""
    return run("walks:WALK", {"steps": 30}, store=store, quiet=True)


def test_help_imports_nothing_heavy():
    script = (
        "import sys; from phasecast.cli import main; main(['--help']);"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    helped = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert helped.stderr.strip() == "[]"
    for command in ("demo", "coefficient", "run", "sweep", "runs", "sweeps", "report", "recipes", "claims"):
        assert f"\n  {command} " in helped.stdout


@pytest.mark.parametrize(
    "words", [[], ["--help"], ["-h"], ["run", "--help"], ["sweep", "--help"], ["runs", "--help"], ["--version"]]
)
def test_help_is_there_for_whoever_asks(command, words):
    code, out, err = command(*words)
    assert code == 0
    assert out.strip()
    assert err == ""


def test_run_prints_one_json_object(command, store):
    code, out, _ = command("run", "walks:WALK", "--set", "steps=30", "--store", store, "--json")
    answer = json.loads(out)
    assert code == 0
    assert set(answer) == {"run", "path", "status", "summary"}
    assert answer["status"] == "ok"
    assert Path(answer["path"]) == store / answer["run"]
    assert answer_of(answer, "mean-step")["verdict"] == "agrees"


def test_what_a_users_code_prints_does_not_stand_in_the_json(command, store):
    _, out, err = command("run", "walks:TALK", "--set", "steps=9", "--store", store, "--json")
    assert json.loads(out)["status"] == "ok"
    assert "a user's own words" in err
    _, out, _ = command(
        "sweep", "walks:TALK", "--set", "steps=10", "--seeds", "2", "--workers", "1", "--store", store, "--json"
    )
    assert len(json.loads(out)["runs"]) == 2


def test_a_refused_run_exits_with_3_and_is_printed_all_the_same(command, store):
    code, out, _ = command("run", "walks:WALK", "--set", "steps=30", "refuse=true", "--store", store, "--json")
    answer = json.loads(out)
    assert code == 3
    assert answer["status"] == "refused"
    measured = answer_of(answer, "mean-step")["measurement"]
    assert measured["value"] is None
    assert measured["estimate"] is not None
    assert measured["reasons"] == ["asked to refuse: do not ask"]


def test_run_prints_a_table_for_people(command, store):
    code, out, err = command("run", "walks:WALK", "--set", "steps=30", "--store", store)
    assert code == 0
    assert "agrees" in out
    assert "A walk was taken." in out
    assert "phasecast report walks-WALK-" in out
    assert "30/30" in err


def test_the_store_is_the_option_else_the_variable_else_a_folder_here(command_json, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PHASECAST_STORE", raising=False)
    assert command_json("runs", "ls")["store"] == str(tmp_path / "phasecast-runs")
    monkeypatch.setenv("PHASECAST_STORE", str(tmp_path / "elsewhere"))
    assert command_json("runs")["store"] == str(tmp_path / "elsewhere")
    assert command_json("runs", "ls", "--store", tmp_path / "here")["store"] == str(tmp_path / "here")
    assert list(tmp_path.iterdir()) == []


def test_runs_are_listed_shown_and_removed(command, command_json, store, done):
    (listed,) = command_json("runs", "ls", "--store", store)["runs"]
    assert (listed["run"], listed["status"], listed["done"]) == (done.id, "ok", 30)
    shown = command_json("runs", "show", done.id[:12], "--store", store)
    assert shown["spec"]["steps"] == 30
    assert shown["state"]["provenance"]["versions"]["numpy"]
    assert done.id in command("runs", "--store", store)[1]
    assert "steps = 30" in command("runs", "show", done.id, "--store", store)[1]
    assert command_json("runs", "rm", done.id, "--store", store) == {"removed": [done.id]}
    assert command_json("runs", "--store", store)["runs"] == []


def test_a_run_is_found_by_the_beginning_of_its_hash(command_json, store, done):
    digest = done.id.rpartition("-")[2]
    assert command_json("runs", "show", digest[:5], "--store", store)["run"] == done.id


def test_resume_of_a_finished_run_returns_it(command_json, store, done):
    assert command_json("runs", "resume", done.id, "--store", store)["run"] == done.id


def test_provenance_is_complete(done):
    status = done.folder.status()
    assert status["provenance"]["seed"] == 0
    assert status["provenance"]["threads"] >= 1
    assert {"phasecast", "jax", "xarray", "zarr"} <= set(status["provenance"]["versions"])
    assert "commit" in status["provenance"]
    checkout = Path(__file__).parents[2] / ".git"
    assert bool(status["provenance"]["commit"]) == ("site-packages" not in phasecast.__file__ and checkout.exists())
    assert status["wall_seconds"] > 0
    assert status["cpu_seconds"] > 0


def test_export_to_netcdf_and_csv_keeps_every_number(command_json, store, done, tmp_path):
    import csv

    import xarray as xr

    place = done.results()["walk/place"].values
    (written,) = command_json("runs", "export", done.id, "--to", tmp_path / "out.nc", "--store", store)["written"]
    with xr.open_datatree(written, engine="h5netcdf") as tree:
        assert (tree["walk/place"].values == place).all()
        assert list(np.asarray(tree["walk/axis"])) == ["x", "y", "z"]
        assert tree.attrs["run"] == done.id
    tables = command_json("runs", "export", done.id, "--to", tmp_path / "out.csv", "--store", store)["written"]
    assert [Path(table).name for table in sorted(tables)] == ["out-cores.csv", "out-sevenths.csv", "out-walk.csv"]
    with open(tmp_path / "out-walk.csv", newline="") as file:
        column = [float(row["place"]) for row in csv.DictReader(file)]
    assert column == place.ravel().tolist()


def test_recipes_are_listed_and_shown_as_toml_that_runs(command, command_json, tmp_path, store):
    import tomllib

    names = [recipe["name"] for recipe in command_json("recipes")["recipes"]]
    assert "toy-landscapes" in names
    text = command("recipes", "show", "toy-landscapes")[1]
    tables = tomllib.loads(text)
    assert tables["recipe"] == "toy-landscapes"
    assert command_json("recipes", "show", "toy-landscapes")["spec"]["blocks"] == tables["set"]["blocks"]
    path = tmp_path / "walk.toml"
    path.write_text(command("recipes", "show", "walks:WALK")[1].replace("steps = 300", "steps = 25"))
    assert command_json("run", path, "--store", store)["status"] == "ok"
    assert load("walks", store=store, allow_code=True).spec.model_dump()["steps"] == 25


def test_a_sweep_from_the_command_line_and_from_toml_is_the_same(command_json, store, tmp_path):
    words = ("--grid", "steps=20,21", "--zip", "pause=0,0.001", "refuse=false,true", "--seeds", "2")
    by_words = command_json("sweep", "walks:WALK", *words, "--store", store, "--workers", "1")
    path = tmp_path / "sweep.toml"
    path.write_text(
        'recipe = "walks:WALK"\nversion = 1\nseeds = 2\n[grid]\nsteps = [20, 21]\n'
        "[zip]\npause = [0, 0.001]\nrefuse = [false, true]\n"
    )
    by_file = command_json("sweep", path, "--store", store)
    assert by_words == by_file
    assert len(by_words["runs"]) == 8
    assert by_words["status"] == "refused"
    page = command_json("report", by_words["sweep"], "--allow-code", "--store", store)["report"]
    text = Path(page).read_text()
    assert "8 of 8 runs are finished" in text
    assert "✗ refused" in text


def test_seeds_may_be_a_list(command_json, store):
    words = ("--set", "steps=20", "--seeds", "3,5", "--workers", "1")
    answer = command_json("sweep", "walks:WALK", *words, "--store", store)
    assert [load(found["run"], store=store, allow_code=True).spec.seed for found in answer["runs"]] == [3, 5]


@pytest.mark.parametrize(
    ("words", "value", "multiplicity"),
    [
        (["deep-linear", "--widths", "10,10,10,10", "--rank", "5"], "46", 3),
        (["deep-linear", "--widths", "3,4,1", "--rank", "1", "--bias"], "2", 1),
        (["reduced-rank", "--inputs", "2", "--hidden", "2", "--outputs", "2", "--rank", "0", "--rank-a", "2",
          "--rank-b", "0"], "2", 1),
        (["quadratic", "--inputs", "4", "--outputs", "2", "--width", "3"], "15/2", 1),
        (["quadratic", "--inputs", "4", "--outputs", "1", "--width", "2", "--bias"], "5", 1),
        (["modular-addition", "--p", "7", "--width", "10"], "95", 1),
        (["modular-addition", "--p", "5", "--width", "40", "--regime", "lazy"], "60", 1),
        (["monomial", "--powers", "2,4", "--prior", "0,2"], "1/2", 1),
        (["newton", "x**4 + x**2*y**2 + y**6"], "1/2", 2),
        (["tanh", "--width", "2"], "2/3", 1),
        (["factor-analysis", "--observed", "6", "--factors", "2", "--true-factors", "1"], "29/4", 1),
        (["mixture", "--components", "2", "--true", "1", "--dimension", "1"], "3/4", 1),
        (["symmetric-factorisation", "--size", "3", "--factors", "2", "--rank", "1"], "2", 1),
        (["nmf", "--rows", "4", "--columns", "3", "--rank", "2", "--true-rank", "1"], "9/2", 1),
        (["relu", "--groups", "1:1:1:1:hinge", "1:2:1:0:hinge"], "2", 2),
        (["ideal", "x1*x2", "x1*x3", "x2*x3"], "3/4", 1),
    ],
)  # fmt: skip
def test_coefficients_are_printed_as_promised(command, command_json, words, value, multiplicity):
    found = command_json("coefficient", *words)
    assert list(found) == ["name", "lambda", "lambda_float", "multiplicity", "kind", "regime", "source"]
    assert (found["name"], found["lambda"], found["multiplicity"]) == (words[0], value, multiplicity)
    code, out, _ = command("coefficient", *words)
    assert code == 0
    assert f"{value}, m = {multiplicity}" in out
    assert found["name"] in coefficients.catalogue()


def test_claims_are_listed_shown_and_verified(command, command_json):
    claims = {claim["id"]: claim for claim in command_json("claims")["claims"]}
    assert claims["survey/lambda-is-min"]["verdict"] == "holds with a correction"
    code, out, _ = command("claims", "show", "grokking/kl-entropy")
    assert code == 0
    assert "counterexample" in out
    verified = command_json("claims", "verify", "grokking/kl-entropy")
    assert verified["confirmed"] is True


def test_a_claim_that_is_not_confirmed_exits_with_3(command, monkeypatch):
    from phasecast.claims.grokking_cullen2026 import landscapes
    from phasecast.core import ClaimVerdict, Finding

    wrong = Finding(ClaimVerdict.DOES_NOT_HOLD, "the moon is in the way")
    monkeypatch.setitem(landscapes.CHECKS, "grokking/figure-5", lambda: wrong)
    code, out, _ = command("claims", "verify", "grokking/figure-5")
    assert code == 3
    assert "NOT confirmed" in out


BAD = {
    "rank too high": (["coefficient", "deep-linear", "--widths", "5,3,4", "--rank", "9"], "choose rank ≤ 3"),
    "widths are no numbers": (["coefficient", "deep-linear", "--widths", "5,x", "--rank", "1"], "like 5,3,4"),
    "negative width": (["coefficient", "deep-linear", "--widths", "5,-3", "--rank", "1"], "width is -3"),
    "not prime": (["coefficient", "modular-addition", "--p", "9", "--width", "3"], "use a prime number"),
    "constant term": (["coefficient", "newton", "1 + x**2"], "constant term"),
    "negative power": (["coefficient", "newton", "x**-2"], "no negative powers"),
    "unknown letters": (["coefficient", "newton", "foo**2"], "unknown name 'foo'"),
    "no such coefficient": (["coefficient", "deep-linnear"], "deep-linnear"),
    "no such command": (["frobnicate"], "unknown command 'frobnicate'"),
    "misspelt command": (["reciped"], "did you mean 'recipes'"),
    "no recipe named": (["run"], "RECIPE"),
    "unknown option": (["run", "walks:WALK", "--bogus", "1"], "--bogus"),
    "unknown recipe": (["run", "toy-landscape"], "did you mean 'toy-landscapes'"),
    "recipe from nowhere": (["run", "nowhere:RECIPE"], "no module 'nowhere'"),
    "no such attribute": (["run", "walks:NOPE"], "has no 'NOPE'"),
    "not a recipe": (["run", "walks:Walk"], "not a Recipe"),
    "recipe with another name": (["run", "walks:MISNAMED"], "calls itself 'walks:WALK'"),
    "misspelt field": (["run", "walks:WALK", "--set", "stepps=3"], "did you mean 'steps'"),
    "unknown field": (["run", "walks:WALK", "--set", "zzz=3"], "choose one of: seed, steps"),
    "wrong type": (["run", "walks:WALK", "--set", "steps=many"], "steps: should be a valid integer"),
    "not whole": (["run", "walks:WALK", "--set", "steps=2.5"], "steps: should be a valid integer"),
    "out of range": (["run", "walks:WALK", "--set", "steps=0"], "greater than or equal to 1, got 0"),
    "not finite": (["run", "walks:WALK", "--set", "pause=nan"], "finite number"),
    "nothing set": (["run", "walks:WALK", "--set", "steps"], "write key=value"),
    "seed below zero": (["run", "walks:WALK", "--set", "seed=-1"], "greater than or equal to 0"),
    "seed too large": (["run", "walks:WALK", "--set", "seed=99999999999999999999"], "less than"),
    "given twice": (["run", "walks:WALK", "--set", "steps=3", "steps=4"], "given twice"),
    "too many seeds": (["sweep", "walks:WALK", "--seeds", "1000000000"], "at most 100000"),
    "sweep without threads": (["sweep", "walks:WALK", "--threads", "0"], "--threads ≥ 1"),
    "word in the wrong place": (["run", "walks:WALK", "steps=3"], "steps=3"),
    "epsilons in the wrong order": (
        ["run", "toy-landscapes", "--set", "epsilon_min=1e-3", "epsilon_max=1e-5"],
        "decades",
    ),
    "unknown landscape": (["run", "toy-landscapes", "--set", "landscapes=x2y3"], "did you mean 'x2y4'"),
    "landscape twice": (["run", "toy-landscapes", "--set", "landscapes=x2y4,x²y⁴"], "named twice"),
    "no landscape": (["run", "toy-landscapes", "--set", "landscapes=[]"], "no landscape to measure"),
    "no factory": (["run", "toy-landscapes", "--set", "problem=walks"], "write package.module:name"),
    "factory is no function": (["run", "toy-landscapes", "--set", "problem=walks:WALK"], "not a factory"),
    "no such run": (["runs", "show", "nope"], "no run 'nope'"),
    "a path for a run": (["runs", "show", "../../etc"], "not the id of a run"),
    "no such run to resume": (["runs", "resume", "nope"], "no run 'nope'"),
    "no such run to remove": (["runs", "rm", "nope"], "no run 'nope'"),
    "no such run to report": (["report", "nope"], "no run 'nope'"),
    "no such sweep": (["report", "sweep-nope"], "unknown sweep 'sweep-nope'"),
    "no such claim": (["claims", "verify", "survey/lambda-is-max"], "did you mean 'survey/lambda-is-min'"),
    "no such recipe to show": (["recipes", "show", "toys"], "unknown recipe"),
    "no such file": (["sweep", "missing.toml"], "there is no file"),
    "grid without values": (["sweep", "walks:WALK", "--grid", "steps="], "steps"),
    "zip out of step": (["sweep", "walks:WALK", "--zip", "steps=1,2", "pause=0"], "steps has 2, pause has 1"),
    "set and varied": (["sweep", "walks:WALK", "--set", "steps=3", "--grid", "steps=1,2"], "given twice"),
    "seeds are no number": (["sweep", "walks:WALK", "--seeds", "few"], "how many"),
    "no seeds": (["sweep", "walks:WALK", "--seeds", "0"], "at least 1"),
    "address without dask": (["sweep", "walks:WALK", "--address", "tcp://x:1"], "--engine dask"),
    "workers of a scheduler": (
        ["sweep", "walks:WALK", "--engine", "dask", "--address", "tcp://x:1", "--workers", "2"],
        "--workers counts processes on this machine",
    ),
    "workers of a cluster": (
        ["sweep", "walks:WALK", "--engine", "dask", "--cluster", "c.toml", "--workers", "2"],
        "--workers counts processes on this machine",
    ),
    "unknown engine": (["sweep", "walks:WALK", "--engine", "spark"], "spark"),
    "no time between checkpoints": (["run", "walks:WALK", "--checkpoint-every", "0"], "positive number"),
    "no threads": (["run", "walks:WALK", "--threads", "0"], "at least 1"),
    "too many chains": (["llc", "walks:bowl", "--chains", "1000000000"], "chains is 1000000000; use 1 to 10000"),
    "γ of zero": (["llc", "walks:bowl", "--gamma", "0"], "gamma is '0'; give a positive number"),
    "half a chain": (["llc", "walks:bowl", "--chains", "2.5"], "chains: should be a valid integer"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_leaves_nothing(command, tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PHASECAST_STORE", str(tmp_path / "runs"))
    words, expected = BAD[case]
    one_line(command(*words), 2, expected)
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("words", [["run", "toy-landscapes", "--set", "problem={}"], ["llc", "{}"], ["rlct", "{}"]])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def factory(): return 1 / 0", "the factory 'breaks:factory' raised ZeroDivisionError"),
        ("raise OSError('broken')", "importing 'breaks' raised OSError"),
        ("raise SystemExit(0)", "importing 'breaks' raised SystemExit"),
        ("def factory(): exit(0)", "the factory 'breaks:factory' raised SystemExit"),
    ],
)
def test_user_code_that_fails_is_one_line_exit_code_1_and_leaves_nothing(
    command, tmp_path, monkeypatch, words, text, expected
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PHASECAST_STORE", str(tmp_path / "runs"))
    monkeypatch.delitem(sys.modules, "breaks", raising=False)  # that of another folder
    (tmp_path / "breaks.py").write_text(text)
    one_line(command(*(word.format("breaks:factory") for word in words)), 1, expected)
    assert [path.name for path in tmp_path.iterdir()] == ["breaks.py"]


def one_line(outcome, expected_code, expected):
    code, out, err = outcome
    assert code == expected_code
    assert out == ""
    assert err.startswith("phasecast: ")
    assert err.count("\n") == 1
    assert expected in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nonsense", "not TOML"),
        ("seeds = 3", "names no recipe"),
        ('recipe = "walks:WALK"\nsedes = 3', "did you mean 'seeds'"),
        ('recipe = "walks:WALK"\nset = 3', "not a table"),
        ('recipe = "walks:WALK"\nversion = 2', "has version 2, this phasecast knows 1; upgrade phasecast"),
        ('recipe = "walks:WALK"\nversion = "new"', "use an integer"),
        ('recipe = "walks:WALK"\nseeds = "three"', "how many, or a list"),
        ('recipe = "walks:WALK"\n[grid]\nsteps = 3', "no list of values"),
        ('recipe = "walks:WALK"\n[grid]\nstep = [3]', "did you mean 'steps'"),
    ],
)
def test_a_wrong_file_is_one_line(command, tmp_path, text, expected):
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    code, out, err = command("sweep", path, "--store", tmp_path / "runs")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert expected in err
    assert not (tmp_path / "runs").exists()


def test_a_store_that_is_a_file_is_one_line(command, tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    for words in (["runs", "ls"], ["run", "walks:WALK"], ["demo"]):
        code, _, err = command(*words, "--store", path)
        assert (code, err.count("\n")) == (2, 1)
        assert "is a file; give a folder with --store" in err


def test_a_store_of_a_newer_phasecast_is_not_touched(command, store):
    Store(store).prepare()
    (store / "store.json").write_text('{"format": 99}')
    for words in (["runs", "ls"], ["run", "walks:WALK"]):
        code, _, err = command(*words, "--store", store)
        assert code == 2
        assert "upgrade phasecast" in err
    assert [path.name for path in store.iterdir()] == ["store.json"]


def test_a_run_of_a_newer_recipe_cannot_be_resumed(command, store, done):
    path = done.path / "spec.json"
    path.write_text(path.read_text().replace('"recipe_version": 1', '"recipe_version": 2'))
    status = done.path / "status.json"
    status.write_text(status.read_text().replace('"status": "ok"', '"status": "failed"', 1))
    code, _, err = command("runs", "resume", done.id, "--store", store)
    assert code == 2
    assert "has version 2, this phasecast knows 1" in err


@pytest.mark.parametrize("content", ["[]", "null", '{"created": 5}', '{"run": "other"}', "{"])
def test_an_odd_folder_does_not_stop_the_list(command_json, store, done, content):
    (store / "odd").mkdir()
    (store / "odd" / "status.json").write_text(content)
    rows = command_json("runs", "ls", "--store", store)["runs"]
    assert {row["run"]: row["status"] for row in rows} == {done.id: "ok", "odd": "damaged"}


def test_a_run_of_a_newer_phasecast_is_listed_as_such(command_json, store, done):
    status = done.path / "status.json"
    status.write_text(status.read_text().replace('"format": 1', '"format": 9'))
    assert command_json("runs", "ls", "--store", store)["runs"][0]["status"] == "newer"


def test_a_damaged_status_is_said_and_does_not_stop_the_list(command, command_json, store, done):
    (done.path / "status.json").write_text("{")
    code, _, err = command("runs", "show", done.id, "--store", store)
    assert code == 2
    assert "is damaged" in err
    assert [row["status"] for row in command_json("runs", "ls", "--store", store)["runs"]] == ["damaged"]


def test_export_to_something_else_is_one_line(command, store, done, tmp_path):
    for to, expected in (("out.xlsx", "end in .nc, .csv or .safetensors"), ("nowhere/out.nc", "there is no folder")):
        code, _, err = command("runs", "export", done.id, "--to", tmp_path / to, "--store", store)
        assert code == 2
        assert expected in err


def test_an_unfinished_run_is_not_exported_and_its_report_says_how_far_it_is(command, store, done, tmp_path):
    status = done.path / "status.json"
    status.write_text(status.read_text().replace('"status": "ok"', '"status": "interrupted"', 1))
    code, _, err = command("runs", "export", done.id, "--to", tmp_path / "out.csv", "--store", store)
    assert code == 2
    assert f"finish it with `phasecast runs resume {done.id}`" in err
    code, out, _ = command("report", done.id, "--store", store)
    assert code == 0
    assert "This run is interrupted: 30 of 30" in Path(out.strip()).read_text()


def test_debug_shows_the_traceback(store):
    from phasecast.cli import main
    from phasecast.core.errors import BadInput

    with pytest.raises(BadInput):
        main(["run", "toys", "--store", str(store), "--debug"])


def test_a_pipe_that_closes_early_is_no_error(store, done):
    script = f"{sys.executable} -m phasecast.cli runs ls --store {store} | true"
    piped = subprocess.run(
        ["bash", "-c", script + "; exit ${PIPESTATUS[0]}"], capture_output=True, text=True, check=False
    )
    assert piped.returncode == 0
    assert piped.stderr == ""


def test_one_thing_is_shown_without_the_word_show(command, command_json, store, done):
    assert command_json("recipes", "toy-landscapes") == command_json("recipes", "show", "toy-landscapes")
    assert command_json("claims", "grokking/kl-entropy") == command_json("claims", "show", "grokking/kl-entropy")
    assert command_json("runs", done.id, "--store", store) == command_json("runs", "show", done.id, "--store", store)
    for words, nearest in ((["recipes", "grokin"], "'grokking'"), (["claims", "grokking/kl-entropi"], "grokking/kl")):
        code, out, err = command(*words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert nearest in err


def test_sweeps_are_listed_shown_and_removed(command, command_json, store):
    words = ("--set", "steps=20", "--seeds", "2", "--workers", "1")
    swept = command_json("sweep", "walks:WALK", *words, "--store", store)
    runs = [row["run"] for row in swept["runs"]]
    (listed,) = command_json("runs", "ls", "--store", store)["sweeps"]
    assert listed == {
        "sweep": swept["sweep"], "recipe": "walks:WALK", "varied": ["seed"], "values": {"seed": [0, 1]}, "runs": 2,
        "finished": 2
    }  # fmt: skip
    shown = command_json("runs", "show", swept["sweep"][:9], "--store", store)
    assert [(row["run"], row["status"]) for row in shown["runs"]] == [(run, "ok") for run in runs]
    assert [row["varied"] for row in shown["runs"]] == [{"seed": 0}, {"seed": 1}]
    assert swept["sweep"] in command("runs", "--store", store)[1]
    assert command_json("runs", "rm", swept["sweep"], "--store", store) == {"removed": [swept["sweep"]]}
    left = command_json("runs", "ls", "--store", store)
    assert left["sweeps"] == []
    assert sorted(row["run"] for row in left["runs"]) == sorted(runs)


def test_all_claims_are_verified_once_and_kept(command, command_json, store):
    """Three checks of one paper; the second time nothing is computed."""
    chosen = "survey/theorem"
    first = command_json("claims", "verify", chosen, "--all", "--store", store, "--workers", "1")
    ids = [row["id"] for row in first["claims"]]
    assert ids == [claim["id"] for claim in command_json("claims")["claims"] if claim["id"].startswith(chosen)]
    assert (first["confirmed"], first["failed"]) == (len(ids), 0)
    runs = {row["run"]: load(row["run"], store=store).folder.status()["created"] for row in first["claims"]}
    code, out, _ = command("claims", "verify", chosen, "--all", "--store", store)
    assert code == 0
    assert f"{len(ids)} of {len(ids)} claims confirmed" in out
    assert {run: load(run, store=store).folder.status()["created"] for run in runs} == runs
    command_json("claims", "verify", ids[0], "--all", "--again", "--store", store, "--workers", "1")
    again = {run: load(run, store=store).folder.status()["created"] for run in runs}
    assert [run for run in runs if again[run] != runs[run]] == [first["claims"][0]["run"]]


def test_verify_needs_a_claim_or_all(command):
    for words in (["claims", "verify"], ["claims", "verify", "grokking/kl-entropy", "--again"]):
        code, _, err = command(*words)
        assert code == 2
        assert "--all" in err
