"""What did a training write down? Steps, accuracies and losses of a run, from a CSV file or from arrays.

Files are read line by line and thinned while they are read, so that memory does not grow with their length.
"""

from __future__ import annotations

import contextlib
import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule


@dataclass(frozen=True)
class LogPolicy(Policy):
    """How much of a file is kept, and what its numbers mean."""

    most_rows: int = rule(2000, "chosen: 40,000 steps logged every 20; a forecast stays within its five seconds")
    longest_line: int = rule(1 << 20, "bytes; chosen: a line this long is not a row of a table of scalars")
    fewest_rows: int = rule(2, "one row has no curve")


POLICY = LogPolicy()

COLUMNS = ("train_accuracy", "validation_accuracy", "validation_loss", "train_loss")
"""The curves of a log; all but the last are needed."""

_STEPS = ("step", "global step", "trainer global step", "train global step", "steps", "iteration", "iter", "iterations")
_EPOCHS = ("epoch", "epochs")
_PARTS = {"train": "train", "training": "train", "val": "validation", "valid": "validation"} | dict.fromkeys(
    ("validation", "eval", "dev", "heldout", "test"), "validation"
)
_RATES = ("lr", "learning rate", "lr adam", "lr adamw", "train lr", "train learning rate", "optimizer lr", "lr pg1")
_TIMES = ("alpha", "α", "examples", "step", "steps", "global_step", "iteration", "iter", "epoch")
_LOSSES = ("eps", "ε", "validation_loss", "val_loss", "eval_loss", "test_loss", "loss", "train_loss", "error")
_KINDS = {"accuracy": "accuracy", "acc": "accuracy", "top1": "accuracy", "loss": "loss"} | dict.fromkeys(
    ("nll", "mse", "xent", "crossentropy"), "loss"
)
_FILLERS = ("epoch", "avg", "mean", "step", "metrics", "metric", "multiclass", "categorical", "sparse", "total")
_RANKS = {"validation": 0, "val": 0, "valid": 0, "eval": 1, "dev": 1, "heldout": 1, "test": 2}


@dataclass(frozen=True, eq=False)
class TrainingLog:
    """The curves of one training.

    Parameters
    ----------
    step: (rows,) increasing.
    train_accuracy, validation_accuracy: (rows,) fractions from 0 to 1.
    validation_loss, train_loss: (rows,) the latter may be missing.
    columns: which column of a file each curve was read from.
    notes: what was done to the file while it was read.
    rates: least and greatest learning rate in the file, if it has such a column.

    >>> TrainingLog([0, 20, 40], [0.1, 0.9, 1.0], [0.0, 0.1, 0.1], [0.48, 0.52, 0.55]).spacing
    20.0
    """

    step: np.ndarray
    train_accuracy: np.ndarray
    validation_accuracy: np.ndarray
    validation_loss: np.ndarray
    train_loss: np.ndarray | None = None
    columns: dict[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    rates: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        for name in ("step", *COLUMNS):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _numbers(name, getattr(self, name), self.step))
        if len(self.step) < POLICY.fewest_rows:
            raise BadInput(f"the log has {len(self.step)} row", f"log at least {POLICY.fewest_rows}")
        back = np.flatnonzero(np.diff(self.step) <= 0)
        if back.size:
            before, after = self.step[back[0]], self.step[back[0] + 1]
            raise BadInput(f"the steps do not increase: {after:g} follows {before:g}", "sort the log by step")
        for name in ("train_accuracy", "validation_accuracy"):
            values = getattr(self, name)
            if values.min() < 0 or values.max() > 1:
                raise BadInput(
                    f"{name} reaches from {values.min():g} to {values.max():g}", "give fractions from 0 to 1"
                )

    def __len__(self) -> int:
        return len(self.step)

    @property
    def last(self) -> float:
        """The last logged step."""
        return float(self.step[-1])

    @property
    def spacing(self) -> float:
        """The typical number of steps between two rows."""
        return float(np.median(np.diff(self.step)))

    def until(self, step: float) -> TrainingLog:
        """The log as it was at ``step``."""
        rows = self.step <= step
        trained = None if self.train_loss is None else self.train_loss[rows]
        return TrainingLog(
            self.step[rows],
            self.train_accuracy[rows],
            self.validation_accuracy[rows],
            self.validation_loss[rows],
            trained,
            self.columns,
            self.notes,
            self.rates,
        )


