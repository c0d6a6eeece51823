"""λ̂ of your trained model: the local learning coefficient by sampling, with an error bar that holds.

.. math:: \\hat\\lambda(\\gamma) = n\\beta\\,\\big(E[L(w)] - L(w^*)\\big), \\qquad
          w \\sim \\exp\\big(-n\\beta (L(w) - L(w^*)) - \\tfrac{\\gamma}{2} |w - w^*|^2\\big)

(Cullen et al. 2026, section 2.1). The pull γ towards w* lowers λ̂; towards γ → 0 it does so in proportion to γ, until
the chains leave the neighbourhood. So γ is lowered in steps, a ladder, and what is read off is the limit, if the curve
has one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from phasecast.coefficients.rungs import GOOD_RHAT, MOST_DIVERGENT, Rung, advance, next_rung, start
from phasecast.core.errors import BadInput, unknown, whole_number
from phasecast.core.problem import Problem
from phasecast.core.results import Measurement, Status
from phasecast.sampling import KERNELS, Kernel, Tuning
from phasecast.sampling.jax_engine import JaxEngine
from phasecast.sampling.traces import drift, ess

SMALL = 1000
"""Up to this many parameters every step is Metropolis-adjusted; above, Langevin dynamics follows the curvature."""
FIRST_CONDITION = 100.0  # the largest curvature over γ on the first rung
RATIO = math.sqrt(10)
MOST_RUNGS = 9
ADJUSTED_BUDGET = 1e8  # gradients of all chains, for up to a hundred parameters
LANGEVIN_BUDGET = 2e4  # gradients of each chain
AGREEMENT = 0.01  # between the orders of extrapolation, to stop
LADDER_GOAL = 0.2  # the error of a rung, relative to the one asked for: extrapolation amplifies it
NEAR = 0.05  # of the last rung to its extrapolation, to stop
LINEAR = 0.6  # the smallest power of γ that may be extrapolated
DECADE = 10.0  # how much lower nβ is on the second ladder
NO_PLATEAU = 0.1  # the change of λ̂ over a decade of nβ that is too much for a limit
LOOSE = 0.02  # between the orders of extrapolation, to be believed
LARGE_GAP, SMALL_GAP = 0.2, 0.02
LARGE_STEIN = 4.0
SMALL_STEIN = 0.01  # of d: below, a bias that significance alone would call out does not matter
LOWEST_ACCEPTANCE = 0.6


@dataclass(frozen=True, eq=False, init=False)
class LLC(Measurement):
    """λ̂ with everything that speaks for and against it.

    ``value_min`` is λ̂ against the minimum that descent from w* reaches, ``value_var`` is (nβ)² Var L, which differs
    from λ̂ by dλ̂/d log nβ. ``curve`` has a row (γ, λ̂(γ), error, value_var) for each rung sampled, and ``traces`` the
    draws of nβ(L − L*) and of |w − w*|² on the last one.
    """

    value_min: float
    value_var: float
    nbeta: float
    gamma: float | None
    curve: np.ndarray
    rhat: float
    ess: float
    acceptance: float
    divergences: float
    stein: float
    gradients: float
    seconds: float
    traces: dict[str, np.ndarray]


@dataclass(frozen=True)
class Settings:
    """What a user asked of :func:`llc`, checked."""

    nbeta: float
    gamma: float | None
    chains: int
    target: float
    budget: float
    kernel: Kernel


def llc(
    loss: Callable[..., Any] | Problem,
    params: Any = None,
    data: Any = None,
    *,
    n: int | None = None,
    nbeta: float | None = None,
    gamma: float | None = None,
    prior: float | None = None,
    only: str | None = None,
    sampler: str | Kernel = "auto",
    chains: int = 8,
    target: float = 0.02,
    max_grads: float | None = None,
    seed: int = 0,
) -> LLC:
    """The local learning coefficient of a model at ``params``, sampled; ``llc(problem)`` works too.

    Parameters
    ----------
    loss: ``loss(params, data)``, the *mean* negative log-likelihood per term; ``loss(params)`` for a population loss.
    n: the number of terms; the rows of ``data`` where it is not given.
    nbeta: the inverse temperature nβ; n/log n where it is not given.
    gamma: the pull towards w*. Given, λ̂ is the value at this γ; otherwise a ladder chooses, and extrapolates to zero.
    prior: the coefficient s of an L2 term s/2 |w|² that the training had; it is sampled with the loss, not counted.
    only: a pattern for the names of the parameters that move, such as ``"layers.0.*"``.
    sampler: ``"auto"``, the name of a kernel in ``phasecast.sampling.KERNELS``, or a kernel.
    chains: how many, at most; large models need fewer.
    target: the standard error to reach, relative to λ̂.
    max_grads: all gradients that may be spent, over all chains.

    >>> found = llc(lambda w: (w**2).sum() / 2, np.zeros(20), nbeta=1086, gamma=1.0)
    >>> str(found.status), abs(found.value - 10 * 1086 / 1087) < 4 * found.error
    ('ok', True)
    """
    problem = _problem(loss, params, data, n)
    engine = JaxEngine(problem.loss, problem.params, problem.data, decay=_decay(prior), only=only)
    return estimate(engine, problem.n, nbeta, gamma, sampler, chains, target, max_grads, seed, problem.name)


def estimate(
    engine: Any,
    n: int | None,
    nbeta: float | None,
    gamma: float | None,
    sampler: str | Kernel,
    chains: int,
    target: float,
    max_grads: float | None,
    seed: int,
    name: str = "",
) -> LLC:
    """λ̂ of an engine's loss: what :func:`llc` does once the loss is in place, for any engine."""
    begun = time.monotonic()
    settings = _settings(engine.size, n, nbeta, gamma, sampler, chains, target, max_grads)
    rungs: list[Rung] = []
    for rung, finished in climb(engine, settings, seed):
        if finished:
            rungs.append(rung)
    return conclude(engine, settings, rungs, time.monotonic() - begun, name)


