"""What does a set of numbers say, with which error? Means, straight lines and jackknives, once for all packages.

Effective sample sizes and R-hat of chains are in :mod:`phasecast.sampling.mixing`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement


def standard_error(values: ArrayLike, axis: int = 0) -> np.ndarray:
    """The standard error of the mean of independent ``values`` along ``axis``; NaN for a single one.

    >>> float(standard_error([1.0, 2.0, 3.0, 4.0]))
    0.6454972243679028
    """
    values = np.asarray(values, dtype=float)
    count = values.shape[axis]
    if count < 2:
        return np.full(np.delete(values.shape, axis), math.nan)
    return values.std(axis=axis, ddof=1) / math.sqrt(count)


def student_error(values: ArrayLike) -> float:
    """The standard error of the mean of few values, widened so that two such errors hold 95%; NaN for three or fewer.

    The factor √((n − 1)/(n − 3)) is the standard deviation of Student's distribution, whose 97.5% point is 2.36 for
    eight values and 2.07 for twenty-four.
    """
    count = np.size(values)
    return float(standard_error(values)) * math.sqrt((count - 1) / (count - 3)) if count > 3 else math.nan


@overload
def mean_of(values: Sequence[float], error_kind: str = "seeds", name: str = "") -> Measurement[float]: ...
@overload
def mean_of(values: ArrayLike, error_kind: str = "seeds", name: str = "") -> Measurement: ...
def mean_of(values: ArrayLike, error_kind: str = "seeds", name: str = "") -> Measurement:
    """The mean of independent values (along the first axis) with its standard error.

    >>> print(mean_of([1.0, 2.0, 3.0, 4.0], name="λ"))
    λ
      measured  2.50 ± 0.65 (seeds)
      status    ok
    """
    values = np.asarray(values, dtype=float)
    mean, error = values.mean(axis=0), standard_error(values)
    if mean.ndim == 0:
        return Measurement(float(mean), float(error), error_kind=error_kind, name=name)
    return Measurement(mean, error, error_kind=error_kind, name=name)


class Line(NamedTuple):
    """A fitted straight line y = intercept + slope·x, with standard errors and the covariance of both."""

    intercept: float
    slope: float
    intercept_error: float
    slope_error: float
    covariance: np.ndarray
    chi_squared: float


def weighted_line(x: ArrayLike, y: ArrayLike, error: ArrayLike | None = None) -> Line:
    """The least-squares line through points with known errors; without errors, from the scatter around it.

    >>> line = weighted_line([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], [0.1, 0.1, 0.1])
    >>> round(line.intercept, 12), round(line.slope, 12), round(line.slope_error, 6)
    (1.0, 2.0, 0.070711)
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if x.ndim != 1 or x.shape != y.shape or len(x) < 2:
        raise BadInput(f"a line needs two or more points, got x {x.shape} and y {y.shape}", "pass equally long lists")
    weight = np.ones_like(x) if error is None else 1 / np.broadcast_to(np.asarray(error, dtype=float), x.shape)
    design = np.column_stack([np.ones_like(x), x]) * weight[:, None]
    inverse = np.linalg.inv(design.T @ design)
    intercept, slope = inverse @ (design.T @ (y * weight))
    chi_squared = float(np.sum((weight * (y - intercept - slope * x)) ** 2))
    freedom = len(x) - 2
    scale = 1.0 if error is not None else chi_squared / freedom if freedom else math.nan
    covariance = inverse * scale
    errors = np.sqrt(np.diag(covariance))
    return Line(float(intercept), float(slope), float(errors[0]), float(errors[1]), covariance, chi_squared)


def jackknife(statistic: Callable[[np.ndarray], float], values: ArrayLike) -> tuple[float, float]:
    """``statistic`` of all values, and its standard error from leaving out one value (along the first axis) at a time.

    >>> estimate, error = jackknife(np.mean, [1.0, 2.0, 3.0, 4.0])
    >>> round(estimate, 6), round(error, 6)
    (2.5, 0.645497)
    """
    values = np.asarray(values, dtype=float)
    count = len(values)
    left_out = np.array([statistic(np.delete(values, i, axis=0)) for i in range(count)])
    return float(statistic(values)), float(math.sqrt((count - 1) * left_out.var()))


def rank_interval(rho: float, count: int, level: float = 0.95) -> tuple[float, float]:
    """An interval of Spearman's ρ of ``count`` independent pairs, within ±1: atanh ρ ± z 1.03/√(count − 3).

    Fisher's transform with the variance of Fieller, Hartley & Pearson 1957. The transform of a perfect ρ is
    infinite, so it is taken half a step lower, where 12/(n³ − n) is the step between possible values.

    >>> low, high = rank_interval(0.9, 10)
    >>> round(low, 2), round(high, 2)
    (0.61, 0.98)
    >>> low, high = rank_interval(1.0, 5)
    >>> -1 < low < high <= 1
    True
    """
    from scipy.special import ndtri  # scipy.stats, which names it norm.ppf, takes nearly as long to import as JAX

    if count < 4 or not abs(rho) <= 1:
        return -1.0, 1.0
    most = 1 - 6 / (count**3 - count)
    middle, width = math.atanh(min(max(rho, -most), most)), -ndtri((1 - level) / 2) * 1.03 / math.sqrt(count - 3)
    return min(math.tanh(middle - width), rho), max(math.tanh(middle + width), rho)
