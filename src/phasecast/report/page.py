"""One self-contained HTML file for a run or a sweep: question, answer, figures, spec, provenance.

No request leaves the page: style and figures are inside it.
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from phasecast.core.results import Comparison, Measurement, Prediction, Result, Status, show
from phasecast.lab.files import disk_errors, write_atomically
from phasecast.lab.runs import Run
from phasecast.lab.store import FINISHED, Store
from phasecast.lab.sweep import recall
from phasecast.report.style import inline, style, to_svg

_MARKS = {
    "agrees": ("good", "✓"),
    "bound respected": ("good", "✓"),
    "differs": ("bad", "✗"),
    "not comparable": ("dull", "–"),
    "ok": ("good", "✓"),
    "warning": ("care", "!"),
    "refused": ("bad", "✗"),
    "failed": ("bad", "✗"),
}


def write(run: Run) -> Path:
    """Write ``report.html`` and ``figures/`` of a finished run; the path of the page."""
    recipe, spec, results = run.recipe, run.spec, run.results()
    conclusion = recipe.conclude(spec, results)
    with style():
        drawn = recipe.figures(spec, results)
    svgs = {name: to_svg(captioned.figure, name) for name, captioned in drawn.items()}
    with disk_errors(run.path):
        run.folder.figures.mkdir(exist_ok=True)
        for name, svg in svgs.items():
            write_atomically(run.folder.figures / f"{name}.svg", svg.encode())
    status = run.folder.status()
    page = _render(
        title=recipe.name,
        question=recipe.question,
        sentence=conclusion.sentence,
        status=_mark(status["status"]),
        answers=[_answer(name, answer) for name, answer in conclusion.answers.items()],
        figures=[
            (inline(svgs[name], name, html.escape(captioned.caption, quote=True)), captioned.caption)
            for name, captioned in drawn.items()
        ],
        spec=[
            (name, _value(value), recipe.spec.model_fields[name].description or "")
            for name, value in spec.model_dump(mode="json").items()
        ],
        again=_command(run),
        provenance=_provenance(run, status),
        runs=[],
    )
    return _save(run.folder.report, page)


def write_sweep(identity: str, store: Store) -> Path:
    """Write the page of a sweep: what was varied, and what each run found."""
    facts, runs = recall(identity, store)
    rows = []
    for run in runs:
        status: dict[str, Any] = run.folder.status() if (run.path / "status.json").exists() else {"status": "not begun"}
        spec = run.folder.spec()["spec"] if (run.path / "spec.json").exists() else {}
        summary = status.get("summary") or {}
        rows.append(
            {
                "run": run.id,
                "varied": [_value(spec.get(name, "")) for name in facts["varied"]],
                "status": _mark(status["status"]),
                "sentence": summary.get("sentence", ""),
            }
        )
    finished = [run for run in runs if (run.path / "status.json").exists() and run.status in FINISHED]
    recipe = finished[0].recipe if finished else None
    page = _render(
        title=f"{facts['recipe']}, {len(runs)} runs",
        question=recipe.question if recipe else "",
        sentence=f"{len(finished)} of {len(runs)} runs are finished.",
        status=_mark("ok" if len(finished) == len(runs) else "warning"),
        answers=_over_runs(finished),
        figures=[],
        spec=[],
        again="",
        provenance=[("sweep", facts["sweep"]), ("store", store.path.name)],
        runs=rows,
        varied=facts["varied"],
    )
    return _save(store.path / "sweeps" / facts["sweep"] / "report.html", page)


def _over_runs(runs: list[Run]) -> list[dict[str, Any]]:
    """One row a quantity: its mean over the runs and how often it agreed."""
    conclusions = [run.conclusion().answers for run in runs]
    rows = []
    for name in conclusions[0] if conclusions else ():
        found = [answers[name] for answers in conclusions if name in answers]
        measured = [_measured(answer) for answer in found]
        row = _answer(name, found[0])
        estimates = [m.estimate for m in measured if m is not None and m.status is not Status.REFUSED]
        if estimates and all(isinstance(estimate, int | float) for estimate in estimates):
            values = [float(estimate) for estimate in estimates]  # pyright: ignore[reportArgumentType]
            low, high = min(values), max(values)
            row["measured"] = f"{low:.5g} … {high:.5g} in {len(values)} runs"
        verdicts = [str(answer.verdict) for answer in found if isinstance(answer, Comparison)]
        if verdicts:
            agreed = sum(verdict in ("agrees", "bound respected") for verdict in verdicts)
            row["verdict"] = _mark("agrees" if agreed == len(verdicts) else "differs")
            row["verdict"]["text"] = f"{agreed} of {len(verdicts)} agree"
        row["distance"], row["reasons"] = "", []
        rows.append(row)
    return rows


def _answer(name: str, answer: Result) -> dict[str, Any]:
    prediction = answer.prediction if isinstance(answer, Comparison) else answer
    predicted, source = "", ""
    if isinstance(prediction, Prediction):
        predicted = dict(prediction._rows())["predicted"]
        multiplicity = getattr(prediction, "multiplicity", None)
        predicted += f" (m = {multiplicity})" if multiplicity else ""
        source = f"{prediction.regime}. {prediction.source}".strip(". ")
    measurement = _measured(answer)
    measured = show(measurement.estimate, measurement.error) if measurement else ""
    verdict = answer.verdict if isinstance(answer, Comparison) else measurement.status if measurement else ""
    largest = answer.largest_distance if isinstance(answer, Comparison) else None
    return {
        "name": name,
        "predicted": predicted,
        "source": source,
        "measured": measured,
        "kind": measurement.error_kind if measurement else "",
        "verdict": _mark(str(verdict)),
        "distance": ""
        if largest is None or largest != largest
        else f"{largest:+.1f}".replace("-", "−").replace("−0.0", "0.0").replace("+0.0", "0.0"),
        "reasons": list(measurement.reasons) if measurement else [],
    }


def _measured(answer: Result) -> Measurement | None:
    found = answer.measurement if isinstance(answer, Comparison) else answer
    return found if isinstance(found, Measurement) else None


def _provenance(run: Run, status: dict[str, Any]) -> list[tuple[str, str]]:
    facts = status["provenance"]
    versions = ", ".join(f"{package} {version}" for package, version in facts["versions"].items() if version)
    return [
        ("run", run.id),
        ("finished", status["updated"]),
        ("time", f"{status['wall_seconds']:.1f} s wall, {status['cpu_seconds']:.1f} s CPU"),
        ("attempts", str(status["attempts"])),
        ("seed", str(facts["seed"])),
        ("threads", str(facts["threads"])),
        ("versions", versions),
        ("commit", facts["commit"] or "installed package"),
        ("python", f"{facts['python']} on {facts['system']}"),
    ]


def _command(run: Run) -> str:
    """The command that gives this run again."""
    asked = run.folder.spec()
    defaults = {name: info.get_default() for name, info in run.recipe.spec.model_fields.items()}
    words = ["phasecast run", asked["recipe"]]
    for name, value in run.spec.model_dump().items():
        if value != defaults[name]:
            text = json.dumps(value, ensure_ascii=False)
            words.append(f"--set '{name}={text}'")
    return " ".join(words)


def _mark(word: str) -> dict[str, str]:
    kind, sign = _MARKS.get(word, ("dull", "…"))
    return {"text": word, "kind": kind, "sign": sign}


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "none" if value is None else str(value)


def _render(**content: Any) -> str:
    import jinja2

    from phasecast import __version__

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("phasecast.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html.j2").render(version=__version__, **content)


def _save(path: Path, page: str) -> Path:
    with disk_errors(path.parent):
        write_atomically(path, page.encode())
    return path
