"""How does a run look as a page? Question, answer, figures, spec and provenance in one self-contained HTML file.

A finished run whose recipe is there is concluded and drawn by it. Of every other run the page shows what is stored: an
unfinished one as far as its last checkpoint, one whose recipe is missing or has changed with its answers and arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasecast.core.errors import BadInput, StoreError
from phasecast.figures.style import style
from phasecast.lab.forecasts.archive import KnownOutcome, kept
from phasecast.lab.overview.stored_answers import stored_rows
from phasecast.lab.recipe import Captioned, Recipe, Row
from phasecast.lab.runs import Run
from phasecast.lab.spec import Spec
from phasecast.lab.store import FINISHED
from phasecast.progress import duration
from phasecast.report.forecasts import beside_forecasts, forecast_figures
from phasecast.report.rendering import (
    answer_cells,
    command_again,
    mark,
    number_lines,
    provenance_lines,
    render,
    save_figures,
    save_page,
    spec_lines,
)
from phasecast.report.stored_figures import stored_figures

if TYPE_CHECKING:
    import xarray as xr

MOST_EVENTS = 12  # of the log, the newest; chosen: a run that failed often still fits a screen


@dataclass(frozen=True)
class _Content:
    """What a page says about a run."""

    status: str
    sentence: str
    rows: list[Row]
    figures: Mapping[str, Captioned]
    notes: list[str] = field(default_factory=list)


def write(run: Run) -> Path:
    """Write ``report.html`` and ``figures/`` of a run, finished or not; the path of the page."""
    request, status = run.folder.spec(), run.folder.status()
    finished = status["status"] in FINISHED
    results = run.results() if finished else run.results_so_far()
    recipe, spec, missing = _recipe_of(run)
    with style():
        if finished and recipe is not None and spec is not None and results is not None:
            content = _concluded(run, recipe, spec, results)
        elif finished and results is not None:
            content = _stored(status, results, missing)
        else:
            content = _unfinished(run, status, results, missing)
        made, outcome = kept(run.folder), KnownOutcome.of(status.get("summary"))
        figures = save_figures(run.folder.figures, {**content.figures, **forecast_figures(made, outcome)})
    page = render(
        title=request["recipe"],
        question=recipe.question if recipe else "",
        sentence=content.sentence,
        notes=content.notes,
        status=mark(content.status),
        answers=[answer_cells(row) for row in beside_forecasts(content.rows, made)],
        numbers=number_lines(status.get("summary") or {}),
        figures=figures,
        spec=spec_lines(request["spec"], recipe),
        again=command_again(recipe, spec) if recipe and spec else "",
        provenance=provenance_lines(run, status),
        events=[] if finished else _events(run),
    )
    return save_page(run.folder.report, page)


def _recipe_of(run: Run) -> tuple[Recipe | None, Spec | None, str]:
    """The recipe and the spec of a run, or why they are not there; a damaged store is an error."""
    try:
        return run.recipe, run.spec, ""
    except StoreError:
        raise
    except BadInput as error:
        return None, None, str(error)


def _concluded(run: Run, recipe: Recipe, spec: Spec, results: xr.DataTree) -> _Content:
    conclusion = run.conclusion(results)
    with run.trusted():
        figures = recipe.figures(spec, results)
    sentence = " ".join(part for part in (conclusion.sentence, conclusion.caution) if part)
    return _Content(str(conclusion.status), sentence, conclusion.rows(), figures)


def _stored(status: Mapping[str, Any], results: xr.DataTree, missing: str) -> _Content:
    summary = status.get("summary") or {}
    note = f"This page shows what is stored, without the recipe ({missing})."
    return _Content(
        status["status"], summary.get("sentence", ""), stored_rows(summary), stored_figures(results), [note]
    )


def _unfinished(run: Run, status: Mapping[str, Any], results: xr.DataTree | None, missing: str) -> _Content:
    share = f" ({100 * status['done'] / status['total']:.0f}%)" if status["total"] else ""
    sentence = (
        f"This run is {status['status']}: {status['done']} of {status['total'] or '?'}{share} after "
        f"{duration(status['wall_seconds'])}. It has no conclusion yet."
    )
    notes = [f"It failed with {status['error']}."] if status.get("error") else []
    if status["status"] != "running":
        notes.append(f"`phasecast runs resume {run.id}` continues it from its last checkpoint.")
    notes += [f"The recipe is not used ({missing})."] if missing else []
    if results is None:
        return _Content(status["status"], sentence, [], {}, [*notes, "There is no checkpoint with arrays yet."])
    figures, drawn_by = _figures_so_far(run, results, bool(missing))
    notes.append(f"The figures show the rows up to the last checkpoint, {drawn_by}.")
    return _Content(status["status"], sentence, [], figures, notes)


def _figures_so_far(run: Run, results: xr.DataTree, missing: bool) -> tuple[Mapping[str, Captioned], str]:
    """The recipe's own figures if it can draw rows that are not complete, else the columns as they are."""
    if not missing:
        try:
            with run.trusted():
                if figures := run.recipe.figures(run.spec, results):
                    return figures, "drawn by the recipe"
        except Exception:  # a recipe is written for complete results; what it raises on others is its own
            pass
    return stored_figures(results), "as they are stored"


def _events(run: Run) -> list[tuple[str, str, str]]:
    events = run.folder.events()[-MOST_EVENTS:]
    return [(str(e.get("time", ""))[:19], str(e.get("event", "")), _facts(e)) for e in events]


def _facts(event: Mapping[str, Any]) -> str:
    hidden = ("time", "event", "pid", "traceback")
    facts = (f"{name} {value}" for name, value in event.items() if name not in hidden and value not in (None, [], ""))
    return ", ".join(facts)[:400]
