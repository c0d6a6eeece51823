"""How wide must the network be, and how wide is what it learns? Widths around the smallest, trained on past grokking.

Remark 5.4 of Cullen et al. 2026 asks for about 2p−1 units; 2(p−1) are enough and 3(p−1)/2 necessary. Section 6.2 says
that wider networks keep more units; K_eff is counted when a network has just generalised and when it was trained on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.results import Comparison, Measurement, Prediction, Result, Status
from phasecast.grokking.analysis.curves import GENERALISED, crossing
from phasecast.grokking.analysis.decay_fits import straight_line
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.tables import Table
from phasecast.studies.grokking.trainings import Found, Group, Study, check, tables, work_through

if TYPE_CHECKING:
    import xarray as xr

SOLUTION = "4 units for each of the (p−1)/2 frequencies"
SECTION = "Cullen et al. 2026, section 6.2: in proportion to the width, as λ̂"


class GrokkingWidth(Study):
    """Which widths, and how they are trained."""

    PAPER: ClassVar[Mapping[str, Any]] = {
        "p": (53,), "widths": (78, 90, 104, 128, 256, 512, 600, 800, 1000, 1024), "lr": 1e-3, "weight_decay": 1e-5,
        "batch": 128, "steps": 100_000,
    }  # fmt: skip

    p: tuple[int, ...] = Field((23,), min_length=1, description="moduli")
    widths: tuple[int, ...] = Field((33, 38, 44, 56, 80, 128, 192, 256), min_length=1, description="hidden units K")
    seeds: int = Field(3, ge=1, le=100, description="networks for each width")
    fraction: float = Field(0.4, description="share of the table to train on")
    lr: float = Field(5e-3, gt=0, description="learning rate")
    weight_decay: float = Field(1e-4, ge=0, description="coefficient of the L2 term")
    batch: int | None = Field(None, ge=2, description="rows of a minibatch; null for all")
    steps: int = Field(5000, ge=1, description="steps of training")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        check(groups(self))
        return self


def groups(spec: GrokkingWidth) -> list[Group]:
    """A group for each modulus and width; its members are seeds; widths are counted at 50 steps evenly over time."""
    seeds = tuple(spec.seed + number for number in range(spec.seeds))
    counted = tuple(sorted({round(float(step)) for step in np.linspace(0, spec.steps, 51)}))
    return [
        Group(
            p, width, spec.steps, seeds, (spec.lr,) * spec.seeds, (spec.weight_decay,) * spec.seeds, spec.fraction,
            None, spec.batch, log_every=max(1, min(50, spec.steps // 20)), checkpoints=counted,
        )
        for p in spec.p
        for width in spec.widths
    ]  # fmt: skip


def work(spec: GrokkingWidth, state: Any) -> Iterator[Chunk]:
    """A piece of the trainings of one width a chunk."""
    return work_through(groups(spec), (), state)


def layout(spec: GrokkingWidth) -> Mapping[str, Table]:
    return tables(())


def widths_of(spec: GrokkingWidth, results: xr.DataTree) -> dict[int, dict[str, np.ndarray]]:
    """For each modulus, (width, seed): last accuracy, K_eff when just generalised (NaN if never), and at the end."""
    found, rows = Found(results), {}
    for number, group in enumerate(groups(spec)):
        row = rows.setdefault(group.p, {name: [] for name in ("accuracy", "just", "end")})
        accuracy, just, end = [], [], []
        for member in range(spec.seeds):
            seen = found.curves(number, member)
            step = crossing(seen["step"], seen["validation_accuracy"], GENERALISED)
            counted, alive = found.widths(number, member)
            accuracy.append(seen["validation_accuracy"][-1])
            just.append(math.nan if step is None else alive[np.searchsorted(counted, min(step, counted[-1]))])
            end.append(alive[-1])
        for name, column in (("accuracy", accuracy), ("just", just), ("end", end)):
            row[name].append(column)
    return {p: {name: np.array(columns, dtype=float) for name, columns in row.items()} for p, row in rows.items()}


def conclude(spec: GrokkingWidth, results: xr.DataTree) -> Conclusion:
    answers: dict[str, Result] = {}
    numbers: dict[str, float | int | None] = {}
    said = []
    wide = np.array(spec.widths, dtype=float)
    for p, seen in widths_of(spec, results).items():
        learned = (seen["accuracy"] >= GENERALISED).all(axis=1)
        above = learned & (wide >= 2 * (p - 1))
        end, just = seen["end"][above], seen["just"][above]
        settled = _mean(end, f"K_eff at step {spec.steps}, p = {p}")
        answers[settled.name] = Comparison(
            Prediction(2 * (p - 1), "trained on past generalising", SOLUTION), settled, name=settled.name
        )
        early = f"K_eff per unit of width, just generalised, p = {p}"
        late = f"K_eff per unit of width, at step {spec.steps}, p = {p}"
        if len(just) >= 3:
            answers[early] = straight_line(np.repeat(wide[above], spec.seeds), just.ravel(), name=early)
            line = straight_line(np.repeat(wide[above], spec.seeds), end.ravel(), name=late)
            answers[late] = Comparison(Prediction(0, "trained on past generalising", SOLUTION), line, name=late)
        smallest = float(wide[learned].min()) if learned.any() else None
        numbers[f"smallest width that generalised, p = {p}"] = smallest
        numbers[f"necessary, p = {p}"] = 3 * (p - 1) // 2
        numbers[f"enough, p = {p}"] = 2 * (p - 1)
        numbers[f"k_eff, p = {p}"] = float(np.median(end)) if end.size else None
        numbers[f"k_eff just generalised, p = {p}"] = float(np.median(just)) if just.size else None
        numbers[f"networks at 2(p−1), p = {p}"] = int(np.sum(end == 2 * (p - 1)))
        numbers[f"networks, p = {p}"] = int(end.size)
        said.append(
            f"p = {p}: the smallest width that generalised with every seed is "
            f"{'none' if smallest is None else f'{smallest:.0f}'}; {np.sum(end == 2 * (p - 1))} of {end.size} networks "
            f"at least 2(p−1) wide that generalised keep 2(p−1) = {2 * (p - 1)} units"
        )
    return Conclusion(answers, "; ".join(said) + ".", numbers)


def _mean(values: np.ndarray, name: str) -> Measurement:
    """The mean over networks; refused without any, and with a count's own resolution for an error where they agree."""
    if values.size == 0:
        reason = "no network generalised with every seed: train for longer, or wider ones"
        return Measurement(math.nan, math.nan, Status.REFUSED, error_kind="seeds", reasons=[reason], name=name)
    error = max(float(values.std()) / math.sqrt(values.size), 0.5 / values.size)
    return Measurement(float(values.mean()), error, error_kind="seeds", name=name)


def figures(spec: GrokkingWidth, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import EXACT, blank, legend, log_axis, points

    found = widths_of(spec, results)
    figure, axes = blank(len(found), 2, height=3.3 * len(found))
    wide = np.array(spec.widths, dtype=float)
    for (left, right), (p, seen) in zip(axes, found.items(), strict=True):
        learned = (seen["accuracy"] >= GENERALISED).all(axis=1)
        error = seen["accuracy"].std(axis=1) / math.sqrt(spec.seeds)
        points(left, wide, seen["accuracy"].mean(axis=1), error, number=0, label="mean over seeds")
        for number, (name, label) in enumerate((("just", "just generalised"), ("end", f"at step {spec.steps}")), 1):
            shown = seen[name].mean(axis=1)
            spread = seen[name].std(axis=1) / math.sqrt(spec.seeds)
            points(right, wide, shown, spread, number=number, label=label, hollow=~learned)
        right.plot(wide, wide, ":", color="#999999", lw=1, label="K_eff = K")
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
            "Left: accuracy at the end over the width. Right: units alive when validation accuracy first passed 0.95, "
            "and at the end. Hollow: not every seed generalised.",
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
