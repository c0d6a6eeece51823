"""How much data does this target need? δ*(0), δ*(20), δ_NN and δ_alg side by side, each with what it means.

δ*(0) tells when the Hessian at the start shows a hard direction, δ_NN when that at the end of training does. Only the
second answers the question; the first is cheap, and often several times smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np

from phasecast.core import codec
from phasecast.core.errors import OutsideRegime
from phasecast.core.results import Measurement, Status, show
from phasecast.features.algorithmic import algorithmic_threshold
from phasecast.features.setting.functions import Activation, Loss, Scalar
from phasecast.features.setting.target import Target
from phasecast.features.setting.target import target as make_target
from phasecast.features.threshold import ALL_EASY, threshold
from phasecast.features.threshold_result import Threshold
from phasecast.features.threshold_search import watched_search
from phasecast.figures.style import styled
from phasecast.progress import shows_progress

if TYPE_CHECKING:
    from phasecast.figures.drawing import Drawing

TIMES = (0, 20, math.inf)  # steps: the start, where quadrature is exact, a time that mean-field theory reaches, the end

MEANINGS = {
    0: "from here on the Hessian at the random start has an outlier along a hard direction; not yet enough to learn it",
    math.inf: "from here on training ends where the Hessian shows a hard direction: the data that this network needs",
}
ALGORITHMIC = "what the best known fast algorithm needs to correlate with the direction at all"
WIDE = "δ_NN is not known for wide networks, which are solved up to t = 40; use --width 1 to 4, or --time"


class ThresholdRow(TypedDict):
    """One line of the table: a threshold, the δ with an outlier, what it means, and the spectrum if a δ was given."""

    name: str
    time: float | None
    value: float | None
    error: float | None
    error_kind: str
    status: str
    reasons: list[str]
    intervals: list[list[float]]
    searched: list[float]
    meaning: str
    spectrum: dict[str, Any]
    simulation: dict[str, Any]


Watcher: TypeAlias = "Callable[[ThresholdRow | str], None]"
"""Receives each row as soon as it is known, and in between a line about what is being computed."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ThresholdTable(Measurement[float]):
    """δ_NN, with the thresholds at other times beside it in ``table``."""

    table: tuple[ThresholdRow, ...] = field(default_factory=tuple)

    def plain(self) -> dict[str, Any]:
        whole = super().plain()
        rows = [{**row, "time": "inf" if row["time"] == math.inf else row["time"]} for row in self.table]
        return {**whole, "delta_star": whole["value"], "table": codec.plain(rows)}

    def _rows(self) -> list[tuple[str, str]]:
        return [*(row_words(row) for row in self.table), *self.closing_rows()]

    def closing_rows(self) -> list[tuple[str, str]]:
        """What follows the table: the status with its reasons."""
        return [("status", str(self.status)), *(("reason", reason) for reason in self.reasons)]

    @styled
    def figure(self) -> Drawing:
        """The δ with an outlier as a bar for each time, thresholds with their errors, and δ_alg as a line."""
        from phasecast.figures.drawing import COLOURS, EXACT, blank, legend

        figure, ((axes,),) = blank(width=6.0, height=2.6)
        rows = [row for row in self.table if row["time"] is not None]
        for place, row in enumerate(rows):
            for low, high in row["intervals"]:
                axes.barh(place, high - low, left=low, height=0.4, color=COLOURS[0], alpha=0.3)
            if row["value"] is not None:
                axes.errorbar([row["value"]], [place], xerr=[row["error"] or 0.0], fmt="o", ms=4, color=COLOURS[0])
        for row in self.table:
            if row["time"] is None and row["value"] is not None:
                axes.axvline(row["value"], **EXACT, label=f"δ_alg = {row['value']:.3g}")
        axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
        axes.set_xscale("log")
        axes.set_xlabel("examples per dimension δ = n/d; bars: the Hessian has an outlier")
        if axes.get_legend_handles_labels()[0]:
            legend(axes)
        return figure


