"""How a test run is ordered and when it ends: two options of pytest, ``--shuffle`` and ``--minutes``.

``--shuffle`` runs files in random order, and the tests within each file. The seed is PHASECAST_TEST_SEED, or the time,
and is printed in the end. ``--minutes`` ends the run when the time is over: no test starts any more, those not reached
are listed, and the exit code is that of the tests that ran. Both work with xdist. A run of the whole suite says in one
line if the tests in ``browser/`` could not be run.
"""

from __future__ import annotations

import importlib.util
import math
import os
import random
import shutil
import time
from typing import Any

import pytest

NOT_REACHED = "not reached"


def browser() -> str | None:
    """The Chromium of this machine."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def missing_for_browser_tests() -> list[str]:
    """What the tests in ``browser/`` lack here."""
    packages = [name for name in ("streamlit", "playwright") if importlib.util.find_spec(name) is None]
    return [*packages, *([] if browser() else ["chromium"])]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("phasecast")
    group.addoption("--shuffle", action="store_true", help="random order; PHASECAST_TEST_SEED repeats one")
    group.addoption(
        "--minutes",
        type=float,
        default=float(os.environ.get("PHASECAST_TEST_MINUTES", "inf")),
        help="start no test after so many minutes; defaults to PHASECAST_TEST_MINUTES",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The seed and the end of the run are decided once; xdist's workers receive them."""
    given = getattr(config, "workerinput", {})
    minutes = config.getoption("--minutes", default=None)
    minutes = math.inf if minutes is None else float(minutes)  # a conftest that is found late adds no options
    config.option.deadline = given.get("deadline", time.time() + 60 * minutes)
    config.option.shuffle_seed = given.get("shuffle_seed", int(os.environ.get("PHASECAST_TEST_SEED") or time.time()))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["deadline"] = node.config.option.deadline
    node.workerinput["shuffle_seed"] = node.config.option.shuffle_seed


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """pytest brings tests that share a parametrised fixture together afterwards."""
    if not config.getoption("--shuffle", default=False):
        return
    order = random.Random(config.option.shuffle_seed)
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.split("::")[0], []).append(item)
    for name in sorted(files):
        order.shuffle(files[name])
    names = sorted(files)
    order.shuffle(names)
    items[:] = [item for name in names for item in files[name]]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > item.config.option.deadline:
        pytest.skip(NOT_REACHED)


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    return (NOT_REACHED, "-", NOT_REACHED.upper()) if reason.endswith(NOT_REACHED) else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--shuffle", default=False):
        seed = config.option.shuffle_seed
        terminalreporter.write_line(f"random order with seed {seed}; PHASECAST_TEST_SEED={seed} repeats it")
    whole = config.args_source is config.ArgsSource.TESTPATHS
    if whole and (missing := missing_for_browser_tests()):
        words = f"the browser tests were not run ({', '.join(missing)} missing); `make test-browser` runs them"
        terminalreporter.write_line(words)
    left = terminalreporter.stats.get(NOT_REACHED, [])
    if left:
        terminalreporter.section(f"{len(left)} tests not reached within {config.option.minutes:g} minutes")
        for report in left:
            terminalreporter.write_line(report.nodeid)
