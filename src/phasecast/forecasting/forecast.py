"""When will it grok? The step at which validation accuracy passes 50%, from the log of a training so far.

Three bases, and the forecast says which one spoke: the log alone (:mod:`.lone_log`), the log beside a bank of finished
runs, and both with the settings of the training (:mod:`.model`). What none of them can answer is refused
(:mod:`.refusals`). Before the first step, the settings and the bank say whether it will happen at all.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from phasecast.core.errors import BadInput, unknown
from phasecast.core.results import Status
from phasecast.forecasting import lone_log, refusals
from phasecast.forecasting.bank import Bank, shipped_bank
from phasecast.forecasting.law import FAMILY, FamilyLaw
from phasecast.forecasting.log import TrainingLog, read_log
from phasecast.forecasting.lone_log import LineForecast
from phasecast.forecasting.model import BankForecast, forecast_before_start, forecast_with_bank, law_of
from phasecast.forecasting.result import Forecast
from phasecast.forecasting.settings import Settings, TableSize
from phasecast.forecasting.signals import table_in_log
from phasecast.grokking.tasks import MODULAR

LANDMARKS = 1.25  # ratio of the times since memorisation at which forecasts are made: ten per decade
FIRST_LANDMARK = 100.0  # steps after memorisation; earlier, no basis says more than the settings
OWN_RUNS = "settings + own runs"
MOSTLY = 0.5  # share of the finished runs of a kind that must have generalised, for a median to exist
UNLIKELY = 0.5  # chance within the window below which a training is advised against before it starts


def forecast(
    log: TrainingLog | str | Path,
    settings: Settings | Mapping[str, str | int | float | None] | None = None,
    *,
    bank: Bank | None = None,
    loss_at_50: float | None = None,
    coverage: float = 0.8,
) -> Forecast:
    """The step at which validation accuracy passes 50%, with an interval; refused where it cannot be said.

    Parameters
    ----------
    log: a :class:`TrainingLog` or the path of a CSV file.
    settings: of the training, to compare it with the runs of a bank; a :class:`Settings` or its fields.
    bank: finished runs; with settings it defaults to the shipped one. Without settings it is used only if it is given,
        because nothing then tells whether the training is of its kind.
    loss_at_50: the validation loss at 50% accuracy; by default from the loss before training.
    coverage: the probability with which the interval holds the outcome.
    """
    log = log if isinstance(log, TrainingLog) else read_log(log)
    chosen = settings_of(settings)
    if loss_at_50 is not None and not loss_at_50 > 0:
        raise BadInput(f"loss_at_50 is {loss_at_50:g}", "give a positive loss")
    if not 0 < coverage < 1:
        raise BadInput(f"coverage is {coverage:g}", "use a number between 0 and 1, like 0.8")
    known = refusals.outcome_known(log) or refusals.not_memorised(log) or refusals.stuck_at_mirror(log, chosen)
    if known:
        return Forecast.refused(known, made_at=log.last, coverage=coverage)
    table = table_in_log(log) if chosen is None else None
    line = _line(log, chosen or table, loss_at_50, coverage)
    bank = shipped_bank() if bank is None and chosen is not None else bank
    if bank is None:
        return _of_line(line, log, coverage)
    problems = bank.range_problems(chosen) if chosen else bank.table_problems(table) if table and len(bank) else []
    problems += bank.log_problems(log)
    problems += [reason for reason in [refusals.too_few_runs(len(bank)), refusals.other_rates(log, chosen)] if reason]
    if problems and chosen is not None and (made := _of_family(log, chosen, bank, line, coverage)) is not None:
        return made
    if chosen is not None and chosen.network not in {run.settings.network for run in bank}:
        return Forecast.refused(refusals.other_network(chosen.network), made_at=log.last, coverage=coverage)
    if problems:
        return _of_line(line, log, coverage, problems)
    return _of_bank(log, chosen, bank, line, coverage)


def before_start(settings: Settings, window: float, bank: Bank | None = None, coverage: float = 0.8) -> Forecast:
    """Will a training generalise within ``window`` steps, and when? From its settings, before the first step.

    A longer window than the bank has seen is cut. A training below the least N/(p ln p) of the bank receives the
    chance that the law of the bank gives it, with what to change; settings of another kind are refused.
    """
    bank = shipped_bank() if bank is None else bank
    enough = with_enough_rows(settings, bank)
    sparse = enough.n > settings.n
    common = {"basis": bank.name, "runs": len(bank), "tier": "settings + bank", "coverage": coverage}
    if problems := bank.range_problems(enough):
        return Forecast.refused(*problems, **common)
    window = min(window, bank.window)  # of later steps the bank knows nothing
    made = forecast_before_start(settings, bank, window, coverage)
    chance = float(made.chance or 0.0)
    reasons = []
    if chance < UNLIKELY or sparse:
        reasons.append(
            f"it is unlikely to generalise within {window:.0f} steps ({chance:.0%}); {_advice(settings, window, bank)}"
        )
    unseen = made.median > bank.window
    return Forecast(
        math.nan if unseen else made.median,
        low=min(made.low, made.median),
        high=None if unseen else made.high,
        status=Status.WARNING if reasons else Status.OK,
        reasons=reasons,
        probability=chance,
        window=window,
        **common,
    )


def with_enough_rows(settings: Settings, bank: Bank) -> Settings:
    """The settings with at least the N/(p ln p) that the bank has seen."""
    if settings.task not in MODULAR or not len(bank):
        return settings
    least = min(run.settings.ratio for run in bank)
    return dataclasses.replace(settings, n=max(settings.n, math.ceil(least * settings.p * math.log(settings.p))))


def table_rows(settings: Settings) -> int:
    """The rows of the table of a rule modulo p."""
    return settings.p * (settings.p - 1) if settings.task == "division" else settings.p**2


def rows_for(settings: Settings, window: float, bank: Bank, chance: float = 0.9) -> int | None:
    """The fewest training rows with which a share of the seeds generalises within a window; None if no number does."""
    rows, window = table_rows(settings), min(window, bank.window)
    fewest = with_enough_rows(dataclasses.replace(settings, n=2), bank).n
    for n in range(fewest, rows):
        tried = dataclasses.replace(settings, n=n, batch=None)
        if float(forecast_before_start(tried, bank, window).chance or 0.0) >= chance:
            return n
    return None


def _advice(settings: Settings, window: float, bank: Bank) -> str:
    rows = table_rows(settings)
    n = rows_for(settings, window, bank)
    if n is None:
        return "use a larger learning rate or weight decay, or train for longer"
    fraction = math.ceil(100 * n / rows) / 100
    return f"use fraction ≥ {fraction:.2f} ({n} of {rows} rows) for a chance of 90%"


def settings_of(settings: Settings | Mapping[str, str | int | float | None] | None) -> Settings | None:
    """Settings from their fields; bad input names the fields that are missing or unknown."""
    if settings is None or isinstance(settings, Settings):
        return settings
    fields = {entry.name: entry for entry in dataclasses.fields(Settings)}
    for name in settings:
        if name not in fields:
            raise unknown("setting", name, fields)
    missing = [name for name, entry in fields.items() if entry.default is dataclasses.MISSING and name not in settings]
    if missing:
        raise BadInput(f"the settings lack {', '.join(missing)}", "give all of them, or none to use the log alone")
    return Settings(**settings)  # pyright: ignore[reportArgumentType] - Settings checks the types


def _line(
    log: TrainingLog, table: Settings | TableSize | None, loss_at_50: float | None, coverage: float
) -> LineForecast | str:
    """The forecast of the log alone, or why there is none."""
    modular = isinstance(table, TableSize) or (table is not None and table.task in MODULAR)
    classes = table.p if table is not None and modular else None
    target = lone_log.loss_target(log, classes, loss_at_50)
    if isinstance(target, str):
        return target
    line = lone_log.extrapolate_loss(log, target, coverage)
    if isinstance(line, str):
        return line
    if lone_log.recedes(log, target, line):
        return refusals.not_in_sight(line.median)
    return lone_log.SLOWING if line.slowing else line


def _of_line(line: LineForecast | str, log: TrainingLog, coverage: float, problems: Sequence[str] = ()) -> Forecast:
    notes = [f"the log alone is used: {problem}" for problem in problems]
    if isinstance(line, str):
        return Forecast.refused(line, *notes, made_at=log.last, coverage=coverage)
    return Forecast(
        line.median,
        f"the loss falls in a straight line to {line.target.meaning}",
        low=line.low,
        high=line.high,
        made_at=log.last,
        coverage=coverage,
        status=Status.WARNING if notes else Status.OK,
        reasons=notes,
    )


def _of_bank(
    log: TrainingLog, settings: Settings | None, bank: Bank, line: LineForecast | str, coverage: float
) -> Forecast:
    try:
        made = forecast_with_bank(log, settings, bank, coverage)
    except BadInput as problem:  # too few rows since memorisation
        return Forecast.refused(str(problem), made_at=log.last, coverage=coverage)
    reasons = _against(made, line)
    common = {"made_at": log.last, "coverage": coverage, "tier": made.tier, "basis": bank.name, "runs": made.runs}
    if reasons:
        return Forecast.refused(*reasons, **common)
    unseen = made.median > bank.window
    return Forecast(
        math.nan if unseen else made.median,
        low=min(made.low, made.median),
        high=None if unseen else made.high,
        **common,
    )


def _of_family(
    log: TrainingLog, settings: Settings, bank: Bank, line: LineForecast | str, coverage: float
) -> Forecast | None:
    """From finished runs of the same kind outside the bank, with the law of the bank moved to them; None if too few."""
    runs = bank.family(settings)
    done = [run for run in runs if run.val50 is not None]
    if len(done) < FAMILY.fewest or refusals.other_rates(log, settings):
        return None
    common = {"made_at": log.last, "coverage": coverage, "tier": OWN_RUNS, "basis": "your finished runs"}
    common["runs"] = len(done)
    if len(done) < len(runs) * MOSTLY:
        return Forecast.refused(
            f"{len(runs) - len(done)} of {len(runs)} finished runs of this kind never generalised; use more rows",
            **common,
        )
    tail = (1 - coverage) / 2
    law = FamilyLaw.of(law_of(bank), done)
    low, median, high = law.quantiles_after(settings, log.last, (tail, 0.5, 1 - tail))
    seen = max(run.window for run in runs)
    made = BankForecast(median, low, high, coverage, OWN_RUNS, len(done), log.last, None, None, seen)
    reasons = _against(made, line)
    if reasons:
        return Forecast.refused(*reasons, **common)
    unseen = median > seen
    return Forecast(math.nan if unseen else median, low=low, high=None if unseen or high > seen else high, **common)


def _against(made: BankForecast, line: LineForecast | str) -> list[str]:
    """What in the log speaks against the bank."""
    if isinstance(line, str):
        return [line] if isinstance(line, lone_log.OutOfSight) else []
    end = math.inf if made.high is None else made.high
    reason = (
        refusals.disagreement((made.low, end), (line.low, line.high))
        if line.progress >= lone_log.POLICY.settled
        else None
    )
    return [reason] if reason else []


def landmarks(log: TrainingLog) -> Iterator[TrainingLog]:
    """The log as it was at fixed times after the training rows were memorised, and as it is."""
    train99 = lone_log.Landmarks.of(log).train99
    if train99 is not None:
        times = FIRST_LANDMARK * LANDMARKS ** np.arange(60)
        for time in times[train99 + times < log.last]:
            yield log.until(train99 + time)
    yield log


def with_earlier(newest: Forecast, earlier: Sequence[Forecast]) -> Forecast:
    """A forecast that draws those made before it."""
    return dataclasses.replace(newest, earlier=tuple(earlier))
