"""How much do trainable features lower the error? Linear students with N_l of N features trained, and their theory.

Figures 3, 14, 15 and 16 of Worschech & Rosenow 2024: ε over α for several N_l, in the eigenbasis of the covariance, out
of it, or on a user's own data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.answers import Answer, Answers
from phasecast.core.results import Comparison, Measurement, Prediction, Verdict
from phasecast.core.statistics import standard_error
from phasecast.core.types import PyTree
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.spec import DataFile, Spec
from phasecast.lab.tables import Table

if TYPE_CHECKING:
    import xarray as xr

    from phasecast.online import Spectrum
    from phasecast.online.sgd import DataOptions


class LinearFeatures(Spec):
    """Which features, which data, how long."""

    modes: int = Field(default=256, ge=2, description="distinct eigenvalues L = N; not used with data")
    exponent: float = Field(default=1.0, gt=0, description="β: eigenvalues fall like l^−(1+β); not used with data")
    trained: tuple[int, ...] = Field(
        default=(50, 100, 150, 200), min_length=1, description="numbers N_l of trained features"
    )
    basis: Literal["eigen", "random"] = Field(
        default="eigen", description="features along the eigenvectors, or turned at random"
    )
    data: DataFile | None = Field(
        default=None, description="a .npy or .npz matrix, one example per row, instead of Gaussian inputs"
    )
    lr: float = Field(default=0.05, gt=0, description="learning rate η")
    sigma: float = Field(default=0.01, ge=0, description="standard deviation σ_J of the student's first weights")
    draws: int = Field(default=50, ge=2, description="random students and teachers")
    first: float = Field(default=1.0, gt=0, description="smallest α")
    stop: float = Field(default=1000.0, gt=0, description="largest α; with data at most examples over features")
    points: int = Field(default=12, ge=2, description="values of α, evenly spaced in log α")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.first >= self.stop:
            raise ValueError("first is not below stop; give a range of α")
        if self.data is None and max(self.trained) > self.modes:
            raise ValueError(f"{max(self.trained)} trained features of {self.modes}; use at most as many as there are")
        if self.data is not None and self.basis == "random":
            raise ValueError("data are taken along their own principal axes; use basis=eigen")
        if self.data is None and self.lr >= (limit := self._largest_rate()):
            raise ValueError(f"the learning rate {self.lr:g} is above that at which SGD diverges; use η < {limit:.4g}")
        return self

    def _largest_rate(self) -> float:
        """The learning rate from which SGD grows with all features; fewer trained ones allow a little more."""
        from phasecast import online

        return float(online.sgd_stability_limit(online.Spectrum.power_law(self.modes, self.exponent), self.modes))

    @property
    def alphas(self) -> np.ndarray:
        return np.geomspace(self.first, self.stop, self.points)


def work(spec: LinearFeatures, state: PyTree) -> Iterator[Chunk]:
    """All draws for one N_l per chunk."""
    from phasecast import online

    rows = None if spec.data is None else online.load_data(spec.data)
    power_law = online.Spectrum.power_law(spec.modes, spec.exponent)
    spectrum = power_law if rows is None else online.Spectrum.from_data(rows)
    covariance = _covariance(spec, spectrum) if spec.basis == "random" else None
    turned = online.Spectrum.from_covariance(covariance, normalise=False) if covariance is not None else None
    seeds = range(spec.seed, spec.seed + spec.draws)
    for done in range(0 if state is None else int(state["done"]), len(spec.trained)):
        trained = spec.trained[done]
        given: DataOptions = {"sigma": spec.sigma, "seeds": seeds, "activation": "linear", "trained": trained}
        if rows is not None:
            runs = online.simulate_data(rows, 1, 1, spec.lr, spec.alphas, **given)
        else:
            runs = online.simulate(
                1, 1, turned or spectrum, spec.lr, spec.alphas, inputs=spec.modes, rotated=turned is not None, **given
            )
        if covariance is not None:
            predicted = online.rotated_curve(covariance, trained, spec.lr, spec.sigma, spec.alphas).eps
        else:
            predicted = online.small_rate_curve(spectrum, spec.lr, spec.sigma, spec.alphas, trained).eps
        eps = np.stack([np.asarray(run.estimate) for run in runs])
        mean, error = eps.mean(axis=0), standard_error(eps)
        row = {"trained": trained, "eps": mean, "error": error, "predicted": predicted}
        filled = {"curves": {name: np.asarray(value)[None] for name, value in row.items()}}
        yield Chunk({"done": done + 1}, filled, done + 1, len(spec.trained), ("ε", float(mean[-1])))


def _covariance(spec: LinearFeatures, spectrum: Spectrum) -> np.ndarray:
    turn = np.linalg.qr(np.random.default_rng([spec.seed, 16]).normal(size=(spec.modes, spec.modes)))[0]
    return (turn * spectrum.eigenvalues) @ turn.T


def layout(spec: LinearFeatures) -> Mapping[str, Table]:
    meanings = {
        "eps": "generalisation error of SGD, mean over draws",
        "error": "its standard error",
        "predicted": "first order in η, averaged over weights",
        "trained": "trained features N_l",
    }
    variables = {"trained": (), "eps": ("alpha",), "error": ("alpha",), "predicted": ("alpha",)}
    return {"curves": Table("features", variables, {"alpha": spec.alphas}, meanings)}


def conclude(spec: LinearFeatures, results: xr.DataTree) -> Conclusion:
    node = results["curves"].to_dataset()
    answers: list[Answer] = []
    for number, trained in enumerate(spec.trained):
        eps, error, predicted = (node[name].values[number] for name in ("eps", "error", "predicted"))
        # what the first order leaves out is the noise of the steps, η/(2−η) of what is left
        theory = Prediction(predicted, "first order in η", "eq. 10, 84", systematic=spec.lr / (2 - spec.lr) * predicted)
        comparison = Comparison(theory, Measurement(eps, error, error_kind="seeds"))
        answers.append(Answer("curve", comparison, f"ε over α, N_l = {trained}", {"trained": trained}))
    agree = sum(one.verdict is Verdict.AGREES for one in Answers(answers).comparisons())
    return Conclusion(answers, f"{agree} of {len(answers)} curves of SGD agree with theory at every α.")


def figures(spec: LinearFeatures, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import COLOURS, blank

    node = results["curves"].to_dataset()
    figure, ((axes,),) = blank(width=8.0, height=4.2)
    for number, trained in enumerate(spec.trained):
        colour = COLOURS[number % len(COLOURS)]
        eps, error, predicted = (node[name].values[number] for name in ("eps", "error", "predicted"))
        axes.errorbar(spec.alphas, eps, yerr=error, fmt="o", ms=3, color=colour, label=f"N_l = {trained}")
        axes.plot(spec.alphas, predicted, "--", color=colour, lw=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("examples per input α")
    axes.set_ylabel("generalisation error ε")
    figure.legend(loc="outside upper center", ncols=4)
    return {"curves": Captioned(figure, "SGD with bars of one standard error; dashed: theory, first order in η.")}


RECIPE = Recipe(
    name="linear-features",
    version=1,
    question="How does the error of a linear student depend on the number of trained features and the time?",
    spec=LinearFeatures,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"modes": 32, "trained": (8, 16), "draws": 40, "stop": 40.0, "points": 5},
)
