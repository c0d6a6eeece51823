"""How far is it? A bar with rate, time left and a metric on a terminal, plain lines elsewhere; always on stderr.

Every call that can take more than two seconds shows itself this way, unless it is told to be quiet.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO, TypeAlias

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

Metric: TypeAlias = "tuple[str, float] | str | None"
"""What is being watched: a name and a number, or a sentence."""

QUIET_AT_FIRST = 2.0  # seconds during which a library call shows nothing
REFRESH = 0.5  # seconds; chosen: as a terminal bar needs it
PLAIN_INTERVAL = 5.0  # seconds between lines; chosen: often enough to see life, rare enough for a log


class Progress(Protocol):
    """Receives progress updates."""

    def update(self, done: int, total: int | None, metric: Metric = None) -> None: ...
    def say(self, line: str) -> None: ...


class Silent:
    """Shows nothing."""

    def update(self, done: int, total: int | None, metric: Metric = None) -> None:
        return None

    def say(self, line: str) -> None:
        return None


class Plain:
    """Prints a line every few seconds, for logs."""

    def __init__(self, title: str, stream: TextIO, interval: float = PLAIN_INTERVAL, unit: str = ""):
        self._title, self._stream, self._interval = title, stream, interval
        self._unit = f" {unit}" if unit else ""
        self._start = self._last = time.monotonic()
        self._first_done: int | None = None

    def update(self, done: int, total: int | None, metric: Metric = None) -> None:
        now = time.monotonic()
        if self._first_done is None:
            self._first_done, self._start = done, now
        if now - self._last < self._interval and done != total:
            return
        self._last = now
        rate = (done - self._first_done) / (now - self._start) if now > self._start else 0.0
        left = f", {duration((total - done) / rate)} left" if rate and total and done < total else ""
        watched = f", {_words(metric)}" if metric else ""
        of_total = f"/{total}" if total else ""
        self.say(f"{self._title}: {done}{of_total}{self._unit}, {_rate(rate)}{left}{watched}")

    def say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


class Bar:
    """Updates a rich progress bar."""

    def __init__(self, title: str, bar: RichProgress, unit: str = ""):
        self._bar, self._unit = bar, f" {unit}" if unit else ""
        self._task = bar.add_task(title, total=None, metric="", rate="")

    def update(self, done: int, total: int | None, metric: Metric = None) -> None:
        speed = self._bar.tasks[0].speed
        self._bar.update(
            self._task,
            completed=done,
            total=total,
            rate=f"{_rate(speed)}{self._unit}" if speed else "",
            metric=_words(metric),
        )

    def say(self, line: str) -> None:
        self._bar.console.print(line, highlight=False)


@contextmanager
def show_progress(title: str, *, quiet: bool = False, unit: str = "") -> Iterator[Progress]:
    """Progress for a command: a bar on a terminal, lines elsewhere, nothing if ``quiet``."""
    if quiet:
        yield Silent()
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[metric]}"),
        )
        with RichProgress(*columns, console=Console(stderr=True)) as bar:
            yield Bar(title, bar, unit)
    else:
        yield Plain(title, sys.stderr, unit=unit)


@contextmanager
def show_latest(title: str, *, unit: str = "") -> Iterator[Callable[[int, int | None, Metric], None]]:
    """What to call with each progress: a line appears once two seconds have passed, also while nothing is called.

    It is shown from a thread of its own, so that a long step or a compilation is not silent.
    """
    latest: list[tuple[int, int | None, Metric]] = [(0, None, "set-up")]
    over = threading.Event()

    def show() -> None:
        if over.wait(QUIET_AT_FIRST):
            return
        with show_progress(title, unit=unit) as shown:
            last = None
            while not over.is_set():
                done, total, _ = latest[0]
                if latest[0] is not last or done != total:  # what is complete is shown once
                    shown.update(*latest[0])
                last = latest[0]
                over.wait(REFRESH)

    shower = threading.Thread(target=show, daemon=True)
    shower.start()
    try:
        yield lambda *progress: latest.__setitem__(0, progress)
    finally:
        over.set()
        shower.join()


def _words(metric: Metric) -> str:
    if metric is None or isinstance(metric, str):
        return metric or ""
    return f"{metric[0]} {metric[1]:.4g}"


def _rate(rate: float) -> str:
    return f"{rate:.3g}/s" if rate >= 1 or rate == 0 else f"{1 / rate:.3g} s each"


def duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s" if minutes else f"{seconds}s"
