"""When did it memorise, when did it generalise, and how long was it in between?

Crossing times of logged accuracies, and the grokking severity (Cullen et al. 2026, section 6.4)

.. math:: \\mathrm{GSM} = \\frac{1[a_V(T) \\ge 0.95]}{T} \\sum_{x=1}^{T} |a_T(x) - a_V(x)|

with a_T and a_V the accuracies on training and validation rows after x of T steps. It depends on T: a run that is
trained for longer after it generalised has a smaller one. A run that has not generalised at T has none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement, Status

GENERALISED = 0.95
ALIVE = 1e-2


def crossing(steps: Any, values: Any, level: float) -> int | None:
    """The first logged step at which a curve is at ``level`` or above; None where it never is.

    >>> crossing([0, 20, 40], [0.1, 0.6, 1.0], 0.5)
    20
    """
    above = np.asarray(values) >= level
    return int(np.asarray(steps)[above.argmax()]) if above.any() else None


def _checked(steps: Any, *accuracies: Any) -> list[np.ndarray]:
    """Steps and accuracies as arrays, if they are what they should be."""
    arrays = [np.asarray(one, dtype=float) for one in (steps, *accuracies)]
    shapes = {one.shape for one in arrays}
    if len(shapes) > 1 or arrays[0].ndim != 1 or not arrays[0].size:
        raise BadInput(f"the curves have shapes {', '.join(map(str, shapes))}", "give lists of one length, not empty")
    if np.any(np.diff(arrays[0]) <= 0):
        raise BadInput("the steps do not rise", "sort the curves by step")
    if any(np.any((one < 0) | (one > 1)) for one in arrays[1:]):
        raise BadInput("an accuracy is outside of 0 to 1", "give shares, not percent")
    return arrays


def crossings(steps: Any, train: Any, validation: Any) -> dict[str, int | None]:
    """``train99``, ``val50`` and ``val95``: when the accuracies pass .99, .5 and .95."""
    steps, train, validation = _checked(steps, train, validation)
    return {
        "train99": crossing(steps, train, 0.99),
        "val50": crossing(steps, validation, 0.5),
        "val95": crossing(steps, validation, GENERALISED),
    }


def grokking_severity(steps: Any, train: Any, validation: Any) -> Measurement:
    """GSM over the logged steps, as a mean over time by the trapezoidal rule; refused if it never generalised.

    Its error is what the logging grid leaves open: the difference to the value from every other logged step.

    >>> grokking_severity([0, 1, 2, 3, 4], [0, 1, 1, 1, 1], [0, 0, 0, 1, 1]).value
    0.5
    """
    steps, train, validation = _checked(steps, train, validation)
    gap = np.abs(train - validation)
    last = float(validation[-1])
    span = steps[-1] - steps[0]
    if span <= 0 or not np.isfinite(gap).all():
        reason = "the accuracies are not known over a span of steps; train for longer or with a smaller learning rate"
        return Measurement(
            np.nan, np.nan, Status.REFUSED, {"T": span}, error_kind="quadrature", reasons=[reason], name="GSM"
        )
    value = float(np.trapezoid(gap, steps) / span)
    coarse = np.r_[0 : len(steps) : 2, len(steps) - 1] if len(steps) % 2 == 0 else np.r_[0 : len(steps) : 2]
    error = abs(value - float(np.trapezoid(gap[coarse], steps[coarse]) / span))
    facts = {"T": span, "validation_accuracy": last}
    if last >= GENERALISED:
        return Measurement(value, error, Status.OK, facts, error_kind="quadrature", name=f"GSM at T = {span:.0f} steps")
    reason = (
        f"validation accuracy is {last:.2f} at step {steps[-1]:.0f}, so it has not generalised and has no severity; "
        "train for longer, on more rows, or with more weight decay"
    )
    return Measurement(value, error, Status.REFUSED, facts, error_kind="quadrature", reasons=[reason], name="GSM")


def alive(readout: Any) -> np.ndarray:
    """Which hidden units have a column of the read-out V (classes, units) longer than 10⁻² of the longest."""
    readout = np.asarray(readout, dtype=float)
    if readout.ndim != 2:
        raise BadInput(f"the read-out has shape {readout.shape}", "give the weights V, (classes, units)")
    length = np.linalg.norm(readout, axis=0)
    return length > ALIVE * length.max()


def effective_width(readout: Any) -> int:
    """K_eff, how many hidden units are :func:`alive`.

    >>> effective_width(np.array([[1.0, 0.0, 0.5], [0.0, 0.001, 0.5]]))
    2
    """
    return int(np.sum(alive(readout)))
