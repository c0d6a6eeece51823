"""How does λ̂ grow with the modulus and with the width? λ̂ before and after training over a grid of p and K.

Figures 1 and 2 of Cullen et al. 2026 say: in proportion to both, as K(3p−1)/2 does. Beside λ̂, from a calibrated sampler
and from SGLD as printed, stand the exact lines for the training set: lazy ½pK, and ½K_eff(3p−2) with the K_eff found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.results import Comparison, Measurement, Prediction, Result, Status
from phasecast.grokking.analysis.decay_fits import straight_line
from phasecast.grokking.theory.predictions import exact_lines
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.tables import Table
from phasecast.studies.grokking.trainings import (
    STATUSES,
    WAYS,
    Found,
    Group,
    Sampling,
    Study,
    Way,
    check,
    tables,
    work_through,
)

if TYPE_CHECKING:
    import xarray as xr

SOURCE = "Cullen et al. 2026, Theorem 5.5 with K_eff = K, as in section 6.1"
BENT = 3.0  # standard errors of a square term beyond which a line is bent


class GrokkingCoefficient(Study):
    """Which moduli and widths, and how they are trained."""

    PAPER: ClassVar[Mapping[str, Any]] = {
        "p": (53, 61, 67, 71, 79), "widths": (600, 800, 1000, 1024), "fraction": 0.4, "lr": 1e-3,
        "weight_decay": 1e-5, "batch": 128, "steps": 100_000,
    }  # fmt: skip

    p: tuple[int, ...] = Field((17, 23, 29), min_length=1, description="moduli, primes")
    widths: tuple[int, ...] = Field((64, 128, 192, 256), min_length=1, description="hidden units K")
    fraction: float = Field(0.5, description="share of the table to train on")
    lr: float = Field(5e-3, gt=0, description="learning rate")
    weight_decay: float = Field(1e-4, ge=0, description="coefficient of the L2 term")
    batch: int | None = Field(None, ge=2, description="rows of a minibatch; null for all")
    steps: int = Field(3000, ge=1, description="steps of training")
    samplers: tuple[Way, ...] = Field(
        ("calibrated", "printed"), min_length=1, description="how λ̂ is sampled: calibrated, or SGLD as printed"
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        check(groups(self))
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
            p, width, spec.steps, (spec.seed,), (spec.lr,), (spec.weight_decay,), spec.fraction, None, spec.batch,
            checkpoints=ends, sampled=ends,
        )
        for p in spec.p
        for width in spec.widths
    ]  # fmt: skip


def work(spec: GrokkingCoefficient, state: Any) -> Iterator[Chunk]:
    """A piece of a training or one λ̂ a chunk."""
    return work_through(groups(spec), spec.samplings, state)


def layout(spec: GrokkingCoefficient) -> Mapping[str, Table]:
    return tables(spec.samplings)


def grid_of(spec: GrokkingCoefficient, results: xr.DataTree) -> dict[str, np.ndarray]:
    """λ̂, its error and status (p, K, way, first or last), and validation accuracy and K_eff at the end (p, K)."""
    found = Found(results)
    shape = (len(spec.p), len(spec.widths))
    grid = {name: np.full((*shape, len(spec.samplings), 2), np.nan) for name in ("value", "error", "status")}
    grid |= {name: np.full(shape, np.nan) for name in ("accuracy", "k_eff")}
    for number in range(len(groups(spec))):
        place = np.unravel_index(number, shape)
        grid["accuracy"][place] = found.accuracy(number, 0)
        grid["k_eff"][place] = found.widths(number, 0)[1][-1]
        for way in range(len(spec.samplings)):
            rows = found.llc(number, 0, way)
            for name in ("value", "error", "status"):
                grid[name][*place, way, : len(rows[name])] = rows[name]
    return grid


def conclude(spec: GrokkingCoefficient, results: xr.DataTree) -> Conclusion:
    grid = grid_of(spec, results)
    answers: dict[str, Result] = {}
    for way, sampling in enumerate(spec.samplings):
        last = grid["value"][:, :, way, 1]
        for column, width in enumerate(spec.widths):
            name = f"slope of λ̂ over p at K = {width}, {sampling.name}"
            answers[name] = _against(1.5 * width, straight_line(spec.p, last[:, column], name=name))
        for row, p in enumerate(spec.p):
            name = f"slope of λ̂ over K at p = {p}, {sampling.name}"
            answers[name] = _against((3 * p - 1) / 2, straight_line(spec.widths, last[row], name=name))
        before = grid["value"][:, :, way, 0]
        share = before / last
        answers[f"λ̂ before training over λ̂ after, {sampling.name}"] = Measurement(
            float(np.nanmean(share)),
            float(np.nanstd(share, ddof=1) / np.sqrt(share.size)) if share.size > 1 else np.nan,
            Status.OK if share.size > 1 and np.isfinite(share).all() else Status.WARNING,
            error_kind="datasets",
            reasons=[] if share.size > 1 else ["one network: no error is known; use more moduli or widths"],
        )
    generalised = int(np.sum(grid["accuracy"] >= 0.95))
    lines = [answer for name, answer in answers.items() if isinstance(answer, Comparison)]
    agree = sum(str(line.verdict) == "agrees" for line in lines)
    numbers: dict[str, float | int | None] = {
        "networks": grid["accuracy"].size,
        "generalised": generalised,
        "lines": len(lines),
        "printed_slopes": agree,
        "bent": sum(abs(_curvature(line)) > BENT for line in lines),
    }
    sentence = (
        f"{generalised} of {grid['accuracy'].size} networks generalised; {agree} of {len(lines)} slopes of λ̂ are those "
        f"of K(3p−1)/2, and {numbers['bent']} of the lines are bent."
    )
    return Conclusion(answers, sentence, numbers)


def _against(slope: float, line: Measurement) -> Comparison:
    return Comparison(Prediction(slope, "K_eff = K, nβ → ∞", SOURCE), line, name=line.name)


def _curvature(line: Comparison) -> float:
    return float(np.nan_to_num(line.measurement.diagnostics.get("curvature", np.nan)))


def figures(spec: GrokkingCoefficient, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import EXACT, blank, legend_above, named, points

    grid = grid_of(spec, results)
    refused = STATUSES.index(Status.REFUSED)
    axes_of = (
        ("p", spec.p, spec.widths, "K", "modulus p", lambda table: table),
        ("width", spec.widths, spec.p, "p", "hidden width K", lambda table: table.swapaxes(0, 1)),
    )
    drawn = {}
    for name, along, others, symbol, label, turned in axes_of:
        figure, axes = blank(1, len(spec.samplings), height=3.8, sharey=True)
        for way, (one, sampling) in enumerate(zip(axes[0], spec.samplings, strict=True)):
            for number, other in enumerate(named(others, symbol)):
                value, error, status = (turned(grid[key][:, :, way])[:, number] for key in ("value", "error", "status"))
                points(one, along, value[:, 1], error[:, 1], number=number, label=other, hollow=status[:, 1] == refused)
                one.plot(along, value[:, 0], ":", color="#999999", lw=1, label="before training" if not number else "")
            one.set_title(sampling.name, fontsize=9)
            one.set_xlabel(label)
            one.set_yscale("log")
            _exact(one, spec, grid, name, EXACT)
        axes[0, 0].set_ylabel("sampled coefficient λ̂")
        legend_above(figure, axes[0, 0])
        drawn[f"over_{name}"] = Captioned(
            figure,
            f"λ̂ after training over {label} (points, hollow where refused) and before training (dotted). Dashed: exact "
            "λ of the largest network of each column, ½K_eff(3p−2) with the K_eff found at the end, and lazy ½pK. At "
            "nβ = 30 and γ = 5 λ̂ stays far below them.",
        )
    return drawn


def _exact(axes: Any, spec: GrokkingCoefficient, grid: Mapping[str, np.ndarray], name: str, look: Any) -> None:
    """The exact lines along one side of the grid, at the largest value of the other."""
    sides = [(i, -1) for i in range(len(spec.p))] if name == "p" else [(-1, j) for j in range(len(spec.widths))]
    along = spec.p if name == "p" else spec.widths
    lines = []
    for i, j in sides:
        p, width = spec.p[i], spec.widths[j]
        pairs = Group(p, width, 1, (0,), (1.0,), (0.0,), spec.fraction).pairs
        lines.append(exact_lines(p, width, pairs, k_eff=int(grid["k_eff"][i, j])))
    for kind, words, style in (("feature", "½K_eff(3p−2)", "--"), ("lazy", "lazy ½pK", "-.")):
        values = [float(line[kind].value) for line in lines]  # pyright: ignore[reportArgumentType]
        axes.plot(along, values, **{**look, "ls": style}, label=words)


RECIPE = Recipe(
    name="grokking-coefficient",
    version=1,
    question="How does the sampled learning coefficient of a network that generalised grow with modulus and width?",
    spec=GrokkingCoefficient,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"p": (5,), "widths": (8,), "fraction": 0.7, "steps": 100, "samplers": ("printed",)},
)
