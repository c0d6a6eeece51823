"""When do small networks grok, over moduli, amounts of data, learning rates and weight decays? The bank of forecasts.

Quadratic networks of width 5p are trained on modular addition with Adam and an L2 term, full batch, in two designs: a
*grid* of fractions of the table with learning rate and weight decay from three levels each, and a *zone* of ratios
N/(p ln p) around the critical one, where generalisation comes late, with both drawn log-uniformly. Some settings are
trained with a second seed: how much two seeds differ bounds every forecast from settings alone.

The bank that ships with the package is a run of this study with its defaults, packed in Python::

    from phasecast.lab import run
    from phasecast.studies.grokking.bank import RECIPE, bank_of
    done = run("grokking-bank")  # about ten minutes of one core; resumes if it was stopped
    bank_of(done.spec, done.results).save("src/phasecast/forecasting/bank.npz")
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.answers import Answer
from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement
from phasecast.forecasting.bank import CURVE_NAMES, Bank, BankRun
from phasecast.forecasting.settings import Settings
from phasecast.grokking.analysis.curves import POLICY, first_step_at
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.spec import Spec
from phasecast.lab.tables import Table
from phasecast.studies.grokking.trainings import Group, StoredStudy, check_groups, tables, work_through

if TYPE_CHECKING:
    import xarray as xr

WIDTH = 5  # hidden units per p: 2(p−1) suffice, and networks this wide find them with every seed
GRID_SEEDS, ZONE_SEEDS = 2, 1  # settings per cell that are trained with a second seed
FEWEST_PAIRS = 3  # a median of fewer differences has no spread to speak of


class GrokkingBank(Spec):
    """Which trainings the bank holds."""

    p: tuple[int, ...] = Field(default=(13, 17, 19, 23, 29), min_length=1, description="moduli")
    fractions: tuple[float, ...] = Field(
        default=(0.4, 0.5, 0.6, 0.7, 0.8), description="grid: fractions of the table to train on"
    )
    zones: int = Field(default=6, ge=0, le=100, description="zone: sizes of the training set per modulus")
    lowest: float = Field(default=2.5, gt=0, description="zone: lowest N/(p ln p)")
    highest: float = Field(default=3.8, gt=0, description="zone: highest N/(p ln p)")
    runs: int = Field(default=7, ge=3, le=100, description="trainings per modulus and size of the training set")
    lr: tuple[float, float, float] = Field(default=(1e-3, 2e-3, 5e-3), description="learning rates, increasing")
    weight_decay: tuple[float, float, float] = Field(
        default=(5e-5, 1e-4, 2e-4), description="coefficients of the L2 term, increasing"
    )
    steps: int = Field(default=8000, ge=100, le=1_000_000, description="steps of training")
    log_every: int = Field(default=20, ge=1, description="steps between logged losses and accuracies")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for name, levels in (("lr", self.lr), ("weight_decay", self.weight_decay)):
            if not 0 < levels[0] < levels[1] < levels[2]:
                raise BadInput(f"{name} is {levels}", "give three positive, increasing numbers")
        if self.lowest >= self.highest:
            raise BadInput(f"the zone reaches from {self.lowest:g} to {self.highest:g}", "use lowest < highest")
        if not self.fractions and not self.zones:
            raise BadInput("no size of the training set is set", "give fractions or zones")
        check_groups(groups(self))
        return self


def groups(spec: GrokkingBank) -> list[Group]:
    """A group for each modulus and size; the moduli take turns, so that a part of the study is a smaller bank."""
    draw = np.random.default_rng([spec.seed, 17])
    sizes: list[tuple[bool, int, int]] = []
    for number in range(max(len(spec.fractions), spec.zones)):
        for p in spec.p:
            if number < spec.zones:
                place = (number + draw.uniform()) / spec.zones
                ratio = spec.lowest + (spec.highest - spec.lowest) * place
                sizes.append((False, p, round(ratio * p * math.log(p))))
            if number < len(spec.fractions):
                sizes.append((True, p, math.floor(spec.fractions[number] * p * p + 1e-9)))
    return [_group(spec, draw, number, *size) for number, size in enumerate(sizes)]


def _group(spec: GrokkingBank, draw: np.random.Generator, number: int, grid: bool, p: int, count: int) -> Group:
    """The trainings of one size; the last ones repeat the settings of the first ones with other seeds."""
    again = min(GRID_SEEDS if grid else ZONE_SEEDS, spec.runs // 2)
    if grid:
        places = draw.permutation(9)[np.arange(spec.runs - again) % 9]
        rates = np.array(spec.lr)[places // 3]
        decays = np.array(spec.weight_decay)[places % 3]
    else:
        rates, decays = (
            np.exp(draw.uniform(math.log(levels[0]), math.log(levels[2]), spec.runs - again))
            for levels in (spec.lr, spec.weight_decay)
        )
    first = spec.seed + number * spec.runs
    return Group(
        p,
        WIDTH * p,
        spec.steps,
        tuple(range(first, first + spec.runs)),
        lr=tuple(float(f"{rate:.4g}") for rate in (*rates, *rates[:again])),
        weight_decay=tuple(float(f"{decay:.4g}") for decay in (*decays, *decays[:again])),
        count=count,
        log_every=spec.log_every,
    )


def work(spec: GrokkingBank, state: dict[str, Any] | None) -> Iterator[Chunk]:
    """One chunk per piece of the trainings of one size."""
    return work_through(groups(spec), (), state)


def layout(spec: GrokkingBank) -> Mapping[str, Table]:
    return tables(())


def outcomes(spec: GrokkingBank, results: xr.DataTree) -> dict[str, np.ndarray]:
    """One entry per training: p, n, lr, weight_decay, and the steps train99 and val50 (NaN if not reached)."""
    stored, rows = StoredStudy(results), []
    for number, group in enumerate(groups(spec)):
        for member, (lr, decay) in enumerate(zip(group.lr, group.weight_decay, strict=True)):
            curves = stored.curves(number, member)
            known = first_step_at(curves["step"], curves["train_accuracy"], POLICY.memorised)
            half = first_step_at(curves["step"], curves["validation_accuracy"], POLICY.half)
            steps = [math.nan if step is None else step for step in (known, half)]
            rows.append((group.p, group.pairs, lr, decay, *steps))
    names = ("p", "n", "lr", "weight_decay", "train99", "val50")
    return dict(zip(names, np.array(rows, dtype=float).T, strict=True))


def bank_of(spec: GrokkingBank, results: xr.DataTree) -> Bank:
    """The trainings of a run as a bank to forecast from; the part that is finished, if it is still running."""
    stored, runs = StoredStudy(results), []
    for number, group in enumerate(groups(spec)):
        for member, (lr, decay) in enumerate(zip(group.lr, group.weight_decay, strict=True)):
            curves = stored.curves(number, member)
            if curves["step"].size and curves["step"][-1] == spec.steps:
                settings = Settings("addition", group.p, group.pairs, lr, decay, group.width)
                step, train, validation, loss = (curves[name] for name in CURVE_NAMES)
                runs.append(BankRun(settings, step, train, validation, loss))
    return Bank(tuple(runs), "grokking-bank")


def conclude(spec: GrokkingBank, results: xr.DataTree) -> Conclusion:
    table = outcomes(spec, results)
    count, half = len(table["val50"]), table["val50"]
    share = float(np.isfinite(half).mean())
    error = math.sqrt(max(share * (1 - share), 1 / count) / count)
    reached = f"share of networks that generalise within {spec.steps} steps"
    answers = [Answer("share-generalised", Measurement(share, error, error_kind="seeds", name=reached), reached)]
    label = "difference of ln val50 between two seeds of one setting"
    answers.append(Answer("seed-noise", _seed_noise(table, label), label))
    never = int(np.isnan(half).sum())
    return Conclusion(
        answers,
        f"{count} trainings: {count - never} pass 50% validation accuracy within {spec.steps} steps, {never} do not.",
        {"trainings": count, "never": never},
    )


def _seed_noise(table: dict[str, np.ndarray], name: str) -> Measurement:
    """The median of |Δ ln val50| over pairs of trainings that differ in the seed only."""
    settings = np.stack([table[key] for key in ("p", "n", "lr", "weight_decay")], axis=1)
    known = np.isfinite(table["val50"]) & (table["val50"] > 0)
    _, label = np.unique(settings, axis=0, return_inverse=True)
    pairs = [np.flatnonzero(known & (label == one)) for one in np.unique(label[known])]
    gaps = np.array([abs(np.diff(np.log(table["val50"][pair[:2]]))[0]) for pair in pairs if len(pair) > 1])
    if len(gaps) < FEWEST_PAIRS:
        return Measurement.refused(f"{len(gaps)} settings generalised with two seeds", error_kind="seeds", name=name)
    error = 1.25 * float(gaps.std()) / math.sqrt(len(gaps))
    return Measurement(float(np.median(gaps)), error, error_kind="seeds", name=name)


def figures(spec: GrokkingBank, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import blank, legend, points

    table = outcomes(spec, results)
    ratio = table["n"] / (table["p"] * np.log(table["p"]))
    never = np.isnan(table["val50"])
    figure, ((axis,),) = blank(1, 1)
    for number, p in enumerate(spec.p):
        rows = table["p"] == p
        height = np.where(never, spec.steps, table["val50"])[rows]
        points(axis, ratio[rows], height, None, number=number, label=f"p = {p}", hollow=never[rows])
    axis.set_yscale("log")
    axis.set_xlabel("N / (p ln p)")
    axis.set_ylabel("step of validation accuracy 0.5")
    legend(axis)
    return {"bank": Captioned(figure, "When each network generalised; hollow: not within the training.")}


RECIPE = Recipe(
    name="grokking-bank",
    version=1,
    question="When do small networks grok, over moduli, amounts of data, learning rates and weight decays?",
    spec=GrokkingBank,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"p": (7,), "fractions": (0.7,), "zones": 1, "runs": 3, "lr": (5e-3, 1e-2, 2e-2), "steps": 200},
)
