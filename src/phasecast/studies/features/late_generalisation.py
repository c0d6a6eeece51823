"""For which δ = n/d does the test loss fall late? Losses of one unit along training, beside their limit.

The grokking figures of the slides of Wang & Montanari 2026 (GeLU unit, phase retrieval, d = 5000, δ from 5 to 50):
moderately above the threshold the training examples are fitted first and the hidden direction is learned later; far
above it there is nothing to fit but the direction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from phasecast.core.answers import Answer
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Comparison, Measurement, Prediction, Status
from phasecast.core.statistics import mean_of, standard_error
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.tables import Table
from phasecast.studies.features.shared_setting import (
    Setting,
    State,
    check_hard,
    log_times,
    one_row,
    remaining,
    rising,
)

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class LateGeneralisationPolicy(Policy):
    """When learning has begun, and how close a run must be to the limit."""

    begun: float = rule(0.1, "share of its whole fall that the test loss has made when learning has begun; chosen")
    learned_cosine: float = rule(0.5, "the cosine that is a success on the slides of Wang & Montanari 2026")
    tolerance: float = rule(4.0, "combined errors; some hundred correlated losses per run are compared at once")


POLICY = LateGeneralisationPolicy()


class FeatureGrokking(Setting):
    """Which δ, in how many dimensions, for how long."""

    PAPER: ClassVar[Mapping[str, Any]] = {"dimension": 5000, "runs": 1, "steps": 1000}

    deltas: tuple[float, ...] = Field(
        default=(5.0, 10.0, 15.0, 17.5, 50.0), min_length=1, description="examples per dimension δ, rising"
    )
    dimension: int = Field(default=400, ge=10, description="dimension d")
    runs: int = Field(default=4, ge=1, description="draws of examples and weights for each δ")
    steps: int = Field(default=600, ge=10, description="steps of training")
    looks: int = Field(default=40, ge=5, description="steps that are recorded, evenly spaced in log time")
    limit_steps: int = Field(default=24, ge=2, le=60, description="steps for which the limit d → ∞ is computed")
    samples: int = Field(default=20_000, ge=500, description="samples of the limit")
    limit_seeds: int = Field(default=4, ge=2, description="draws of the limit")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        rising("deltas", self.deltas)
        check_hard(self.aim())
        return self

    @property
    def times(self) -> tuple[int, ...]:
        return log_times(self.steps, self.looks)


def work(spec: FeatureGrokking, state: State) -> Iterator[Chunk]:
    """One chunk per run, and one per limit at one δ."""
    from phasecast.features.curvature.dmft import dmft
    from phasecast.features.simulation.descent import descend, draw_data

    network, target = spec.network(), spec.aim()
    per = spec.runs + 1
    total = len(spec.deltas) * per
    for done in remaining(state, total):
        delta, number = spec.deltas[done // per], done % per
        rows: dict[str, Any] = {}
        if number < spec.runs:
            data = draw_data(network, target, delta, spec.dimension, seed=spec.seed + number)
            run = descend(data, spec.lr, spec.steps, record=spec.times)
            row = {"delta": delta, "train": run.train, "test": run.test, "cosine": run.cosine(target.hard)}
            if run.status is Status.REFUSED:
                row = {"delta": delta, **dict.fromkeys(("train", "test", "cosine"), np.full(len(spec.times), np.nan))}
            rows["runs"] = one_row(**row)
            metric = ("cosine", float(np.asarray(row["cosine"])[-1]))
        else:
            rows["limit"] = {"delta": np.array([delta])}
            limits = [
                dmft(network, target, delta, spec.lr, spec.limit_steps, samples=spec.samples, seed=spec.seed + seed)
                for seed in range(spec.limit_seeds)
            ]
            for name in ("train", "test"):
                each = np.array([_filled(getattr(one, name).estimate, spec.limit_steps + 1) for one in limits])
                rows["limit"][name] = each.mean(axis=0)[None]
                rows["limit"][f"{name}_error"] = standard_error(each)[None]
            metric = None
        yield Chunk({"done": done + 1}, rows, done + 1, total, metric)


def _filled(values: ArrayLike, count: int) -> np.ndarray:
    """NaN after the step at which the limit diverged."""
    known = np.asarray(values, dtype=float)
    return np.concatenate([known, np.full(count - len(known), np.nan)])


def layout(spec: FeatureGrokking) -> Mapping[str, Table]:
    runs = {"delta": "δ = n/d", "train": "training loss", "test": "loss on fresh examples", "cosine": "|cos| with θ_*"}
    limit = {"delta": "δ", "train": "training loss for d → ∞", "train_error": "its standard error",
             "test": "test loss for d → ∞", "test_error": "its standard error"}  # fmt: skip
    return {
        "runs": Table(
            "run", {name: () if name == "delta" else ("time",) for name in runs}, {"time": np.array(spec.times)}, runs
        ),
        "limit": Table(
            "setting", {name: () if name == "delta" else ("step",) for name in limit},
            {"step": np.arange(spec.limit_steps + 1)}, limit,
        ),
    }  # fmt: skip


def early_share(train: np.ndarray, test: np.ndarray, cosine: np.ndarray) -> float | None:
    """The share of its whole fall that the training loss makes before the test loss makes a tenth of its own.

    None where the direction is not learned: then the test loss has nothing to fall to.
    """
    if not cosine[-1] > POLICY.learned_cosine or not test[-1] < test[0]:
        return None
    start = int(np.argmax(test < test[0] - POLICY.begun * (test[0] - test[-1])))
    return float((train[0] - train[start]) / (train[0] - train[-1]))


def shares(results: xr.DataTree, delta: float) -> list[float | None]:
    node = results["runs"].to_dataset()
    chosen = np.flatnonzero(node["delta"].values == delta)
    parts = [node[name].values[chosen] for name in ("train", "test", "cosine")]
    return [early_share(*each) for each in zip(*parts, strict=True)]


def conclude(spec: FeatureGrokking, results: xr.DataTree) -> Conclusion:
    answers: list[Answer] = []
    numbers: dict[str, float | int | None] = {}
    parts = []
    node, limit = results["runs"].to_dataset(), results["limit"].to_dataset()
    shared = [t for t in spec.times if t <= spec.limit_steps]
    for number, delta in enumerate(spec.deltas):
        chosen = np.flatnonzero(node["delta"].values == delta)
        learned = [share for share in shares(results, delta) if share is not None]
        numbers[f"runs that learn, δ = {delta:g}"] = len(learned)
        numbers[f"largest gap, δ = {delta:g}"] = float(
            np.nanmax(node["test"].values[chosen].mean(0) - node["train"].values[chosen].mean(0))
        )
        if learned:
            error = float(standard_error(learned)) if len(learned) > 1 else 0.0
            share = Measurement(float(np.mean(learned)), error, error_kind="seeds", policy=POLICY.plain())
            answers.append(Answer("early-share", share, f"early share, δ = {delta:g}", {"delta": delta}))
            parts.append(f"δ = {delta:g}: {np.mean(learned):.0%}, {len(learned)} of {spec.runs} runs learn")
        else:
            parts.append(f"δ = {delta:g} does not learn within {spec.steps} steps")
        if spec.runs > 1:
            at = [spec.times.index(t) for t in shared]
            for kind in ("train", "test"):
                each = node[kind].values[chosen][:, at]
                measured = mean_of(each)
                finite = 1 / spec.dimension  # the overlap² that a hard direction has at the start
                width = np.hypot(limit[f"{kind}_error"].values[number][shared], finite)
                theory = Prediction(limit[kind].values[number][shared], "d → ∞", "DMFT", systematic=width)
                if np.isfinite(each).all() and np.isfinite(width).all():
                    label = f"{kind} loss up to t = {shared[-1]}, δ = {delta:g}"
                    beside = Comparison(theory, measured, tolerance=POLICY.tolerance)
                    answers.append(Answer("loss-limit", beside, label, {"loss": kind, "delta": delta}))
    sentence = "Share of the fall of the training loss made before the test loss falls: " + "; ".join(parts) + "."
    return Conclusion(answers, sentence, numbers)


def figures(spec: FeatureGrokking, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import COLOURS, blank, legend_above

    columns = min(3, len(spec.deltas))
    lines = -(-len(spec.deltas) // columns)
    figure, axes = blank(lines, columns, width=8.2, height=2.6 * lines + 0.4, sharex=True, sharey=True)
    node, limit = results["runs"].to_dataset(), results["limit"].to_dataset()
    times = np.maximum(np.array(spec.times), 0.5)
    steps = np.maximum(np.arange(spec.limit_steps + 1), 0.5)
    for number, delta in enumerate(spec.deltas):
        one = axes[number // columns, number % columns]
        chosen = np.flatnonzero(node["delta"].values == delta)
        for kind, colour in (("train", COLOURS[0]), ("test", COLOURS[1])):
            for i, curve in enumerate(node[kind].values[chosen]):
                one.plot(times, curve, color=colour, lw=1, alpha=0.7, label=f"{kind} loss" if not i else None)
            one.plot(steps, limit[kind].values[number], "k--", lw=1.2, label="d → ∞" if kind == "train" else None)
        one.set_xscale("log")
        one.set_title(f"δ = {delta:g}", fontsize=10)
        beside = one.twinx()
        beside.plot(times, node["cosine"].values[chosen].T, color=COLOURS[2], lw=0.8, ls=":")
        beside.set_ylim(0, 1.05)
        beside.spines["top"].set_visible(False)
        if number % columns == columns - 1 or number == len(spec.deltas) - 1:
            beside.set_ylabel("|cos| (dotted)", color=COLOURS[2])
        else:
            beside.tick_params(right=False, labelright=False)
        one.tick_params(labelbottom=True)
        one.set_xlabel("step t")
    for one in axes.ravel()[len(spec.deltas) :]:
        one.set_visible(False)
    for one in axes[:, 0]:
        one.set_ylabel("loss")
    legend_above(figure, axes[0, 0])
    caption = (
        f"One unit in d = {spec.dimension} dimensions, one line per run; the first point is t = 0. Dashed: the limit "
        "d → ∞, in which a hard direction is never learned. Dotted, right axis: the cosine with the hidden direction."
    )
    return {"losses": Captioned(figure, caption)}


RECIPE = Recipe(
    name="feature-grokking",
    version=1,
    question="For how many examples per dimension is the training set fitted before the hidden direction is learned?",
    spec=FeatureGrokking,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={
        "deltas": (4.0, 20.0),
        "dimension": 40,
        "runs": 2,
        "steps": 60,
        "looks": 8,
        "limit_steps": 3,
        "samples": 500,
        "limit_seeds": 2,
    },
)
