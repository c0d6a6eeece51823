"""How far is it? A bar with rate, time left and a metric on a terminal, plain lines elsewhere; always on stderr.

Every call that can take more than two seconds shows itself this way, unless it is told to be quiet.
"""

from __future__ import annotations

import functools
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, ParamSpec, Protocol, TextIO, TypeAlias, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

Metric: TypeAlias = "tuple[str, float] | str | None"
"""What is being watched: a name and a number, or a sentence."""

QUIET_AT_FIRST = 2.0  # seconds during which a library call shows nothing
REFRESH = 0.5  # seconds; chosen: as a terminal bar needs it
PLAIN_INTERVAL = 5.0  # seconds between lines; chosen: often enough to see life, rare enough for a log


_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """A text without control characters, marks of writing direction and halves of surrogate pairs.

    Names may come from somebody else's store.
    """
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


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
    """Prints a line after two seconds and then every few, for logs and notebooks; also while nothing is updated."""

    def __init__(
        self,
        title: str,
        stream: TextIO,
        interval: float = PLAIN_INTERVAL,
        unit: str = "",
        first_after: float | None = None,
    ):
        self._title, self._stream, self._interval = title, stream, interval
        self._unit = f" {unit}" if unit else ""
        self._began = self._start = time.monotonic()
        self._due = self._began + (QUIET_AT_FIRST if first_after is None else first_after)
        self._first_done: int | None = None
        self._latest: tuple[int, int | None, Metric] = (0, None, None)
        self._complete = False
        self._lock = threading.Lock()

    def update(self, done: int, total: int | None, metric: Metric = None) -> None:
        if self._first_done is None:
            self._first_done, self._start = done, time.monotonic()
        self._latest = (done, total, metric)
        complete = total is not None and done == total
        if complete and not self._complete:
            self._due = 0.0  # the last line is shown however short the work was
        self._complete = complete
        self.beat()

    def beat(self) -> None:
        """Print a line if one is due."""
        with self._lock:
            now = time.monotonic()
            if now < self._due:
                return
            self._due = now + self._interval
            self.say(f"{self._title}: {self._words(now)}")

    def _words(self, now: float) -> str:
        done, total, metric = self._latest
        watched = f", {_words(metric)}" if metric else ""
        if not done and not total:
            return f"{duration(now - self._began)} so far{watched}"
        rate = (done - (self._first_done or 0)) / (now - self._start) if now > self._start else 0.0
        left = f", {duration((total - done) / rate)} left" if rate and total and done < total else ""
        of_total = f"/{total}" if total else ""
        speed = f", {_rate(rate)}" if rate else ""  # unknown at the first update
        return f"{done}{of_total}{self._unit}{speed}{left}{watched}"

    def say(self, line: str) -> None:
        print(printable(line), file=self._stream, flush=True)


class Bar:
    """Updates a rich progress bar."""

    def __init__(self, title: str, bar: RichProgress, unit: str = ""):
        self._bar, self._unit = bar, f" {unit}" if unit else ""
        self._task = bar.add_task(printable(title), total=None, metric="", rate="")

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
        self._bar.console.print(printable(line), highlight=False, markup=False)


_CURRENT: ContextVar[Progress | None] = ContextVar("progress", default=None)
"""What shows the call that is under way, so that calls inside it do not show themselves as well."""

_heartbeat: threading.Event | None = None
"""Ends the heartbeat of the command of this process; set by the first call that shows itself."""

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


@contextmanager
def show_progress(
    title: str, *, quiet: bool = False, unit: str = "", first_after: float | None = None
) -> Iterator[Progress]:
    """Progress for a command: a bar on a terminal, lines elsewhere; nothing if ``quiet`` or inside a quiet call."""
    outer = _CURRENT.get()
    if outer is not None and not quiet:
        yield outer
        return
    with _inside(Silent()):
        if quiet:
            yield Silent()
            return
        _end_heartbeat()
        if sys.stderr.isatty():
            yield from _on_terminal(title, unit)
        else:
            plain = Plain(title, sys.stderr, unit=unit, first_after=first_after)
            with _repeated(plain.beat):
                yield plain


