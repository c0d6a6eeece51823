"""The options of our own test run: a time limit that loses no failure, and an order that can be repeated."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SOME = "\n".join(f"def test_{name}(request):\n    pass" for name in "abcdef") + "\n"
SLOW = SOME.replace("pass", "request.config.option.deadline = 0")  # the time is over when the first has run


@pytest.fixture
def run_tests(tmp_path):
    (tmp_path / "conftest.py").write_text("from running import *\n")

    def run(text: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "test_some.py").write_text(text)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PHASECAST"))}
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "xdist", *options],
            cwd=tmp_path,
            env={**clean, "PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_run_ends_at_its_limit_and_lists_what_it_did_not_reach(run_tests, workers):
    ended = run_tests(SLOW, "--minutes", "60", *workers)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    last = ended.stdout.strip().splitlines()[-1]
    passed, left = (int(count) for count in re.findall(r"(\d+) (?:passed|not reached)", last))
    assert passed + left == 6
    assert 0 < passed <= 2
    assert len(re.findall(r"^test_some.py::test_[a-f]$", ended.stdout, flags=re.MULTILINE)) == left


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_the_limit_is_that_of_the_environment(run_tests, workers):
    ended = run_tests(SOME, *workers, PHASECAST_TEST_MINUTES="0")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "6 not reached" in ended.stdout.strip().splitlines()[-1]


def test_a_failure_before_the_limit_is_a_failure(run_tests):
    ended = run_tests("def test_0(request):\n    request.config.option.deadline = 0\n    assert False\n" + SOME)
    assert ended.returncode == 1
    assert "1 failed, 6 not reached" in ended.stdout.strip().splitlines()[-1]


def test_a_random_order_is_repeated_by_its_seed(run_tests):
    def order(*options: str, **environment: str) -> list[str]:
        shown = run_tests(SOME, "-vv", *options, **environment).stdout
        return re.findall(r"::(test_\w+) PASSED", shown)

    plain, one, again = (
        order(),
        order("--shuffle", PHASECAST_TEST_SEED="1"),
        order("--shuffle", PHASECAST_TEST_SEED="1"),
    )
    assert sorted(one) == plain
    assert one == again != plain


def test_the_seed_is_printed_with_workers_too(run_tests):
    ended = run_tests(SOME, "--shuffle", "-n", "2")
    assert ended.returncode == 0, ended.stdout
    assert re.search(r"PHASECAST_TEST_SEED=\d+ repeats it", ended.stdout)
