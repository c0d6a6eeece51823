"""Which law does a decay follow, and is a relation a straight line? Fits with honest ways out.

Three laws for y > 0 falling with x > 0, all fitted to log y by least squares:

.. math:: y = a e^{-bx}, \\qquad y = c + a e^{-bx}, \\qquad y = a x^{-b}

compared by AICc (Hurvich & Tsai 1989) and by leaving one point out at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement, Status

FEWEST = 5
FEWEST_FLOOR = 7  # points for the law with three constants
CLEAR = 4.0  # a difference of AICc that leaves considerably less support (Burnham & Anderson 2002)
EXPONENTIAL, FLOOR, POWER = "exponential", "exponential with a floor", "power law"
Laws = dict[str, tuple[float, ...]]


@dataclass(frozen=True, eq=False, kw_only=True)
class DecayLaw(Measurement):
    """AICc of the best exponential minus that of the power law: positive where the power law is better.

    ``law`` is ``"power law"``, ``"exponential"`` or ``"undecided"``; ``constants`` those of each law fitted.
    """

    law: str = "undecided"
    constants: dict[str, Any] | None = None


def decay_law(x: Any, y: Any, *, name: str = "decay law") -> DecayLaw:
    """The law of a decay. Decided where AICc is clear, more so than leaving out one point changes it, and the law that
    it prefers also predicts points that were left out better; otherwise undecided.

    >>> rates = np.geomspace(1e-3, 1e-2, 8)
    >>> decay_law(rates, 2 * rates**-0.5 * np.exp(0.01 * np.cos(np.arange(8)))).law
    'power law'
    """
    rates, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if rates.ndim != 1 or rates.shape != values.shape:
        raise BadInput(f"x and y have shapes {rates.shape} and {values.shape}", "give two lists of one length")
    if not (np.all(rates > 0) and np.all(values > 0) and np.all(np.isfinite(values))):
        raise BadInput("a decay law is fitted to logarithms", "give positive numbers")
    if len(set(rates.tolist())) < FEWEST:
        reason = f"{len(rates)} points do not tell laws apart: measure at least {FEWEST}"
        return DecayLaw(
            math.nan, math.nan, Status.REFUSED, {"points": len(rates)}, error_kind="quadrature", reasons=[reason],
            name=name,
        )  # fmt: skip
    best, scores, constants = _difference(rates, values)
    keep = ~np.eye(len(rates), dtype=bool)
    without = np.array([_difference(rates[rows], values[rows], floor=FLOOR in scores)[0] for rows in keep])
    error = math.sqrt((len(rates) - 1) / len(rates) * float(np.sum((without - without.mean()) ** 2)))
    missed = {law: _left_out(rates, values, law) for law in scores}
    exponential = min(missed[law] for law in scores if law != POWER)
    law = POWER if best > 0 else EXPONENTIAL
    agrees = (missed[POWER] < exponential) == (best > 0)
    decided = abs(best) > max(CLEAR, 2 * error) and agrees
    facts = {"points": len(rates), "aicc": scores, "left_out": missed}
    reasons = [] if decided else [f"the points do not decide between the laws (ΔAICc = {best:.1f}): measure more rates"]
    status = Status.OK if decided else Status.WARNING
    return DecayLaw(
        best, error, status, facts, error_kind="quadrature", reasons=reasons, name=name,
        law=law if decided else "undecided", constants=constants,
    )  # fmt: skip


def straight_line(x: Any, y: Any, *, name: str = "slope") -> Measurement:
    """The slope of y over x by least squares; its error from the scatter, ``curvature`` the t-value of a square term.

    >>> line = straight_line([1, 2, 3, 4], [2.0, 4.1, 5.9, 8.0])
    >>> round(line.value, 2), line.diagnostics["points"]
    (1.98, 4)
    """
    place, value = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(place) < 3 or np.ptp(place) == 0 or not np.all(np.isfinite(value)):
        reason = f"{len(place)} points make no line with an error: measure at least three"
        return Measurement(math.nan, math.nan, Status.REFUSED, error_kind="quadrature", reasons=[reason], name=name)
    slope, error, start = _slope(place, value, 1)
    curvature = math.nan
    if len(place) > 3:
        bend, bend_error, _ = _slope(place, value, 2)
        curvature = bend / bend_error if bend_error > 0 else 0.0
    facts = {"intercept": start, "curvature": curvature, "points": len(place)}
    return Measurement(slope, error, Status.OK, facts, error_kind="quadrature", name=name)


def _slope(x: np.ndarray, y: np.ndarray, degree: int) -> tuple[float, float, float]:
    """The coefficient of the highest power, its standard error, and the value at zero."""
    middle = x.mean()
    design = np.vander(x - middle, degree + 1)
    constants, *_ = np.linalg.lstsq(design, y, rcond=None)
    rest = y - design @ constants
    variance = float(rest @ rest) / (len(x) - degree - 1)
    error = math.sqrt(variance * np.linalg.inv(design.T @ design)[0, 0])
    return float(constants[0]), error, float(np.polyval(constants, -middle))


def _difference(x: np.ndarray, y: np.ndarray, floor: bool | None = None) -> tuple[float, dict[str, float], Laws]:
    laws = [EXPONENTIAL, POWER]
    if len(x) >= FEWEST_FLOOR if floor is None else floor:
        laws.append(FLOOR)
    constants = {law: _fit(x, y, law) for law in laws}
    scores = {law: _aicc(x, y, law, found) for law, found in constants.items()}
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
    for share in (0.05, 0.5, 0.9):  # of the lowest value, where the search for the floor begins
        guess = np.log([math.exp(start), max(-slope, 1e-3 / np.ptp(x)) * (1 + share), share * y.min()])
        fits.append(least_squares(lambda z: _log_law(x, FLOOR, tuple(np.exp(np.clip(z, -60, 60)))) - np.log(y), guess))
    best = min(fits, key=lambda found: found.cost)
    return tuple(float(c) for c in np.exp(np.clip(best.x, -60, 60)))


def _aicc(x: np.ndarray, y: np.ndarray, law: str, constants: tuple[float, ...]) -> float:
    m, k = len(x), len(constants) + 1
    rest = np.log(y) - _log_law(x, law, constants)
    size = max(float(rest @ rest) / m, 1e-12)  # a millionth in y: below, the fit is exact
    return m * math.log(size) + 2 * k + 2 * k * (k + 1) / max(m - k - 1, 1)


def _left_out(x: np.ndarray, y: np.ndarray, law: str) -> float:
    """The root mean square of log y − its prediction from the other points."""
    keep = ~np.eye(len(x), dtype=bool)
    missed = [
        float((np.log(y[~rows]) - _log_law(x[~rows], law, _fit(x[rows], y[rows], law)))[0]) for rows in keep
    ]  # fmt: skip
    return math.sqrt(float(np.mean(np.square(missed))))
