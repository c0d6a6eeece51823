"""How does the number of distinct eigenvalues change learning? Curves of soft committees, solved and simulated.

Figures 1, 4, 5, 6 and 17 to 20 of Worschech & Rosenow 2024 by their settings: ε over α for several L, with the height
of the plateau, the time to reach a level, and one-pass SGD from the same weights.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.answers import Answer
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Comparison, Measurement, Prediction, Status, show
from phasecast.core.statistics import mean_of, standard_error
from phasecast.core.types import PyTree
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.spec import Spec
from phasecast.lab.tables import Table

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class LearningCurvePolicy(Policy):
    """How far SGD may be from its limit, and what counts as a plateau."""

    finite_size: float = rule(0.05, "chosen, not derived: relative distance of SGD at the usual N from N → ∞")
    flat: float = rule(0.02, "chosen, not derived: |d log ε / d log α| below which a curve is on its plateau")
    median_efficiency: float = rule(
        1.25, "standard error of a median over that of the mean: √(π/2) = 1.2533 for a normal distribution, rounded"
    )


POLICY = LearningCurvePolicy()


@functools.cache
def _largest_rate(teachers: int) -> float:
    """η_max of as many students as teachers; only the mean of the spectrum matters, which is one."""
    from phasecast import online

    return float(online.max_learning_rate(teachers, online.Spectrum.power_law(1, 1.0)))


class LearningCurves(Spec):
    """Which networks, which spectra, how long."""

    students: int = Field(default=2, ge=1, le=256, description="hidden units K of the student")
    teachers: int = Field(default=2, ge=1, le=256, description="hidden units M of the teacher")
    modes: tuple[int, ...] = Field(
        default=(1, 4, 16, 64), min_length=1, description="numbers L of distinct eigenvalues"
    )
    exponent: float = Field(default=1.0, gt=0, description="β: eigenvalues fall like l^−(1+β)")
    lr: float = Field(default=0.1, gt=0, description="learning rate η")
    sigma: float = Field(default=0.01, ge=0, description="standard deviation σ_J of the student's first weights")
    inputs: int = Field(default=1024, ge=1, description="inputs N, a multiple of every L")
    draws: int = Field(default=10, ge=2, description="random students and teachers for each L")
    stop: float = Field(default=3500.0, gt=0, description="largest α")
    points: int = Field(default=200, ge=10, description="values of α, evenly spaced")
    order: Literal[1, 2] = Field(default=2, description="1 for O(η), 2 for O(η²) too")
    level: float = Field(default=1e-3, gt=0, description="the error whose first crossing is reported")
    sgd: bool = Field(default=False, description="also run one-pass SGD from the same weights")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for modes in self.modes:
            if modes < 1 or self.inputs % modes:
                raise ValueError(
                    f"{self.inputs} inputs cannot be shared out over {modes} modes; use a multiple of each L"
                )
        if len(set(self.modes)) != len(self.modes):
            raise ValueError("an L is given twice; give each once")
        if self.students == self.teachers and self.lr >= (limit := _largest_rate(self.teachers)):
            raise ValueError(f"the learning rate {self.lr:g} is above the stability limit; use η < {limit:.4g}")
        return self

    @property
    def alphas(self) -> np.ndarray:
        return np.linspace(self.stop / self.points, self.stop, self.points)


def work(spec: LearningCurves, state: PyTree) -> Iterator[Chunk]:
    """One draw for one L per chunk."""
    from phasecast import online

    total = len(spec.modes) * spec.draws
    for done in range(0 if state is None else int(state["done"]), total):
        modes, draw = spec.modes[done // spec.draws], done % spec.draws
        spectrum, seed = online.Spectrum.power_law(modes, spec.exponent), spec.seed + draw
        start = online.OrderParameters.draw(
            spec.students, spec.teachers, spectrum, inputs=spec.inputs, sigma=spec.sigma, seed=seed
        )
        curve = online.solve(start, spectrum, spec.lr, spec.alphas, order=spec.order)
        refused = curve.status is Status.REFUSED
        eps = np.full(spec.points, np.nan) if refused else curve.eps
        sgd = np.full(spec.points, np.nan)
        if spec.sgd:
            run = online.simulate(
                spec.students, spec.teachers, spectrum, spec.lr, spec.alphas, inputs=spec.inputs, sigma=spec.sigma,
                seeds=[seed],
            )[0]  # fmt: skip
            sgd = np.asarray(run.estimate) if run.status is not Status.REFUSED else sgd
        height = online.plateau(start.moment(1, spectrum).T).eps
        row = {"modes": modes, "draw": draw, "plateau": height, "eps": eps, "sgd": sgd}
        rows = {"curves": {name: np.asarray(value)[None] for name, value in row.items()}}
        yield Chunk({"done": done + 1}, rows, done + 1, total, ("ε", float(eps[-1])))


def layout(spec: LearningCurves) -> Mapping[str, Table]:
    meanings = {
        "eps": "generalisation error from the equations",
        "sgd": "generalisation error of SGD from the same weights; NaN if it was not run",
        "plateau": "height of the symmetric plateau, first order in η",
        "modes": "distinct eigenvalues L",
        "draw": "number of the draw",
    }
    variables = {"modes": (), "draw": (), "plateau": (), "eps": ("alpha",), "sgd": ("alpha",)}
    return {"curves": Table("run", variables, {"alpha": spec.alphas}, meanings)}


def conclude(spec: LearningCurves, results: xr.DataTree) -> Conclusion:
    answers: list[Answer] = []
    sentences = []
    for modes in spec.modes:
        node, where = _of(results, modes), {"modes": modes}
        crossing = _crossing(spec, node["eps"].values)
        answers.append(Answer("alpha-at-level", crossing, f"α at ε < {spec.level:g}, L = {modes}", where, theory=True))
        sentences.append(f"L = {modes}: {show(crossing.estimate, crossing.error)}")
        flat = _flattest(spec, node["eps"].values)
        if spec.students > 1 and flat is not None:
            height = float(node["plateau"].values.mean())
            # what the first order in η leaves out is of relative size η/2
            theory = Prediction(height, "first order in η", "plateau(T1)", systematic=spec.lr / 2 * height)
            label = f"ε on the plateau, L = {modes}"
            answers.append(Answer("plateau-height", Comparison(theory, flat), label, where, theory=True))
        if spec.sgd:
            sgd, eps = node["sgd"].values[:, -1], node["eps"].values[:, -1]
            if np.isfinite(sgd).all() and np.isfinite(eps).all():
                mean = float(eps.mean())
                limit = Prediction(mean, "N → ∞", "solve", systematic=POLICY.finite_size * mean)
                error = float(standard_error(sgd - eps))  # same weights: only the examples differ
                measured = Measurement(float(sgd.mean()), error, error_kind="seeds")
                label = f"ε of SGD at α = {spec.stop:g}, L = {modes}"
                answers.append(Answer("sgd-error", Comparison(limit, measured), label, where))
    return Conclusion(answers, f"α at which ε falls below {spec.level:g}, by L: {'; '.join(sentences)}.")


def figures(spec: LearningCurves, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import COLOURS, blank

    figure, ((axes,),) = blank(width=8.0, height=4.2)
    for number, modes in enumerate(spec.modes):
        node, colour = _of(results, modes), COLOURS[number % len(COLOURS)]
        eps = node["eps"].values
        axes.plot(spec.alphas, np.median(eps, axis=0), color=colour, label=f"L = {modes}")
        axes.fill_between(spec.alphas, eps.min(axis=0), eps.max(axis=0), color=colour, alpha=0.15, lw=0)
        if spec.sgd:
            axes.plot(spec.alphas, np.median(node["sgd"].values, axis=0), ":", color=colour)
    axes.set_yscale("log")
    axes.set_xlabel("examples per input α")
    axes.set_ylabel("generalisation error ε")
    figure.legend(loc="outside upper center", ncols=4)
    dotted = " Dotted: SGD." if spec.sgd else ""
    return {"curves": Captioned(figure, f"Median over draws; bands from the smallest to the largest.{dotted}")}


def _of(results: xr.DataTree, modes: int) -> xr.Dataset:
    node = results["curves"].to_dataset()
    return node.isel(run=np.flatnonzero(node["modes"].values == modes))


def _crossing(spec: LearningCurves, eps: np.ndarray) -> Measurement:
    """The median over draws of the first α below the level, its error from the spread."""
    below = eps < spec.level
    if not below.any(axis=1).all() or not np.isfinite(eps).all():
        missing = int(np.sum(~below.any(axis=1)))
        reason = f"{missing} of {len(eps)} draws stay above the level; raise stop, or the level"
        return Measurement.refused(reason, error=0.0, error_kind="seeds", policy=POLICY.plain())
    first = spec.alphas[np.argmax(below, axis=1)]
    median_error = POLICY.median_efficiency * np.std(first, ddof=1) / np.sqrt(first.size)
    error = float(np.hypot(median_error, spec.stop / spec.points))  # and the spacing of the grid
    return Measurement(float(np.median(first)), error, error_kind="seeds", policy=POLICY.plain())


def _flattest(spec: LearningCurves, eps: np.ndarray) -> Measurement | None:
    """Mean ε at the flattest point of each curve, if every curve is flat somewhere."""
    if not np.isfinite(eps).all() or (eps <= 0).any():
        return None
    slopes = np.abs(np.gradient(np.log(eps), np.log(spec.alphas), axis=1))
    high = np.where(eps > spec.level, slopes, np.inf)
    at = np.argmin(high, axis=1)
    runs = np.arange(len(eps))
    if np.max(high[runs, at]) > POLICY.flat:
        return None
    return mean_of(eps[runs, at], "seeds")


RECIPE = Recipe(
    name="learning-curves",
    version=1,
    question="How fast does a two-layer student learn, and how does the number of eigenvalues of the data change it?",
    spec=LearningCurves,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"modes": (1, 4), "inputs": 64, "draws": 2, "stop": 400.0, "points": 40, "lr": 0.5, "level": 0.02},
)
