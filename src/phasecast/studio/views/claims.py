"""The page of claims: what the papers say, what we found, and the counterexamples, which can be run."""

from __future__ import annotations

from collections import Counter

import pandas as pd
import streamlit as st

from phasecast.core.claim import Claim, ClaimVerdict
from phasecast.studio import processes
from phasecast.studio.claim_table import chosen_claims, claim_rows, counterexample_file, deciding_run, papers
from phasecast.studio.inert import inert_text
from phasecast.studio.views import parts

TABLE = "claims-table"
LONGEST_PROGRAM = 120.0  # seconds; the slowest counterexample takes a tenth of it


def page() -> None:
    """All claims, and one of them."""
    parts.title("Claims")
    cited = papers()
    left, middle, right = st.columns([2, 2, 1])
    some = left.multiselect("Paper", list(cited), format_func=lambda name: f"{name}: {cited[name]}")
    verdicts = middle.multiselect("Verdict", [str(verdict) for verdict in ClaimVerdict])
    words = right.text_input("Search", placeholder="eq. 6")
    chosen = chosen_claims(some, verdicts, words)
    if not chosen:
        parts.sentence("No claim matches these filters.")
        return
    counts = Counter(str(claim.verdict) for claim in chosen)
    parts.sentence(f"{len(chosen)} claims: " + ", ".join(f"{word} {n}" for word, n in counts.most_common()) + ".")
    event = st.dataframe(
        pd.DataFrame(claim_rows(chosen)),
        key=TABLE,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        column_config={"claim": st.column_config.TextColumn("claim", pinned=True, width="medium"),
                       "statement": st.column_config.TextColumn("statement", width="large"),
                       "counterexample": st.column_config.CheckboxColumn("counterexample", width="small")},
    )  # fmt: skip
    picked = event.selection.rows
    asked = st.query_params.get("claim")
    claim = (
        chosen[picked[0]] if picked and picked[0] < len(chosen) else next((c for c in chosen if c.id == asked), None)
    )
    if claim is None:
        parts.soft("Select a claim to see why, our version, and its counterexample.")
        return
    st.query_params["claim"] = claim.id
    with parts.one_line_errors():
        _claim(claim)


def _claim(claim: Claim) -> None:
    parts.title(claim.id, str(claim.verdict))
    parts.soft(claim.source)
    for name, words in (("The paper says", claim.statement), ("We found", claim.why), ("Our version", claim.ours)):
        if words:
            st.markdown(f"**{name}**")
            parts.text(words)
    if claim.criterion:
        st.markdown("**Criterion**" + (" (chosen when results were known)" if claim.exploratory else ""))
        parts.text(claim.criterion)
    if claim.counterexample:
        _counterexample(claim)
    _decided(claim)


def _counterexample(claim: Claim) -> None:
    path = counterexample_file(claim)
    st.markdown("**Counterexample**")
    st.code(claim.counterexample, language="python")
    if path:
        parts.soft(f"{path.parent.parent.name}/counterexamples/{path.name}")
    if st.button("Run it", icon=":material/play_arrow:", key=f"run-{claim.id}"):
        with st.spinner("running in a process of its own", show_time=True):
            st.session_state["counterexample"] = (
                claim.id,
                processes.run_program(claim.counterexample, LONGEST_PROGRAM),
            )
    kept = st.session_state.get("counterexample")
    if kept and kept[0] == claim.id:
        output = kept[1]
        ending = {None: f"stopped after {LONGEST_PROGRAM:.0f} s", 0: "ended without an error"}
        st.code(
            inert_text(output.text or "(it printed nothing)", processes.LONGEST_OUTPUT), language=None, wrap_lines=True
        )
        parts.soft(ending.get(output.code, f"ended with exit code {output.code}"))


def _decided(claim: Claim) -> None:
    run, stored = deciding_run(claim.id, parts.store())
    st.markdown("**The run that decides it**")
    if stored:
        if st.button(run, icon=":material/show_chart:", key=f"open-{claim.id}"):
            parts.open_in_page(run)
    else:
        parts.soft("It is not in this store. This command computes it:")
        st.code(f"phasecast claims verify {claim.id} --all", language="bash")
