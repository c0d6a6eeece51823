"""What have earlier trainings done? A bank of finished runs: their settings, their logs, and when they generalised.

The bank that ships with the package is a run of the study ``grokking-bank``: quadratic networks on modular addition,
p from 13 to 29. A forecast is made inside the range of its bank only; :meth:`Bank.range_problems` says why settings are
outside.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule
from phasecast.forecasting.settings import Settings, TableSize
from phasecast.grokking.analysis.curves import POLICY as GROKKING
from phasecast.grokking.analysis.curves import first_step_at
from phasecast.grokking.tasks import MODULAR

FORMAT = 1  # of the file; raise it when its arrays change
SHIPPED = "bank.npz"


@dataclass(frozen=True)
class BankPolicy(Policy):
    """How far outside the settings of a bank a forecast may be made."""

    slack: float = rule(1.1, "p = 31 from moduli up to 29 is as good as inside (benchmarks/forecast_scores.py)")
    rounding: float = rule(1.001, "numbers in a log are rounded: lr = 0.005 is inside a bank that ends at 0.00500")
    start: float = rule(1.02, "L(0) of the centred squared loss is ½(1 − 1/p): 2% spans p from 10 to 50")
    family: float = rule(1.5, "ratio of moduli within one kind of training: from 13 to 19, where the law was checked")
    rows: float = rule(1.2, "ratio of N/(p ln p) within one kind: the law is steep near the border of never")
    drive: float = rule(4.0, "ratio of learning rates or weight decays within one kind: the clock law holds over it")
    fewest: int = rule(25, "below 25 runs the settings law alone is better than its correction by the log (prototype)")


POLICY = BankPolicy()


class LoggedCurves(Protocol):
    """A log: what a training wrote down."""

    @property
    def step(self) -> np.ndarray: ...
    @property
    def train_accuracy(self) -> np.ndarray: ...
    @property
    def validation_accuracy(self) -> np.ndarray: ...
    @property
    def validation_loss(self) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class BankRun:
    """One finished training: its settings and its log."""

    settings: Settings
    step: np.ndarray
    train_accuracy: np.ndarray
    validation_accuracy: np.ndarray
    validation_loss: np.ndarray
    outcome: float | None = field(default=None)
    """val50 as the full log shows it, if this one is thinned."""

    @cached_property
    def train99(self) -> int | None:
        """The first logged step with 99% of the training rows learned."""
        return first_step_at(self.step, self.train_accuracy, GROKKING.memorised)

    @cached_property
    def val50(self) -> float | None:
        """The first logged step with validation accuracy 50%; None if the training ended before."""
        if self.outcome is not None:
            return self.outcome
        step = first_step_at(self.step, self.validation_accuracy, GROKKING.half)
        return None if step is None else float(step)

    @cached_property
    def read(self) -> dict[float, object]:
        """What was read from the log at a step, so that it is read once."""
        return {}

    @property
    def window(self) -> float:
        """The last step that was logged."""
        return float(self.step[-1])

    def thinned(self, spacing: float) -> BankRun:
        """The run as a log with fewer rows would show it; its outcome stays."""
        stride = stride_of(self.step, spacing)
        if stride == 1:
            return self
        cut = {name: getattr(self, name)[::stride] for name in CURVE_NAMES}
        return replace(self, **cut, outcome=self.val50)


CURVE_NAMES = ("step", "train_accuracy", "validation_accuracy", "validation_loss")


def stride_of(step: np.ndarray, spacing: float) -> int:
    """Of every how many rows one is kept, for rows about ``spacing`` steps apart."""
    return max(1, round(spacing / float(np.median(np.diff(step)))))


@dataclass(frozen=True, eq=False)
class Bank:
    """Finished trainings to forecast from.

    >>> bank = shipped_bank()
    >>> len(bank) >= 300, sorted({run.settings.p for run in bank})
    (True, [13, 17, 19, 23, 29])
    """

    runs: tuple[BankRun, ...]
    name: str = "bank"
    others: tuple[BankRun, ...] = ()
    """Finished runs outside the range of ``runs``: other kinds of training, for forecasts within their kind."""

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[BankRun]:
        return iter(self.runs)

    @cached_property
    def window(self) -> float:
        """The last step that any run has seen: nothing is known about later ones."""
        return max((run.window for run in self.runs), default=0.0)

    @cached_property
    def spacing(self) -> float:
        """The typical number of steps between two rows of a log."""
        return float(np.median([np.median(np.diff(run.step)) for run in self.runs]))

    def thinned(self, spacing: float) -> Bank:
        """The bank as logs with this many steps between two rows would show it."""
        if spacing <= self.spacing:
            return self
        if spacing not in self._thinned:
            self._thinned[spacing] = Bank(tuple(run.thinned(spacing) for run in self.runs), self.name)
        return self._thinned[spacing]

    @cached_property
    def _thinned(self) -> dict[float, Bank]:
        return {}

    @cached_property
    def fits(self) -> dict[object, object]:
        """What was fitted to this bank, so that a second forecast does not fit again."""
        return {}

    def without(self, p: int) -> Bank:
        """The bank without the runs of one modulus."""
        return Bank(tuple(run for run in self.runs if run.settings.p != p), self.name)

    def extended(self, runs: Iterable[BankRun]) -> Bank:
        """The bank with more runs; those outside its range are kept apart, those that never memorise are left out."""
        more = [run for run in runs if run.train99 is not None]
        inside = tuple(run for run in more if self.runs and not self.range_problems(run.settings))
        outside = tuple(run for run in more if run not in inside)
        if not more:
            return self
        name = f"{self.name} and {len(inside)} more" if inside else self.name
        return Bank((*self.runs, *inside), name, (*self.others, *outside))

    def family(self, settings: Settings) -> list[BankRun]:
        """The runs kept apart that are of the same kind as these settings."""
        return [run for run in self.others if _same_kind(run.settings, settings)]

    def range_problems(self, settings: Settings) -> list[str]:
        """Why settings are outside what the bank has seen, each with what to do; empty if they are inside."""
        if not self.runs:
            return ["the bank is empty; use a lone log"]
        return [*self._other_kinds(settings), *self._outside_ranges(settings)]

    def log_problems(self, log: LoggedCurves) -> list[str]:
        """Why a log is of another kind of training than those of the bank; empty if it may be of the same."""
        starts = [float(run.validation_loss[0]) for run in self.runs]
        start = float(log.validation_loss[0])
        low, high = min(starts) / POLICY.start, max(starts) * POLICY.start
        if not low <= start <= high:
            return [
                f"the validation loss starts at {start:.4g}, in the bank at {min(starts):.4g} to {max(starts):.4g}: "
                "another loss or another number of classes; use the log alone"
            ]
        return []

    def _other_kinds(self, settings: Settings) -> Iterator[str]:
        known = [run.settings for run in self.runs]
        for name, label in (("network", "network"), ("optimiser", "optimiser"), ("beta2", "β₂")):
            choices = sorted({getattr(one, name) for one in known})
            if getattr(settings, name) not in choices:
                listed = ", ".join(map(str, choices))
                yield f"{label} {getattr(settings, name)} is not in the bank ({listed}); add finished runs of yours"
        if settings.task not in MODULAR:
            yield f"the task {settings.task} is not in the bank (rules modulo p); add finished runs of yours"
        if not settings.full_batch and not any(one.batch == settings.batch for one in known):
            yield f"minibatches of {settings.batch} are not in the bank (full batch); add finished runs of yours"

    def table_problems(self, table: TableSize | Settings) -> list[str]:
        """Why a modulus or a number of rows is outside what the bank has seen."""
        return [*self._outside("the modulus p", POLICY.slack, table.p, "p"), *self._too_sparse(table)]

    def _outside_ranges(self, settings: Settings) -> Iterator[str]:
        if settings.task not in MODULAR:
            return
        yield from self._outside("the modulus p", POLICY.slack, settings.p, "p")
        yield from self._outside("the learning rate", POLICY.rounding, settings.lr, "lr")
        yield from self._outside("the weight decay", POLICY.rounding, settings.weight_decay, "weight_decay")
        yield from self._outside("width/p", POLICY.slack, settings.width_per_class, "width_per_class")
        yield from self._too_sparse(settings)

    def _outside(self, label: str, slack: float, value: float, name: str) -> Iterator[str]:
        values = [getattr(run.settings, name) for run in self.runs]
        low, high = min(values), max(values)
        if not low / slack <= value <= high * slack:
            yield f"{label} is {value:.4g}, the bank has {low:.4g} to {high:.4g}; add finished runs of yours"

    def _too_sparse(self, table: TableSize | Settings) -> Iterator[str]:
        lowest = min(run.settings.ratio for run in self.runs)
        if table.ratio < lowest / POLICY.rounding:
            yield (
                f"N/(p ln p) = {table.ratio:.2f} is below the bank's lowest, {lowest:.2f}; "
                f"train on at least {int(lowest * table.n / table.ratio) + 1} pairs"
            )

    def save(self, path: str | Path) -> None:
        """Write the bank to one file; its runs must have one grid of steps, as those of the study have."""
        steps = self.runs[0].step
        if any(not np.array_equal(run.step, steps) for run in self.runs):
            raise BadInput("the runs of the bank were logged at different steps", "save runs of one study")
        others = np.array([run.settings.p**2 - run.settings.n for run in self.runs])[:, None]
        rows = np.array([run.settings.n for run in self.runs])[:, None]
        arrays = {name: np.array([getattr(run.settings, name) for run in self.runs]) for name in SAVED} | {
            "format": np.array(FORMAT),
            "step": steps.astype(np.int32),
            "train": np.rint(np.stack([run.train_accuracy for run in self.runs]) * rows).astype(np.uint16),
            "validation": np.rint(np.stack([run.validation_accuracy for run in self.runs]) * others).astype(np.uint16),
            "loss": np.stack([run.validation_loss for run in self.runs]).astype(np.float32),
        }
        np.savez_compressed(path, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: str | Path, name: str = "bank") -> Bank:
        """Read a bank; the file holds arrays only and cannot run code."""
        try:
            with np.load(path, allow_pickle=False) as file:
                held = {key: file[key] for key in file.files}
        except (ValueError, OSError, zipfile.BadZipFile) as problem:
            raise BadInput(f"'{path}' is not a bank: {problem}", "write one with Bank.save") from None
        if int(held.get("format", np.array(0))) != FORMAT:
            raise BadInput(f"'{path}' is not a bank of format {FORMAT}", "write one with Bank.save")
        runs = []
        for number, p in enumerate(held["p"]):
            values = {key: held[key][number].item() for key in SAVED}
            others = int(p) ** 2 - values["n"]
            runs.append(
                BankRun(
                    Settings("addition", **values),
                    held["step"],
                    held["train"][number] / values["n"],
                    held["validation"][number] / others,
                    held["loss"][number].astype(float),
                )
            )
        return cls(tuple(runs), name)


def _same_kind(left: Settings, right: Settings) -> bool:
    """Whether two trainings differ in modulus, rows, learning rate and weight decay only, and not by much."""
    same = all(getattr(left, name) == getattr(right, name) for name in ("network", "optimiser", "beta2", "full_batch"))
    if not same or left.task not in MODULAR or right.task not in MODULAR:
        return False
    ratios = (
        (left.width / left.p, right.width / right.p, POLICY.slack),
        (left.p, right.p, POLICY.family),
        (left.ratio, right.ratio, POLICY.rows),
        (left.lr, right.lr, POLICY.drive),
        (left.weight_decay, right.weight_decay, POLICY.drive),
    )
    return all(1 / most <= one / other <= most for one, other, most in ratios)


SAVED = ("p", "n", "lr", "weight_decay", "width")


@lru_cache(maxsize=1)
def shipped_bank() -> Bank:
    """The bank that ships with the package."""
    return Bank.load(Path(__file__).with_name(SHIPPED), "the shipped bank")
