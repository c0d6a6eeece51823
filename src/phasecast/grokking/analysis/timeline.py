"""When did each curve of a training change, in which order, and does λ̂ go with the validation loss?

The curves are read at points that are evenly spread in log time; a curve without a change is left out, and named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasecast.core.results import Measurement, Status
from phasecast.grokking.analysis.mirroring import mirror
from phasecast.grokking.analysis.transition import FEWEST, Ordering, Transition, fall_after_peak, in_order, transition

POINTS = 80


@dataclass(frozen=True)
class Story:
    """``transitions`` of all curves that were long enough, also refused ones; ``order`` of those that were found;
    ``mirrored`` is Spearman's ρ of λ̂ and the validation loss, None where λ̂ was not measured often enough."""

    transitions: dict[str, Transition]
    order: Ordering
    mirrored: Measurement | None

    def when(self, name: str) -> Transition | None:
        """The transition of a curve, if there was one."""
        found = self.transitions.get(name)
        return found if found is not None and found.status is not Status.REFUSED else None


def tell(
    curves: Mapping[str, Any], checkpoints: Mapping[str, Any] | None = None, llc: Mapping[str, Any] | None = None
) -> Story:
    """What happened in a training.

    Parameters
    ----------
    curves: ``step``, ``train_accuracy``, ``validation_accuracy``, ``validation_loss``.
    checkpoints: ``step`` and other curves there, e.g. ``k_eff``.
    llc: ``step``, ``value``, ``error``, ``usable`` (whether to believe a point).
    """
    found: dict[str, Transition] = {}
    step = np.asarray(curves["step"], dtype=float)
    for name, words in (("train_accuracy", "training accuracy"), ("validation_accuracy", "validation accuracy")):
        rows = _spread(step, np.isfinite(curves[name]))
        if len(rows) >= FEWEST:
            found[words] = transition(step[rows], np.asarray(curves[name])[rows], direction="up", name=words)
    for name, values in (checkpoints or {}).items():
        if name == "step":
            continue
        times, seen = np.asarray(checkpoints["step"], dtype=float), np.asarray(values, dtype=float)  # pyright: ignore[reportOptionalSubscript]
        rows = np.flatnonzero((times > 0) & np.isfinite(seen))
        if len(rows) >= FEWEST:
            found[name] = transition(times[rows], seen[rows], name=name)
    mirrored = None
    if llc is not None:
        times, values, errors = (np.asarray(llc[name], dtype=float) for name in ("step", "value", "error"))
        rows = np.flatnonzero((times > 0) & np.asarray(llc["usable"], dtype=bool) & np.isfinite(values) & (errors > 0))
        if len(rows) >= FEWEST:
            found["λ̂"] = fall_after_peak(times[rows], values[rows], errors[rows], name="λ̂")
            later = np.flatnonzero((step > 0) & np.isfinite(curves["validation_loss"]))
            rows = rows[(times[rows] >= step[later].min(initial=np.inf)) & (times[rows] <= step[later].max(initial=0))]
            if min(len(later), len(rows)) >= FEWEST:
                other = np.asarray(curves["validation_loss"])[later]
                mirrored = mirror(times[rows], values[rows], step[later], other, errors=errors[rows])
    return Story(found, in_order(found), mirrored)


def _spread(step: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """Rows with usable values at positive steps, at most :data:`POINTS`, evenly spread in log time."""
    rows = np.flatnonzero((step > 0) & usable)
    if len(rows) <= POINTS:
        return rows
    wanted = np.geomspace(step[rows[0]], step[rows[-1]], POINTS)
    return np.unique(rows[np.searchsorted(step[rows], wanted).clip(0, len(rows) - 1)])


def in_words(numbers: Mapping[str, Any], story: Story | None = None, rule: str = "the rule") -> str:
    """One paragraph for somebody who has never seen this: what the network did, and what λ̂ says about it."""
    if numbers["diverged"] is not None:
        return f"The training broke down: its loss is not a number at step {numbers['diverged']}."
    sentences = []
    if numbers["train99"] is None:
        sentences.append(f"The network never learned its training rows (accuracy {numbers['train_accuracy']:.2f}).")
    else:
        sentences.append(f"By step {numbers['train99']} the network knew its training rows by heart.")
    if numbers["val95"] is None or numbers["gsm"] is None:
        sentences.append(
            f"It had not found {rule} at step {numbers['steps']}: on rows that it never saw it is right "
            f"{numbers['val_accuracy']:.0%} of the time."
        )
    else:
        later = f", {numbers['val95'] / max(1, numbers['train99']):.0f} times later" if numbers["train99"] else ""
        sentences.append(
            f"It found {rule} by step {numbers['val95']}{later}: only then was it right on rows that it never saw "
            f"(severity {numbers['gsm']:.2f} of at most 1, over {numbers['steps']} steps)."
        )
    if numbers.get("k_eff") is not None:
        sentences.append(f"At the end {numbers['k_eff']} of {numbers['width']} hidden units are in use.")
    if story is not None:
        sentences += _of_the_coefficient(numbers, story)
    return " ".join(sentences)


def _of_the_coefficient(numbers: Mapping[str, Any], story: Story) -> list[str]:
    high, last = numbers.get("llc_peak"), numbers.get("llc_last")
    if high is None or last is None:
        return []
    sentences = [
        f"The learning coefficient λ̂, which counts in how many directions the weights are held by the training data, "
        f"went from {high:.0f} at its highest to {last:.0f} at the end"
        + (": the rule is held by fewer than the list of answers was." if last < high and numbers["gsm"] else ".")
    ]
    fall = story.when("λ̂")
    if fall is not None:
        sentences.append(f"It fell at step {float(np.asarray(fall.estimate)):.0f} ({fall.low:.0f} to {fall.high:.0f}).")
    if len(story.order.names) > 1:
        sentences.append(f"In time: {story.order.words()}.")
    if story.mirrored is not None and story.mirrored.status is not Status.REFUSED:
        rho, error = float(np.asarray(story.mirrored.estimate)), float(np.asarray(story.mirrored.error))
        if math.isfinite(rho):
            sentences.append(f"Its rank correlation with the validation loss is {rho:+.2f} ± {error:.2f}.")
    return sentences
