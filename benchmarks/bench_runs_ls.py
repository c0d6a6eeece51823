"""How long does `phasecast runs ls` take over 10,000 runs? Claimed: under 2 s, start included."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from phasecast.lab import Store, run

RUNS = 10_000
LIMIT = 2.0


def main() -> None:
    command = str(Path(sys.executable).with_name("phasecast"))
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        settings = {"landscapes": ("x2y2",), "samples": 1000, "blocks": 20, "nodes": 128}
        done = run("toy-landscapes", settings, store=store, quiet=True)
        status = json.loads((done.path / "status.json").read_text())
        for number in range(RUNS - 1):
            identity = f"toy-landscapes-{number:012x}"
            (store.path / identity).mkdir()
            text = json.dumps({**status, "run": identity}, indent=2, ensure_ascii=False)
            (store.path / identity / "status.json").write_text(text)
        words = [command, "runs", "ls", "--store", folder, "--json"]
        times = []
        for _ in range(3):
            began = time.perf_counter()
            listed = subprocess.run(words, capture_output=True, text=True, check=True)
            times.append(time.perf_counter() - began)
        assert len(json.loads(listed.stdout)["runs"]) == RUNS
    print(f"runs ls: {RUNS} runs in {min(times):.2f} s (claimed < {LIMIT:g} s)")
    assert min(times) < LIMIT


if __name__ == "__main__":
    main()
