"""Logarithmic axes are labelled in plain text, unless their labels were chosen."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from phasecast.figures.powers import in_text, plain_powers
from phasecast.figures.style import to_svg

pytestmark = pytest.mark.bare


def labels(axis, *, minor: bool = False) -> list[str]:
    axis.figure.canvas.draw()
    return [text.get_text() for text in axis.get_ticklabels(minor=minor)]


def test_powers_are_text_and_the_same_as_matplotlibs():
    figure = Figure()
    ours, theirs = figure.subplots(), Figure().subplots()
    for axes in (ours, theirs):
        axes.loglog([1e-3, 1e13], [2, 9])
    plain_powers(figure)
    assert "10⁻³" in labels(ours.xaxis)
    assert "10¹³" in labels(ours.xaxis)
    assert "3×10⁰" in labels(ours.yaxis, minor=True)
    assert labels(ours.xaxis) == [in_text(label) for label in labels(theirs.xaxis)]
    assert "$" in "".join(labels(theirs.xaxis))  # else there would be nothing to do


def test_a_signed_axis_and_another_base():
    figure = Figure()
    axes = figure.subplots()
    axes.set_yscale("symlog", linthresh=10)
    axes.set_xscale("log", base=2)
    axes.plot([1, 64], [-1e5, 1e5])
    plain_powers(figure)
    assert {"−10⁵", "0", "10⁵"} <= set(labels(axes.yaxis))
    assert "2⁶" in labels(axes.xaxis)


def test_what_was_chosen_stays():
    figure = Figure()
    axes = figure.subplots()
    axes.loglog([1, 100], [1, 1e6])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g} %"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    to_svg(figure, "chosen")
    assert "10 %" in labels(axes.xaxis)
    assert not any(labels(axes.yaxis, minor=True))


def test_a_label_that_is_none_of_these_is_left_alone():
    assert in_text("$\\alpha$") == "$\\alpha$"
    assert in_text("") == ""