def read_loss(path: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """Times and losses in a CSV file with a column of steps (or alpha) and one of the loss (or eps).

    The validation loss is taken where there are several. Rows without a loss are left out.
    """
    path = Path(path)
    with _opened(path) as file:
        lines = _lines(file, path.name)
        number, header = next(lines, (0, ""))
        mark = max(",;\t", key=header.count)
        titles = _cells(header, mark, number) if header else []
        time, loss = (_first_of(titles, names) for names in (_TIMES, _LOSSES))
        if time is None or loss is None:
            raise BadInput(f"'{path.name}' has no columns of steps and of a loss", "name them step and loss")
        thinned = _Thinned(POLICY.most_rows)
        for number, line in lines:
            cells = line.split(mark) if '"' not in line else _cells(line, mark, number)
            if len(cells) != len(titles):
                raise BadInput(f"line {number} has {len(cells)} cells, the header {len(titles)}", "repair the file")
            row = _number(cells[time], "the step", number), _number(cells[loss], "the loss", number)
            if not any(map(math.isnan, row)):
                thinned.add(row)
    rows = np.array(thinned.finish(), dtype=float).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def _first_of(titles: list[str], names: Sequence[str]) -> int | None:
    """The place of the first of some names among the titles of columns."""
    plain = ["_".join(re.findall(r"[a-zα-ω0-9]+", title.strip().lower())) for title in titles]
    return next((plain.index(name) for name in names if name in plain), None)


def read_log(path: str | Path) -> TrainingLog:
    """The log in a CSV file; names as W&B, TensorBoard, Lightning and Keras write them are recognised.

    Other columns are ignored. Cells may be empty: a row counts when it has the validation accuracy and loss, with the
    newest training accuracy before it. Accuracies in percent become fractions.
    """
    path = Path(path)
    with _opened(path) as file:
        return _read(file, path.name)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A file to read; bad input where there is none."""
    try:
        with open(path, "rb") as file:
            yield file
    except IsADirectoryError:
        raise BadInput(f"'{path}' is a folder", "give a CSV file") from None
    except FileNotFoundError:
        raise BadInput(f"there is no file '{path}'", "give a CSV file, or the id of a run") from None
    except OSError as error:
        raise BadInput(f"cannot read '{path}' ({error.strerror})", "give a CSV file") from None


def _read(file: BinaryIO, name: str) -> TrainingLog:
    lines = _lines(file, name)
    number, header = next(lines, (0, ""))
    if not header:
        raise BadInput(f"'{name}' is empty", "give a CSV file with a header line")
    mark = max(",;\t", key=header.count)
    titles = _cells(header, mark, number)
    places = _places(titles, name)
    thinned = _Thinned(POLICY.most_rows)
    train = dict.fromkeys(("train_accuracy", "train_loss"), math.nan)
    before, pending = -math.inf, dict.fromkeys(COLUMNS, "")
    rates: tuple[float, float] | None = None
    for number, line in lines:
        cells = line.split(mark) if '"' not in line else _cells(line, mark, number)
        if len(cells) != len(titles):
            raise BadInput(f"line {number} of '{name}' has {len(cells)} cells, its header {len(titles)}", "repair it")
        step = _number(cells[places["step"]], "step", number)
        if math.isnan(step):
            continue  # a row of summaries
        if step < before:
            raise BadInput(
                f"the steps of '{name}' go back from {before:g} to {step:g} at line {number}",
                "sort the rows by step; keep one run per file",
            )
        if step > before:
            pending = dict.fromkeys(COLUMNS, "")
        before = step
        if "rate" in places and (text := cells[places["rate"]]).strip():
            rate = _number(text, "the learning rate", number)
            rates = (rate, rate) if rates is None else (min(rates[0], rate), max(rates[1], rate))
        for column in COLUMNS:
            if column in places and (text := cells[places[column]]).strip():
                pending[column] = text
                if column in train:
                    train[column] = _number(text, column, number)
        if pending["validation_accuracy"] and pending["validation_loss"] and not math.isnan(train["train_accuracy"]):
            values = [_number(pending[column], column, number) for column in ("validation_accuracy", "validation_loss")]
            thinned.add((step, train["train_accuracy"], *values, train["train_loss"]))
    log = _log(thinned, {column: titles[place] for column, place in places.items()}, name)
    return replace(log, rates=rates)


def _log(thinned: _Thinned, columns: dict[str, str], name: str) -> TrainingLog:
    rows = np.array(thinned.finish(), dtype=float).reshape(-1, 1 + len(COLUMNS))
    if len(rows) < POLICY.fewest_rows:
        complete = "no row" if not len(rows) else "only one row"
        raise BadInput(
            f"{complete} of '{name}' has a step, both accuracies and the validation loss",
            "log them together, at two steps or more",
        )
    notes = [] if thinned.stride == 1 else [f"one row in {thinned.stride} of {thinned.count} was kept"]
    for place, part in ((1, "training"), (2, "validation")):
        worst, best = rows[:, place].min(), rows[:, place].max()
        if worst < 0 or best > 100:
            raise BadInput(
                f"a {part} accuracy in '{name}' is {worst if worst < 0 else best:g}", "give 0 to 1, or percent"
            )
    if rows[:, 1:3].max() > 1:
        rows[:, 1:3] /= 100
        notes.append("accuracies are in percent")
    step, train, validation, loss, train_loss = rows.T
    return TrainingLog(
        step, train, validation, loss, None if np.isnan(train_loss).any() else train_loss, columns, tuple(notes)
    )


class _Thinned:
    """At most ``most`` rows of a sequence, evenly spaced, and its last one."""

    def __init__(self, most: int):
        self.most, self.stride, self.count = most, 1, 0
        self.rows: list[tuple[float, ...]] = []
        self.newest: tuple[float, ...] = ()

    def add(self, row: tuple[float, ...]) -> None:
        if self.count and row[0] == self.newest[0]:  # the same step again, now with more cells
            if self.rows[-1][0] == row[0]:
                self.rows[-1] = row
            self.newest = row
            return
        self.newest = row
        if self.count % self.stride == 0:
            self.rows.append(row)
            if len(self.rows) >= self.most:
                self.rows, self.stride = self.rows[::2], 2 * self.stride
        self.count += 1

    def finish(self) -> list[tuple[float, ...]]:
        return self.rows if not self.count or self.rows[-1] == self.newest else [*self.rows, self.newest]


def _lines(file: BinaryIO, name: str) -> Iterator[tuple[int, str]]:
    """Number and text of the lines that are not empty and no comment."""
    encoding, number = "utf-8-sig", 0
    while raw := file.readline(POLICY.longest_line):
        number += 1
        if number == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise BadInput(f"'{name}' is encoded in UTF-16", "save it as UTF-8")
        if b"\0" in raw or len(raw) >= POLICY.longest_line:
            raise BadInput(f"'{name}' is not a text file", "give a CSV file")
        try:
            line = raw.decode(encoding).strip("\r\n")
        except UnicodeDecodeError:
            raise BadInput(f"line {number} of '{name}' is not UTF-8", "save the file as UTF-8") from None
        encoding = "utf-8"
        if line.strip() and not line.startswith("#"):
            yield number, line


def _cells(line: str, mark: str, number: int) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=mark, strict=True))
    except csv.Error:
        raise BadInput(f"line {number} has a quotation mark that is not closed", "repair the file") from None


def _places(titles: list[str], name: str) -> dict[str, int]:
    """Which column holds the step and each curve; bad input where one that is needed is missing."""
    places: dict[str, tuple[tuple[int, ...], int]] = {}
    for place, title in enumerate(titles):
        choice = _meaning(title)
        if choice is not None and (choice[0] not in places or choice[1] < places[choice[0]][0]):
            places[choice[0]] = (choice[1], place)
    chosen = {column: place for column, (_, place) in places.items()}
    if len(titles) > 1 and all(_is_number(title) for title in titles):
        raise BadInput(f"'{name}' has no header line", "name its columns: step, " + ", ".join(COLUMNS[:3]))
    lowered = {title.strip().lower() for title in titles}
    if {"wall time", "step", "value"} <= lowered:
        raise BadInput(
            f"'{name}' is TensorBoard's export of one scalar", "join the exports by step: " + ", ".join(COLUMNS[:3])
        )
    missing = [column for column in ("step", *COLUMNS[:3]) if column not in chosen]
    if missing:
        shown = ", ".join(title.strip()[:30] for title in titles[:8]) + (", …" if len(titles) > 8 else "")
        raise BadInput(f"'{name}' has no column for {' and '.join(missing)}", f"its columns are: {shown}")
    return chosen


def _meaning(title: str) -> tuple[str, tuple[int, ...]] | None:
    """What a column holds, and how it ranks among columns of the same meaning (the least is taken)."""
    title = title.strip()
    if title.endswith(("__MIN", "__MAX")):  # what W&B adds to each curve of a chart
        return None
    named = title.rpartition(" - ")[2]  # W&B: "name of the run - val/acc"
    words = [word for word in re.split(r"[^a-z0-9]+", re.sub(r"top.?1\b", "top1", named.lower())) if word]
    text = " ".join(words)
    if text in _STEPS:
        return "step", (0, _STEPS.index(text))
    if text in _EPOCHS:
        return "step", (1, 0)
    if text in _RATES:
        return "rate", (_RATES.index(text),)
    parts = [word for word in words if word in _PARTS]
    kinds = [word for word in words if word in _KINDS]
    rest = [word for word in words if word not in (*_PARTS, *_KINDS) and not word.isdigit()]
    if len(kinds) != 1 or len(parts) > 1 or any(word not in _FILLERS for word in rest):
        return None
    part = _PARTS[parts[0]] if parts else "train"  # Keras: accuracy, loss, val_accuracy, val_loss
    rank = (0 if parts else 1, _RANKS.get(parts[0], 0) if parts else 0, len(rest), "step" in rest)
    return f"{part}_{_KINDS[kinds[0]]}", rank


def _number(text: str, column: str, line: int) -> float:
    """The number in a cell. An empty cell is NaN; the word nan is bad input."""
    try:
        value = float(text)
    except ValueError:
        if not text.strip():
            return math.nan
        raise BadInput(f"{column} is '{text.strip()[:30]}' at line {line}", "give a number") from None
    if not math.isfinite(value):
        raise BadInput(f"{column} is {text.strip()} at line {line}", "cut the log before the training diverged")
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(name: str, values: ArrayLike, step: ArrayLike) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or array.shape != np.shape(step):
        raise BadInput(f"{name} has shape {array.shape}, step {np.shape(step)}", "give lists of equal length")
    if not np.isfinite(array).all():
        raise BadInput(f"{name} is not finite in row {int(np.argmin(np.isfinite(array)))}", "cut the log before it")
    return array
