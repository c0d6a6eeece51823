"""Which figures of Worschech & Rosenow 2024 hold? Each of the twenty, computed again: theory, equations and SGD.

One recipe with a plan per figure: the paper's settings with ``scale="paper"``, smaller networks of the same kind with
``scale="small"``. ``learning-curves`` and ``linear-features`` do the same for settings of your own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.answers import Answers
from phasecast.core.results import Verdict
from phasecast.core.types import PyTree
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.spec import DataFile, Spec
from phasecast.lab.tables import Table
from phasecast.studies.online.paper_figures.lines import (
    VARIABLES,
    Line,
    Plan,
    Settings,
    answers_of,
    rows,
    stored_lines,
)

if TYPE_CHECKING:
    import xarray as xr

TITLES = {
    1: "The plateau shortens with the number of distinct eigenvalues.",
    2: "A linear student at any learning rate, and its power law compared with SGD.",
    3: "N_l trained features in the eigenbasis of Gaussian inputs, and of data if a file is given.",
    4: "Overlaps and error of four students on their plateau, and how long it lasts.",
    5: "The plateau by the number of units and by the number of distinct eigenvalues.",
    6: "The end of learning: local slopes and −β/(1+β), the explicit decay and the equations.",
    7: "The sum of eq. 47, its integral and bounds, at small learning rates.",
    8: "The integral with its zeroth-order correction.",
    9: "The integral with one gamma function only.",
    10: "Weights of the exact linear solution by the number of modes.",
    11: "Weights of the exact linear solution and the eigenvalues, by the exponent.",
    12: "Rates of the exact linear solution and their distance from the eigenvalues.",
    13: "Any learning rate compared with a small one.",
    14: "The spectrum of data with a fitted power law, and curves on these data.",
    15: "N_l trained features outside the eigenbasis.",
    16: "The floor over N_l, in the eigenbasis (dashed) and outside it (solid).",
    17: "The height of the plateau: our fixed point (dashed), the printed one (dotted).",
    18: "Overlaps of higher order on the plateau.",
    19: "Lengths of plateaus: the equations (solid), our estimate and the printed one (vertical).",
    20: "The explicit decay compared with the equations.",
}
ABOUT_DATA = (3, 14)  # the figures that take a data matrix


class ScalingFigure(Spec):
    """Which figure, at which size."""

    figure: int = Field(default=1, ge=1, le=20, description="number of the figure, 1 to 20")
    scale: Literal["small", "paper"] = Field(default="small", description="a minute or two, or the paper's own sizes")
    data: DataFile | None = Field(
        default=None, description="a .npy or .npz matrix, one example per row; for Figures 3 (right) and 14"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.figure == 14 and self.data is None:
            raise ValueError("figure 14 needs data; give data=PATH of a .npy or .npz matrix")
        if self.figure not in ABOUT_DATA and self.data is not None:
            raise ValueError(f"figure {self.figure} is not about data; leave out data, or use figure 3 or 14")
        return self


def figures_of_the_paper() -> dict[int, Callable[[Settings], Plan]]:
    """The plan of every figure by its number; loaded late because the plans import JAX."""
    from phasecast.studies.online.paper_figures import decay, linear_curves, linear_weights, plateaus, trained_features

    modules = (linear_curves, linear_weights, trained_features, plateaus, decay)
    return {number: plan for module in modules for number, plan in module.FIGURES.items()}


def plan_of(spec: ScalingFigure, features: int) -> Plan:
    """What the figure consists of; ``features`` is the number of columns of the data, 0 without data."""
    data = None if spec.data is None else str(spec.data)
    return figures_of_the_paper()[spec.figure](Settings(spec.scale == "paper", spec.seed, data, features))


def work(spec: ScalingFigure, state: PyTree) -> Iterator[Chunk]:
    """One piece of the figure per chunk."""
    from phasecast import online

    features = 0 if spec.data is None else online.load_data(spec.data).shape[1]
    plan = plan_of(spec, features)
    total = len(plan.pieces)
    for done in range(0 if state is None else int(state["done"]), total):
        tables = {"lines": rows(plan.pieces[done](), plan.points)}
        if done == 0:
            tables["data"] = {"features": np.array([features])}
        yield Chunk({"done": done + 1}, tables, done + 1, total)


def _stored(spec: ScalingFigure, results: xr.DataTree) -> tuple[Plan, list[Line]]:
    """The plan and the lines of a run, from what it stored."""
    plan = plan_of(spec, int(results["data"].to_dataset()["features"].values[0]))
    return plan, list(stored_lines(results["lines"].to_dataset()))


def layout(spec: ScalingFigure) -> Mapping[str, Table]:
    meanings = {
        "panel": "number of the panel; −1 for numbers",
        "group": "which curve of the panel, or which number",
        "kind": "0 theory, 1 theory as printed, 2 computed, 3 SGD, 4 vertical mark",
        "compared": "whether the line is compared with the others of its group",
        "x": "the horizontal axis of the panel",
        "y": "the vertical axis of the panel",
        "error": "one standard error, or the numerical one",
        "systematic": "what theory leaves out",
    }
    given = Table("file", {"features": ()}, meanings={"features": "columns of the data; 0 without data"})
    return {"lines": Table("line", VARIABLES, meanings=meanings), "data": given}


def conclude(spec: ScalingFigure, results: xr.DataTree) -> Conclusion:
    answers = Answers(answers_of(*_stored(spec, results), figure=spec.figure))
    verdicts = [comparison.verdict for comparison in answers.comparisons()]
    agree = verdicts.count(Verdict.AGREES)
    return Conclusion(answers, f"Figure {spec.figure}: {agree} of {len(verdicts)} comparisons agree.")


def figures(spec: ScalingFigure, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.studies.online.paper_figures.drawing import draw

    plan, lines = _stored(spec, results)
    setting = f"Setting ({spec.scale}, first seed {spec.seed}): {plan.setting}."
    return {f"figure-{spec.figure}": Captioned(draw(plan, lines), f"{TITLES[spec.figure]} {setting}")}


RECIPE = Recipe(
    name="scaling-figure",
    version=2,
    question="Does this figure of Worschech and Rosenow 2024 hold?",
    spec=ScalingFigure,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"figure": 13},
)
