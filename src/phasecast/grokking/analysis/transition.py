"""When did a curve change? A sigmoid in log time is fitted to it; the result is a time with an interval, or refused.

.. math:: y(t) = a + b\\,/\\,(1 + e^{-(\\log t - c)/w}) + \\text{noise}

For each location c the best w, a and b follow by least squares, so that the profile S(c) of the sum of squares is a
likelihood: the interval contains the locations with :math:`(m-4)(S(c)/S_{\\min} - 1)` below the quantile of
F(1, m−4). m is the number of points with independent noise, which is smaller than the number of points because
neighbours on smooth curves share their noise. If the change is sharper than the spacing of the times, the profile alone
is too narrow, so curves drawn from the fit are refitted (a parametric bootstrap) and the wider interval is reported.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Measurement, Status

FLAT_DRAWS = 400  # of flat noise: a chance of 0.01 is then four of them
REFITS = 200  # of curves drawn from the fit: the 95% quantile then has ten beyond it
GRID = 240  # locations tried; the interval is known to half a grid step
WIDTHS = 8  # widths tried at each location, evenly spaced in log width
WIDEST = 1 / 12  # of the range of log time: from a tenth to nine tenths, 4.4 widths, is then over a third of the range
FITTED = 4  # level, jump, location and width
ROUNDING = 1e-10  # residuals below this share of the change are exact fits


@dataclass(frozen=True)
class TransitionPolicy(Policy):
    """When a change of a curve counts as found."""

    fewest_points: int = rule(8, "twice the four parameters of a sigmoid, so that half of the points test the fit")
    largest_chance: float = rule(
        0.01, "the usual 1% level; tests/stat/test_grokking_transition.py counts false alarms on flat noise"
    )
    widest_interval: float = rule(
        0.5, "chosen, not derived: a 95% interval over half of log time does not locate a change"
    )
    largest_correlation: float = rule(
        0.9, "chosen, not derived: above it fewer than one point in 19 is independent, and the estimate is not trusted"
    )


POLICY = TransitionPolicy()


@dataclass(frozen=True, eq=False, kw_only=True)
class Transition(Measurement[float]):
    """The time of a change, with its error; ``low`` and ``high`` are the ends of its 95% interval.

    ``before`` and ``after`` are the levels, ``width`` is that of the sigmoid in log time, and ``chance`` is the
    probability that noise alone is explained as well.
    """

    low: float = math.nan
    high: float = math.nan
    before: float = math.nan
    after: float = math.nan
    width: float = math.nan
    chance: float = 1.0


def transition(
    times: ArrayLike,
    values: ArrayLike,
    errors: ArrayLike | None = None,
    *,
    direction: str = "any",
    seed: int = 0,
    name: str = "transition",
    policy: TransitionPolicy = POLICY,
) -> Transition:
    """The change-point of a curve, on a log-time axis.

    Parameters
    ----------
    times: positive and increasing, at least 8 of them, best spaced evenly in log time.
    errors: standard errors of the values, used as weights; the size of the noise is estimated from the curve itself.
    direction: ``"up"`` or ``"down"`` looks for changes of that sign only, e.g. the fall of λ̂ after its rise.
    """
    t, y, spread = _checked(times, values, errors, policy)
    if direction not in ("any", "up", "down"):
        raise BadInput(f"unknown direction '{direction}'", "choose one of: any, up, down")
    x = np.log(t)
    shapes = _Shapes.on(x, spread)
    level, share, slopes = shapes.explained(y / spread, direction)
    best = int(share.argmax())
    if not share[best] > 0 or np.ptp(y) <= ROUNDING * np.max(abs(y)):
        return _refused(name, "the curve does not change: train longer, or look at another curve", policy)
    rest = 1 - share[best]
    correlation = _neighbour_correlation(shapes.residual(y / spread, best), policy) if rest > ROUNDING else 0.0
    free = max(2.0, len(x) * (1 - correlation) / (1 + correlation) - FITTED)  # independent points beyond those fitted
    chance = _chance(shapes, share[best], _Noise(correlation, direction, seed))
    place, width, jump = shapes.places[best], shapes.widths[best], slopes[best]
    before = float(np.average(y - jump * shapes.raw[best], weights=spread**-2))
    profile = share.reshape(GRID, WIDTHS).max(axis=1)
    above = free * (np.maximum(1 - profile, ROUNDING) / max(rest, ROUNDING) - 1)
    size = math.sqrt(level * rest / max(free, 1))
    moved = _refitted(shapes, best, jump, size, _Noise(correlation, direction, seed + 1))
    error = max(_half_width(shapes.grid, above, _f_quantile(0.683, free)), float(np.quantile(abs(moved), 0.683)))
    low, high = _interval(shapes.grid, above, _f_quantile(0.95, free))
    reach = float(np.quantile(abs(moved), 0.95))
    low, high = max(x[0], min(low, place - reach)), min(x[-1], max(high, place + reach))
    time = math.exp(place)
    fields: dict[str, Any] = {
        "low": math.exp(low),
        "high": math.exp(high),
        "before": before,
        "after": before + jump,
        "width": float(width),
        "chance": chance,
    }
    reasons = []
    if chance > policy.largest_chance:
        reasons.append(f"noise alone looks like this with probability {chance:.2g}: measure more points")
    elif _line_is_as_good(x, y / spread, spread, rest, level, free):
        reasons.append("the curve drifts over the whole time rather than changing: train for longer")
    elif place in (shapes.grid[0], shapes.grid[-1]):
        reasons.append("the change is at the edge of the times: add earlier or later ones")
    elif high - low > policy.widest_interval * (x[-1] - x[0]):
        reasons.append(
            f"the change may be anywhere from {fields['low']:.3g} to {fields['high']:.3g}: measure more points, or "
            "pass a part of the curve that changes once"
        )
    return Transition(
        time,
        time * error,
        Status.REFUSED if reasons else Status.OK,
        {"points": len(x), "independent": free + FITTED, "explained": float(share[best])},
        error_kind="bootstrap",
        reasons=reasons,
        name=name,
        policy=policy.plain(),
        **fields,
    )


def fall_after_peak(
    times: ArrayLike,
    values: ArrayLike,
    errors: ArrayLike | None = None,
    *,
    seed: int = 0,
    name: str = "fall",
    policy: TransitionPolicy = POLICY,
) -> Transition:
    """The fall of a curve that rises first, as λ̂ does: :func:`transition` downwards, after the peak.

    The peak is that of the running median of three, so that a single high point does not make a fall.
    """
    t, y, spread = _checked(times, values, errors, policy)
    middle = np.median(np.stack([y[:-2], y[1:-1], y[2:]]), axis=0)
    start = int(middle.argmax()) + 1
    if len(t) - start < policy.fewest_points:
        return _refused(name, f"the peak is among the last {policy.fewest_points} points: train for longer", policy)
    return transition(t[start:], y[start:], spread[start:], direction="down", seed=seed, name=name, policy=policy)


@dataclass(frozen=True)
class Ordering:
    """Transitions in the order of their times.

    ``names`` from first to last; ``pairs`` gives ``"before"`` or ``"overlap"`` for each two neighbours; ``refused``
    lists the curves without a transition.
    """

    names: tuple[str, ...]
    pairs: tuple[str, ...]
    refused: tuple[str, ...]

    def words(self) -> str:
        """One line, with < if one came first and ≈ if the 95% intervals overlap."""
        signs = [{"before": " < ", "overlap": " ≈ "}[pair] for pair in self.pairs]
        return "".join(itertools.chain.from_iterable(itertools.zip_longest(self.names, signs, fillvalue="")))


def in_order(transitions: Mapping[str, Transition]) -> Ordering:
    """Which transition came first, and whether the 95% intervals of neighbours in time overlap."""
    located = {name: change for name, change in transitions.items() if change.status is not Status.REFUSED}
    names = sorted(located, key=lambda name: float(located[name]))
    pairs = ["before" if located[one].high < located[two].low else "overlap" for one, two in itertools.pairwise(names)]
    return Ordering(tuple(names), tuple(pairs), tuple(name for name in transitions if name not in located))


@dataclass(frozen=True)
class _Shapes:
    """Sigmoids at all locations and widths: ``raw`` (shapes, m), and ``unit`` with the level projected out, normalised.

    Both ``level_unit`` and ``unit`` belong to values divided by their standard errors.
    """

    grid: np.ndarray
    places: np.ndarray
    widths: np.ndarray
    raw: np.ndarray
    unit: np.ndarray
    norms: np.ndarray
    level_unit: np.ndarray

    @staticmethod
    def on(x: np.ndarray, spread: np.ndarray) -> _Shapes:
        """Locations from the second to the second last time, so that each level has points of its own."""
        grid = np.linspace(x[1], x[-2], GRID)
        closest, total = float(np.median(np.diff(x))), float(x[-1] - x[0])
        widths = np.geomspace(min(closest / 8, total * WIDEST / 2), total * WIDEST, WIDTHS)
        places, width = (part.ravel() for part in np.meshgrid(grid, widths, indexing="ij"))
        raw = 0.5 * (1 + np.tanh((x - places[:, None]) / (2 * width[:, None])))
        level_unit = (1 / spread) / np.linalg.norm(1 / spread)
        scaled = raw / spread
        scaled = scaled - np.outer(scaled @ level_unit, level_unit)
        norms = np.linalg.norm(scaled, axis=1)
        return _Shapes(grid, places, width, raw, scaled / norms[:, None], norms, level_unit)

    def explained(self, y: np.ndarray, direction: str) -> tuple[float, np.ndarray, np.ndarray]:
        """Σ(y − ȳ)², the share of it that each shape explains, and each shape's jump."""
        above = y - (y @ self.level_unit) * self.level_unit
        along = self.unit @ above
        total = float(above @ above)
        share = along**2 / total if total > 0 else np.zeros_like(along)
        wrong = {"any": np.zeros_like(along, dtype=bool), "up": along < 0, "down": along > 0}[direction]
        return total, np.where(wrong, 0.0, share), along / self.norms

    def residual(self, y: np.ndarray, shape: int) -> np.ndarray:
        above = y - (y @ self.level_unit) * self.level_unit
        return above - (self.unit[shape] @ above) * self.unit[shape]


