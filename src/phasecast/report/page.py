"""One self-contained HTML file for a run or a sweep: question, answer, figures, spec, provenance.

No request leaves the page: style and figures are inside it.
"""

from __future__ import annotations

import html
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from phasecast.core.errors import BadInput
from phasecast.core.results import Status
from phasecast.figures.style import inline, style, to_svg
from phasecast.lab.files import disk_errors, refuse_links, write_atomically
from phasecast.lab.forecasts.archive import KnownOutcome, kept
from phasecast.lab.recipe import Captioned, Recipe, Row
from phasecast.lab.runs import Run
from phasecast.lab.spec import Spec
from phasecast.lab.store import FINISHED, Store
from phasecast.lab.sweeps import FOLDER, recall
from phasecast.report.figures import across_runs, by_quantity
from phasecast.report.forecasts import beside_forecasts, forecast_figures

_MARKS = {
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


def write(run: Run) -> Path:
    """Write ``report.html`` and ``figures/`` of a finished run; the path of the page."""
    results = run.results()
    recipe, spec, conclusion = run.recipe, run.spec, run.conclusion(results)
    status = run.folder.status()
    made, outcome = kept(run.folder), KnownOutcome.of(status.get("summary"))
    with style(), run.trusted():
        drawn = {**recipe.figures(spec, results), **forecast_figures(made, outcome)}
    page = _render(
        title=recipe.name,
        question=recipe.question,
        sentence=" ".join(part for part in (conclusion.sentence, conclusion.caution) if part),
        status=_mark(str(conclusion.status)),
        answers=[_answer(row) for row in beside_forecasts(conclusion.rows(), made)],
        figures=_save_figures(run.folder.figures, drawn),
        spec=_spec(recipe, spec.model_dump(mode="json")),
        again=_command(run, recipe, spec),
        provenance=_provenance(run, status),
    )
    return _save(run.folder.report, page)


def write_sweep(identity: str, store: Store, *, allow_code: bool = False) -> Path:
    """Write the page of a sweep: what was varied, what each run concluded, and every quantity over the runs."""
    facts, runs = recall(identity, store, allow_code=allow_code)
    known = {run.id: run.folder.status() for run in runs if run.exists}
    finished = [run for run in runs if known.get(run.id, {}).get("status") in FINISHED]
    if not finished:
        raise BadInput(f"no run of {facts['sweep']} is finished", "run the command of the sweep again")
    recipe = finished[0].recipe
    specs = {run.id: run.folder.spec()["spec"] for run in runs if run.id in known}
    labels = [", ".join(f"{name} {_value(specs[run.id].get(name))}" for name in facts["varied"]) for run in finished]
    rows = [run.conclusion().rows() for run in finished]
    statuses = [known.get(run.id, {"status": "not started"})["status"] for run in runs]
    worst = next((word for word in ("failed", "refused", "warning") if word in statuses), "ok")
    folder = store.path / FOLDER / facts["sweep"]
    with style():
        drawn = {"across-runs": across_runs(rows, labels)}
    first = known[finished[0].id]
    page = _render(
        title=f"{recipe.name}, {len(runs)} runs",
        question=recipe.question,
        sentence=f"{len(finished)} of {len(runs)} runs are finished.",
        status=_mark(worst if len(finished) == len(runs) else "unfinished"),
        answers=_over_runs(rows),
        figures=_save_figures(folder / "figures", drawn),
        spec=_spec(recipe, {k: v for k, v in specs[finished[0].id].items() if k not in facts["varied"]}),
        again="",
        provenance=[
            ("sweep", facts["sweep"]),
            ("time of all runs", _times(known.values())),
            *(entry for entry in _provenance(finished[0], first) if entry[0] in ("versions", "commit", "python")),
        ],
        varied=facts["varied"],
        runs=[
            {
                "run": run.id,
                "varied": [_value(specs[run.id].get(name)) if run.id in specs else "" for name in facts["varied"]],
                "status": _mark(status),
                "sentence": (known.get(run.id, {}).get("summary") or {}).get("sentence", ""),
            }
            for run, status in zip(runs, statuses, strict=True)
        ],
    )
    return _save(folder / "report.html", page)


def _over_runs(tables: list[list[Row]]) -> list[dict[str, Any]]:
    """One line per quantity: its range over the runs that did not refuse it, and how often it agreed."""
    lines = []
    for rows in by_quantity(tables):
        predicted = {row.predicted for row in rows}
        defended = [row.measurement for row in rows if row.measurement and row.measurement.status is not Status.REFUSED]
        numbers = [float(m.estimate) for m in defended if isinstance(m.estimate, int | float)]
        agreed = sum(row.verdict in ("agrees", "bound respected") for row in rows)
        compared = sum(row.verdict in _MARKS and row.prediction is not None for row in rows)
        inconclusive = sum(row.verdict == "inconclusive" for row in rows)
        refused = len(rows) - len(defended)
        words = [f"{agreed} of {compared} agree"] if compared else []
        words += [f"{inconclusive} inconclusive"] if inconclusive else []
        words += [f"{refused} refused"] if refused else []
        spread = f"{min(numbers):.5g} … {max(numbers):.5g} over {len(numbers)} runs" if numbers else ""
        theory = all(row.theory for row in rows)
        common = predicted.pop() if len(predicted) == 1 else "varies"
        lines.append(
            {
                "name": rows[0].name,
                "predicted": spread if theory else common,
                "source": "",
                "measured": "" if theory else spread,
                "kind": "",
                "verdict": {**_mark("agrees" if agreed == len(rows) else "warning"), "text": ", ".join(words)},
                "distance": "",
                "reasons": [],
            }
        )
    return lines


def _answer(row: Row) -> dict[str, Any]:
    prediction, measurement = row.prediction, row.measurement
    solved = f"computed from theory, error by {measurement.error_kind}" if row.theory and measurement else ""
    return {
        "name": row.name,
        "predicted": row.predicted,
        "source": f"{prediction.regime}. {prediction.source}".strip(". ") if prediction else solved,
        "measured": row.measured,
        "kind": measurement.error_kind if measurement and not row.theory else "",
        "verdict": _mark(row.verdict),
        "distance": row.distance,
        "reasons": list(measurement.reasons) if measurement else [],
    }


def _save_figures(folder: Path, drawn: Mapping[str, Captioned]) -> list[tuple[str, str]]:
    """Write figures as SVG files; return them ready for a page, with their captions."""
    ready = []
    refuse_links(folder, folder=True)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, captioned in drawn.items():
            svg = to_svg(captioned.figure, name)
            write_atomically(folder / f"{name}.svg", svg.encode())
            ready.append((inline(svg, name, html.escape(captioned.caption, quote=True)), captioned.caption))
    return ready


def _spec(recipe: Recipe, values: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    fields = recipe.spec.model_fields
    return [(name, _value(value), fields[name].description or "") for name, value in values.items()]


def _times(statuses: Collection[Mapping[str, Any]]) -> str:
    wall, cpu = (sum(status[key] for status in statuses) for key in ("wall_seconds", "cpu_seconds"))
    return f"{wall:.1f} s wall, {cpu:.1f} s CPU"


def _provenance(run: Run, status: dict[str, Any]) -> list[tuple[str, str]]:
    facts = status["provenance"]
    versions = ", ".join(f"{package} {version}" for package, version in facts["versions"].items() if version)
    return [
        ("run", run.id),
        ("finished", status["updated"]),
        ("time", _times([status])),
        ("attempts", str(status["attempts"])),
        ("seed", str(facts["seed"])),
        ("threads", str(facts["threads"])),
        ("versions", versions),
        ("commit", facts["commit"] or "installed package"),
        ("python", f"{facts['python']} on {facts['system']}"),
    ]


def _command(run: Run, recipe: Recipe, spec: Spec) -> str:
    """The command that computes this run again."""
    request = run.folder.spec()
    fields = recipe.spec.model_fields
    defaults = {name: info.get_default(call_default_factory=True) for name, info in fields.items()}
    words = ["phasecast run", request["recipe"]]
    for name, value in spec.model_dump().items():
        if value != defaults[name]:
            text = json.dumps(value, ensure_ascii=False)
            words.append(f"--set '{name}={text}'")
    return " ".join(words)


def _mark(word: str) -> dict[str, str]:
    kind, sign = _MARKS.get(word, ("dull", "…"))
    return {"text": word, "kind": kind, "sign": sign}


def _value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "none" if value is None else str(value)


def _render(**content: Any) -> str:
    import jinja2

    from phasecast import __version__

    content = {"runs": [], "varied": [], **content}
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("phasecast.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html.j2").render(version=__version__, **content)


def _save(path: Path, page: str) -> Path:
    with disk_errors(path.parent):
        write_atomically(path, page.encode())
    return path
