"""How much of λ̂ is the sampler? SGLD with fixed steps beside a calibrated sampler, before and after training.

Figure 6 of Cullen et al. 2026 varies the step ε and the localisation γ of SGLD. Here every γ also has its converged
value, which separates the effect of the target (γ changes λ̂ itself) from that of the sampler (ε and too few steps); and
long chains from w* show how many steps the transient takes, of which the paper runs 700.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from phasecast.core.answers import Answer, Parameter
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Comparison, Measurement, Prediction, Status
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.tables import Table
from phasecast.sampling import Fixed
from phasecast.studies.grokking.trainings import (
    GAMMA,
    REFUSED,
    SGLD_BURN_IN,
    SGLD_CHAINS,
    SGLD_DRAWS,
    SGLD_STEP,
    STATUSES,
    TRACE,
    Group,
    Sampling,
    StoredStudy,
    Study,
    check_groups,
    tables,
    work_through,
)

if TYPE_CHECKING:
    import xarray as xr

UNCHECKED = "λ̂ of SGLD with these settings, whether or not its chains have converged"
NOT_CONVERGED = "the network is not at a minimum yet, or the sampler ran out of budget: train longer"
POINTS = ("before training", "after training")


@dataclass(frozen=True)
class SettlingPolicy(Policy):
    """When a chain counts as having reached its converged level."""

    within: float = rule(0.1, "chosen, not derived: the 10% within which the claim about SGLD's settings is stated")


POLICY = SettlingPolicy()


class GrokkingSampler(Study):
    """Which network, and which steps ε and localisations γ."""

    PAPER: ClassVar[Mapping[str, Any]] = {
        "p": 53, "width": 1024, "steps": 100_000, "weight_decay": 1e-5, "batch": 128, "lr": 1e-3,
        "step_sizes": (1e-4, 1e-3, 1e-2), "gammas": (1.0, 5.0, 10.0, 50.0, 100.0, 500.0, 1000.0), "long": 20_000,
    }  # fmt: skip

    p: int = Field(default=23, ge=3, le=200, description="modulus")
    width: int = Field(default=128, ge=1, description="hidden units")
    fraction: float = Field(default=0.4, description="fraction of the table to train on")
    lr: float = Field(default=5e-3, gt=0, description="learning rate of the training")
    weight_decay: float = Field(default=1e-4, ge=0, description="coefficient of the L2 term")
    batch: int | None = Field(default=None, ge=2, description="rows of a minibatch of the training; null for all")
    steps: int = Field(default=3000, ge=1, description="steps of training")
    step_sizes: tuple[float, ...] = Field(default=(1e-5, 1e-4, 1e-3, 1e-2), min_length=1, description="steps ε of SGLD")
    gammas: tuple[float, ...] = Field(
        default=(1.0, 5.0, 50.0, 500.0), min_length=1, description="localisations γ around w*"
    )
    draws: int = Field(default=SGLD_DRAWS, ge=20, description="steps of SGLD that are averaged")
    burn_in: int = Field(default=SGLD_BURN_IN, ge=0, description="steps of SGLD before them")
    long: int = Field(default=5000, ge=200, description="steps of the chains that show the transient")

    @field_validator("step_sizes", "gammas")
    @classmethod
    def _positive(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        if not all(value > 0 for value in values):
            raise ValueError("a step ε or a γ is not positive; use positive numbers")
        return tuple(sorted(values))

    @model_validator(mode="after")
    def _possible(self) -> Self:
        check_groups(groups(self))
        return self

    @property
    def samplings(self) -> tuple[Sampling, ...]:
        """Calibrated at each γ; SGLD at each ε and γ, the γ varying fastest; last the long chains."""
        exact = [Sampling(f"calibrated, γ = {gamma:g}", gamma) for gamma in self.gammas]
        fixed = [
            Sampling(
                f"SGLD, ε = {step:g}, γ = {gamma:g}", gamma, Fixed("sgld", step, self.draws, self.burn_in), SGLD_CHAINS
            )
            for step in self.step_sizes
            for gamma in self.gammas
        ]
        calibrated = [Sampling("calibrated as printed", GAMMA)]
        long = [Sampling("long SGLD as printed", GAMMA, Fixed("sgld", SGLD_STEP, self.long, 0), SGLD_CHAINS)]
        return (*exact, *fixed, *calibrated, *long)


def groups(spec: GrokkingSampler) -> list[Group]:
    """One network, at its first and its last step."""
    ends = (0, spec.steps)
    return [
        Group(
            spec.p,
            spec.width,
            spec.steps,
            (spec.seed,),
            lr=(spec.lr,),
            weight_decay=(spec.weight_decay,),
            fraction=spec.fraction,
            batch=spec.batch,
            checkpoints=ends,
            sampled=ends,
        )
    ]


def work(spec: GrokkingSampler, state: dict[str, Any] | None) -> Iterator[Chunk]:
    """One chunk per piece of the training and per λ̂."""
    return work_through(groups(spec), spec.samplings, state)


def layout(spec: GrokkingSampler) -> Mapping[str, Table]:
    return tables(spec.samplings)


def sampled(spec: GrokkingSampler, results: xr.DataTree) -> dict[str, np.ndarray]:
    """Value, error, status (sampling, point) and trace (sampling, point, draw)."""
    stored = StoredStudy(results)
    rows = [stored.llc(0, 0, way) for way in range(len(spec.samplings))]
    return {name: np.stack([row[name][:2] for row in rows]) for name in ("value", "error", "status", "trace")}


def time_to_settle(trace: np.ndarray, level: float, steps: int) -> float:
    """Steps until the chains' mean excess loss first comes within 10% of its converged value; inf if it never does.

    >>> time_to_settle(np.linspace(0, 1, 101), 1.0, 1000)
    900.0
    """
    near = np.flatnonzero(np.abs(trace - level) <= POLICY.within * abs(level) + 1e-12)
    return float(near[0]) * steps / (len(trace) - 1) if len(near) else math.inf


def conclude(spec: GrokkingSampler, results: xr.DataTree) -> Conclusion:
    rows = sampled(spec, results)
    values, errors, after = rows["value"][:, 1], rows["error"][:, 1], POINTS[1]
    calibrated, long = len(spec.samplings) - 2, len(spec.samplings) - 1
    answers: list[Answer] = []
    diverged = 0
    for way, sampling in enumerate(spec.samplings[:-1]):
        status, name = STATUSES[int(rows["status"][way, 1])], f"λ̂ {after}, {sampling.name}"
        where: dict[str, Parameter] = {"gamma": sampling.gamma}
        if not isinstance(sampling.sampler, Fixed):
            reasons = [] if status is Status.OK else [NOT_CONVERGED]
            estimate = Measurement(values[way], errors[way], status, error_kind="mcse", reasons=reasons)
            answers.append(Answer("llc-reference" if way == calibrated else "llc-calibrated", estimate, name, where))
        elif np.isfinite(values[way]):
            same = way % len(spec.gammas)  # the calibrated value at the same γ
            exact = Prediction(values[same], "same nβ and γ", "calibrated sampler", float(errors[same]))
            estimate = Measurement(
                values[way], errors[way], Status.WARNING, error_kind="mcse", reasons=[UNCHECKED], name=name
            )
            where["step_size"] = sampling.sampler.step_size
            answers.append(Answer("llc-sgld", Comparison(exact, estimate, name=name), name, where))
        else:
            diverged += 1
    numbers: dict[str, float | int | None] = {"diverged": diverged}
    for place, point in enumerate(POINTS):
        settled = time_to_settle(rows["trace"][long, place], rows["value"][calibrated, place], spec.long)
        numbers[f"steps to settle, {point}"] = settled if math.isfinite(settled) else None
        numbers[f"calibrated, {point}"] = float(rows["value"][calibrated, place])
        numbers[f"largest over smallest SGLD, {point}"] = _spread(spec, rows, place)
    return Conclusion(answers, _sentence(spec, numbers), numbers)


def _spread(spec: GrokkingSampler, rows: Mapping[str, np.ndarray], place: int) -> float | None:
    values = rows["value"][len(spec.gammas) : -2, place]
    values = values[np.isfinite(values) & (values > 0)]
    return float(values.max() / values.min()) if len(values) else None


def _sentence(spec: GrokkingSampler, numbers: Mapping[str, float | int | None]) -> str:
    spread = numbers["largest over smallest SGLD, after training"]
    settled = numbers["steps to settle, after training"]
    reached = f"reaches it after {settled:.0f} steps" if settled is not None else f"has not reached it in {spec.long}"
    varies = f"over ε and γ its λ̂ varies by a factor of {spread:.3g}; " if spread else ""
    return (
        f"After training λ̂ = {numbers['calibrated, after training']:.4g} at γ = {GAMMA:g}; SGLD with ε = "
        f"{SGLD_STEP:g} {reached}; {varies}before training λ̂ is {numbers['calibrated, before training']:.4g}."
    )


def figures(spec: GrokkingSampler, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import COLOURS, EXACT, blank, legend, points

    estimates, many = sampled(spec, results), len(spec.gammas)
    figure, axes = blank(1, 2, height=3.6, sharey=True)
    for place, (one, point) in enumerate(zip(axes[0], POINTS, strict=True)):
        one.plot(spec.gammas, estimates["value"][:many, place], **EXACT, label="calibrated sampler")
        for number, step in enumerate(spec.step_sizes):
            rows = slice(many * (number + 1), many * (number + 2))
            value, error, status = (estimates[name][rows, place] for name in ("value", "error", "status"))
            points(one, spec.gammas, value, error, number=number, label=f"SGLD, ε = {step:g}", hollow=status == REFUSED)
        one.set_xscale("log")
        one.set_yscale("log")
        one.set_xlabel("localisation γ around w*")
        one.set_title(point, fontsize=9)
    axes[0, 0].set_ylabel("sampled coefficient λ̂")
    legend(axes[0, 0])
    drawn = {
        "settings": Captioned(
            figure,
            f"λ̂ against γ: converged (dashed) and by SGLD with fixed steps, {spec.burn_in} of burn-in and "
            f"{spec.draws} that are averaged. Hollow: refused. Missing points diverged.",
        )
    }
    figure, axes = blank(height=3.2)
    for place, point in enumerate(POINTS):
        along = np.linspace(1, spec.long, TRACE)
        axes[0, 0].plot(along, estimates["trace"][-1, place], "-", color=COLOURS[place], lw=1.2, label=f"SGLD {point}")
        axes[0, 0].axhline(
            estimates["value"][-2, place], color=COLOURS[place], ls="--", lw=1.1, label=f"calibrated {point}"
        )
    axes[0, 0].axvspan(
        SGLD_BURN_IN, SGLD_BURN_IN + SGLD_DRAWS, color=EXACT["color"], alpha=0.2, lw=0, label="printed draws"
    )
    axes[0, 0].set_xscale("log")
    axes[0, 0].set_xlabel("step of SGLD")
    axes[0, 0].set_ylabel("excess loss nβ(L − L*)")
    legend(axes[0, 0])
    drawn["transient"] = Captioned(
        figure,
        f"Mean excess loss of {SGLD_CHAINS} SGLD chains started at w* with ε = {SGLD_STEP:g}, γ = {GAMMA:g}, and the "
        "converged value (dashed). Grey: the draws that the paper averages.",
    )
    return drawn


RECIPE = Recipe(
    name="grokking-sampler",
    version=3,
    question="How much of a sampled learning coefficient comes from the step, γ and burn-in of the sampler?",
    spec=GrokkingSampler,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={
        "p": 5, "width": 8, "fraction": 0.7, "steps": 100, "step_sizes": (1e-3,), "gammas": (5.0,), "draws": 100,
        "burn_in": 100, "long": 200,
    },
)  # fmt: skip
