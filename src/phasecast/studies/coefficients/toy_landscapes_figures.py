"""Figures of the toy landscapes: the coefficients, the volumes, the ladder."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.core.results import Measurement, Status
from phasecast.lab.recipe import Captioned

if TYPE_CHECKING:
    import xarray as xr

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#888888")  # Okabe and Ito
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


LABELS = {"volume": "volume scaling", "ladder": "temperature ladder"}


def coefficients(rows: Sequence[tuple[str, Coefficient | None, str, Measurement]]) -> Captioned:
    """λ predicted and measured, a line a landscape; and how far apart they are, in standard errors."""
    names = list(dict.fromkeys(name for name, *_ in rows))
    figure = Figure(figsize=(8.0, 1.5 + 0.42 * len(names)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    right.axvspan(-3, 3, color="#888888", alpha=0.18, lw=0, label="agrees")
    for name, predicted, method, measured in rows:
        row, place = names.index(name), list(LABELS).index(method)
        height = row + (-0.14, 0.14)[place]
        estimate, error = float(np.asarray(measured.estimate)), float(np.asarray(measured.error))
        look = {
            "fmt": MARKERS[place],
            "color": COLOURS[place],
            "mfc": "none" if measured.status is Status.REFUSED else COLOURS[place],
            "ms": 5,
            "capsize": 3,
            "label": LABELS[method],
        }
        left.errorbar(estimate, height, xerr=error, **look)
        if predicted is not None:
            exact = float(predicted.value)
            left.plot([exact] * 2, [row - 0.4, row + 0.4], "--", color="#888888", lw=1.5, label="exact λ")
            if error > 0:
                right.errorbar((estimate - exact) / error, height, xerr=1, **look)
    left.set_yticks(range(len(names)), names)
    left.set_ylim(len(names) - 0.4, -0.6)
    left.set_xlim(left=0)
    left.set_xlabel("learning coefficient λ")
    right.set_xlabel("(measured − exact) / standard error")
    right.set_xlim(-5, 5)
    figure.legend(*_handles(left, right), loc="outside upper center", ncols=4)
    return Captioned(
        figure,
        "λ of each landscape. Left: exact (dashed) and measured, with bars of one standard error; where no bar shows, "
        "it is smaller than the marker. Right: their distance in standard errors. Hollow: refused.",
    )


def _handles(*axes: Axes) -> tuple[list[Any], list[str]]:
    """Legend entries of several axes, each name once."""
    found = {label: handle for one in axes for handle, label in zip(*one.get_legend_handles_labels(), strict=True)}
    return list(found.values()), list(found)


def volumes(node: xr.Dataset, hollow: set[str]) -> Captioned:
    """V(ε) on logarithmic axes; its slope is λ."""
    figure = Figure(figsize=(8.0, 4.0), layout="constrained")
    axes = figure.add_subplot()
    values = node["V"].values
    mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
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


def ladder(node: xr.Dataset, predictions: Sequence[Coefficient | None], hollow: set[str]) -> Captioned:
    """nβ E[L] along the ladder, with the exact values."""
    figure = Figure(figsize=(8.0, 4.0), layout="constrained")
    axes = figure.add_subplot()
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
        axes.axhline(float(value), ls="--", color="#888888", lw=1)
        axes.annotate(f"λ = {value}", (1, float(value)), xycoords=("axes fraction", "data"), xytext=(-4, 2),
                      textcoords="offset points", ha="right", va="bottom", fontsize=8)  # fmt: skip
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("inverse temperature nβ")
    axes.set_ylabel("nβ E[L − L*]")
    figure.legend(loc="outside upper center", ncols=4)
    return Captioned(
        figure,
        "nβ E[L − L*] on a quadrature grid rises to λ (dashed) as nβ grows: like a power of nβ where the multiplicity "
        "is one, but only like 1/log nβ where it is two (x²y²). The table has the limit nβ → ∞.",
    )
