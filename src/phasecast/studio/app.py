"""The studio: what streamlit runs for every browser session. ``phasecast studio`` starts it."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from phasecast.studio.views import claims, explore, forecast, open_run, runs, start
from phasecast.studio.views.parts import STYLE

ICON = Path(__file__).with_name("icon.svg")  # a named icon would be fetched from another host


def main() -> None:
    """Draw the page that the address names."""
    st.set_page_config(page_title="phasecast studio", page_icon=str(ICON), layout="wide")
    st.html(STYLE)

    first = st.Page(runs.page, title="Runs", icon=":material/table_rows:", url_path="first", default=True)  # at /
    pages = {
        "Experiments": [
            first,
            st.Page(lambda: st.switch_page(first), title="Runs", url_path="runs", visibility="hidden"),  # typed by hand
            st.Page(start.page, title="Start a run", icon=":material/play_arrow:", url_path="start"),
            st.Page(open_run.page, title="One run", icon=":material/show_chart:", url_path="run"),
        ],
        "Explore": [
            st.Page(explore.learning_curve, title="Learning curve", icon=":material/trending_down:", url_path="curve"),
            st.Page(explore.threshold_page, title="Threshold", icon=":material/speed:", url_path="threshold"),
            st.Page(
                explore.coefficient, title="Exact coefficients", icon=":material/function:", url_path="coefficient"
            ),
            st.Page(explore.basins, title="Basin competition", icon=":material/balance:", url_path="basins"),
        ],
        "Answers": [
            st.Page(forecast.page, title="Forecast", icon=":material/schedule:", url_path="forecast"),
            st.Page(claims.page, title="Claims", icon=":material/gavel:", url_path="claims"),
        ],
    }

    st.navigation(pages).run()


if __name__ == "__main__":
    main()
