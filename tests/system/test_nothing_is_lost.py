"""Runs survive being killed, broken disks and damaged files, and are never computed twice."""

from __future__ import annotations

import errno
import itertools
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest

from conftest import python_path, start
from phasecast.core.errors import RecipeFailed, RunInterrupted, StoreError
from phasecast.lab import Store, checkpoint, load, resume, run
from phasecast.lab.tables import read


def arrays(found) -> dict[str, np.ndarray]:
    """Every array of a run's results, by path."""
    tree = read(found.folder.results)
    return {
        f"{node.path}/{name}": np.asarray(variable.values)
        for node in tree.subtree
        for name, variable in node.to_dataset().variables.items()
    }


def assert_same_bits(left, right) -> None:
    first, second = arrays(left), arrays(right)
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert array.dtype == second[name].dtype
        assert array.shape == second[name].shape
        same = (array == second[name]).all() if array.dtype.kind == "T" else array.tobytes() == second[name].tobytes()
        assert same, name


def events(found, event: str) -> list[dict]:
    return [line for line in found.folder.events() if line["event"] == event]


def wait_for(condition, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.005)


def only_folder(store: Path) -> Path | None:
    folders = [path for path in store.glob("walks-WALK-*") if path.is_dir()]
    return folders[0] if folders else None


def checkpoints(store: Path) -> set[str]:
    folder = only_folder(store)
    return {path.name for path in (folder / "checkpoint").glob("*")} if folder else set()


@pytest.fixture(scope="module")
def start_walk():
    """Start a walk in a process of its own, forked from one that has imported the library and nothing of JAX."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["walks", "xarray", "zarr"])

    def begin(*given: object) -> BaseProcess:
        from walks import walk  # as it is now: a recipe's module is loaded anew for each run

        process = context.Process(target=walk, args=given)
        process.start()
        return process

    return begin


def test_a_run_killed_at_twenty_random_moments_gives_the_same_bits(tmp_path, start_walk, monkeypatch):
    whole = run("walks:WALK", {"steps": 1500}, store=tmp_path / "whole", quiet=True)
    moments = random.Random(20)
    store = tmp_path / "killed"
    for kill in range(20):
        process = start_walk({"steps": 1500, "pause": 0.002}, store, 0.03)

        def begun(kill: int = kill) -> bool:
            folder = only_folder(store)
            log = folder / "log.jsonl" if folder else None
            return log is not None and log.exists() and log.read_text().count('"started"') > kill

        wait_for(begun)
        if kill % 2:  # however slow the machine, every other kill finds new work
            before = checkpoints(store)
            wait_for(lambda before=before: checkpoints(store) - before)
        time.sleep(moments.uniform(0, 0.2))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    assert load("walks", store=store).status == "interrupted"
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    killed = resume("walks", store=store, quiet=True)
    assert killed.status == "ok"
    begun_at = [event["checkpoint"] for event in events(killed, "started")]
    assert len(begun_at) == 21
    assert sum(later > earlier for earlier, later in itertools.pairwise(begun_at)) >= 10
    assert_same_bits(whole, killed)


def test_the_real_recipe_killed_three_times_gives_the_same_bits(tmp_path):
    settings = ("landscapes=x2y2,x2y4", "samples=10000", "blocks=30")
    words = ("run", "toy-landscapes", "--threads", "1", "--checkpoint-every", "0.05", "--set", *settings)
    whole = start(*words, "--store", tmp_path / "whole")
    whole.communicate()
    store = Store(tmp_path / "killed")
    for wanted in (1, 4, 12):
        process = start(*words, "--store", store.path)

        def far_enough(wanted: int = wanted) -> bool:
            return any((status.get("done") or 0) >= wanted for status in store.statuses())

        wait_for(far_enough)
        process.kill()
        process.communicate()
    last = start(*words, "--store", store.path)
    _, complaint = last.communicate()
    assert last.returncode == whole.returncode, complaint
    assert_same_bits(load("toy", store=tmp_path / "whole"), load("toy", store=store))


class BrokenDisk:
    """From the n-th file that is put in place on, every write fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, works: int, code: int):
        self.left, self.code = works, code
        genuine = Path.replace

        def replace(path: Path, target):
            self.left -= 1
            if self.left < 0:
                raise OSError(self.code, os.strerror(self.code))
            return genuine(path, target)

        monkeypatch.setattr(Path, "replace", replace)


