"""How do time and memory grow with the size of a job? Fitted exponents beside those that theory expects.

``python benchmarks/growth.py [JOB …]`` runs each job at several sizes, each in a process of its own, and writes
``growth.png``. Tracing and compiling are subtracted, by JAX's own events: they do not grow. A job may be divided by
what it did (steps or gradients), so that the exponent is that of one of them. An exponent that is more than 0.3 above
the expected one is marked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import phasecast as pc

ROOM = 0.3  # above the expected exponent; chosen: small sizes have constant parts, caches end at large ones


class Job(NamedTuple):
    """``run(size)`` does the job and returns how many units of work it did; ``expected`` is the exponent of time."""

    run: Callable[[int], float]
    sizes: tuple[int, ...]
    expected: float
    what: str


def llc(parameters: int, rows: int) -> float:
    """λ̂ of a regression; gradients."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(rows, parameters)), rng.normal(size=parameters)
    y = x @ w + rng.normal(size=rows)
    result = pc.llc(
        lambda w, data: ((data[0] @ w - data[1]) ** 2).mean() / 2, w, (x, y), max_grads=2000, seconds=None,
        progress=False,
    )  # fmt: skip
    return result.gradients


def equations(modes: int, units: int) -> float:
    """The order-parameter equations; steps."""
    spectrum = pc.online.Spectrum.power_law(modes, 1.0)
    start = pc.online.OrderParameters.draw(units, units, spectrum, inputs=4 * modes, sigma=0.1, seed=0)
    return float(pc.online.solve(start, spectrum, 0.1, [0, 20], order=2, step=0.05).diagnostics["steps"])


def mean_field(samples: int, steps: int) -> float:
    network = pc.features.Network("gelu", "pseudo-huber")
    pc.features.dmft(network, "z**2", 4.0, 0.5, steps, samples=samples)
    return 1.0


def rank(size: int) -> float:
    """The exact rank of a square matrix of integers."""
    pc.coefficients.rank_mod_prime(np.random.default_rng(0).integers(-9, 9, (size, size)))
    return 1.0


def newton(monomials: int) -> float:
    """λ of a sum of monomials in three variables."""
    powers = 2 * np.random.default_rng(0).integers(1, 12, (monomials, 3))
    pc.coefficients.newton(" + ".join(f"x**{a}*y**{b}*z**{c}" for a, b, c in powers))
    return 1.0


def rlct(rows: int, parameters: int) -> float:
    """Tempered posteriors of a logistic regression, by NUTS."""
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, parameters))
    y = (rng.random(rows) < 1 / (1 + np.exp(-x.sum(axis=1)))).astype(float)
    model = pc.posterior.Model(
        lambda w, data: data[1] * (data[0] @ w) - jnp.logaddexp(0.0, data[0] @ w),
        lambda w: -jnp.sum(w**2) / 2,
        lambda key: jax.random.normal(key, (parameters,)),
    )
    pc.posterior.rlct(model, (x, y), chains=2, draws=100, warmup=100, progress=False)
    return 1.0


def store(runs: int) -> float:
    """Listing a store."""
    with tempfile.TemporaryDirectory() as folder:
        place = pc.lab.Store(folder)
        settings = {"landscapes": ("x2y2",), "samples": 1000, "blocks": 20, "nodes": 128}
        done = pc.lab.run("toy-landscapes", settings, store=place, quiet=True)
        status = json.loads((done.path / "status.json").read_text())
        for number in range(runs - 1):
            identity = f"toy-landscapes-{number:012x}"
            (place.path / identity).mkdir()
            (place.path / identity / "status.json").write_text(json.dumps({**status, "run": identity}))
        global _BEGAN
        _BEGAN = time.perf_counter()
        assert len(list(place.statuses())) == runs
    return 1.0


JOBS = {
    "llc-parameters": Job(lambda d: llc(d, 1000), (50, 200, 800, 3200), 1, "λ̂, parameters (per gradient)"),
    "llc-rows": Job(lambda n: llc(50, n), (1000, 4000, 16000, 64000), 1, "λ̂, rows (per gradient)"),
    "curve-modes": Job(lambda modes: equations(modes, 2), (64, 256, 1024, 4096), 1, "equations, modes (per step)"),
    "curve-units": Job(lambda units: equations(16, units), (4, 8, 16, 32), 4, "equations, units (per step)"),
    "dmft-samples": Job(lambda n: mean_field(n, 8), (5000, 20000, 80000), 1, "DMFT, samples"),
    "dmft-steps": Job(lambda t: mean_field(5000, t), (5, 10, 20, 40), 3, "DMFT, steps"),
    "rank": Job(rank, (100, 200, 400, 800), 3, "exact rank"),
    "newton": Job(newton, (8, 16, 32, 64), 1, "Newton polyhedron, monomials"),
    "rlct-rows": Job(lambda n: rlct(n, 4), (500, 2000, 8000), 1, "rlct, rows"),
    "rlct-parameters": Job(lambda d: rlct(500, d), (2, 8, 32), 1.25, "rlct, parameters"),
    "store": Job(store, (100, 400, 1600, 6400), 1, "listing a store, runs"),
}

_BEGAN = 0.0


def one(name: str, size: int) -> dict[str, float]:
    """Seconds without tracing and compiling, units of work, and MB above those of the imports, in this process."""
    import resource

    import jax

    spent: list[float] = []

    def listen(event: str, seconds: float, **about: Any) -> None:
        if event.startswith("/jax/core/compile/"):
            spent.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    global _BEGAN
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _BEGAN = time.perf_counter()
    units = JOBS[name].run(size)
    whole = time.perf_counter() - _BEGAN
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {"seconds": max(whole - sum(spent), 1e-6) / units, "memory": memory}


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(sys.argv[2], int(sys.argv[3]))))
        return
    chosen = sys.argv[1:] or list(JOBS)
    print(f"{'job':<32} {'sizes':<26} {'seconds (per unit)':<38} {'exponent':>8} {'expected':>8} {'MB (largest)':>13}")
    measured = {}
    for name in chosen:
        job = JOBS[name]
        rows = []
        for size in job.sizes:
            words = [sys.executable, __file__, "--one", name, str(size)]
            done = subprocess.run(words, capture_output=True, text=True, env=dict(os.environ))
            if done.returncode:
                raise SystemExit(f"{name} at {size} failed: {done.stderr[-500:]}")
            rows.append(json.loads(done.stdout.splitlines()[-1]))
        seconds = np.array([row["seconds"] for row in rows])
        measured[name] = seconds
        # of the larger half: at small sizes constant parts hide the growth
        half = slice(len(seconds) // 2 - (len(seconds) < 4), None)
        exponent = np.polyfit(np.log(job.sizes[half]), np.log(seconds[half]), 1)[0]
        late = " !" if exponent > job.expected + ROOM else ""
        print(
            f"{job.what:<32} {' '.join(map(str, job.sizes)):<26} {' '.join(f'{s:.2g}' for s in seconds):<38} "
            f"{exponent:8.2f} {job.expected:8.2f} {rows[-1]['memory']:13.0f}{late}",
            flush=True,
        )
    _draw(measured)


def _draw(measured: dict[str, np.ndarray]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="size", ylabel="seconds (per unit)")
    for name, seconds in measured.items():
        axes.plot(JOBS[name].sizes, seconds, "o-", label=JOBS[name].what)
    axes.legend(fontsize="small")
    figure.savefig(Path("growth.png"), dpi=120)


if __name__ == "__main__":
    main()
