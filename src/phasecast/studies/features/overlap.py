"""Which directions does gradient descent learn in a few steps? Overlaps with easy and hard directions, over d.

The slides of Wang & Montanari 2026, "Hard directions: not learned in O(1) time" and "Easy directions: learned in O(1)
time", on the example of two latents and a symmetric link, where z₁ + z₂ is easy and z₁ − z₂ is hard.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.answers import Answer
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Comparison, Measurement, Prediction, show
from phasecast.core.statistics import standard_error, weighted_line
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.tables import Table
from phasecast.studies.features.shared_setting import Setting, State, one_row, remaining, rising

if TYPE_CHECKING:
    import xarray as xr


LIMIT_SEEDS = 4  # draws of the limit, whose spread is its error


@dataclass(frozen=True)
class OverlapPolicy(Policy):
    """How far a finite dimension may be from the limit."""

    finite_size: float = rule(
        2.0, "systematic width times d: corrections of order 1/d with a coefficient of two; chosen"
    )


POLICY = OverlapPolicy()


class FeatureOverlap(Setting):
    """Which target, which dimensions, how many steps."""

    PAPER: ClassVar[Mapping[str, Any]] = {"dimensions": (200, 400, 800, 1600, 3200, 6400), "runs": 32}

    target: str = Field(default="z1 + z2 + z1*z2", description="the labels as an expression in z1, z2, z3")
    lr: float = Field(default=0.4, gt=0, description="learning rate η")
    delta: float = Field(default=6.0, gt=0, description="examples per dimension δ")
    steps: int = Field(default=10, ge=1, le=60, description="steps of training, the same for all d")
    dimensions: tuple[int, ...] = Field(
        default=(100, 200, 400, 800, 1600), min_length=2, description="dimensions d, rising"
    )
    runs: int = Field(default=16, ge=4, description="draws of examples and weights for each d")
    samples: int = Field(default=20_000, ge=500, description="samples of the limit")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        rising("dimensions", self.dimensions)
        if not self.aim().hard.shape[1]:
            raise ValueError(f"'{self.target}' has no hard direction; use a target like z1 + z2 + z1*z2")
        return self


def work(spec: FeatureOverlap, state: State) -> Iterator[Chunk]:
    """One chunk per dimension with all its runs, and one for the limit."""
    from phasecast.features.curvature.dmft import dmft
    from phasecast.features.simulation.descent import descend, draw_data

    network, target = spec.network(), spec.aim()
    total = len(spec.dimensions) + 1
    times = np.arange(spec.steps + 1)
    for done in remaining(state, total):
        rows: dict[str, Any] = {}
        if done < len(spec.dimensions):
            d = spec.dimensions[done]
            parts: dict[str, list[np.ndarray]] = {"easy": [], "hard": []}
            for number in range(spec.runs):
                run = descend(draw_data(network, target, spec.delta, d, seed=spec.seed + number), spec.lr, spec.steps)
                for name, basis in (("easy", target.easy), ("hard", target.hard)):
                    size = (
                        np.linalg.norm(run.overlap[:, 0] @ basis, axis=-1) if basis.size else np.zeros(len(run.times))
                    )
                    parts[name].append(np.concatenate([size, np.full(len(times) - len(size), np.nan)]))
            rows["runs"] = one_row(dimension=float(d), easy=parts["easy"], hard=parts["hard"])
        else:
            limits = []
            for seed in range(LIMIT_SEEDS):
                run = dmft(
                    network, target, spec.delta, spec.lr, spec.steps, samples=spec.samples, seed=spec.seed + seed
                )
                size = np.linalg.norm(run.overlap[:, 0] @ target.easy, axis=-1) if target.easy.size else np.zeros(1)
                limits.append(np.concatenate([size, np.full(len(times) - len(size), np.nan)]))
            rows["limit"] = {"easy": np.array(limits)}
        yield Chunk({"done": done + 1}, rows, done + 1, total)


def layout(spec: FeatureOverlap) -> Mapping[str, Table]:
    meanings = {"dimension": "d", "easy": "|overlap| with the easy directions", "hard": "with the hard directions"}
    coordinates = {"time": np.arange(spec.steps + 1)}
    return {
        "runs": Table(
            "setting", {"dimension": (), "easy": ("run", "time"), "hard": ("run", "time")},
            {**coordinates, "run": np.arange(spec.runs)}, meanings,
        ),
        "limit": Table("draw", {"easy": ("time",)}, coordinates, {"easy": "|overlap| with the easy ones, d → ∞"}),
    }  # fmt: skip


def decay(dimensions: Sequence[float] | np.ndarray, hard: np.ndarray) -> Measurement:
    """The exponent of the root-mean-square hard overlap over d, from overlaps of shape (dimensions, runs)."""
    squares = hard**2
    x = np.log(np.asarray(dimensions, dtype=float))
    y = 0.5 * np.log(squares.mean(axis=1))
    error = 0.5 * squares.std(axis=1, ddof=1) / squares.mean(axis=1) / math.sqrt(squares.shape[1])
    line = weighted_line(x, y, error)
    return Measurement(line.slope, line.slope_error, error_kind="seeds", name="exponent of the hard overlap")


def conclude(spec: FeatureOverlap, results: xr.DataTree) -> Conclusion:
    from phasecast.features.simulation.descent import over_draws

    node, limit = results["runs"].to_dataset(), results["limit"].to_dataset()["easy"].values
    hard, easy = node["hard"].values[:, :, -1], node["easy"].values[:, :, -1]
    label = "exponent of the hard overlap"
    if not (np.isfinite(hard).all() and np.isfinite(limit).all()):
        refused = Measurement.refused("descent diverges; lower the learning rate", error_kind="seeds")
        return Conclusion([Answer("hard-overlap-exponent", refused, label)], "Descent diverges.")
    slope = decay(spec.dimensions, hard)
    source = "the overlap with a direction that is not learned stays that of a random vector"
    expected = Prediction(-0.5, f"t = {spec.steps}, d → ∞", source)
    answers = [Answer("hard-overlap-exponent", Comparison(expected, slope), label)]
    if spec.aim().easy.size:
        theory = over_draws(limit[:, -1])
        largest = spec.dimensions[-1]
        width = float(np.hypot(theory.error, POLICY.finite_size / largest))
        beside = Comparison(Prediction(float(theory), "d → ∞", "DMFT", width), over_draws(easy[-1]))
        answers.append(Answer("easy-overlap", beside, f"easy overlap, d = {largest}", {"dimension": largest}))
    numbers: dict[str, float | int | None] = {}
    for number, d in enumerate(spec.dimensions):
        numbers[f"hard, d = {d}"] = float(np.sqrt((hard[number] ** 2).mean()))
        numbers[f"easy, d = {d}"] = float(easy[number].mean())
    sentence = (
        f"After {spec.steps} steps the hard overlap falls like d^({show(slope.estimate, slope.error)}); the easy one "
        f"is {easy[-1].mean():.3f} at d = {spec.dimensions[-1]}, {limit[:, -1].mean():.3f} in the limit."
    )
    return Conclusion(answers, sentence, numbers)


def figures(spec: FeatureOverlap, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import COLOURS, EXACT, blank, legend, log_axis, points

    figure, axes = blank(1, 2, width=8.0, height=3.2)
    node, limit = results["runs"].to_dataset(), results["limit"].to_dataset()["easy"].values
    left, right = axes[0]
    for name, number in (("easy", 0), ("hard", 1)):
        last = node[name].values[:, :, -1]
        rms = np.sqrt((last**2).mean(axis=1))
        error = standard_error(last**2, axis=1) / np.maximum(2 * rms, 1e-12)
        points(left, spec.dimensions, rms, error, number=number, label=f"{name} directions")
    start = np.sqrt((node["hard"].values[0, :, -1] ** 2).mean())
    line = start * np.sqrt(spec.dimensions[0] / np.asarray(spec.dimensions))
    left.plot(spec.dimensions, line, "--", color=EXACT["color"], lw=1, label="d^(−1/2)")
    left.axhline(limit[:, -1].mean(), color=COLOURS[0], ls=":", lw=1.2, label="easy, d → ∞")
    log_axis(left, spec.dimensions)
    left.set_yscale("log")
    left.set_xlabel("dimension d")
    left.set_ylabel(f"overlap at t = {spec.steps} (rms)")
    legend(left)
    times = np.arange(spec.steps + 1)
    for name, number in (("easy", 0), ("hard", 1)):
        for curve in node[name].values[-1]:
            right.plot(times, curve, color=COLOURS[number], lw=0.6, alpha=0.5)
    right.plot(times, limit.mean(axis=0), "k--", lw=1.4, label="easy, d → ∞")
    right.set_xlabel("step t")
    right.set_ylabel(f"overlap, d = {spec.dimensions[-1]}")
    legend(right)
    caption = (
        "Size of the overlap of the weights with the easy and the hard directions. Left: over the dimension, with bars "
        "of one standard error; right: along training, one line per run."
    )
    return {"overlap": Captioned(figure, caption)}


RECIPE = Recipe(
    name="feature-overlap",
    version=1,
    question="Which directions does gradient descent learn in a number of steps that does not grow with the dimension?",
    spec=FeatureOverlap,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"dimensions": (30, 60), "runs": 4, "steps": 3, "samples": 500},
)
