"""How does the learning rate change grokking? GSM and the largest λ̂ along training against the rate, for weight decays.

Figures 4, 11 and 12 of Cullen et al. 2026: GSM is said to fall exponentially with the learning rate, and the largest λ̂
with it. All runs have the same number of steps T, without which GSM cannot be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from phasecast.core.results import Measurement, Status
from phasecast.grokking.analysis.curves import GENERALISED
from phasecast.grokking.analysis.decay_fits import DecayLaw, decay_law
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.tables import Table
from phasecast.studies.grokking.trainings import (
    CALIBRATED,
    Found,
    Group,
    Sampling,
    Study,
    check,
    defended,
    tables,
    work_through,
)

if TYPE_CHECKING:
    import xarray as xr

EARLIEST = 200  # λ̂ is looked at from a two-hundredth of the training on
CODES = {"power law": 1, "exponential": -1, "undecided": 0}


class GrokkingSeverity(Study):
    """Which rates and decays, on which network."""

    PAPER: ClassVar[Mapping[str, Any]] = {
        "p": 53, "width": 1024, "rates": tuple(np.geomspace(1e-4, 1e-2, 12).tolist()), "seeds": 3, "batch": 128,
        "steps": 100_000, "checkpoints": 40,
    }  # fmt: skip

    p: int = Field(23, ge=3, le=200, description="modulus")
    width: int = Field(128, ge=1, description="hidden units")
    fraction: float = Field(0.4, description="share of the table to train on")
    rates: tuple[float, ...] = Field(
        tuple(round(float(rate), 6) for rate in np.geomspace(1e-3, 2e-2, 8)), min_length=1, description="learning rates"
    )
    weight_decays: tuple[float, ...] = Field((0.0, 1e-5, 1e-4), min_length=1, description="coefficients of the L2 term")
    seeds: int = Field(1, ge=1, le=100, description="networks for each rate and decay")
    batch: int | None = Field(None, ge=2, description="rows of a minibatch; null for all")
    steps: int = Field(10_000, ge=20, description="steps T of every training")
    checkpoints: int = Field(6, ge=1, le=1000, description="how many λ̂ along each training, evenly in log time")
    llc: bool = Field(True, description="whether to sample λ̂")

    @field_validator("rates")
    @classmethod
    def _positive(cls, rates: tuple[float, ...]) -> tuple[float, ...]:
        if not all(rate > 0 for rate in rates):
            raise ValueError("a learning rate is not positive; give positive ones")
        return tuple(sorted(rates))

    @field_validator("weight_decays")
    @classmethod
    def _not_negative(cls, decays: tuple[float, ...]) -> tuple[float, ...]:
        if not all(decay >= 0 for decay in decays):
            raise ValueError("a weight decay is negative; give 0 or positive ones")
        return decays

    @model_validator(mode="after")
    def _possible(self) -> Self:
        check(groups(self))
        return self

    @property
    def samplings(self) -> tuple[Sampling, ...]:
        return (CALIBRATED,) if self.llc else ()


def groups(spec: GrokkingSeverity) -> list[Group]:
    """A group for each weight decay; λ̂ of the first seed of each rate, which all share their training rows."""
    rates = tuple(rate for rate in spec.rates for _ in range(spec.seeds))
    seeds = tuple(spec.seed + number for _ in spec.rates for number in range(spec.seeds))
    times = np.geomspace(spec.steps / EARLIEST, spec.steps, spec.checkpoints + 1)[1:]
    sampled = tuple(sorted({round(float(time)) for time in times})) if spec.llc else ()
    return [
        Group(
            spec.p, spec.width, spec.steps, seeds, rates, (decay,) * len(rates), spec.fraction, None, spec.batch,
            log_every=max(1, min(50, spec.steps // 20)), checkpoints=sampled, sampled=sampled,
            members=tuple(range(0, len(rates), spec.seeds)),
        )
        for decay in spec.weight_decays
    ]  # fmt: skip


def work(spec: GrokkingSeverity, state: Any) -> Iterator[Chunk]:
    """A piece of the trainings of one weight decay, or one λ̂, a chunk."""
    return work_through(groups(spec), spec.samplings, state)


def layout(spec: GrokkingSeverity) -> Mapping[str, Table]:
    return tables(spec.samplings)


def severities(spec: GrokkingSeverity, results: xr.DataTree) -> dict[float, tuple[np.ndarray, ...]]:
    """For each weight decay: mean GSM at each rate, its error over seeds, and the share of seeds that generalised."""
    found, rows = Found(results), {}
    for number, decay in enumerate(spec.weight_decays):
        gsm = [found.severity(number, member) for member in range(len(spec.rates) * spec.seeds)]
        values = np.array([float(np.asarray(one.estimate)) for one in gsm]).reshape(-1, spec.seeds)
        learned = np.array([one.status is Status.OK for one in gsm]).reshape(-1, spec.seeds)
        grid = np.array([float(one.error) for one in gsm]).reshape(-1, spec.seeds).mean(axis=1)
        over_seeds = values.std(axis=1, ddof=1) / np.sqrt(spec.seeds) if spec.seeds > 1 else 0.0
        rows[decay] = (values.mean(axis=1), np.hypot(grid, over_seeds), learned.mean(axis=1))
    return rows


def peaks(spec: GrokkingSeverity, results: xr.DataTree) -> dict[float, tuple[np.ndarray, ...]]:
    """For each weight decay: the largest λ̂ along training that is not refused at each rate, its error, and its step."""
    found, rows = Found(results), {}
    for number, decay in enumerate(spec.weight_decays):
        best = []
        for member in groups(spec)[number].members or ():
            seen = found.llc(number, member)
            kept = np.flatnonzero((seen["status"] < 2) & np.isfinite(seen["value"]))
            top = kept[seen["value"][kept].argmax()] if len(kept) else None
            best.append(
                (seen["value"][top], seen["error"][top], seen["step"][top]) if top is not None else (np.nan,) * 3
            )
        rows[decay] = tuple(np.array(best, dtype=float).T)
    return rows


def conclude(spec: GrokkingSeverity, results: xr.DataTree) -> Conclusion:
    laws: dict[str, Measurement] = {}
    ranks: dict[str, Measurement] = {}
    numbers: dict[str, float | int | None] = {}
    said = []
    for decay, (gsm, _, learned) in severities(spec, results).items():
        all_learned = learned == 1
        name = f"law of GSM over the learning rate, weight decay {decay:g}"
        law = decay_law(np.array(spec.rates)[all_learned], gsm[all_learned], name=name)
        laws[name] = law
        numbers[f"generalised, weight decay {decay:g}"] = int(all_learned.sum())
        numbers[f"law, weight decay {decay:g}"] = CODES[law.law] if law.status is not Status.REFUSED else None
        said.append(f"{decay:g}: {_words(law, int(all_learned.sum()), len(gsm))}")
    if spec.llc:
        for decay, (top, _, _) in peaks(spec, results).items():
            name = f"rank correlation of the largest λ̂ with the learning rate, weight decay {decay:g}"
            ranks[name] = _ranks(spec.rates, top)
    answers = {**defended(laws), **(defended(ranks) if ranks else {})}
    sentence = f"GSM at T = {spec.steps} over the learning rate, by weight decay; " + "; ".join(said) + "."
    return Conclusion(answers, sentence, numbers)


def _words(law: DecayLaw, learned: int, of: int) -> str:
    if law.status is Status.REFUSED or law.constants is None:
        return f"{learned} of {of} rates generalised, too few for a law"
    power = law.constants["power law"][1]
    return f"{law.law}" + (f" with exponent −{power:.2f}" if law.law == "power law" else "") + f" ({learned} of {of})"


def _ranks(rates: tuple[float, ...], top: np.ndarray) -> Measurement:
    """Spearman's ρ, its error by leaving out one rate at a time."""
    from scipy.stats import spearmanr

    kept = np.isfinite(top)
    rate, value = np.array(rates)[kept], top[kept]
    if len(value) < 4 or np.ptp(value) == 0:
        reason = f"λ̂ is known at {len(value)} rates: measure at least four"
        return Measurement(np.nan, np.nan, Status.REFUSED, error_kind="quadrature", reasons=[reason])
    keep = ~np.eye(len(value), dtype=bool)
    without = np.array([float(spearmanr(rate[rows], value[rows])[0]) for rows in keep])  # type: ignore[arg-type]
    error = float(np.sqrt((len(value) - 1) * np.var(without)))
    return Measurement(float(spearmanr(rate, value)[0]), error, error_kind="quadrature")  # type: ignore[arg-type]


