"""Bayes, MAP or Laplace? Learning curves of networks whose last layers are Bayesian.

Tables 1 and 3-5 and Figures 1 and 3-9 of "Deep learning is singular, and that's good": E_n G(n) over datasets and its
slope over 1/n, with the corrected protocol or the published one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.answers import Answer
from phasecast.core.results import Comparison, Measurement, Prediction, Status, show
from phasecast.core.statistics import mean_of
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.spec import Spec
from phasecast.lab.tables import Table

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from phasecast.posterior.last_layers.generalisation import GeneralisationCurve, Setting

Panel = Literal[
    "1a", "1b", "1c", "1d", "3a", "3b", "3c", "3d", "4a", "4b", "4c", "4d", "5a", "5b", "5c", "5d"
]  # fmt: skip
NUMBERS = {"map": 1, "last": 0, "two": 2, "laplace-last": 3, "laplace-two": 4}  # of the colours of the methods
AT_ONCE = 5  # datasets of every size per chunk


class Generalisation(Spec):
    """Which table, how many datasets of which sizes."""

    table: Panel = Field(
        default="1a", description="table and panel: 1 and 3 realisable, 4 and 5 not; 3 and 5 minibatches"
    )
    protocol: Literal["corrected", "published", "transposed"] = Field(
        default="corrected",
        description="published: with the mistakes of the published script; transposed: with one of them",
    )
    sizes: tuple[int, ...] = Field(
        default=(200, 239, 285, 341, 408, 489, 584, 699, 836, 1000), min_length=3, description="dataset sizes n"
    )
    datasets: int = Field(default=30, ge=2, description="datasets per size, each with its own truth")
    epochs: int = Field(default=5000, ge=1, description="passes of SGD through the data")
    lr: float = Field(default=1e-3, gt=0, description="learning rate of SGD")
    decay: float = Field(default=5e-4, ge=0, description="weight decay of SGD")
    test: int = Field(default=4000, ge=10, description="number of inputs that the error is averaged over")
    warmup: int = Field(default=200, ge=20, description="HMC trajectories that adapt")
    draws: int = Field(default=100, ge=10, description="draws of A from each of two chains")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.sizes[0] < 4 or any(later <= before for before, later in pairwise(self.sizes)):
            raise ValueError("sizes must be increasing integers ≥ 4")
        return self


def setting_of(spec: Generalisation) -> Setting:
    """The setting of the library for a spec."""
    from phasecast.posterior.last_layers.feature_networks import Training
    from phasecast.posterior.last_layers.generalisation import table_setting

    training = Training(epochs=spec.epochs, lr=spec.lr, decay=spec.decay)
    sizes = {"test": spec.test, "warmup": spec.warmup, "draws": spec.draws}
    return table_setting(spec.table, protocol=spec.protocol, training=training, **sizes)


def work(spec: Generalisation, state: Mapping[str, Any] | None) -> Iterator[Chunk]:
    """A few datasets of every size per chunk."""
    from phasecast.posterior.last_layers.generalisation import study

    before = 0 if state is None else int(state["done"])
    first, chunks = before * AT_ONCE, -(-spec.datasets // AT_ONCE)
    parts = study(setting_of(spec), spec.sizes, spec.datasets, seed=spec.seed, at_once=AT_ONCE, first=first)
    for done, part in enumerate(parts, before + 1):
        rows = {"errors": {_column(name): values.T for name, values in part.items()}}
        mean = float(np.mean(part["map"][-1]))
        yield Chunk({"done": done}, rows, done, chunks, ("G of MAP at the largest n", mean))


def _column(name: str) -> str:
    return name.replace("-", "_")


def layout(spec: Generalisation) -> Mapping[str, Table]:
    meanings = {
        "map": "KL error of the trained network",
        "last": "with its last layer Bayesian",
        "two": "with its last two layers Bayesian",
        "laplace_last": "with a Laplace approximation of the last layer",
        "laplace_two": "with one of the last two layers",
        "undetermined": "directions in which the data determine less than the prior",
        "rhat": "split R-hat of the distance between draws and MAP",
        "divergent": "HMC trajectories that diverged",
    }
    variables = dict.fromkeys(meanings, ("n",))
    return {"errors": Table("dataset", variables, {"n": np.asarray(spec.sizes)}, meanings)}


def curves_of(spec: Generalisation, results: xr.DataTree) -> dict[str, GeneralisationCurve]:
    """The curves of the library from the stored results."""
    from phasecast.posterior.last_layers.generalisation import curves

    node = results["errors"].to_dataset()
    columns = {str(name).replace("_", "-"): variable.values.T for name, variable in node.data_vars.items()}
    return curves(setting_of(spec), spec.sizes, columns)


def conclude(spec: Generalisation, results: xr.DataTree) -> Conclusion:
    from phasecast.posterior.last_layers.generalisation import describe_setting
    from phasecast.studies.posterior.printed_tables import PRINTED

    curves = curves_of(spec, results)
    intercept = not setting_of(spec).realisable
    answers: list[Answer] = []
    numbers: dict[str, float | int | None] = {}
    absent = _without_laplace(results, curves)
    for name, curve in curves.items():
        if absent is not None and name == "laplace-two":  # that there is none is what was found, not a failure
            answers.append(Answer("undetermined", absent, "directions that the data leave open, last two layers"))
            continue
        slope = curve.slope(intercept)
        printed = PRINTED.get(spec.table, {}).get(name, (np.nan, np.nan))[0]
        source = f"Table {spec.table[0]}({spec.table[1]}), printed without an error"
        result = Comparison(Prediction(printed, source=source), slope) if np.isfinite(printed) else slope
        answers.append(Answer("slope", result, f"slope over 1/n, {curve.name}", {"method": name}))
        numbers[f"nG of {name} at n = {spec.sizes[-1]}"] = float(np.asarray(curve.estimate)[-1] * spec.sizes[-1])
    for name in ("last", "two"):
        less = curves[name].less(curves["map"])
        estimate, error = np.asarray(less.estimate) * spec.sizes, np.asarray(less.error) * spec.sizes
        scaled = replace(less, estimate=estimate, error=error, name="")
        label = f"nG, {curves[name].name} minus MAP, same data"
        answers.append(Answer("excess-over-map", scaled, label, {"method": name}))
    shown = [curve for curve in curves.values() if curve.status is not Status.REFUSED]
    best = min(shown, key=lambda curve: float(np.asarray(curve.estimate)[-1]))
    sentence = (
        f"{describe_setting(setting_of(spec))}: at n = {spec.sizes[-1]} the method '{best.name}' has the "
        "smallest error on average."
    )
    if absent is not None:
        directions = show(absent.estimate, absent.error)
        sentence += (
            f" The last two layers have no Laplace approximation: in {directions} directions on average the data "
            "determine less than the prior (the Hessian is singular)."
        )
    return Conclusion(answers, sentence[:1].upper() + sentence[1:], numbers)


def _without_laplace(results: xr.DataTree, curves: Mapping[str, GeneralisationCurve]) -> Measurement | None:
    """The directions that keep two layers from a Laplace approximation; None if they have one, or training failed."""
    undetermined = results["errors"].to_dataset()["undetermined"].values.mean(axis=1)
    failed = not np.isfinite(np.asarray(curves["map"].estimate)).all()
    if failed or curves["laplace-two"].status is not Status.REFUSED or not undetermined.any():
        return None
    return mean_of(undetermined, "datasets")


def figures(spec: Generalisation, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.posterior.last_layers.generalisation import describe_setting

    curves, description = curves_of(spec, results), describe_setting(setting_of(spec))
    intercept = not setting_of(spec).realisable
    bayes = _figure({name: curves[name] for name in ("map", "last", "two")}, intercept)
    laplace = _figure({name: curves[name] for name in ("map", "laplace-last", "laplace-two")}, intercept, log=True)
    line = "with an intercept, because the truth is not such a network" if intercept else "through the origin"
    return {
        "curves": Captioned(
            bayes, f"E_n G over 1/n: {description}. Bars: one standard error over datasets; dashed: {line}."
        ),
        "laplace": Captioned(laplace, "The same for Laplace approximations. Hollow: refused, the Hessian is singular."),
    }


def _figure(curves: Mapping[str, GeneralisationCurve], intercept: bool, log: bool = False) -> Figure:
    from phasecast.figures.drawing import COLOURS, blank

    figure, grid = blank(width=6.4, height=4.2)
    axes = grid[0, 0]
    for name, curve in curves.items():
        colour = COLOURS[NUMBERS[name]]
        mean, error = np.asarray(curve.estimate, dtype=float), np.asarray(curve.error, dtype=float)
        if not np.isfinite(mean).any():
            axes.plot([], [], "o", mfc="none", color=colour, label=f"{curve.name}: refused, no numbers")
            continue
        refused = curve.status is Status.REFUSED
        label = curve.name + (", refused" if refused else "")
        if np.isfinite(mean).all() and not refused and not log:
            slope = curve.slope(intercept)
            steepness = float(slope.estimate)
            at = np.linspace(0, 1.05 / curve.sizes.min(), 50)
            axes.plot(at, steepness * at + slope.diagnostics.get("intercept", 0.0), "--", lw=1, color=colour)
            label += f", slope {steepness:.3g} ± {float(slope.error):.2g}"
        face = "none" if refused else colour
        axes.errorbar(1 / curve.sizes, mean, yerr=error, fmt="o", ms=4, color=colour, mfc=face, label=label)
    axes.set_xlabel("1/n, inverse dataset size")
    axes.set_ylabel("average generalisation error E_n G (nats)")
    axes.set_yscale("log" if log else "linear")
    if not log:
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
    axes.legend()
    return figure


RECIPE = Recipe(
    name="generalisation",
    version=1,
    question="Does a network predict better with Bayesian last layers, and how fast does its error fall with n?",
    spec=Generalisation,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"sizes": (20, 30, 40), "datasets": 10, "epochs": 30, "test": 50, "warmup": 20, "draws": 10},
)
