"""Does λ̂ from tempered posteriors agree with the exact λ? Linear networks of any depth, over many data sets.

Section 4 and appendix A.2 of "Deep learning is singular, and that's good" (reduced rank regression).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.answers import Answer
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Comparison, Measurement, Prediction, Status
from phasecast.core.statistics import standard_error
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.spec import Spec
from phasecast.lab.tables import Table

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class RlctLinearPolicy(Policy):
    """How far λ̂ at finite nβ may be from λ, and how many refused data sets the mean may contain."""

    multiplicity_term: float = rule(
        1.0, "times (m − 1)/log nβ, the slope over log nβ of the second term of F = λ log nβ − (m − 1) log log nβ"
    )
    singular_term: float = rule(
        1.0,
        "times (λ − λ_regular)/√nβ, chosen, not derived: products of vanishing factors approach their limit more "
        "slowly than 1/nβ; neither the power nor the constant has been checked by a benchmark",
    )
    regular_term: float = rule(
        2.0, "times λ_regular/nβ: with a unit normal prior a regular direction has β²Var = ½(1 + 1/nβ)⁻² ≈ ½(1 − 2/nβ)"
    )
    most_refused: float = rule(0.1, "share of data sets; chosen, not derived: above, the others may be a selection")


POLICY = RlctLinearPolicy()


class RlctLinear(Spec):
    """Which network, which truth, how many data."""

    widths: tuple[int, ...] = Field(default=(3, 3, 3), min_length=2, description="from input to output")
    rank: int = Field(default=3, ge=0, description="rank of the true map")
    n: int = Field(default=1000, ge=8, description="observations per data set")
    datasets: int = Field(default=20, ge=2, description="data sets, each with its own truth")
    prior_sd: float = Field(default=1.0, gt=0, description="standard deviation of the normal prior")
    sampler: Literal["gibbs", "nuts"] = Field(default="gibbs", description="exact updates, or gradients")
    chains: int = Field(default=4, ge=2, description="chains at each inverse temperature")
    draws: int = Field(default=1000, ge=200, description="steps stored per chain")
    warmup: int = Field(default=500, ge=20, description="steps before them")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.rank > min(self.widths):
            raise ValueError(f"rank {self.rank} exceeds the narrowest layer; use rank ≤ {min(self.widths)}")
        return self

    @property
    def betas(self) -> np.ndarray:
        from phasecast.posterior.rlct import auto_betas

        return auto_betas(self.n)[0]


def work(spec: RlctLinear, state: Mapping[str, Any] | None) -> Iterator[Chunk]:
    """One data set per chunk."""
    from phasecast import posterior
    from phasecast.posterior.zoo.linear import deep_linear_model, linear_data

    model = deep_linear_model(spec.widths, prior_sd=spec.prior_sd)
    for done in range(0 if state is None else int(state["done"]), spec.datasets):
        rng = np.random.default_rng([spec.seed, done])
        data = linear_data(_truth(spec, rng), spec.n, seed=int(rng.integers(2**31)))
        estimate = posterior.rlct(
            model,
            data,
            sampler=spec.sampler,
            chains=spec.chains,
            draws=spec.draws,
            warmup=spec.warmup,
            seed=spec.seed * 1009 + done,
        )
        row = {
            "slope": estimate.slope,
            "variance": estimate.variance,
            "error": estimate.variance_error,
            "local": estimate.curve[:, 1],
            "rhat": estimate.rhat,
            "ess": estimate.ess,
            "refused": float(estimate.status is Status.REFUSED),
        }
        rows = {"sets": {name: np.asarray(value)[None] for name, value in row.items()}}
        yield Chunk({"done": done + 1}, rows, done + 1, spec.datasets, ("λ̂", estimate.variance))


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
        "refused": "1 if λ̂ of this data set is refused",
    }
    variables = {name: ("beta",) if name == "local" else () for name in meanings}
    return {"sets": Table("dataset", variables, {"beta": spec.betas}, meanings)}


def exact(spec: RlctLinear) -> Prediction:
    """λ of the network at this rank; the systematic width is how far a posterior at nβ may be from its limit."""
    from phasecast.coefficients import deep_linear

    coefficient = deep_linear(spec.widths, spec.rank)
    nbeta = spec.n / math.log(spec.n)
    regular = spec.rank * (spec.widths[0] + spec.widths[-1] - spec.rank) / 2
    singular = float(coefficient.value) - regular  # the part from products of vanishing factors
    terms = (
        POLICY.multiplicity_term * (coefficient.multiplicity - 1) / math.log(nbeta),
        POLICY.singular_term * singular / math.sqrt(nbeta),
        POLICY.regular_term * regular / nbeta,
    )
    return Prediction(coefficient.value, coefficient.regime, coefficient.source, systematic=math.hypot(*terms))


def conclude(spec: RlctLinear, results: xr.DataTree) -> Conclusion:
    node = results["sets"].to_dataset()
    answers, estimates = [], {}
    refused = int(node["refused"].values.sum())
    for method, label in (("variance", "λ by β²Var"), ("slope", "λ by the slope of E[nL]")):
        values = node[method].values
        reasons = [f"λ̂ of {refused} of {values.size} data sets is refused: use more draws"] if refused else []
        too_many = refused > POLICY.most_refused * values.size
        estimates[method] = Measurement(
            float(values.mean()),
            float(standard_error(values)),
            Status.REFUSED if too_many else Status.WARNING if refused else Status.OK,
            error_kind="datasets",
            reasons=reasons,
            policy=POLICY.plain(),
        )
        answers.append(Answer("lambda", Comparison(exact(spec), estimates[method]), label, {"method": method}))
    estimate = estimates["variance"]
    return Conclusion(answers, f"λ̂ = {estimate.estimate:.3g} ± {estimate.error:.2g} over {spec.datasets} data sets.")


def figures(spec: RlctLinear, results: xr.DataTree) -> Mapping[str, Captioned]:
    from matplotlib.ticker import LogLocator, NullLocator

    from phasecast.figures.drawing import COLOURS, EXACT, blank

    local = results["sets"].to_dataset()["local"].values
    figure, grid = blank(width=6.0, height=3.8)
    axes = grid[0, 0]
    axes.plot(spec.betas, local.T, color=COLOURS[0], alpha=0.25, lw=0.8)
    mean, error = local.mean(axis=0), standard_error(local)
    axes.errorbar(spec.betas, mean, yerr=error, fmt="o", ms=4, color=COLOURS[0], label="mean of data sets")
    axes.axhline(float(exact(spec).value), label=f"exact λ = {exact(spec).value}", **EXACT)
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
