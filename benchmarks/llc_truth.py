"""λ̂ beside what is known: long-run expectations at a given γ, their coverage, and exact λ up to a million parameters.

python benchmarks/llc_truth.py                 the first table
python benchmarks/llc_truth.py calibration     40 seeds of three problems (about 5 minutes)
python benchmarks/llc_truth.py scale           5,547 to 998,787 parameters (about 20 minutes on 2 cores)
python benchmarks/llc_truth.py clock           by how much calls exceed ``seconds`` (about 2 minutes)

Criteria, written before running: |apart| ≤ 3 in the first table; ±2 errors hold in ≥ 90% of 40 seeds; within 2% of λ
up to 30,000 parameters, 3% at 270,000 and 5% at a million; no call exceeds its ``seconds`` by more than one chunk.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

import phasecast as pc
from phasecast.models import fourier_solution, matrix_product, modular_table

SEEDS = 40


def bowl(seed: int) -> pc.LLC:
    return pc.llc(lambda w: (w**2).sum() / 2, np.zeros(20), nbeta=1086, gamma=1.0, seed=seed)


def cross(seed: int) -> pc.LLC:
    return pc.llc(lambda w: w[0] ** 2 * w[1] ** 4, np.zeros(2), nbeta=1e4, gamma=1.0, seed=seed)


def product(widths: tuple[int, ...], rank: int, nbeta: float, gamma: float | None) -> Callable[[int], pc.LLC]:
    return lambda seed: pc.llc(matrix_product(widths, rank), nbeta=nbeta, gamma=gamma, seed=seed)


def quadratic(seed: int) -> pc.LLC:
    rng = np.random.default_rng(0)
    true = {"W": jnp.asarray(rng.normal(size=(4, 2))), "v": jnp.asarray(rng.normal(size=2))}

    def loss(w: dict[str, jnp.ndarray]) -> jnp.ndarray:
        gap = (w["W"] * w["v"]) @ w["W"].T - (true["W"] * true["v"]) @ true["W"].T
        return jnp.sum(gap**2) + jnp.trace(gap) ** 2 / 2  # ½E(xᵀDx)² for standard normal x

    return pc.llc(loss, true, nbeta=1e4, gamma="limit", seed=seed)


def fourier(seed: int) -> pc.LLC:
    inputs, _ = modular_table(5)
    weights = fourier_solution(5, 4)

    def centred(w: dict[str, jnp.ndarray]) -> jnp.ndarray:
        outputs = (inputs @ w["W"]) ** 2 @ w["V"].T
        return outputs - outputs.mean(axis=0)

    right = centred(weights)
    return pc.llc(
        lambda w: jnp.mean(jnp.sum((centred(w) - right) ** 2, axis=1)) / 2, weights, nbeta=1e4, gamma=5.0, seed=seed
    )


TABLE = {  # reference, and its error
    "x²y⁴, nβ=10⁴, γ=1": (cross, 0.2358, 0.0),
    "½|w|², d=20, nβ=1086, γ=1": (bowl, 9.99, 0.0),
    "product 4-3-4 r=1, nβ=10⁴, γ=1": (product((4, 3, 4), 1, 1e4, 1.0), 5.9585, 0.0064),
    "product 10-10-10-10 r=3, nβ=1086, γ=100": (product((10,) * 4, 3, 1086, 100.0), 24.676, 0.022),
    "product 10-10-10-10 r=3, nβ=1086, γ=1": (product((10,) * 4, 3, 1086, 1.0), 40.515, 0.020),
    "quadratic network d=4 K=2, γ→0": (quadratic, 3.5, 0.0),
    "Fourier p=5 K=8, nβ=10⁴, γ=5": (fourier, 45.5, 1.2),
}


def table() -> None:
    print(f"{'problem':42s} {'λ̂':>18s} {'reference':>14s} {'apart':>6s}  status   value_var  seconds")
    for name, (sample, reference, width) in TABLE.items():
        found = sample(0)
        estimate = float(np.asarray(found.estimate))
        apart = (estimate - reference) / np.hypot(found.error, width)
        good = abs(apart) <= 3 and str(found.status) != "refused"
        print(
            f"{name:42s} {estimate:9.4f} ± {found.error:<6.3g} {reference:7.4g} ± {width:<5.2g} {apart:+5.1f}  "
            f"{found.status!s:8s} {found.value_var:8.4g} {found.seconds:8.1f} {'pass' if good else 'FAIL'}", flush=True,
        )  # fmt: skip


def calibration() -> None:
    print(f"{'problem':42s} {'ok':>5s} {'inside ±2':>10s} {'mean z':>7s} {'sd z':>6s} {'error/λ̂':>8s}")
    for name in ("x²y⁴, nβ=10⁴, γ=1", "½|w|², d=20, nβ=1086, γ=1", "product 4-3-4 r=1, nβ=10⁴, γ=1"):
        sample, reference, width = TABLE[name]
        runs = [sample(seed) for seed in range(SEEDS)]
        good = [run for run in runs if str(run.status) == "ok"]
        z = np.array([(float(np.asarray(run.estimate)) - reference) / np.hypot(run.error, width) for run in good])
        relative = np.mean([run.error / run.estimate for run in good])
        print(
            f"{name:42s} {len(good) / SEEDS:5.0%} {np.mean(abs(z) < 2):10.0%} {z.mean():+7.2f} {z.std():6.2f} "
            f"{relative:8.1%} {'pass' if np.mean(abs(z) < 2) >= 0.9 else 'FAIL'}", flush=True,
        )  # fmt: skip


def scale(seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    print(f"{'product':30s} {'parameters':>10s} {'λ':>10s} {'λ̂':>20s} {'apart':>7s} {'errors':>7s}  status  minutes")
    cases = [((43,) * 4, 10), ((100,) * 4, 25), ((300,) * 4, 75), ((577,) * 4, 144)]
    cases += [(tuple(int(w) for w in rng.integers(25, 60, 4)), int(rng.integers(3, 20))) for _ in range(2)]
    for widths, rank in cases:
        exact = float(pc.coefficients.deep_linear(widths, rank).value)  # pyright: ignore[reportArgumentType]
        begun = time.monotonic()
        found = pc.llc(matrix_product(widths, rank), nbeta=1e4, gamma="limit", target=0.02, seconds=None, seed=seed)
        estimate = float(np.asarray(found.estimate))
        size = sum(a * b for a, b in itertools.pairwise(widths))
        bound = 0.02 if size < 1e5 else 0.03 if size < 5e5 else 0.05
        good = abs(estimate / exact - 1) <= bound and str(found.status) != "refused"
        print(
            f"{'-'.join(map(str, widths)) + f' r={rank}':30s} {size:10,d} {exact:10.1f} {estimate:11.1f} ± "
            f"{found.error:<7.1f} {estimate / exact - 1:+7.2%} {(estimate - exact) / found.error:+7.1f}  "
            f"{found.status!s:7s} {(time.monotonic() - begun) / 60:6.1f} {'pass' if good else 'FAIL'} ({bound:.0%})",
            flush=True,
        )  # fmt: skip


def clock(seconds: float = 5.0) -> None:
    """Calls that cannot finish in time; a chunk is the longest time between two reports of progress after the first."""
    for widths, rank in (((43,) * 4, 10), ((300,) * 4, 75), ((577,) * 4, 144)):
        reports: list[float] = []
        begun = time.monotonic()
        found = pc.llc(
            matrix_product(widths, rank), nbeta=1e4, gamma="limit", target=0.001, seconds=seconds,
            progress=lambda _, reports=reports: reports.append(time.monotonic()),
        )  # fmt: skip
        over = time.monotonic() - begun - seconds
        chunk = max(np.diff([begun, *reports]), default=np.inf)
        print(
            f"{'-'.join(map(str, widths)):20s} {over:+6.2f} s beyond {seconds:g} s; longest chunk {chunk:.2f} s "
            f"{found.status} {'pass' if over <= chunk + 1 else 'FAIL'}", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    {"table": table, "calibration": calibration, "scale": scale, "clock": clock}[
        sys.argv[1] if len(sys.argv) > 1 else "table"
    ]()