@dataclass(frozen=True)
class _Noise:
    """Simulated noise of unit size: the correlation of neighbours, the direction in which it is fitted, the seed."""

    correlation: float
    direction: str
    seed: int

    def draw(self, points: int, draws: int) -> np.ndarray:
        """A first-order autoregression, (points, draws)."""
        noise = np.random.default_rng(self.seed).standard_normal((points, draws))
        for i in range(1, len(noise)):
            noise[i] = self.correlation * noise[i - 1] + math.sqrt(1 - self.correlation**2) * noise[i]
        return noise


def _best_fits(shapes: _Shapes, curves: np.ndarray, direction: str) -> tuple[np.ndarray, np.ndarray]:
    """The best shape of each curve (m, draws) and the share of its variation that the shape explains."""
    curves = curves - np.outer(shapes.level_unit, shapes.level_unit @ curves)
    along = shapes.unit @ curves
    if direction != "any":
        along = np.maximum(along if direction == "up" else -along, 0)
    best = abs(along).argmax(axis=0)
    return best, along[best, np.arange(len(best))] ** 2 / np.sum(curves**2, axis=0)


def _chance(shapes: _Shapes, explained: float, noise: _Noise) -> float:
    """How often flat noise that is as correlated as the residuals is explained as well by its best shape."""
    shares = _best_fits(shapes, noise.draw(len(shapes.level_unit), FLAT_DRAWS), noise.direction)[1]
    return float((1 + np.sum(shares >= explained)) / (1 + FLAT_DRAWS))


