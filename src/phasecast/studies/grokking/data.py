"""How many training pairs does grokking take? Validation accuracy against N/(M ln M), N pairs of modulus M = p.

Figure 14 of Cullen et al. 2026 states that the boundary between no generalisation and grokking lies at a ratio of 2.5
to 3 for every group size M, after Tian 2025.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.answers import Answer
from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Comparison, Prediction, Status
from phasecast.core.statistics import standard_error
from phasecast.grokking.analysis import transition as transitions
from phasecast.grokking.analysis.curves import POLICY
from phasecast.grokking.analysis.transition import Transition, transition
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.tables import Table
from phasecast.studies.grokking.trainings import Group, StoredStudy, Study, check_groups, tables, work_through

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class DataPolicy(Policy):
    """When a size of the training set counts as too small for any generalisation."""

    none: float = rule(0.05, "chosen, not derived: the mirror image of the 0.95 at which a network has generalised")


SIZES = DataPolicy()
LOW, HIGH = 2.5, 3.0  # Cullen et al. 2026, H.3.2: approximately 2.5 to 3
PRINTED = Prediction(
    (LOW + HIGH) / 2,
    regime="M from 53 to 103, at the end of the paper's runs",
    source="Cullen et al. 2026, H.3.2: approximately 2.5 to 3",
    systematic=(HIGH - LOW) / 2,
)


class GrokkingData(Study):
    """Which tables, and how much of each is shown to the network.

    The paper's six fractions are too few to locate a change, so its scale has some ratios as well.
    """

    PAPER: ClassVar[Mapping[str, Any]] = {
        "p": (53, 67, 79, 83, 101, 103), "ratios": (2.0, 2.5, 3.0, 3.5),
        "fractions": (0.1, 0.15, 0.3, 0.4, 0.9, 0.95), "width": 1024, "lr": 1e-3, "weight_decay": 1e-5,
        "batch": 128, "steps": 100_000,
    }  # fmt: skip

    p: tuple[int, ...] = Field(default=(23, 31), min_length=1, description="moduli M")
    ratios: tuple[float, ...] = Field(
        default=(1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0, 3.5, 4.0), description="N/(M ln M), N being the training pairs"
    )
    fractions: tuple[float, ...] = Field(
        default=(), description="fractions of the table to train on, in addition to the ratios"
    )
    seeds: int = Field(default=3, ge=1, le=100, description="networks per size")
    width: int = Field(default=256, ge=1, description="hidden units")
    lr: float = Field(default=5e-3, gt=0, description="learning rate")
    weight_decay: float = Field(default=1e-4, ge=0, description="coefficient of the L2 term")
    batch: int | None = Field(default=None, ge=2, description="rows of a minibatch; null for all")
    steps: int = Field(default=3000, ge=1, description="steps of training")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if not self.ratios and not self.fractions:
            raise BadInput("no size of the training set is set", "give ratios or fractions")
        check_groups(groups(self))
        fewest = transitions.POLICY.fewest_points
        for p in self.p:
            if (sizes := len(self.counts(p))) < fewest:
                raise BadInput(
                    f"{sizes} sizes of the training set do not locate a change for p = {p}",
                    f"give ratios and fractions of at least {fewest} different sizes",
                )
        return self

    def counts(self, p: int) -> list[int]:
        """Training pairs for a modulus, increasing."""
        whole = p * p
        ratios = {round(ratio * p * math.log(p)) for ratio in self.ratios}
        return sorted(ratios | {math.floor(share * whole + 1e-9) for share in self.fractions})


def groups(spec: GrokkingData) -> list[Group]:
    """A group for each modulus and size; its members are seeds."""
    seeds = tuple(spec.seed + number for number in range(spec.seeds))
    return [
        Group(
            p,
            spec.width,
            spec.steps,
            seeds,
            lr=(spec.lr,) * spec.seeds,
            weight_decay=(spec.weight_decay,) * spec.seeds,
            count=count,
            batch=spec.batch,
            log_every=max(1, min(100, spec.steps // 20)),
        )
        for p in spec.p
        for count in spec.counts(p)
    ]


def work(spec: GrokkingData, state: dict[str, Any] | None) -> Iterator[Chunk]:
    """One chunk per piece of the trainings of one size."""
    return work_through(groups(spec), (), state)


def layout(spec: GrokkingData) -> Mapping[str, Table]:
    return tables(())


def accuracies(spec: GrokkingData, results: xr.DataTree) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """For each modulus the ratios N/(M ln M) and the last accuracies (ratio, seed)."""
    stored, rows = StoredStudy(results), {p: ([], []) for p in spec.p}
    for number, group in enumerate(groups(spec)):
        ratios, values = rows[group.p]
        ratios.append((group.count or 0) / (group.p * math.log(group.p)))
        values.append([stored.accuracy(number, member) for member in range(spec.seeds)])
    return {p: (np.array(ratios), np.array(values)) for p, (ratios, values) in rows.items()}


def critical(ratios: np.ndarray, values: np.ndarray, p: int) -> Transition:
    """The ratio at which the mean accuracy changes; refused if too few sizes were tried.

    The interval contains at least the two sizes between which the mean passes one half: no network was trained between
    them, and the fit alone, which assumes the shape of the change, would be too narrow.
    """
    name, fewest = f"critical N/(M ln M), M = {p}", transitions.POLICY.fewest_points
    if len(ratios) < fewest:
        reason = f"{len(ratios)} sizes do not locate a change: try at least {fewest}"
        return Transition.refused(reason, error_kind="resolution", name=name, policy=transitions.POLICY.plain())
    mean = values.mean(axis=1)
    fitted = transition(ratios, mean, direction="up", name=name)
    below, above = ratios[mean < POLICY.half], ratios[mean >= POLICY.half]
    if fitted.status is Status.REFUSED or not len(below) or not len(above):
        return fitted
    low, high = min(fitted.low, float(below.max())), max(fitted.high, float(above.min()))
    if (low, high) != (fitted.low, fitted.high):
        error = transitions.error_of_interval(low, high)
        fitted = dataclasses.replace(fitted, low=low, high=high, error=error, error_kind="resolution")
    return fitted


def conclude(spec: GrokkingData, results: xr.DataTree) -> Conclusion:
    answers: list[Answer] = []
    numbers: dict[str, float | int | None] = {}
    clauses = []
    for p, (ratios, values) in accuracies(spec, results).items():
        change = critical(ratios, values, p)
        answers.append(Answer("critical-ratio", Comparison(PRINTED, change, name=change.name), change.name, {"p": p}))
        mean = values.mean(axis=1)
        below, above = ratios[mean < SIZES.none], ratios[mean >= POLICY.generalised]
        located = change.status is not Status.REFUSED
        numbers[f"none up to, M = {p}"] = float(below.max()) if len(below) else None
        numbers[f"all from, M = {p}"] = float(above.min()) if len(above) else None
        numbers[f"critical, M = {p}"] = float(change) if located else None
        span = f"is {float(change):.2f} ({change.low:.2f} to {change.high:.2f})" if located else "is not located"
        clauses.append(f"M = {p} {span}")
    return Conclusion(answers, f"The critical ratio N/(M ln M) for {'; for '.join(clauses)}.", numbers)


def figures(spec: GrokkingData, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import COLOURS, EXACT, blank, legend, points

    figure, axes = blank(height=3.4)
    one = axes[0, 0]
    one.axvspan(LOW, HIGH, color=EXACT["color"], alpha=0.2, lw=0, label=f"printed: {LOW:g} to {HIGH:g}")
    for number, (p, (ratios, values)) in enumerate(accuracies(spec, results).items()):
        error = standard_error(values, axis=1) if spec.seeds > 1 else None
        points(one, ratios, values.mean(axis=1), error, number=number, label=f"M = {p}")
        change = critical(ratios, values, p)
        if change.status is not Status.REFUSED:
            colour, height = COLOURS[number % len(COLOURS)], 1.06 + 0.04 * number
            one.plot([change.low, change.high], [height, height], color=colour, lw=3, alpha=0.6)
            one.plot(float(change), height, "|", color=colour, ms=9)
    one.set_xlabel("scaled size of the training set N/(M ln M)")
    one.set_ylabel(f"validation accuracy, step {spec.steps}")
    legend(one)
    return {
        "critical": Captioned(
            figure,
            "Accuracy on held-out pairs, mean and standard error over seeds. The bars at the top mark where the mean "
            "changes, with its 95% interval, which spans at least two neighbouring sizes.",
        )
    }


RECIPE = Recipe(
    name="grokking-data",
    version=1,
    question="How large must the training set be for a network to learn the rule, in units of M ln M?",
    spec=GrokkingData,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"p": (7,), "ratios": (0.6, 0.9, 1.2, 1.5, 1.8, 2.1, 2.4, 2.7), "seeds": 1, "width": 16, "steps": 100},
)
