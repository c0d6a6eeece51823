"""When did a curve change? A sigmoid in log time fitted to it, with an interval, or a refusal where there is none.

.. math:: y(t) = a + b\\,/\\,(1 + e^{-(\\log t - c)/w}) + \\text{noise}

For each place c the best width w, a and b follow by least squares, so that the profile S(c) of the summed squares is a
likelihood: the interval holds the places with :math:`(m-4)(S(c)/S_{\\min} - 1)` below the quantile of F(1, m−4), m
being the number of points that carry independent noise, because neighbours on smooth curves share theirs. Where the
change is sharper than the spacing of the times the profile alone is too sure, so curves drawn from the fit are fitted
again, and the wider of both intervals is reported.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement, Status

FEWEST = 8
CHANCE = 0.01  # how often noise alone may look like a transition
FLAT_DRAWS = 400
PLACES = 240
WIDTHS = 8
WIDEST = 1 / 12  # of the whole range of log time; a tenth to nine tenths of the change take 4.4 widths
FITTED = 4  # level, jump, place and width
REFITS = 200
UNLOCATED = 0.5  # of the range of log time; a wider interval says nothing
MOST_STICKY = 0.9
ROUNDING = 1e-10  # residuals below this share of the change are exact fits


@dataclass(frozen=True, eq=False, kw_only=True)
class Transition(Measurement):
    """The time of a change, with its error; ``low`` and ``high`` hold it with 95%.

    ``before`` and ``after`` are the levels, ``width`` that of the sigmoid in log time, ``chance`` how often noise alone
    explains as much.
    """

    low: float = math.nan
    high: float = math.nan
    before: float = math.nan
    after: float = math.nan
    width: float = math.nan
    chance: float = 1.0


def transition(
    times: Any, values: Any, errors: Any = None, *, direction: str = "any", seed: int = 0, name: str = "transition"
) -> Transition:
    """The change-point of a curve, on a log-time axis.

    Parameters
    ----------
    times: positive and rising, at least 8 of them; spaced in log time they carry most.
    errors: standard errors of the values, for their weights; the size of the noise is read off the curve itself.
    direction: ``"up"`` or ``"down"`` looks for changes of that sign alone, e.g. the fall of λ̂ after its rise.
    """
    t, y, spread = _checked(times, values, errors)
    if direction not in ("any", "up", "down"):
        raise BadInput(f"unknown direction '{direction}'", "choose one of: any, up, down")
    x = np.log(t)
    shapes = _Shapes.on(x, spread)
    level, share, slopes = shapes.explained(y / spread, direction)
    best = int(share.argmax())
    if not share[best] > 0 or np.ptp(y) <= ROUNDING * np.max(abs(y)):
        return _refused(name, "the curve does not change", "train longer, or look at another curve")
    rest = 1 - share[best]
    sticky = _stickiness(shapes.residual(y / spread, best)) if rest > ROUNDING else 0.0
    free = max(2.0, len(x) * (1 - sticky) / (1 + sticky) - FITTED)  # independent points beyond those fitted
    chance = _chance(shapes, share[best], sticky, direction, seed)
    place, width, jump = shapes.places[best], shapes.widths[best], slopes[best]
    before = float(np.average(y - jump * shapes.raw[best], weights=spread**-2))
    profile = share.reshape(PLACES, WIDTHS).max(axis=1)
    above = free * (np.maximum(1 - profile, ROUNDING) / max(rest, ROUNDING) - 1)
    moved = _refitted(shapes, best, jump, math.sqrt(level * rest / max(free, 1)), sticky, direction, seed)
    error = max(_half_width(shapes.grid, above, _f_quantile(0.683, free)), float(np.quantile(abs(moved), 0.683)))
    low, high = _interval(shapes.grid, above, _f_quantile(0.95, free))
    reach = float(np.quantile(abs(moved), 0.95))
    low, high = max(x[0], min(low, place - reach)), min(x[-1], max(high, place + reach))
    time = math.exp(place)
    found: dict[str, Any] = {
        "low": math.exp(low),
        "high": math.exp(high),
        "before": before,
        "after": before + jump,
        "width": float(width),
        "chance": chance,
    }
    more = {"points": len(x), "independent": free + FITTED, "explained": float(share[best])}
    reasons = []
    if chance > CHANCE:
        reasons.append(f"noise alone looks like this with probability {chance:.2g}: measure more points")
    elif _line_is_as_good(x, y / spread, spread, rest, level, free):
        reasons.append("the curve drifts over the whole time rather than changing: take a longer time")
    elif place in (shapes.grid[0], shapes.grid[-1]):
        reasons.append("the change is at the edge of the times: take earlier or later ones too")
    elif high - low > UNLOCATED * (x[-1] - x[0]):
        reasons.append(
            f"the change may be anywhere from {found['low']:.3g} to {found['high']:.3g}: take more points, or a "
            "part of the curve that changes once"
        )
    status = Status.REFUSED if reasons else Status.OK
    return Transition(time, time * error, status, more, error_kind="quadrature", reasons=reasons, name=name, **found)


def fall_after_peak(times: Any, values: Any, errors: Any = None, *, seed: int = 0, name: str = "fall") -> Transition:
    """The fall of a curve that rises first, as λ̂ does: :func:`transition` downwards, from the peak on.

    The peak is that of the running median of three, so that one high point does not make a fall.
    """
    t, y, spread = _checked(times, values, errors)
    middle = np.median(np.stack([y[:-2], y[1:-1], y[2:]]), axis=0)
    start = int(middle.argmax()) + 1
    if len(t) - start < FEWEST:
        return _refused(name, f"the peak is among the last {FEWEST} points", "train longer")
    return transition(t[start:], y[start:], spread[start:], direction="down", seed=seed, name=name)


@dataclass(frozen=True)
class Ordering:
    """Transitions in the order of their times.

    ``names`` from first to last; ``pairs`` says for each two neighbours ``"before"`` or ``"overlap"``; ``refused``
    lists curves without a transition.
    """

    names: tuple[str, ...]
    pairs: tuple[str, ...]
    refused: tuple[str, ...]

    def words(self) -> str:
        """One line, with < where one surely came first and ≈ where the intervals overlap."""
        signs = [{"before": " < ", "overlap": " ≈ "}[pair] for pair in self.pairs]
        return "".join(itertools.chain.from_iterable(itertools.zip_longest(self.names, signs, fillvalue="")))


def in_order(transitions: Mapping[str, Transition]) -> Ordering:
    """Which transition came first, and whether the 95% intervals of neighbours in time overlap."""
    seen = {name: found for name, found in transitions.items() if found.status is not Status.REFUSED}
    names = sorted(seen, key=lambda name: float(np.asarray(seen[name].estimate)))
    pairs = ["before" if seen[one].high < seen[two].low else "overlap" for one, two in itertools.pairwise(names)]
    return Ordering(tuple(names), tuple(pairs), tuple(name for name in transitions if name not in seen))


@dataclass(frozen=True)
class _Shapes:
    """Sigmoids at all places and widths: ``raw`` (shapes, m), and ``unit`` with the level projected out, normalised.

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
        """Places from the second to the second last time, so that each level is held by points of its own."""
        grid = np.linspace(x[1], x[-2], PLACES)
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


