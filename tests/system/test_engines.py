"""Sweeps on processes and on dask, with workers that die."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from conftest import python_path, start
from phasecast.core.errors import BadInput
from phasecast.lab import LocalEngine, Store, load, make_sweep, provenance, run, sweep
from phasecast.lab.engines import RunTask
from phasecast.lab.engines.dask import DaskEngine, Slurm, read_cluster


@pytest.fixture(autouse=True, scope="module")
def _workers_find_the_test_recipes(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", python_path())
        patch.setenv("WALKS_MARKER", str(tmp_path_factory.mktemp("markers") / "died"))
        yield


@pytest.fixture(scope="module", params=[LocalEngine, DaskEngine])
def swept(request, tmp_path_factory):
    """Four walks by two workers."""
    engine, store = request.param(workers=2), tmp_path_factory.mktemp("swept")
    done = sweep("walks:WALK", {"steps": 60, "pause": 0.01}, seeds=4, engine=engine, store=store, quiet=True)
    assert done.errors == ()
    return done


def finished_events(store: Path) -> dict[str, int]:
    place = Store(store)
    return {
        status["run"]: sum(event["event"] == "finished" for event in place.folder(status["run"]).events())
        for status in place.statuses()
    }


def test_a_sweep_of_twelve_survives_a_killed_dask_worker(tmp_path):
    from distributed import Client, LocalCluster

    store = tmp_path / "runs"
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0")
    client = Client(cluster)
    with cluster, client:
        process = start(
            "sweep", "walks:WALK", "--seeds", "12", "--set", "steps=30", "pause=0.01", "--checkpoint-every", "0.1",
            "--engine", "dask", "--address", cluster.scheduler_address, "--store", store, "--json",
        )  # fmt: skip
        deadline = time.monotonic() + 120
        while sum(finished_events(store).values() if store.exists() else []) < 3:
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        victim = next(iter(cast(dict[str, int], client.run(os.getpid)).values()))
        os.kill(victim, signal.SIGKILL)
        out, complaint = process.communicate(timeout=120)
    assert process.returncode == 0, f"{out}\n{complaint}"
    answer = json.loads(out)
    assert [found["status"] for found in answer["runs"]] == ["ok"] * 12
    assert finished_events(store) == {found["run"]: 1 for found in answer["runs"]}


def test_a_result_that_died_with_its_worker_is_waited_for(monkeypatch):
    """Dask says that a task ended, its worker dies, and by the time we look the task is computed again."""

    class Future:
        def __init__(self, statuses, value):
            self._statuses, self._value = iter(statuses), value

        @property
        def status(self):
            return next(self._statuses)

        def result(self):
            return self._value, ""

    class Ended(list):
        def __init__(self, futures, raise_errors):
            super().__init__(futures)

        def __iter__(self):
            while self:
                yield self.pop(0)

        add = list.append

    futures = [Future(["lost", "pending", "finished"], "one"), Future(["cancelled"], ""), Future(["finished"], "two")]
    waiting = iter(futures)

    class Client:
        def submit(self, *task, **options):
            return next(waiting)

    monkeypatch.setattr("distributed.as_completed", Ended)
    monkeypatch.setattr(DaskEngine, "_client", lambda self: contextlib.nullcontext(Client()))
    outcomes = list(DaskEngine()([RunTask(index, "walks:WALK", {}, "runs") for index in range(3)]))
    assert {outcome.task.index: outcome.run for outcome in outcomes} == {0: "one", 1: None, 2: "two"}
    assert [outcome.error for outcome in outcomes if not outcome.run] == [
        "the task was cancelled; is the scheduler still there?"
    ]


def test_a_local_sweep_survives_a_process_that_dies(tmp_path):
    planned = make_sweep("walks:DIE_ONCE", {"steps": 20}, seeds=[1, 2])
    swept = sweep(planned, engine=LocalEngine(workers=2), store=tmp_path / "runs", checkpoint_every=1e-9, quiet=True)
    assert swept.errors == ()
    assert finished_events(tmp_path / "runs") == dict.fromkeys(planned.ids(), 1)


def test_a_task_that_always_kills_its_process_is_given_up_and_the_others_finish(tmp_path):
    store = Store(tmp_path / "runs")
    tasks_of = [make_sweep("walks:ALWAYS_DIE", {"steps": 20}), make_sweep("walks:WALK", {"steps": 20}, seeds=2)]
    from phasecast.lab.engines import RunTask

    tasks = [
        RunTask(index, planned.recipe.name, spec.model_dump(mode="json"), str(store.path))
        for index, (planned, spec) in enumerate((planned, spec) for planned in tasks_of for spec in planned.specs)
    ]
    store.prepare()
    outcomes = {outcome.task.index: outcome for outcome in LocalEngine(workers=2)(tasks)}
    assert len(outcomes) == 3
    errors = [outcome.error for outcome in outcomes.values() if outcome.run is None]
    assert len(errors) == 1
    assert "died 3 times" in errors[0]


def test_a_run_by_any_worker_has_the_arrays_of_a_plain_one(swept, tmp_path, monkeypatch):
    planned = make_sweep("walks:WALK", {"steps": 60, "pause": 0.01}, seeds=4)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    plain = [run("walks:WALK", spec, store=tmp_path, quiet=True) for spec in planned.specs]
    for one, other in zip(plain, swept.runs, strict=True):
        assert one.id == other.id
        assert np.array_equal(one.results()["walk/place"], other.results()["walk/place"])


@pytest.mark.parametrize("recipe", ["walks:SOME_HOLES", "walks:SOME_EXITS"])
def test_one_failing_run_does_not_stop_the_others(tmp_path, command, recipe):
    store = tmp_path / "runs"
    words = ("--seeds", "4", "--set", "steps=9", "--workers", "1", "--store", store, "--json")
    code, out, complaint = command("sweep", recipe, *words)
    answer = json.loads(out)
    assert code == 1
    assert answer["status"] == "failed"
    assert len(answer["runs"]) == len(answer["errors"]) == 2
    assert "'seed': 1" in answer["errors"][0]
    assert "Traceback" not in complaint


def test_each_worker_has_a_core_of_its_own(swept):
    cores: dict[int, set] = {}
    for found in swept.runs:
        status = found.folder.status()
        assert status["provenance"]["threads"] == 1
        cores.setdefault(status["pid"], set()).add(tuple(np.asarray(found.results()["cores/core"])[0]))
    assert all(len(used) == 1 for used in cores.values())
    assert len(set.union(*cores.values())) == min(len(cores), len(os.sched_getaffinity(0)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_its_sweep(tmp_path, number):
    store = tmp_path / "runs"
    process = start("sweep", "walks:WALK", "--seeds", "2", "--set", "steps=100000", "pause=0.01", "--store", store)
    deadline = time.monotonic() + 120
    while len({s["pid"] for s in Store(store).statuses() if s["done"]}) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    workers = {status["pid"] for status in Store(store).statuses()}
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGTERM else -9)
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline + 30
        time.sleep(0.1)
    assert {status["status"] for status in Store(store).statuses()} == {"interrupted"}


def test_ctrl_c_stops_a_sweep_with_130_and_the_same_command_goes_on(tmp_path):
    store = tmp_path / "runs"
    words = ("sweep", "walks:WALK", "--seeds", "3", "--set", "steps=100", "pause=0.01", "--store", store)
    process = start(*words)
    deadline = time.monotonic() + 120
    while not any((status.get("done") or 0) > 0 for status in Store(store).statuses()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in complaint
    states = {status["run"]: status["status"] for status in Store(store).statuses()}
    assert "running" not in states.values()
    assert "interrupted" in states.values()
    again = start(*words, "--json")
    out, _ = again.communicate(timeout=120)
    assert [found["status"] for found in json.loads(out)["runs"]] == ["ok"] * 3
    started = [event for event in load(next(iter(states)), store=store).folder.events() if event["event"] == "started"]
    assert len(started) == 2
    assert started[1]["checkpoint"] > 0


SLURM = """
[slurm]
queue = "short"
jobs = 8
cores = 4
memory = "16GB"
walltime = "02:00:00"
account = "physics"
prologue = ["source .venv/bin/activate"]
directives = ["--constraint=skylake"]
"""


def test_a_cluster_file_becomes_the_job_script_it_describes(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text(SLURM)
    with read_cluster(path).cluster() as cluster:
        script = cluster.job_script()
    for line in ("#SBATCH -p short", "#SBATCH -A physics", "#SBATCH -t 02:00:00", "#SBATCH --constraint=skylake",
                 "#SBATCH --cpus-per-task=4", "source .venv/bin/activate"):  # fmt: skip
        assert line in script
    assert "--nworkers 4" in script
    assert "--nthreads 1" in script


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("queue", "queu"), "did you mean 'queue'"),
        (("16GB", "16 gigs"), "memory"),
        (("02:00:00", "two hours"), "walltime"),
        (("jobs = 8", "jobs = 0"), "jobs"),
        (("[slurm]", "[pbs]"), "'pbs'"),
        (("queue =", "queue"), "not TOML"),
    ],
)
def test_a_wrong_cluster_file_is_bad_input(tmp_path, change, words):
    path = tmp_path / "cluster.toml"
    path.write_text(SLURM.replace(*change))
    with pytest.raises(BadInput, match=words):
        read_cluster(path)


def test_a_scheduler_that_does_not_answer_is_bad_input(tmp_path, monkeypatch):
    monkeypatch.setattr("phasecast.lab.engines.dask.PATIENCE", "1s")
    with pytest.raises(BadInput, match="no dask scheduler answers at tcp"):
        sweep("walks:WALK", {"steps": 20}, engine=DaskEngine(address="tcp://127.0.0.1:9"), store=tmp_path, quiet=True)


def test_engines_that_cannot_be_are_bad_input():
    with pytest.raises(BadInput, match="use --address or --cluster"):
        DaskEngine(address="tcp://127.0.0.1:9", slurm=Slurm(queue="q", jobs=1, memory="1GB", walltime="1:00:00"))
    with pytest.raises(BadInput, match="--workers"):
        LocalEngine(workers=0)


def test_a_command_with_threads_takes_the_core_that_is_idle(monkeypatch):
    """Two of them side by side shared the first core while the second did nothing."""
    readings = iter([{0: 100, 1: 100, 2: 100}, {0: 110, 1: 100, 2: 105}] * 2)
    monkeypatch.setattr(provenance, "_busy_times", lambda: next(readings))
    monkeypatch.setattr(provenance, "_cores_at_start", lambda: [0, 1, 2])
    pinned = []
    monkeypatch.setattr(provenance.os, "sched_setaffinity", lambda process, cores: pinned.append(cores), raising=False)
    monkeypatch.setattr(provenance, "THREAD_VARIABLES", ())
    provenance.pin_threads(1)
    provenance.pin_threads(2)
    provenance.pin_threads(1, first=0)
    assert pinned == [{1}, {1, 2}, {0}]
