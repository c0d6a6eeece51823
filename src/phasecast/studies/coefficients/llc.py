"""What is λ̂ of my model, and how does it move during training? The sampled coefficient as a run that can be stopped.

One problem, at its own parameters or at each of a list of checkpoints; every chunk of every chain can be resumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from phasecast.core import user_code
from phasecast.core.results import Measurement, Result, Status, show
from phasecast.core.user_weights import load_weights
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.spec import DataFile, Factory, Spec
from phasecast.lab.tables import Table

if TYPE_CHECKING:
    import xarray as xr

    from phasecast.coefficients.llc.result import LLC

STATUSES = (Status.OK, Status.WARNING, Status.REFUSED)
LONGEST_REASONS = 2000
DRAWS = 256  # kept of each chain, for figures and ArviZ
NUMBERS = ("value", "error", "value_min", "value_var", "rhat", "ess", "acceptance", "divergences", "stein", "gradients")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


class LocalCoefficient(Spec):
    """Which problem, at which parameters, and how."""

    problem: Factory = Field(description="package.module:factory of a phasecast.Problem")
    checkpoints: tuple[DataFile, ...] = Field(
        (), description="parameters along a training, .npz or .safetensors; [] for the problem's own"
    )
    nbeta: float | None = Field(None, gt=0, description="inverse temperature nβ; null for n/log n")
    gamma: float | None = Field(None, gt=0, description="pull towards w*; null for a ladder that goes to zero")
    prior: float | None = Field(None, ge=0, description="coefficient of the L2 term of the training")
    only: str | None = Field(None, description="pattern for the names of the parameters that move")
    sampler: Literal["auto", "hmc", "mala", "langevin"] = Field("auto", description="how the chains move")
    chains: int = Field(8, ge=1, le=256, description="how many, at most")
    target: float = Field(0.02, gt=0, lt=1, description="standard error to reach, relative to λ̂")
    max_grads: float | None = Field(None, gt=0, description="gradients that may be spent at each point")


def work(spec: LocalCoefficient, state: Any) -> Iterator[Chunk]:
    """A chunk of steps of all chains at one checkpoint after another."""
    from phasecast.coefficients.llc.estimate import chosen_sampler, conclude, decay_of, settings_for
    from phasecast.coefficients.llc.level import Rung, from_plain, to_plain
    from phasecast.coefficients.llc.schedule import proceed
    from phasecast.sampling.backends.jax import JaxEngine

    problem = user_code.load_problem(spec.problem)
    total = max(1, len(spec.checkpoints))
    first, done = (0, 0) if state is None else (int(state["index"]), int(state["done"]))
    origin = JaxEngine(problem.loss, problem.params, problem.data, decay=decay_of(spec.prior), only=spec.only)
    for index in range(first, total):
        params = load_weights(spec.checkpoints[index], problem.params) if spec.checkpoints else problem.params
        engine = origin.moved_to(params)
        kernel: Any = chosen_sampler(spec.sampler)
        settings = settings_for(
            engine, problem.n, spec.nbeta, spec.gamma, kernel, spec.chains, spec.target, spec.max_grads
        )
        stored = state["rungs"] if state is not None else []
        rungs: list[Rung] = [from_plain(rung, engine) for rung in stored]
        while proceed(engine, settings, rungs, spec.seed):
            metric = ("λ̂", rungs[-1].value) if np.isfinite(rungs[-1].value) else None
            done += 1
            state = {"index": index, "done": done, "rungs": [to_plain(rung) for rung in rungs]}
            yield Chunk(state, {}, done, None, metric)
        found = conclude(engine, settings, rungs, 0.0, problem.name)
        rows = {"llc": _row(found, spec)}
        done += 1
        state = {"index": index + 1, "done": done, "rungs": []}
        yield Chunk(state, rows, done, done if index + 1 == total else None, ("λ̂", float(np.asarray(found.estimate))))


def _row(found: LLC, spec: LocalCoefficient) -> dict[str, Any]:
    """A result as one row of numbers."""
    from phasecast.coefficients.llc.schedule import MOST_RUNGS

    numbers = {name: float(getattr(found, "estimate" if name == "value" else name)) for name in NUMBERS}
    curve = np.full((MOST_RUNGS, 4), np.nan)
    curve[: len(found.curve)] = found.curve
    draws = np.full((DRAWS, spec.chains), np.nan)
    excess = found.traces["excess"]
    kept = excess[:: max(1, len(excess) // DRAWS)][:DRAWS]
    draws[: len(kept), : kept.shape[1]] = kept
    words = "\n".join(found.reasons).encode()[:LONGEST_REASONS]
    reasons = np.zeros(LONGEST_REASONS, dtype=np.uint8)
    reasons[: len(words)] = np.frombuffer(words, dtype=np.uint8)
    return {
        **{name: np.array([value]) for name, value in numbers.items()},
        "status": np.array([STATUSES.index(found.status)]),
        "reasons": reasons[None],
        "curve": curve[None],
        "excess": draws[None],
    }


def layout(spec: LocalCoefficient) -> Mapping[str, Table]:
    names = [Path(path).stem for path in spec.checkpoints] or ["params"]
    return {
        "llc": Table(
            "checkpoint",
            {
                **dict.fromkeys(NUMBERS, ()),
                "status": (),
                "reasons": ("byte",),
                "curve": ("rung", "column"),
                "excess": ("draw", "chain"),
            },
            {"checkpoint": names, "column": ["gamma", "value", "error", "value_var"]},
            {"value": "λ̂", "status": "0 ok, 1 warning, 2 refused", "excess": "draws of nβ(L − L*)"},
            {"reasons": "uint8", "status": "int64"},
            rows_per_chunk=1,
        )
    }


def conclude_run(spec: LocalCoefficient, results: xr.DataTree) -> Conclusion:
    answers: dict[str, Result] = {}
    for name, found in _measurements(results):
        answers[f"λ̂ at {name}"] = found
    sentences = [f"{name} is {show(m.estimate, m.error)} ({m.status})" for name, m in answers.items()][:4]  # type: ignore[attr-defined]
    return Conclusion(answers, "; ".join(sentences) + ".")


def _measurements(results: xr.DataTree) -> Iterator[tuple[str, Measurement]]:
    table = results["llc"].to_dataset()
    for index, name in enumerate(map(str, table["checkpoint"].values)):
        row = table.isel(checkpoint=index)
        words = bytes(row["reasons"].values[row["reasons"].values > 0]).decode(errors="ignore")
        yield (
            name,
            Measurement(
                float(row["value"]),
                float(row["error"]),
                STATUSES[int(row["status"])],
                {name: float(row[name]) for name in NUMBERS[2:]},
                error_kind="mcse",
                reasons=words.split("\n") if words else [],
                name=f"λ̂ at {name}",
            ),
        )


def figures(spec: LocalCoefficient, results: xr.DataTree) -> Mapping[str, Captioned]:
    from matplotlib.figure import Figure

    table = results["llc"].to_dataset()
    found = list(_measurements(results))
    drawn: dict[str, Captioned] = {}
    if len(found) > 1:
        figure = Figure(figsize=(7.0, 3.4), layout="constrained")
        axes = figure.add_subplot()
        for place, (_, one) in enumerate(found):
            fill = COLOURS[0] if one.status is Status.OK else "none"
            axes.errorbar(place, float(np.asarray(one.estimate)), yerr=_drawable(one.error), fmt="o", ms=4.5,
                          color=COLOURS[0], mfc=fill, capsize=2)  # fmt: skip
        axes.plot([float(np.asarray(one.estimate)) for _, one in found], "-", color=COLOURS[0], lw=0.8, alpha=0.6)
        names = [name for name, _ in found]
        every = max(1, len(names) // 12)
        axes.set_xticks(range(0, len(names), every), names[::every], rotation=30, ha="right", fontsize=8)
        axes.set_ylabel("λ̂")
        shown = [float(np.asarray(one.estimate)) for _, one in found if one.status is not Status.REFUSED]
        if shown:
            axes.set_ylim(0, 1.3 * max(shown))
        drawn["trajectory"] = Captioned(
            figure,
            "λ̂ at each checkpoint with its standard error. Hollow: not ok, as early checkpoints often are, because "
            "they are not minima yet; refused ones may lie outside the picture.",
        )
    figure = Figure(figsize=(7.0, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for place in range(min(len(found), len(COLOURS))):
        gamma, value, error = (table["curve"].values[place, :, column] for column in range(3))
        left.errorbar(gamma, value, yerr=error, fmt="o-", color=COLOURS[place], ms=3.5, lw=1, capsize=2,
                      label=found[place][0])  # fmt: skip
    left.set_xscale("log")
    left.set_xlabel("pull γ towards w*")
    left.set_ylabel("nβ E[L − L*]")
    if len(found) > 1:
        left.legend(fontsize=8)
    right.plot(table["excess"].values[-1], lw=0.5, alpha=0.8)
    right.set_xlabel("draw")
    right.set_ylabel("nβ (L − L*)")
    drawn["ladder"] = Captioned(
        figure, "Left: λ̂ at each γ that was sampled. Right: the chains on the last rung of the last point."
    )
    return drawn


def _drawable(error: Any) -> float:
    return float(error) if np.isfinite(error) else 0.0


RECIPE = Recipe(
    name="llc",
    version=1,
    question="What is the sampled learning coefficient of my model, at its end or along its training?",
    spec=LocalCoefficient,
    work=work,
    layout=layout,
    conclude=conclude_run,
    figures=figures,
    tiny={"problem": "phasecast.models.matrix_products:small_product", "nbeta": 100.0, "gamma": 10.0, "target": 0.3},
)
