"""How does content become one HTML file? Marks, tables and figures, each figure with its SVG and its data to download.

No request leaves the page: style, figures and downloads are inside it.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phasecast.core.results import Status
from phasecast.figures.style import inline, to_svg
from phasecast.figures.table import figure_csv
from phasecast.lab.files import disk_errors, refuse_links, write_atomically
from phasecast.lab.recipe import Captioned, Recipe, Row
from phasecast.lab.runs import Run
from phasecast.lab.spec import Spec

LARGEST_DOWNLOAD = 2_000_000  # bytes; chosen: a larger file is beside the page only, in figures/
LONGEST_VALUE = 2000  # characters of a value of a spec; a longer one is cut on the page

MARKS = {
    "agrees": ("good", "✓"),
    "bound respected": ("good", "✓"),
    "differs": ("bad", "✗"),
    "inconclusive": ("care", "?"),
    "not comparable": ("dull", "–"),
    "ok": ("good", "✓"),
    "warning": ("care", "!"),
    "refused": ("bad", "✗"),
    "failed": ("bad", "✗"),
}


@dataclass(frozen=True)
class Drawn:
    """A figure on a page: its SVG, its caption, and what can be downloaded, as (name, address)."""

    svg: str
    caption: str
    downloads: tuple[tuple[str, str], ...]


def mark(word: str) -> dict[str, str]:
    """A status or verdict with its colour and sign."""
    kind, sign = MARKS.get(word, ("dull", "…"))
    return {"text": word, "kind": kind, "sign": sign}


def answer_cells(row: Row) -> dict[str, Any]:
    """One line of the table of answers."""
    prediction, measurement = row.prediction, row.measurement
    solved = f"computed from theory, error by {measurement.error_kind}" if row.theory and measurement else ""
    return {
        "name": row.name,
        "predicted": row.predicted,
        "source": f"{prediction.regime}. {prediction.source}".strip(". ") if prediction else solved,
        "measured": row.measured,
        "kind": measurement.error_kind if measurement and not row.theory else "",
        "verdict": mark(row.verdict),
        "distance": row.distance,
        "reasons": list(measurement.reasons) if measurement else [],
    }


def save_figures(folder: Path, drawn: Mapping[str, Captioned]) -> list[Drawn]:
    """Write each figure as SVG and its data as CSV; return them ready for a page."""
    ready = []
    refuse_links(folder, folder=True)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, captioned in drawn.items():
            svg, data = to_svg(captioned.figure, name), figure_csv(captioned.figure)
            files = {f"{name}.svg": ("image/svg+xml", svg.encode()), f"{name}.csv": ("text/csv", data.encode())}
            for file, (_, content) in files.items():
                write_atomically(folder / file, content)
            downloads = tuple((file, _address(file, kind, content)) for file, (kind, content) in files.items())
            label = html.escape(captioned.caption, quote=True)
            ready.append(Drawn(inline(svg, name, label), captioned.caption, downloads))
    return ready


def spec_lines(values: Mapping[str, Any], recipe: Recipe | None) -> list[tuple[str, str, str]]:
    """The fields of a spec with their values, and their meaning if the recipe is there to say it."""
    fields = {} if recipe is None else recipe.spec.model_fields
    return [(name, value_text(value), (fields[name].description or "") if name in fields else "")
            for name, value in values.items()]  # fmt: skip


def number_lines(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The plain numbers of a conclusion."""
    numbers = summary.get("numbers") or {}
    return [(name, "none" if value is None else f"{value:.6g}") for name, value in numbers.items()]


def times(statuses: Collection[Mapping[str, Any]]) -> str:
    wall, cpu = (sum(status[key] for status in statuses) for key in ("wall_seconds", "cpu_seconds"))
    return f"{wall:.1f} s wall, {cpu:.1f} s CPU"


def provenance_lines(run: Run, status: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where the numbers of a run come from."""
    facts = status["provenance"]
    versions = ", ".join(f"{package} {version}" for package, version in facts["versions"].items() if version)
    return [
        ("run", run.id),
        ("finished" if status["status"] in tuple(Status) else "updated", status["updated"]),
        ("time", times([status])),
        ("attempts", str(status["attempts"])),
        ("seed", str(facts["seed"])),
        ("threads", str(facts["threads"])),
        ("versions", versions),
        ("commit", facts["commit"] or "installed package"),
        ("python", f"{facts['python']} on {facts['system']}"),
    ]


def command_again(recipe: Recipe, spec: Spec) -> str:
    """The command that computes a run again."""
    fields = recipe.spec.model_fields
    defaults = {name: info.get_default(call_default_factory=True) for name, info in fields.items()}
    words = ["phasecast run", recipe.name]
    for name, value in spec.model_dump().items():
        if value != defaults[name]:
            text = json.dumps(value, ensure_ascii=False)
            words.append(f"--set '{name}={text}'")
    return " ".join(words)


def value_text(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else "none" if value is None else str(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def render(**content: Any) -> str:
    """The page."""
    import jinja2

    from phasecast import __version__

    content = {"runs": [], "varied": [], "notes": [], "events": [], "numbers": [], **content}
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("phasecast.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html.j2").render(version=__version__, **content)


def save_page(path: Path, page: str) -> Path:
    with disk_errors(path.parent):
        write_atomically(path, page.encode())
    return path


def _address(file: str, kind: str, content: bytes) -> str:
    """A file inside the page; a large one is linked beside it."""
    if len(content) > LARGEST_DOWNLOAD:
        return f"figures/{file}"
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