def climb(engine: Any, settings: Settings, seed: int) -> Iterator[tuple[Rung, bool]]:
    """Every chunk of every rung, and whether it was the rung's last.

    A ladder that found a limit is followed by one at a lower nβ, to see how far from n → ∞ its limit is.
    """
    key, spent = engine.key(seed), 0.0
    for number, nbeta in enumerate([settings.nbeta, settings.nbeta / DECADE]):
        rungs: list[Rung] = []
        lower = replace(settings, nbeta=nbeta, budget=settings.budget - spent)
        for rung, finished in _ladder(engine, lower, engine.fold(key, number)):
            rungs += [rung] if finished else []
            yield rung, finished
        spent += sum(rung.gradients for rung in rungs)
        found = _limit_of(rungs)
        if settings.gamma is not None or not (found and found.believable) or 2 * spent > settings.budget:
            return


def _ladder(engine: Any, settings: Settings, key: Any) -> Iterator[tuple[Rung, bool]]:
    """The rungs at one nβ, from an easy γ down to the one asked for, or until the limit can be read off."""
    kernel = settings.kernel
    rungs: list[Rung] = []
    gamma = first_gamma(engine, settings, key)
    for number in range(MOST_RUNGS):
        own_key = engine.fold(key, number)
        if not rungs:
            offsets = _first_offsets(engine, settings, gamma, own_key)
            rung = start(engine, kernel, offsets, Tuning(1.0, 1.0, 1.0, settings.nbeta, gamma), own_key)
        else:
            rung = next_rung(engine, kernel, rungs[-1], gamma, own_key)
        last = settings.gamma is not None and gamma <= settings.gamma
        goal = settings.target * (LADDER_GOAL if settings.gamma is None else 1 if last else 2)
        left = settings.budget - sum(rung.gradients for rung in rungs)
        while rung.phase in ("warm-up", "sampling"):
            advance(engine, kernel, rung, own_key, goal, left)
            yield rung, rung.phase not in ("warm-up", "sampling")
        rungs.append(rung)
        if last or rung.phase != "done":
            return
        if settings.gamma is None:
            found = _limit_of(rungs)
            dearer = 2 * math.sqrt(RATIO) * rung.gradients  # what the next rung may cost
            if (found and found.believable and found.close) or dearer > left - rung.gradients:
                return
        gamma = gamma / RATIO if settings.gamma is None else max(settings.gamma, gamma / RATIO**2)


def first_gamma(engine: Any, settings: Settings, key: Any) -> float:
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
        return settings.nbeta * curvature / gamma if math.isfinite(curvature) else math.inf

    low, high = -3.0, math.log10(settings.nbeta) + 6
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
    flat = max(abs(late), abs(early)) < max(AGREEMENT * size, math.hypot(e[1], e[2]))
    power = math.log(early / late) / math.log(g[0] / g[1]) if early > 0 and late > 0 else math.inf if early > 0 else 0.0
    apart = abs(parabola - line)
    return Limit(
        parabola,
        noise,
        max(apart, 0.1 * abs(parabola - v[2])),
        believable=flat or (power >= LINEAR and apart <= max(LOOSE * size, 2 * noise)),
        close=apart < max(AGREEMENT * size, noise) and abs(v[2] - line) < NEAR * size,
    )


def _limit_of(rungs: list[Rung]) -> Limit | None:
    """The limit of a ladder, if it has enough rungs that are done."""
    done = [rung for rung in rungs if rung.phase == "done"]
    if len(done) < 3:
        return None
    return limit(*np.array([(rung.tuning.gamma, rung.value, rung.error) for rung in done]).T)


