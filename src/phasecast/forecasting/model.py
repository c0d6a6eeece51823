"""When will this training pass 50% validation accuracy? Forecasts from its log, its settings and a bank.

The clock law gives a first median, given that it has not happened yet; without settings the bank's median takes its
place. A regression on the signals of the log corrects it. It is fitted at *landmarks*, numbers of steps since train99
on a geometric grid, on those runs of the bank that had not generalised there: a landmark never depends on the outcome.
The interval comes from residuals of runs whose whole modulus was left out of the fit (conformal prediction by groups),
with Kaplan–Meier quantiles because some of them are censored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule
from phasecast.forecasting.bank import POLICY as BANK
from phasecast.forecasting.bank import Bank, BankRun, LoggedCurves, stride_of
from phasecast.forecasting.law import ClockLaw, law_terms
from phasecast.forecasting.regression import Correction, fit_correction
from phasecast.forecasting.settings import Settings, TableSize
from phasecast.forecasting.signals import NAMES, Signals, read_signals, table_in_log
from phasecast.forecasting.survival import Logistic, censored_quantile, fit_logistic


@dataclass(frozen=True)
class ModelPolicy(Policy):
    """How the correction is fitted and how its errors are judged."""

    first: float = rule(40.0, "steps since train99 of the first landmark: two rows of the shipped bank")
    ratio: float = rule(1.5, "between landmarks; 1.3 to 1.5 score the same (explored on held-out moduli)")
    neighbours: int = rule(1, "landmarks on each side fitted together; 2 scores the same, 0 worse late (explored)")
    floor: float = rule(0.02, "ln: errors below the spacing of the logs are not distinguished")
    steepest: float = rule(3.0, "the size of errors varies by at most this factor around its typical value")
    fewest_moduli: int = rule(4, "with fewer, the second-worst modulus is the middle one")
    coverage: float = rule(0.8, "the share of outcomes inside an interval, by default")
    weak: float = rule(0.1, "ridge on the constants of modulus and rows: late landmarks have some tens of runs")


POLICY = ModelPolicy()

Known = Literal["settings", "table", "log"]
"""What is known of a training besides its curves: all settings, modulus and rows, or nothing."""

WITH_SETTINGS, LOG_ONLY, SETTINGS_ONLY = "log + settings + bank", "log + bank", "settings + bank"


@dataclass(frozen=True)
class BankForecast:
    """When validation accuracy passes 50%.

    Parameters
    ----------
    median: the step of val50.
    low, high: the interval; ``high`` is None where it would be later than anything the bank has seen.
    coverage: the share of outcomes that such intervals hold.
    tier: what it is based on.
    runs: runs of the bank.
    step, train99: when it was made, and when the training rows were learned; None before the start.
    chance: the probability to pass 50% within ``window`` steps, by the settings alone; None without settings.
    window: the last step the bank has seen, or the one asked for.
    """

    median: float
    low: float
    high: float | None
    coverage: float
    tier: str
    runs: int
    step: float | None
    train99: float | None
    chance: float | None
    window: float


def forecast_before_start(
    settings: Settings, bank: Bank, window: float | None = None, coverage: float = POLICY.coverage
) -> BankForecast:
    """Will a training with these settings generalise within a window, and when? By the clock law alone.

    The median is that of trainings that generalise at all; ``high`` is None where too many never do.
    """
    law = law_of(bank)
    window = bank.window if window is None else window
    tail = (1 - coverage) / 2
    ever = law.chance_ever(settings)
    low = law.quantile(settings, min(tail / ever, 0.5))
    high = law.quantile(settings, (1 - tail) / ever) if 1 - tail < ever else math.inf  # else some never get there
    return BankForecast(
        law.quantile(settings, 0.5),
        min(low, bank.window),
        high if high <= bank.window else None,
        coverage,
        SETTINGS_ONLY,
        len(bank),
        None,
        None,
        law.chance(settings, window),
        window,
    )


def forecast_with_bank(
    log: LoggedCurves, settings: Settings | None, bank: Bank, coverage: float = POLICY.coverage
) -> BankForecast:
    """The forecast at the last row of a log; it must have reached train99, and not yet val50.

    Whether the settings are inside the bank's range is for :meth:`Bank.range_problems` to say.
    """
    if not 0 < coverage < 1:
        raise BadInput(f"coverage is {coverage:g}", "use a number between 0 and 1")
    if len(bank) < BANK.fewest:
        raise BadInput(f"the bank has {len(bank)} runs", f"add runs until it has {BANK.fewest}")
    spacing = float(np.median(np.diff(log.step)))
    bank = bank.thinned(spacing)
    signals = read_signals(_thinned(log, bank.spacing))
    if signals is None:
        raise BadInput("the log shows too little after train99", "wait for a few more rows")
    table = table_in_log(log) if settings is None else None
    known: Known = "settings" if settings is not None else "log" if table is None else "table"
    model = _fitted(bank, known, _nearest(signals.elapsed))
    tail = (1 - coverage) / 2
    middle, low, high = model.quantiles(signals, settings or table, (0.5, tail, 1 - tail))
    earliest = signals.step + spacing
    return BankForecast(
        max(middle, earliest),
        min(max(low, earliest), max(bank.window, earliest)),
        max(high, earliest) if high <= bank.window else None,
        coverage,
        LOG_ONLY if settings is None else WITH_SETTINGS,
        len(bank),
        signals.step,
        signals.train99,
        None if settings is None else law_of(bank).chance(settings, bank.window),
        bank.window,
    )


def _thinned(log: LoggedCurves, spacing: float) -> LoggedCurves:
    """The log with rows as far apart as those of the bank."""
    stride = stride_of(log.step, spacing)
    if stride == 1:
        return log
    rows = np.arange(len(log.step) - 1, -1, -stride)[::-1]  # the last row is the news
    rows = rows if rows[0] == 0 else np.insert(rows, 0, 0)
    return _Log(
        *(getattr(log, name)[rows] for name in ("step", "train_accuracy", "validation_accuracy", "validation_loss"))
    )


@dataclass(frozen=True)
class _Log:
    step: np.ndarray
    train_accuracy: np.ndarray
    validation_accuracy: np.ndarray
    validation_loss: np.ndarray


def landmark(number: int) -> float:
    """Steps since train99 of a landmark."""
    return POLICY.first * POLICY.ratio**number


def _nearest(elapsed: float) -> int:
    return max(0, round(math.log(max(elapsed, 1.0) / POLICY.first) / math.log(POLICY.ratio)))


def law_of(bank: Bank) -> ClockLaw:
    """The clock law of a bank, fitted once."""
    if "law" not in bank.fits:
        bank.fits["law"] = ClockLaw.of(bank)
    return cast(ClockLaw, bank.fits["law"])


def _at(bank: Bank, run: int, number: int) -> Signals | None:
    """The signals of a run at a landmark; None if it had generalised or ended by then."""
    one = bank.runs[run]
    at = math.inf if one.train99 is None else one.train99 + landmark(number)
    if at not in one.read:
        end = one.window if one.val50 is None else one.val50
        one.read[at] = read_signals(one, at) if at < end else None
    return cast("Signals | None", one.read[at])


def _fitted(bank: Bank, known: Known, number: int) -> LandmarkModel:
    """The model near a landmark; near an earlier one if too few runs of the bank waited that long."""
    key = ("model", known, number)
    if key not in bank.fits:
        rows = LandmarkRows.of(bank, number)
        if len(np.unique(rows.run)) < BANK.fewest and number > 0:
            return _fitted(bank, known, number - 1)
        bank.fits[key] = LandmarkModel.of(bank, rows, known)
    return cast(LandmarkModel, bank.fits[key])


@dataclass(frozen=True, eq=False)
class LandmarkRows:
    """What the runs of a bank showed at the landmarks around one, and how long each still took."""

    run: np.ndarray
    signals: list[Signals]
    settings: list[Settings]
    outcome: np.ndarray
    """ln val50, or ln of the window where the run never generalised."""
    observed: np.ndarray

    @classmethod
    def of(cls, bank: Bank, number: int) -> LandmarkRows:
        near = range(max(0, number - POLICY.neighbours), number + POLICY.neighbours + 1)
        found = [(run, signals) for run in range(len(bank)) for at in near if (signals := _at(bank, run, at))]
        runs: list[BankRun] = [bank.runs[run] for run, _ in found]
        return cls(
            np.array([run for run, _ in found], dtype=int),
            [signals for _, signals in found],
            [run.settings for run in runs],
            np.log([run.window if run.val50 is None else run.val50 for run in runs]),
            np.array([run.val50 is not None for run in runs], dtype=bool),
        )

    def chosen(self, rows: np.ndarray) -> LandmarkRows:
        return LandmarkRows(
            self.run[rows],
            [self.signals[row] for row in np.flatnonzero(rows)],
            [self.settings[row] for row in np.flatnonzero(rows)],
            self.outcome[rows],
            self.observed[rows],
        )

    @property
    def weight(self) -> np.ndarray:
        """The share of its run that each row stands for."""
        _, place, count = np.unique(self.run, return_inverse=True, return_counts=True)
        return 1.0 / count[place]

    @property
    def moduli(self) -> np.ndarray:
        return np.array([one.p for one in self.settings])


@dataclass(frozen=True, eq=False)
class PointModel:
    """Law and correction, fitted to some runs; without all settings a median by modulus and rows, or one for all."""

    known: Known
    law: ClockLaw | None
    plain: Logistic | None
    correction: Correction

    @classmethod
    def of(cls, rows: LandmarkRows, law: ClockLaw | None, known: Known) -> PointModel:
        plain = None
        if law is None:
            _, first = np.unique(rows.run, return_index=True)
            terms = _plain_terms([rows.settings[row] for row in first], known)
            plain = fit_logistic(terms, rows.outcome[first], rows.observed[first], POLICY.weak)
        base = _base(law, plain, rows.signals, rows.settings, known)
        inputs = design(rows.signals, rows.settings, base, known)
        return cls(known, law, plain, fit_correction(inputs, rows.outcome - base, rows.observed, rows.weight))

    def __call__(self, signals: list[Signals], settings: Sequence[Settings | TableSize | None]) -> np.ndarray:
        """ln val50."""
        base = _base(self.law, self.plain, signals, settings, self.known)
        inputs = design(signals, settings, base, self.known)
        return np.maximum(base + self.correction(inputs), np.log([one.step for one in signals]))


def _plain_terms(settings: Sequence[Settings | TableSize | None], known: Known) -> np.ndarray:
    """The terms of the median without a law: those of ln A if modulus and rows are known."""
    if known == "log":
        return np.ones((len(settings), 1))
    return law_terms(cast("Sequence[TableSize]", settings))


def _base(
    law: ClockLaw | None,
    plain: Logistic | None,
    signals: list[Signals],
    settings: Sequence[Settings | TableSize | None],
    known: Known,
) -> np.ndarray:
    """ln of the median of val50 given that it is not yet, before anything else in the log is looked at."""
    now = np.array([one.step for one in signals])
    if law is not None:
        return law.medians_after(cast("Sequence[Settings]", settings), now)
    if plain is None:
        raise ValueError("a model has a law or a plain median")
    return plain.median_after(_plain_terms(settings, known), np.log(now))


def design(
    signals: list[Signals], settings: Sequence[Settings | TableSize | None], base: np.ndarray, known: Known
) -> np.ndarray:
    """(rows, inputs) of the correction: signals, what is known, and where the lines arrive relative to the base."""
    read = np.stack([one.values for one in signals])
    ahead = base - read[:, NAMES.index("ln step")]
    lines = [read[:, NAMES.index(name)] - ahead for name in ("line of last half", "line of last quarter")]
    columns = [*read.T, ahead, *lines]
    if known != "log":
        tables = cast("Sequence[TableSize]", settings)
        columns += [np.array([one.ratio for one in tables]), np.log([one.p for one in tables])]
    if known == "settings":
        whole = cast("Sequence[Settings]", settings)
        columns += [np.log([one.lr for one in whole]), np.log([one.weight_decay for one in whole])]
    return np.stack(columns, axis=1)


@dataclass(frozen=True, eq=False)
class LandmarkModel:
    """The forecast near one landmark, with its errors on moduli that it had not seen."""

    point: PointModel
    size: np.ndarray
    """Constants of ln of the typical error, see :func:`_size_terms`."""
    scaled: np.ndarray
    observed: np.ndarray
    weight: np.ndarray
    moduli: np.ndarray

    @classmethod
    def of(cls, bank: Bank, rows: LandmarkRows, known: Known) -> LandmarkModel:
        law = law_of(bank) if known == "settings" else None
        error = np.full(len(rows.run), np.nan)
        for p in np.unique(rows.moduli):
            inside = rows.moduli == p
            if inside.all():
                raise BadInput("the bank has runs of one modulus only", "add runs of another")
            other = rows.chosen(~inside)
            fold = PointModel.of(other, law_of(_part(bank, int(p))) if law else None, known)
            left_out = rows.chosen(inside)
            error[inside] = left_out.outcome - fold(left_out.signals, left_out.settings)
        terms = _size_terms(rows.signals)
        seen = rows.observed
        level = np.log(np.maximum(np.abs(error[seen]), POLICY.floor))
        root = np.sqrt(rows.weight[seen])
        size = np.linalg.lstsq(terms[seen] * root[:, None], level * root, rcond=None)[0]
        sizes = _sizes(size, terms)
        return cls(PointModel.of(rows, law, known), size, error / sizes, rows.observed, rows.weight, rows.moduli)

    def quantiles(
        self, signals: Signals, settings: Settings | TableSize | None, shares: tuple[float, ...]
    ) -> list[float]:
        """Steps of val50: the point forecast for a half, else the quantile of the left-out errors around it."""
        middle = float(self.point([signals], [settings])[0])
        size = float(_sizes(self.size, _size_terms([signals]))[0])
        return [
            math.exp(middle if share == 0.5 else min(middle + size * self.scaled_quantile(share), 700.0))
            for share in shares
        ]

    def scaled_quantile(self, share: float) -> float:
        """The quantile of the left-out errors: that of all runs, or that of the second-worst modulus if it is wider.

        A new modulus may be as hard as the hard ones of the bank; the worst one of a few is an outlier too often.
        """
        pooled = censored_quantile(self.scaled, self.observed, share, self.weight)
        each = sorted(self._quantile_of(p, share) for p in np.unique(self.moduli))
        if len(each) < POLICY.fewest_moduli:
            return pooled
        return max(pooled, each[-2]) if share > 0.5 else min(pooled, each[1])

    def _quantile_of(self, p: float, share: float) -> float:
        rows = self.moduli == p
        return censored_quantile(self.scaled[rows], self.observed[rows], share, self.weight[rows])


def _part(bank: Bank, p: int) -> Bank:
    key = ("without", p)
    if key not in bank.fits:
        bank.fits[key] = bank.without(p)
    return cast(Bank, bank.fits[key])


def _size_terms(signals: list[Signals]) -> np.ndarray:
    return np.array([[1.0, one["progress"], one["line of last half"]] for one in signals])


def _sizes(constants: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """The typical error of each row, kept within a factor of the one in the middle."""
    level = terms @ constants
    middle = float(constants[0] + constants[1:] @ np.array([0.3, 0.7]))
    return np.exp(np.clip(level, middle - math.log(POLICY.steepest), middle + math.log(POLICY.steepest)))
