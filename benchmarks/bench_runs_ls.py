"""How long does `phasecast runs` take over 10,000 runs? Claimed: under 2 s, start included.

The runs differ in two fields, belong to a sweep, and are sealed as finished runs are. On a busy machine, ``--cpu`` runs
each command once and judges the CPU time.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time

from phasecast.lab import Store, run
from phasecast.lab.store import run_id

RUNS = 10_000
LIMIT = 2.0


def fill(store: Store) -> None:
    """One real run, and copies of it with other seeds and sizes, each with its own seal, and a sweep of them all."""
    settings = {"landscapes": ("x2y2",), "samples": 1000, "blocks": 20, "nodes": 128}
    done = run("toy-landscapes", settings, store=store, quiet=True)
    status, request = (json.loads((done.path / name).read_text()) for name in ("status.json", "spec.json"))
    status.pop("digest")
    ids = [done.id]
    for number in range(1, RUNS):
        spec = {**request["spec"], "seed": number, "samples": 1000 + number % 7}
        identity = run_id(request["recipe"], request["recipe_version"], spec, request["contents"])
        folder = store.folder(identity)
        folder.path.mkdir()
        folder.write_status({**status, "run": identity})
        (folder.path / "spec.json").write_text(json.dumps({**request, "spec": spec}, indent=2))
        ids.append(identity)
    sweep = store.path / "sweeps" / "sweep-0123456789ab"
    sweep.mkdir(parents=True)
    facts = {"format": 1, "sweep": sweep.name, "recipe": request["recipe"], "varied": ["samples", "seed"], "runs": ids}
    (sweep / "sweep.json").write_text(json.dumps(facts))


def main() -> None:
    busy = "--cpu" in sys.argv[1:]
    command = [sys.executable, "-m", "phasecast.cli", "runs"]
    with tempfile.TemporaryDirectory() as folder:
        fill(Store(folder))
        for words in (["--json"], [], ["--where", "samples=1003", "--last", "20"]):
            times, spent = [], []
            for _ in range(1 if busy else 3):
                began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
                listed = subprocess.run(
                    [*command, *words, "--store", folder], capture_output=True, text=True, check=True
                )
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                times.append(time.perf_counter() - began)
                spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            if words == ["--json"]:
                rows = json.loads(listed.stdout)["runs"]
                assert len(rows) == RUNS
                assert {row["status"] for row in rows} <= {"ok", "warning", "refused"}, "the copies are damaged"
                assert all(set(row["differing"]) == {"samples", "seed"} for row in rows)
            shown = " ".join(["runs", *words])
            print(f"{shown}: {RUNS} runs in {min(times):.2f} s, {min(spent):.2f} s CPU (claimed < {LIMIT:g} s)")
            assert min(spent if busy else times) < LIMIT


if __name__ == "__main__":
    main()
