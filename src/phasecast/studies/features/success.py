"""How many examples does gradient descent need to succeed? The share of runs that learn a hard direction, over δ = n/d.

Two figures of the slides of Wang & Montanari 2026: the phase transition of success for a GeLU unit on phase retrieval,
and the effect of activations. The runs are compared with δ*(t), where an informative outlier appears in the Hessian.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.answers import Answer
from phasecast.core.results import Comparison, Measurement, Prediction, Result, Status, show
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.tables import Table
from phasecast.studies.features.shared_setting import Setting, State, check_hard, one_row, remaining, rising

if TYPE_CHECKING:
    import xarray as xr


class FeatureSuccess(Setting):
    """Which units, how many examples, in how many dimensions, how often."""

    PAPER: ClassVar[Mapping[str, Any]] = {
        "dimensions": (300, 1000, 3000), "deltas": (3, 4, 5, 6, 7, 8.5, 10, 12, 15), "runs": 20,
        "theory_dimension": 1000,
    }  # fmt: skip

    activations: tuple[str, ...] = Field(default=("gelu", "quadratic"), min_length=1, description="each is a curve")
    dimensions: tuple[int, ...] = Field(default=(100, 200, 400), min_length=1, description="dimensions d, rising")
    deltas: tuple[float, ...] = Field(
        default=(2.0, 3.0, 4.0, 5.0, 6.5, 8.5, 11.0, 14.0), min_length=2, description="examples per dimension δ, rising"
    )
    runs: int = Field(default=10, ge=2, description="runs for each d and δ")
    level: float = Field(default=0.5, gt=0, lt=1, description="the cosine with the hard directions that is a success")
    per_log: float = Field(default=50.0, gt=0, description="c of the horizon, c·ln(d)/η steps")
    times: tuple[int, ...] = Field(
        default=(0, 20, 200), min_length=1, description="steps t of the predictions δ*(t), rising"
    )
    theory_dimension: int = Field(default=400, ge=20, description="dimensions of the decoupled descent that predicts")
    theory_seeds: int = Field(default=4, ge=2, description="draws of it")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name in ("dimensions", "deltas", "times"):
            rising(name, getattr(self, name))
        for activation in self.activations:
            self.network(activation=activation)
        check_hard(self.aim())
        return self


def work(spec: FeatureSuccess, state: State) -> Iterator[Chunk]:
    """One chunk per activation, d and δ: all its runs, and with the first d the margins of theory."""
    from phasecast.features.simulation.margins import decoupled_margins
    from phasecast.features.simulation.success import horizon, successes

    target = spec.aim()
    cells = [
        (number, d, delta) for number in range(len(spec.activations)) for d in spec.dimensions for delta in spec.deltas
    ]
    for done in remaining(state, len(cells)):
        number, d, delta = cells[done]
        network = spec.network(activation=spec.activations[number])
        times = successes(
            network, target, delta, spec.lr, dimension=d, seeds=range(spec.seed, spec.seed + spec.runs),
            steps=horizon(d, spec.lr, spec.per_log), level=spec.level,
        )  # fmt: skip
        won = int(np.isfinite(times).sum())
        rows = {"runs": one_row(activation=float(number), dimension=float(d), delta=float(delta), won=float(won))}
        if d == spec.dimensions[0]:
            margins = [
                decoupled_margins(
                    network, target, spec.lr, delta, spec.times, dimension=spec.theory_dimension, seed=spec.seed + s
                )
                for s in range(spec.theory_seeds)
            ]
            rows["theory"] = one_row(activation=float(number), delta=delta, margin=margins)
        yield Chunk({"done": done + 1}, rows, done + 1, len(cells), ("successes", float(won)))


def layout(spec: FeatureSuccess) -> Mapping[str, Table]:
    runs = {"activation": "its number", "dimension": "d", "delta": "δ = n/d", "won": "runs that succeeded"}
    theory = {"activation": "its number", "delta": "δ", "margin": "negative where the Hessian has an outlier"}
    return {
        "runs": Table("cell", dict.fromkeys(runs, ()), meanings=runs),
        "theory": Table(
            "cell", {"activation": (), "delta": (), "margin": ("draw", "time")},
            {"time": np.asarray(spec.times), "draw": np.arange(spec.theory_seeds)}, theory,
        ),
    }  # fmt: skip


def places(spec: FeatureSuccess, results: xr.DataTree, number: int) -> dict[int, Measurement]:
    """δ₅₀ of one activation for each d."""
    from phasecast.features.simulation.success import half_success

    node = results["runs"].to_dataset()
    halves = {}
    for d in spec.dimensions:
        chosen = node.isel(cell=np.flatnonzero((node["activation"] == number) & (node["dimension"] == d)))
        halves[d] = half_success(spec.deltas, chosen["won"].values, [spec.runs] * len(spec.deltas))
    return halves


def predicted(spec: FeatureSuccess, results: xr.DataTree, number: int) -> dict[int, Measurement]:
    """δ*(t) of one activation for each t."""
    from phasecast.features.simulation.margins import first_crossing

    node = results["theory"].to_dataset()
    margins = node["margin"].values[node["activation"].values == number]  # (δ, draw, time)
    return {t: first_crossing(spec.deltas, margins[:, :, i].T, f"δ*({t})") for i, t in enumerate(spec.times)}


def conclude(spec: FeatureSuccess, results: xr.DataTree) -> Conclusion:
    from phasecast.features.simulation.success import finite_size

    answers: list[Answer] = []
    numbers: dict[str, float | int | None] = {}
    parts = []
    for number, activation in enumerate(spec.activations):
        halves, stars = places(spec, results, number), predicted(spec, results, number)
        for d, half in halves.items():
            label = f"δ₅₀, {activation}, d = {d}"
            answers.append(Answer("half-success", half, label, {"activation": activation, "dimension": d}))
            numbers[label] = _number(half)
        for t, star in stars.items():
            numbers[f"δ*({t}), {activation}"] = _number(star)
        limit = finite_size(list(halves), list(halves.values()))
        last = stars[spec.times[-1]]
        result: Result = limit
        if last.status is not Status.REFUSED and limit.status is not Status.REFUSED:
            regime, width = f"t = {spec.times[-1]}", float(last.error)
            result = Comparison(Prediction(float(last), regime, "outlier of the Hessian", systematic=width), limit)
        if len(spec.dimensions) > 1:  # with one dimension the limit is not asked for
            label = f"δ₅₀ for d → ∞, {activation}"
            answers.append(Answer("half-success-limit", result, label, {"activation": activation}))
        start = "; ".join(f"{show(half.estimate, half.error)} at d = {d}" for d, half in halves.items())
        parts.append(f"{activation}: half of the runs succeed at δ = {start}; δ*({spec.times[-1]}) is {_shown(last)}")
    return Conclusion(answers, ". ".join(parts) + ".", numbers)


def _number(one: Measurement) -> float | None:
    return None if one.status is Status.REFUSED else float(one)


def _shown(one: Measurement) -> str:
    return "not on this grid" if one.status is Status.REFUSED else show(one.estimate, one.error)


def figures(spec: FeatureSuccess, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import COLOURS, blank, legend, log_axis, points

    figure, axes = blank(1, len(spec.activations), width=3.9 * max(2, len(spec.activations)), height=3.4, sharey=True)
    node = results["runs"].to_dataset()
    styles = ("-", "--", ":", "-.")
    for number, activation in enumerate(spec.activations):
        one = axes[0, number]
        for i, d in enumerate(spec.dimensions):
            chosen = (node["activation"].values == number) & (node["dimension"].values == d)
            share = node["won"].values[chosen] / spec.runs
            error = np.sqrt(np.maximum(share * (1 - share), 0.25 / spec.runs) / spec.runs)
            points(one, spec.deltas, share, error, number=i, label=f"d = {d}")
        for i, (t, star) in enumerate(predicted(spec, results, number).items()):
            if star.status is not Status.REFUSED:
                one.axvline(float(star), color=COLOURS[-1], ls=styles[i % 4], lw=1, label=f"δ*({t})")
        log_axis(one, spec.deltas)
        one.set_title(activation, fontsize=10)
        one.set_xlabel("examples per dimension δ = n/d")
        legend(one)
    axes[0, 0].set_ylabel(f"share of runs with |cos| > {spec.level:g}")
    caption = (
        f"Share of {spec.runs} runs that learn the hard direction within {spec.per_log:g} ln(d)/η steps, with bars of "
        "one standard error. Vertical lines: from there on the Hessian after t steps has an outlier that points to it."
    )
    return {"success": Captioned(figure, caption)}


RECIPE = Recipe(
    name="feature-success",
    version=1,
    question="How many examples per dimension does gradient descent need to learn a hard direction?",
    spec=FeatureSuccess,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={
        "activations": ("gelu",), "dimensions": (20, 40), "deltas": (2.0, 12.0), "runs": 2, "per_log": 4.0,
        "times": (0, 4), "theory_dimension": 40, "theory_seeds": 2,
    },
)  # fmt: skip
