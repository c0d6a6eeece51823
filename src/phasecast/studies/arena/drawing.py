"""How is the record of the arena drawn? Shares and coverage per family, the PIT histogram, and every distance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from phasecast.figures.drawing import COLOURS, EXACT, blank
from phasecast.lab.recipe import Captioned
from phasecast.studies.arena.family import WITHIN, WRONG
from phasecast.studies.arena.tally import LEAST_COVERED, Tally, binomial_error

BINS = 10  # of the PIT histogram: with 40 answers a bin holds 4 ± 2
EDGE = 6.0  # distances beyond are drawn at the edge
SHADES = {"ok": COLOURS[2], "warning": COLOURS[4], "refused": "#9aa5b1", "failed": COLOURS[1]}
NORMAL_COVERAGE = math.erf(WITHIN / math.sqrt(2))


def shares(tallies: Sequence[Tally]) -> Captioned:
    """The share of each status, and coverage among ok and among warnings."""
    figure, ((left, right),) = blank(1, 2, width=8.4, height=1.2 + 0.3 * len(tallies), sharey=True)
    places = np.arange(len(tallies))[::-1]
    for place, tally in zip(places, tallies, strict=True):
        start = 0.0
        for status, colour in SHADES.items():
            share = tally.share(status)
            if share > 0:
                left.barh(place, share, left=start, color=colour, height=0.7)
                start += share
        for status, marker, shift in (("ok", "o", 0.12), ("warning", "s", -0.18)):
            hits, of = tally.covered(status)
            if of:
                right.errorbar(
                    hits / of,
                    place + shift,
                    xerr=binomial_error(hits, of),
                    fmt=marker,
                    ms=4.5,
                    mfc=SHADES[status] if status == "ok" else "none",
                    color=SHADES[status],
                    capsize=2,
                    lw=1,
                )
    for status, colour in SHADES.items():
        left.barh(0, 0, color=colour, label=status)
    starred = [tally.family.name + (" *" if tally.family.refusing else "") for tally in tallies]
    left.set_yticks(places, starred, fontsize=8)
    left.set_xlabel("share of the problems")
    left.set_xlim(0, 1)
    right.axvline(NORMAL_COVERAGE, **EXACT, label="95%")
    right.axvline(LEAST_COVERED, color=EXACT["color"], ls=":", lw=1, label="goal")
    right.set_xlabel("share within ±2 errors")
    right.set_xlim(-0.05, 1.05)
    found = [axes.get_legend_handles_labels() for axes in (left, right)]
    handles = [handle for part, _ in found for handle in part]
    labels = [label for _, part in found for label in part]
    figure.legend(handles, labels, loc="outside upper center", ncols=6, frameon=False, fontsize=8)
    return Captioned(
        figure,
        "Left: what the problems of each family got. Right: how often ±2 errors, or the reported interval, hold the "
        "truth, among ok (filled) and among warnings (hollow), with binomial errors. * a warning or a refusal is the "
        "right answer here.",
    )


def pit(distances: np.ndarray) -> np.ndarray:
    """Φ(distance): uniform if the reported errors are those of a normal distribution."""
    from scipy.special import ndtr

    return ndtr(distances)


def histogram(tallies: Sequence[Tally]) -> Captioned:
    """The PIT histogram of all answers called ok, and of each area."""
    areas: dict[str, list[np.ndarray]] = {}
    for tally in tallies:
        if len(tally.distances()):
            areas.setdefault(tally.family.area, []).append(tally.distances())
    panels = {"all": [one for each in areas.values() for one in each], **(areas if len(areas) > 1 else {})}
    columns = min(len(panels), 3)
    figure, axes = blank(-(-len(panels) // columns), columns, width=8.4, height=2.4 * -(-len(panels) // columns))
    for one in axes.ravel()[len(panels) :]:
        one.set_visible(False)
    for number, (one, (area, parts)) in enumerate(zip(axes.ravel(), panels.items(), strict=False)):
        values = pit(np.concatenate(parts)) if parts else np.empty(0)
        expected = len(values) / BINS
        spread = 2 * math.sqrt(expected * (1 - 1 / BINS))
        one.hist(values, bins=BINS, range=(0, 1), color=COLOURS[0], alpha=0.85, edgecolor="white", lw=0.5)
        one.axhspan(max(expected - spread, 0), expected + spread, color="#888888", alpha=0.2, lw=0, zorder=0)
        one.axhline(expected, **EXACT)
        one.set_title(f"{area} ({len(values)} ok)", fontsize=9)
        one.set_xlim(0, 1)
        if number % columns == 0:
            one.set_ylabel("answers")
        one.set_xlabel("PIT Φ(distance)", fontsize=8)
    return Captioned(
        figure,
        "PIT histogram of the answers called ok: Φ of (estimate − truth)/combined error. Flat if errors are right, "
        "high at both ends if they are too small, high in the middle if they are too large, sloped if there is a "
        "bias. Dashed: what is expected; grey: ±2 of its standard deviations. Answers without error are left out.",
    )


def distances(tallies: Sequence[Tally]) -> Captioned:
    """Every distance, family by family."""
    measured = [tally for tally in tallies if not tally.family.exact]
    figure, ((axes,),) = blank(width=8.4, height=1.2 + 0.26 * max(len(measured), 2))
    for place, tally in zip(range(len(measured))[::-1], measured, strict=True):
        for status, face in (("ok", COLOURS[0]), ("warning", "none")):
            values = np.clip(tally.distances(status), -EDGE, EDGE)
            heights = place + 0.22 * np.linspace(-1, 1, len(values)) if len(values) > 1 else [place] * len(values)
            axes.plot(values, heights, "o", ms=3.5, mfc=face, mec=COLOURS[0], lw=0, alpha=0.9)
    axes.axvspan(-WITHIN, WITHIN, color="#888888", alpha=0.15, lw=0)
    for edge in (-WRONG, WRONG):
        axes.axvline(edge, **EXACT)
    axes.set_yticks(range(len(measured))[::-1], [tally.family.name for tally in measured], fontsize=8)
    axes.set_xlim(-EDGE - 0.3, EDGE + 0.3)
    axes.set_xlabel("(estimate − truth) in combined errors")
    return Captioned(
        figure,
        "Distance of every answer from the truth; filled: ok, hollow: warning. Grey: ±2 errors; beyond the dashed "
        "lines an ok answer is wrong. Distances beyond ±6 are drawn at ±6.",
    )
