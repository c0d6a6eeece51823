"""Fixtures that many tests share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from phasecast.cli import main

HERE = Path(__file__).parent

settings.register_profile("suite", deadline=None, derandomize=True)  # the same examples everywhere, however slow
settings.load_profile("suite")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The path of a store that does not exist yet."""
    return tmp_path / "runs"


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]):
    """Run a command in this process: its exit code, stdout and stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([str(word) for word in words])
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.fixture
def command_json(command):
    """Run a command with --json: the object it prints."""

    def run(*words: object) -> dict:
        code, out, err = command(*words, "--json")
        assert out, f"exit code {code}: {err}"
        return json.loads(out)

    return run


def start(*words: object, **more: object) -> subprocess.Popen[str]:
    """Start a phasecast command in a process of its own; test recipes can be imported in it."""
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    return subprocess.Popen(
        [sys.executable, "-m", "phasecast.cli", *map(str, words)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,  # pyright: ignore
    )


@pytest.fixture(autouse=True)
def _importable_test_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))
