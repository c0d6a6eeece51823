"""Results in notebooks: the table that is printed, the status in colour, the figure below, and nothing that runs."""

from __future__ import annotations

import re
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

import phasecast as pc
from phasecast.core.display import COLOURS
from phasecast.core.results import Status, Verdict

pytestmark = pytest.mark.bare

HOSTILE = '<script>alert("x")</script>'


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def measured(**fields: object) -> pc.Measurement:
    return pc.Measurement(0.5003, 0.0011, name="λ", **fields)  # pyright: ignore[reportArgumentType]


def test_a_result_shows_the_rows_that_it_prints():
    html = pc.Comparison(pc.Prediction(Fraction(1, 2), "everywhere", "a book"), measured())._repr_html_()
    for text in ("1/2", "everywhere", "a book", "0.5003 ± 0.0011 (mcse)", "agrees", "combined errors"):
        assert text in words(html)


@pytest.mark.parametrize("word", [*Status, *Verdict])
def test_every_status_and_verdict_has_its_colour(word):
    assert str(word) in COLOURS


def test_the_status_is_in_colour_and_a_reason_that_begins_like_one_is_not():
    html = measured(status="refused", reasons=["ok (not really)"])._repr_html_()
    assert html.count("background:") == 1
    assert re.search(rf"background:{COLOURS['refused']}[^>]*>refused</span>", html)


def test_names_and_reasons_are_shown_inert():
    result = pc.Measurement(1.0, 0.1, "warning", {HOSTILE: HOSTILE}, reasons=[HOSTILE], name=HOSTILE)  # pyright: ignore[reportArgumentType]
    assert "<script" not in result._repr_html_()
    assert "&lt;script&gt;" in result._repr_html_()


def drawn_curve() -> pc.online.CurveForecast:
    alpha = np.linspace(1.0, 10.0, 5)
    return pc.online.CurveForecast(
        estimate=1 / alpha, error=0.01 / alpha, alpha=alpha, spread=0.1 / alpha, error_kind="seeds", name="ε"
    )


def test_a_result_that_draws_has_its_figure_below_the_table():
    html = drawn_curve()._repr_html_()
    assert html.index("</table>") < html.index("data:image/png;base64,")
    assert "data:image" not in measured()._repr_html_()


def test_a_figure_that_refuses_leaves_the_table():
    class Undrawable(pc.Measurement):
        def figure(self):
            raise pc.BadInput("nothing to draw", "measure something")

    assert "1.00 ± 0.10" in words(Undrawable(1.0, 0.1)._repr_html_())


def test_figures_are_in_our_style_and_shown_without_pyplot(tmp_path):
    """In a process of its own, where nothing has imported pyplot; matplotlib's settings are untouched."""
    script = """
import sys
import matplotlib as mpl
import numpy as np
import phasecast as pc
before = mpl.rcParams["text.color"]
figure = pc.online.Spectrum.power_law(20, 0.5).figure()
from phasecast.figures.style import INK
assert figure.axes[0].xaxis.label.get_color() == INK
assert mpl.rcParams["text.color"] == before != INK
png, size = figure._repr_png_()
assert png.startswith(b"\\x89PNG") and size["width"] == 480
figure.save("x.pdf")
assert "matplotlib.pyplot" not in sys.modules
try:
    figure.save("x.docx")
except pc.BadInput:
    sys.exit()
raise AssertionError("a file that cannot be drawn to was accepted")
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)
    assert (tmp_path / "x.pdf").read_bytes().startswith(b"%PDF")


def test_a_table_of_a_result_needs_no_drawing():
    script = """
import sys
import phasecast as pc
pc.Measurement(0.5, 0.1)._repr_html_()
assert not {"matplotlib", "pandas", "jax", "torch"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_curve_is_a_table_over_alpha():
    frame = drawn_curve().table()
    assert frame.index.name == "alpha"
    assert list(frame.columns) == ["estimate", "error", "spread"]
    assert np.allclose(frame["estimate"], 1 / frame.index.to_numpy())


def test_results_of_parts_show_one_line_each():
    def trough(w):
        return w[0] ** 2 + w[1] ** 4

    options = {"n": 1000, "seed": 0, "progress": False, "seconds": 3.0, "target": 0.2}
    result = pc.llc(trough, np.zeros(2), gamma=1.0, **options)
    assert list(result.table().columns) == ["estimate", "error", "value_var"]
    trajectory = pc.llc_trajectory({0: np.ones(2), 10: np.zeros(2)}, trough, gamma=1.0, **options)
    assert list(trajectory.table().index) == [0, 10]
    assert words(trajectory._repr_html_()).count(str(trajectory.results[0].status)) >= 1
    sweep = pc.llc_sweep(trough, np.zeros(2), nbetas=[100.0, 1000.0], gammas=[1.0], **options)
    assert len(sweep.table()) == 2
    for one in (trajectory, sweep):
        assert "data:image/png" in one._repr_html_()


def test_a_plan_shows_its_question_numbers_and_meaning():
    from phasecast.forecasting.planning.plan import NeedTable, PlanRow

    plan = NeedTable("how much?", [PlanRow("n", 10.0, 1.0, "<b>enough</b>"), PlanRow("m", None, np.nan, "refused")])
    assert "&lt;b&gt;enough" in plan._repr_html_()
    assert np.isnan(plan.table().loc["m", "value"])


def test_forecasts_so_far_are_a_table():
    first = pc.Forecast(2000.0, low=1700.0, high=2500.0, made_at=400.0, tier="lone log")
    second = pc.Forecast(2100.0, low=1900.0, high=2300.0, made_at=800.0, tier="lone log", earlier=(first,))
    assert list(second.table().index) == [400.0, 800.0]
    assert "data:image/png" in second._repr_html_()
