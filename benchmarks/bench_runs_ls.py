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
        status = done.folder.status()
        status.pop("digest")  # that of this run's file; each copy gets its own
        for number in range(RUNS - 1):
            identity = f"toy-landscapes-{number:012x}"
            (store.path / identity).mkdir()
            store.folder(identity).write_status({**status, "run": identity})
        words = [command, "runs", "ls", "--store", folder, "--json"]
        times = []
        for _ in range(3):
            began = time.perf_counter()
            listed = subprocess.run(words, capture_output=True, text=True, check=True)
            times.append(time.perf_counter() - began)
        rows = json.loads(listed.stdout)["runs"]
        assert len(rows) == RUNS
        assert not any(row["status"] == "damaged" for row in rows)
    print(f"runs ls: {RUNS} runs in {min(times):.2f} s (claimed < {LIMIT:g} s)")
    assert min(times) < LIMIT


if __name__ == "__main__":
    main()