@contextmanager
def working(title: str, progress: bool = True, *, unit: str = "") -> Iterator[Progress]:
    """Progress for a library call: silent for two seconds, then a line that is kept up to date, also without updates.

    With ``progress=False`` the call and everything inside it is silent; inside a call that shows itself already, its
    line is updated.
    """
    outer = _CURRENT.get()
    if outer is not None and progress:
        yield outer
        return
    if not progress:
        with _inside(Silent()):
            yield Silent()
        return
    _end_heartbeat()
    latest = Latest()
    over = threading.Event()
    shower = threading.Thread(target=_follow, args=(title, unit, latest, over), daemon=True)
    shower.start()
    try:
        with _inside(latest):
            yield latest
    finally:
        over.set()
        shower.join()


@contextmanager
def heartbeat(title: str) -> Iterator[None]:
    """On a terminal, a line with the time for a command that shows nothing else for two seconds."""
    global _heartbeat
    if _CURRENT.get() is not None or not sys.stderr.isatty():
        yield
        return
    _heartbeat = over = threading.Event()
    thread = threading.Thread(target=_beat, args=(title, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def shows_progress(title: str) -> Callable[[Callable[Parameters, Returned]], Callable[Parameters, Returned]]:
    """Make a function with a keyword ``progress`` show itself as :func:`working` does."""

    def decorate(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
        @functools.wraps(function)
        def shown(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
            with working(title, bool(kwargs.get("progress", True))):
                return function(*args, **kwargs)

        return shown

    return decorate


def report_step(what: str, done: int = 0, total: int | None = None) -> None:
    """Tell the call that is under way, if there is one that shows itself, where it is."""
    if (current := _CURRENT.get()) is not None:
        current.update(done, total, what)


def quietly() -> AbstractContextManager[None]:
    """Nothing inside the block shows its progress."""
    return _inside(Silent())


def current_progress() -> Progress | None:
    """What shows the call that is under way; None if there is none."""
    return _CURRENT.get()


class Latest:
    """Keeps the latest update for the thread that shows it."""

    def __init__(self) -> None:
        self.seen: tuple[int, int | None, Metric] = (0, None, None)

    def update(self, done: int, total: int | None, metric: Metric = None) -> None:
        self.seen = (done, total, metric)

    def say(self, line: str) -> None:
        print(printable(line), file=sys.stderr, flush=True)


def _beat(title: str, over: threading.Event) -> None:
    began, shown = time.monotonic(), False
    while not over.wait(REFRESH if shown else QUIET_AT_FIRST):
        print(f"\r{title}: {duration(time.monotonic() - began)} so far ", end="", file=sys.stderr, flush=True)
        shown = True
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _end_heartbeat() -> None:
    if _heartbeat is not None:
        _heartbeat.set()


@contextmanager
def _inside(progress: Progress) -> Iterator[None]:
    token = _CURRENT.set(progress)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _follow(title: str, unit: str, latest: Latest, over: threading.Event) -> None:
    """Show the latest progress from a thread of its own, so that one long step is not silent."""
    if over.wait(QUIET_AT_FIRST):
        return
    with show_progress(title, unit=unit, first_after=0.0) as shown:
        while not over.is_set():
            shown.update(*latest.seen)
            over.wait(REFRESH)


@contextmanager
def _repeated(call: Callable[[], None]) -> Iterator[None]:
    """Call a function again and again from another thread until the block ends."""
    over = threading.Event()

    def loop() -> None:
        while not over.wait(REFRESH):
            call()

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _on_terminal(title: str, unit: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[metric]}", markup=False),
    )
    with RichProgress(*columns, console=Console(stderr=True)) as bar:
        yield Bar(title, bar, unit)


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
    return f"{rate:.3g}/s" if rate >= 1 else f"{1 / rate:.3g} s each"


def duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s" if minutes else f"{seconds}s"