def _noise(shapes: _Shapes, draws: int, sticky: float, seed: int) -> np.ndarray:
    """Noise of unit size in which neighbours correlate by ``sticky``, (m, draws)."""
    noise = np.random.default_rng(seed).standard_normal((len(shapes.level_unit), draws))
    for i in range(1, len(noise)):
        noise[i] = sticky * noise[i - 1] + math.sqrt(1 - sticky**2) * noise[i]
    return noise


def _best_fits(shapes: _Shapes, curves: np.ndarray, direction: str) -> tuple[np.ndarray, np.ndarray]:
    """The best shape of each curve (m, draws) and the share of its variation that it explains."""
    curves = curves - np.outer(shapes.level_unit, shapes.level_unit @ curves)
    along = shapes.unit @ curves
    if direction != "any":
        along = np.maximum(along if direction == "up" else -along, 0)
    best = abs(along).argmax(axis=0)
    return best, along[best, np.arange(len(best))] ** 2 / np.sum(curves**2, axis=0)


def _chance(shapes: _Shapes, seen: float, sticky: float, direction: str, seed: int) -> float:
    """How often flat noise that is as sticky as the residuals is explained as well by its best shape."""
    shares = _best_fits(shapes, _noise(shapes, FLAT_DRAWS, sticky, seed), direction)[1]
    return float((1 + np.sum(shares >= seen)) / (1 + FLAT_DRAWS))


