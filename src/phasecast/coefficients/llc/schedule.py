"""Which γ comes next? From where sampling is easy towards γ → 0, and what the limit there is.

λ̂(γ) = nβ E[L − L*] is nearly linear in γ where it can be extrapolated at all. So γ is lowered by factors of √10 until
the line and the parabola through the last levels agree at γ = 0; a second schedule at a tenth of nβ then measures how
far from nβ → ∞ the limit is. With γ given, chains start there if it is easy, and otherwise come down to it; around a γ
that was chosen for a neighbourhood, one on each side of it follows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from phasecast.coefficients.llc.level import Level, LevelPhase, advance, at_next_gamma, start
from phasecast.coefficients.llc.plan import Plan
from phasecast.coefficients.llc.policy import POLICY, LLCPolicy
from phasecast.sampling.backends.protocol import Backend, stream
from phasecast.sampling.kernels.kernel import Array, RandomKey, Tuning


def proceed(backend: Backend, plan: Plan, levels: list[Level], seed: int) -> bool:
    """Do the next chunk of work: move the last level on, or begin another. False if there is nothing left to do.

    Where to go on follows from the levels alone, so that they are all that must be kept between chunks.
    """
    key = backend.key(seed)
    second = bool(levels) and levels[-1].tuning.nbeta < plan.nbeta
    schedule = [level for level in levels if (level.tuning.nbeta < plan.nbeta) == second]
    own_key = stream(backend, key, "schedule", int(second))
    spent = sum(level.gradients for level in levels)
    if schedule and schedule[-1].phase.active:
        level = schedule[-1]
        level_key = stream(backend, own_key, "level", len(schedule) - 1)
        left = plan.budget - (spent - level.gradients)
        advance(backend, plan, level, level_key, goal_of(plan, level), left)
        share = plan.policy.level_share * left
        if plan.gamma is None and level.phase is LevelPhase.SAMPLING and level.gradients > share:
            level.phase = LevelPhase.DONE  # one level among several: its error is what it is
        return True
    gamma = _next_gamma(plan, schedule, plan.budget - spent) if schedule else None
    if schedule and gamma is None:
        limit = limit_of(schedule, plan.policy)
        believable = limit is not None and limit.believable
        if second or plan.gamma is not None or not believable or 2 * spent > plan.budget:
            return False
        schedule, own_key, second = [], stream(backend, key, "schedule", 1), True
    nbeta = plan.nbeta / plan.policy.decade if second else plan.nbeta
    level_key = stream(backend, own_key, "level", len(schedule))
    if schedule and gamma is not None:
        levels.append(at_next_gamma(backend, plan, schedule[-1], gamma, level_key))
        schedule[-1].forget_chains()
    else:
        gamma, evaluations = first_gamma(backend, plan, nbeta, own_key)
        offsets = _first_offsets(backend, plan, gamma, level_key)
        level = start(backend, plan, offsets, Tuning(1.0, 1.0, 1.0, nbeta, gamma), level_key)
        level.gradients += evaluations
        if plan.start is not None and "momentum" in level.state:
            level.state = {**level.state, "momentum": backend.array(plan.start["momentum"])}
        levels.append(level)
    return True


def neighbours(plan: Plan) -> list[float]:
    """The γ beside one that was chosen for a neighbourhood: a decade in all."""
    if plan.gamma is None or not plan.neighbourhood or plan.kernel.adjusted:
        return []
    return [plan.gamma * plan.policy.ratio, plan.gamma / plan.policy.ratio]


def add_neighbour(backend: Backend, plan: Plan, levels: list[Level], gamma: float, seed: int) -> None:
    """Begin a level beside the one that was asked for, from where the last one ended."""
    key = stream(backend, backend.key(seed), "schedule", 0, "level", len(levels))
    levels.append(at_next_gamma(backend, plan, levels[-1], gamma, key))


def goal_of(plan: Plan, level: Level) -> float:
    """The relative standard error that a level needs."""
    policy, second = plan.policy, level.tuning.nbeta < plan.nbeta
    if plan.gamma is not None:
        return plan.target if level.tuning.gamma == plan.gamma else max(policy.curve_goal, plan.target)
    small = level.size <= policy.largest_adjusted
    goal = min(policy.poorest_level, plan.target * (policy.small_level_goal if small else policy.large_level_goal))
    return goal * (2 if second else 1)


def _next_gamma(plan: Plan, schedule: list[Level], left: float) -> float | None:
    """The γ of the next level, or None if the schedule ends here."""
    policy, last = plan.policy, schedule[-1]
    gamma = last.tuning.gamma
    if last.phase is not LevelPhase.DONE or len(schedule) >= policy.most_levels:
        return None
    if plan.gamma is not None:
        reached = any(level.tuning.gamma == plan.gamma for level in schedule)
        return None if reached else max(plan.gamma, gamma / policy.ratio**2)
    limit = limit_of(schedule, policy)
    next_cost = 2 * math.sqrt(policy.ratio) * last.gradients  # steps per independent draw grow like 1/√γ
    if (limit and limit.believable and limit.close) or next_cost > left:
        return None
    return gamma / policy.ratio


def first_gamma(backend: Backend, plan: Plan, nbeta: float, key: RandomKey) -> tuple[float, float]:
    """Where the schedule begins, and how many gradients that took to find.

    The γ at which the largest curvature of nβL where the prior puts the chains is a hundred times γ. With γ given, that
    γ itself where unadjusted chains can start there; otherwise higher where that makes the first level easier, and at
    least √10 above.
    """
    policy = plan.policy
    if plan.gamma is not None and (plan.batch is not None or plan.start is not None):
        return plan.gamma, 0.0
    noise = np.asarray(backend.normal(stream(backend, key, "first gamma"), plan.chains))
    evaluations = 0

    def condition(gamma: float) -> float:
        nonlocal evaluations
        offsets, size = noise / math.sqrt(gamma), 1e-3 / math.sqrt(gamma)
        direction = np.asarray(backend.normal(stream(backend, key, "first direction"), plan.chains))
        here = backend.evaluate(offsets)[1]
        curvature = 0.0
        for _ in range(policy.curvature_steps):
            direction = direction / np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-300)
            direction = (backend.evaluate(offsets + size * direction)[1] - here) / size
            curvature = float(np.median(np.linalg.norm(direction, axis=1)))
        evaluations += plan.chains * (policy.curvature_steps + 1)
        return nbeta * curvature / gamma if math.isfinite(curvature) else math.inf

    if plan.gamma is not None and not plan.kernel.adjusted and condition(plan.gamma) <= policy.direct_condition:
        return plan.gamma, evaluations
    low, high = -3.0, math.log10(nbeta) + 6  # from hardly localised to hardly moving
    for _ in range(policy.bisections):
        middle = (low + high) / 2
        low, high = (middle, high) if condition(10**middle) > policy.first_condition else (low, middle)
    easy = 10**high
    return (easy if plan.gamma is None else max(easy, plan.gamma * policy.ratio)), evaluations


def _first_offsets(backend: Backend, plan: Plan, gamma: float, key: RandomKey) -> Array:
    """Half of the chains at w*, half where γ alone would put them; all near w* for unadjusted kernels."""
    if plan.start is not None:
        return backend.array(plan.start["position"])
    wide, near = 1 / math.sqrt(gamma), 1e-3 / math.sqrt(gamma)
    spread = np.where(np.arange(plan.chains) % 2, wide, near)
    if not plan.kernel.adjusted:
        spread = np.full(plan.chains, near)
    noise = np.asarray(backend.normal(stream(backend, key, "offsets"), plan.chains))
    return backend.array(noise * spread[:, None])


def neville(gammas: np.ndarray, values: np.ndarray) -> float:
    """The polynomial through all the points, at γ = 0."""
    table = np.array(values, dtype=float)
    for order in range(1, len(gammas)):
        near, far = gammas[order:], gammas[: len(gammas) - order]
        table = (far * table[1:] - near * table[:-1]) / (far - near)
    return float(table[0])


@dataclass(frozen=True)
class Limit:
    """What the last three levels say about γ → 0: the limit, its error, and whether it can be believed.

    ``close`` says whether it is close enough to the last level to stop.
    """

    value: float
    noise: float
    systematic: float
    believable: bool
    close: bool


def limit(gammas: np.ndarray, values: np.ndarray, errors: np.ndarray, policy: LLCPolicy = POLICY) -> Limit:
    """Extrapolate λ̂(γ) to γ = 0 from its last three points, by the line and the parabola through them.

    It can be believed if the curve is flat, or falls like a power of γ that is near one and both orders agree; it is
    close enough to stop if they agree well and the last point is near.
    """
    g, v, e = gammas[-3:], values[-3:], errors[-3:]
    line, parabola = neville(g[1:], v[1:]), neville(g, v)
    weights = np.array([neville(g, unit) for unit in np.eye(3)])
    noise = float(np.sqrt(np.sum((weights * e) ** 2)))
    late, early = v[2] - v[1], v[1] - v[0]
    size = abs(parabola)
    flat = max(abs(late), abs(early), abs(v[2] - v[0])) < policy.flat * size
    power = _power(g, v, e)
    apart = abs(parabola - line)
    return Limit(
        parabola,
        noise,
        max(apart, policy.extrapolated_share * abs(parabola - v[2])),
        believable=flat or (power >= policy.linear and apart <= max(policy.loose * size, 2 * noise)),
        close=apart < max(policy.agreement * size, noise) and abs(v[2] - line) < policy.near * size,
    )


def _power(gammas: np.ndarray, values: np.ndarray, errors: np.ndarray) -> float:
    """The power of γ with which three points approach their limit, less its standard error."""
    early, late = values[1] - values[0], values[2] - values[1]
    if not (early > 0 and late > 0):
        return math.inf if early > 2 * math.hypot(errors[0], errors[1]) else 0.0
    slope = np.array([-1 / early, 1 / early + 1 / late, -1 / late])
    error = float(np.sqrt(np.sum((slope * errors) ** 2)))
    return (math.log(early / late) - error) / math.log(gammas[0] / gammas[1])


def limit_of(levels: list[Level], policy: LLCPolicy) -> Limit | None:
    """The limit of a schedule, if it has enough levels that are done."""
    done = [level for level in levels if level.phase is LevelPhase.DONE]
    if len(done) < 3:
        return None
    gammas, values, errors = np.array([(level.tuning.gamma, level.value, level.error) for level in done]).T
    return limit(gammas, values, errors, policy)
