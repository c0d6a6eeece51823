"""What does a user install? Our modules and the data they read, nothing else, and the same bytes from every build."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = {
    ".toml": "claims/",
    ".npz": "forecasting/bank.npz",
    ".typed": "py.typed",
    ".j2": "report/templates/",
    ".svg": "studio/icon.svg",
}
"""Files that are not code, by their ending: where they may be."""

pytest.importorskip("hatchling")


def build(source: Path, to: Path, **environment: str) -> Path:
    """The wheel of a tree."""
    script = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    made = subprocess.run(
        [sys.executable, "-c", script, str(to)],
        cwd=source,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return to / made.stdout.split()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"))


def test_a_wheel_holds_our_modules_and_the_data_they_read(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    ours = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "phasecast").rglob("*.py")}
    inside = {name for name in names if name.startswith("phasecast/")}
    assert {name for name in inside if name.endswith(".py")} == ours
    for name in inside - ours:
        assert name.removeprefix("phasecast/").startswith(DATA.get(Path(name).suffix, "nothing of this kind")), name
    rest = {name.split("/", 1)[1] for name in names if not name.startswith("phasecast/")}
    assert rest == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert sum(info.file_size for info in zipfile.ZipFile(wheel).infolist()) < 8e6


def test_nothing_in_a_wheel_names_a_place_on_this_machine(wheel):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            for place in (str(ROOT), str(Path.home()) + "/", "/tmp/"):
                if name.endswith((".py", "METADATA", "RECORD")):
                    assert place.encode() not in content, (name, place)


def test_two_builds_of_the_same_tree_are_the_same_bytes(wheel, tmp_path):
    """Another folder, other times of files, another umask and another order of entries."""
    copy = tmp_path / "elsewhere"
    ignore = shutil.ignore_patterns(".venv*", ".git", "__pycache__", "tests", "docs", "benchmarks", "phasecast-runs")
    shutil.copytree(ROOT, copy, ignore=ignore, copy_function=shutil.copyfile)
    for number, path in enumerate(sorted(copy.rglob("*.py"), reverse=True)):
        os.utime(path, (1e9 + number, 1e9 + number))
        path.chmod(0o600)
    again = build(copy, tmp_path, TZ="Asia/Tokyo", PYTHONHASHSEED="7")
    assert again.name == wheel.name
    assert hashlib.sha256(again.read_bytes()).hexdigest() == hashlib.sha256(wheel.read_bytes()).hexdigest()
