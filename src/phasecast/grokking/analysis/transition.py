"""When did a curve change from one level to another? The result is a time with its 95% interval, or refused.

A transition is a step between two levels that are both seen in the window of the curve. Steps of three shapes, in time
and in log time, compete with curves that need no such moment: constants with noise that wanders, straight lines, power
laws, exponential relaxation and growth, slow logistic drifts and steps that the window cuts off, bends, oscillations,
polynomials and splines (:mod:`phasecast.grokking.analysis.descriptions`). The step is accepted if all of these together
keep a weight below ``largest_chance``.

The time is that of half the change. Its interval contains the times of all steps whose deviance is within the quantile
of F(1, m − 5) of the best one. If the change is sharper than the spacing of the points, that alone is too narrow, so
curves drawn from the fit are fitted again (a parametric bootstrap), and the wider interval is reported. The standard
error is the length of the interval divided by 2 × 1.96.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Measurement, Status, show
from phasecast.grokking.analysis import descriptions
from phasecast.grokking.analysis.descriptions import Likelihood, Refinement, Shape, Stages, Window

MOST = 400  # points that are fitted; neighbours of longer curves are averaged
REFITS = 200  # of curves drawn from the fit: the 95% quantile then has ten beyond it
FITTED = 5  # level, jump, place, width and the memory of the noise
REFITTED = 400  # best steps among which they are found
ROUNDS = 7  # of grids that refine a fit
HOPELESS = 40.0  # a family whose best member on the coarse grid is worse by this much is not refined
NORMAL_95 = 1.959964  # standard errors on each side of a 95% interval
CONSTANT = "noise around a constant"


@dataclass(frozen=True)
class TransitionPolicy(Policy):
    """When a change of a curve counts as a transition."""

    fewest_points: int = rule(8, "twice the four parameters of a step, so that half of the points test the fit")
    largest_chance: float = rule(
        0.05,
        "the weight left to all descriptions without a transition, which is odds of 19 against them and about the "
        "difference of 6 in BIC that Kass & Raftery 1995 call strong; benchmarks/transition_detection.py counts what "
        "it lets through",
    )
    longest_change: float = rule(
        1 / 3, "chosen: a tenth to nine tenths over more than a third of the window is a drift, not a moment"
    )
    largest_factor: float = rule(
        6.0,
        "of the times of nine tenths and of one tenth; two thirds of the 9 of a straight line from the start, and a "
        "quarter of the 22 of relaxation at a constant rate: neither has a moment of its own",
    )
    level_length: float = rule(
        0.5, "chosen: each level is seen for at least half as long as the change takes; exponential growth has 1/20"
    )
    level_points: int = rule(3, "two points make a line, a third one shows that it is a level")
    level_depth: float = rule(0.05, "chosen: at most this part of the change lies beyond each end of the window")
    slow_change: float = rule(
        0.45, "chosen: a rival is slower than this; between longest_change and this a curve decides nothing"
    )
    slow_factor: float = rule(20.0, "as slow_change, below the 22 of relaxation, so that relaxation is a rival")
    short_level: float = rule(0.2, "as slow_change, above the 1/8 of a straight line, which has no level")
    smallest_share: float = rule(
        0.5, "chosen: two levels that leave half of the variation of the curve unexplained are not levels"
    )
    widest_interval: float = rule(
        1 / 3, "chosen: a 95% interval longer than the longest change does not say when, in log time or in time"
    )

    def step(self) -> Shape:
        """What a curve must look like to be a step."""
        return Shape(self.longest_change, self.largest_factor, self.level_length, self.level_points)

    def nearly(self) -> Shape:
        """What a curve may not look like to speak against one."""
        return Shape(self.slow_change, self.slow_factor, self.short_level, self.level_points - 1)


POLICY = TransitionPolicy()


@dataclass(frozen=True, eq=False, kw_only=True)
class Transition(Measurement[float]):
    """The time of a change; ``low`` and ``high`` are the ends of its 95% interval, from which ``error`` follows.

    ``before`` and ``after`` are the levels, ``width`` is the log of the ratio of the times at which nine tenths and one
    tenth of the change are done, and ``chance`` is the weight of the descriptions without a transition.
    ``not_before`` is a lower bound for a transition that was refused because the window ends too early, else NaN.
    """

    low: float = math.nan
    high: float = math.nan
    before: float = math.nan
    after: float = math.nan
    width: float = math.nan
    chance: float = 1.0
    not_before: float = math.nan

    def _rows(self) -> list[tuple[str, str]]:
        measured, *others = super()._rows()
        if math.isnan(self.low):
            return [measured, *others]
        return [measured, ("95% interval", f"{show(self.low)} to {show(self.high)}"), *others]


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
    """The time at which a curve changed from one level to another.

    Parameters
    ----------
    times: positive and increasing, at least 8 of them; neighbours are averaged where there are more than 400.
    errors: standard errors of the values, used as weights; the size of the noise is estimated from the curve itself.
    direction: ``"up"`` or ``"down"`` looks for changes of that sign only, e.g. the fall of λ̂ after its rise.
    """
    t, y, spread = _checked(times, values, errors, policy)
    if direction not in ("any", "up", "down"):
        raise BadInput(f"unknown direction '{direction}'", "choose one of: any, up, down")
    points = len(t)
    t, y, spread = _thinned(t, y, spread)
    if np.ptp(y) <= descriptions.ROUNDING * np.max(abs(y)):
        return _refused(name, "the curve does not change: train longer, or look at another curve", policy)
    window = Window(t, spread / np.exp(np.mean(np.log(spread))))
    likelihood = Likelihood.of(window, (y - y.mean()) / y.std())
    steps, rivals = _compared(likelihood, direction, policy)
    against = _against(rivals, window, policy)
    if not len(steps.rows):
        return _refused(name, against.reason, policy, not_before=against.not_before)
    best = int(steps.deviance.argmin())
    chance = _chance(float(steps.deviance[best]), rivals, len(t))
    low, high = _interval(likelihood, steps, best, seed)
    ends = math.exp(low), math.exp(high)
    jump = y.std() * steps.jump[best]
    before = float(np.average(y - jump * steps.rows[best], weights=window.spread**-2))
    fields: dict[str, Any] = {
        "low": ends[0],
        "high": ends[1],
        "before": before,
        "after": float(before + jump),
        "width": _width(steps.rows[best], window.x),
        "chance": chance,
    }
    explained = _explained(y, before + jump * steps.rows[best], window.spread)
    reasons: list[str] = []
    if chance > policy.largest_chance:
        reasons.append(against.reason)
        fields["not_before"] = against.not_before
    elif explained < policy.smallest_share:
        reasons.append(
            f"the change explains {max(0.0, explained):.0%} of the variation, so the curve does not stay on two "
            "levels: pass a part of it that changes once"
        )
    elif min((high - low) / np.ptp(window.x), (ends[1] - ends[0]) / np.ptp(t)) > policy.widest_interval:
        reasons.append(
            f"the change may be anywhere from {ends[0]:.3g} to {ends[1]:.3g}: measure more points, or pass a part of "
            "the curve that changes once"
        )
    return Transition(
        math.exp(steps.half[best]),
        error_of_interval(*ends),
        Status.REFUSED if reasons else Status.OK,
        {
            "points": points,
            "memory": float(descriptions.MEMORIES[steps.memory[best]]),
            "explained": explained,
            "best without": against.name,
        },
        error_kind="bootstrap",
        reasons=reasons,
        name=name,
        policy=policy.plain(),
        **fields,
    )


def error_of_interval(low: float, high: float) -> float:
    """Of a time with this 95% interval."""
    return (high - low) / (2 * NORMAL_95)


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

    The peak is that of the running median of three, so that a single high point does not make a fall. The level before
    the fall begins where that median comes within the noise of the peak (four standard deviations, estimated from the
    differences of neighbours) and stays there.
    """
    t, y, spread = _checked(times, values, errors, policy)
    middle = np.median(np.stack([y[:-2], y[1:-1], y[2:]]), axis=0)
    top = int(middle.argmax())
    noise = 1.4826 * float(np.median(abs(np.diff(y)))) / math.sqrt(2)
    below = np.flatnonzero(middle[:top] < middle[top] - 4 * noise)
    start = (int(below[-1]) + 1 if len(below) else 0) + 1
    if len(t) - start < policy.fewest_points:
        return _refused(name, f"the peak is among the last {policy.fewest_points} points: train for longer", policy)
    return transition(t[start:], y[start:], spread[start:], direction="down", seed=seed, name=name, policy=policy)


