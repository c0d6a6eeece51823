"""Figures of the toy landscapes: the coefficients, the volumes, the ladder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from phasecast.coefficients.coefficient import Coefficient
from phasecast.core.results import Measurement, Status
from phasecast.lab.recipe import Captioned

if TYPE_CHECKING:
    import xarray as xr

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#888888")  # Okabe and Ito
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def coefficients(rows: Sequence[tuple[str, Coefficient | None, Measurement, Measurement]]) -> Captioned:
    """λ predicted and measured, a line a landscape."""
    figure = Figure(figsize=(7.0, 0.9 + 0.45 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    for row, (_, predicted, by_volume, by_ladder) in enumerate(rows):
        if predicted is not None:
            axes.plot(
                [float(predicted.value)] * 2,
                [row - 0.38, row + 0.38],
                "--",
                color="#888888",
                lw=1.5,
                label="exact" if row == 0 else None,
            )
        for offset, colour, marker, measured, label in (
            (-0.14, COLOURS[0], "o", by_volume, "volume scaling"),
            (0.14, COLOURS[1], "s", by_ladder, "temperature ladder"),
        ):
            axes.errorbar(
                float(np.asarray(measured.estimate)),
                row + offset,
                xerr=3 * float(np.asarray(measured.error)),
                fmt=marker,
                color=colour,
                mfc="none" if measured.status is Status.REFUSED else colour,
                ms=5,
                capsize=3,
                label=label if row == 0 else None,
            )
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.set_xlabel("learning coefficient λ")
    axes.legend(loc="lower right")
    return Captioned(
        figure,
        "λ of each landscape: exact (dashed) and measured, with bars of three standard errors; where no bar "
        "shows, it is smaller than the marker. Hollow: refused.",
    )


def volumes(node: xr.Dataset) -> Captioned:
    """V(ε) on logarithmic axes; its slope is λ."""
    figure = Figure(figsize=(7.0, 3.8), layout="constrained")
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
            ms=4,
            lw=1.2,
            label=str(name),
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("loss threshold ε")
    axes.set_ylabel("volume V(ε), share of the box")
    axes.legend(loc="lower right")
    return Captioned(
        figure,
        "The share of the box around the minimum with loss below ε. The slope is λ: the flatter the line, the "
        "more degenerate the minimum. Standard errors are smaller than the markers.",
    )


def ladder(node: xr.Dataset, predictions: Mapping[str, Coefficient | None]) -> Captioned:
    """nβ E[L] along the ladder, with the exact values."""
    figure = Figure(figsize=(7.0, 3.8), layout="constrained")
    axes = figure.add_subplot()
    nbetas = node["nbeta"].values
    for index, name in enumerate(node["landscape"].values):
        axes.plot(
            nbetas,
            node["llc"].values[index],
            "-" + MARKERS[index % len(MARKERS)],
            color=COLOURS[index % len(COLOURS)],
            ms=4,
            lw=1.2,
            label=str(name),
        )
    exact = {p.value for p in predictions.values() if p is not None}
    for value in sorted(v for v in exact if isinstance(v, Fraction)):
        axes.axhline(float(value), ls="--", color="#888888", lw=1)
        axes.annotate(f"λ = {value}", (1, float(value)), xycoords=("axes fraction", "data"), xytext=(-4, 2),
                      textcoords="offset points", ha="right", va="bottom", fontsize=8)  # fmt: skip
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("inverse temperature nβ")
    axes.set_ylabel("nβ E[L − L*]")
    axes.legend(loc="center right", ncols=2, bbox_to_anchor=(1.0, 0.78))
    return Captioned(
        figure,
        "nβ E[L − L*] on a quadrature grid rises to λ (dashed) as nβ grows. With multiplicity two (x²y²) it "
        "approaches only like 1/log nβ: at nβ = 10¹⁸ it is still 5% short.",
    )
