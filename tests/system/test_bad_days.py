"""A full disk, a clock that jumps, and processes that are killed all day: a store stays valid and loses nothing."""

from __future__ import annotations

import os
import random
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from attacks import interrupt_at
from phasecast.core.errors import StoreError
from phasecast.lab import Store, load, resume, run
from soaking import soak

SPEC = {"steps": 60, "ballast": 3000}


@pytest.fixture
def small_disk(tmp_path):
    """A disk of two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root; test_nothing_is_lost breaks every write instead")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def free_bytes(place: Path) -> int:
    facts = os.statvfs(place)
    return facts.f_bavail * facts.f_frsize


def places(stored) -> np.ndarray:
    return np.asarray(stored.results()["walk/place"])


def test_a_disk_that_is_full_at_random_moments_leaves_a_run_that_resumes_to_the_same_numbers(small_disk, tmp_path):
    truth, draw, full = places(run("walks:WALK", SPEC, store=tmp_path / "whole", quiet=True)), random.Random(1), 0
    for number in range(8):
        store = small_disk / f"runs-{number}"
        ballast = small_disk / "ballast"
        ballast.write_bytes(bytes(free_bytes(small_disk) - 4096 * draw.randrange(0, 60)))
        try:
            run("walks:WALK", SPEC, store=store, checkpoint_every=1e-9, quiet=True)
        except StoreError as error:
            full += 1
            assert "is full" in str(error)  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
        ballast.unlink()
        assert [status["status"] for status in Store(store).statuses() if status["status"] == "damaged"] == []
        again = run("walks:WALK", SPEC, store=store, checkpoint_every=1e-9, quiet=True)
        assert again.check() == "sound"
        np.testing.assert_array_equal(places(again), truth)
        assert not list(store.rglob("*.partial"))
        subprocess.run(["rm", "-r", str(store)], check=True)
    assert full >= 4  # the control: the disk was full indeed


@pytest.mark.parametrize("jump", [timedelta(days=-4000), timedelta(days=4000), timedelta(seconds=-1)])
def test_a_clock_that_jumps_between_stop_and_resume_changes_nothing(tmp_path, monkeypatch, jump):
    """Nothing is decided by the clock: neither which checkpoint is newest nor how long a run took."""
    from phasecast.lab import store as module

    truth = places(run("walks:WALK", {"steps": 120}, store=tmp_path / "whole", quiet=True))
    interrupt_at(80, {"steps": 120}, tmp_path / "runs")
    begun = load("walks", store=tmp_path / "runs").folder.status()
    monkeypatch.setattr(module, "now", lambda: (datetime.now(UTC) + jump).isoformat(timespec="milliseconds"))
    older = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    for path in older:
        later = path.stat().st_mtime + jump.total_seconds() * (1 if path.name.endswith("ckpt") else -1)
        os.utime(path, (max(0.0, later), max(0.0, later)))
    resumed = resume("walks", store=tmp_path / "runs", quiet=True)
    np.testing.assert_array_equal(places(resumed), truth)
    status = resumed.folder.status()
    assert status["created"] == begun["created"]
    assert status["wall_seconds"] >= begun["wall_seconds"]
    started = [event for event in resumed.folder.events() if event["event"] == "started"]
    assert started[-1]["checkpoint"] > 0
    assert resumed.check() == "sound"
    assert len(list(Store(tmp_path / "runs").statuses())) == 1


@pytest.mark.slow
def test_twenty_seconds_of_four_processes_and_random_kills_lose_nothing(tmp_path):
    found = soak(tmp_path, 20.0)
    assert found.findings() == [], str(found)
    assert found.kills >= 8
    assert found.actions["start"] > 5
    assert found.memory[1] < 1.25 * found.memory[0]  # 20 s are short: the first figure may come late
    assert found.descriptors[1] <= found.descriptors[0] + 2
