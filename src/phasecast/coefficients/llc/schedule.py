"""A ladder in γ: chains at one γ after another, from where sampling is easy towards γ → 0, and what its limit is.

λ̂(γ) = nβ E[L − L*] is nearly linear in γ where it can be extrapolated at all. So a ladder goes down by factors of √10
until the line and the parabola through its last rungs agree at γ = 0; a second ladder at a tenth of nβ then tells how
far from nβ → ∞ the limit is. With γ given, the ladder ends there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasecast.coefficients.llc.level import ACTIVE, Rung, advance, next_rung, start
from phasecast.sampling.kernels.kernel import Kernel, Tuning

SMALL = 1000
"""Up to this many parameters every step is Metropolis-adjusted; above, λ̂ is so large that its noise is small."""
FIRST_CONDITION = 100.0  # the largest curvature over γ on the first rung
RATIO = math.sqrt(10)
MOST_RUNGS = 9
LADDER_GOAL = {True: 0.35, False: 0.1}  # the error of a rung over the one asked for, of small and large models
AGREEMENT = 0.01  # between the line and the parabola, to stop
NEAR = 0.05  # of the last rung to the line, to stop
FLAT = 0.025  # the change over a decade of γ that is none
POOREST = 0.01  # the largest relative error of a rung from which a limit may be read off
LINEAR = 0.6  # the smallest power of γ that may be extrapolated
LOOSE = 0.02  # between the line and the parabola, to be believed
DECADE = 10.0  # how much lower nβ is on the second ladder


@dataclass(frozen=True)
class Settings:
    """What a user asked of :func:`llc`, checked."""

    nbeta: float
    gamma: float | None
    chains: int
    target: float
    budget: float
    kernel: Kernel


def proceed(engine: Any, settings: Settings, rungs: list[Rung], seed: int) -> bool:
    """Do the next chunk of work: move the last rung on, or begin another. False if there is nothing left to do.

    Where to go on follows from the rungs alone, so that they are all that must be kept between chunks.
    """
    key = engine.key(seed)
    lower = settings.nbeta / DECADE
    second = bool(rungs) and rungs[-1].tuning.nbeta < settings.nbeta
    ladder = [rung for rung in rungs if (rung.tuning.nbeta < settings.nbeta) == second]
    ladder_key = engine.fold(key, int(second))
    spent = sum(rung.gradients for rung in rungs)
    if ladder and ladder[-1].phase in ACTIVE:
        last = settings.gamma is not None and ladder[-1].tuning.gamma <= settings.gamma
        goal = settings.target * (1 if last else 2)
        if settings.gamma is None:
            goal = min(POOREST, settings.target * LADDER_GOAL[ladder[-1].size <= SMALL])
            goal *= 2 if second else 1
        before = spent - ladder[-1].gradients
        advance(
            engine,
            settings.kernel,
            ladder[-1],
            engine.fold(ladder_key, len(ladder) - 1),
            goal,
            settings.budget - before,
        )
        return True
    gamma = _next_gamma(settings, ladder, settings.budget - spent) if ladder else None
    if ladder and gamma is None:
        found = limit_of(ladder)
        if second or settings.gamma is not None or not (found and found.believable) or 2 * spent > settings.budget:
            return False
        ladder, ladder_key, second = [], engine.fold(key, 1), True
    nbeta = lower if second else settings.nbeta
    own_key = engine.fold(ladder_key, len(ladder))
    if ladder and gamma is not None:
        rungs.append(next_rung(engine, settings.kernel, ladder[-1], gamma, own_key))
        ladder[-1].forget_chains()
    else:
        gamma = first_gamma(engine, settings, nbeta, ladder_key)
        offsets = _first_offsets(engine, settings, gamma, own_key)
        rungs.append(start(engine, settings.kernel, offsets, Tuning(1.0, 1.0, 1.0, nbeta, gamma), own_key))
    return True


def _next_gamma(settings: Settings, ladder: list[Rung], left: float) -> float | None:
    """The γ of the next rung, or None if the ladder ends here."""
    last = ladder[-1]
    gamma = last.tuning.gamma
    if last.phase != "done" or len(ladder) >= MOST_RUNGS:
        return None
    if settings.gamma is not None:
        return max(settings.gamma, gamma / RATIO**2) if gamma > settings.gamma else None
    found = limit_of(ladder)
    dearer = 2 * math.sqrt(RATIO) * last.gradients  # what the next rung may cost
    if (found and found.believable and found.close) or dearer > left:
        return None
    return gamma / RATIO


def first_gamma(engine: Any, settings: Settings, nbeta: float, key: Any) -> float:
    """The γ at which the largest curvature of nβL where the prior puts the chains is a hundred times γ.

    With γ given, the ladder begins higher where that makes the first rung easier, and at least √10 above.
    """
    noise = np.asarray(engine.normal(engine.fold(key, 10**7), settings.chains))

    def condition(gamma: float) -> float:
        offsets = noise / math.sqrt(gamma)
        direction, size = (
            np.asarray(engine.normal(engine.fold(key, 10**7 + 1), settings.chains)),
            1e-3 / math.sqrt(gamma),
        )
        here = engine.evaluate(offsets)[1]
        curvature = 0.0
        for _ in range(6):
            direction = direction / np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-300)
            direction = (engine.evaluate(offsets + size * direction)[1] - here) / size
            curvature = float(np.median(np.linalg.norm(direction, axis=1)))
        return nbeta * curvature / gamma if math.isfinite(curvature) else math.inf

    low, high = -3.0, math.log10(nbeta) + 6
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if condition(10**middle) > FIRST_CONDITION else (low, middle)
    easy = 10**high
    return easy if settings.gamma is None else max(easy, settings.gamma * RATIO)


def _first_offsets(engine: Any, settings: Settings, gamma: float, key: Any) -> Any:
    """Half of the chains at w*, half where the pull alone would put them; all near w* for unadjusted kernels."""
    spread = np.where(np.arange(settings.chains) % 2, 1 / math.sqrt(gamma), 1e-3 / math.sqrt(gamma))
    if not settings.kernel.adjusted:
        spread = np.full(settings.chains, 1e-3 / math.sqrt(gamma))
    return engine.array(np.asarray(engine.normal(engine.fold(key, 10**6 + 2), settings.chains)) * spread[:, None])


def neville(gammas: np.ndarray, values: np.ndarray) -> float:
    """The polynomial through all the points, at γ = 0."""
    table = np.array(values, dtype=float)
    for order in range(1, len(gammas)):
        near, far = gammas[order:], gammas[: len(gammas) - order]
        table = (far * table[1:] - near * table[:-1]) / (far - near)
    return float(table[0])


@dataclass(frozen=True)
class Limit:
    """What the last three rungs say about γ → 0: the limit, its error, and whether it can be believed."""

    value: float
    noise: float
    systematic: float
    believable: bool
    close: bool


def limit(gammas: np.ndarray, values: np.ndarray, errors: np.ndarray) -> Limit:
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
    flat = max(abs(late), abs(early), abs(v[2] - v[0])) < FLAT * size
    power = _power(g, v, e)
    apart = abs(parabola - line)
    return Limit(
        parabola,
        noise,
        max(apart, 0.1 * abs(parabola - v[2])),
        believable=flat or (power >= LINEAR and apart <= max(LOOSE * size, 2 * noise)),
        close=apart < max(AGREEMENT * size, noise) and abs(v[2] - line) < NEAR * size,
    )


def _power(gammas: np.ndarray, values: np.ndarray, errors: np.ndarray) -> float:
    """The power of γ with which three points approach their limit, less its standard error."""
    early, late = values[1] - values[0], values[2] - values[1]
    if not (early > 0 and late > 0):
        return math.inf if early > 2 * math.hypot(errors[0], errors[1]) else 0.0
    slope = np.array([-1 / early, 1 / early + 1 / late, -1 / late])
    error = float(np.sqrt(np.sum((slope * errors) ** 2)))
    return (math.log(early / late) - error) / math.log(gammas[0] / gammas[1])


def limit_of(rungs: list[Rung]) -> Limit | None:
    """The limit of a ladder, if it has enough rungs that are done."""
    done = [rung for rung in rungs if rung.phase == "done"]
    if len(done) < 3:
        return None
    return limit(*np.array([(rung.tuning.gamma, rung.value, rung.error) for rung in done]).T)
