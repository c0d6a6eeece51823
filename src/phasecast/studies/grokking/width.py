"""How wide must the network be, and how many units does it end up using? Widths around the smallest possible one.

Remark 5.4 of Cullen et al. 2026 requires about 2p−1 units; 2(p−1) suffice and 3(p−1)/2 are necessary. Section 6.2
states that wider networks keep more units. K_eff is counted when a network has just generalised and after further
training.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.answers import Answer
from phasecast.core.results import Comparison, Measurement, Prediction
from phasecast.grokking.analysis.curves import POLICY, first_step_at
from phasecast.grokking.analysis.decay_fits import straight_line
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.tables import Table
from phasecast.studies.grokking.trainings import Group, StoredStudy, Study, check_groups, tables, work_through

if TYPE_CHECKING:
    import xarray as xr

SOLUTION = "4 units for each of the (p−1)/2 frequencies"
FEWEST_WIDTHS = 3  # a line has two constants; a third width is the first to test it


class GrokkingWidth(Study):
    """Which widths, and how they are trained."""

    PAPER: ClassVar[Mapping[str, Any]] = {
        "p": (53,), "widths": (78, 90, 104, 128, 256, 512, 600, 800, 1000, 1024), "lr": 1e-3, "weight_decay": 1e-5,
        "batch": 128, "steps": 100_000,
    }  # fmt: skip

    p: tuple[int, ...] = Field(default=(23,), min_length=1, description="moduli")
    widths: tuple[int, ...] = Field(
        default=(33, 38, 44, 56, 80, 128, 192, 256), min_length=1, description="hidden units K"
    )
    seeds: int = Field(default=3, ge=1, le=100, description="networks per width")
    fraction: float = Field(default=0.4, description="share of the table to train on")
    lr: float = Field(default=5e-3, gt=0, description="learning rate")
    weight_decay: float = Field(default=1e-4, ge=0, description="coefficient of the L2 term")
    batch: int | None = Field(default=None, ge=2, description="rows of a minibatch; null for all")
    steps: int = Field(default=5000, ge=1, description="steps of training")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        check_groups(groups(self))
        return self


def groups(spec: GrokkingWidth) -> list[Group]:
    """A group for each modulus and width; its members are seeds; K_eff is counted at 50 steps spread evenly in time."""
    seeds = tuple(spec.seed + number for number in range(spec.seeds))
    counted = tuple(sorted({round(float(step)) for step in np.linspace(0, spec.steps, 51)}))
    return [
        Group(
            p,
            width,
            spec.steps,
            seeds,
            lr=(spec.lr,) * spec.seeds,
            weight_decay=(spec.weight_decay,) * spec.seeds,
            fraction=spec.fraction,
            batch=spec.batch,
            log_every=max(1, min(50, spec.steps // 20)),
            checkpoints=counted,
        )
        for p in spec.p
        for width in spec.widths
    ]


def work(spec: GrokkingWidth, state: dict[str, Any] | None) -> Iterator[Chunk]:
    """One chunk per piece of the trainings of one width."""
    return work_through(groups(spec), (), state)


def layout(spec: GrokkingWidth) -> Mapping[str, Table]:
    return tables(())


def widths_of(spec: GrokkingWidth, results: xr.DataTree) -> dict[int, dict[str, np.ndarray]]:
    """For each modulus, (width, seed): last accuracy, K_eff when just generalised (NaN if never), and at the end."""
    stored, rows = StoredStudy(results), {}
    for number, group in enumerate(groups(spec)):
        row = rows.setdefault(group.p, {name: [] for name in ("accuracy", "just", "end")})
        accuracy, just, end = [], [], []
        for member in range(spec.seeds):
            curves = stored.curves(number, member)
            step = first_step_at(curves["step"], curves["validation_accuracy"], POLICY.generalised)
            counted, alive = stored.widths(number, member)
            accuracy.append(curves["validation_accuracy"][-1])
            just.append(math.nan if step is None else alive[np.searchsorted(counted, min(step, counted[-1]))])
            end.append(alive[-1])
        for name, column in (("accuracy", accuracy), ("just", just), ("end", end)):
            row[name].append(column)
    return {p: {name: np.array(columns, dtype=float) for name, columns in row.items()} for p, row in rows.items()}


def conclude(spec: GrokkingWidth, results: xr.DataTree) -> Conclusion:
    answers: list[Answer] = []
    numbers: dict[str, float | int | None] = {}
    clauses = []
    widths = np.array(spec.widths, dtype=float)
    for p, counts in widths_of(spec, results).items():
        enough = 2 * (p - 1)
        learned = (counts["accuracy"] >= POLICY.generalised).all(axis=1)
        above = learned & (widths >= enough)
        end, just = counts["end"][above], counts["just"][above]
        settled = _mean(end, f"K_eff at step {spec.steps}, p = {p}")
        exact = Prediction(enough, "trained beyond generalisation", SOLUTION)
        compared = Comparison(exact, settled, name=settled.name)
        answers.append(Answer("effective-width", compared, settled.name, {"p": p}))
        if len(just) >= FEWEST_WIDTHS:
            answers += _slopes(np.repeat(widths[above], spec.seeds), just.ravel(), end.ravel(), p, spec.steps)
        smallest = float(widths[learned].min()) if learned.any() else None
        numbers[f"smallest width that generalised, p = {p}"] = smallest
        numbers[f"necessary, p = {p}"] = 3 * (p - 1) // 2
        numbers[f"enough, p = {p}"] = enough
        numbers[f"k_eff, p = {p}"] = float(np.median(end)) if end.size else None
        numbers[f"k_eff just generalised, p = {p}"] = float(np.median(just)) if just.size else None
        numbers[f"networks at 2(p−1), p = {p}"] = int(np.sum(end == enough))
        numbers[f"networks, p = {p}"] = int(end.size)
        clauses.append(
            f"p = {p}: the smallest width that generalised with every seed is "
            f"{'none' if smallest is None else f'{smallest:.0f}'}; of {end.size} networks at least 2(p−1) wide that "
            f"generalised, {np.sum(end == enough)} keep 2(p−1) = {enough} units"
        )
    return Conclusion(answers, "; ".join(clauses) + ".", numbers)


def _slopes(widths: np.ndarray, just: np.ndarray, end: np.ndarray, p: int, steps: int) -> list[Answer]:
    """K_eff per unit of width, when the networks have just generalised and at the end, where it should be 0."""
    early = f"K_eff per unit of width, just generalised, p = {p}"
    late = f"K_eff per unit of width, at step {steps}, p = {p}"
    first = straight_line(widths, just, name=early, error_kind="seeds")
    last = straight_line(widths, end, name=late, error_kind="seeds")
    compared = Comparison(Prediction(0, "trained beyond generalisation", SOLUTION), last, name=late)
    return [
        Answer("width-slope", first, early, {"p": p, "when": "just-generalised"}),
        Answer("width-slope", compared, late, {"p": p, "when": "end"}),
    ]


def _mean(values: np.ndarray, name: str) -> Measurement:
    """The mean over networks; refused without any. If all counts agree, the error is half a unit over their number."""
    if values.size == 0:
        reason = "no width generalised with every seed: train for longer, or wider networks"
        return Measurement.refused(reason, error_kind="seeds", name=name)
    over_seeds, resolution = float(values.std()) / math.sqrt(values.size), 0.5 / values.size
    kind = "seeds" if over_seeds >= resolution else "resolution"
    return Measurement(float(values.mean()), max(over_seeds, resolution), error_kind=kind, name=name)


def figures(spec: GrokkingWidth, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import EXACT, blank, legend, log_axis, points

    counts = widths_of(spec, results)
    figure, axes = blank(len(counts), 2, height=3.3 * len(counts))
    wide = np.array(spec.widths, dtype=float)
    for (left, right), (p, count) in zip(axes, counts.items(), strict=True):
        learned = (count["accuracy"] >= POLICY.generalised).all(axis=1)
        error = count["accuracy"].std(axis=1) / math.sqrt(spec.seeds)
        points(left, wide, count["accuracy"].mean(axis=1), error, number=0, label="mean over seeds")
        for number, (name, label) in enumerate((("just", "just generalised"), ("end", f"at step {spec.steps}")), 1):
            mean = count[name].mean(axis=1)
            spread = count[name].std(axis=1) / math.sqrt(spec.seeds)
            points(right, wide, mean, spread, number=number, label=label, hollow=~learned)
        right.plot(wide, wide, ":", color=EXACT["color"], lw=1, label="K_eff = K")
        right.axhline(2 * (p - 1), **EXACT, label="2(p−1)")
        for value, words, style in ((3 * (p - 1) / 2, "necessary 3(p−1)/2", ":"), (2 * (p - 1), "enough 2(p−1)", "--")):
            left.axvline(value, **{**EXACT, "ls": style}, label=words)
        left.set_ylabel(f"validation accuracy, p = {p}")
        right.set_ylabel("effective width K_eff")
        for one in (left, right):
            log_axis(one, spec.widths)
            one.set_xlabel("hidden width K")
            legend(one)
    return {
        "width": Captioned(
            figure,
            "Left: accuracy at the end against the width. Right: units in use when validation accuracy first passed "
            f"{POLICY.generalised:g}, and at the end. Hollow: not every seed generalised.",
        )
    }


RECIPE = Recipe(
    name="grokking-width",
    version=1,
    question="How wide must a network be to find the rule, and how many of its units carry the rule in the end?",
    spec=GrokkingWidth,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"p": (7,), "widths": (12, 16, 24), "seeds": 2, "fraction": 0.7, "lr": 1e-2, "steps": 200},
)
