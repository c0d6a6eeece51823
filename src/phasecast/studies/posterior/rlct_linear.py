"""Does λ̂ from tempered posteriors find the exact λ? Linear networks of any depth, over many data sets.

Section 4 and appendix A.2 of "Deep learning is singular, and that's good" (reduced rank regression).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.results import Comparison, Measurement, Prediction, Status
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.spec import Spec
from phasecast.lab.tables import Table

if TYPE_CHECKING:
    import xarray as xr


class RlctLinear(Spec):
    """Which network, which truth, how many data."""

    widths: tuple[int, ...] = Field((3, 3, 3), min_length=2, description="from input to output")
    rank: int = Field(3, ge=0, description="rank of the true map")
    n: int = Field(1000, ge=8, description="observations in a data set")
    datasets: int = Field(20, ge=2, description="data sets, each with a truth of its own")
    prior_sd: float = Field(1.0, gt=0, description="standard deviation of the normal prior")
    sampler: Literal["gibbs", "nuts"] = Field("gibbs", description="exact updates, or gradients")
    chains: int = Field(4, ge=2, description="chains at each inverse temperature")
    draws: int = Field(1000, ge=200, description="steps kept of each chain")
    warmup: int = Field(500, ge=20, description="steps before them")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.rank > min(self.widths):
            raise ValueError(f"rank {self.rank} exceeds the narrowest layer; use rank ≤ {min(self.widths)}")
        return self

    @property
    def betas(self) -> np.ndarray:
        from phasecast.posterior.rlct import auto_betas

        return auto_betas(self.n)[0]


def work(spec: RlctLinear, state: Any) -> Iterator[Chunk]:
    """One data set a chunk."""
    from phasecast import posterior
    from phasecast.posterior.zoo.linear import deep_linear, linear_data

    model = deep_linear(spec.widths, prior_sd=spec.prior_sd)
    for done in range(0 if state is None else int(state["done"]), spec.datasets):
        rng = np.random.default_rng([spec.seed, done])
        data = linear_data(_truth(spec, rng), spec.n, seed=int(rng.integers(2**31)))
        found = posterior.rlct(
            model, data, sampler=spec.sampler, chains=spec.chains, draws=spec.draws, warmup=spec.warmup,
            seed=spec.seed * 1009 + done,
        )  # fmt: skip
        row = {
            "slope": found.slope,
            "variance": found.variance,
            "error": found.variance_error,
            "local": found.curve[:, 1],
            "rhat": found.rhat,
            "ess": found.ess,
            "refused": float(found.status is Status.REFUSED),
        }
        rows = {"sets": {name: np.asarray(value)[None] for name, value in row.items()}}
        yield Chunk({"done": done + 1}, rows, done + 1, spec.datasets, ("λ̂", found.variance))


def _truth(spec: RlctLinear, rng: np.random.Generator) -> list[np.ndarray]:
    """Normal factors through a bottleneck of the true rank."""
    left, right = rng.normal(size=(spec.widths[-1], spec.rank)), rng.normal(size=(spec.rank, spec.widths[0]))
    return [left @ right]


def layout(spec: RlctLinear) -> Mapping[str, Table]:
    meanings = {
        "slope": "λ̂ by the slope of E[nL] over 1/β",
        "variance": "λ̂ by β²Var[nL] over the grid",
        "error": "standard error of the latter",
        "local": "β²Var[nL] at each β",
        "rhat": "worst R-hat",
        "ess": "least effective number of draws",
        "refused": "1 where this data set's λ̂ is refused",
    }
    variables = {name: ("beta",) if name == "local" else () for name in meanings}
    return {"sets": Table("dataset", variables, {"beta": spec.betas}, meanings)}


def exact(spec: RlctLinear) -> Prediction:
    """λ of the network at this rank, with how far a posterior at nβ may be from its limit."""
    from phasecast.coefficients import deep_linear

    found = deep_linear(spec.widths, spec.rank)
    nbeta = spec.n / math.log(spec.n)
    regular = spec.rank * (spec.widths[0] + spec.widths[-1] - spec.rank) / 2
    singular = float(found.value) - regular  # the part from products of what is zero, which is slower to come
    terms = ((found.multiplicity - 1) / math.log(nbeta), singular / math.sqrt(nbeta), 2 * regular / nbeta)
    width = math.hypot(*terms)
    return Prediction(found.value, found.regime, found.source, systematic=width)


def conclude(spec: RlctLinear, results: xr.DataTree) -> Conclusion:
    node = results["sets"].to_dataset()
    answers = {}
    refused = int(node["refused"].values.sum())
    for name, words in (("variance", "β²Var"), ("slope", "slope")):
        values = node[name].values
        reasons = [f"λ̂ of {refused} of {values.size} data sets is refused: use more draws"] if refused else []
        measured = Measurement(
            float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size)),
            Status.REFUSED if refused > 0.1 * values.size else Status.WARNING if refused else Status.OK,
            error_kind="datasets", reasons=reasons,
        )  # fmt: skip
        answers[f"λ by {words}"] = Comparison(exact(spec), measured)
    value = answers["λ by β²Var"].measurement
    return Conclusion(answers, f"λ̂ = {value.estimate:.3g} ± {value.error:.2g} over {spec.datasets} data sets.")


def figures(spec: RlctLinear, results: xr.DataTree) -> Mapping[str, Captioned]:
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    local = results["sets"].to_dataset()["local"].values
    figure = Figure(figsize=(6.0, 3.8), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(spec.betas, local.T, color="#0072B2", alpha=0.25, lw=0.8)
    error = local.std(axis=0, ddof=1) / math.sqrt(len(local))
    axes.errorbar(spec.betas, local.mean(axis=0), yerr=error, fmt="o", ms=4, color="#0072B2", label="mean of data sets")
    axes.axhline(float(exact(spec).value), ls="--", color="#888888", label=f"exact λ = {exact(spec).value}")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("inverse temperature β")
    axes.set_ylabel("local λ(β) = β² Var[nL]")
    axes.legend()
    return {"local": Captioned(figure, "β²Var of each data set, their mean with one standard error, and the exact λ.")}


RECIPE = Recipe(
    name="rlct-linear",
    version=1,
    question="Does the learning coefficient from tempered posteriors agree with the exact one of a linear network?",
    spec=RlctLinear,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"widths": (2, 1), "rank": 1, "n": 200, "datasets": 3, "draws": 600, "warmup": 20},
)