def test_a_crash_at_any_write_whatever_leaves_a_run_that_resumes_to_the_same_bits(tmp_path, monkeypatch):
    """Let the disk break at the first write, the second, …, until the run gets through."""
    spec = {"steps": 15}
    whole = run("walks:WALK", spec, store=tmp_path / "whole", quiet=True)
    crashes = 0
    for works in range(1000):
        store = tmp_path / f"broken-{works}"
        with monkeypatch.context() as patch:
            BrokenDisk(patch, works, errno.ENOSPC)
            try:
                run("walks:WALK", spec, store=store, checkpoint_every=1e-9, quiet=True)
            except StoreError as error:
                crashes += 1
                assert "is full" in str(error)  # noqa: PT017
            else:
                break
        mended = run("walks:WALK", spec, store=store, checkpoint_every=1e-9, quiet=True)
        assert_same_bits(whole, mended)
        assert len(events(mended, "finished")) == 1
    assert crashes > 50


def test_a_write_that_the_kernel_cuts_short_is_a_clear_line_and_the_store_stays_valid(tmp_path):
    """A limit on the size of files stands for a full disk: the kernel refuses in the middle of a write."""
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000));"
        "from phasecast.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    store = tmp_path / "runs"
    words = [
        "run",
        "walks:WALK",
        "--set",
        "steps=400",
        "ballast=2000",
        "--store",
        str(store),
        "--checkpoint-every",
        "0.001",
    ]
    limited = subprocess.run(
        [sys.executable, "-c", script, *words],
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert limited.returncode == 2
    assert limited.stdout == ""
    lines = limited.stderr.strip().splitlines()
    assert lines[-1].startswith("phasecast: the disk that holds")
    assert "Traceback" not in limited.stderr
    assert not list(store.rglob("*.partial"))
    assert load("walks", store=store).status in ("interrupted", "failed")
    assert_same_bits(
        run("walks:WALK", {"steps": 400, "ballast": 2000}, store=tmp_path / "whole", quiet=True),
        resume("walks", store=store, quiet=True),
    )


def test_a_read_only_store_is_a_clear_line_and_can_still_be_read(tmp_path):
    store = tmp_path / "runs"
    done = run("walks:WALK", {"steps": 20}, store=store, quiet=True)
    as_others = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []

    def attempt(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*as_others, sys.executable, "-m", "phasecast.cli", *words, "--store", str(store)],
            env={**os.environ, "PYTHONPATH": python_path()},
            capture_output=True,
            text=True,
            check=False,
        )

    folders = [store, *(path for path in store.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        new = attempt("run", "walks:WALK", "--set", "steps=21")
        old = attempt("runs", "show", done.id, "--json")
        again = attempt("run", "walks:WALK", "--set", "steps=20", "--json")
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert new.returncode == 2
    assert new.stderr.count("\n") == 1
    assert "cannot be written" in new.stderr
    assert json.loads(old.stdout)["status"] == "ok"
    assert json.loads(again.stdout)["run"] == done.id
    assert [status["run"] for status in Store(store).statuses()] == [done.id]


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "header"])
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_is_used(tmp_path, damage):
    spec = {"steps": 200}
    whole = run("walks:WALK", spec, store=tmp_path / "whole", quiet=True)
    store = tmp_path / "damaged"
    with pytest.raises(RunInterrupted):
        _interrupted_at(120, spec, store)
    found = load("walks", store=store)
    older, newest = sorted(found.folder.checkpoints.iterdir())
    content = bytearray(newest.read_bytes())
    if damage == "truncate":
        content = content[:-7]
    elif damage == "flip":
        content[len(content) // 2] ^= 1
    elif damage == "header":
        content = content[5:]
    newest.write_bytes(b"" if damage == "empty" else bytes(content))
    resumed = resume("walks", store=store, quiet=True)
    last = events(resumed, "started")[-1]
    assert last["checkpoint"] == int(older.stem)
    assert "damaged" in last["notes"][0]
    assert_same_bits(whole, resumed)


def test_without_any_sound_checkpoint_a_run_starts_from_the_beginning(tmp_path):
    spec = {"steps": 200}
    store = tmp_path / "runs"
    with pytest.raises(RunInterrupted):
        _interrupted_at(120, spec, store)
    found = load("walks", store=store)
    for path in found.folder.checkpoints.iterdir():
        path.write_bytes(b"nonsense")
    resumed = resume("walks", store=store, quiet=True)
    assert len(events(resumed, "started")[-1]["notes"]) == 2
    assert_same_bits(run("walks:WALK", spec, store=tmp_path / "whole", quiet=True), resumed)


def _interrupted_at(step: int, spec: dict, store: Path) -> None:
    """Run, and press Ctrl-C at a step; a checkpoint is written at every step before."""
    from phasecast.lab.runs import execute
    from walks import WALK, Walk

    class Press:
        def update(self, done, total, metric=None):
            if done == step:
                os.kill(os.getpid(), signal.SIGINT)

        def say(self, line):
            return None

    execute(WALK, Walk(**spec), Store(store), progress=Press(), checkpoint_every=1e-9)


def test_the_last_two_checkpoints_are_kept(tmp_path):
    for number in range(1, 6):
        checkpoint.save(tmp_path / "checkpoint", number, {"x": np.arange(number)})
    assert [path.name for path in sorted((tmp_path / "checkpoint").iterdir())] == ["00000004.ckpt", "00000005.ckpt"]


def test_a_checkpoint_keeps_every_kind_of_state(tmp_path):
    state = {"a": np.arange(3, dtype=np.int8), "b": [1, (2.5, float("inf"))], "c": {"d": None, "e": "λ"}, "f": True}
    checkpoint.save(tmp_path / "checkpoint", 3, state)
    number, again, notes = checkpoint.load_newest(tmp_path / "checkpoint")
    assert (number, notes) == (3, [])
    assert again["a"].dtype == np.int8
    assert again["b"] == state["b"]
    assert again["c"] == state["c"]
    assert again["f"] is True


def test_a_state_keeps_the_order_of_its_arrays_and_what_it_cannot_keep_is_refused(tmp_path):
    from collections import Counter

    from phasecast.core.errors import BadInput

    state = {
        "f": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "t": np.arange(6).reshape(2, 3).T[::2],
        "z": np.array(2),
    }
    checkpoint.save(tmp_path / "checkpoint", 1, state)
    _, again, _ = checkpoint.load_newest(tmp_path / "checkpoint")
    assert again["f"].flags.f_contiguous
    for name, array in state.items():
        np.testing.assert_array_equal(again[name], array)
        assert again[name].shape == array.shape
    for odd in (Counter("aab"), np.ma.masked_array([1, 2], [True, False]), np.array([object()]), {1: 2}):
        with pytest.raises(BadInput, match="a recipe's state has"):
            checkpoint.save(tmp_path / "checkpoint", 2, {"odd": odd})


def test_two_damaged_checkpoints_do_not_stop_the_next_ones(tmp_path):
    store = tmp_path / "runs"
    with pytest.raises(RunInterrupted):
        _interrupted_at(120, {"steps": 200}, store)
    for path in load("walks", store=store).folder.checkpoints.iterdir():
        path.write_bytes(b"nonsense")
    with pytest.raises(RunInterrupted):
        _interrupted_at(60, {"steps": 200}, store)
    resumed = resume("walks", store=store, quiet=True)
    assert events(resumed, "started")[-1]["checkpoint"] > 0
    assert_same_bits(run("walks:WALK", {"steps": 200}, store=tmp_path / "whole", quiet=True), resumed)


def test_results_that_vanished_are_computed_again(tmp_path):
    import shutil

    store = tmp_path / "runs"
    with pytest.raises(RunInterrupted):
        _interrupted_at(120, {"steps": 200}, store)
    shutil.rmtree(load("walks", store=store).folder.results)
    resumed = resume("walks", store=store, quiet=True)
    assert "started from the beginning" in events(resumed, "restarted")[0]["notes"][0]
    assert_same_bits(run("walks:WALK", {"steps": 200}, store=tmp_path / "whole", quiet=True), resumed)


def test_a_row_buffer_that_the_recipe_reuses_is_stored_as_it_was(tmp_path):
    from phasecast.lab.tables import ResultsWriter, Table

    writer = ResultsWriter(tmp_path / "results.zarr", {"t": Table("row", {"x": ()})})
    buffer = np.zeros(1)
    for value in range(3):
        buffer[0] = value
        writer.append({"t": {"x": buffer}})
    writer.finish()
    assert np.asarray(read(tmp_path / "results.zarr")["t/x"]).tolist() == [0, 1, 2]


def test_rows_of_another_type_are_refused_and_a_table_without_rows_is_there(tmp_path):
    from phasecast.core.errors import PhasecastError
    from phasecast.lab.tables import ResultsWriter, Table

    layout = {
        "n": Table("row", {"k": ()}, dtypes={"k": "int64"}),
        "none": Table("row", {"x": ("axis",)}, {"axis": ["a"]}),
    }
    writer = ResultsWriter(tmp_path / "results.zarr", layout)
    with pytest.raises(PhasecastError, match="is declared int64 but got float64"):
        writer.append({"n": {"k": [0.5]}})
    writer.append({"n": {"k": [1]}})
    writer.finish()
    assert read(tmp_path / "results.zarr")["none/x"].shape == (0, 1)


def test_ctrl_c_stops_at_the_next_chunk_with_130_and_a_way_to_go_on(tmp_path):
    store = tmp_path / "runs"
    process = start("run", "walks:WALK", "--set", "steps=100000", "pause=0.01", "--store", store, "--json")
    wait_for(lambda: any((status.get("done") or 0) > 0 for status in Store(store).statuses()))
    process.send_signal(signal.SIGINT)
    out, complaint = process.communicate(timeout=30)
    assert process.returncode == 130
    assert json.loads(out)["status"] == "interrupted"
    assert "Traceback" not in complaint
    assert "runs resume walks-WALK-" in complaint.strip().splitlines()[-1]
    found = load("walks", store=store)
    assert found.status == "interrupted"
    assert events(found, "interrupted")[0]["done"] == found.folder.status()["done"]


def test_a_run_stopped_in_its_last_chunk_is_complete_when_it_is_resumed(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", lambda seconds: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(RunInterrupted):
            run("walks:WALK", {"steps": 1}, store=tmp_path, quiet=True)
    status = run("walks:WALK", {"steps": 1}, store=tmp_path, quiet=True).folder.status()
    assert (status["status"], status["done"], status["total"], status["attempts"]) == ("ok", 1, 1, 2)


def test_two_processes_that_start_the_same_run_compute_it_once(tmp_path):
    words = ("run", "walks:WALK", "--set", "steps=300", "pause=0.005", "--store", tmp_path / "runs", "--json")
    first, second = start(*words), start(*words)
    outputs = [process.communicate(timeout=60) for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], outputs
    assert json.loads(outputs[0][0]) == json.loads(outputs[1][0])
    found = load("walks", store=tmp_path / "runs")
    assert len(events(found, "started")) == 1
    assert len(events(found, "finished")) == 1
    assert sum("waiting for it" in complaint for _, complaint in outputs) == 1


def test_a_finished_run_is_not_computed_again(tmp_path):
    first = run("walks:WALK", {"steps": 30}, store=tmp_path, quiet=True)
    changed = (first.path / "results.zarr").stat().st_mtime_ns
    again = run("walks:WALK", {"steps": 30}, store=tmp_path, quiet=True)
    assert again == first
    assert (again.path / "results.zarr").stat().st_mtime_ns == changed
    assert len(events(again, "started")) == 1


def test_a_recipe_that_raises_is_a_failed_run_with_its_traceback_in_the_log(tmp_path):
    with pytest.raises(RecipeFailed, match=r"ZeroDivisionError.*hole.*log\.jsonl"):
        run("walks:HOLE", store=tmp_path, quiet=True)
    found = load("walks-HOLE", store=tmp_path)
    assert found.status == "failed"
    assert "_break" in events(found, "failed")[0]["traceback"]


def test_a_run_that_is_being_computed_cannot_be_removed(tmp_path):
    from phasecast.core.errors import BadInput

    done = run("walks:WALK", {"steps": 30}, store=tmp_path, quiet=True)
    with done.folder.lock(), pytest.raises(BadInput, match="is being computed"):
        done.store.remove(done.id)
    done.store.remove(done.id)
    assert list(done.store.statuses()) == []


def test_what_a_killed_removal_leaves_is_not_a_run(tmp_path):
    done = run("walks:WALK", {"steps": 30}, store=tmp_path, quiet=True)
    done.path.rename(tmp_path / f".{done.id}.123.removed")
    assert list(done.store.statuses()) == []
    again = run("walks:WALK", {"steps": 30}, store=tmp_path, quiet=True)
    assert load(done.id[-12:], store=tmp_path) == again
    again.store.remove(again.id)
    assert [path.name for path in tmp_path.iterdir()] == ["store.json"]


def test_a_log_line_cut_short_by_a_crash_is_passed_over(tmp_path):
    done = run("walks:WALK", {"steps": 30}, store=tmp_path, quiet=True)
    with open(done.path / "log.jsonl", "a") as file:
        file.write('{"time": "2026-')
    assert [event["event"] for event in done.folder.events()] == ["started", "finished"]


def test_text_of_any_length_waits_in_a_checkpoint_and_comes_back(tmp_path):
    """Written row by row, with a stop after each, as in one go."""
    from phasecast.lab import checkpoint, tables

    words = ["", "λ̂ = ½", "a reason " * 300, "short"]
    layout = {"notes": tables.Table("row", {"text": ()}, dtypes={"text": "string"}, rows_per_chunk=2)}
    state = None
    for number, word in enumerate(words):
        writer = tables.ResultsWriter(tmp_path / "results.zarr", layout, state)
        writer.append({"notes": {"text": [word]}})
        checkpoint.save(tmp_path / "checkpoint", number + 1, writer.state())
        _, state, _ = checkpoint.load_newest(tmp_path / "checkpoint")
    tables.ResultsWriter(tmp_path / "results.zarr", layout, state).finish()
    assert [str(text) for text in np.asarray(tables.read(tmp_path / "results.zarr")["notes/text"])] == words
