"""Which law does a decay follow, and is a relation a straight line? Fits that may report "undecided".

Three laws for y > 0 falling with x > 0, all fitted to log y by least squares:

.. math:: y = a e^{-bx}, \\qquad y = c + a e^{-bx}, \\qquad y = a x^{-b}

compared by AICc (Hurvich & Tsai 1989) and by leaving out one point at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Measurement, Status
from phasecast.core.statistics import jackknife


@dataclass(frozen=True)
class DecayPolicy(Policy):
    """When a law of decay counts as decided, and a straight line as fitted."""

    fewest_points: int = rule(
        5, "AICc of two constants and a variance divides by m − 4: the least number of points for which it is defined"
    )
    fewest_for_floor: int = rule(
        7, "AICc of three constants and a variance divides by m − 5, also with one point left out"
    )
    clear_difference: float = rule(
        4.0, "Burnham & Anderson 2002, section 2.6: a difference of AICc that leaves considerably less support"
    )
    errors_apart: float = rule(2.0, "two jackknife errors, about 95% for a normal error")
    fewest_for_line: int = rule(3, "a line has two constants; a third point is the first to give an error")


POLICY = DecayPolicy()
EXPONENTIAL, FLOOR, POWER = "exponential", "exponential with a floor", "power law"
Laws = dict[str, tuple[float, ...]]


@dataclass(frozen=True, eq=False, kw_only=True)
class DecayLaw(Measurement[float]):
    """AICc of the best exponential minus that of the power law: positive if the power law is better.

    ``law`` is ``"power law"``, ``"exponential"`` or ``"undecided"``; ``constants`` are those of each fitted law.
    """

    law: str = "undecided"
    constants: dict[str, tuple[float, ...]] | None = None


def decay_law(x: ArrayLike, y: ArrayLike, *, name: str = "decay law", policy: DecayPolicy = POLICY) -> DecayLaw:
    """The law of a decay.

    It is decided if the difference of AICc is clear and exceeds its jackknife error, and if the preferred law also
    predicts left-out points better; otherwise it is undecided.

    >>> rates = np.geomspace(1e-3, 1e-2, 8)
    >>> decay_law(rates, 2 * rates**-0.5 * np.exp(0.01 * np.cos(np.arange(8)))).law
    'power law'
    """
    rates, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if rates.ndim != 1 or rates.shape != values.shape:
        raise BadInput(f"x and y have shapes {rates.shape} and {values.shape}", "give two lists of equal length")
    if not (np.all(rates > 0) and np.all(values > 0) and np.all(np.isfinite(values))):
        raise BadInput("a decay law is fitted to logarithms", "give positive numbers")
    judged: dict[str, Any] = {"error_kind": "jackknife", "name": name, "policy": policy.plain()}
    if len(set(rates.tolist())) < policy.fewest_points:
        reason = f"{len(rates)} points cannot tell the laws apart: measure at least {policy.fewest_points}"
        return DecayLaw.refused(reason, diagnostics={"points": len(rates)}, **judged)
    best, scores, constants = _difference(rates, values, floor=len(rates) >= policy.fewest_for_floor)
    error = jackknife(lambda points: _difference(*points.T.copy(), floor=FLOOR in scores)[0], np.c_[rates, values])[1]
    missed = {law: _left_out(rates, values, law) for law in scores}
    exponential = min(missed[law] for law in scores if law != POWER)
    law = POWER if best > 0 else EXPONENTIAL
    agrees = (missed[POWER] < exponential) == (best > 0)
    decided = abs(best) > max(policy.clear_difference, policy.errors_apart * error) and agrees
    facts = {"points": len(rates), "aicc": scores, "left_out": missed}
    reasons = [] if decided else [f"the points do not decide between the laws (ΔAICc = {best:.1f}): measure more rates"]
    status = Status.OK if decided else Status.WARNING
    chosen = law if decided else "undecided"
    return DecayLaw(best, error, status, facts, reasons=reasons, law=chosen, constants=constants, **judged)


def straight_line(
    x: ArrayLike, y: ArrayLike, *, name: str = "slope", error_kind: str = "datasets", policy: DecayPolicy = POLICY
) -> Measurement:
    """The slope of y over x by least squares, with its error from the scatter around the line.

    ``error_kind`` says what the points differ in. ``diagnostics`` hold the ``intercept`` and ``curvature``, the t-value
    of a quadratic term.

    >>> line = straight_line([1, 2, 3, 4], [2.0, 4.1, 5.9, 8.0])
    >>> round(line.value, 2), line.diagnostics["points"]
    (1.98, 4)
    """
    place, value = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    judged: dict[str, Any] = {"error_kind": error_kind, "name": name, "policy": policy.plain()}
    if len(place) < policy.fewest_for_line or np.ptp(place) == 0 or not np.all(np.isfinite(value)):
        reason = f"a line with an error needs at least {policy.fewest_for_line} finite points, got {len(place)}"
        return Measurement.refused(reason, **judged)
    slope, error, start = _slope(place, value, 1)
    curvature = math.nan
    if len(place) > 3:
        bend, bend_error, _ = _slope(place, value, 2)
        curvature = bend / bend_error if bend_error > 0 else 0.0
    facts = {"intercept": start, "curvature": curvature, "points": len(place)}
    return Measurement(slope, error, Status.OK, facts, **judged)


def _slope(x: np.ndarray, y: np.ndarray, degree: int) -> tuple[float, float, float]:
    """The coefficient of the highest power, its standard error, and the value at zero."""
    middle = x.mean()
    design = np.vander(x - middle, degree + 1)
    constants, *_ = np.linalg.lstsq(design, y, rcond=None)
    residual = y - design @ constants
    variance = float(residual @ residual) / (len(x) - degree - 1)
    error = math.sqrt(variance * np.linalg.inv(design.T @ design)[0, 0])
    return float(constants[0]), error, float(np.polyval(constants, -middle))


def _difference(x: np.ndarray, y: np.ndarray, *, floor: bool) -> tuple[float, dict[str, float], Laws]:
    """AICc of the best exponential minus that of the power law, the AICc of each law, and its constants."""
    laws = [EXPONENTIAL, POWER, FLOOR] if floor else [EXPONENTIAL, POWER]
    constants = {law: _fit(x, y, law) for law in laws}
    scores = {law: _aicc(x, y, law, fitted) for law, fitted in constants.items()}
    return min(score for law, score in scores.items() if law != POWER) - scores[POWER], scores, constants


def _log_law(x: np.ndarray, law: str, constants: tuple[float, ...]) -> np.ndarray:
    if law == POWER:
        return math.log(constants[0]) - constants[1] * np.log(x)
    if law == EXPONENTIAL:
        return math.log(constants[0]) - constants[1] * x
    return np.logaddexp(math.log(constants[2]), math.log(constants[0]) - constants[1] * x)


def _fit(x: np.ndarray, y: np.ndarray, law: str) -> tuple[float, ...]:
    axis = np.log(x) if law == POWER else x
    slope, start = np.polyfit(axis, np.log(y), 1)
    line = (math.exp(start), -slope)
    if law != FLOOR:
        return line
    from scipy.optimize import least_squares

    fits = []
    for share in (0.05, 0.5, 0.9):  # of the lowest value: where the search for the floor starts
        guess = np.log([math.exp(start), max(-slope, 1e-3 / np.ptp(x)) * (1 + share), share * y.min()])
        fits.append(least_squares(lambda z: _log_law(x, FLOOR, tuple(np.exp(np.clip(z, -60, 60)))) - np.log(y), guess))
    best = min(fits, key=lambda fit: fit.cost)
    return tuple(float(c) for c in np.exp(np.clip(best.x, -60, 60)))


def _aicc(x: np.ndarray, y: np.ndarray, law: str, constants: tuple[float, ...]) -> float:
    m, k = len(x), len(constants) + 1
    residual = np.log(y) - _log_law(x, law, constants)
    size = max(float(residual @ residual) / m, 1e-12)  # a millionth of y: below that the fit is exact
    return m * math.log(size) + 2 * k + 2 * k * (k + 1) / max(m - k - 1, 1)


def _left_out(x: np.ndarray, y: np.ndarray, law: str) -> float:
    """The root mean square of log y minus its prediction from the other points."""
    keep = ~np.eye(len(x), dtype=bool)
    errors = [float((np.log(y[~rows]) - _log_law(x[~rows], law, _fit(x[rows], y[rows], law)))[0]) for rows in keep]
    return math.sqrt(float(np.mean(np.square(errors))))
