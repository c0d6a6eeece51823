"""Does λ̂ mirror the validation loss along training? Both curves side by side while one setting varies.

Figures 3 and 7 to 10 of Cullen et al. 2026: p, width, weight decay or learning rate. For each, Spearman's ρ on an even
grid in log time, with the lag at which it is largest, over the whole run and after the training rows are memorised; λ̂
from a calibrated sampler and from SGLD as printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.answers import Answer
from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement, Status
from phasecast.grokking.analysis import mirroring
from phasecast.grokking.analysis.curves import POLICY, first_step_at
from phasecast.grokking.analysis.mirroring import mirror_correlation, refused_correlation
from phasecast.grokking.training import checkpoint_steps
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.tables import Table
from phasecast.studies.grokking.trainings import (
    REFUSED,
    WAYS,
    Group,
    Sampling,
    StoredStudy,
    Study,
    Way,
    check_groups,
    defended,
    tables,
    work_through,
)

if TYPE_CHECKING:
    import xarray as xr

SPANS = {"whole-run": "whole run", "memorised": "after memorising"}
SMALLEST_DRAWN = 1e-6  # of a loss on a logarithmic axis: below it float32 losses are rounding
WORDS = {"p": "p", "width": "K", "weight_decay": "weight decay", "lr": "learning rate"}


class GrokkingMirror(Study):
    """Which setting varies, and the values of the others."""

    PAPER: ClassVar[Mapping[str, Any]] = {
        "p": 53, "width": 1024, "lr": 1e-4, "weight_decay": 1e-4, "batch": 128, "steps": 100_000, "checkpoints": 200,
        "values": (1e-4, 5e-5, 1e-5),
    }  # fmt: skip

    vary: Literal["weight_decay", "lr", "p", "width"] = Field(
        default="weight_decay", description="figure 9: weight_decay, 10: lr, 7: p, 8: width; 3 is one of 9"
    )
    values: tuple[float, ...] = Field(default=(1e-4, 5e-5, 1e-5), min_length=1, description="values of what varies")
    p: int = Field(default=23, ge=3, le=200, description="modulus")
    width: int = Field(default=128, ge=1, description="hidden units")
    fraction: float = Field(default=0.4, description="fraction of the table to train on")
    lr: float = Field(default=5e-3, gt=0, description="learning rate")
    weight_decay: float = Field(default=1e-4, ge=0, description="coefficient of the L2 term")
    batch: int | None = Field(default=None, ge=2, description="rows of a minibatch; null for all")
    steps: int = Field(default=6000, ge=1, description="steps of training")
    checkpoints: int = Field(default=16, ge=2, le=1000, description="approximate number of λ̂ along a training")
    samplers: tuple[Way, ...] = Field(
        default=("calibrated", "printed"), min_length=1, description="how λ̂ is sampled: calibrated, or SGLD as printed"
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        least = 0 if self.vary == "weight_decay" else np.finfo(float).tiny
        if any(value < least for value in self.values):
            raise BadInput(f"a value of {WORDS[self.vary]} is {min(self.values):g}", "use positive numbers")
        if self.vary in ("p", "width") and any(value != int(value) for value in self.values):
            raise BadInput(f"a value of {WORDS[self.vary]} is not a whole number", "use integers")
        fewest = mirroring.POLICY.fewest_points
        sampled = sum(step > 0 for step in checkpoint_steps(self.steps, self.checkpoints))
        if sampled < fewest:
            raise BadInput(
                f"λ̂ at {sampled} steps after the first cannot be correlated with the loss",
                f"use more checkpoints and steps, for λ̂ at {fewest} of them at least",
            )
        check_groups(groups(self))
        return self

    @property
    def samplings(self) -> tuple[Sampling, ...]:
        return tuple(WAYS[name] for name in self.samplers)


def groups(spec: GrokkingMirror) -> list[Group]:
    """One training for each value, λ̂ at each of its checkpoints."""
    sampled = tuple(checkpoint_steps(spec.steps, spec.checkpoints))
    base = {"p": spec.p, "width": spec.width, "lr": spec.lr, "weight_decay": spec.weight_decay}
    trainings = [{**base, spec.vary: value} for value in spec.values]
    return [
        Group(
            int(one["p"]),
            int(one["width"]),
            spec.steps,
            (spec.seed,),
            lr=(one["lr"],),
            weight_decay=(one["weight_decay"],),
            fraction=spec.fraction,
            batch=spec.batch,
            log_every=max(1, min(5, spec.steps // 50)),
            checkpoints=sampled,
            sampled=sampled,
        )
        for one in trainings
    ]


def work(spec: GrokkingMirror, state: dict[str, Any] | None) -> Iterator[Chunk]:
    """One chunk per piece of a training and per λ̂."""
    return work_through(groups(spec), spec.samplings, state)


def layout(spec: GrokkingMirror) -> Mapping[str, Table]:
    return tables(spec.samplings)


def correlation(stored: StoredStudy, number: int, way: int, span: str) -> Measurement:
    """ρ of λ̂ with the validation loss of one training; refused if too few λ̂ are known."""
    curves, sampled, fewest = stored.curves(number, 0), stored.llc(number, 0, way), mirroring.POLICY.fewest_points
    memorised = first_step_at(curves["step"], curves["train_accuracy"], POLICY.memorised)
    start = memorised if span == "memorised" else 1
    last = curves["step"][-1] if len(curves["step"]) else 0
    usable = np.isfinite(sampled["value"]) & (sampled["step"] >= (start or 1)) & (sampled["step"] <= last)
    logged = curves["step"] > 0
    if start is not None and logged.sum() >= fewest:
        usable &= sampled["step"] >= max(float(curves["step"][logged][0]), 1.0)
    if start is None or min(usable.sum(), logged.sum()) < fewest:
        return refused_correlation(f"λ̂ is known at {int(usable.sum())} steps of this span: use at least {fewest}")
    return mirror_correlation(
        sampled["step"][usable],
        sampled["value"][usable],
        curves["step"][logged],
        curves["validation_loss"][logged],
        errors=np.nan_to_num(sampled["error"][usable]),
    )


def conclude(spec: GrokkingMirror, results: xr.DataTree) -> Conclusion:
    stored = StoredStudy(results)
    answers: list[Answer] = []
    clauses = []
    for number, value in enumerate(spec.values):
        for way, sampler in enumerate(spec.samplers):
            for span, shown in SPANS.items():
                rho = correlation(stored, number, way, span)
                label = f"{WORDS[spec.vary]} {value:g}, {WAYS[sampler].name}, {shown}"
                where = {spec.vary: value, "sampler": sampler, "span": span}
                answers.append(Answer("mirror-correlation", rho, f"ρ of λ̂ with the validation loss, {label}", where))
                if sampler == "calibrated" and rho.status is not Status.REFUSED:
                    ends = " to ".join(f"{rho.diagnostics[end]:+.2f}" for end in ("low", "high"))
                    clauses.append(f"{value:g}, {shown} {float(rho):+.2f} (95% interval {ends})")
    outcome = "; ".join(clauses) if clauses else "no training has enough points"
    numbers = {f"gsm, {WORDS[spec.vary]} {value:g}": _gsm(stored, number) for number, value in enumerate(spec.values)}
    return Conclusion(
        defended(answers), f"Rank correlation of calibrated λ̂ with the validation loss: {outcome}.", numbers
    )


def _gsm(stored: StoredStudy, number: int) -> float | None:
    severity = stored.severity(number, 0)
    return None if severity.status is Status.REFUSED else float(severity)


def figures(spec: GrokkingMirror, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import COLOURS, blank, legend_above, points

    stored = StoredStudy(results)
    figure, axes = blank(2, len(spec.values), width=2.9 * len(spec.values) + 0.8, height=4.6, sharex=True)
    for number, value in enumerate(spec.values):
        upper, lower = axes[:, number]
        curves = stored.curves(number, 0)
        for part, colour in (("train", COLOURS[0]), ("validation", COLOURS[1])):
            loss = np.maximum(curves[f"{part}_loss"], SMALLEST_DRAWN)
            upper.plot(curves["step"], loss, color=colour, lw=1.2, label=f"{part} loss")
        upper.set_yscale("log")
        upper.set_title(f"{WORDS[spec.vary]} = {value:g}", fontsize=9)
        for way, sampling in enumerate(spec.samplings):
            rows = stored.llc(number, 0, way)
            hollow = rows["status"] == REFUSED
            points(
                lower, rows["step"], rows["value"], rows["error"], number=way + 2, label=sampling.name, hollow=hollow
            )
        lower.set_xscale("symlog", linthresh=10)
        lower.set_ylim(bottom=0)
        lower.set_xlabel("training step")
    axes[0, 0].set_ylabel("centred loss L")
    axes[1, 0].set_ylabel("sampled coefficient λ̂")
    legend_above(figure, *axes[:, 0])
    return {
        "mirror": Captioned(
            figure,
            "Above: losses. Below: λ̂ on the training rows; hollow: refused, because the checkpoint is not a minimum "
            "yet or the chains have not converged.",
        )
    }


RECIPE = Recipe(
    name="grokking-mirror",
    version=3,
    question="Does the learning coefficient, sampled on the training rows alone, mirror the validation loss?",
    spec=GrokkingMirror,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={
        "p": 5,
        "width": 8,
        "fraction": 0.7,
        "values": (1e-3,),
        "steps": 120,
        "checkpoints": 10,
        "samplers": ("printed",),
    },
)  # fmt: skip
