"""What the pages of the studio show, without a browser: forms, tables, curves, text from elsewhere, processes."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasecast.core.errors import BadInput
from phasecast.lab import Store, find_recipe, run
from phasecast.lab.recipe import shipped
from phasecast.studio import closed_forms, processes, server
from phasecast.studio.forms import assignments, form_of, initial_values, spec_of
from phasecast.studio.inert import for_html, for_markdown, inert_text
from phasecast.studio.run_index import RowFilter, RunIndex, RunRow, labels_of, sweeps_of, table_of, varied_fields
from phasecast.studio.stored_curves import CurveReader, StoredLine, is_logarithmic, panels_of, thinned

pytestmark = pytest.mark.bare
RECIPES = sorted(set(shipped()) - {"claim-check"})


@pytest.mark.parametrize("name", RECIPES)
def test_a_form_filled_with_a_preset_makes_the_spec_of_the_preset(name):
    """The way through the words of ``--set`` loses nothing: the same run id follows."""
    recipe = find_recipe(name)
    fields = form_of(recipe.spec)
    assert [field.name for field in fields if not field.help and field.name != "seed"] == []
    assert assignments(fields, initial_values(fields)) == []
    words = assignments(fields, initial_values(fields, recipe.tiny))
    assert spec_of(recipe.spec, words, allow_code=True) == recipe.spec(**recipe.tiny)


def test_a_form_knows_bounds_choices_and_what_may_be_empty():
    fields = {field.name: field for field in form_of(find_recipe("grokking").spec)}
    assert (fields["p"].kind, fields["p"].low, fields["p"].high) == ("integer", 3, 200)
    assert "≥ 3" in fields["p"].explanation
    assert "modulus" in fields["p"].explanation
    assert fields["network"].choices == ("quadratic", "mlp", "transformer")
    assert fields["batch"].optional
    assert fields["lr"].low is None  # > 0 is exclusive; a field of a browser has inclusive bounds only
    assert fields["lr"].bounds == "> 0"
    assert list(fields)[-1] == "seed"


def test_an_empty_field_is_null_where_that_is_allowed_and_bad_input_elsewhere():
    fields = form_of(find_recipe("grokking").spec)
    values = initial_values(fields, {"batch": 16})
    assert assignments(fields, {**values, "batch": None}) == []
    assert assignments(fields, values) == ["batch=16"]
    with pytest.raises(BadInput, match="steps is empty"):
        assignments(fields, {**values, "steps": None})


def test_code_in_a_form_is_refused_without_leave():
    spec = find_recipe("llc").spec
    with pytest.raises(BadInput, match="--allow-code"):
        spec_of(spec, ["problem=os:system"])
    assert [field.name for field in form_of(spec) if field.is_code] == ["problem"]


@given(st.text(max_size=200))
def test_text_from_elsewhere_has_no_markup_and_no_control_characters(text):
    assert not set(inert_text(text)) & {chr(code) for code in (*range(9), 27, 127, 155, 0x202E)}
    assert not {"<", ">", '"'} & set(for_html(text))
    marked = for_markdown(text)
    assert all(
        marked[place - 1] == "\\" for place, sign in enumerate(marked) if sign in "[]()<>!$:*_`" and sign != "\\"
    )


def test_long_text_ends():
    assert len(inert_text("a" * 10**6)) <= 2000


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("studio") / "runs")
    for steps, seed in ((20, 0), (20, 1), (100, 0)):
        run("walks:WALK", {"steps": steps, "seed": seed}, store=store, quiet=True)
    return store


def test_the_table_has_a_column_per_field_that_differs(walked):
    rows, unread = RunIndex(walked).look(60)
    table = table_of(rows)
    assert unread == 0
    assert list(table.columns) == ["run", "status", "recipe", "done", "steps", "seed", "updated", "conclusion"]
    assert list(table["steps"]) == [100, 20, 20]
    assert varied_fields(rows) == {"walks:WALK": ["steps", "seed"]}
    assert len(set(labels_of(rows))) == 3


def test_filters_search_ids_settings_and_words(walked):
    rows, _ = RunIndex(walked).look(60)
    kept = [row for row in rows if RowFilter(text="STEPS=20 walk seed=1").keeps(row)]
    assert [row.spec["seed"] for row in kept] == [1]
    assert not any(RowFilter(statuses=["failed"]).keeps(row) for row in rows)
    assert not any(RowFilter(recipes=["grokking"]).keeps(row) for row in rows)
    assert sum(RowFilter(runs=frozenset({rows[0].run})).keeps(row) for row in rows) == 1


def test_a_look_without_time_reads_on_at_the_next_one(walked):
    index = RunIndex(walked)
    assert index.look(-1.0)[1] == 3
    rows, unread = index.look(60)
    assert (len(rows), unread) == (3, 0)


def test_a_changed_removed_or_damaged_run_is_noticed(walked, tmp_path):
    store = Store(shutil.copytree(walked.path, tmp_path / "runs"))
    index = RunIndex(store)
    first = index.look(60)[0][0]
    (store.path / first.run / "status.json").write_text("{}")
    assert next(row for row in index.look(60)[0] if row.run == first.run).status == "damaged"
    store.folder(first.run).path.rename(tmp_path / "elsewhere")
    assert first.run not in {row.run for row in index.look(60)[0]}


def test_runs_of_several_recipes_share_one_column_of_settings():
    rows = [RunRow("a-1", "a", "ok", spec={"p": 1}), RunRow("a-2", "a", "ok", spec={"p": 2}), RunRow("b-1", "b", "ok")]
    assert list(table_of(rows)["settings"]) == ["p=1", "p=2", ""]


def test_a_damaged_sweep_does_not_stop_the_list(walked, tmp_path):
    store = Store(shutil.copytree(walked.path, tmp_path / "runs"))
    (store.path / "sweeps" / "sweep-x").mkdir(parents=True)
    (store.path / "sweeps" / "sweep-x" / "sweep.json").write_text("[]")
    assert sweeps_of(store, []) == []


def test_logged_columns_are_those_of_the_results(walked):
    reader = CurveReader()
    for row in RunIndex(walked).look(60)[0]:
        (norm,) = [line for line in reader.lines(walked.folder(row.run)) if line.name == "norm"]
        from phasecast.lab import load

        expected = load(row.run, store=walked, allow_code=True).results()["sevenths/norm"].values
        np.testing.assert_array_equal(norm.y, expected)


def test_rows_of_an_interrupted_run_come_from_disk_and_checkpoint(tmp_path):
    """All rows of a walk that stopped in the middle, of which most fill no chunk yet."""
    script = (
        "import walks, os, signal\n"
        "def stop(spec, state):\n"
        "    for chunk in walks.work(spec, state):\n"
        "        if chunk.done == 60: os.kill(os.getpid(), signal.SIGINT)\n"
        "        yield chunk\n"
        "import dataclasses, phasecast.lab as lab\n"
        "recipe = dataclasses.replace(walks.WALK, work=stop)\n"
        f"lab.run(recipe, {{'steps': 100}}, store={str(tmp_path / 'runs')!r}, quiet=True)\n"
    )
    from conftest import python_path

    environment = {**os.environ, "PYTHONPATH": python_path()}
    subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=False)
    store = Store(tmp_path / "runs")
    (row,) = RunIndex(store).look(60)[0]
    assert (row.status, row.done) == ("interrupted", 60)
    (norm,) = [line for line in CurveReader().lines(store.folder(row.run)) if line.name == "norm"]
    place, expected = np.zeros(3), []
    for done in range(60):
        place = place + np.random.default_rng([0, done]).normal(size=3)
        expected += [np.linalg.norm(place)] * 2 if (done + 1) % 7 == 0 else []
    np.testing.assert_allclose(norm.y, expected, rtol=1e-14)


def test_a_damaged_chunk_ends_a_column_and_links_are_refused(walked, tmp_path):
    store = Store(shutil.copytree(walked.path, tmp_path / "runs"))
    folder = store.folder(RunIndex(store).look(60)[0][0].run)
    whole = {line.title: line.y.size for line in CurveReader().lines(folder)}
    chunk = folder.results / "sevenths" / "norm" / "c" / "2"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    assert (
        {line.title: line.y.size for line in CurveReader().lines(folder)}["sevenths/norm"]
        == 10
        < whole["sevenths/norm"]
    )
    metadata = folder.results / "sevenths" / "norm" / "zarr.json"
    facts = json.loads(metadata.read_text())
    facts["chunk_grid"]["configuration"]["chunk_shape"] = [10**12]
    metadata.write_text(json.dumps(facts))
    assert "sevenths/norm" not in {line.title for line in CurveReader().lines(folder)}  # and no memory was asked for


def test_a_thinned_line_keeps_its_spikes_and_its_ends():
    y = np.zeros(100_000)
    y[54_321], y[77_777] = 5.0, -3.0
    y[100] = np.nan
    line = thinned(StoredLine("t", "y", "step", np.arange(100_000.0), y), 2000)
    assert line.y.size <= 2002
    assert (line.y.max(), line.y.min()) == (5.0, -3.0)
    assert (line.x[0], line.x[-1]) == (0, 99_999)


def test_lines_with_one_ending_share_a_picture_and_losses_a_logarithmic_axis():
    x = np.arange(3.0)
    logged = {"train_loss": [1.0, 1e-3, 1e-4], "validation_loss": [1.0, 0.1, 0.1], "k_eff": [1.0, 2.0, 3.0]}
    lines = [StoredLine("curves", name, "step", x, np.array(y)) for name, y in logged.items()]
    shown = panels_of(lines)
    assert {title: len(group) for title, group in shown.items()} == {"curves: loss": 2, "curves: k eff": 1}
    assert is_logarithmic(shown["curves: loss"])
    assert not is_logarithmic(shown["curves: k eff"])


@pytest.mark.parametrize("name", list(closed_forms.forms()))
def test_every_closed_form_answers_with_what_its_form_holds_at_first(name):
    form = closed_forms.forms()[name]
    found = form.compute({entry.name: entry.example for entry in form.inputs})
    assert float(found.value) > 0
    assert form.summary
    assert ("math::" in (form.function.__doc__ or "")) == any(part.startswith("$$") for part in form.explained)
    assert not any(mark in part for part in form.explained for mark in (":math:", ":func:", ">>>", "Parameters"))


def test_a_wrong_input_of_a_closed_form_is_one_line():
    with pytest.raises(BadInput, match="5, 3, 4"):
        closed_forms.forms()["deep-linear"].compute({"widths": "a, b", "rank": 1})
    with pytest.raises(BadInput, match="empty"):
        closed_forms.forms()["deep-linear"].compute({"widths": "", "rank": 1})


def test_a_process_that_does_not_hold_the_lock_is_never_stopped(walked, tmp_path):
    """A status file may name any process: here one that sleeps and must survive."""
    store = Store(shutil.copytree(walked.path, tmp_path / "runs"))
    folder = store.folder(RunIndex(store).look(60)[0][0].run)
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    status = json.loads((folder.path / "status.json").read_text())
    del status["digest"], status["seal"]
    with folder.lock():
        folder.write_status({**status, "status": "running", "pid": sleeper.pid})
        with pytest.raises(BadInput, match="does not compute"):
            processes.stop_run(folder.id, store)
    assert sleeper.poll() is None
    sleeper.send_signal(signal.SIGKILL)
    sleeper.wait()


def test_a_run_that_imports_code_is_not_resumed_without_leave(walked, tmp_path):
    store = Store(shutil.copytree(walked.path, tmp_path / "runs"))
    folder = store.folder(RunIndex(store).look(60)[0][0].run)
    status = json.loads((folder.path / "status.json").read_text())
    del status["digest"], status["seal"]
    folder.write_status({**status, "status": "interrupted"})
    with pytest.raises(BadInput, match="--allow-code"):
        processes.resume_run(folder.id, store)


def test_a_program_is_run_apart_and_ends_in_time():
    assert processes.run_program("print(6 * 7)", 60) == processes.Output("42\n", 0)
    assert processes.run_program("while True: pass", 0.5).code is None
    assert processes.run_program("raise SystemExit(3)", 60).code == 3


def test_the_server_listens_at_home_only_and_tells_nobody():
    words = server.server_command(9999)
    options = dict(itertools.pairwise(words))
    assert options["--server.address"] == "127.0.0.1"
    assert options["--browser.gatherUsageStats"] == "false"
    assert options["--server.port"] == "9999"
    with pytest.raises(BadInput, match="--port is 80"):
        server.free_port(80)


def test_without_streamlit_the_command_says_how_to_get_it(command, monkeypatch, store):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, out, err = command("studio", "--store", store)
    assert (code, out) == (2, "")
    assert err.strip() == "phasecast: the studio needs streamlit; install it with `pip install 'phasecast[studio]'`"
    assert not store.exists()
