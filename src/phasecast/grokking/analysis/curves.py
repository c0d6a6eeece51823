"""When did it memorise, when did it generalise, and how long was it in between?

Crossing times of logged accuracies, and the grokking severity (Cullen et al. 2026, section 6.4)

.. math:: \\mathrm{GSM} = \\frac{1[a_V(T) \\ge 0.95]}{T} \\sum_{x=1}^{T} |a_T(x) - a_V(x)|

with a_T and a_V the accuracies on training and validation rows after x of T steps. It depends on T: the longer a run is
trained after it generalised, the smaller its severity. For a run that has not generalised at T it is not defined.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Measurement, Status


@dataclass(frozen=True)
class GrokkingPolicy(Policy):
    """When a network counts as having memorised or generalised, and a hidden unit as in use."""

    memorised: float = rule(0.99, "chosen: all training rows but one in a hundred, not derived")
    half: float = rule(0.5, "the middle of the rise of an accuracy from about 0 to 1")
    generalised: float = rule(0.95, "Cullen et al. 2026, section 6.4: the indicator in the definition of GSM")
    alive: float = rule(
        1e-2,
        "chosen, not derived; after long training K_eff = 2(p−1) at this level (tests/stat/test_grokking_reference.py)",
    )


POLICY = GrokkingPolicy()


def first_step_at(steps: ArrayLike, values: ArrayLike, level: float) -> int | None:
    """The first logged step at which a curve is at ``level`` or above; None if it never is.

    >>> first_step_at([0, 20, 40], [0.1, 0.6, 1.0], 0.5)
    20
    """
    above = np.asarray(values) >= level
    return int(np.asarray(steps)[above.argmax()]) if above.any() else None


def _checked(steps: ArrayLike, *accuracies: ArrayLike) -> list[np.ndarray]:
    """Steps and accuracies as arrays; raises for curves that do not fit together."""
    arrays = [np.asarray(one, dtype=float) for one in (steps, *accuracies)]
    shapes = {one.shape for one in arrays}
    if len(shapes) > 1 or arrays[0].ndim != 1 or not arrays[0].size:
        raise BadInput(f"the curves have shapes {', '.join(map(str, shapes))}", "give non-empty lists of equal length")
    if np.any(np.diff(arrays[0]) <= 0):
        raise BadInput("the steps are not increasing", "sort the curves by step")
    if any(np.any((one < 0) | (one > 1)) for one in arrays[1:]):
        raise BadInput("an accuracy is outside 0 to 1", "give fractions, not percentages")
    return arrays


def crossings(steps: ArrayLike, train: ArrayLike, validation: ArrayLike) -> dict[str, int | None]:
    """``train99``, ``val50`` and ``val95``: when the accuracies pass .99, .5 and .95 (:class:`GrokkingPolicy`)."""
    steps, train, validation = _checked(steps, train, validation)
    return {
        "train99": first_step_at(steps, train, POLICY.memorised),
        "val50": first_step_at(steps, validation, POLICY.half),
        "val95": first_step_at(steps, validation, POLICY.generalised),
    }


def grokking_severity(steps: ArrayLike, train: ArrayLike, validation: ArrayLike) -> Measurement:
    """GSM over the logged steps, a time average by the trapezoidal rule; refused if the network never generalised.

    Its error is the resolution of the logging grid: the difference from the value at every other logged step.

    >>> grokking_severity([0, 1, 2, 3, 4], [0, 1, 1, 1, 1], [0, 0, 0, 1, 1]).value
    0.5
    """
    steps, train, validation = _checked(steps, train, validation)
    gap, judged = np.abs(train - validation), POLICY.plain()
    last = float(validation[-1])
    span = steps[-1] - steps[0]
    if span <= 0 or not np.isfinite(gap).all():
        reason = "fewer than two steps have finite accuracies; train for longer or with a smaller learning rate"
        return Measurement.refused(reason, diagnostics={"T": span}, error_kind="resolution", name="GSM", policy=judged)
    value = float(np.trapezoid(gap, steps) / span)
    coarse = np.r_[0 : len(steps) : 2, len(steps) - 1] if len(steps) % 2 == 0 else np.r_[0 : len(steps) : 2]
    error = abs(value - float(np.trapezoid(gap[coarse], steps[coarse]) / span))
    facts = {"T": span, "validation_accuracy": last}
    if last >= POLICY.generalised:
        name = f"GSM at T = {span:.0f} steps"
        return Measurement(value, error, Status.OK, facts, error_kind="resolution", name=name, policy=judged)
    reason = (
        f"validation accuracy is {last:.2f} at step {steps[-1]:.0f}, so the network has not generalised and has no "
        "severity; train for longer, on more rows, or with more weight decay"
    )
    return Measurement(
        value, error, Status.REFUSED, facts, error_kind="resolution", reasons=[reason], name="GSM", policy=judged
    )


def alive(readout: ArrayLike) -> np.ndarray:
    """Which hidden units are in use: their column of the read-out V (classes, units) exceeds 10⁻² of the longest."""
    readout = np.asarray(readout, dtype=float)
    if readout.ndim != 2:
        raise BadInput(f"the read-out has shape {readout.shape}", "give the weights V, (classes, units)")
    length = np.linalg.norm(readout, axis=0)
    return length > POLICY.alive * length.max()


def effective_width(readout: ArrayLike) -> int:
    """K_eff, the number of hidden units that are :func:`alive`.

    >>> effective_width(np.array([[1.0, 0.0, 0.5], [0.0, 0.001, 0.5]]))
    2
    """
    return int(np.sum(alive(readout)))
