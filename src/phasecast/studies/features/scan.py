"""Which setting gives the δ_NN ≈ 6 of the slides? Theory and success over everything that the slides leave open.

Wang & Montanari 2026 print δ_NN ≈ 6 for a GeLU unit on phase retrieval and state neither the loss, nor a, b, the scale
or centring of the labels, the learning rate, or whether weights stay on the sphere. (A factor on the loss is a factor
on η.) For every combination this computes δ*(t) by decoupled descent and δ₅₀ of gradient descent itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.answers import Answer
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Comparison, Measurement, Prediction, Status, show
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.tables import Table
from phasecast.studies.features.shared_setting import Setting, State, one_row, remaining, rising

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class ScanPolicy(Policy):
    """Which thresholds count as the printed one."""

    printed: float = rule(6.0, "'above δ_NN ≈ 6', the slides of Wang & Montanari 2026")
    near: float = rule(1.0, "chosen: the slides print one digit")
    agreeing: float = rule(3.0, "combined errors, the tolerance of a comparison")


POLICY = ScanPolicy()


class FeatureScan(Setting):
    """All combinations of what is left open."""

    PAPER: ClassVar[Mapping[str, Any]] = {
        "targets": ("z**2", "z**2 - 1", "(z**2 - 1)/sqrt(2)", "z**2/3"), "a_values": (0.5, 1.0, 2.0, 4.0),
        "b_values": (0.0, 1.0), "rates": (0.1, 0.5), "dimension": 1000, "runs": 16, "theory_dimension": 1000,
        "theory_seeds": 8, "times": (5, 20, 100, 400, 1600),
        "deltas": (1.5, 2.0, 2.8, 3.5, 4.2, 5.0, 6.0, 7.0, 8.5, 10.0, 13.0, 18.0, 25.0),
    }  # fmt: skip

    losses: tuple[str, ...] = Field(default=("pseudo-huber", "square"), min_length=1, description="losses")
    targets: tuple[str, ...] = Field(
        default=("z**2", "z**2 - 1"), min_length=1, description="labels, centred or scaled"
    )
    a_values: tuple[float, ...] = Field(default=(1.0, 4.0), min_length=1, description="weights of the second layer")
    b_values: tuple[float, ...] = Field(default=(0.0,), min_length=1, description="biases")
    rates: tuple[float, ...] = Field(default=(0.5,), min_length=1, description="learning rates η, each divided by a²")
    spheres: tuple[bool, ...] = Field(
        default=(False, True), min_length=1, description="put weights back on the sphere or not"
    )
    deltas: tuple[float, ...] = Field(
        default=(1.5, 2.5, 4.0, 5.5, 7.5, 10.0, 14.0, 20.0),
        min_length=2,
        description="examples per dimension δ, rising",
    )
    dimension: int = Field(default=200, ge=10, description="dimension d of the runs")
    runs: int = Field(default=6, ge=2, description="runs for each δ")
    per_log: float = Field(
        default=30.0, gt=0, description="c of the horizon, c·ln(d)/η steps, with η before it is divided"
    )
    times: tuple[int, ...] = Field(default=(20, 200), min_length=1, description="steps t of the predictions, rising")
    theory_dimension: int = Field(default=300, ge=20, description="dimensions of the decoupled descent that predicts")
    theory_seeds: int = Field(default=3, ge=2, description="draws of it")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name in ("deltas", "times"):
            rising(name, getattr(self, name))
        for one in open_settings(self):
            self.network(loss=one.loss, a=one.a, b=one.b)
        for expression in self.targets:
            if not self.aim(expression).hard.size:
                raise ValueError(f"'{expression}' has no hard direction; use an even one, like z**2")
        return self


@dataclass(frozen=True)
class OpenSetting:
    """One combination of what the slides leave open."""

    loss: str
    target: str
    a: float
    b: float
    rate: float
    sphere: bool

    @property
    def lr(self) -> float:
        """η divided by a²: the curvature grows with a², and η = 0.5 would diverge."""
        return self.rate / max(1.0, self.a**2)

    def label(self) -> str:
        """The combination as people read it."""
        parts = [self.loss, f"y = {self.target}", f"a = {self.a:g}"]
        parts += [f"b = {self.b:g}"] if self.b else []
        parts += [f"η = {self.lr:.3g}"]
        return ", ".join([*parts, *(["on the sphere"] if self.sphere else [])])


def open_settings(spec: FeatureScan) -> list[OpenSetting]:
    product = itertools.product(
        spec.losses, spec.targets, spec.a_values, spec.b_values, spec.rates, spec.spheres
    )  # fmt: skip
    return [OpenSetting(*one) for one in product]


def work(spec: FeatureScan, state: State) -> Iterator[Chunk]:
    """One chunk per setting and δ: its runs and the margins of theory."""
    from phasecast.features.simulation.margins import decoupled_margins
    from phasecast.features.simulation.success import horizon, successes

    settings = open_settings(spec)
    total = len(settings) * len(spec.deltas)
    for done in remaining(state, total):
        number, delta = done // len(spec.deltas), spec.deltas[done % len(spec.deltas)]
        one = settings[number]
        network, target = spec.network(loss=one.loss, a=one.a, b=one.b), spec.aim(one.target)
        times = successes(
            network, target, delta, one.lr, dimension=spec.dimension, seeds=range(spec.seed, spec.seed + spec.runs),
            steps=horizon(spec.dimension, one.rate, spec.per_log), project=one.sphere,
        )  # fmt: skip
        margins = [
            decoupled_margins(
                network, target, one.lr, delta, spec.times, dimension=spec.theory_dimension, seed=spec.seed + seed,
                project=one.sphere,
            )
            for seed in range(spec.theory_seeds)
        ]  # fmt: skip
        won = float(np.isfinite(times).sum())
        rows = {"cells": one_row(setting=float(number), delta=delta, won=won, margin=margins)}
        yield Chunk({"done": done + 1}, rows, done + 1, total, ("successes", won))


def layout(spec: FeatureScan) -> Mapping[str, Table]:
    meanings = {
        "setting": "number of the combination",
        "delta": "δ = n/d",
        "won": "runs that succeeded",
        "margin": "negative where the Hessian has an outlier; NaN where descent diverges",
    }
    return {
        "cells": Table(
            "cell", {"setting": (), "delta": (), "won": (), "margin": ("draw", "time")},
            {"time": np.asarray(spec.times), "draw": np.arange(spec.theory_seeds)}, meanings,
        )
    }  # fmt: skip


@dataclass(frozen=True)
class Thresholds:
    """δ₅₀ and δ*(t) of one combination, and the share of successes at each δ."""

    setting: OpenSetting
    half: Measurement
    stars: Mapping[int, Measurement]
    share: np.ndarray


def thresholds_of(spec: FeatureScan, results: xr.DataTree) -> list[Thresholds]:
    from phasecast.features.simulation.margins import first_crossing
    from phasecast.features.simulation.success import half_success

    if "cells" not in results.children:
        return []
    node = results["cells"].to_dataset()
    thresholds = []
    for number, one in enumerate(open_settings(spec)):
        chosen = np.flatnonzero(node["setting"].values == number)
        if len(chosen) < len(spec.deltas):
            continue  # an unfinished run
        won, margins = node["won"].values[chosen], node["margin"].values[chosen]  # (δ,), (δ, draw, time)
        half = half_success(spec.deltas, won, [spec.runs] * len(chosen))
        stars = {t: first_crossing(spec.deltas, margins[:, :, i].T, f"δ*({t})") for i, t in enumerate(spec.times)}
        thresholds.append(Thresholds(one, half, stars, won / spec.runs))
    return thresholds


def conclude(spec: FeatureScan, results: xr.DataTree) -> Conclusion:
    answers: list[Answer] = []
    numbers: dict[str, float | int | None] = {}
    theory_six, success_six, agree = [], [], []
    for one in thresholds_of(spec, results):
        label, last = one.setting.label(), one.stars[spec.times[-1]]
        numbers[f"δ₅₀: {label}"] = _number(one.half)
        for t, star in one.stars.items():
            numbers[f"δ*({t}): {label}"] = _number(star)
        if last.status is not Status.REFUSED and one.half.status is not Status.REFUSED:
            theory = Prediction(float(last), f"t = {spec.times[-1]}, d → ∞", "outlier", systematic=float(last.error))
            beside = Comparison(theory, one.half)
            answers.append(Answer("threshold-beside-success", beside, label, asdict(one.setting)))
            if abs(beside.largest_distance) <= POLICY.agreeing:
                agree.append(label)
        if _near(last):
            theory_six.append(f"{label} ({show(last.estimate, last.error)})")
        if _near(one.half):
            success_six.append(f"{label} ({show(one.half.estimate, one.half.error)})")
    if not answers:
        refused = Measurement.refused("no setting has both thresholds on this grid of δ; widen it", error_kind="seeds")
        answers.append(Answer("threshold-beside-success", refused, "theory beside success"))
    sentence = (
        f"δ*({spec.times[-1]}) is within {POLICY.near:g} of {POLICY.printed:g} for: {'; '.join(theory_six) or 'none'}. "
        f"δ₅₀ at d = {spec.dimension} is, for: {'; '.join(success_six) or 'none'}. "
        f"Within three errors of each other in {len(agree)} of {len(answers)} settings where both are known."
    )
    return Conclusion(answers, sentence, numbers)


def _number(one: Measurement) -> float | None:
    return None if one.status is Status.REFUSED else float(one)


def _near(one: Measurement) -> bool:
    value = _number(one)
    return value is not None and abs(value - POLICY.printed) <= POLICY.near


def figures(spec: FeatureScan, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import COLOURS, EXACT, MARKERS, blank, legend

    rows = thresholds_of(spec, results)
    figure, axes = blank(1, 1, width=8.2, height=0.9 + 0.27 * len(rows))
    one = axes[0, 0]
    for row, thresholds in enumerate(rows):
        shade = np.repeat(thresholds.share[None], 2, axis=0)
        edges = np.sqrt(np.array(spec.deltas[1:]) * np.array(spec.deltas[:-1]))
        edges = np.concatenate([[spec.deltas[0] ** 2 / edges[0]], edges, [spec.deltas[-1] ** 2 / edges[-1]]])
        one.pcolormesh(edges, [row - 0.4, row + 0.4], shade[:1], cmap="Greys", vmin=0, vmax=2, lw=0)
        _mark(one, thresholds.half, row, COLOURS[1], "D")
        for i, star in enumerate(thresholds.stars.values()):
            _mark(one, star, row, COLOURS[(0, 2, 3, 4, 5)[i % 5]], MARKERS[i % len(MARKERS)])
    one.plot([], [], "D", color=COLOURS[1], label=f"δ₅₀, d = {spec.dimension}")
    for i, t in enumerate(spec.times):
        one.plot([], [], MARKERS[i % len(MARKERS)], color=COLOURS[(0, 2, 3, 4, 5)[i % 5]], label=f"δ*({t})")
    one.axvline(POLICY.printed, **EXACT, label=f"printed: {POLICY.printed:g}")
    one.set_yticks(range(len(rows)), [thresholds.setting.label() for thresholds in rows], fontsize=7)
    one.invert_yaxis()
    one.set_xscale("log")
    one.set_xticks(list(spec.deltas), [f"{delta:g}" for delta in spec.deltas], fontsize=8)
    one.set_xticks([], minor=True)
    one.set_xlabel("examples per dimension δ = n/d (grey: share of runs that succeed)")
    legend(one, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    caption = (
        "For every open setting the δ at which half of the runs succeed and the δ at which the Hessian after t steps "
        "has an informative outlier, with bars of one standard error; no mark where it is not on the grid. With the "
        "square loss G has no lower bound and is raised to its lowest thousandth. On the sphere the Hessian is that of "
        "the risk, without the term of the constraint."
    )
    return {"scan": Captioned(figure, caption)}


def _mark(axes: Axes, one: Measurement, row: int, colour: str, marker: str) -> None:
    value = _number(one)
    if value is not None:
        axes.errorbar(value, row, xerr=float(one.error), fmt=marker, ms=4.5, color=colour, lw=1, capsize=2)


RECIPE = Recipe(
    name="feature-scan",
    version=1,
    question="Which of the settings that the slides leave open gives δ_NN ≈ 6, in theory and in success?",
    spec=FeatureScan,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={
        "losses": ("pseudo-huber",), "targets": ("z**2",), "a_values": (1.0,), "deltas": (2.0, 12.0), "dimension": 30,
        "runs": 2, "per_log": 3.0, "times": (2, 4), "theory_dimension": 40, "theory_seeds": 2,
    },
)  # fmt: skip
