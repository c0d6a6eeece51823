"""How do figures look? Legible at half width, colour-blind safe, and readable on light and dark pages."""

from __future__ import annotations

import functools
import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from phasecast.core.errors import BadInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = ParamSpec("P")
Drawn = TypeVar("Drawn", bound="Figure")

INK = "#1b2a3c"  # text and axes; on a page it follows the page's own ink

_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.direction": "out",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.fonttype": "path",
}


@contextmanager
def style() -> Iterator[None]:
    """Draw figures in our style inside the block; matplotlib's settings are as before after it."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        yield


def styled(make: Callable[P, Drawn]) -> Callable[P, Drawn]:
    """A function or method that draws, in our style wherever it is called from."""

    @functools.wraps(make)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Drawn:
        from phasecast.figures.powers import plain_powers  # matplotlib is slow to import

        with style():
            figure = make(*args, **kwargs)
            plain_powers(figure)
            return figure

    return drawn


def to_svg(figure: Figure, name: str) -> str:
    """A figure as SVG text, the same for the same figure."""
    import matplotlib as mpl

    from phasecast.figures.powers import plain_powers

    file = io.StringIO()
    plain_powers(figure)
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # names may be in any script
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return file.getvalue()


def check_target(path: Path | None) -> None:
    """Refuse, before anything is computed, a file that the figure cannot be written to."""
    if path is None:
        return
    if path.suffix not in (".svg", ".png", ".pdf"):
        raise BadInput(f"cannot draw to '{path.name}'", "use a name that ends in .svg, .png or .pdf")
    if not path.absolute().parent.is_dir():
        raise BadInput(f"there is no folder {path.absolute().parent}", "create it first")


def draw(make: Callable[[], Figure], path: Path, name: str) -> None:
    """Write the figure that ``make`` returns to a file, in our style."""
    with style():
        figure = make()
        try:
            if path.suffix == ".svg":
                path.write_text(to_svg(figure, name))
            else:
                figure.savefig(path)
        except OSError as error:
            raise BadInput(f"cannot write {path} ({error.strerror})", "choose another file") from None


def inline(svg: str, name: str, label: str) -> str:
    """SVG for a page: with ids of its own, in the text colour of the page, and with a label for screen readers."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    svg = svg.replace(INK, "currentColor")
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
