"""How does the learning rate change grokking? GSM and the largest λ̂ along training, per learning rate and weight decay.

Figures 4, 11 and 12 of Cullen et al. 2026 state that GSM falls exponentially with the learning rate, and the largest λ̂
with it. All runs have the same number of steps T; otherwise their GSM cannot be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from phasecast.core.answers import Answer
from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Measurement, Status
from phasecast.core.statistics import jackknife, rank_interval, standard_error
from phasecast.grokking.analysis import curves, decay_fits
from phasecast.grokking.analysis.decay_fits import EXPONENTIAL, POWER, DecayLaw, decay_law
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.tables import Table
from phasecast.studies.grokking.trainings import (
    CALIBRATED,
    REFUSED,
    Group,
    Sampling,
    StoredStudy,
    Study,
    check_groups,
    defended,
    tables,
    work_through,
)

if TYPE_CHECKING:
    import xarray as xr

EARLIEST = 200  # λ̂ is sampled from a two-hundredth of the training on: before, no checkpoint is a minimum
CODES = {POWER: 1, EXPONENTIAL: -1, "undecided": 0}


@dataclass(frozen=True)
class SeverityPolicy(Policy):
    """When a trend of the largest λ̂ with the learning rate is reported."""

    fewest_rates: int = rule(4, "a rank correlation of the three rates left by the jackknife is the least that varies")


POLICY = SeverityPolicy()


class GrokkingSeverity(Study):
    """Which learning rates and weight decays, for which network."""

    PAPER: ClassVar[Mapping[str, Any]] = {
        "p": 53, "width": 1024, "rates": tuple(np.geomspace(1e-4, 1e-2, 12).tolist()), "seeds": 3, "batch": 128,
        "steps": 100_000, "checkpoints": 40,
    }  # fmt: skip

    p: int = Field(default=23, ge=3, le=200, description="modulus")
    width: int = Field(default=128, ge=1, description="hidden units")
    fraction: float = Field(default=0.4, description="fraction of the table to train on")
    rates: tuple[float, ...] = Field(
        default=tuple(round(float(rate), 6) for rate in np.geomspace(1e-3, 2e-2, 8)),
        min_length=1,
        description="learning rates",
    )
    weight_decays: tuple[float, ...] = Field(
        default=(0.0, 1e-5, 1e-4), min_length=1, description="coefficients of the L2 term"
    )
    seeds: int = Field(default=1, ge=1, le=100, description="networks per learning rate and weight decay")
    batch: int | None = Field(default=None, ge=2, description="rows of a minibatch; null for all")
    steps: int = Field(default=10_000, ge=20, description="steps T of every training")
    checkpoints: int = Field(
        default=6, ge=1, le=1000, description="number of λ̂ along each training, evenly in log time"
    )
    llc: bool = Field(default=True, description="whether to sample λ̂")

    @field_validator("rates")
    @classmethod
    def _positive(cls, rates: tuple[float, ...]) -> tuple[float, ...]:
        if not all(rate > 0 for rate in rates):
            raise ValueError("a learning rate is not positive; use positive numbers")
        return tuple(sorted(rates))

    @field_validator("weight_decays")
    @classmethod
    def _not_negative(cls, decays: tuple[float, ...]) -> tuple[float, ...]:
        if not all(decay >= 0 for decay in decays):
            raise ValueError("a weight decay is negative; use 0 or positive numbers")
        return decays

    @model_validator(mode="after")
    def _possible(self) -> Self:
        fewest = decay_fits.POLICY.fewest_points
        if (different := len(set(self.rates))) < fewest:
            raise BadInput(f"{different} learning rates cannot tell the laws apart", f"give at least {fewest}")
        check_groups(groups(self))
        return self

    @property
    def samplings(self) -> tuple[Sampling, ...]:
        return (CALIBRATED,) if self.llc else ()


def groups(spec: GrokkingSeverity) -> list[Group]:
    """A group for each weight decay; λ̂ is sampled for the first seed of each rate: they share their training rows."""
    rates = tuple(rate for rate in spec.rates for _ in range(spec.seeds))
    seeds = tuple(spec.seed + number for _ in spec.rates for number in range(spec.seeds))
    times = np.geomspace(spec.steps / EARLIEST, spec.steps, spec.checkpoints + 1)[1:]
    sampled = tuple(sorted({round(float(time)) for time in times})) if spec.llc else ()
    return [
        Group(
            spec.p,
            spec.width,
            spec.steps,
            seeds,
            lr=rates,
            weight_decay=(decay,) * len(rates),
            fraction=spec.fraction,
            batch=spec.batch,
            log_every=max(1, min(50, spec.steps // 20)),
            checkpoints=sampled,
            sampled=sampled,
            members=tuple(range(0, len(rates), spec.seeds)),
        )
        for decay in spec.weight_decays
    ]


def work(spec: GrokkingSeverity, state: dict[str, Any] | None) -> Iterator[Chunk]:
    """One chunk per piece of the trainings of one weight decay and per λ̂."""
    return work_through(groups(spec), spec.samplings, state)


def layout(spec: GrokkingSeverity) -> Mapping[str, Table]:
    return tables(spec.samplings)


def severities(spec: GrokkingSeverity, results: xr.DataTree) -> dict[float, tuple[np.ndarray, ...]]:
    """For each weight decay: mean GSM at each rate, its error over seeds, and the share of seeds that generalised."""
    stored, rows = StoredStudy(results), {}
    for number, decay in enumerate(spec.weight_decays):
        gsm = [stored.severity(number, member) for member in range(len(spec.rates) * spec.seeds)]
        values = np.array([float(one.estimate) for one in gsm]).reshape(-1, spec.seeds)
        learned = np.array([one.status is Status.OK for one in gsm]).reshape(-1, spec.seeds)
        grid = np.array([float(one.error) for one in gsm]).reshape(-1, spec.seeds).mean(axis=1)
        over_seeds = standard_error(values, axis=1) if spec.seeds > 1 else 0.0
        rows[decay] = (values.mean(axis=1), np.hypot(grid, over_seeds), learned.mean(axis=1))
    return rows


def peaks(spec: GrokkingSeverity, results: xr.DataTree) -> dict[float, tuple[np.ndarray, ...]]:
    """For each weight decay: the largest λ̂ along training that is not refused at each rate, its error, and its step."""
    stored, rows = StoredStudy(results), {}
    for number, decay in enumerate(spec.weight_decays):
        best = []
        for member in groups(spec)[number].members or ():
            sampled = stored.llc(number, member)
            usable = np.flatnonzero((sampled["status"] < REFUSED) & np.isfinite(sampled["value"]))
            top = usable[sampled["value"][usable].argmax()] if len(usable) else None
            best.append([np.nan if top is None else sampled[name][top] for name in ("value", "error", "step")])
        rows[decay] = tuple(np.array(best, dtype=float).T)
    return rows


def conclude(spec: GrokkingSeverity, results: xr.DataTree) -> Conclusion:
    laws: list[Answer] = []
    ranks: list[Answer] = []
    numbers: dict[str, float | int | None] = {}
    clauses = []
    for decay, (gsm, _, learned) in severities(spec, results).items():
        every = learned == 1
        name = f"law of GSM over the learning rate, weight decay {decay:g}"
        law = decay_law(np.array(spec.rates)[every], gsm[every], name=name)
        laws.append(Answer("decay-law", law, name, {"weight_decay": decay}))
        numbers[f"generalised, weight decay {decay:g}"] = int(every.sum())
        numbers[f"law, weight decay {decay:g}"] = CODES[law.law] if law.status is not Status.REFUSED else None
        clauses.append(f"{decay:g}: {_words(law, int(every.sum()), len(gsm))}")
    if spec.llc:
        for decay, (top, _, _) in peaks(spec, results).items():
            name = f"rank correlation of the largest λ̂ with the learning rate, weight decay {decay:g}"
            ranks.append(Answer("peak-rank-correlation", _ranks(spec.rates, top), name, {"weight_decay": decay}))
    sentence = f"GSM at T = {spec.steps} over the learning rate, by weight decay; " + "; ".join(clauses) + "."
    return Conclusion([*defended(laws), *defended(ranks)], sentence, numbers)


def _words(law: DecayLaw, learned: int, of: int) -> str:
    if law.status is Status.REFUSED or law.constants is None:
        return f"{learned} of {of} rates generalised, too few for a law"
    exponent = f" with exponent −{law.constants[POWER][1]:.2f}" if law.law == POWER else ""
    return f"{law.law}{exponent} ({learned} of {of})"


def _ranks(rates: tuple[float, ...], top: np.ndarray) -> Measurement:
    """Spearman's ρ, its error by leaving out one rate at a time, and a 95% interval within ±1 by Fisher's transform."""
    from scipy.stats import spearmanr

    known = np.isfinite(top)
    points = np.c_[np.array(rates)[known], top[known]]
    judged: dict[str, Any] = {"error_kind": "jackknife", "policy": POLICY.plain()}
    if len(points) < POLICY.fewest_rates or np.ptp(points[:, 1]) == 0:
        reason = f"λ̂ is known at {len(points)} learning rates: measure at least {POLICY.fewest_rates}"
        return Measurement.refused(reason, **judged)
    rho, error = jackknife(lambda rows: np.asarray(spearmanr(rows[:, 0], rows[:, 1])).item(0), points)
    low, high = rank_interval(rho, len(points))
    return Measurement(rho, error, diagnostics={"low": low, "high": high}, **judged)


def figures(spec: GrokkingSeverity, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import COLOURS, EXACT, blank, legend, points

    figure, axes = blank(1, 2, height=3.5, sharey=True)
    rates = np.array(spec.rates)
    fine = np.geomspace(rates[0], rates[-1], 200)
    for number, (decay, (gsm, error, learned)) in enumerate(severities(spec, results).items()):
        every = learned == 1
        law = decay_law(rates[every], gsm[every]) if every.any() else None
        for one in axes[0]:
            points(one, rates, gsm, error, number=number, label=f"weight decay {decay:g}", hollow=~every, line=False)
            if law is not None and law.constants is not None:
                for name, style in ((POWER, "--"), (EXPONENTIAL, ":")):
                    a, b = law.constants[name]
                    curve = a * fine**-b if name == POWER else a * np.exp(-b * fine)
                    one.plot(fine, curve, style, color=COLOURS[number], lw=1)
    for one, scale in zip(axes[0], ("linear", "log"), strict=True):
        one.plot([], [], "--", color=EXACT["color"], lw=1, label="fitted power law")
        one.plot([], [], ":", color=EXACT["color"], lw=1, label="fitted exponential")
        one.set_xscale(scale)
        one.set_yscale("log")
        one.set_xlabel("learning rate η")
    axes[0, 0].set_ylabel(f"severity GSM, T = {spec.steps}")
    legend(axes[0, 1])
    drawn = {
        "severity": Captioned(
            figure,
            "Grokking severity against the learning rate. An exponential is straight on the left, a power law on the "
            f"right. Hollow: not every network had reached a validation accuracy of {curves.POLICY.generalised:g} at "
            "T, so its GSM is not defined and not fitted.",
        )
    }
    if spec.llc:
        figure, axes = blank(height=3.2)
        for number, (decay, (top, error, _)) in enumerate(peaks(spec, results).items()):
            points(axes[0, 0], rates, top, error, number=number, label=f"weight decay {decay:g}")
        axes[0, 0].set_xscale("log")
        axes[0, 0].set_xlabel("learning rate η")
        axes[0, 0].set_ylabel("largest λ̂ along training")
        legend(axes[0, 0])
        drawn["peak"] = Captioned(figure, "The largest λ̂ that is not refused at a checkpoint of each training.")
    return drawn


RECIPE = Recipe(
    name="grokking-severity",
    version=3,
    question="How do grokking severity and the largest learning coefficient depend on learning rate and weight decay?",
    spec=GrokkingSeverity,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={
        "p": 7, "width": 16, "fraction": 0.6, "rates": (5e-3, 6e-3, 7e-3, 8e-3, 1e-2), "weight_decays": (1e-3,),
        "steps": 200, "llc": False, "batch": 16,
    },
)  # fmt: skip
