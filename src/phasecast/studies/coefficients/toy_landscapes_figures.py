"""Which figures show λ of the toy landscapes? The coefficients, the volumes, and nβ E[L − L*] as nβ grows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.core.results import Measurement
from phasecast.core.statistics import standard_error
from phasecast.figures.drawing import COLOURS, EXACT, MARKERS, blank
from phasecast.lab.recipe import Captioned

if TYPE_CHECKING:
    import xarray as xr

    from phasecast.studies.coefficients.toy_landscapes import Estimate

LABELS = {"volume": "volume scaling", "quadrature": "temperature quadrature"}
GREY = EXACT["color"]
WIDTH, HEIGHT = 8.0, 4.0  # inches


def coefficients(estimates: Sequence[Estimate]) -> Captioned:
    """λ predicted and measured, one line per landscape; and their distance in standard errors."""
    names = list(dict.fromkeys(estimate.landscape for estimate in estimates))
    figure, ((left, right),) = blank(
        1, 2, width=WIDTH, height=1.5 + 0.42 * len(names), sharey=True, width_ratios=(3, 2)
    )
    right.axvspan(-3, 3, color=GREY, alpha=0.18, lw=0, label="agrees")
    for estimate in estimates:
        row, column = names.index(estimate.landscape), list(LABELS).index(estimate.method)
        height = row + (-0.14, 0.14)[column]
        value, error = _numbers(estimate.measured)
        style = {
            "fmt": MARKERS[column],
            "color": COLOURS[column],
            "mfc": "none" if estimate.refused else COLOURS[column],
            "ms": 5,
            "capsize": 3,
            "label": LABELS[estimate.method],
        }
        left.errorbar(value, height, xerr=error, **style)
        if estimate.predicted is not None:
            exact = float(estimate.predicted)
            left.plot([exact] * 2, [row - 0.4, row + 0.4], **EXACT, label="exact λ")
            if error > 0:
                right.errorbar((value - exact) / error, height, xerr=1, **style)
    left.set_yticks(range(len(names)), names)
    left.set_ylim(len(names) - 0.4, -0.6)
    left.set_xlim(left=0)
    left.set_xlabel("learning coefficient λ")
    right.set_xlabel("(measured − exact) / standard error")
    right.set_xlim(-5, 5)
    figure.legend(*_handles(left, right), loc="outside upper center", ncols=4)
    return Captioned(
        figure,
        "λ of each landscape. Left: exact (dashed) and measured, with bars of one standard error; a bar that does not "
        "show is smaller than the marker. Right: their distance in standard errors. Hollow: refused.",
    )


def _numbers(measured: Measurement) -> tuple[float, float]:
    """Estimate and error, of a refused measurement too."""
    return float(np.asarray(measured.estimate)), float(np.asarray(measured.error))


def _handles(*axes: Axes) -> tuple[list[Any], list[str]]:
    """Legend entries of several axes, each name once."""
    entries = {label: handle for one in axes for handle, label in zip(*one.get_legend_handles_labels(), strict=True)}
    return list(entries.values()), list(entries)


def volumes(node: xr.Dataset, hollow: set[str]) -> Captioned:
    """V(ε) on logarithmic axes; its slope is λ."""
    figure, ((axes,),) = blank(width=WIDTH, height=HEIGHT)
    values = node["V"].values
    mean, spread = values.mean(axis=0), standard_error(values)
    epsilons = node["epsilon"].values
    for index, name in enumerate(node["landscape"].values):
        axes.errorbar(
            epsilons,
            mean[index],
            yerr=spread[index],
            fmt="-" + MARKERS[index % len(MARKERS)],
            color=COLOURS[index % len(COLOURS)],
            mfc="none" if str(name) in hollow else None,
            ms=4,
            lw=1.2,
            label=str(name),
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("loss threshold ε")
    axes.set_ylabel("volume V(ε), share of the box")
    figure.legend(loc="outside upper center", ncols=4)
    return Captioned(
        figure,
        "The share of the box around the minimum with loss below ε. The slope is λ: the flatter the line, the "
        "more degenerate the minimum. Bars are standard errors, most of them smaller than the markers.",
    )


def scaled_losses(node: xr.Dataset, predictions: Sequence[Coefficient | None], hollow: set[str]) -> Captioned:
    """nβ E[L − L*] as nβ grows, with the exact values."""
    figure, ((axes,),) = blank(width=WIDTH, height=HEIGHT)
    nbetas = node["nbeta"].values
    for index, name in enumerate(node["landscape"].values):
        axes.plot(
            nbetas,
            node["llc"].values[index],
            "-" + MARKERS[index % len(MARKERS)],
            color=COLOURS[index % len(COLOURS)],
            mfc="none" if str(name) in hollow else None,
            ms=4,
            lw=1.2,
            label=str(name),
        )
    exact = [p.value for p in predictions if p is not None]
    for value in sorted({v for v in exact if isinstance(v, Fraction)}):
        axes.axhline(float(value), **EXACT)
        axes.annotate(f"λ = {value}", (1, float(value)), xycoords=("axes fraction", "data"), xytext=(-4, 2),
                      textcoords="offset points", ha="right", va="bottom", fontsize=8)  # fmt: skip
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("inverse temperature nβ")
    axes.set_ylabel("nβ E[L − L*]")
    figure.legend(loc="outside upper center", ncols=4)
    return Captioned(
        figure,
        "nβ E[L − L*] on a quadrature grid rises to λ (dashed) as nβ grows: like a power of nβ if the multiplicity "
        "is one, but only like 1/log nβ if it is two (x²y²). The table has the limit nβ → ∞.",
    )
