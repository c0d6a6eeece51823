"""When did each curve of a training change, in which order, and does λ̂ follow the validation loss?

The curves are read at points evenly spread in log time; a curve without a change is left out, and named.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.results import Measurement, Status
from phasecast.grokking.analysis import mirroring
from phasecast.grokking.analysis.mirroring import mirror_correlation
from phasecast.grokking.analysis.ordering import Ordering, in_order
from phasecast.grokking.analysis.transition import POLICY, Transition, fall_after_peak, transition

POINTS = 80  # of a logged curve that are fitted: 7% apart in time for 6000 steps logged every 20
SMALLEST = 0.2  # chosen: a smaller change of an accuracy is a few rows that happen to be right, not a rule

LABELS = {
    "train_accuracy": "training accuracy",
    "validation_accuracy": "validation accuracy",
    "k_eff": "K_eff",
    "fourier_share": "Fourier share",
    "llc": "λ̂",
}
"""How people read the names of the curves."""

Curves = Mapping[str, ArrayLike]
"""Columns of equal length by name, among them ``step``."""

Numbers = Mapping[str, float | int | None]
"""The numbers of a training: ``train99``, ``val95``, ``gsm``, ``k_eff``, ``llc_peak``, …"""


@dataclass(frozen=True)
class Timeline:
    """``transitions`` of all curves that are long enough, by name, including refused ones; ``order`` of those that were
    found; ``mirrored`` is Spearman's ρ of λ̂ and the validation loss, None if λ̂ was not measured often enough."""

    transitions: dict[str, Transition]
    order: Ordering
    mirrored: Measurement | None

    def when(self, name: str) -> Transition | None:
        """The transition of a curve, if it has one."""
        change = self.transitions.get(name)
        return change if change is not None and change.status is not Status.REFUSED else None


def timeline(curves: Curves, checkpoints: Curves | None = None, llc: Curves | None = None) -> Timeline:
    """When the curves of a training changed.

    Parameters
    ----------
    curves: ``step``, ``train_accuracy``, ``validation_accuracy``, ``validation_loss``.
    checkpoints: ``step`` and other curves measured at checkpoints, e.g. ``k_eff``.
    llc: ``step``, ``value``, ``error``, ``usable`` (whether a point is defended).
    """
    changes: dict[str, Transition] = {}
    step = np.asarray(curves["step"], dtype=float)
    for name in ("train_accuracy", "validation_accuracy"):
        values = np.asarray(curves[name])
        rows = _spread(step, np.isfinite(values))
        if len(rows) >= POLICY.fewest_points:
            changes[name] = _of_accuracy(step[rows], values[rows], LABELS[name])
    if checkpoints is not None:
        changes |= _at_checkpoints(checkpoints)
    if llc is None:
        return Timeline(changes, _ordered(changes), None)
    times, values, errors = (np.asarray(llc[name], dtype=float) for name in ("step", "value", "error"))
    usable = (times > 0) & np.asarray(llc["usable"], dtype=bool) & np.isfinite(values) & (errors > 0)
    times, values, errors = times[usable], values[usable], errors[usable]
    mirrored = None
    if len(times) >= POLICY.fewest_points:
        changes["llc"] = fall_after_peak(times, values, errors, name=LABELS["llc"])
        mirrored = _mirrored(times, values, errors, step, np.asarray(curves["validation_loss"]))
    return Timeline(changes, _ordered(changes), mirrored)


def narrate(numbers: Numbers, changes: Timeline | None = None, rule: str = "the rule") -> str:
    """One paragraph for somebody new to grokking: what the network did, and what λ̂ says about it."""
    if numbers["diverged"] is not None:
        return f"The training diverged: its loss is NaN at step {numbers['diverged']}."
    sentences = []
    if numbers["train99"] is None:
        sentences.append(f"The network never memorised its training rows (accuracy {numbers['train_accuracy']:.2f}).")
    else:
        sentences.append(f"The network had memorised its training rows by step {numbers['train99']}.")
    if numbers["val95"] is None or numbers["gsm"] is None:
        sentences.append(
            f"It had not learned {rule} by step {numbers['steps']}: it answers {numbers['val_accuracy']:.0%} of the "
            "held-out rows correctly."
        )
    else:
        later = f", {numbers['val95'] / max(1, numbers['train99']):.0f} times later" if numbers["train99"] else ""
        sentences.append(
            f"It learned {rule} by step {numbers['val95']}{later}: only then did it answer held-out rows correctly "
            f"(severity {numbers['gsm']:.2f} of at most 1, over {numbers['steps']} steps)."
        )
    if numbers.get("k_eff") is not None:
        sentences.append(f"At the end {numbers['k_eff']} of {numbers['width']} hidden units are in use.")
    if changes is not None:
        sentences += _coefficient_sentences(numbers, changes)
    return " ".join(sentences)


