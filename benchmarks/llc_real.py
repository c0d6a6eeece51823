"""λ̂ of ordinary PyTorch models: how long a default call takes, and whether its error holds.

python benchmarks/llc_real.py                  the default call on each model, each in a process of its own
python benchmarks/llc_real.py coverage [CALLS] errors beside a reference at the same nβ and γ, CALLS per model (20)
python benchmarks/llc_real.py trajectory       20 checkpoints of the transformer, stopped once and resumed
python benchmarks/llc_real.py radius           how the order of checkpoints depends on γ, which set the default radius
python benchmarks/llc_real.py million          a million parameters and a million tokens

References are chains 50 times as long on the same target, with gradients of all rows where they are affordable.
Criterion, written before running: |λ̂ − reference| ≤ 2 combined errors in at least 90% of the calls not refused.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
BOUND = {"mlp": 15, "cnn": 30, "transformer": 90, "million": 300}  # seconds that a default call may take


def one_call(name: str, options: dict[str, float]) -> dict[str, float | str]:
    """Train a model, then λ̂ in this process; the clock includes the imports, not the training."""
    begun = time.monotonic()
    import phasecast as pc

    imported = time.monotonic() - begun
    sys.path.insert(0, str(HERE))
    import real_models

    trained = getattr(real_models, name)()
    begun = time.monotonic()
    first: list[float] = []

    def progress(now) -> None:
        if not first and np.isfinite(now.error):
            first.append(time.monotonic() - begun)

    measured = pc.torch.llc(trained.module, trained.data, trained.loss, n=trained.n, progress=progress, **options)
    seconds = imported + time.monotonic() - begun
    size = sum(parameter.numel() for parameter in trained.module.parameters())
    return {
        "model": name, "parameters": size, "n": trained.n, "estimate": float(measured.estimate),
        "error": float(measured.error), "value_min": measured.value_min, "status": str(measured.status),
        "gamma": measured.gamma, "radius": measured.radius, "gradients": measured.gradients, "seconds": seconds,
        "first": imported + first[0] if first else float("nan"),
    }  # fmt: skip


def defaults(names: tuple[str, ...] = ("mlp", "cnn", "transformer")) -> None:
    print(f"{'model':12s} {'parameters':>10s} {'n':>9s} {'λ̂':>20s} {'status':8s} {'first':>12s} {'seconds':>8s} bound")
    for name in names:
        options = {"seconds": BOUND[name]} if BOUND[name] > 60 else {}
        words = [sys.executable, __file__, "call", name, json.dumps(options)]
        line = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
        print(
            f"{name:12s} {line['parameters']:10,d} {line['n']:9,d} {line['estimate']:11.3f} ± {line['error']:<6.2g} "
            f"{line['status']:8s} {line['first']:10.1f} s {line['seconds']:6.1f} s {BOUND[name]:4d} s", flush=True,
        )  # fmt: skip


def coverage(calls: int = 20) -> None:
    """±2 errors around the reference, for calls that differ in their seed."""
    sys.path.insert(0, str(HERE))
    import phasecast as pc
    import real_models

    print(f"{'model':12s} {'γ':>8s} {'reference':>18s} {'inside ±2':>9s} {'mean z':>7s} {'sd z':>6s} refused")
    for name in ("mlp", "cnn"):
        trained = getattr(real_models, name)()

        def sample(seed: int, trained=trained, **options):
            return pc.torch.llc(trained.module, trained.data, trained.loss, seed=seed, progress=False, **options)

        first = sample(0, seconds=None)
        long = sample(10_000, gamma=first.gamma, target=0.005, seconds=600.0)
        runs = [sample(seed, gamma=first.gamma, seconds=None) for seed in range(1, calls + 1)]
        good = [run for run in runs if str(run.status) != "refused"]
        z = np.array([(run.estimate - long.estimate) / np.hypot(run.error, long.error) for run in good])
        print(
            f"{name:12s} {first.gamma:8.3g} {long.estimate:9.4f} ± {long.error:<6.2g} {np.mean(abs(z) < 2):9.0%} "
            f"{z.mean():+7.2f} {z.std():6.2f} {calls - len(good)} of {calls}", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["call", name, options]:
            print(json.dumps(one_call(name, json.loads(options))))
        case ["coverage", *calls]:
            coverage(*map(int, calls))
        case ["million"]:
            defaults(("million",))
        case _:
            defaults()