def _thinned(t: np.ndarray, y: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weighted means of equally many neighbours, so that at most :data:`MOST` points are left."""
    size = math.ceil(len(t) / MOST)
    if size == 1:
        return t, y, spread
    first = np.arange(0, len(t), size)
    weight = np.add.reduceat(spread**-2, first)
    time, value = (np.add.reduceat(part * spread**-2, first) / weight for part in (t, y))
    return time, value, weight**-0.5


class _Tried(NamedTuple):
    """Steps and slow changes that were fitted, one per row: log time of half the change and its resolution, deviance,
    number of the memory, jump, and whether the row is a step, in the direction asked for."""

    rows: np.ndarray
    low: np.ndarray
    high: np.ndarray
    deviance: np.ndarray
    memory: np.ndarray
    jump: np.ndarray
    step: np.ndarray
    wrong: np.ndarray
    slow: np.ndarray

    @property
    def half(self) -> np.ndarray:
        return (self.low + self.high) / 2

    def only(self, chosen: np.ndarray) -> _Tried:
        return _Tried(*(column[chosen] for column in self))


class _Rival(NamedTuple):
    """A description without a transition: its name, its BIC, and the curve it draws."""

    name: str
    score: float
    curve: np.ndarray


def _tried(
    likelihood: Likelihood,
    rows: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    direction: str,
    policy: TransitionPolicy,
) -> _Tried:
    fit = likelihood.shapes(rows)
    memory = fit.deviance.argmin(axis=1)
    every = np.arange(len(rows))
    jump = fit.jump[every, memory]
    wrong = jump < 0 if direction == "up" else jump > 0 if direction == "down" else np.zeros(len(rows), dtype=bool)
    stages = Stages.of(rows, likelihood.window)
    least, most = rows.min(axis=1), rows.max(axis=1)
    step = stages.steps(policy.step()) & (least <= policy.level_depth) & (most >= 1 - policy.level_depth)
    nearly = stages.steps(policy.nearly())
    return _Tried(rows, low, high, fit.deviance[every, memory], memory, jump, step & ~wrong, nearly & wrong, ~nearly)


def _compared(likelihood: Likelihood, direction: str, policy: TransitionPolicy) -> tuple[_Tried, list[_Rival]]:
    """All steps that were tried, and the best of each kind of description without one."""
    window, m = likelihood.window, len(likelihood.y)
    penalty = math.log(m)
    families = list(descriptions.sigmoids(window))
    coarse = [family.rows(window) for family in families]
    deviances = [likelihood.shapes(rows).deviance.min(axis=1) for rows in coarse]
    hopeless = min(float(deviance.min()) for deviance in deviances) + HOPELESS
    parts = [_tried(likelihood, descriptions.jumps(window), window.x[:-1], window.x[1:], direction, policy)]
    searches: list[Refinement] = []
    for family, rows, deviance in zip(families, coarse, deviances, strict=True):
        kept = np.flatnonzero(deviance < hopeless)
        if not len(kept):
            continue
        half = family.half(window)[kept]
        part = _tried(likelihood, rows[kept], half, half, direction, policy)
        parts.append(part)
        for step in (True, False):
            chosen = np.flatnonzero(part.step if step else part.slow)
            if len(chosen):
                start = int(kept[chosen[part.deviance[chosen].argmin()]])
                searches.append(Refinement.around(family, start, step))
    parts += _refined(likelihood, searches, direction, policy)
    tried = _Tried(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    between = ~(tried.step | tried.wrong | tried.slow)
    rivals = []
    for label, chosen in (
        ("a slow or unfinished change", tried.slow),
        ("a change in the other direction", tried.wrong),
        ("a change that takes longer", between),
    ):
        if chosen.any() and not (chosen is between and _no_better(tried, between)):
            rivals.append(_best_of(tried.only(chosen), label, penalty))
    for label, (parameters, rows) in descriptions.smooth_shapes(window).items():
        deviance = likelihood.shapes(rows).deviance.min(axis=1)
        best = int(deviance.argmin())
        rivals.append(_Rival(label, float(deviance[best]) + parameters * penalty, rows[best]))
    level, curve = likelihood.subspaces(np.ones((1, 1, m)))
    rivals.append(_Rival(CONSTANT, float(level[0]) + penalty, curve[0]))
    for label, parameters, designs in descriptions.smooth_spaces(window):
        deviance, curves = likelihood.subspaces(designs)
        deviance = np.where(Stages.of(curves, window).steps(policy.nearly()), np.inf, deviance)
        best = int(deviance.argmin())
        if deviance[best] < np.inf:
            rivals.append(_Rival(label, float(deviance[best]) + parameters * penalty, curves[best]))
    return tried.only(tried.step), rivals


def _no_better(tried: _Tried, between: np.ndarray) -> bool:
    """Whether changes that are neither steps nor slow fit no better than a step, by the limit of a 95% interval."""
    return bool(
        tried.step.any()
        and tried.deviance[tried.step].min() <= tried.deviance[between].min() + _limit(tried.rows.shape[1])
    )


def _best_of(tried: _Tried, label: str, penalty: float) -> _Rival:
    best = int(tried.deviance.argmin())
    curve = tried.rows[best] * math.copysign(1, tried.jump[best])
    return _Rival(label, float(tried.deviance[best]) + descriptions.STEP * penalty, curve)


def _refined(
    likelihood: Likelihood, searches: list[Refinement], direction: str, policy: TransitionPolicy
) -> Iterator[_Tried]:
    """Finer and finer grids around the best members of families; all of them at once, because each is small."""
    window, limit = likelihood.window, _limit(len(likelihood.y))
    for _ in range(ROUNDS):
        if not searches:
            return
        grids = [search.grid() for search in searches]
        half = np.concatenate([grid.half(window) for grid in grids])
        rows = np.concatenate([grid.rows(window) for grid in grids])
        tried = _tried(likelihood, rows, half, half, direction, policy)
        yield tried
        shape = len(searches), -1
        deviance, step, slow = (part.reshape(shape) for part in (tried.deviance, tried.step, tried.slow))
        following = [
            search.next(grid, deviance[i], step[i] if search.step else slow[i], limit)
            for i, (search, grid) in enumerate(zip(searches, grids, strict=True))
        ]
        searches = [search for search in following if search is not None]


def _chance(best: float, rivals: list[_Rival], m: int) -> float:
    """The weight of the descriptions without a transition beside the best one with it, exp(−BIC/2) each."""
    score = best + descriptions.STEP * math.log(m)
    odds = sum(math.exp(np.clip((score - rival.score) / 2, -700, 50)) for rival in rivals)
    return odds / (1 + odds)


class _Against(NamedTuple):
    """What speaks against a transition: the best description without one, in words, and a lower bound that it gives."""

    name: str
    reason: str
    not_before: float


def _against(rivals: list[_Rival], window: Window, policy: TransitionPolicy) -> _Against:
    best = min(rivals, key=lambda rival: rival.score)
    if best.name == CONSTANT:
        span = f"{window.t[0]:.4g} to {window.t[-1]:.4g}"
        reason = f"noise alone looks like this, no change is seen from {span}: measure more points, or longer"
        return _Against(best.name, reason, math.nan)
    stages, shape = Stages.of(best.curve[None], window), policy.step()
    if np.any(stages.begins(shape)) and not np.any(stages.ends(shape)):
        bound = math.exp(stages.tenth[0])
        reason = f"the level after the change is not seen, it is not before step {bound:.4g}: train for longer"
        return _Against(best.name, reason, bound)
    reason = f"the curve drifts rather than changing at one time, {best.name} describes it as well: train for longer"
    return _Against(best.name, reason, math.nan)


def _interval(likelihood: Likelihood, steps: _Tried, best: int, seed: int) -> tuple[float, float]:
    """The 95% interval of the log time of half the change: by likelihood, or by refits if that is wider."""
    x, half = likelihood.window.x, steps.half[best]
    memory = float(descriptions.MEMORIES[steps.memory[best]])
    near = np.argsort(steps.deviance, kind="stable")[:REFITTED]
    level = _innovations(np.ones((1, len(x))), likelihood.window.spread, memory)[0]
    level = level / np.linalg.norm(level)
    shapes, values = (
        part - np.outer(part @ level, level)
        for part in (
            _innovations(steps.rows[near], likelihood.window.spread, memory),
            _innovations(likelihood.y[None], np.ones(len(x)), memory),
        )
    )
    clean = steps.jump[best] * shapes[0]
    rest = values[0] - clean
    size = float(rest @ rest) / max(1, len(rest) - FITTED)
    louder = _louder(rest, steps.rows[best], size)
    inside = steps.deviance <= steps.deviance[best] + louder * _limit(len(x), memory)
    draws = np.random.default_rng(seed).standard_normal((len(x), REFITS))
    along = (shapes / np.linalg.norm(shapes, axis=1)[:, None]) @ (clean[:, None] + math.sqrt(size * louder) * draws)
    refitted = steps.half[near][(along * math.copysign(1, steps.jump[best])).argmax(axis=0)]
    reach = float(np.quantile(abs(refitted - half), 0.95))
    low, high = min(steps.low[inside].min(), half - reach), max(steps.high[inside].max(), half + reach)
    return max(float(x[0]), float(low)), min(float(x[-1]), float(high))


def _innovations(rows: np.ndarray, spread: np.ndarray, memory: float) -> np.ndarray:
    """What is new at each point of curves whose noise remembers its past: white noise, if the noise is all there is."""
    rows = rows / spread
    return np.concatenate([math.sqrt(1 - memory**2) * rows[:, :1], rows[:, 1:] - memory * rows[:, :-1]], axis=1)


def _louder(rest: np.ndarray, rise: np.ndarray, size: float) -> float:
    """How much larger the variance of the noise is during the change than on the whole curve, at least 1.

    The noise of an accuracy is largest between its levels, which is where the place is decided. Place and width are
    fitted to these few points, and the estimate is held by as many points of the whole curve as a step has parameters.
    """
    during = (rise > 0.02) & (rise < 0.98)
    during[1:] |= during[:-1].copy()
    during[:-1] |= during[1:].copy()
    free, held = max(0, int(during.sum()) - 2), descriptions.STEP
    local = float(np.sum(rest[during] ** 2)) + held * size
    return max(1.0, local / (size * (free + held))) if size > 0 else 1.0


@functools.cache
def _limit(m: int, memory: float = 0.0) -> float:
    """How much deviance a place may have above the best one and still be in the 95% interval."""
    from scipy.special import fdtri  # scipy.stats, which names it f.ppf, takes a second to import

    free = max(1, m - FITTED)
    independent = max(3.0, m * (1 - memory) / (1 + memory) - FITTED)
    return m * math.log1p(float(fdtri(1, independent, 0.95)) / free)


def _explained(y: np.ndarray, fitted: np.ndarray, spread: np.ndarray) -> float:
    """The share of the variation of a curve around its mean that a fit explains; negative if the mean is closer."""
    mean = np.average(y, weights=spread**-2)
    return 1 - float(np.sum(((y - fitted) / spread) ** 2) / np.sum(((y - mean) / spread) ** 2))


def _width(rise: np.ndarray, x: np.ndarray) -> float:
    """The distance of a tenth and nine tenths of a rise from 0 to 1."""
    return float(np.interp(0.9, rise, x) - np.interp(0.1, rise, x))


def _refused(name: str, reason: str, policy: TransitionPolicy, not_before: float = math.nan) -> Transition:
    return Transition.refused(reason, error_kind="bootstrap", name=name, policy=policy.plain(), not_before=not_before)


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
