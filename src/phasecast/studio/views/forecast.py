"""The page that forecasts a training from its log."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import streamlit as st

from phasecast.core.errors import BadInput
from phasecast.core.results import Status
from phasecast.forecasting.settings import NETWORKS, Settings
from phasecast.grokking.optimisers import OPTIMISERS
from phasecast.grokking.tasks import TASKS
from phasecast.studio.charts import drawn_svg, picture
from phasecast.studio.inert import inert_text
from phasecast.studio.server import LARGEST_UPLOAD
from phasecast.studio.stored_curves import StoredLine
from phasecast.studio.views import parts

MOST_BYTES = LARGEST_UPLOAD * 10**6
COVERAGES = (0.5, 0.8, 0.9, 0.95)  # the usual ones of forecasts


def page() -> None:
    """Upload a log, see when it will generalise."""
    parts.title("Forecast")
    parts.text(
        "When will a training that has memorised its data generalise? Upload its log: a CSV file with steps, training "
        "and validation accuracy and validation loss, as W&B, TensorBoard, Lightning or Keras write it."
    )
    limit = f"at most {LARGEST_UPLOAD} MB; it stays on this machine"
    uploaded = st.file_uploader("Training log", type=["csv", "tsv", "txt"], help=limit)
    coverage = st.segmented_control(
        "Probability of the interval", COVERAGES, default=0.8, format_func=lambda c: f"{c:.0%}"
    )
    settings = _settings()
    if uploaded is None:
        return
    with parts.one_line_errors():
        if uploaded.size > MOST_BYTES:
            raise BadInput(f"the file has {uploaded.size / 1e6:.0f} MB", f"give at most {LARGEST_UPLOAD} MB")
        _show(uploaded.getvalue(), inert_text(Path(uploaded.name).name, 80), settings, coverage or 0.8)


def _settings() -> dict[str, Any] | None:
    """The settings of the training, if they are given: then it is compared with finished runs."""
    with st.expander("Settings of the training, to compare it with finished runs"):
        if not st.toggle("Use settings"):
            return None
        left, middle, right = st.columns(3)
        return {
            "task": left.selectbox("task", list(TASKS)),
            "network": middle.selectbox("network", NETWORKS),
            "optimiser": right.selectbox("optimiser", list(OPTIMISERS)),
            "p": left.number_input("modulus p", 3, 10_000, 23),
            "n": middle.number_input("training rows n", 2, 10**7, 212),
            "width": right.number_input("hidden units", 1, 10**6, 128),
            "lr": left.number_input("learning rate", 0.0, None, 1e-3, step=1e-3, format="%g"),
            "weight_decay": middle.number_input("weight decay", 0.0, None, 1e-4, step=1e-4, format="%g"),
            "batch": right.number_input("minibatch, empty for all", 2, None, None),
        }


def _show(content: bytes, name: str, settings: dict[str, Any] | None, coverage: float) -> None:
    facts, fan, curves = _forecast(content, name, tuple((settings or {}).items()), coverage, parts.is_dark())
    parts.sentence(facts["line"])
    parts.remarks(facts["reasons"], facts["status"])
    left, right = st.columns(2)
    with left:
        if fan:
            parts.svg(fan, "Forecasts from the log as it was at earlier steps, with their intervals.")
    with right:
        st.altair_chart(picture(curves, name), width="stretch")
    with st.expander("Numbers", expanded=True):
        st.code(facts["table"], language=None)
    for note in facts["notes"]:
        parts.soft(note)


@st.cache_data(max_entries=8, show_spinner="forecasting")
def _forecast(
    content: bytes, name: str, given: tuple[tuple[str, Any], ...], coverage: float, dark: bool
) -> tuple[dict[str, Any], str, dict[str, StoredLine]]:
    """What the log says, the fan of forecasts made along it, and its accuracies."""
    from phasecast.forecasting.forecast import forecast, landmarks, with_earlier
    from phasecast.forecasting.log import read_log

    with tempfile.TemporaryDirectory(prefix="phasecast-studio-") as folder:
        path = Path(folder) / "log.csv"
        path.write_bytes(content)
        try:
            log = read_log(path)
        except BadInput as error:
            raise BadInput(error.cause.replace("log.csv", name), error.fix) from None
    settings = Settings(**dict(given)) if given else None
    made = forecast(log, settings, coverage=coverage)
    *before, _ = landmarks(log)
    earlier = [forecast(part, settings, coverage=coverage) for part in before]
    fan = (
        ""
        if made.status is Status.REFUSED and not earlier
        else drawn_svg(with_earlier(made, earlier).figure, "fan", dark=dark)
    )
    facts = {
        "line": made.line(),
        "table": str(made),
        "status": str(made.status),
        "reasons": [str(reason) for reason in made.reasons],
        "notes": [str(note) for note in log.notes],
    }
    curves = {
        "training accuracy": StoredLine(name, "train", "step", log.step, log.train_accuracy),
        "validation accuracy": StoredLine(name, "validation", "step", log.step, log.validation_accuracy),
    }
    return facts, fan, curves
