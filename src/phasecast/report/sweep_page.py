"""How does a sweep look as a page? What was varied, how each answer depends on it, and what each run concluded.

Everything is read from what the runs stored, so it opens where the recipe is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phasecast.core.errors import BadInput, StoreError
from phasecast.core.results import Status
from phasecast.figures.style import style
from phasecast.lab.overview.stored_answers import stored_rows
from phasecast.lab.recipe import Recipe, Row
from phasecast.lab.runs import Run
from phasecast.lab.store import FINISHED, Store
from phasecast.lab.sweeps import FOLDER, recall
from phasecast.report.rendering import (
    MARKS,
    mark,
    provenance_lines,
    render,
    save_figures,
    save_page,
    spec_lines,
    times,
    value_text,
)
from phasecast.report.sweep_figures import SweptRun, across_runs, by_quantity, sweep_finding


def write_sweep(identity: str, store: Store, *, allow_code: bool = False) -> Path:
    """Write the page of a sweep from what its finished runs stored; ``allow_code`` lets a recipe explain its fields."""
    facts, runs = recall(identity, store, allow_code=allow_code)
    known = {run.id: run.folder.status() for run in runs if run.exists}
    finished = [run for run in runs if known.get(run.id, {}).get("status") in FINISHED]
    if not finished:
        raise BadInput(f"no run of {facts['sweep']} is finished", "run the command of the sweep again")
    for run in finished:
        run.check()
    specs = {run.id: run.folder.spec()["spec"] for run in runs if run.id in known}
    varied = facts["varied"]
    swept = [
        SweptRun({name: specs[run.id].get(name) for name in varied}, stored_rows(known[run.id]["summary"] or {}))
        for run in finished
    ]
    statuses = [known.get(run.id, {"status": "not started"})["status"] for run in runs]
    worst = next((word for word in ("failed", "refused", "warning") if word in statuses), "ok")
    recipe = _recipe_of(finished[0])
    folder = store.path / FOLDER / facts["sweep"]
    first = known[finished[0].id]
    summaries = [known[run.id]["summary"] or {} for run in finished]
    change = sweep_finding(swept, varied, next((str(one["key"]) for one in summaries if one.get("key")), ""))
    with style():
        figures = save_figures(folder / "figures", {"across-runs": across_runs(swept, varied)})
    page = render(
        title=f"{facts['recipe']}, {len(runs)} runs",
        question=recipe.question if recipe else "",
        sentence=f"{len(finished)} of {len(runs)} runs are finished. {change[:1].upper()}{change[1:]}".strip(),
        status=mark(worst if len(finished) == len(runs) else "unfinished"),
        answers=_over_runs([run.rows for run in swept]),
        figures=figures,
        spec=spec_lines({k: v for k, v in specs[finished[0].id].items() if k not in varied}, recipe),
        again="",
        provenance=[
            ("sweep", facts["sweep"]),
            ("time of all runs", times(known.values())),
            *(entry for entry in provenance_lines(finished[0], first) if entry[0] in ("versions", "commit", "python")),
        ],
        varied=varied,
        runs=[
            {
                "run": run.id,
                "varied": [value_text(specs[run.id].get(name)) if run.id in specs else "" for name in varied],
                "status": mark(status),
                "sentence": (known.get(run.id, {}).get("summary") or {}).get("sentence", ""),
            }
            for run, status in zip(runs, statuses, strict=True)
        ],
    )
    return save_page(folder / "report.html", page)


def _recipe_of(run: Run) -> Recipe | None:
    try:
        return run.recipe
    except StoreError:
        raise
    except BadInput:
        return None


def _over_runs(tables: Sequence[Sequence[Row]]) -> list[dict[str, Any]]:
    """One line per quantity: its range over the runs that did not refuse it, and how often it agreed."""
    lines = []
    for rows in by_quantity(tables):
        predicted = {row.predicted for row in rows}
        defended = [row.measurement for row in rows if row.measurement and row.measurement.status is not Status.REFUSED]
        numbers = [float(m.estimate) for m in defended if isinstance(m.estimate, int | float)]
        curves = sum(not isinstance(m.estimate, int | float) for m in defended)
        spread = f"{min(numbers):.5g} … {max(numbers):.5g} over {len(numbers)} runs" if numbers else ""
        spread = spread or (f"curves of {curves} runs, see the figure" if curves else "")
        theory = all(row.theory for row in rows)
        common = predicted.pop() if len(predicted) == 1 else "varies"
        lines.append(
            {
                "name": rows[0].name,
                "predicted": spread if theory else common,
                "source": "",
                "measured": "" if theory else spread,
                "kind": "",
                "verdict": _verdict(rows, len(rows) - len(defended)),
                "distance": "",
                "reasons": [],
            }
        )
    return lines


def _verdict(rows: Sequence[Row], refused: int) -> dict[str, str]:
    """How often it agreed, in words; of what is only measured, whether it was refused somewhere."""
    counts = {word: sum(row.verdict == word for row in rows) for word in MARKS}
    compared = sum(row.prediction is not None and row.measurement is not None for row in rows)
    agreed = counts["agrees"] + counts["bound respected"]
    words = [f"{agreed} of {compared} agree"] if compared else []
    words += [f"{counts['inconclusive']} inconclusive"] if counts["inconclusive"] else []
    words += [f"{refused} refused"] if refused and any(row.measurement for row in rows) else []
    words += [f"{counts['warning']} with a warning"] if not compared and counts["warning"] else []
    trouble = counts["differs"] or (refused and any(row.measurement for row in rows)) or counts["warning"]
    word = "warning" if trouble or counts["inconclusive"] else "agrees"
    return {**mark(word), "text": ", ".join(words) or "measured in every run"}