def conclude(engine: Any, settings: Settings, rungs: list[Rung], seconds: float, name: str = "") -> LLC:
    """The result of a ladder, judged."""
    nbeta = settings.nbeta
    gradients = sum(rung.gradients for rung in rungs)
    lower = _limit_of([rung for rung in rungs if rung.tuning.nbeta < nbeta])
    rungs = [rung for rung in rungs if rung.tuning.nbeta == nbeta]
    last = rungs[-1]
    curve = np.array([(r.tuning.gamma, r.value, r.error, nbeta**2 * r.loss.variance) for r in rungs])
    value, error, variance, notes = _read_off(curve, settings)
    per_decade = math.nan
    if lower and lower.believable and not notes:
        per_decade = value - lower.value
        if abs(per_decade) > NO_PLATEAU * abs(value):
            notes.append(
                f"λ̂ changes by {per_decade / value:.0%} for each decade of nβ: there is no plateau, and λ̂ belongs to "
                f"nβ = {nbeta:.3g}"
            )
        else:
            error = math.hypot(error, per_decade / (DECADE ** (1 / 3) - 1))
    gap = _descent_gap(engine, settings, last.tuning.gamma)
    stein, stein_error = last.stein
    z = stein / stein_error if stein_error else 0.0
    refused, warned = _judge(settings, rungs, value, gap, stein, z)
    warned += notes
    if last.phase == "spent":
        warned.append(
            f"the budget of {settings.budget:.3g} gradients is spent and the error is {error / abs(value):.1%} of λ̂: "
            "allow more with max_grads, or a larger target"
        )
        if not error <= 5 * settings.target * abs(value) or last.loss.steps < 2 * CHUNK_LIMIT:
            refused.append(warned.pop())
    status = Status.REFUSED if refused else Status.WARNING if warned else Status.OK
    accepted = float(np.mean(last.acceptance)) if settings.kernel.adjusted and last.acceptance else 1.0
    steps = max(1, last.loss.steps * last.chains)
    return LLC(
        value,
        error,
        status,
        diagnostics={
            "rungs": len(rungs),
            "gap": gap,
            "per_decade": per_decade,
            "step_size": last.tuning.step_size,
            "leaps": last.tuning.leaps,
        },
        error_kind="mcse",
        reasons=refused + warned,
        name=f"λ̂ of {name}" if name else "λ̂",
        value_min=value + gap,
        value_var=variance,
        nbeta=nbeta,
        gamma=settings.gamma,
        curve=curve,
        rhat=last.rhat if last.loss.draws.size else math.nan,
        ess=ess(last.loss.draws),
        acceptance=accepted,
        divergences=last.divergences / steps,
        stein=z,
        gradients=gradients,
        seconds=seconds,
        traces={"excess": nbeta * last.loss.draws, "radius": last.radius.draws},
    )


CHUNK_LIMIT = 40


def _read_off(curve: np.ndarray, settings: Settings) -> tuple[float, float, float, list[str]]:
    """λ̂, its error and value_var: at the given γ, or in the limit of the ladder if there is one."""
    gammas, values, errors, variances = curve.T
    if settings.gamma is not None or len(curve) < 3:
        notes = [] if settings.gamma is not None else ["the ladder ended before its curve could be read: see `curve`"]
        return float(values[-1]), float(errors[-1]), float(variances[-1]), notes
    found = limit(gammas, values, errors)
    if not found.believable:
        note = (
            "λ̂(γ) has neither a plateau nor a limit that can be read off, so this is its value at the smallest γ: "
            "see `curve`, and ask for the γ that you mean"
        )
        return float(values[-1]), float(errors[-1]), float(variances[-1]), [note]
    variance = neville(gammas[-3:], variances[-3:])
    return found.value, math.hypot(found.noise, found.systematic), variance, []


