"""A store that phasecast 0.1.0 wrote: its runs are listed, shown, reported and exported, or refused in one line.

``tests/data/store-0.1.0.tar.xz`` holds the runs of ``toy-landscapes`` and ``grokking`` with their ``tiny`` specs as
release 0.1.0 stored them, with answers by their labels.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from phasecast.lab import find_recipe, load

ARCHIVE = Path(__file__).parents[1] / "data" / "store-0.1.0.tar.xz"
RUNS = ("grokking-17802fb54d96", "toy-landscapes-435c4fa4e869")


@pytest.fixture
def old(tmp_path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "store"


def test_old_runs_are_listed_and_shown(command, command_json, old):
    assert sorted(row["run"] for row in command_json("runs", "ls", "--store", old)["runs"]) == list(RUNS)
    for run in RUNS:
        shown = command_json("runs", "show", run, "--store", old)
        assert shown["summary"]["answers"]
        assert shown["summary"]["sentence"] in command("runs", "show", run, "--store", old)[1]


@pytest.mark.parametrize("run", RUNS)
def test_old_runs_are_exported(command_json, old, run, tmp_path):
    written = command_json("runs", "export", run, "--to", tmp_path / "out.csv", "--store", old)["written"]
    assert all(Path(path).stat().st_size for path in written)


@pytest.mark.parametrize("run", RUNS)
def test_old_runs_are_reported_and_say_if_their_recipe_has_changed(command, old, run):
    stored = load(run, store=old)
    code, out, _ = command("report", run, "--store", old)
    assert code == 0
    text = Path(out.strip()).read_text()
    assert "</html>" in text
    assert stored.summary["sentence"][:30] in text
    changed = find_recipe(stored.folder.spec()["recipe"]).version != stored.folder.spec()["recipe_version"]
    assert (f"version {stored.folder.spec()['recipe_version']}" in text) == changed


@pytest.mark.parametrize("run", RUNS)
def test_an_old_finished_run_is_not_computed_again(command_json, old, run):
    assert command_json("runs", "resume", run, "--store", old)["run"] == run
