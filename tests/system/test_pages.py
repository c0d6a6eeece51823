"""Pages of runs and sweeps: unfinished ones, those without a recipe, sweeps over numbers, downloads, hostile names."""

from __future__ import annotations

import base64
import csv
import html
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from phasecast.core import Measurement, Prediction, Status
from phasecast.core.errors import RecipeFailed
from phasecast.core.results import Comparison
from phasecast.figures.table import figure_csv
from phasecast.lab import Answer, Run, Store, load, run, sweep
from phasecast.lab.engines import Outcome, compute
from phasecast.lab.recipe import Row, find_recipe
from phasecast.lab.spec import make_spec
from phasecast.lab.store import run_id
from phasecast.report import write, write_sweep
from phasecast.report.sweep_figures import SweepAxes, SweptRun, across_runs, grouped, sweep_finding

pytestmark = pytest.mark.bare


def here(tasks):
    return (Outcome(task, *compute(task)) for task in tasks)


class Stop(Exception):
    pass


@pytest.fixture
def half(store):
    """A run that was killed after 40 of 60 steps; its last checkpoint counts all 40, of which 32 are on disk."""
    recipe = find_recipe("walks:WALK")
    spec = make_spec(recipe.spec, {"steps": 60})

    class Progress:
        def update(self, done, total, metric=None):
            if done == 41:
                raise Stop

        def say(self, line):
            pass

    from phasecast.lab import runs

    with pytest.raises(RecipeFailed, match="Stop"):
        runs.execute(recipe, spec, Store(store), progress=Progress(), checkpoint_every=1e-9)
    (path,) = store.glob("walks-WALK-*")
    status = json.loads((path / "status.json").read_text())
    status.pop("error")
    Store(store).folder(path.name).write_status({**status, "status": "running", "done": 40})
    return Run(path.name, Store(store), allow_code=True)


def test_an_unfinished_run_has_its_rows_up_to_the_last_checkpoint(half):
    rows = half.results_so_far()
    whole = run("walks:WALK", {"steps": 60}, store=half.store.path.parent / "other", quiet=True).results()
    assert rows["walk/place"].dims == ("time", "axis")
    assert list(rows["walk/axis"].values) == ["x", "y", "z"]
    assert rows["walk/step"].values.tolist() == list(range(1, 41))
    np.testing.assert_array_equal(rows["walk/place"].values, whole["walk/place"].values[:40])  # pyright: ignore[reportIndexIssue]
    np.testing.assert_array_equal(rows["sevenths/norm"].values, whole["sevenths/norm"].values[:10])  # pyright: ignore[reportIndexIssue]
    assert Run(half.id, half.store).results_so_far()["walk/step"].size == 40  # also without the recipe  # pyright: ignore[reportOptionalSubscript]
    assert half.status == "interrupted"  # and nothing was removed: it can be resumed
    from phasecast.lab import resume

    finished = resume(half.id, store=half.store, quiet=True)
    np.testing.assert_array_equal(finished.results()["walk/place"].values, whole["walk/place"].values)


@pytest.mark.parametrize("allowed", [True, False])
def test_an_unfinished_run_has_a_page(command, half, allowed):
    words = ["report", half.id, "--store", half.store.path, *(["--allow-code"] if allowed else [])]
    code, out, _ = command(*words)
    assert code == 0
    text = Path(out.strip()).read_text()
    assert "This run is interrupted: 40 of 60 (67%)" in text
    assert f"phasecast runs resume {half.id}" in text
    assert ("drawn by the recipe" if allowed else "as they are stored") in text
    assert "<svg" in text
    assert "<h2>Log</h2>" in text


def test_a_run_without_checkpoint_or_results_has_a_page(half):
    import shutil

    shutil.rmtree(half.folder.checkpoints)
    assert "no checkpoint with arrays yet" in write(half).read_text()