def _judge(
    settings: Settings, rungs: list[Rung], value: float, gap: float, stein: float, z: float
) -> tuple[list[str], list[str]]:
    """Reasons to refuse, and reasons to warn."""
    last = rungs[-1]
    refused, warned = [], []
    if not (math.isfinite(value) and value > 0):
        refused.append(f"λ̂ is {value:.3g}: params is not a minimum of this loss, or the chains are lost; train further")
        return refused, warned
    if last.phase == "broken":
        refused.append("the loss is not finite however small the step: start from parameters where it is smooth")
    if gap > LARGE_GAP * value:
        refused.append(
            f"descent from params gains {gap:.3g} in nβL, {gap / value:.0%} of λ̂: params is not a minimum; train "
            "further, or give the training's L2 as prior"
        )
    elif gap > SMALL_GAP * value:
        warned.append(f"descent from params gains {gap:.3g} in nβL, {gap / value:.0%} of λ̂: see value_min")
    for rung in rungs:
        where = f"at γ = {rung.tuning.gamma:.3g}"
        if settings.kernel.adjusted:
            if rung.loss.steps and rung.rhat > GOOD_RHAT:
                refused.append(f"chains disagree {where} (R-hat {rung.rhat:.3f}): allow more gradients with max_grads")
            if rung.acceptance and np.mean(rung.acceptance) < LOWEST_ACCEPTANCE:
                refused.append(f"only {np.mean(rung.acceptance):.0%} of the steps are accepted {where}: use a larger γ")
            steps = max(1, rung.loss.steps * rung.chains)
            if rung.divergences > MOST_DIVERGENT * steps:
                refused.append(f"{rung.divergences / steps:.2%} of the steps diverge {where}: use a larger γ")
        if len(rung.radius.means) >= 16:
            moved, error = drift(rung.radius.means)
            if abs(moved) > max(4 * error, 2 * SMALL_GAP * rung.radius.mean) and not settings.kernel.adjusted:
                refused.append(
                    f"|w − w*|² still drifts by {moved / rung.radius.mean:.1%} {where}: allow more gradients"
                )
    if abs(z) > LARGE_STEIN and abs(stein) > SMALL_STEIN * last.size:
        words = f"Stein's identity is off by {stein:.3g} ({abs(z):.1f} standard errors)"
        if settings.kernel.adjusted:
            warned.append(f"{words}: the chains may not have seen all of the target")
        else:
            refused.append(
                f"{words}: the steps are too long for this target; use a smaller step or an adjusted sampler"
            )
    return refused, warned


def _descent_gap(engine: Any, settings: Settings, gamma: float) -> float:
    """How much lower nβL gets by descent from w*, within the pull of γ."""
    from scipy.optimize import minimize

    centre = engine.centre_as_numpy

    def energy(flat: np.ndarray) -> tuple[float, np.ndarray]:
        loss, slope = engine.evaluate(flat[None, :])
        pull = settings.nbeta * engine.decay
        value = settings.nbeta * loss[0] + gamma / 2 * flat @ flat + pull * (flat @ flat / 2 + flat @ centre)
        return float(value), settings.nbeta * slope[0].astype(float) + gamma * flat + pull * (flat + centre)

    found = minimize(energy, np.zeros(engine.size), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return max(0.0, -settings.nbeta * float(engine.evaluate(found.x[None, :])[0][0]))


def _problem(loss: Any, params: Any, data: Any, n: int | None) -> Problem:
    if isinstance(loss, Problem):
        if params is not None or data is not None:
            raise BadInput("a problem has its own parameters and data", "give the problem alone")
        return loss if n is None else Problem(loss.loss, loss.params, loss.data, n, loss.name)
    if params is None:
        raise BadInput("there are no parameters to sample around", "give llc(loss, params, data)")
    return Problem(loss, params, data, n, name="")


def _decay(prior: float | None) -> float:
    if prior is None:
        return 0.0
    if not (isinstance(prior, int | float) and prior >= 0):
        raise BadInput(f"prior is {prior!r}", "give the coefficient of the L2 term, a number ≥ 0")
    return float(prior)


def _settings(
    size: int,
    n: int | None,
    nbeta: float | None,
    gamma: float | None,
    sampler: str | Kernel,
    chains: int,
    target: float,
    max_grads: float | None,
) -> Settings:
    whole_number("chains", chains, 1)
    if nbeta is None:
        if n is None:
            raise BadInput("a population loss has no n", "give nbeta, the inverse temperature")
        if n < 3:
            raise BadInput(f"n = {n} is too small for nβ = n/log n", "give nbeta")
        nbeta = n / math.log(n)
    for name, number in (("nbeta", nbeta), ("target", target), ("gamma", gamma), ("max_grads", max_grads)):
        if number is not None and not (isinstance(number, int | float | np.number) and 0 < number < math.inf):
            raise BadInput(f"{name} is {number!r}", "give a positive number")
    if isinstance(sampler, str):
        if sampler == "auto":
            sampler = "hmc" if size <= SMALL else "langevin"
        if sampler not in KERNELS:
            raise unknown("sampler", sampler, ["auto", *KERNELS])
        sampler = KERNELS[sampler]()
    if not sampler.adjusted:
        chains = min(chains, 4 if size <= 10_000 else 2 if size <= LARGEST_PAIR else 1)
    budget = ADJUSTED_BUDGET / max(1, size / 100) if sampler.adjusted else LANGEVIN_BUDGET * chains
    return Settings(float(nbeta), gamma, chains, target, max_grads or budget, sampler)


LARGEST_PAIR = 100_000
