"""How does a command show a result? One JSON object or a table, the figure in a file, and an exit code."""

from __future__ import annotations

import contextlib
import json as jsonlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from phasecast.cli.options import Common, Drawn, Stored
from phasecast.progress import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from phasecast.core.results import Measurement

EXIT_CODES = {"failed": 1, "refused": 3}
"""The exit codes of a status; every other status exits with 0."""


def emit(content: Mapping[str, Any], text: str, options: Common) -> None:
    """Print ``content`` as JSON if it was requested, otherwise ``text``."""
    if options.json:
        # main() sends the stdout of user code elsewhere; this is the one line that may go to the real stdout
        line = jsonlib.dumps(content, ensure_ascii=False, allow_nan=False)
        print(printable(line), file=sys.__stdout__, flush=True)
    else:
        print(printable(text), flush=True)


def note(line: str) -> None:
    """One line on stderr, beside the result."""
    print(f"phasecast: {printable(' '.join(line.split()))}", file=sys.stderr, flush=True)


def clip(text: str, longest: int) -> str:
    """A text for one cell of a table: one line, cut where it is too long."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def emit_result(
    result: Measurement, options: Common, *, text: str | None = None, figure: Callable[[], Figure] | None = None
) -> int:
    """Print a measured result, draw its ``figure`` if a file was given, and return the exit code of its status.

    ``text`` is what is left to print where a command has printed parts of the result already.
    """
    from phasecast.figures.style import draw

    content, text = result.plain(), str(result) if text is None else text
    plot = options.plot if isinstance(options, Drawn) else None
    if plot is not None and figure is not None:
        draw(figure, plot, type(result).__name__)
        content["plot"] = str(plot)
        text += f"\nfigure: {plot}"
    emit(content, text, options)
    return exit_code(str(result.status))


def exit_code(status: str) -> int:
    """The exit code of a run or a result with this status."""
    return EXIT_CODES.get(status, 0)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Rows below their headings, in aligned columns."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


@contextlib.contextmanager
def interruption_as_json(options: Stored) -> Iterator[None]:
    """With --json, print an interrupted run in the form of a finished one before the interruption ends the command."""
    from phasecast.core.errors import RunInterrupted
    from phasecast.lab import load

    try:
        yield
    except RunInterrupted as interruption:
        if options.json:
            emit(load(interruption.run, store=options.store).plain(), "", options)
        raise