def _ordered(changes: Mapping[str, Transition]) -> Ordering:
    return in_order({change.name: change for change in changes.values()})


def _of_accuracy(step: np.ndarray, values: np.ndarray, label: str) -> Transition:
    """The transition of an accuracy upwards, refused if it is smaller than :data:`SMALLEST`."""
    change = transition(step, values, direction="up", name=label)
    if change.status is Status.REFUSED or change.after - change.before >= SMALLEST:
        return change
    reason = f"{label} changes from {change.before:.2f} to {change.after:.2f} only: train for longer"
    return dataclasses.replace(change, status=Status.REFUSED, reasons=[reason])


def _at_checkpoints(checkpoints: Curves) -> dict[str, Transition]:
    changes = {}
    times = np.asarray(checkpoints["step"], dtype=float)
    for name, column in checkpoints.items():
        values = np.asarray(column, dtype=float)
        rows = np.flatnonzero((times > 0) & np.isfinite(values))
        if name != "step" and len(rows) >= POLICY.fewest_points:
            changes[name] = transition(times[rows], values[rows], name=LABELS.get(name, name))
    return changes


def _mirrored(
    times: np.ndarray, values: np.ndarray, errors: np.ndarray, step: np.ndarray, loss: np.ndarray
) -> Measurement | None:
    """ρ of λ̂ with the validation loss over the times at which both are known; None if those are too few."""
    logged = np.flatnonzero((step > 0) & np.isfinite(loss))
    rows = (times >= step[logged].min(initial=np.inf)) & (times <= step[logged].max(initial=0))
    if min(len(logged), rows.sum()) < mirroring.POLICY.fewest_points:
        return None
    return mirror_correlation(times[rows], values[rows], step[logged], loss[logged], errors=errors[rows])


def _spread(step: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """Rows with usable values at positive steps, at most :data:`POINTS`, evenly spread in log time."""
    rows = np.flatnonzero((step > 0) & usable)
    if len(rows) <= POINTS:
        return rows
    wanted = np.geomspace(step[rows[0]], step[rows[-1]], POINTS)
    return np.unique(rows[np.searchsorted(step[rows], wanted).clip(0, len(rows) - 1)])


def _coefficient_sentences(numbers: Numbers, changes: Timeline) -> list[str]:
    high, last = numbers.get("llc_peak"), numbers.get("llc_last")
    if high is None or last is None:
        return []
    fewer = "; the rule needs fewer than memorising the answers did." if last < high and numbers["gsm"] else "."
    sentences = [
        "The learning coefficient λ̂ measures how many directions of weight space the training data constrain: "
        f"{high:.0f} at its peak and {last:.0f} at the end{fewer}"
    ]
    fall = changes.when("llc")
    if fall is not None:
        sentences.append(f"It fell at step {float(fall):.0f} (95% interval {fall.low:.0f} to {fall.high:.0f}).")
    if len(changes.order.names) > 1:
        sentences.append(f"Order of the changes: {changes.order.words()}.")
    if changes.mirrored is not None and changes.mirrored.status is not Status.REFUSED:
        rho = float(changes.mirrored)
        if math.isfinite(rho):
            low, high = (changes.mirrored.diagnostics[end] for end in ("low", "high"))
            interval = f"95% interval {low:+.2f} to {high:+.2f}"
            sentences.append(f"Its rank correlation with the validation loss is {rho:+.2f} ({interval}).")
    return sentences