def _refitted(shapes: _Shapes, shape: int, jump: float, size: float, noise: _Noise) -> np.ndarray:
    """How far the location moves when curves drawn from the fit are fitted again."""
    clean = jump * shapes.norms[shape] * shapes.unit[shape]
    curves = clean[:, None] + size * noise.draw(len(shapes.level_unit), REFITS)
    return shapes.places[_best_fits(shapes, curves, noise.direction)[0]] - shapes.places[shape]


def _neighbour_correlation(residuals: np.ndarray, policy: TransitionPolicy) -> float:
    """The correlation of neighbouring residuals, at least zero, corrected for the bias that fitting causes."""
    m, size = len(residuals), float(residuals @ residuals)
    raw = float(residuals[:-1] @ residuals[1:]) / size if size > 0 else 0.0
    return float(np.clip(raw + (1 + FITTED * raw) / (m - FITTED), 0, policy.largest_correlation))


def _line_is_as_good(x: np.ndarray, y: np.ndarray, spread: np.ndarray, rest: float, level: float, free: float) -> bool:
    """Whether a straight line in log time, with two parameters fewer, fits as well by the BIC."""
    design = np.stack([np.ones_like(x), x]) / spread
    fitted = design.T @ np.linalg.lstsq(design.T, y, rcond=None)[0]
    line = float(np.sum((y - fitted) ** 2)) / level
    points = free + FITTED
    return points * math.log(max(line, ROUNDING) / max(rest, ROUNDING)) < 2 * math.log(points)


def _interval(grid: np.ndarray, above: np.ndarray, limit: float) -> tuple[float, float]:
    """The locations around the best one whose profile stays below ``limit``, to half a grid step."""
    inside = np.flatnonzero(above <= limit)
    half = (grid[1] - grid[0]) / 2
    return float(grid[inside[0]] - half), float(grid[inside[-1]] + half)


def _half_width(grid: np.ndarray, above: np.ndarray, limit: float) -> float:
    low, high = _interval(grid, above, limit)
    return (high - low) / 2


def _f_quantile(probability: float, free: float) -> float:
    from scipy.stats import f

    return float(f.ppf(probability, 1, free))


def _refused(name: str, reason: str, policy: TransitionPolicy) -> Transition:
    return Transition.refused(reason, error_kind="bootstrap", name=name, policy=policy.plain())


def _checked(
    times: ArrayLike, values: ArrayLike, errors: ArrayLike | None, policy: TransitionPolicy
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    t, y = np.asarray(times, dtype=float), np.asarray(values, dtype=float)
    spread = np.ones_like(y) if errors is None else np.asarray(errors, dtype=float)
    if t.ndim != 1 or y.shape != t.shape or spread.shape != t.shape:
        raise BadInput(f"times, values and errors have shapes {t.shape}, {y.shape}, {spread.shape}", "use equal ones")
    if len(t) < policy.fewest_points:
        raise BadInput(f"{len(t)} points are too few for a change-point", f"give at least {policy.fewest_points}")
    if not (np.all(t > 0) and np.all(np.diff(t) > 0)):
        raise BadInput("times are not positive and increasing", "leave out step 0 and sort them")
    if not (np.all(np.isfinite(y)) and np.all(np.isfinite(spread)) and np.all(spread > 0)):
        raise BadInput("values or errors are not finite, or errors not positive", "leave those points out")
    return t, y, spread