def test_a_store_opens_where_the_module_of_the_recipe_is_missing(command, store):
    done = run("walks:WALK", {"steps": 30}, store=store, quiet=True)
    request = json.loads((done.path / "spec.json").read_text())
    identity = run_id("gone:WALK", 1, request["spec"], {})
    theirs = done.path.rename(store / identity)
    (theirs / "spec.json").write_text(json.dumps({**request, "recipe": "gone:WALK", "contents": {}}))
    status = json.loads((theirs / "status.json").read_text())
    status.pop("digest")
    folder = Store(store).folder(identity)
    folder.write_status({**status, "run": identity, "recipe": "gone:WALK"})
    for words in (["--allow-code"], []):
        code, out, err = command("report", identity, *words, "--store", store)
        assert code == 0, err
        text = Path(out.strip()).read_text()
        assert "This page shows what is stored" in text
        assert "A walk was taken." in text
        assert "mean step" in text
        assert "✓ agrees" in text
        assert text.count("<figure>") == 2  # the tables walk and sevenths
        assert '<code>steps</code></td><td class="value">30' in text
    page = Path(command("report", identity, "--allow-code", "--store", store)[1].strip())
    assert "no module 'gone'" in html.unescape(page.read_text())
    out = command("runs", "show", identity, "--store", store)[1]
    assert "mean step" in out
    assert "steps = 30" in out


def downloads(text: str) -> dict[str, str]:
    pairs = re.findall(r'<a href="data:[^;]+;base64,([^"]+)" download="([^"]+)"', text)
    return {name: base64.b64decode(content).decode() for content, name in pairs}


def test_every_figure_can_be_downloaded_with_its_data(store):
    done = run("walks:WALK", {"steps": 30}, store=store, quiet=True)
    files = downloads(write(done).read_text())
    assert set(files) == {"walk.svg", "walk.csv"}
    assert files["walk.svg"].startswith("<?xml")
    rows = list(csv.DictReader(io.StringIO(files["walk.csv"])))
    heights = [float(row["y"]) for row in rows]
    np.testing.assert_allclose(heights, done.results()["walk/place"].values.T.ravel(), rtol=1e-9)  # pyright: ignore[reportAttributeAccessIssue]
    assert (done.path / "figures" / "walk.csv").read_text() == files["walk.csv"]


def test_the_table_of_a_figure_has_everything_drawn_in_it():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    left.set_title("title")
    left.set_xlabel("α")
    left.errorbar([1, 2], [3, 4], yerr=[0.5, 0.25], fmt="o", label="measured")
    left.plot([1, 2], [5, np.nan], label="line")
    left.axhline(7, label="exact")
    left.axvline(9)
    left.fill_between([1, 2], [0, 1], [2, 3], label="band")
    right.pcolormesh([0, 1, 2], [0, 1], [[5.0, 6.0]])
    right.scatter([1], [2])
    right.bar([1], [4])
    rows = list(csv.DictReader(io.StringIO(figure_csv(figure))))
    kinds = {kind: [row for row in rows if row["kind"] == kind] for kind in {row["kind"] for row in rows}}
    first = kinds["point"][0]
    assert (first["panel"], first["x_axis"], first["series"]) == ("title", "α", "measured")
    assert [float(first[name]) for name in ("x", "y", "low", "high")] == [1, 3, 2.5, 3.5]
    assert [(row["x"], row["y"]) for row in kinds["line"]] == [("1", "5"), ("2", "")]
    assert [(row["series"], row["y"]) for row in kinds["horizontal line"]] == [("exact", "7")]
    assert [row["x"] for row in kinds["vertical line"]] == ["9"]
    assert [(row["x"], row["low"], row["high"]) for row in kinds["band"]] == [("1", "0", "2"), ("2", "1", "3")]
    assert [(row["x"], row["value"]) for row in kinds["cell"]] == [("0.5", "5"), ("1.5", "6")]
    assert ("1", "2") in [(row["x"], row["y"]) for row in kinds["point"]]
    assert [row["y"] for row in kinds["bar"]] == ["4"]


def swept_run(estimate, error=0.1, *, refused=False, predicted=None, **values) -> SweptRun:
    reasons = {"reasons": ["not sure: look"], "status": Status.REFUSED} if refused else {}
    measured = Measurement(estimate, error, **reasons)
    result = measured if predicted is None else Comparison(Prediction(predicted), measured)
    return SweptRun(values, [Row.of(Answer("x", result, "step of x"))])


GRID = [
    swept_run(y + 0.01 * seed, wd=wd, seed=seed) for wd, y in ((1e-5, 9.0), (1e-3, 5.0), (1e-1, 1.0)) for seed in (0, 1)
]


