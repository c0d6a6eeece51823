"""How does λ̂ grow with the modulus and with the width? λ̂ before and after training over a grid of p and K.

Figures 1 and 2 of Cullen et al. 2026 state that it is proportional to both, as K(3p−1)/2 is. λ̂, from a calibrated
sampler and from SGLD as printed, is compared with the exact values for the training set: lazy ½pK, and ½K_eff(3p−2)
with the measured K_eff.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.answers import Answer
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Comparison, Measurement, Prediction, Status, Verdict
from phasecast.core.statistics import standard_error
from phasecast.grokking.analysis import curves, decay_fits
from phasecast.grokking.analysis.decay_fits import straight_line
from phasecast.grokking.theory.predictions import exact_lines
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
    tables,
    work_through,
)

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

SOURCE = "Cullen et al. 2026, Theorem 5.5 with K_eff = K, as in section 6.1"


@dataclass(frozen=True)
class SlopePolicy(Policy):
    """When a relation counts as bent."""

    bent: float = rule(3.0, "the tolerance of a Comparison: three standard errors of a quadratic term")


POLICY = SlopePolicy()


class GrokkingCoefficient(Study):
    """Which moduli and widths, and how they are trained."""

    PAPER: ClassVar[Mapping[str, Any]] = {
        "p": (53, 61, 67, 71, 79), "widths": (600, 800, 1000, 1024), "fraction": 0.4, "lr": 1e-3,
        "weight_decay": 1e-5, "batch": 128, "steps": 100_000,
    }  # fmt: skip

    p: tuple[int, ...] = Field(default=(17, 23, 29), min_length=1, description="moduli, primes")
    widths: tuple[int, ...] = Field(default=(64, 128, 192, 256), min_length=1, description="hidden units K")
    fraction: float = Field(default=0.5, description="fraction of the table to train on")
    lr: float = Field(default=5e-3, gt=0, description="learning rate")
    weight_decay: float = Field(default=1e-4, ge=0, description="coefficient of the L2 term")
    batch: int | None = Field(default=None, ge=2, description="rows of a minibatch; null for all")
    steps: int = Field(default=3000, ge=1, description="steps of training")
    samplers: tuple[Way, ...] = Field(
        default=("calibrated", "printed"), min_length=1, description="how λ̂ is sampled: calibrated, or SGLD as printed"
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        check_groups(groups(self))
        for p in self.p:
            exact_lines(p, min(self.widths), 2 * p)
        return self

    @property
    def samplings(self) -> tuple[Sampling, ...]:
        return tuple(WAYS[name] for name in self.samplers)


def groups(spec: GrokkingCoefficient) -> list[Group]:
    """A network for each modulus and width, λ̂ at the first and the last step."""
    ends = (0, spec.steps)
    return [
        Group(
            p,
            width,
            spec.steps,
            (spec.seed,),
            lr=(spec.lr,),
            weight_decay=(spec.weight_decay,),
            fraction=spec.fraction,
            batch=spec.batch,
            checkpoints=ends,
            sampled=ends,
        )
        for p in spec.p
        for width in spec.widths
    ]


def work(spec: GrokkingCoefficient, state: dict[str, Any] | None) -> Iterator[Chunk]:
    """One chunk per piece of a training and per λ̂."""
    return work_through(groups(spec), spec.samplings, state)


def layout(spec: GrokkingCoefficient) -> Mapping[str, Table]:
    return tables(spec.samplings)


def grid_of(spec: GrokkingCoefficient, results: xr.DataTree) -> dict[str, np.ndarray]:
    """λ̂, its error and status (p, K, way, first or last), and validation accuracy and K_eff at the end (p, K)."""
    stored = StoredStudy(results)
    shape = (len(spec.p), len(spec.widths))
    grid = {name: np.full((*shape, len(spec.samplings), 2), np.nan) for name in ("value", "error", "status")}
    grid |= {name: np.full(shape, np.nan) for name in ("accuracy", "k_eff")}
    for number in range(len(groups(spec))):
        place = np.unravel_index(number, shape)
        grid["accuracy"][place] = stored.accuracy(number, 0)
        grid["k_eff"][place] = stored.widths(number, 0)[1][-1]
        for way in range(len(spec.samplings)):
            rows = stored.llc(number, 0, way)
            for name in ("value", "error", "status"):
                grid[name][*place, way, : len(rows[name])] = rows[name]
    return grid


def conclude(spec: GrokkingCoefficient, results: xr.DataTree) -> Conclusion:
    grid = grid_of(spec, results)
    lines: list[Answer] = []
    answers: list[Answer] = []
    for way, (sampler, sampling) in enumerate(zip(spec.samplers, spec.samplings, strict=True)):
        before, last = grid["value"][:, :, way, 0], grid["value"][:, :, way, 1]
        slopes = _slopes(spec, last, sampler, sampling.name)
        share = mean_share(before / last)
        lines += slopes
        answers += slopes
        answers.append(
            Answer(
                "share-before-training",
                share,
                f"λ̂ before training over λ̂ after, {sampling.name}",
                {"sampler": sampler},
            )
        )
    compared = [line.result for line in lines if isinstance(line.result, Comparison)]
    generalised = int(np.sum(grid["accuracy"] >= curves.POLICY.generalised))
    agree = sum(line.verdict is Verdict.AGREES for line in compared)
    bent = sum(abs(_curvature(line)) > POLICY.bent for line in compared)
    numbers: dict[str, float | int | None] = {
        "networks": grid["accuracy"].size,
        "generalised": generalised,
        "lines": len(compared),
        "printed_slopes": agree,
        "bent": bent,
    }
    sentence = (
        f"{generalised} of {grid['accuracy'].size} networks generalised; {agree} of {len(compared)} slopes of λ̂ agree "
        f"with K(3p−1)/2, and {bent} of the lines are curved."
    )
    return Conclusion(answers, sentence, numbers)


def _slopes(spec: GrokkingCoefficient, last: np.ndarray, sampler: Way, shown: str) -> list[Answer]:
    """Slopes of λ̂ (p, K) after training over p and over K, each beside that of K(3p−1)/2.

    A slope over fewer moduli or widths than a line with an error needs is not asked for.
    """
    answers = []
    fewest = decay_fits.POLICY.fewest_for_line
    for column, width in enumerate(spec.widths if len(set(spec.p)) >= fewest else ()):
        name = f"slope of λ̂ over p at K = {width}, {shown}"
        line = _against(1.5 * width, straight_line(spec.p, last[:, column], name=name))
        answers.append(Answer("slope-over-p", line, name, {"width": width, "sampler": sampler}))
    for row, p in enumerate(spec.p if len(set(spec.widths)) >= fewest else ()):
        name = f"slope of λ̂ over K at p = {p}, {shown}"
        line = _against((3 * p - 1) / 2, straight_line(spec.widths, last[row], name=name))
        answers.append(Answer("slope-over-width", line, name, {"p": p, "sampler": sampler}))
    return answers


def mean_share(share: np.ndarray) -> Measurement:
    """The mean over networks of λ̂ before training over λ̂ after; networks without λ̂ are left out."""
    finite = share[np.isfinite(share)]
    reasons = []
    if finite.size < share.size:
        reasons.append("λ̂ of some networks is not finite and left out: train longer")
    if finite.size < 2:
        left = "one network" if finite.size else "no network"
        reasons.append(f"there is {left}, so the error is unknown: use more moduli or widths")
    return Measurement(
        float(finite.mean()) if finite.size else np.nan,
        float(standard_error(finite)),
        Status.WARNING if reasons else Status.OK,
        error_kind="datasets",
        reasons=reasons,
    )


def _against(slope: float, line: Measurement) -> Comparison:
    return Comparison(Prediction(slope, "K_eff = K, nβ → ∞", SOURCE), line, name=line.name)


def _curvature(line: Comparison) -> float:
    return float(np.nan_to_num(line.measurement.diagnostics.get("curvature", np.nan)))


def figures(spec: GrokkingCoefficient, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import EXACT, blank, legend_above, named, points

    grid = grid_of(spec, results)
    sides = (
        ("p", spec.p, spec.widths, "K", "modulus p", lambda table: table),
        ("width", spec.widths, spec.p, "p", "hidden width K", lambda table: table.swapaxes(0, 1)),
    )
    drawn = {}
    for name, along, others, symbol, label, turned in sides:
        figure, axes = blank(1, len(spec.samplings), height=3.8, sharey=True)
        for way, (one, sampling) in enumerate(zip(axes[0], spec.samplings, strict=True)):
            for number, other in enumerate(named(others, symbol)):
                value, error, status = (turned(grid[key][:, :, way])[:, number] for key in ("value", "error", "status"))
                points(one, along, value[:, 1], error[:, 1], number=number, label=other, hollow=status[:, 1] == REFUSED)
                one.plot(
                    along, value[:, 0], ":", color=EXACT["color"], lw=1, label="before training" if not number else ""
                )
            one.set_title(sampling.name, fontsize=9)
            one.set_xlabel(label)
            one.set_yscale("log")
            _exact(one, spec, grid, name, EXACT)
        axes[0, 0].set_ylabel("sampled coefficient λ̂")
        legend_above(figure, axes[0, 0])
        drawn[f"over_{name}"] = Captioned(
            figure,
            f"λ̂ after training against the {label} (points; hollow: refused) and before training (dotted). Dashed: "
            "exact λ of the largest network of each column, ½K_eff(3p−2) with K_eff measured at the end, and lazy ½pK. "
            "At nβ = 30 and γ = 5 λ̂ stays far below them.",
        )
    return drawn


def _exact(
    axes: Axes, spec: GrokkingCoefficient, grid: Mapping[str, np.ndarray], name: str, look: Mapping[str, Any]
) -> None:
    """The exact lines along one side of the grid, at the largest value of the other."""
    sides = [(i, -1) for i in range(len(spec.p))] if name == "p" else [(-1, j) for j in range(len(spec.widths))]
    along = spec.p if name == "p" else spec.widths
    lines = []
    for i, j in sides:
        p, width = spec.p[i], spec.widths[j]
        pairs = Group(p, width, 1, (0,), (1.0,), (0.0,), spec.fraction).pairs
        lines.append(exact_lines(p, width, pairs, k_eff=int(grid["k_eff"][i, j])))
    for kind, words, style in (("feature", "½K_eff(3p−2)", "--"), ("lazy", "lazy ½pK", "-.")):
        values = [float(line[kind]) for line in lines]
        axes.plot(along, values, **{**look, "ls": style}, label=words)


RECIPE = Recipe(
    name="grokking-coefficient",
    version=3,
    question="How does the sampled learning coefficient of a network that generalised grow with modulus and width?",
    spec=GrokkingCoefficient,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"p": (5,), "widths": (8,), "fraction": 0.7, "steps": 100, "samplers": ("printed",)},
)
