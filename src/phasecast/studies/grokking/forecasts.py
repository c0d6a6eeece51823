"""What is forecast while a network trains? When validation accuracy passes 50%, at fixed times after memorisation."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from phasecast.core.errors import BadInput, PhasecastError
from phasecast.forecasting.bank import Bank, BankRun, shipped_bank
from phasecast.forecasting.forecast import before_start, forecast
from phasecast.forecasting.log import TrainingLog
from phasecast.forecasting.lone_log import Landmarks
from phasecast.forecasting.result import Forecast
from phasecast.forecasting.settings import Settings
from phasecast.grokking.tasks import MODULAR

LOGGED = "logged"
"""Where the state of a run keeps what was logged so far."""

COLUMNS = ("step", "train_accuracy", "validation_accuracy", "validation_loss")
FIRST = 100.0  # steps after memorisation of the first forecast: five rows of a log every 20 steps
MOST_OWN = 500  # newest runs of a store that join a bank: each takes some milliseconds to read
RATIO = 1.6  # between the times of forecasts: five per decade, each under a second
ACTIVATIONS = {"quadratic": (None, "square"), "mlp": (None, "relu"), "transformer": (None,)}
"""Activations of the networks of a bank."""


def training_settings(values: Mapping[str, Any], rows: int) -> Settings | None:
    """The settings of a spec of ``grokking``; None if no bank can have such trainings."""
    known = values["task"] in MODULAR and values.get("activation") in ACTIVATIONS.get(values["network"], ())
    if not known or not values["weight_decay"] > 0:
        return None
    shared = ("task", "p", "lr", "weight_decay", "width", "batch", "network", "optimiser")
    return Settings(n=rows, **{name: values[name] for name in shared})


def foresee(values: Mapping[str, Any], rows: int, steps: int) -> list[Forecast]:
    """Will it generalise within its steps, and when? Before the first one."""
    settings = training_settings(values, rows)
    return [] if settings is None else [before_start(settings, steps)]


class Forecaster:
    """Forecasts of one training, at fixed times after memorisation, from what it has logged so far."""

    def __init__(self, values: Mapping[str, Any], rows: int, logged: Mapping[str, np.ndarray]):
        self.settings = training_settings(values, rows)
        self.logged = {name: np.asarray(logged.get(name, np.empty(0)), dtype=float) for name in COLUMNS}
        self.made = self._due()

    def add(self, curves: Mapping[str, np.ndarray]) -> list[Forecast]:
        """The forecasts that are due with these rows; none once the outcome is in the log."""
        self.logged = {name: np.concatenate([self.logged[name], curves[name]]) for name in COLUMNS}
        due = self._due()
        if due <= self.made:
            return []
        self.made = due
        log = self._log()
        marks = None if log is None else Landmarks.of(log)
        if log is None or marks is None or marks.train99 is None or marks.val50 is not None:
            return []
        return [forecast(log.until(marks.train99 + FIRST * RATIO ** (due - 1)), self.settings)]

    def _due(self) -> int:
        """How many forecasts should have been made by now."""
        log = self._log()
        train99 = None if log is None else Landmarks.of(log).train99
        if log is None or train99 is None:
            return 0
        return int(np.sum(FIRST * RATIO ** np.arange(60) <= log.last - train99))

    def _log(self) -> TrainingLog | None:
        try:
            return _log(self.logged)
        except BadInput:  # one row, or a training that diverged
            return None


def stored_training(run: str, store: str | Path | None) -> tuple[TrainingLog, Settings | None]:
    """The log and the settings of a run of ``grokking``, finished or in progress."""
    from phasecast.grokking.tasks import split
    from phasecast.lab import load
    from phasecast.lab.checkpoint import peek
    from phasecast.lab.store import FINISHED

    found = load(run, store=store)
    if found.recipe.name != "grokking":
        raise BadInput(f"{found.id} is a run of '{found.recipe.name}'", "forecast a run of 'grokking', or a CSV file")
    spec: Any = found.spec
    if found.status in FINISHED:
        curves = found.results()["curves"].to_dataset()
        logged = {name: np.asarray(curves[name].values, dtype=float) for name in COLUMNS}
        logged = {name: column[np.isfinite(logged["validation_loss"])] for name, column in logged.items()}
    else:
        state = peek(found.folder.checkpoints)
        logged = ((state or {}).get("recipe") or {}).get(LOGGED)
        if not logged:
            raise BadInput(f"{found.id} has no checkpoint yet", "forecast again in a minute")
    from phasecast.studies.grokking.training import table_of

    return _log(logged), training_settings(spec.model_dump(), len(split(table_of(spec), spec.fraction, spec.seed)[0]))


def own_bank(store: str | Path | None, without: str | None = None) -> Bank:
    """The shipped bank with the finished runs of ``grokking`` of a store; ``without`` is the run to forecast.

    Runs inside its range join it; others are kept apart and serve forecasts of their own kind.
    """
    from phasecast.lab.store import FINISHED, Store

    place, runs = Store.of(store), []
    finished = [one["run"] for one in place.statuses() if one["status"] in FINISHED and one["run"] != without]
    for run in [one for one in finished if one.startswith("grokking-")][-MOST_OWN:]:
        with contextlib.suppress(PhasecastError):  # of another recipe or release, diverged, or damaged
            log, settings = stored_training(run, store)
            if settings is not None:
                runs.append(BankRun(settings, *(getattr(log, name) for name in COLUMNS)))
    return shipped_bank().extended(runs)


def _log(logged: Mapping[str, np.ndarray]) -> TrainingLog:
    step, train_accuracy, validation_accuracy, validation_loss = (logged[name] for name in COLUMNS)
    return TrainingLog(step, train_accuracy, validation_accuracy, validation_loss)