def test_a_sweep_over_numbers_has_a_numeric_axis_and_seeds_are_averaged():
    axes = SweepAxes.of(["wd", "seed"], GRID)
    assert (axes.x, axes.series, axes.numeric, axes.places) == ("wd", (), True, (1e-5, 1e-3, 1e-1))
    groups = grouped([(axes.place(one), one.rows[0]) for one in GRID])
    assert [(group.place, group.count) for group in groups] == [(1e-5, 2), (1e-3, 2), (1e-1, 2)]
    np.testing.assert_allclose([group.mean for group in groups], [9.005, 5.005, 1.005])
    np.testing.assert_allclose([group.error for group in groups], 0.1 / np.sqrt(2))  # of the runs themselves
    exact = [swept_run(one.rows[0].measurement.estimate, 0.0, **one.values) for one in GRID]  # pyright: ignore[reportOptionalMemberAccess]
    spread = grouped([(axes.place(one), one.rows[0]) for one in exact])
    np.testing.assert_allclose([group.error for group in spread], 0.005)  # half the distance of two seeds
    (panel,) = across_runs(GRID, ["wd", "seed"]).figure.axes
    assert (panel.get_xscale(), panel.get_xlabel(), panel.get_title()) == ("log", "wd", "step of x")
    assert (
        sweep_finding(GRID, ["wd", "seed"])
        == "step of x falls from 9.005 ± 0.071 to 1.005 ± 0.071 as wd goes from 1e-05 to 0.1."
    )


def test_refused_runs_are_hollow_and_not_in_the_mean():
    runs = [*GRID, swept_run(1000.0, refused=True, wd=1e-5, seed=2)]
    assert grouped([(0.0, one.rows[0]) for one in runs[-1:]]) == []
    (panel,) = across_runs(runs, ["wd", "seed"]).figure.axes
    hollow = [line for line in panel.lines if line.get_markerfacecolor() == "none"]
    assert [line.get_ydata().tolist() for line in hollow] == [[1000.0]]  # pyright: ignore[reportAttributeAccessIssue]
    assert sweep_finding(runs, ["wd", "seed"]) == sweep_finding(GRID, ["wd", "seed"])


def test_other_shapes_of_sweeps():
    seeds = [swept_run(float(seed), seed=seed) for seed in range(3)]
    assert SweepAxes.of(["seed"], seeds).x is None
    assert sweep_finding(seeds, ["seed"]) == "step of x: 1.00 ± 0.58 (mean of 3 runs ± standard error)."
    words = [swept_run(y, kind=kind, lr=lr) for kind, y in (("adam", 2.0), ("sgd", 4.0)) for lr in (0.1, 0.2)]
    axes = SweepAxes.of(["kind", "lr"], words)
    assert (axes.x, axes.series, axes.numeric) == ("lr", ("kind",), True)
    assert {"kind = adam", "kind = sgd"} == {axes.series_of(one) for one in words}
    assert "does not change by more than its errors" in sweep_finding(words, ["kind", "lr"])
    by_chance = [
        swept_run(y, 0.0, n=n, seed=seed) for n, seed, y in ((1, 0, 1.0), (1, 1, 1.2), (2, 0, 1.5), (2, 1, 1.7))
    ]
    assert "does not change" in sweep_finding(by_chance, ["n", "seed"])  # 3.5 errors apart, but of two seeds each
    names = [swept_run(y, kind=kind) for kind, y in (("adam", 2.0), ("sgd", 4.0))]
    assert sweep_finding(names, ["kind"]).startswith("step of x is smallest, 2.00 ± 0.10 at kind = adam")
    (panel,) = across_runs(names, ["kind"]).figure.axes
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["adam", "sgd"]
    zipped = [swept_run(float(n), n=n, m=10 * n) for n in (1, 2, 3)]
    assert SweepAxes.of(["n", "m"], zipped).series == ()
    flags = [swept_run(1.0, flag=flag) for flag in (True, False)]
    assert not SweepAxes.of(["flag"], flags).numeric


