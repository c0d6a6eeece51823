"""What does a person wait for? Ten commands, each in a cold process, as multiples of ``python -c "import jax"``.

Every command runs twice: without compiled programs of earlier commands and with them. Imports, tracing, compiling (or
reading what was compiled) and computing are told apart by JAX's own events, inside the process. Give names to run some:
``python benchmarks/bench_cold.py curve claims``. Limits are those claimed, in seconds on two quiet cores.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
REPEATS = 3  # of ``import jax``, of which the shortest counts


class Command(NamedTuple):
    """Words of a command; ``{store}`` is a folder, ``{run}`` a finished run in it; limits cold and with the cache."""

    words: str
    cold: float | None = None
    cached: float | None = None


COMMANDS = {
    "claims": Command("claims", 0.6, 0.6),
    "coefficient": Command("coefficient deep-linear 3 3 3 --rank 1"),
    "curve": Command("curve --lr 0.1 --modes 64 --exponent 1 --inputs 1024 --alphas 1:3500:50", 5.0, 2.5),
    "threshold": Command("threshold --target z**2 --delta 10 --time 0", 2.0),
    "threshold-late": Command(
        "threshold --target minimum(z**2,3) --activation softplus --loss square --lr 0.5 --time inf", 20.0
    ),
    "llc": Command("llc cold_models:linear_regression", 4.0),
    "rlct": Command("rlct cold_models:logistic_regression --target 0.03 --warmup 300", 15.0),
    "run": Command("run toy-landscapes --store {store}"),
    "report": Command("report {run} --store {store}", 1.5),
    "recipes": Command("recipes"),
}

MEASURE = """
import sys, time
began = time.perf_counter()
spent = {"trace": 0.0, "compile": 0.0}
def listen(event, seconds, **about):
    if event.startswith("/jax/core/compile/"):
        spent["compile" if "backend" in event else "trace"] += seconds
class Watch:  # JAX's events are listened to from its import on
    def find_spec(self, name, path=None, target=None):
        if name == "jax._src.dispatch":
            from jax._src import monitoring
            monitoring.register_event_duration_secs_listener(listen)
        return None
sys.meta_path.insert(0, Watch())
import builtins
importing, depth, original = 0.0, 0, builtins.__import__
def timed(*words, **more):
    global importing, depth
    if depth:
        return original(*words, **more)
    depth, start = 1, time.perf_counter()
    try:
        return original(*words, **more)
    finally:
        depth, importing = 0, importing + time.perf_counter() - start
builtins.__import__ = timed
from phasecast.cli import main
import json, os
code = main(sys.argv[1:])
sys.stdout.flush()
whole = time.perf_counter() - began
with open(os.environ["BENCH_COLD"], "w") as file:
    json.dump({"code": code, "import": importing, **spent, "inside": whole}, file)
"""


class Parts(NamedTuple):
    """Seconds of one cold process, and where they went; peak memory in MB."""

    whole: float
    imports: float
    tracing: float
    compiling: float
    computing: float
    memory: float


def seconds(words: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall-clock time of a process and its peak memory in MB."""
    began = time.perf_counter()
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=HERE)
    _, code, usage = os.wait4(process.pid, 0)
    if code:
        raise SystemExit(f"{' '.join(words[2:])} failed; run it by hand")
    return time.perf_counter() - began, usage.ru_maxrss / 1024


def parts(command: list[str], environment: dict[str, str], folder: Path) -> Parts:
    kept = folder / "parts.json"
    environment = {**environment, "BENCH_COLD": str(kept)}
    whole, memory = seconds([sys.executable, "-c", MEASURE, *command], environment)
    inside = json.loads(kept.read_text())
    outside = whole - inside["inside"]  # the interpreter itself, which is an import too
    imports = outside + inside["import"]
    rest = inside["inside"] - inside["import"] - inside["trace"] - inside["compile"]
    return Parts(whole, imports, inside["trace"], inside["compile"], rest, memory)


def main() -> None:
    chosen = sys.argv[1:] or list(COMMANDS)
    unknown = [name for name in chosen if name not in COMMANDS]
    if unknown:
        raise SystemExit(f"unknown command '{unknown[0]}'; choose from {', '.join(COMMANDS)}")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    unit = min(seconds([sys.executable, "-c", "import jax"], environment)[0] for _ in range(REPEATS))
    print(f"one unit is `import jax`: {unit:.2f} s")
    print(f"{'command':<15} {'cache':<5} {'units':>6} {'s':>7} {'limit':>6}  "
          f"{'import':>6} {'trace':>6} {'compile':>7} {'compute':>7} {'MB':>6}")  # fmt: skip
    missed = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        finished = {"store": str(folder / "finished"), "run": "toy-landscapes"}
        if "report" in chosen:
            seconds(
                [sys.executable, "-m", "phasecast.cli", *f"run toy-landscapes --store {finished['store']}".split()],
                environment,
            )
        for name in chosen:
            command = COMMANDS[name]
            environment["PHASECAST_COMPILATION_CACHE"] = str(folder / f"cache-{name}")
            for cache, limit in (("cold", command.cold), ("warm", command.cached)):
                places = finished if name == "report" else {"store": str(folder / f"store-{name}-{cache}"), "run": ""}
                words = [word.format(**places) for word in command.words.split()]
                one = parts(words, environment, folder)
                print(
                    f"{name:<15} {cache:<5} {one.whole / unit:6.1f} {one.whole:7.2f} "
                    f"{'' if limit is None else limit:>6}  {one.imports:6.2f} {one.tracing:6.2f} {one.compiling:7.2f} "
                    f"{one.computing:7.2f} {one.memory:6.0f}",
                    flush=True,
                )
                if limit is not None and one.whole > limit:
                    missed.append(f"{name} ({cache})")
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"above their limit: {', '.join(missed) or 'none'}; this script itself {own:.0f} MB")


if __name__ == "__main__":
    main()