def figures(spec: GrokkingSeverity, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import COLOURS, EXACT, blank, legend, points

    figure, axes = blank(1, 2, height=3.5, sharey=True)
    rates = np.array(spec.rates)
    fine = np.geomspace(rates[0], rates[-1], 200)
    for number, (decay, (gsm, error, learned)) in enumerate(severities(spec, results).items()):
        kept = learned == 1
        law = decay_law(rates[kept], gsm[kept]) if kept.any() else None
        for one in axes[0]:
            points(one, rates, gsm, error, number=number, label=f"weight decay {decay:g}", hollow=~kept, line=False)
            if law is not None and law.constants is not None:
                for name, style in (("power law", "--"), ("exponential", ":")):
                    a, b = law.constants[name]
                    curve = a * fine**-b if name == "power law" else a * np.exp(-b * fine)
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
            "Grokking severity over the learning rate. An exponential is straight on the left, a power law on the "
            f"right. Hollow: not every network had reached {GENERALISED:g} at T, so there is no GSM and no fit to it.",
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
    version=1,
    question="How do grokking severity and the largest learning coefficient depend on learning rate and weight decay?",
    spec=GrokkingSeverity,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={
        "p": 7, "width": 16, "fraction": 0.6, "rates": (5e-3, 1e-2), "weight_decays": (1e-3,), "steps": 200,
        "llc": False, "batch": 16,
    },
)  # fmt: skip
