"""The page of one run: what it found, its curves while it computes, its figures, spec and log; stop, resume, report."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import streamlit as st

from phasecast.core.errors import BadInput, PhasecastError
from phasecast.lab.runs import Run
from phasecast.lab.store import FINISHED, Store
from phasecast.progress import duration
from phasecast.studio import processes
from phasecast.studio.charts import DRAWING, by_title, picture, svg_of
from phasecast.studio.inert import inert_text
from phasecast.studio.stored_curves import panels_of
from phasecast.studio.views import parts

MOST_PICTURES = 12  # of logged columns; chosen: six rows of two
MOST_EVENTS = 200  # lines of the log, the newest
ANSWER_COLUMNS = {
    "predicted": "what theory says, or a forecast that was made before",
    "measured": "what came out ± one standard error",
    "verdict": "of a comparison: agrees, differs, …; without a prediction: whether the number can be trusted",
    "distance in errors": "measured minus predicted, over the standard error of both together",
}
MOST_FORECASTS = 1  # the newest forecast stands above the curves


def page() -> None:
    """One run, chosen by the address or on the page of runs."""
    run = st.query_params.get("run") or st.session_state.get("run")
    with parts.one_line_errors():
        run = _choose(run)
        if run is None:
            return
        st.session_state["run"] = st.query_params["run"] = run
        folder = parts.store().folder(run)
        if not folder.exists:
            st.fragment(_before_the_first_status, run_every=1.0)(run)
            return
        live = _is_live(run, folder.status())
        st.fragment(_head, run_every=parts.REFRESH if live else None)(run, live)
        _details(run)


def _choose(run: str | None) -> str | None:
    """The run of the address; else one of the newest, by a list."""
    store = parts.store()
    if run:
        return run if store.folder(run).exists or processes.was_started(run, store) else store.find(run)
    parts.title("One run")
    rows, _ = parts.index().look()
    if not rows:
        parts.sentence("There are no runs in this store yet.")
        return None
    return st.selectbox("Run", [row.run for row in rows[:500]], index=None, placeholder="choose one of the newest")


def _before_the_first_status(run: str) -> None:
    store = parts.store()
    if store.folder(run).exists:
        st.rerun()
    parts.title(run, "starting")
    log = processes.launch_log(run, store)
    if processes.has_ended(run):
        parts.problem(log.strip() or "the process ended without a word")
    else:
        parts.text("The process is starting; its first numbers come in a few seconds.")
        if log:
            st.code(inert_text(log), language=None)


def _head(run: str, live: bool) -> None:
    """What changes while a run computes; the whole page is drawn again when it ends."""
    folder = parts.store().folder(run)
    status = folder.status()
    if live and not _is_live(run, status):
        st.rerun()
    starting = live and status["status"] != "running"
    parts.title(run, "starting" if starting else status["status"])
    _facts(status)
    if summary := status.get("summary"):
        parts.sentence(summary.get("sentence", ""))
    elif status.get("error") and not starting:
        parts.problem(status["error"])
    else:
        _forecast(folder)
    if not starting:
        _buttons(run, status)
    if status["status"] not in FINISHED:
        _curves(run)


def _is_live(run: str, status: dict[str, Any]) -> bool:
    """Whether the run computes, or is about to: the process that resumes it needs a moment to start."""
    if status["status"] == "running":
        return True
    return parts.is_expected(run, status["attempts"]) and not processes.has_ended(run)


def _facts(status: dict[str, Any]) -> None:
    done, total = status["done"], status["total"]
    if status["status"] == "running":
        share = min(1.0, done / total) if total else 0.0
        left = status["wall_seconds"] * (1 - share) / share if share else None
        st.progress(share, f"{done} of {total or '?'}" + (f", about {duration(left)} left" if left is not None else ""))
    spent = f"{status['wall_seconds']:.1f} s, of which {status['cpu_seconds']:.1f} s computing"
    updated = status["updated"][:19].replace("T", " ")
    recipe = inert_text(status["recipe"], 80)
    parts.soft(f"{recipe} · {done} of {total or '?'} · {spent} · attempt {status['attempts']} · {updated} UTC")


def _forecast(folder: Any) -> None:
    from phasecast.lab.forecasts.archive import kept

    for made in kept(folder)[-MOST_FORECASTS:]:
        parts.sentence(made.line())


def _buttons(run: str, status: dict[str, Any]) -> None:
    store, word = parts.store(), status["status"]
    bar = st.container(horizontal=True)
    try:
        if word == "running" and bar.button("Stop", icon=":material/stop:", help="it writes a checkpoint and ends"):
            processes.stop_run(run, store)
            st.toast("The run writes a checkpoint and stops.")
        if word in ("interrupted", "failed") and bar.button("Resume", icon=":material/play_arrow:", type="primary"):
            processes.resume_run(run, store, allow_code=parts.allow_code())
            parts.expect_attempt(run, status["attempts"] + 1)
            st.rerun()
        if word in FINISHED:
            _report(bar, run, store)
    except BadInput as error:
        parts.problem(error)


def _report(bar: Any, run: str, store: Store) -> None:
    from phasecast.report import write

    if bar.button("Write report", icon=":material/description:", help="one HTML file to send to a colleague"):
        with DRAWING:
            st.session_state["report"] = (run, write(Run(run, store, allow_code=parts.allow_code())).read_bytes())
    written = st.session_state.get("report")
    if written and written[0] == run:
        bar.download_button("Download report", written[1], f"{run}.html", "text/html", icon=":material/download:")


def _curves(run: str) -> None:
    lines = parts.curve_reader().lines(parts.store().folder(run))
    pictures = list(panels_of(lines).items())[:MOST_PICTURES]
    if not pictures:
        parts.text("No rows are stored yet; they come with the first checkpoint.")
        return
    columns = st.columns(2 if len(pictures) > 1 else 1)
    for place, (title, group) in enumerate(pictures):
        columns[place % len(columns)].altair_chart(
            picture(by_title(group), title), width="stretch", key=f"curve-{title}"
        )


def _details(run: str) -> None:
    folder = parts.store().folder(run)
    status = folder.status()
    finished = status["status"] in FINISHED
    names = [*(["Answers", "Figures", "Curves"] if finished else []), "Spec", "Log"]
    for tab, name in zip(st.tabs(names), names, strict=True):
        with tab, parts.one_line_errors():
            {"Answers": _answers, "Figures": _figures, "Curves": _curves, "Spec": _spec, "Log": _log}[name](run)


def _answers(run: str) -> None:
    rows, note = _answer_rows(run, str(parts.store().path), parts.allow_code(), _print_of(run))
    if note:
        parts.soft(note)
    if rows:
        parts.whole_table(rows, ANSWER_COLUMNS)
    else:
        parts.text("This run has no numbers to compare; its conclusion is the sentence above.")


@st.cache_data(max_entries=parts.KEPT, show_spinner="reading what was found")
def _answer_rows(run: str, path: str, allow_code: bool, print_of: str) -> tuple[list[dict[str, str]], str]:
    """The answers as a table; those in ``status.json`` where the recipe cannot be had."""
    from phasecast.lab.forecasts.archive import kept
    from phasecast.lab.overview.stored_answers import stored_rows
    from phasecast.report.forecasts import beside_forecasts

    loaded = Run(run, Store(path), allow_code=allow_code)
    note = ""
    try:
        rows = beside_forecasts(loaded.conclusion().rows(), kept(loaded.folder))
    except PhasecastError as error:
        rows, note = stored_rows(loaded.summary), f"Shown as stored: {error}"
    table = [
        {
            "quantity": inert_text(row.name, 160),
            "predicted": inert_text(row.predicted, 160),
            "measured": inert_text(row.measured, 160),
            "verdict": row.verdict,
            "distance in errors": row.distance,
            "remark": inert_text("; ".join(map(str, row.measurement.reasons)) if row.measurement else "", 400),
        }
        for row in rows
    ]
    return table, note


def _figures(run: str) -> None:
    for picture_of, caption in _figure_files(
        run, str(parts.store().path), parts.allow_code(), parts.is_dark(), _print_of(run)
    ):
        parts.svg(picture_of, caption)


@st.cache_data(max_entries=parts.KEPT, show_spinner="drawing the figures")
def _figure_files(run: str, path: str, allow_code: bool, dark: bool, print_of: str) -> list[tuple[str, str]]:
    """The figures of a finished run as SVG with their captions."""
    from phasecast.figures.style import style
    from phasecast.lab.forecasts.archive import KnownOutcome, kept
    from phasecast.report.forecasts import forecast_figures

    loaded = Run(run, Store(path), allow_code=allow_code)
    results, recipe, spec = loaded.results(), loaded.recipe, loaded.spec
    outcome = KnownOutcome.of(loaded.folder.status().get("summary"))
    with DRAWING, style(), loaded.trusted():
        figures = {**recipe.figures(spec, results), **forecast_figures(kept(loaded.folder), outcome)}
        return [(svg_of(one.figure, name, dark=dark), one.caption) for name, one in figures.items()]


def _spec(run: str) -> None:
    request = parts.store().folder(run).read_spec()
    rows = [{"field": inert_text(name, 80), "value": inert_text(json.dumps(value, ensure_ascii=False), 400)}
            for name, value in request["spec"].items()]  # fmt: skip
    parts.whole_table(rows)
    words = [f"--set '{row['field']}={row['value']}'" for row in rows]
    st.code(inert_text(" ".join(["phasecast run", request["recipe"], *words]), 4000), language="bash", wrap_lines=True)


def _log(run: str) -> None:
    store = parts.store()
    folder = store.folder(run)
    events = folder.events()[-MOST_EVENTS:]
    hidden = ("time", "event", "traceback")
    rows = [
        {
            "time (UTC)": inert_text(event.get("time", ""), 30)[:19].replace("T", " "),
            "event": inert_text(event.get("event", ""), 60),
            "facts": inert_text(
                json.dumps({k: v for k, v in event.items() if k not in hidden}, ensure_ascii=False), 400
            ),
        }
        for event in reversed(events)
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch")
    if traceback := next((event["traceback"] for event in reversed(events) if event.get("traceback")), ""):
        st.code(inert_text(traceback, 6000), language=None, wrap_lines=True)
    if printed := processes.launch_log(run, store):
        parts.soft("What its process printed:")
        st.code(inert_text(printed, processes.LONGEST_LOG), language=None, wrap_lines=True)
    made = folder.status()["provenance"]
    commit = inert_text(made["commit"] or "installed package", 60)
    where = f"{inert_text(made['python'], 40)} on {inert_text(made['system'], 80)}"
    parts.soft(f"{where}, commit {commit}, in {folder.path}")


def _print_of(run: str) -> str:
    """What changes whenever the files of a run do: the key of what is kept in memory."""
    facts = (parts.store().folder(run).path / "status.json").stat()
    return f"{facts.st_mtime_ns}-{facts.st_size}"
