"""Which numbers did release 0.1.0 give? Eighteen results with fixed seeds, as JSON.

    python tests/reference/results_before.py > tests/reference/results_before.json

wrote the file with release 0.1.0; ``tests/contract/test_same_numbers.py`` computes the
same results again. Floats are stored by ``float.hex``, fractions as text, so that nothing is lost by printing.
"""

from __future__ import annotations

import json
import math
import platform
import sys
import tempfile
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import phasecast as pc

EXACT, BITS, ROUNDED, SAMPLED = "exact", "bits", "rounded", "sampled"
"""How a result is compared: as text; to the last bit on the same kind of machine; to rounding, where the arithmetic has
changed since; within its errors, where the random stream may change."""

RESULTS: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {}


def result(kind: str) -> Callable[[Callable[[], dict[str, Any]]], Callable[[], dict[str, Any]]]:
    def register(compute: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
        RESULTS[compute.__name__.replace("_", "-")] = kind, compute
        return compute

    return register


THREADS = 2  # of linear algebra, when the numbers were stored


def machine() -> dict[str, str]:
    """What decides about the last bits: the instructions of the processor and the libraries that emit them."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    flags = next((line.split(":")[1].split() for line in lines if line.startswith("flags")), [])
    return {
        "instructions": " ".join(sorted(flag for flag in flags if flag.startswith(("avx", "fma", "amx", "sse4")))),
        "machine": platform.machine(),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "jax": jax.__version__,
        "numpy": np.__version__,
    }


def plain(value: Any) -> str | list[str]:
    if isinstance(value, Fraction | int | str):
        return str(value)
    array = np.asarray(value, dtype=float)
    return float(array).hex() if array.ndim == 0 else [float(number).hex() for number in array.ravel()]


@result(EXACT)
def coefficients() -> dict[str, Any]:
    c = pc.coefficients
    x, y = pc.models.LANDSCAPES["x²y²"], pc.models.LANDSCAPES["x²+y²"]
    every = {
        "monomial": c.monomial((2, 4)),
        "sum_of_powers": c.sum_of_powers((4, 6)),
        "deep_linear": c.deep_linear((5, 3, 4), 2),
        "reduced_rank": c.reduced_rank(5, 3, 4, 1),
        "quadratic": c.quadratic(4, 1, 2),
        "modular_addition": c.modular_addition(7, 5),
        "x²y²": c.of_landscape(x),
        "x²+y²": c.of_landscape(y),
        "newton": c.newton("x**4 + x**2*y**2 + y**6"),
    }
    return {name: f"{one.value} {one.multiplicity}" for name, one in every.items()}


def estimate(measured: Any, *more: str) -> dict[str, Any]:
    return {name: getattr(measured, name) for name in ("estimate", "error", *more)}


@result(BITS)
def volume_scaling() -> dict[str, Any]:
    problem = pc.models.LANDSCAPES["x²y²"].problem()
    return estimate(pc.coefficients.volume_scaling(problem, multiplicity=2, samples=10_000, seed=3))


@result(BITS)
def temperature_ladder() -> dict[str, Any]:
    return estimate(pc.coefficients.temperature_ladder(pc.models.LANDSCAPES["x²y²"].problem()))


def bowl(w):
    return (w**2).sum() / 2


@result(SAMPLED)
def llc_of_a_bowl() -> dict[str, Any]:
    return estimate(pc.llc(bowl, np.zeros(4), nbeta=1000.0, gamma=1.0, target=0.05))


@result(SAMPLED)
def llc_of_a_cross() -> dict[str, Any]:
    return estimate(pc.llc(lambda w: w[0] ** 2 * w[1] ** 4, np.zeros(2), nbeta=1e4, gamma=1.0, target=0.05))


@result(SAMPLED)
def llc_of_a_torch_module() -> dict[str, Any]:
    import torch

    x = torch.linspace(-1, 1, 100, dtype=torch.float64)[:, None]
    module = torch.nn.Linear(1, 1, bias=False).double()
    module.load_state_dict({"weight": torch.ones(1, 1)})
    measured = pc.torch.llc(module, (x, x), lambda a, b: ((a - b) ** 2).mean() / 2, gamma=1.0, target=0.1)
    return estimate(measured)


@lru_cache
def linear_model() -> tuple[Any, Any]:
    truth = [np.array([[1.0, -0.5]]), np.array([[0.7], [0.2]])]
    model = pc.posterior.reduced_rank(inputs=2, hidden=1, outputs=2)
    return model, pc.posterior.linear_data(truth, n=200, seed=1)


@result(ROUNDED)  # the same draws; the loss at the truth is summed by another program
def rlct_of_a_linear_model() -> dict[str, Any]:
    model, data = linear_model()
    return estimate(pc.posterior.rlct(model, data, chains=2, draws=100, warmup=20, swap=False, seed=2))


@result(BITS)
def criteria() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    draws = rng.normal(x.mean(), 40**-0.5, size=500)
    log_likelihood = -((x - draws[:, None]) ** 2) / 2 - math.log(2 * math.pi) / 2
    scores = pc.posterior.criteria(log_likelihood)
    names = ("waic", "loo", "psis_loo", "functional_variance", "bayes_training_loss", "pareto_k")
    return {name: getattr(scores, name) for name in names}


@result(BITS)
def threshold_at_the_start() -> dict[str, Any]:
    measured = pc.features.threshold("z**2", "gelu", "pseudo-huber", delta=10)
    spectrum = {name: measured.spectrum.get(name) for name in ("edge", "outlier", "overlap2", "margin")}
    return {**estimate(measured), **spectrum}


@result(BITS)
def threshold_after_a_step() -> dict[str, Any]:
    return estimate(pc.features.threshold("z**2", "gelu", "pseudo-huber", time=1))


@result(BITS)
def end_of_training_at_a_fixed_point() -> dict[str, Any]:
    network, target = pc.features.Network("softplus", "square"), pc.features.target("minimum(z**2, 3)")
    end = pc.features.fixed_point(network, target, 12.0, seeds=2)
    return {name: getattr(end, name).estimate for name in ("alpha", "q", "train", "test")}


def learning_curve(order: int) -> dict[str, Any]:
    measured = pc.online.curve(
        modes=4, exponent=1.0, lr=0.5, inputs=400, draws=2, alphas=[1, 10, 30], order=order, seed=4
    )
    plateau = measured.plateau
    assert plateau is not None
    return {"eps": measured.estimate, "error": measured.error, "plateau": plateau["eps"]}


@result(ROUNDED)  # the same steps by another program
def learning_curve_of_first_order() -> dict[str, Any]:
    return learning_curve(1)


@result(ROUNDED)  # the same steps by another program
def learning_curve_of_second_order() -> dict[str, Any]:
    return learning_curve(2)


@result(ROUNDED)  # a derivative in closed form instead of by JAX
def plateau() -> dict[str, Any]:
    second = pc.online.Spectrum.power_law(10, 0.25).moment(2)
    return {
        "eps": pc.online.plateau(np.eye(4)).eps,
        "escape_time": pc.online.escape_time(np.eye(4), second * np.eye(4), lr=0.1).value,
    }


@result(BITS)
def grokking() -> dict[str, Any]:
    task = pc.grokking.task("addition", 7)
    *_, last = pc.grokking.train(task, pc.grokking.quadratic(task, 16), steps=60, lr=5e-3, seeds=[1, 2], log_every=20)
    return {name: values[-1] for name, values in last.curves.items()}


@result(SAMPLED)  # other shapes compete since, and the error follows from the interval
def transition() -> dict[str, Any]:
    try:
        from phasecast.grokking.analysis.transition import transition as fit
    except ImportError:
        from phasecast.grokking.transition import transition as fit  # pyright: ignore

    rng = np.random.default_rng(5)
    times = np.geomspace(1, 1000, 40)
    values = 1 / (1 + (times / 60) ** -4.0) + rng.normal(scale=0.03, size=40)
    return estimate(fit(times, values), "low", "high", "before", "after")


@result(BITS)
def sgd_temperature() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(50, 3)), rng.normal(size=50)
    best = np.linalg.lstsq(x, noise, rcond=None)[0]
    measured = pc.coefficients.sgd_temperature(
        lambda w, data: jnp.mean((data[0] @ w - data[1]) ** 2) / 2, best, (x, noise), 0.01, 8
    )
    return {"estimate": measured.estimate}


@result(BITS)
def toy_landscapes() -> dict[str, Any]:
    recipe = pc.lab.find_recipe("toy-landscapes")
    with tempfile.TemporaryDirectory() as folder:
        answers: Any = pc.lab.run(recipe.name, recipe.tiny, store=Path(folder), quiet=True).conclusion().answers
        results = answers.values() if hasattr(answers, "values") else [answer.result for answer in answers]
    measured = [getattr(one, "measurement", one) for one in results]
    return {
        "estimate": [float(np.asarray(one.estimate)) for one in measured if hasattr(one, "estimate")],
        "error": [float(np.asarray(one.error)) for one in measured if hasattr(one, "error")],
    }


def compute(name: str) -> dict[str, str | list[str]]:
    return {part: plain(value) for part, value in RESULTS[name][1]().items()}


if __name__ == "__main__":
    json.dump({"machine": machine(), "results": {name: compute(name) for name in RESULTS}}, sys.stdout, indent=1)
    print()
