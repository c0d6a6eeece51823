"""How does a result look in a notebook? Its table, with status and verdict in colour, and its figure below.

Only text is put together here: a result that can be drawn has ``figure()``, and what that returns writes itself with
``savefig``, so the drawing library is loaded by the results that need it.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from typing import Any

from phasecast.core.errors import PhasecastError

_GOOD, _CARE, _BAD, _OPEN = "#00705a", "#a34f00", "#b3202c", "#5f6672"  # white text on each has a contrast above 5:1

COLOURS = {
    "ok": _GOOD,
    "warning": _CARE,
    "refused": _BAD,
    "agrees": _GOOD,
    "bound respected": _GOOD,
    "differs": _BAD,
    "inconclusive": _OPEN,
    "not comparable": _OPEN,
}
"""The background of each status and verdict; the word is always there too."""

COLOURED = ("status", "verdict")  # the rows and columns whose words have a colour
DOTS = 144  # per inch: sharp on screens with two pixels per point


class Displayed:
    """What notebooks ask a result for; ``_html_table`` is the part that kinds of results differ in."""

    def _html_table(self) -> str:
        raise TypeError(f"{type(self).__name__} has no table")

    def _repr_html_(self) -> str:
        return f'<div class="phasecast-result">{self._html_table()}{_figure_html(self)}</div>'


def pairs_html(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """A table of labels and texts under a title, as printed."""
    lines = [f"<tr>{_head(label)}{_cell(text, label)}</tr>" for label, text in rows]
    return f"{_title(title)}<table>{''.join(lines)}</table>"


def grid_html(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """A table with one line per row under a title, and notes below it."""
    head = "".join(_head(name) for name in columns)
    body = [f"<tr>{''.join(_cell(text, name) for name, text in zip(columns, row, strict=True))}</tr>" for row in rows]
    below = "".join(f"<div>{html.escape(note)}</div>" for note in notes)
    return f"{_title(title)}<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>{below}"


def _title(text: str) -> str:
    return f"<div><strong>{html.escape(text)}</strong></div>"


def _head(text: str) -> str:
    return f'<th style="text-align:left;vertical-align:top">{html.escape(text)}</th>'


def _cell(text: str, label: str) -> str:
    return f'<td style="text-align:left;white-space:normal;max-width:48em">{_coloured(text, label)}</td>'


def _coloured(text: str, label: str) -> str:
    """The text, with the status or verdict it begins with on its colour."""
    word = next((word for word in COLOURS if text == word or text.startswith(f"{word} (")), None)
    if label not in COLOURED or word is None:
        return html.escape(text)
    style = f"background:{COLOURS[word]};color:#fff;padding:0 .5em;border-radius:.6em"
    return f'<span style="{style}">{word}</span>{html.escape(text[len(word) :])}'


def _figure_html(result: Any) -> str:
    """The figure as an image; nothing where the result has none, or has nothing to draw."""
    if not hasattr(result, "figure"):
        return ""
    try:
        figure = result.figure()
    except PhasecastError:
        return ""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DOTS)
    width = round(figure.get_figwidth() * 96)  # CSS pixels per inch
    data = base64.b64encode(file.getvalue()).decode()
    name = html.escape(f"figure of {type(result).__name__}", quote=True)
    style = "max-width:100%;background:#fff"
    return f'<img alt="{name}" style="{style}" width="{width}" src="data:image/png;base64,{data}">'
