"""The pages with sliders: a learning curve, a threshold, an exact coefficient, two competing basins."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import streamlit as st

from phasecast.core.errors import PhasecastError
from phasecast.core.results import Measurement, Status
from phasecast.studio import closed_forms
from phasecast.studio.charts import drawn_svg
from phasecast.studio.inert import for_markdown
from phasecast.studio.views import parts

POINTS = 80  # of a learning curve; chosen: a smooth line that is solved in a second
DRAWS = 2  # of student and teacher; the fewest with a spread
EXAMPLES = ("z**2", "z**4 - 6*z**2", "tanh(z)**2", "z1*z2", "(z1 > 0)*(z2 > 0)")
SPINNER = "solving; the first curve of a new size takes a few seconds to compile"


def learning_curve() -> None:
    """ε(α) of a committee that learns online from power-law data."""
    parts.title("Learning curve")
    parts.text(
        "A student with K hidden units learns online from a teacher with M, on inputs whose covariance falls like a "
        "power law. The curve is the solution of the order-parameter equations."
    )
    controls, result = st.columns([1, 2.4], gap="large")
    with controls:
        students = st.slider("Student units K", 1, 6, 2)
        teachers = st.slider("Teacher units M", 1, 6, 2)
        modes = st.slider("Modes L", 1, 40, 4, help="distinct eigenvalues of the input covariance")
        exponent = st.slider("Exponent β", 0.1, 3.0, 0.5, 0.1, help="eigenvalues fall like l^−(1+β)")
        rate = st.select_slider("Learning rate η", [0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0], 0.5)
        until = st.select_slider("Until α", [100, 200, 500, 1000, 2000, 5000, 10_000], 1000, help="examples per input")
    with result, parts.one_line_errors():
        found, picture = _curve(students, teachers, modes, exponent, rate, until, parts.is_dark())
        parts.svg(picture)
        _show(found)


@st.cache_data(max_entries=parts.KEPT, show_spinner=SPINNER)
def _curve(
    K: int, M: int, modes: int, exponent: float, lr: float, until: int, dark: bool
) -> tuple[dict[str, Any], str]:
    from phasecast import online

    alphas = np.concatenate([[0.0], np.geomspace(1.0, until, POINTS)])
    found = online.curve(K, M, modes=modes, exponent=exponent, lr=lr, alphas=alphas, draws=DRAWS)
    return _facts(found), drawn_svg(found.figure, "curve", dark=dark)


def threshold_page() -> None:
    """δ*(0), and on a button the thresholds at later times."""
    from phasecast.features.setting.functions import ACTIVATIONS, LOSSES
    from phasecast.features.setting.target import PRESETS

    parts.title("Threshold")
    parts.text(
        "From how many examples per dimension, δ = n/d, does the Hessian at the start of training have an outlier that "
        "points at the hidden directions of a target?"
    )
    controls, result = st.columns([1, 2.4], gap="large")
    with controls:
        offered = [*EXAMPLES, *PRESETS]
        target = st.selectbox("Target", offered, accept_new_options=True, help="an expression in z or z1, z2, z3; type "
                              "your own, like z\\*\\*4 \\- 3\\*z\\*\\*2")  # fmt: skip
        activation = st.selectbox("Activation", list(ACTIVATIONS))
        loss = st.selectbox("Loss", list(LOSSES), index=list(LOSSES).index("pseudo-huber"))
        noise = st.slider("Label noise", 0.0, 1.0, 0.0, 0.05)
    setting = (str(target or EXAMPLES[0]), activation, loss, noise)
    with result, parts.one_line_errors():
        found, picture = _threshold(*setting, parts.is_dark())
        parts.labelled_number("δ*(0), examples per dimension", found["headline"], found["error"])
        if picture:
            parts.svg(picture)
        _show(found)
    _later(setting)


@st.cache_data(max_entries=parts.KEPT, show_spinner="computing the spectrum")
def _threshold(target: str, activation: str, loss: str, noise: float, dark: bool) -> tuple[dict[str, Any], str]:
    from phasecast import features

    found = features.threshold(target, activation, loss, noise=noise, curves=True)
    return _facts(found), drawn_svg(found.figure, "threshold", dark=dark) if found.curves else ""


def _later(setting: tuple[str, str, str, float]) -> None:
    """δ* at t = 20 and t = ∞, which takes longer: on a button, with what is being computed."""
    from phasecast.features.threshold_table import ThresholdRow, row_words, threshold_table

    st.subheader("Later times")
    st.write("The thresholds after 20 steps of gradient descent and at its end take up to a few minutes.")
    kept: dict[tuple[Any, ...], tuple[dict[str, Any], Any]] = st.session_state.setdefault("later", {})
    if st.button("Compute", icon=":material/play_arrow:"):
        target, activation, loss, noise = setting
        bar, rows = st.progress(0.0, "starting"), st.empty()
        lines: list[str] = []
        events = 0

        def watch(event: ThresholdRow | str) -> None:
            nonlocal events
            events += 1
            if isinstance(event, str):
                bar.progress(1 - math.exp(-events / 40), for_markdown(event))  # their number is not known before
            else:
                lines.append("{:<7} {}".format(*row_words(event)))
                rows.code("\n".join(lines), language=None)

        with parts.one_line_errors():
            found = threshold_table(target, activation, loss, watch=watch, noise=noise)
            kept.clear()
            kept[setting] = (_facts(found), found)
        bar.empty()
        rows.empty()
    if setting in kept:
        facts, found = kept[setting]
        if found.table:
            parts.svg(drawn_svg(found.figure, "later", dark=parts.is_dark()))
        _show(facts)


def coefficient() -> None:
    """λ and m of a family with a closed form."""
    parts.title("Exact coefficients")
    controls, result = st.columns([1, 1.6], gap="large")
    forms = closed_forms.forms()
    with controls:
        name = st.selectbox("Family", list(forms))
        form = forms[name or next(iter(forms))]
        values = {entry.name: _input(form.name, entry) for entry in form.inputs}
    with result:
        try:
            found = form.compute(values)
        except PhasecastError as error:
            parts.problem(error)
            found = None
        if found is not None:
            bound = {"upper-bound": " at most", "lower-bound": " at least"}.get(found.kind, "")
            left, right = st.columns(2)
            with left:
                decimal = "" if float(found.value).is_integer() else f"= {float(found.value):.6g}"
                parts.labelled_number(f"learning coefficient λ{bound}", found.value, decimal)
            with right:
                parts.labelled_number("multiplicity m", found.multiplicity)
            parts.soft(f"{found.regime}. {found.source}".strip(". "))
        parts.text(form.summary)
        for paragraph in form.explained:
            st.markdown(paragraph)


def _input(form: str, entry: closed_forms.FormInput) -> Any:
    label, key = for_markdown(entry.name.replace("_", " ")), f"{form}-{entry.name}"
    tip = for_markdown(entry.help) or None
    if entry.kind == "integer":
        return st.number_input(label, entry.low, None, entry.example, step=1, key=key, help=tip)
    if entry.kind == "switch":
        return st.toggle(label, entry.example, key=key, help=tip)
    if entry.kind == "choice":
        return st.selectbox(label, entry.choices, key=key, help=tip)
    return st.text_input(label, entry.example, max_chars=300, key=key, help=tip)


def basins() -> None:
    """Two basins: at which number of samples does the posterior change sides?"""
    from phasecast.coefficients import Basin, Coefficient, critical_sample_size
    from phasecast.report import competing_basins

    parts.title("Basin competition")
    parts.text(
        "Two minima compete for the posterior of n samples: the one of smaller free energy F wins. A small loss L per "
        "sample wins when there are many samples, a small learning coefficient λ (with its multiplicity m) when few."
    )
    st.latex(r"F(n) = nL + \lambda\log n - (m-1)\log\log n")
    controls, result = st.columns([1, 2.4], gap="large")
    with controls:
        given = {}
        for name, colour, loss, value in (("a", "blue", 0.05, 2.0), ("b", "orange", 0.0, 10.0)):
            st.markdown(f"**Basin {name}** ({colour})")
            columns = st.columns(3)
            given[name] = Basin(
                columns[0].number_input("loss L", 0.0, 100.0, loss, step=0.01, format="%g", key=f"loss-{name}"),
                Coefficient(
                    columns[1].number_input("λ", 0.25, 1e6, value, step=0.5, format="%g", key=f"lambda-{name}"),
                    multiplicity=int(columns[2].number_input("m", 1, 100, 1, key=f"m-{name}")),
                ),
            )
    with result, parts.one_line_errors():
        found = critical_sample_size(given["a"], given["b"])
        if found.status is not Status.REFUSED:
            winners = found.diagnostics["winners"]
            remark = f"below it basin {winners[-2]} has the smaller free energy, above it basin {winners[-1]}"
            rounded = float(f"{float(np.asarray(found.estimate)):.4g}")
            parts.labelled_number("critical sample size n", f"{rounded:g}", remark)
        parts.svg(drawn_svg(lambda: competing_basins(given["a"], given["b"]), "basins", dark=parts.is_dark()))
        if found.status is Status.REFUSED:
            parts.remarks(found.reasons)


def _facts(found: Measurement) -> dict[str, Any]:
    """What a page shows of a result besides its figure."""
    estimate, error = np.asarray(found.estimate), np.asarray(found.error)
    refused, scalar = found.status is Status.REFUSED, estimate.ndim == 0
    return {
        "status": str(found.status),
        "reasons": [str(reason) for reason in found.reasons],
        "table": str(found),
        "headline": f"{float(estimate):.5g}" if scalar and not refused and math.isfinite(float(estimate)) else "—",
        "error": f"± {float(error):.1g} ({found.error_kind})" if scalar and not refused else "",
    }


def _show(facts: dict[str, Any]) -> None:
    parts.remarks(facts["reasons"], facts["status"])
    with st.expander("Numbers"):
        st.code(facts["table"], language=None)