def test_answers_that_are_arrays_are_drawn_as_curves():
    runs = [
        swept_run(np.array([1.0, 2.0, 3.0]) * n, np.full(3, 0.1), n=n, seed=seed)  # pyright: ignore[reportArgumentType]
        for n in (1, 2)
        for seed in (0, 1)
    ]
    (panel,) = across_runs(runs, ["n", "seed"]).figure.axes
    assert [line.get_ydata().tolist() for line in panel.lines] == [[1, 2, 3], [2, 4, 6]]  # pyright: ignore[reportAttributeAccessIssue]
    assert [text.get_text() for text in panel.get_legend().get_texts()] == ["n = 1", "n = 2"]  # pyright: ignore[reportOptionalMemberAccess]
    assert sweep_finding(runs, ["n", "seed"]) == ""


def test_a_thousand_names_are_drawn_but_not_all_written():
    names = [swept_run(float(number % 7), kind=f"kind {number}") for number in range(1000)]
    axes = SweepAxes.of(["kind"], names)
    assert [axes.place(one) for one in names] == list(range(1000))
    (panel,) = across_runs(names, ["kind"]).figure.axes
    written = [tick.get_text() for tick in panel.get_xticklabels()]
    assert written == [f"kind {number}" for number in range(0, 1000, 48)]
    series = [swept_run(1.0, n=n, kind=f"kind {number}") for number in range(40) for n in (1, 2)]
    drawn = across_runs(series, ["n", "kind"])
    (panel,) = drawn.figure.axes
    assert len(panel.containers) == 40
    (legend,) = drawn.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [f"kind = kind {number}" for number in range(21)]
    assert drawn.caption.endswith("The first 21 of 40 series are named.")


def test_the_page_of_a_sweep_says_what_was_found_without_the_recipe(command, store):
    swept = sweep("walks:WALK", grid={"steps": [20, 200]}, seeds=2, store=store, engine=here, quiet=True)
    text = write_sweep(swept.id, Store(store)).read_text()
    assert "4 of 4 runs are finished. Mean step" in text
    assert "across-runs.csv" in text
    assert "4 of 4 agree" in text


HOSTILE = '"><script>alert(1)</script>\x1b[31m$\\frac{' + "é" * 300


def test_hostile_names_are_inert_on_the_page(command, store):
    done = run("walks:WALK", {"steps": 30}, store=store, quiet=True)
    status = json.loads((done.path / "status.json").read_text())
    status.pop("digest")
    answer = {**status["summary"]["answers"][0], "label": HOSTILE, "verdict": HOSTILE}
    spec = {"steps": 30, HOSTILE: HOSTILE, "long": "x" * 100_000}
    identity = run_id(HOSTILE, 1, spec, {})
    theirs = done.path.rename(store / identity)
    (theirs / "spec.json").write_text(
        json.dumps({"format": 1, "recipe": HOSTILE[:400], "recipe_version": 1, "spec": spec, "contents": {}})
    )
    folder = Store(store).folder(identity)
    summary = {**status["summary"], "answers": [answer], "sentence": HOSTILE}
    folder.write_status({**status, "run": identity, "recipe": HOSTILE, "summary": summary})
    text = write(load(identity, store=store)).read_text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert len(text) < 500_000
    swept = sweep("walks:WALK", {"steps": 30}, seeds=1, store=store, engine=here, quiet=True)
    record = store / "sweeps" / swept.id / "sweep.json"
    facts = json.loads(record.read_text())
    record.write_text(json.dumps({**facts, "varied": [HOSTILE], "recipe": HOSTILE, "runs": [identity]}))
    text = write_sweep(swept.id, Store(store)).read_text()
    assert "<script" not in text
    assert (store / "sweeps" / swept.id / "figures" / "across-runs.csv").exists()


def test_the_demo_prints_its_sentence_and_table_then_the_path(command, store, monkeypatch):
    from phasecast import lab

    whole = lab.run

    def small(recipe, settings, **more):
        return whole(recipe, find_recipe(recipe).tiny, **more)

    monkeypatch.setattr(lab, "run", small)
    code, out, _ = command("demo", "--store", store, "--quiet")
    (stored,) = Store(store).statuses()
    assert code == {"ok": 0, "warning": 0, "refused": 3}[stored["status"]]
    first, *_, last = out.strip().splitlines()
    assert first == stored["summary"]["sentence"]
    assert "quantity" in out
    assert "grokking severity GSM" in out
    assert last == f"report: {store / stored['run'] / 'report.html'}"
