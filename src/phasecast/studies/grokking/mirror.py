"""Does λ̂ mirror the validation loss along training? Both curves side by side while one setting varies.

Figures 3 and 7 to 10 of Cullen et al. 2026: p, width, weight decay or learning rate. For each, Spearman's ρ on an even
grid in log time, with the lag at which it is largest, over the whole run and from the step where the training rows are
known; λ̂ once from a calibrated sampler and once from SGLD as printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement, Status
from phasecast.grokking.analysis.curves import crossing
from phasecast.grokking.analysis.mirroring import FEWEST, mirror
from phasecast.grokking.training import checkpoint_steps
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.tables import Table
from phasecast.studies.grokking.trainings import (
    WAYS,
    Found,
    Group,
    Sampling,
    Study,
    Way,
    check,
    defended,
    tables,
    work_through,
)

if TYPE_CHECKING:
    import xarray as xr

SPANS = ("whole run", "after memorising")
WORDS = {"p": "p", "width": "K", "weight_decay": "weight decay", "lr": "learning rate"}


class GrokkingMirror(Study):
    """What varies, and all that does not."""

    PAPER: ClassVar[Mapping[str, Any]] = {
        "p": 53, "width": 1024, "lr": 1e-4, "weight_decay": 1e-4, "batch": 128, "steps": 100_000, "checkpoints": 200,
        "values": (1e-4, 5e-5, 1e-5),
    }  # fmt: skip

    vary: Literal["weight_decay", "lr", "p", "width"] = Field(
        "weight_decay", description="figure 9: weight_decay, 10: lr, 7: p, 8: width; 3 is one of 9"
    )
    values: tuple[float, ...] = Field((1e-4, 5e-5, 1e-5), min_length=1, description="values of what varies")
    p: int = Field(23, ge=3, le=200, description="modulus")
    width: int = Field(128, ge=1, description="hidden units")
    fraction: float = Field(0.4, description="share of the table to train on")
    lr: float = Field(5e-3, gt=0, description="learning rate")
    weight_decay: float = Field(1e-4, ge=0, description="coefficient of the L2 term")
    batch: int | None = Field(None, ge=2, description="rows of a minibatch; null for all")
    steps: int = Field(6000, ge=1, description="steps of training")
    checkpoints: int = Field(16, ge=2, le=1000, description="about how many λ̂ along a training")
    samplers: tuple[Way, ...] = Field(
        ("calibrated", "printed"), min_length=1, description="how λ̂ is sampled: calibrated, or SGLD as printed"
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        least = 0 if self.vary == "weight_decay" else np.finfo(float).tiny
        if any(value < least for value in self.values):
            raise BadInput(f"a value of {WORDS[self.vary]} is {min(self.values):g}", "give positive ones")
        if self.vary in ("p", "width") and any(value != int(value) for value in self.values):
            raise BadInput(f"{WORDS[self.vary]} is a whole number", "give values without a fraction")
        check(groups(self))
        return self

    @property
    def samplings(self) -> tuple[Sampling, ...]:
        return tuple(WAYS[name] for name in self.samplers)


def groups(spec: GrokkingMirror) -> list[Group]:
    """One training for each value, λ̂ at each of its checkpoints."""
    sampled = tuple(checkpoint_steps(spec.steps, spec.checkpoints))
    base = {"p": spec.p, "width": spec.width, "lr": spec.lr, "weight_decay": spec.weight_decay}
    found = []
    for value in spec.values:
        one = {**base, spec.vary: int(value) if spec.vary in ("p", "width") else value}
        found.append(
            Group(
                int(one["p"]), int(one["width"]), spec.steps, (spec.seed,), (one["lr"],), (one["weight_decay"],),
                spec.fraction, None, spec.batch, log_every=max(1, min(5, spec.steps // 50)), checkpoints=sampled,
                sampled=sampled,
            )
        )  # fmt: skip
    return found


def work(spec: GrokkingMirror, state: Any) -> Iterator[Chunk]:
    """A piece of a training or one λ̂ a chunk."""
    return work_through(groups(spec), spec.samplings, state)


def layout(spec: GrokkingMirror) -> Mapping[str, Table]:
    return tables(spec.samplings)


def correlation(found: Found, number: int, way: int, span: str) -> Measurement:
    """ρ of λ̂ with the validation loss of one training; refused where too few λ̂ are known."""
    seen, sampled = found.curves(number, 0), found.llc(number, 0, way)
    start = 1 if span == SPANS[0] else crossing(seen["step"], seen["train_accuracy"], 0.99)
    last = seen["step"][-1] if len(seen["step"]) else 0
    kept = np.isfinite(sampled["value"]) & (sampled["step"] >= (start or 1)) & (sampled["step"] <= last)
    logged = seen["step"] > 0
    if start is None or kept.sum() < FEWEST or logged.sum() < FEWEST:
        reason = f"λ̂ is known at {int(kept.sum())} steps of this span: take at least {FEWEST}"
        return Measurement(np.nan, np.nan, Status.REFUSED, error_kind="quadrature", reasons=[reason])
    first = max(float(seen["step"][logged][0]), 1.0)
    kept &= sampled["step"] >= first
    if kept.sum() < FEWEST:
        reason = f"λ̂ is known at {int(kept.sum())} logged steps: take at least {FEWEST}"
        return Measurement(np.nan, np.nan, Status.REFUSED, error_kind="quadrature", reasons=[reason])
    return mirror(
        sampled["step"][kept], sampled["value"][kept], seen["step"][logged], seen["validation_loss"][logged],
        errors=np.nan_to_num(sampled["error"][kept]),
    )  # fmt: skip


def conclude(spec: GrokkingMirror, results: xr.DataTree) -> Conclusion:
    found = Found(results)
    answers: dict[str, Measurement] = {}
    said = []
    for number, value in enumerate(spec.values):
        for way, sampling in enumerate(spec.samplings):
            for span in SPANS:
                rho = correlation(found, number, way, span)
                answers[f"ρ of λ̂ with the validation loss, {WORDS[spec.vary]} {value:g}, {sampling.name}, {span}"] = rho
                if sampling is WAYS["calibrated"] and rho.status is not Status.REFUSED:
                    said.append(f"{value:g}, {span} {float(np.asarray(rho.estimate)):+.2f} ± {float(rho.error):.2f}")
    words = "; ".join(said) if said else "no training has enough points"
    numbers = {f"gsm, {WORDS[spec.vary]} {value:g}": _gsm(found, number) for number, value in enumerate(spec.values)}
    return Conclusion(
        defended(answers), f"Rank correlation of calibrated λ̂ with the validation loss: {words}.", numbers
    )


def _gsm(found: Found, number: int) -> float | None:
    severity = found.severity(number, 0)
    return None if severity.status is Status.REFUSED else float(np.asarray(severity.estimate))


def figures(spec: GrokkingMirror, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import COLOURS, blank, legend_above, points

    found = Found(results)
    figure, axes = blank(2, len(spec.values), width=2.9 * len(spec.values) + 0.8, height=4.6, sharex=True)
    for number, value in enumerate(spec.values):
        upper, lower = axes[:, number]
        seen = found.curves(number, 0)
        for part, colour in (("train", COLOURS[0]), ("validation", COLOURS[1])):
            upper.plot(seen["step"], np.maximum(seen[f"{part}_loss"], 1e-6), color=colour, lw=1.2, label=f"{part} loss")
        upper.set_yscale("log")
        upper.set_title(f"{WORDS[spec.vary]} = {value:g}", fontsize=9)
        for way, sampling in enumerate(spec.samplings):
            rows = found.llc(number, 0, way)
            points(lower, rows["step"], rows["value"], rows["error"], number=way + 2, label=sampling.name,
                   hollow=rows["status"] == 2)  # fmt: skip
        lower.set_xscale("symlog", linthresh=10)
        lower.set_ylim(bottom=0)
        lower.set_xlabel("training step")
    axes[0, 0].set_ylabel("centred loss L")
    axes[1, 0].set_ylabel("sampled coefficient λ̂")
    legend_above(figure, *axes[:, 0])
    return {
        "mirror": Captioned(
            figure,
            "Above: losses. Below: λ̂ on the training rows; hollow: refused, as where it is no minimum yet or the "
            "chains have not settled.",
        )
    }


RECIPE = Recipe(
    name="grokking-mirror",
    version=1,
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
        "checkpoints": 2,
        "samplers": ("printed",),
    },
)  # fmt: skip
