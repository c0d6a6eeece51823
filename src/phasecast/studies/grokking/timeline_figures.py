"""Figures of a training that groks: the story on one time axis, the losses, and what the weights look like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from phasecast.grokking.analysis.timeline import Story
from phasecast.lab.recipe import Captioned

if TYPE_CHECKING:
    import xarray as xr

TRAIN, VALIDATION, SAMPLED, PAPER, LINE = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#666666"
LINES = ("--", ":", "-.")
EARLY = 100  # steps on a linear scale
REFUSED = 2


def story(
    curves: Mapping[str, np.ndarray], llc: xr.Dataset, lines: Mapping[str, Any], found: Story, spec: Any
) -> Captioned:
    """Accuracies, λ̂ and the exact lines over one time axis, with the transitions that were found."""
    paper = bool(np.isfinite(llc["paper_value"].values).any())
    third = bool(lines) or paper
    figure = Figure(figsize=(7.6, 7.2 if third else 5.2), layout="constrained")
    panels = figure.subplots(3 if third else 2, 1, sharex=True)
    top, middle = panels[0], panels[1]
    for part, colour in (("train", TRAIN), ("validation", VALIDATION)):
        words = "rows it was trained on" if part == "train" else "rows it never saw"
        top.plot(curves["step"], curves[f"{part}_accuracy"], color=colour, label=words, lw=1.8)
    top.set_ylabel("accuracy")
    top.set_ylim(-0.03, 1.08)
    top.legend(loc="center", fontsize=9)
    _points(middle, llc, "value", SAMPLED, "o", "λ̂, calibrated sampler")
    middle.set_ylabel(f"λ̂ (nβ = {spec.nbeta:g}, γ = {spec.gamma:g})")
    _margins(middle, llc["value"].values[llc["status"].values < REFUSED])
    middle.legend(fontsize=9, loc="upper left")
    if third:
        _beside(panels[2], llc, lines, paper)
    _mark_transitions(panels, found)
    panels[-1].set_xscale("symlog", linthresh=EARLY, linscale=0.5)
    panels[-1].set_xlabel("training step")
    panels[-1].set_xlim(-EARLY / 50, curves["step"][-1] * 1.1)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    return Captioned(
        figure,
        "Top: how often the network is right. Middle: the sampled learning coefficient at checkpoints with its error; "
        "hollow points are not ok. "
        + (
            "Bottom: the same beside exact values for γ → 0, which the pull keeps it below, and beside SGLD. "
            if third
            else ""
        )
        + "Bands: where a curve of their colour changed, with 95%; without a band no change stands out.",
    )


def _beside(axes: Axes, llc: xr.Dataset, lines: Mapping[str, Any], paper: bool) -> None:
    """λ̂ again, beside exact values and beside a sampler that has not converged."""
    for style, (name, values) in zip(LINES, ((k, v) for k, v in lines.items() if k != "step"), strict=False):
        axes.plot(
            lines["step"], np.broadcast_to(values, np.shape(lines["step"])), style, color=LINE, lw=1.4, label=name
        )
    _points(axes, llc, "value", SAMPLED, "o", "λ̂, calibrated sampler")
    if paper:
        _points(axes, llc, "paper_value", PAPER, "s", "λ̂ by SGLD with the paper's settings")
    axes.set_ylabel("λ")
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * 30)
    axes.legend(fontsize=8.5, loc="upper left", ncols=2)


def _points(axes: Axes, llc: xr.Dataset, name: str, colour: str, marker: str, label: str) -> None:
    steps, values = llc["step"].values, llc[name].values
    errors = np.nan_to_num(llc[name.replace("value", "error")].values, posinf=0.0)
    ok = (llc["status"].values == 0) if name == "value" else np.ones(len(steps), bool)
    axes.plot(steps, values, "-", color=colour, lw=0.8, alpha=0.6)
    for chosen, fill, words in ((ok, colour, label), (~ok, "none", None)):
        if chosen.any():
            axes.errorbar(steps[chosen], values[chosen], yerr=errors[chosen], fmt=marker, ms=4.5, capsize=2,
                          color=colour, mfc=fill, label=words)  # fmt: skip


def _margins(axes: Axes, values: np.ndarray) -> None:
    """Scale to these: points that are refused may be anywhere."""
    values = values[np.isfinite(values)]
    if len(values):
        reach = max(np.ptp(values), 0.02 * abs(values).max())
        axes.set_ylim(values.min() - 0.15 * reach, values.max() + 0.5 * reach)


def _mark_transitions(panels: Any, found: Story) -> None:
    for name, colour, places in (
        ("training accuracy", TRAIN, (0,)),
        ("validation accuracy", VALIDATION, range(len(panels))),
        ("λ̂", SAMPLED, range(1, len(panels))),
    ):
        when = found.when(name)
        if when is None:
            continue
        at = float(np.asarray(when.estimate))
        for place in places:
            panels[place].axvspan(when.low, when.high, color=colour, alpha=0.13, lw=0)
            panels[place].axvline(at, color=colour, lw=1, ls="--")
        panels[places[0]].annotate(
            f"{at:.0f}", (at, 1.0), xycoords=("data", "axes fraction"), ha="center", va="bottom", fontsize=8.5,
            color=colour,
        )  # fmt: skip


def training(curves: Mapping[str, np.ndarray], log_every: int) -> Captioned:
    """Losses and accuracies."""
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    for part, colour in (("train", TRAIN), ("validation", VALIDATION)):
        upper.plot(curves["step"], curves[f"{part}_accuracy"], color=colour, label=f"{part} rows")
        lower.plot(curves["step"], curves[f"{part}_loss"], color=colour)
    upper.set_ylabel("accuracy")
    upper.legend()
    lower.set_ylabel("centred loss")
    lower.set_yscale("log")
    lower.set_xscale("symlog", linthresh=max(log_every, 1))
    lower.set_xlabel("training step")
    lower.set_xlim(left=0)
    return Captioned(figure, "Accuracy and loss on the rows it was trained on and on the others.")


def along(seen: xr.Dataset, kept: xr.Dataset, width: int) -> Captioned:
    """K_eff, Fourier share, kernel change, gradient signal, weight norm and energy over training."""
    figure = Figure(figsize=(7.6, 5.2), layout="constrained")
    grid = figure.subplots(2, 3, sharex=True).ravel()
    parts = (
        (kept["k_eff"].values, f"units in use, of {width}"),
        (seen["fourier_share"].values, "share of best frequency"),
        (seen["kernel_change"].values, "change of tangent kernel"),
        (seen["signal_cosine"].values, "cos(G_F, ỸỸᵀF̃)"),
        (seen["weight_norm"].values, "norm of the weights"),
        (seen["energy"].values, "mean energy E of the units"),
    )
    for axes, (values, label), colour in zip(
        grid, parts, (TRAIN, VALIDATION, SAMPLED, PAPER, "#E69F00", "#56B4E9"), strict=True
    ):
        axes.plot(seen["step"].values, values, "o-", ms=3, lw=1, color=colour)
        axes.set_title(label, fontsize=9.5, loc="left")
        axes.set_xscale("symlog", linthresh=1)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid[3:]:
        axes.set_xlabel("training step")
    return Captioned(
        figure,
        "The network at each checkpoint: hidden units whose read-out is not negligible; how much of their weights is "
        "one Fourier frequency; how far the tangent kernel has moved (0 is lazy); the cosine between the push on the "
        "features and ỸỸᵀF̃; the weights' norm; the energy that section 5.2 of the paper says units climb.",
    )
