"""Fixtures that many tests share."""

from __future__ import annotations

import atexit
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import pytest
from hypothesis import settings

from browsing import chromium, studio, tab  # noqa: F401 - pytest finds fixtures here
from phasecast.cli import OBJECTS_BETWEEN_COLLECTIONS, main
from running import (  # noqa: F401 - pytest finds its hooks here
    missing_for_browser_tests,
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_configure_node,
    pytest_report_teststatus,
    pytest_runtest_setup,
    pytest_terminal_summary,
)

HERE = Path(__file__).parent
STARTED: list[subprocess.Popen[str]] = []
QUICK_TO_COMPILE = (
    "--xla_backend_optimization_level=1",  # of LLVM: a third of the time to compile NUTS, which runs as fast
    "--xla_cpu_use_fusion_emitters=false",  # the older code generator: half the time to compile
    "--xla_cpu_parallel_codegen_split_count=1",  # two test processes use both cores already
    "--xla_cpu_enable_concurrency_optimized_scheduler=false",
)
"""XLA flags of all test processes; none of them changes a bit of a result (``contract/test_same_numbers.py``)."""

collect_ignore = ["reference", "covering.py"]  # scripts, which compute when they are imported, and a plugin
if missing_for_browser_tests():  # a run of the whole suite says so in the end
    collect_ignore.append("browser")

settings.register_profile("suite", deadline=None, derandomize=True)  # the same examples everywhere, however slow
settings.load_profile("suite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a suite in the background; its processes would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _compile_quickly() -> None:
    """Most of what the suite costs is compilation, of programs that run once; XLA reads its flags with the first."""
    given = os.environ.get("XLA_FLAGS", "").split()
    os.environ["XLA_FLAGS"] = " ".join([*(flag for flag in QUICK_TO_COMPILE if flag not in given), *given])
    if "PHASECAST_TEST_OPTIMISED" not in os.environ:  # as `make test-slow` sets it: its programs run for long
        os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # of the processes that the tests start
        jax.config.update("jax_disable_most_optimizations", True)


def _share_compiled_programs() -> None:
    """Programs that several tests compile, most of what the suite costs, are compiled once for all its processes.

    They are in the folder PHASECAST_TEST_COMPILED, or in one that is removed in the end; xdist's workers use that of
    the process that started them. One that reads what another is still writing compiles for itself, with a warning that
    pyproject.toml ignores. Processes that the tests start read the programs. They write none, because they may be
    killed while they write.
    """
    folder = os.environ.get("PHASECAST_TEST_COMPILED")
    if folder is None:
        folder = tempfile.mkdtemp(prefix="phasecast-compiled-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["PHASECAST_TEST_COMPILED"] = folder
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # reading takes a quarter
    os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "1e9"


gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
_compile_quickly()
_share_compiled_programs()


@pytest.fixture(scope="module")
def full_optimisation():
    """For modules that compare bits, or compute for so long that optimised programs pay for their compilation.

    Elsewhere XLA optimises little: that halves the time to compile and changes results by rounding. What was compiled
    one way is forgotten before programs are compiled the other way.
    """
    if "JAX_DISABLE_MOST_OPTIMIZATIONS" not in os.environ:
        yield
        return
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()
    yield
    jax.config.update("jax_disable_most_optimizations", True)
    jax.clear_caches()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The path of a store that does not exist yet."""
    return tmp_path / "runs"


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store for long experiments that several tests judge: each is computed once, whichever process comes first."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared-runs"


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


def python_path() -> str:
    """For processes that import the test recipes and the same phasecast as this one."""
    return os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))


def answer_of(outcome: dict, id: str, **where: object) -> dict:
    """The answer with this id and these parameters, of a run as --json prints it."""
    answers = outcome["summary"]["answers"]
    (chosen,) = [one for one in answers if one["id"] == id and where.items() <= one["where"].items()]
    return chosen


def start(*words: object, **more: object) -> subprocess.Popen[str]:
    """Start a phasecast command in a process of its own; test recipes can be imported in it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "phasecast.cli", *map(str, words)],
        env={**os.environ, "PYTHONPATH": python_path()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,  # pyright: ignore
    )
    STARTED.append(process)
    return process


@pytest.fixture(autouse=True)
def _no_process_outlives_its_test():
    yield
    for process in STARTED:
        if process.poll() is None:
            process.kill()
            process.communicate()
    STARTED.clear()


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not add lines of progress to what a command prints; tests of progress set their own."""
    monkeypatch.setattr("phasecast.progress.QUIET_AT_FIRST", 3600.0)


@pytest.fixture(autouse=True)
def _importable_test_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))