def _refitted(
    shapes: _Shapes, shape: int, jump: float, noise: float, sticky: float, direction: str, seed: int
) -> np.ndarray:
    """How far the place moves when curves drawn from the fit are fitted again."""
    clean = jump * shapes.norms[shape] * shapes.unit[shape]
    curves = clean[:, None] + noise * _noise(shapes, REFITS, sticky, seed + 1)
    return shapes.places[_best_fits(shapes, curves, direction)[0]] - shapes.places[shape]


def _stickiness(residuals: np.ndarray) -> float:
    """The correlation of neighbouring residuals, not below zero, corrected for what fitting has taken from it."""
    m, size = len(residuals), float(residuals @ residuals)
    seen = float(residuals[:-1] @ residuals[1:]) / size if size > 0 else 0.0
    return float(np.clip(seen + (1 + FITTED * seen) / (m - FITTED), 0, MOST_STICKY))


def _line_is_as_good(x: np.ndarray, y: np.ndarray, spread: np.ndarray, rest: float, level: float, free: float) -> bool:
    """Whether a straight line in log time, with two parameters fewer, fits as well by the Bayesian criterion."""
    design = np.stack([np.ones_like(x), x]) / spread
    fitted = design.T @ np.linalg.lstsq(design.T, y, rcond=None)[0]
    line = float(np.sum((y - fitted) ** 2)) / level
    points = free + FITTED
    return points * math.log(max(line, ROUNDING) / max(rest, ROUNDING)) < 2 * math.log(points)


def _interval(grid: np.ndarray, above: np.ndarray, limit: float) -> tuple[float, float]:
    """The places around the best one whose profile stays below ``limit``, to half a grid step."""
    inside = np.flatnonzero(above <= limit)
    half = (grid[1] - grid[0]) / 2
    return float(grid[inside[0]] - half), float(grid[inside[-1]] + half)


def _half_width(grid: np.ndarray, above: np.ndarray, limit: float) -> float:
    low, high = _interval(grid, above, limit)
    return (high - low) / 2


def _f_quantile(probability: float, free: float) -> float:
    from scipy.stats import f

    return float(f.ppf(probability, 1, free))


def _refused(name: str, cause: str, fix: str) -> Transition:
    return Transition(
        math.nan, math.nan, Status.REFUSED, error_kind="quadrature", reasons=[f"{cause}: {fix}"], name=name
    )


def _checked(times: Any, values: Any, errors: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    t, y = np.asarray(times, dtype=float), np.asarray(values, dtype=float)
    spread = np.ones_like(y) if errors is None else np.asarray(errors, dtype=float)
    if t.ndim != 1 or y.shape != t.shape or spread.shape != t.shape:
        raise BadInput(f"times, values and errors have shapes {t.shape}, {y.shape}, {spread.shape}", "use equal ones")
    if len(t) < FEWEST:
        raise BadInput(f"{len(t)} points are too few for a change-point", f"give at least {FEWEST}")
    if not (np.all(t > 0) and np.all(np.diff(t) > 0)):
        raise BadInput("times are not positive and rising", "leave out step 0 and sort them")
    if not (np.all(np.isfinite(y)) and np.all(np.isfinite(spread)) and np.all(spread > 0)):
        raise BadInput("values or errors are not finite, or errors not positive", "leave those points out")
    return t, y, spread
