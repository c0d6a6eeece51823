"""How a command shows a result: one JSON object or a table, its figure in a file, and the exit code of its status."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def show_result(found: Any, *, json: bool, figure: Callable[[], Any] | None = None, plot: Path | None = None) -> int:
    """Print ``found``, draw ``figure`` to ``plot`` if both are given, and return the exit code of its status."""
    from phasecast.core.results import Status
    from phasecast.figures.style import draw

    content = found.plain()
    if plot is not None and figure is not None:
        draw(figure, plot, type(found).__name__)
        content["plot"] = str(plot)
    if json:
        print(jsonlib.dumps(content, ensure_ascii=False, allow_nan=False), file=sys.__stdout__, flush=True)
    else:
        print(found)
        if "plot" in content:
            print(f"figure: {plot}")
    return 3 if found.status is Status.REFUSED else 0
