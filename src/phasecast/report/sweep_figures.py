"""How does each answer depend on what a sweep varied? One panel per answer, over the first varied number.

Seeds are replicates: their mean is drawn with its standard error, the runs themselves as small points behind it.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from phasecast.core.results import Measurement, Status, Value, show
from phasecast.figures.drawing import COLOURS, EXACT, MARKERS, label_text
from phasecast.lab.overview.listed_runs import value_in_words
from phasecast.lab.recipe import Captioned, Row

MOST_PANELS = 12  # chosen: six rows of two still fit a screen
MOST_SERIES = len(COLOURS)  # more would share a colour
MOST_NAMES = 21  # along an axis or in a legend; chosen: more are not legible, and each takes milliseconds to draw
DECADES = 30.0  # chosen: from one and a half decades on, a linear axis squeezes most values into a corner
LONGEST_LABEL = 48  # chosen: what fits above a panel of half the page


@dataclass(frozen=True)
class SweptRun:
    """A finished run of a sweep: the values of the varied fields, and its answers."""

    values: Mapping[str, Any]
    rows: Sequence[Row]

    def row(self, address: tuple[object, ...]) -> Row | None:
        return next((row for row in self.rows if row.address == address), None)


@dataclass(frozen=True)
class SweepAxes:
    """What goes where: ``x`` along the axis (None: seeds only), ``series`` into the legend, seeds into the bars."""

    x: str | None
    series: tuple[str, ...]
    numeric: bool
    places: tuple[Any, ...]

    @classmethod
    def of(cls, varied: Sequence[str], runs: Sequence[SweptRun]) -> SweepAxes:
        """The first varied field with numbers is the axis, else the first; fields that move with it are left out."""
        values = {name: _different(run.values.get(name) for run in runs) for name in varied}
        moving = [name for name in varied if name != "seed" and len(values[name]) > 1]
        if not moving:
            return cls(None, (), True, tuple(sorted(values.get("seed", ()), key=_sort_key)))
        x = next((name for name in moving if all(map(_is_number, values[name]))), moving[0])
        others = [name for name in moving if name != x and not _follows(name, x, runs)]
        numeric = all(map(_is_number, values[x]))
        return cls(x, tuple(others), numeric, tuple(sorted(values[x], key=_sort_key) if numeric else values[x]))

    def place(self, run: SweptRun) -> float:
        """Where a run is drawn along the axis."""
        value = run.values.get(self.x or "seed")
        if self.numeric:
            return float(value) if isinstance(value, int | float) else 0.0
        return float(self._numbers[_key(value)])

    @functools.cached_property
    def _numbers(self) -> Mapping[str, int]:
        """The number of each place; a thousand runs look theirs up for every answer."""
        return {_key(one): number for number, one in enumerate(self.places)}

    def series_of(self, run: SweptRun) -> str:
        return ", ".join(f"{name} = {_clip(value_in_words(run.values.get(name)))}" for name in self.series)


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed only: the mean of an answer over them, and how it is known."""

    place: float
    mean: float
    error: float
    count: int


