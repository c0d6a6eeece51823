"""Which lines of the library do the tests reach? A plugin, ``pytest -p covering``, which prints it in the end.

Each process writes the lines it reached into the folder that PHASECAST_TEST_COVERAGE names, and each run prints what
all runs so far have reached; ``make test`` empties the folder first. SlipCover counts: it stops watching a line once it
was reached, which costs a twentieth of the time; tracing every line costs two thirds of it on Python 3.11. What
processes of their own reach, such as commands that a test kills, is not counted.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import uuid
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any

import pytest
import slipcover
from slipcover.importer import SlipcoverLoader

FOLDER = Path(os.environ["PHASECAST_TEST_COVERAGE"])
LEAST = 5  # modules that are named
KINDS = ("executed_lines", "missing_lines")


def _package() -> Path:
    spec = importlib.util.find_spec("phasecast")  # without importing it
    assert spec is not None
    return Path(str(spec.origin)).resolve().parent


WATCHED = slipcover.Slipcover(
    source=[str(_package())],
    omit=["*/counterexamples/*"],  # tests run them as the text that is printed
    exclude_also=["if TYPE_CHECKING:"],
)


class _Finder(MetaPathFinder):
    """Modules of the library are watched when they are imported."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname.split(".")[0] == "phasecast" else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = SlipcoverLoader(WATCHED, spec.loader, str(spec.origin))
        return spec


sys.meta_path.insert(0, _Finder())


def pytest_sessionfinish() -> None:
    """In a worker of xdist before the process that started it sums up."""
    files = WATCHED.get_coverage()["files"]
    found = {str(Path(name).resolve().relative_to(_package())): [one[k] for k in KINDS] for name, one in files.items()}
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{uuid.uuid4()}.json").write_text(json.dumps(found))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reached: dict[str, set[int]] = {}
    lines: dict[str, set[int]] = {}
    for path in FOLDER.glob("*.json"):
        for name, (executed, missing) in json.loads(path.read_text()).items():
            reached.setdefault(name, set()).update(executed)
            lines.setdefault(name, set()).update(executed, missing)
    share = {name: len(reached[name]) / len(lines[name]) for name in lines if lines[name]}
    least = sorted(share, key=lambda name: share[name])[:LEAST]
    total = sum(map(len, lines.values()))
    terminalreporter.write_line(
        f"coverage: {sum(map(len, reached.values())) / total:.1%} of {total} lines in {len(lines)} modules; least in "
        + ", ".join(f"{name} {share[name]:.0%}" for name in least)
    )
