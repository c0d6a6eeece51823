"""The page of all runs: a table of what differs, filters, and curves of several runs in one picture."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from phasecast.lab.overview.listed_runs import STATUSES
from phasecast.studio.charts import picture
from phasecast.studio.inert import for_markdown
from phasecast.studio.run_index import MOST_SHOWN, RowFilter, RunRow, labels_of, sweeps_of, table_of
from phasecast.studio.stored_curves import StoredLine
from phasecast.studio.views import parts

TABLE = "runs-table"
MOST_OVERLAID = 12  # chosen: more lines in one picture cannot be told apart
STATUS_WIDTH = 110  # pixels; the longest word is "interrupted"
PREFERRED = ("validation_accuracy", "value", "validation_loss")  # what to overlay first, if it was logged


def page() -> None:
    """All runs of the store."""
    parts.title("Runs")
    with parts.one_line_errors():
        parts.soft(parts.store().path)
        rows, unread = parts.index().look()
        if not rows and not unread:
            _nothing_yet()
            return
        chosen = _filters(rows)
        live = unread or any(row.status == "running" for row in rows)
        st.fragment(_table, run_every=parts.REFRESH if live else None)(chosen)


def _nothing_yet() -> None:
    parts.sentence("There are no runs in this store yet.")
    parts.text("Start one here, or with `phasecast run` or `phasecast demo` in a terminal; it appears on this page.")
    if st.button("Start a run", type="primary", icon=":material/play_arrow:"):
        from phasecast.studio.views import start

        st.switch_page(st.Page(start.page, title="Start a run", url_path="start"))


def _filters(rows: Sequence[RunRow]) -> RowFilter:
    left, middle, right = st.columns([2, 2, 2])
    words = left.text_input("Search", placeholder="text or p=23", help="every word must be in the run: its id, "
                            "recipe, settings such as p=23, or conclusion")  # fmt: skip
    recipes = middle.multiselect("Recipe", sorted({row.recipe for row in rows if row.recipe}))
    statuses = right.multiselect("Status", [word for word in STATUSES if any(row.status == word for row in rows)])
    runs = None
    if sweeps := sweeps_of(parts.store(), rows):
        labels = {sweep.label: sweep for sweep in sweeps}
        label = st.selectbox("Sweep", list(labels), index=None, placeholder="runs of all sweeps, and others")
        runs = frozenset(labels[label].runs) if label else None
    return RowFilter(recipes, statuses, words, runs)


def _table(chosen: RowFilter) -> None:
    """The rows that the filters keep; their order stays while some are selected, since a selection counts rows."""
    rows, unread = parts.index().look()
    kept = [row for row in rows if chosen.keeps(row)]
    selected = _selected()
    if selected and (frozen := st.session_state.get("shown-runs")):
        by_id = {row.run: row for row in kept}
        kept = [by_id[run] for run in frozen if run in by_id] if set(frozen) <= set(by_id) else kept
    st.session_state["shown-runs"] = [row.run for row in kept]
    if not kept:
        parts.sentence("No run matches these filters.")
        return
    table = table_of(kept)
    table["status"] = [f"{parts.MARKS.get(word, ('', '…'))[1]} {word}" for word in table["status"]]
    st.dataframe(
        table,
        key=TABLE,
        hide_index=True,
        on_select="rerun",
        selection_mode="multi-row",
        column_config={
            "run": st.column_config.TextColumn("run", width="medium", pinned=True),
            "done": st.column_config.ProgressColumn("done", format="percent", min_value=0, max_value=1, width="small"),
            "status": st.column_config.TextColumn("status", width=STATUS_WIDTH),
            "conclusion": st.column_config.TextColumn("conclusion", width="large"),
        },
    )
    _count(len(kept), len(rows), unread)
    opened = [kept[place] for place in _selected() if place < min(len(kept), MOST_SHOWN)]
    _actions(opened)


def _selected() -> list[int]:
    state = st.session_state.get(TABLE)
    return list(state.selection.rows) if state is not None else []


def _count(kept: int, known: int, unread: int) -> None:
    words = f"{kept} of {known} runs" if kept != known else f"{known} runs"
    words += f"; the newest {MOST_SHOWN} are shown, narrow the filters to see others" if kept > MOST_SHOWN else ""
    words += f"; {unread} older ones are being read" if unread else ""
    parts.soft(f"{words}. Select a run to open it, or several to compare them.")


def _actions(rows: Sequence[RunRow]) -> None:
    if len(rows) == 1:
        if st.button(f"Open {for_markdown(rows[0].run, 60)}", type="primary", icon=":material/show_chart:"):
            parts.open_in_page(rows[0].run)
    elif rows:
        overlay(rows[:MOST_OVERLAID])
        if len(rows) > MOST_OVERLAID:
            parts.soft(f"The first {MOST_OVERLAID} of {len(rows)} selected runs are drawn.")


def overlay(rows: Sequence[RunRow]) -> None:
    """One quantity of several runs in one picture."""
    st.subheader("Compare")
    curves = {}
    for row, label in zip(rows, labels_of(rows), strict=True):
        with parts.one_line_errors():
            curves[label] = {line.title: line for line in parts.curve_reader().lines(parts.store().folder(row.run))}
    titles = sorted({title for lines in curves.values() for title in lines})
    if not titles:
        parts.text("None of these runs has logged a curve.")
        return
    first = next((t for name in PREFERRED for t in titles if t.endswith(f"/{name}")), titles[0])
    title = st.selectbox("Quantity", titles, index=titles.index(first)) or first
    shown: dict[str, StoredLine] = {label: lines[title] for label, lines in curves.items() if title in lines}
    st.altair_chart(picture(shown, title), width="stretch")
    if len(shown) < len(curves):
        parts.soft(f"{len(curves) - len(shown)} of the selected runs have not logged it.")
