"""For which δ = n/d and which value of one setting does the Hessian show a hard direction? Phase diagrams.

Wang & Montanari 2026 state that δ_NN depends on activation, loss, learning rate and noise. A diagram has δ on one axis
and one of these on the other; every cell shows the margin, negative where there is an informative outlier, and each
value of the setting has its δ*(t), where the margin changes sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from phasecast.core.answers import Answer
from phasecast.core.results import Status, show
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.tables import Table
from phasecast.studies.features.shared_setting import Setting, State, one_row, remaining, rising

if TYPE_CHECKING:
    import xarray as xr

    from phasecast.features.setting.network import Network
    from phasecast.features.setting.target import Target

TEXTS = ("activation", "loss", "target")  # settings that are text; the others are numbers


class FeatureDiagram(Setting):
    """Which setting varies, over which values, at what time."""

    PAPER: ClassVar[Mapping[str, Any]] = {"samples": 20_000, "draws": 8}

    axis: Literal["activation", "loss", "target", "lr", "noise", "a", "b"] = Field(
        default="activation", description="the setting that varies"
    )
    values: tuple[str, ...] = Field(
        default=("gelu", "swish", "softplus", "tanh2", "quadratic"), min_length=1, description="its values"
    )
    deltas: tuple[float, ...] = Field(
        default=(0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0, 16.0),
        min_length=3,
        description="examples per dimension δ, rising",
    )
    time: int = Field(default=0, ge=0, le=40, description="steps t of gradient descent")
    samples: int = Field(
        default=5000, ge=100, description="samples of the mean-field route, which is used from t = 2 on"
    )
    draws: int = Field(default=4, ge=2, description="seeds of that route")

    @field_validator("values", mode="before")
    @classmethod
    def _as_words(cls, values: object) -> tuple[str, ...]:
        """Numbers are accepted too, as their text."""
        return tuple(str(value) for value in values) if isinstance(values, list | tuple) else (str(values),)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        rising("deltas", self.deltas)
        if self.axis in ("lr",) and self.time == 0:
            raise ValueError("the learning rate does not matter at t = 0; use a time above 0")
        for value in self.values:
            self.at(value)
        return self

    def at(self, value: str) -> tuple[Network, Target, float]:
        """Network, target and learning rate with the varying setting at one of its values."""
        given: Any = value
        if self.axis not in TEXTS:
            try:
                given = float(value)
            except ValueError:
                raise ValueError(f"invalid {self.axis} '{value}': expected a number") from None
        if self.axis in ("activation", "loss", "a", "b"):
            return self.network(**{self.axis: given}), self.aim(), self.lr
        if self.axis == "target":
            return self.network(), self.aim(given), self.lr
        changed = self.model_copy(update={self.axis: given})
        if self.axis == "lr" and not given > 0:
            raise ValueError(f"invalid learning rate {given:g}: must be > 0")
        return changed.network(), changed.aim(), changed.lr


def work(spec: FeatureDiagram, state: State) -> Iterator[Chunk]:
    """One chunk per cell of the diagram: the margin for every seed."""
    from phasecast.core.errors import Refused
    from phasecast.features.curvature.methods import Draw, route_for
    from phasecast.features.simulation.margins import margin

    cells = [(number, delta) for number in range(len(spec.values)) for delta in spec.deltas]
    for done in remaining(state, len(cells)):
        number, delta = cells[done]
        network, target, lr = spec.at(spec.values[number])
        route = route_for(network, target, lr, spec.time, spec.samples)
        margins, clipped = np.full(spec.draws, np.nan), False
        for seed in range(spec.draws if route.random else 1):
            try:
                laws = route.laws(delta, Draw(spec.seed + seed, 1.0 if route.random else 0.7))
            except Refused:
                continue
            margins[seed] = min(margin(law, delta) for law in laws)
            clipped = any(law.lowest == -np.inf for law in laws)
        if not route.random:
            margins[:] = margins[0]
        rows = {"cells": one_row(value=float(number), delta=delta, clipped=float(clipped), margin=margins)}
        yield Chunk({"done": done + 1}, rows, done + 1, len(cells), ("margin", float(np.mean(margins))))


def layout(spec: FeatureDiagram) -> Mapping[str, Table]:
    meanings = {
        "value": "number of the value of the varying setting",
        "delta": "δ = n/d",
        "clipped": "1 where G has no lower bound and was raised to its lowest thousandth",
        "margin": "negative where the Hessian has an informative outlier; NaN where descent diverges",
    }
    variables = {"value": (), "delta": (), "clipped": (), "margin": ("draw",)}
    return {"cells": Table("cell", variables, {"draw": np.arange(spec.draws)}, meanings)}


def grid(spec: FeatureDiagram, results: xr.DataTree) -> tuple[np.ndarray, np.ndarray]:
    """Margins (values, draws, δ), and for each value whether G was clipped."""
    node = results["cells"].to_dataset()
    shape = (len(spec.values), len(spec.deltas))
    margins = node["margin"].values.reshape(*shape, -1).transpose(0, 2, 1)
    return margins, np.asarray(node["clipped"].values.reshape(shape).any(axis=1))


def conclude(spec: FeatureDiagram, results: xr.DataTree) -> Conclusion:
    from phasecast.features.simulation.margins import first_crossing

    margins, clipped = grid(spec, results)
    answers, parts = [], []
    for number, value in enumerate(spec.values):
        label = f"δ*({spec.time}), {spec.axis} {value}"
        star = first_crossing(spec.deltas, margins[number], label)
        refused = star.status is Status.REFUSED
        if clipped[number] and not refused:
            reason = "G is unbounded below; δ* is that of G raised to its lowest thousandth, and depends on it"
            star = replace(star, status=Status.WARNING, reasons=(*star.reasons, reason))
        answers.append(Answer("delta-star", star, label, {"axis": spec.axis, "value": value, "time": spec.time}, True))
        parts.append(f"{value}: {star.reasons[0] if refused else show(star.estimate, star.error)}")
    return Conclusion(answers, f"δ* after {spec.time} steps by {spec.axis}: {'; '.join(parts)}.")


def figures(spec: FeatureDiagram, results: xr.DataTree) -> Mapping[str, Captioned]:
    from matplotlib.colors import TwoSlopeNorm
    from matplotlib.figure import Figure

    margins, clipped = grid(spec, results)
    mean = margins.mean(axis=1)
    figure = Figure(figsize=(7.0, 1.6 + 0.45 * len(spec.values)), layout="constrained")
    axes = figure.add_subplot()
    size = max(float(np.nanpercentile(abs(mean), 50)), 1e-6) if np.isfinite(mean).any() else 1.0
    edges = np.geomspace(
        spec.deltas[0] ** 1.5 / spec.deltas[1] ** 0.5, spec.deltas[-1] ** 1.5 / spec.deltas[-2] ** 0.5, 2
    )
    inner = np.sqrt(np.asarray(spec.deltas)[1:] * np.asarray(spec.deltas)[:-1])
    sides = np.concatenate([edges[:1], inner, edges[1:]])
    mesh = axes.pcolormesh(
        sides, np.arange(len(spec.values) + 1), mean, cmap="RdBu", norm=TwoSlopeNorm(0, -size, size)
    )  # fmt: skip
    for number, answer in enumerate(conclude(spec, results).answers):
        star = answer.measurement
        if star is not None and star.status is not Status.REFUSED:
            face = "white" if star.status is Status.WARNING else "black"
            axes.errorbar(
                [float(star)], [number + 0.5], xerr=[float(star.error)], fmt="o", ms=5, color="black", mfc=face
            )
    axes.set_xscale("log")
    axes.set_xticks(spec.deltas, [f"{delta:g}" for delta in spec.deltas])
    axes.minorticks_off()
    axes.set_yticks(np.arange(len(spec.values)) + 0.5, list(spec.values))
    axes.invert_yaxis()
    axes.set_xlabel("examples per dimension δ = n/d")
    axes.set_ylabel(spec.axis)
    bar = figure.colorbar(mesh, ax=axes, label="margin", extend="both")
    if bar.solids is not None:
        bar.solids.set_rasterized(False)  # pages embed pure vector graphics
    hollow = " Hollow: G has no lower bound and is raised to its lowest thousandth." if clipped.any() else ""
    caption = f"Margin after {spec.time} steps; red has an informative outlier. Points: δ* with its error.{hollow}"
    return {"diagram": Captioned(figure, caption)}


RECIPE = Recipe(
    name="feature-diagram",
    version=1,
    question="For which δ and which activation, loss, learning rate or noise does the Hessian show a hard direction?",
    spec=FeatureDiagram,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"values": ("gelu", "quadratic"), "deltas": (0.5, 1.0, 2.0, 4.0)},
)
