"""How is text from somebody else's store shown? As text: no HTML, no Markdown, no control characters, no end of it."""

from __future__ import annotations

import html
import re

from phasecast.progress import printable

LONGEST = 2000  # characters; chosen: the longest sentence of our recipes has a quarter of it
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def inert_text(text: object, longest: int = LONGEST) -> str:
    """A text without control characters and changes of writing direction, cut where it is too long."""
    shown = printable(str(text))
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def for_html(text: object, longest: int = LONGEST) -> str:
    """A text inside HTML."""
    return html.escape(inert_text(text, longest), quote=True)


def for_markdown(text: object, longest: int = LONGEST) -> str:
    """A text inside Markdown, such as the label of a widget: every punctuation mark stands for itself."""
    return _PUNCTUATION.sub(r"\\\1", " ".join(inert_text(text, longest).split()))
