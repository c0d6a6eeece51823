"""How many pairs does it take? Validation accuracy against N/(M ln M), N training pairs of a table of modulus M = p.

Figure 14 of Cullen et al. 2026: the boundary between no generalisation and grokking is said to lie at a ratio of 2.5 to
3 for every group size M, after Tian 2025.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.errors import BadInput
from phasecast.core.results import Comparison, Prediction, Result, Status
from phasecast.grokking.analysis.transition import FEWEST, Transition, transition
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.tables import Table
from phasecast.studies.grokking.trainings import Found, Group, Study, check, tables, work_through

if TYPE_CHECKING:
    import xarray as xr

PRINTED = Prediction(
    2.75, "M from 53 to 103, where runs were stopped", "Cullen et al. 2026, H.3.2: approximately 2.5 to 3", 0.25
)


class GrokkingData(Study):
    """Which tables, and how much of them is shown."""

    PAPER: ClassVar[Mapping[str, Any]] = {
        "p": (53, 67, 79, 83, 101, 103), "ratios": (), "fractions": (0.1, 0.15, 0.3, 0.4, 0.9, 0.95), "width": 1024,
        "lr": 1e-3, "weight_decay": 1e-5, "batch": 128, "steps": 100_000,
    }  # fmt: skip

    p: tuple[int, ...] = Field((23, 31), min_length=1, description="moduli M")
    ratios: tuple[float, ...] = Field(
        (1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0, 3.5, 4.0), description="N/(M ln M), N being the training pairs"
    )
    fractions: tuple[float, ...] = Field((), description="shares of the table to train on, beside the ratios")
    seeds: int = Field(3, ge=1, le=100, description="networks for each size")
    width: int = Field(256, ge=1, description="hidden units")
    lr: float = Field(5e-3, gt=0, description="learning rate")
    weight_decay: float = Field(1e-4, ge=0, description="coefficient of the L2 term")
    batch: int | None = Field(None, ge=2, description="rows of a minibatch; null for all")
    steps: int = Field(3000, ge=1, description="steps of training")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if not self.ratios and not self.fractions:
            raise BadInput("there is no size of the training set", "give ratios or fractions")
        check(groups(self))
        return self

    def counts(self, p: int) -> list[int]:
        """Training pairs for a modulus, rising."""
        whole = p * p
        ratios = {round(ratio * p * math.log(p)) for ratio in self.ratios}
        return sorted(ratios | {math.floor(share * whole + 1e-9) for share in self.fractions})


def groups(spec: GrokkingData) -> list[Group]:
    """A group for each modulus and size; its members are seeds."""
    seeds = tuple(spec.seed + number for number in range(spec.seeds))
    return [
        Group(
            p, spec.width, spec.steps, seeds, (spec.lr,) * spec.seeds, (spec.weight_decay,) * spec.seeds, count=count,
            batch=spec.batch, log_every=max(1, min(100, spec.steps // 20)),
        )
        for p in spec.p
        for count in spec.counts(p)
    ]  # fmt: skip


def work(spec: GrokkingData, state: Any) -> Iterator[Chunk]:
    """A piece of the trainings of one size a chunk."""
    return work_through(groups(spec), (), state)


def layout(spec: GrokkingData) -> Mapping[str, Table]:
    return tables(())


def accuracies(spec: GrokkingData, results: xr.DataTree) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """For each modulus the ratios N/(M ln M) and the last accuracies (ratio, seed)."""
    found, rows = Found(results), {p: ([], []) for p in spec.p}
    for number, group in enumerate(groups(spec)):
        ratios, values = rows[group.p]
        ratios.append((group.count or 0) / (group.p * math.log(group.p)))
        values.append([found.accuracy(number, member) for member in range(spec.seeds)])
    return {p: (np.array(ratios), np.array(values)) for p, (ratios, values) in rows.items()}


def critical(ratios: np.ndarray, values: np.ndarray, p: int) -> Transition:
    """The ratio at which the mean accuracy changes; refused where too few sizes were tried.

    The interval reaches at least over the two sizes between which the mean passes one half: between them no network
    was trained, and the fit alone, which takes the shape of the change for granted, would be too sure.
    """
    name = f"critical N/(M ln M), M = {p}"
    if len(ratios) < FEWEST:
        reason = f"{len(ratios)} sizes do not locate a change: try at least {FEWEST}"
        return Transition(np.nan, np.nan, Status.REFUSED, error_kind="quadrature", reasons=[reason], name=name)
    mean = values.mean(axis=1)
    found = transition(ratios, mean, direction="up", name=name)
    below, above = ratios[mean < 0.5], ratios[mean >= 0.5]
    if found.status is Status.REFUSED or not len(below) or not len(above):
        return found
    low, high = min(found.low, float(below.max())), max(found.high, float(above.min()))
    error = max(float(found.error), (high - low) / 4)
    return Transition(
        found.estimate, error, found.status, found.diagnostics, error_kind="quadrature", reasons=found.reasons,
        name=name, low=low, high=high, before=found.before, after=found.after, width=found.width, chance=found.chance,
    )  # fmt: skip


def conclude(spec: GrokkingData, results: xr.DataTree) -> Conclusion:
    answers: dict[str, Result] = {}
    numbers: dict[str, float | int | None] = {}
    said = []
    for p, (ratios, values) in accuracies(spec, results).items():
        found = critical(ratios, values, p)
        answers[found.name] = Comparison(PRINTED, found, name=found.name)
        mean = values.mean(axis=1)
        below, above = ratios[mean < 0.05], ratios[mean >= 0.95]
        numbers[f"none up to, M = {p}"] = float(below.max()) if len(below) else None
        numbers[f"all from, M = {p}"] = float(above.min()) if len(above) else None
        refused = found.status is Status.REFUSED
        numbers[f"critical, M = {p}"] = None if refused else float(np.asarray(found.estimate))
        span = "is not located" if refused else f"is {found.estimate:.2f} ({found.low:.2f} to {found.high:.2f})"
        said.append(f"M = {p} {span}")
    return Conclusion(answers, f"The critical ratio N/(M ln M) for {'; for '.join(said)}.", numbers)


def figures(spec: GrokkingData, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import COLOURS, blank, legend, points

    figure, axes = blank(height=3.4)
    one = axes[0, 0]
    one.axvspan(2.5, 3.0, color="#888888", alpha=0.2, lw=0, label="printed: 2.5 to 3")
    for number, (p, (ratios, values)) in enumerate(accuracies(spec, results).items()):
        error = values.std(axis=1, ddof=1) / math.sqrt(spec.seeds) if spec.seeds > 1 else None
        points(one, ratios, values.mean(axis=1), error, number=number, label=f"M = {p}")
        found = critical(ratios, values, p)
        if found.status is not Status.REFUSED:
            look = {"color": COLOURS[number % len(COLOURS)], "lw": 3, "alpha": 0.6}
            height = 1.06 + 0.04 * number
            one.plot([found.low, found.high], [height, height], **look)
            one.plot(float(np.asarray(found.estimate)), height, "|", color=look["color"], ms=9)
    one.set_xlabel("scaled size of the training set N/(M ln M)")
    one.set_ylabel(f"validation accuracy, step {spec.steps}")
    legend(one)
    return {
        "critical": Captioned(
            figure,
            "Accuracy on pairs that were not shown, mean and standard error over seeds. Bars above: where the mean "
            "changes, with its 95% interval, at least from size to size.",
        )
    }


RECIPE = Recipe(
    name="grokking-data",
    version=1,
    question="How large must the training set be for the rule to be found, in units of M ln M?",
    spec=GrokkingData,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"p": (7,), "ratios": (1.5, 2.5), "seeds": 2, "width": 16, "steps": 100},
)
