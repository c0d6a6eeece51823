"""``phasecast forecast``: when a training in progress will generalise, from its log."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from phasecast.cli.options import Common, Drawn, Stored, Words
from phasecast.cli.output import emit, exit_code, table

if TYPE_CHECKING:
    from phasecast.forecasting import Forecast, TrainingLog
    from phasecast.forecasting.settings import Settings

app = App(name="forecast", help_format="plaintext", version_flags=[])

SETTINGS = "task= p= n= lr= weight_decay= width=, and beta2= batch= network= optimiser= where they differ"


@Parameter(name="*")
@dataclass(frozen=True)
class Basis:
    """What the forecast rests on."""

    settings: Annotated[Words, Parameter(name="--set", help=f"settings of the training: {SETTINGS}")] = None
    bank: Annotated[
        Literal["shipped", "store"] | None,
        Parameter(
            help="compare with the shipped runs also without settings; store: with your finished runs too, as for a run"
        ),
    ] = None
    loss_at_50: Annotated[
        float | None, Parameter(help="validation loss at 50% accuracy; by default from the loss before training")
    ] = None
    coverage: Annotated[float, Parameter(help="probability with which the interval holds the outcome")] = 0.8


@Parameter(name="*")
@dataclass(frozen=True)
class Options(Drawn, Stored):
    """Options of a command that draws and reads runs."""


@app.default
def one(
    source: Annotated[str, Parameter(help="CSV file with step, accuracies and validation loss, or the id of a run")],
    /,
    *,
    basis: Basis = Basis(),
    options: Options = Options(),
) -> int:
    """Forecast the step at which validation accuracy passes 50%."""
    from phasecast.figures.style import check_target, draw
    from phasecast.forecasting.bank import shipped_bank
    from phasecast.forecasting.forecast import forecast, landmarks, with_earlier

    check_target(options.plot)
    log, settings, run = _source(source, basis, options)
    bank = None if basis.bank is None else shipped_bank()
    if basis.bank == "store" or (run is not None and basis.bank is None and settings is not None):
        from phasecast.studies.grokking.forecasts import own_bank

        bank = own_bank(options.store, without=run)

    def make(part: TrainingLog) -> Forecast:
        return forecast(part, settings, bank=bank, loss_at_50=basis.loss_at_50, coverage=basis.coverage)

    made = make(log)
    content, text = {**made.plain(), "notes": list(log.notes)}, "\n".join([str(made), *log.notes])
    if options.plot is not None:
        *before, _ = landmarks(log)
        draw(with_earlier(made, list(map(make, before))).figure, options.plot, "forecast")
        content["plot"] = str(options.plot)
        text += f"\nfigure: {options.plot}"
    emit(content, text, options)
    return exit_code(str(made.status))


@app.command
def escape(
    source: Annotated[Path, Parameter(help="CSV file with a column of steps or alpha and one of the loss or eps")],
    /,
    *,
    coverage: Annotated[float, Parameter(help="probability with which the interval holds the outcome")] = 0.8,
    options: Common = Common(),
) -> int:
    """Forecast when a loss that rests on a plateau falls below half of it."""
    from phasecast.forecasting.escape import forecast_escape_of_loss
    from phasecast.forecasting.log import read_loss

    made = forecast_escape_of_loss(*read_loss(source), coverage)
    emit(made.plain(), str(made), options)
    return exit_code(str(made.status))


@app.command
def scores(*, options: Stored = Stored()) -> int:
    """The record of all forecasts of finished runs in the store, beside simple rules."""
    from phasecast.lab import Store
    from phasecast.lab.forecasts.record import record

    found = record(Store.of(options.store))
    rules = ("as long again", "settings", "bank median")
    rows = [
        (
            one.name,
            str(one.forecasts),
            str(one.runs),
            f"{one.coverage:.0%} ({one.nominal:.0%})",
            *(f"{value:.3f}" for value in (one.error, one.remaining, one.crps)),
            *(f"{one.baselines[rule]:.3f}" for rule in rules),
        )
        for one in found.horizons
    ]
    head = ("made", "forecasts", "runs", "coverage (stated)", "error", "of the rest", "CRPS", *rules)
    lines = [table(head, rows)] if rows else []
    lines.append(
        f"{found.forecasts} forecasts of {found.runs} finished runs; {found.promises} of trainings that never "
        "generalised ended before the training did"
    )
    emit(found.plain(), "\n".join(lines), options)
    return 0


def _source(source: str, basis: Basis, options: Options) -> tuple[TrainingLog, Settings | None, str | None]:
    """The log and the settings of a file or a run, and the id of the run."""
    from phasecast.forecasting.forecast import settings_of
    from phasecast.forecasting.log import read_log

    given = None if basis.settings is None else settings_of(_assignments(basis.settings))
    path = Path(source)
    if os.path.exists(source) or path.suffix or len(path.parts) > 1:  # noqa: PTH110 - Path raises if it is too long
        return read_log(path), given, None
    from phasecast.lab.store import Store
    from phasecast.studies.grokking.forecasts import stored_training

    log, stored = stored_training(source, options.store)
    return log, given or stored, Store.of(options.store).find(source)


def _assignments(words: list[str]) -> dict[str, str | int | float | None]:
    """``p=23 lr=1e-3`` as values."""
    from phasecast.core.errors import BadInput

    values: dict[str, str | int | float | None] = {}
    for word in words:
        name, mark, text = word.partition("=")
        if not mark or not name:
            raise BadInput(f"invalid setting '{word}'", "write name=value, like p=23")
        values[name.strip()] = _value(text.strip())
    return values


def _value(text: str) -> str | int | float | None:
    if text.lower() in ("none", "null", "full"):
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