@shows_progress("threshold")
def threshold_table(
    target: str | Target | Callable[[Any], Any],
    activation: str | Activation | Scalar = "gelu",
    loss: str | Loss | Scalar = "pseudo-huber",
    *,
    watch: Watcher | None = None,
    **settings: Any,
) -> ThresholdTable:
    """δ*(0), δ*(20), δ_NN and, for one latent, δ_alg. The value is δ_NN.

    ``settings`` are the keywords of :func:`~phasecast.features.threshold.threshold` except ``time`` and ``curves``. A
    target whose directions are all easy is refused before anything is computed.

    >>> threshold_table("z**3 - 3*z", loss="square").status  # doctest: +ELLIPSIS
    <Status.REFUSED: 'refused'>
    """
    noise, latents = settings.pop("noise", 0.0), settings.pop("latents", None)
    chosen = make_target(target, latents=latents, noise=noise)
    if not chosen.hard.shape[1]:
        _at(chosen, (activation, loss), 0, settings)  # other settings that are wrong come first
        return ThresholdTable.refused(ALL_EASY, error_kind="exact", name="δ_NN")
    rows, last = [], None
    with watched_search(watch):
        for row, answer in _rows_of(chosen, (activation, loss), settings):
            rows.append(row)
            last = answer or last
            if watch is not None:
                watch(row)
    if last is None or not math.isinf(last.time):
        return ThresholdTable.refused(WIDE, error_kind="exact", name="δ_NN", table=tuple(rows))
    reasons = list(last.reasons)
    if last.status is Status.REFUSED and not any(row["intervals"] for row in rows):
        reasons.insert(0, "no outlier was found at any time and any δ: this network does not see the target this way")
    return ThresholdTable(
        last.estimate, last.error, last.status, last.diagnostics, error_kind=last.error_kind, reasons=reasons,
        name="δ_NN", policy=last.policy, table=tuple(rows),
    )  # fmt: skip


def _rows_of(
    target: Target, functions: tuple[Any, Any], settings: dict[str, Any]
) -> Iterator[tuple[ThresholdRow, Threshold | None]]:
    """One row after another, the cheap ones first."""
    yield _at(target, functions, 0, settings)
    if target.latents == 1:
        yield _algorithmic(target), None
    for time in TIMES[1:]:
        if not (math.isinf(time) and settings.get("width") == "wide"):
            yield _at(target, functions, time, settings)


def _at(
    target: Target, functions: tuple[Any, Any], time: float, settings: dict[str, Any]
) -> tuple[ThresholdRow, Threshold]:
    answer = threshold(target, *functions, time=time, **settings)
    defended = answer.status is not Status.REFUSED and math.isfinite(float(np.asarray(answer.estimate)))
    meaning = MEANINGS.get(time, f"the same after {time:g} steps of gradient descent")
    row: ThresholdRow = {
        "name": "δ_NN" if math.isinf(time) else f"δ*({time:g})",
        "time": time,
        "value": float(answer.value) if defended else None,
        "error": float(np.asarray(answer.error)) if defended else None,
        "error_kind": answer.error_kind,
        "status": str(answer.status),
        "reasons": list(answer.reasons),
        "intervals": [list(pair) for pair in answer.intervals],
        "searched": list(answer.searched),
        "meaning": meaning,
        "spectrum": {**answer.spectrum},
        "simulation": {**answer.simulation},
    }
    return row, answer


def _algorithmic(target: Target) -> ThresholdRow:
    row: ThresholdRow = {
        "name": "δ_alg", "time": None, "value": None, "error": None, "error_kind": "quadrature", "status": "ok",
        "reasons": [], "intervals": [], "searched": [], "meaning": ALGORITHMIC, "spectrum": {}, "simulation": {},
    }  # fmt: skip
    try:
        known = algorithmic_threshold(target)
    except OutsideRegime as outside:
        return {**row, "status": "refused", "reasons": [str(outside)]}
    return {**row, "value": float(known.value), "error": float(known.systematic)}


def row_words(row: ThresholdRow) -> tuple[str, str]:
    """A row for people: name; number, intervals and meaning, or the reason why there is none."""
    if row["value"] is None:
        return row["name"], f"none: {row['reasons'][0]}" if row["reasons"] else "none"
    parts = [show(row["value"], row["error"] or 0.0)]
    if row["intervals"]:
        ends = [_interval(low, high, row["searched"]) for low, high in row["intervals"]]
        parts.append(f"outlier for δ in {', '.join(ends)}")
    if "margin" in row["spectrum"]:
        outlier = row["spectrum"]["outlier"]
        where = "no outlier" if outlier is None else f"outlier {outlier:.4g}"
        parts.append(f"at δ = {row['spectrum']['delta']:g} {where}")
    if row["simulation"]:
        measured = row["simulation"].get("outlier")
        where = "none" if measured is None else f"{measured:.4g}"
        parts.append(f"measured at d = {row['simulation']['dimension']}: {where}")
    warnings = "".join(f" ({reason})" for reason in row["reasons"])
    return row["name"], f"{'; '.join(parts)}: {row['meaning']}{warnings}"


def _interval(low: float, high: float, searched: list[float]) -> str:
    end = "…" if high >= searched[1] * (1 - 1e-9) else f"{high:.4g}"
    return f"({low:.4g}, {end})"
