"""Figures of one training: accuracies and λ̂ on one time axis, the losses, and measures of the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from phasecast.figures.drawing import COLOURS, EXACT, blank
from phasecast.grokking.analysis.timeline import Timeline
from phasecast.lab.recipe import Captioned
from phasecast.studies.grokking.trainings import REFUSED

if TYPE_CHECKING:
    import xarray as xr

TRAIN, VALIDATION, SAMPLED, PAPER = COLOURS[:4]
LINES = ("--", ":", "-.")
EARLY = 100  # steps on a linear scale: before, the axis would be mostly empty


def timeline_panels(
    curves: Mapping[str, np.ndarray],
    llc: xr.Dataset,
    lines: Mapping[str, float | np.ndarray],
    changes: Timeline,
    localisation: str,
) -> Captioned:
    """Accuracies, λ̂ and the exact lines over one time axis, with the transitions that were found."""
    paper = bool(np.isfinite(llc["paper_value"].values).any())
    third = bool(lines) or paper
    figure, grid = blank(3 if third else 2, 1, width=7.6, height=7.2 if third else 5.2, sharex=True)
    panels = list(grid[:, 0])
    top, middle = panels[0], panels[1]
    for part, colour in (("train", TRAIN), ("validation", VALIDATION)):
        label = "training rows" if part == "train" else "held-out rows"
        top.plot(curves["step"], curves[f"{part}_accuracy"], color=colour, label=label, lw=1.8)
    top.set_ylabel("accuracy")
    top.set_ylim(-0.03, 1.08)
    top.legend(loc="center", fontsize=9)
    _points(middle, llc, "value", SAMPLED, "o", "λ̂, calibrated sampler")
    middle.set_ylabel(f"λ̂ ({localisation})")
    _margins(middle, llc["value"].values[llc["status"].values < REFUSED])
    middle.legend(fontsize=9, loc="upper left")
    if third:
        _beside(panels[2], llc, lines, paper)
    _mark_transitions(panels, changes)
    panels[-1].set_xscale("symlog", linthresh=EARLY, linscale=0.5)
    panels[-1].set_xlabel("training step")
    panels[-1].set_xlim(-EARLY / 50, curves["step"][-1] * 1.1)
    below = "Bottom: the same beside exact values for γ → 0, which bound it from above, and beside SGLD. "
    return Captioned(
        figure,
        "Top: fraction of rows answered correctly. Middle: the sampled learning coefficient at checkpoints with its "
        f"error; hollow points are not ok. {below if third else ''}"
        "Bands: 95% intervals of the change of the curve of the same colour; no band means no clear change.",
    )


def _beside(axes: Axes, llc: xr.Dataset, lines: Mapping[str, float | np.ndarray], paper: bool) -> None:
    """λ̂ again, beside exact values and beside a sampler that has not converged."""
    for style, (name, values) in zip(LINES, ((k, v) for k, v in lines.items() if k != "step"), strict=False):
        axes.plot(
            lines["step"],
            np.broadcast_to(values, np.shape(lines["step"])),
            style,
            color=EXACT["color"],
            lw=1.4,
            label=name,
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
            bars = {"yerr": errors[chosen], "fmt": marker, "ms": 4.5, "capsize": 2}
            axes.errorbar(steps[chosen], values[chosen], **bars, color=colour, mfc=fill, label=words)


def _margins(axes: Axes, values: np.ndarray) -> None:
    """Scale the axis to these values; refused points may lie outside."""
    values = values[np.isfinite(values)]
    if len(values):
        reach = max(np.ptp(values), 0.02 * abs(values).max())
        axes.set_ylim(values.min() - 0.15 * reach, values.max() + 0.5 * reach)


def _mark_transitions(panels: Sequence[Axes], changes: Timeline) -> None:
    for name, colour, places in (
        ("train_accuracy", TRAIN, (0,)),
        ("validation_accuracy", VALIDATION, range(len(panels))),
        ("llc", SAMPLED, range(1, len(panels))),
    ):
        change = changes.when(name)
        if change is None:
            continue
        at = float(change)
        for place in places:
            panels[place].axvspan(change.low, change.high, color=colour, alpha=0.13, lw=0)
            panels[place].axvline(at, color=colour, lw=1, ls="--")
        look = {"ha": "center", "va": "bottom", "fontsize": 8.5, "color": colour}
        panels[places[0]].annotate(f"{at:.0f}", (at, 1.0), xycoords=("data", "axes fraction"), **look)


def training(curves: Mapping[str, np.ndarray], log_every: int) -> Captioned:
    """Losses and accuracies."""
    figure, grid = blank(2, 1, width=7.0, height=4.2, sharex=True)
    upper, lower = grid[:, 0]
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
    return Captioned(figure, "Accuracy and loss on the training rows and on the held-out rows.")


def weight_measures(measures: xr.Dataset, checkpoints: xr.Dataset, width: int) -> Captioned:
    """K_eff, Fourier share, kernel change, gradient signal, weight norm and energy over training."""
    figure, grid = blank(2, 3, width=7.6, height=5.2, sharex=True)
    parts = (
        (checkpoints["k_eff"].values, f"units in use, of {width}"),
        (measures["fourier_share"].values, "share of best frequency"),
        (measures["kernel_change"].values, "change of tangent kernel"),
        (measures["signal_cosine"].values, "cos(G_F, ỸỸᵀF̃)"),
        (measures["weight_norm"].values, "norm of the weights"),
        (measures["energy"].values, "mean energy E of the units"),
    )
    for axes, (values, label), colour in zip(grid.ravel(), parts, COLOURS[: len(parts)], strict=True):
        axes.plot(measures["step"].values, values, "o-", ms=3, lw=1, color=colour)
        axes.set_title(label, fontsize=9.5, loc="left")
        axes.set_xscale("symlog", linthresh=1)
    for axes in grid[1]:
        axes.set_xlabel("training step")
    return Captioned(
        figure,
        "The network at each checkpoint: hidden units in use; the share of their weights' power at one Fourier "
        "frequency; how far the tangent kernel has turned (0: lazy); the cosine between the gradient signal of the "
        "features and ỸỸᵀF̃; the norm of the weights; the energy that units climb according to section 5.2 of the "
        "paper.",
    )
