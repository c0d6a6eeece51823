"""Commands keep compiled programs in the user's cache folder, whatever state that is in."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from phasecast.compilation_cache import THEIRS, VARIABLE, cache_folder, kept_programs, prune

COMPILES = """
import phasecast.cli, sys
from phasecast.compilation_cache import kept_programs
assert "jax" not in sys.modules
with kept_programs():
    import jax
    print(jax.jit(lambda x: 3 * x + 1, inline=True)(2.0))
"""


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The environment of a command that has not imported JAX, and a cache folder of its own."""
    monkeypatch.delitem(sys.modules, "jax")
    for name in THEIRS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path


def start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COMPILES],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )


def programs() -> dict[str, int]:
    folder = cache_folder()
    assert folder is not None
    return {path.name: path.stat().st_size for path in folder.glob("*-cache")}


def test_a_broken_entry_is_written_again_and_two_processes_do_not_disturb_each_other(cold):
    assert start().communicate() == ("7.0\n", "")
    written = programs()
    assert written
    folder = cache_folder()
    for name in written:  # as a process leaves it that is killed while it writes
        os.truncate(folder / name, 20)  # pyright: ignore[reportOptionalOperand]
        os.utime(folder / name, (time.time() - 3600,) * 2)  # pyright: ignore[reportArgumentType, reportOptionalOperand]
    both = [start(), start()]
    assert [process.communicate() for process in both] == [("7.0\n", "")] * 2
    assert programs() == written


def test_a_user_who_has_a_cache_or_wants_none_is_left_alone(cold, monkeypatch):
    monkeypatch.setenv(VARIABLE, "off")
    with kept_programs():
        assert "JAX_COMPILATION_CACHE_DIR" not in os.environ
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/elsewhere")
    with kept_programs():
        assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "/elsewhere"
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    with kept_programs():
        assert Path(os.environ["JAX_COMPILATION_CACHE_DIR"]) == cache_folder()
    assert not [*cold.rglob("*-cache")]


def test_a_folder_that_cannot_be_made_means_no_cache(cold, monkeypatch):
    (cold / "file").write_text("")
    monkeypatch.setenv(VARIABLE, str(cold / "file"))
    with kept_programs():
        assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_a_process_that_has_jax_keeps_its_settings(monkeypatch, tmp_path):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert "jax" in sys.modules
    with kept_programs():
        assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_what_was_not_used_for_longest_goes_first(tmp_path):
    for age in range(6):
        path = tmp_path / f"program{age}-cache"
        path.write_bytes(bytes(100))
        os.utime(path, (time.time() - 1000 * age,) * 2)  # pyright: ignore[reportArgumentType]
    prune(tmp_path, 350)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"program{age}-cache" for age in range(3)]
    prune(tmp_path, 350)
    assert len([*tmp_path.iterdir()]) == 3