def across_runs(runs: Sequence[SweptRun], varied: Sequence[str]) -> Captioned:
    """Every answer over what was varied, one panel each."""
    axes = SweepAxes.of(varied, runs)
    quantities = by_quantity([run.rows for run in runs])
    shown = quantities[:MOST_PANELS]
    columns = min(2, len(shown)) or 1
    lines = math.ceil(len(shown) / columns) or 1
    figure = Figure(figsize=(8.0, 2.5 * lines + 0.7), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for panel, rows in zip(panels, shown, strict=False):
        _panel(panel, axes, runs, rows)
    for panel in panels[len(shown) :]:
        panel.set_visible(False)
    handles, labels = next((panel.get_legend_handles_labels() for panel in panels if _has_series(panel)), ([], []))
    if handles:
        figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    caption = (
        "Each answer over what was varied. Points: means over seeds with bars of one standard error, from the spread "
        "over seeds or the errors of the runs, whichever is larger; small dots: the runs; hollow: refused, not in the "
        "mean; dashed: predicted."
    )
    if len(quantities) > len(shown):
        caption += f" The first {len(shown)} of {len(quantities)} answers."
    if (curves := len({axes.series_of(run) for run in runs})) > MOST_NAMES:
        caption += f" The first {MOST_NAMES} of {curves} series are named."
    return Captioned(figure, caption)


def by_quantity(tables: Iterable[Sequence[Row]]) -> list[list[Row]]:
    """The rows of several runs, grouped by the id and the parameters of their answers."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in (row for table in tables for row in table):
        groups.setdefault(row.address, []).append(row)
    return list(groups.values())


def sweep_finding(runs: Sequence[SweptRun], varied: Sequence[str], key: str = "") -> str:
    """What the sweep shows of its key answer, else the first: how it changes along the axis, or its mean over seeds."""
    axes = SweepAxes.of(varied, runs)
    quantities = by_quantity([run.rows for run in runs])
    for rows in sorted(quantities, key=lambda rows: rows[0].address[0] != key):
        if any(row.measurement is None or row.theory for row in rows) or not any(map(_defended, rows)):
            continue
        address, name = rows[0].address, rows[0].name
        if axes.x is None:
            (group,) = grouped([(0.0, row) for row in rows]) or (None,)
            return f"{name}: {_mean_in_words(group)}." if group else ""
        sentences = []
        for series, members in _by_series(axes, runs).items():
            points = [(axes.place(run), row) for run in members if (row := run.row(address)) is not None]
            sentence = _change(name, axes, grouped(points))
            sentences += [f"{series}: {sentence}" if series else sentence] if sentence else []
        return "; ".join(sentences[:MOST_SERIES]) + "." if sentences else ""
    return ""


def grouped(points: Iterable[tuple[float, Row]]) -> list[Group]:
    """The mean at each place over the rows that were not refused.

    Its error is the larger of the spread over the runs and of what their own errors leave: two seeds that happen to
    agree do not make a mean precise.
    """
    ordered = sorted((point for point in points if _defended(point[1])), key=lambda point: point[0])
    groups = []
    for place, members in itertools.groupby(ordered, key=lambda point: point[0]):
        measured = [row.measurement for _, row in members if row.measurement is not None]
        values = np.array([float(_array(one.estimate)) for one in measured])
        own = math.hypot(*(float(np.nan_to_num(np.asarray(one.error, dtype=float))) for one in measured)) / len(values)
        error = max(own, float(np.std(values, ddof=1) / math.sqrt(len(values)))) if len(values) > 1 else own
        groups.append(Group(place, float(np.mean(values)), error, len(values)))
    return groups


def _panel(panel: Axes, axes: SweepAxes, runs: Sequence[SweptRun], rows: Sequence[Row]) -> None:
    address = rows[0].address
    curves = [row for row in rows if row.measurement is not None and _array(row.measurement.estimate).ndim == 1]
    panel.set_title(_text(rows[0].name), fontsize=9)
    if curves:
        _curves(panel, axes, runs, address)
        return
    for number, (series, members) in enumerate(_by_series(axes, runs).items()):
        points = [(axes.place(run), row) for run in members if (row := run.row(address)) is not None]
        _series(panel, points, number, series)
    if axes.x is None and (everything := grouped([(0.0, row) for row in rows])) and everything[0].count > 1:
        (mean,) = everything
        panel.axhline(mean.mean, color=COLOURS[0], lw=0.9)
        panel.axhspan(mean.mean - mean.error, mean.mean + mean.error, color=COLOURS[0], alpha=0.15, lw=0)
    if axes.numeric:
        if _spans_decades(axes.places):
            panel.set_xscale("log")
    else:
        stride = math.ceil(len(axes.places) / MOST_NAMES)
        names = [label_text(value_in_words(one), 16) for one in axes.places[::stride]]
        panel.set_xticks(range(0, len(axes.places), stride), names, fontsize=8)
        panel.set_xlim(-0.5, len(axes.places) - 0.5)
    heights = [y for line in panel.lines for y in np.asarray(line.get_ydata(), dtype=float) if math.isfinite(y)]
    if _spans_decades(heights):
        panel.set_yscale("log")
    panel.set_xlabel(_text(axes.x or "seed"))


def _series(panel: Axes, points: Sequence[tuple[float, Row]], number: int, label: str) -> None:
    colour, marker = COLOURS[number % MOST_SERIES], MARKERS[number % MOST_SERIES]
    for hollow in (False, True):
        chosen = [(x, row.measurement) for x, row in points if _scalar(row.measurement) and _defended(row) != hollow]
        heights = [float(_array(m.estimate)) for _, m in chosen if m is not None]
        if chosen:
            face = "none" if hollow else colour
            panel.plot([x for x, _ in chosen], heights, marker, ms=3, color=colour, mfc=face, alpha=0.45, ls="none")
    means = grouped(points)
    if means:
        panel.errorbar(
            [group.place for group in means],
            [group.mean for group in means],
            yerr=[group.error for group in means],
            fmt=f"{marker}-", color=colour, ms=4.5, lw=0.9, capsize=2, label=_name(label, number),
        )  # fmt: skip
    theory = sorted({(x, float(row.prediction.value)) for x, row in points
                     if row.prediction is not None and _array(row.prediction.value).ndim == 0})  # fmt: skip
    if theory:
        style = {**EXACT, "color": colour if label else EXACT["color"]}
        panel.plot(*zip(*theory, strict=True), marker="_" if len(theory) == 1 else None, ms=14, **style)


def _curves(panel: Axes, axes: SweepAxes, runs: Sequence[SweptRun], address: tuple[object, ...]) -> None:
    """Answers that are arrays: their mean over seeds as one curve per point of the sweep, over the index."""
    by_label: dict[str, list[np.ndarray]] = {}
    for run in runs:
        row = run.row(address)
        if row is not None and row.measurement is not None and _array(row.measurement.estimate).ndim == 1:
            axis = "" if axes.x is None else f"{axes.x} = {_clip(value_in_words(run.values.get(axes.x)))}"
            label = ", ".join(part for part in (axis, axes.series_of(run)) if part)
            by_label.setdefault(label, []).append(_array(row.measurement.estimate))
    for number, (label, curves) in enumerate(by_label.items()):
        length = min(map(len, curves))
        stacked = np.stack([curve[:length] for curve in curves])
        spread = np.std(stacked, axis=0, ddof=1) / math.sqrt(len(stacked)) if len(stacked) > 1 else np.zeros(length)
        mean, index, colour = np.mean(stacked, axis=0), np.arange(1, length + 1), COLOURS[number % MOST_SERIES]
        panel.plot(index, mean, "-", color=colour, lw=1.1, label=_name(label, number))
        panel.fill_between(index, mean - spread, mean + spread, color=colour, alpha=0.2, lw=0)
    if len(by_label) > 1:
        panel.legend(frameon=False, fontsize=7)
    panel.set_xlabel("number of the value")


def _name(label: str, number: int) -> str | None:
    """What a legend calls a series, if it names that many."""
    return _text(label) or None if number < MOST_NAMES else None


def _change(name: str, axes: SweepAxes, groups: Sequence[Group]) -> str:
    """How an answer changes between the ends of the axis, and whether that is more than its error."""
    if not groups:
        return ""
    at = [_place_in_words(axes, group.place) for group in groups]
    if len(groups) == 1:
        return f"{name} is known at {axes.x} = {at[0]} only: {_mean_in_words(groups[0])}"
    if not axes.numeric:
        low, high = (choose(groups, key=lambda group: group.mean) for choose in (min, max))
        ends = [f"{_mean_in_words(one)} at {axes.x} = {at[groups.index(one)]}" for one in (low, high)]
        return f"{name} is smallest, {ends[0]}, and largest, {ends[1]}"
    first, last = groups[0], groups[-1]
    span = f"as {axes.x} goes from {at[0]} to {at[-1]}"
    numbers = f"from {show(first.mean, first.error)} to {show(last.mean, last.error)}"
    difference, combined = last.mean - first.mean, math.hypot(first.error, last.error)
    if abs(difference) <= _largest_by_chance(first, last) * combined:
        return f"{name} does not change by more than its errors {span} ({numbers})"
    steps = np.sign(np.diff([group.mean for group in groups]))
    word = "rises" if difference > 0 else "falls"
    steady = "" if np.all(steps == np.sign(difference)) or len(groups) == 2 else ", not steadily"
    return f"{name} {word} {numbers} {span}{steady}"


def _largest_by_chance(first: Group, last: Group) -> float:
    """How many combined errors one in twenty differences of equal means exceeds: Student's t, wide for few seeds."""
    from scipy.special import stdtrit

    return float(stdtrit(first.count + last.count - 2, 0.975)) if first.count > 1 and last.count > 1 else 2.0


def _mean_in_words(group: Group) -> str:
    over = f" (mean of {group.count} runs ± standard error)" if group.count > 1 else ""
    return f"{show(group.mean, group.error)}{over}"


def _place_in_words(axes: SweepAxes, place: float) -> str:
    return f"{place:g}" if axes.numeric else _clip(value_in_words(axes.places[int(place)]))


def _by_series(axes: SweepAxes, runs: Sequence[SweptRun]) -> dict[str, list[SweptRun]]:
    members: dict[str, list[SweptRun]] = {}
    for run in runs:
        members.setdefault(axes.series_of(run), []).append(run)
    return members


def _follows(name: str, x: str, runs: Sequence[SweptRun]) -> bool:
    """Whether a field has one value for each value of ``x``, as zipped fields have."""
    pairs = {(_key(run.values.get(x)), _key(run.values.get(name))) for run in runs}
    return len(pairs) == len({first for first, _ in pairs})


def _has_series(panel: Axes) -> bool:
    return panel.get_legend() is None and bool(panel.get_legend_handles_labels()[0])


def _defended(row: Row) -> bool:
    measured = row.measurement
    if measured is None or measured.status is Status.REFUSED:
        return False
    return _scalar(measured) and math.isfinite(float(_array(measured.estimate)))


def _scalar(measured: Measurement | None) -> bool:
    return measured is not None and _array(measured.estimate).ndim == 0


def _array(value: Value) -> np.ndarray:
    return np.asarray(value, dtype=float)  # pyright: ignore[reportArgumentType] - numpy converts Fractions too


def _spans_decades(values: Iterable[float]) -> bool:
    numbers = [float(value) for value in values]
    return bool(numbers) and min(numbers) > 0 and max(numbers) / min(numbers) >= DECADES


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _different(values: Iterable[Any]) -> list[Any]:
    return list({_key(value): value for value in values}.values())


def _key(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _sort_key(value: Any) -> float:
    return float(value)


def _clip(text: str, longest: int = 24) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _text(text: str) -> str:
    return label_text(text, LONGEST_LABEL)
