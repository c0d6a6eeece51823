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
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from phasecast.coefficients.llc.fixed_step import bias, fixed_rungs, minibatch_plan
from phasecast.coefficients.llc.level import GOOD_RHAT, MOST_DIVERGENT, Rung
from phasecast.coefficients.llc.result import LLC
from phasecast.coefficients.llc.schedule import DECADE, SMALL, Settings, limit, limit_of, neville, proceed
from phasecast.core.errors import BadInput, unknown, whole_number
from phasecast.core.problem import Problem
from phasecast.core.results import Status
from phasecast.sampling import KERNELS, Fixed, Kernel
from phasecast.sampling.backends.jax import JaxEngine
from phasecast.sampling.kernels.fixed_step import FIXED_KERNELS
from phasecast.sampling.traces import drift, ess

CHEAP = 5e5  # parameters × rows: above, long adjusted trajectories cost more than they are worth
UNAFFORDABLE = 2e9  # parameters × rows: above, a ladder of full gradients takes hours
ADJUSTED_WORK = 1e11  # gradients of all chains × parameters × rows
FEWEST_GRADIENTS, MOST_GRADIENTS = 5e5, 1e9
LANGEVIN_BUDGET = 5e4  # gradients of each chain
NO_PLATEAU = 0.1  # the change of λ̂ over a decade of nβ that is too much for a limit
LARGE_GAP, SMALL_GAP = 0.2, 0.02
ROUGHLY = 0.1  # the error to reach where w* is far from a minimum, and the result can only be looked at
MOST_HALVINGS = 3  # of the step on minibatches, until its bias is small
LARGE_BIAS, SMALL_BIAS = 0.05, 0.01  # of λ̂, from the size of a fixed step
LARGE_STEIN = 4.0
SMALL_STEIN = 0.01  # of d: below, a bias that significance alone would call out does not matter
LOWEST_ACCEPTANCE = 0.6


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
    sampler: str | Kernel | Fixed = "auto",
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
    sampler: ``"auto"``; the name of a kernel in ``phasecast.sampling.KERNELS``; a kernel; or, to do as a paper does,
        ``phasecast.sampling.Fixed(kernel, step_size, draws, burn_in, batch)``.
    chains: how many, at most; large models need fewer.
    target: the standard error to reach, relative to λ̂.
    max_grads: all gradients that may be spent, over all chains.

    >>> found = llc(lambda w: (w**2).sum() / 2, np.zeros(20), nbeta=1086, gamma=1.0)
    >>> str(found.status), abs(found.value - 10 * 1086 / 1087) < 4 * found.error
    ('ok', True)
    """
    problem = as_problem(loss, params, data, n)
    chosen = chosen_sampler(sampler)
    engine = engine_for(problem, chosen, prior, only)
    return estimate(engine, problem.n, nbeta, gamma, chosen, chains, target, max_grads, seed, problem.name)


def engine_for(problem: Problem, sampler: Kernel | Fixed | None, prior: float | None, only: str | None) -> JaxEngine:
    """The loss of a problem, in place for chains."""
    batch, anchored = (sampler.batch, sampler.anchored) if isinstance(sampler, Fixed) else (None, True)
    decay = decay_of(prior)
    return JaxEngine(problem.loss, problem.params, problem.data, decay=decay, only=only, batch=batch, anchored=anchored)


def estimate(
    engine: Any,
    n: int | None,
    nbeta: float | None,
    gamma: float | None,
    sampler: Kernel | Fixed | None,
    chains: int,
    target: float,
    max_grads: float | None,
    seed: int,
    name: str = "",
) -> LLC:
    """λ̂ of an engine's loss: what :func:`llc` does once the loss is in place, for any engine."""
    begun = time.monotonic()
    if isinstance(sampler, Fixed):
        return _as_in_a_paper(engine, sampler, _nbeta(n, nbeta), gamma, chains, seed, name)
    if sampler is None and engine.size * (engine.rows or 0) > UNAFFORDABLE:
        return _by_minibatches(engine, _nbeta(n, nbeta), gamma, chains, max_grads, seed, name)
    settings = settings_for(engine, n, nbeta, gamma, sampler, chains, target, max_grads)
    rungs: list[Rung] = []
    while proceed(engine, settings, rungs, seed):
        pass
    return conclude(engine, settings, rungs, time.monotonic() - begun, name)


def conclude(engine: Any, settings: Settings, rungs: list[Rung], seconds: float, name: str = "") -> LLC:
    """The result of a ladder, judged."""
    nbeta = settings.nbeta
    gradients = sum(rung.gradients for rung in rungs)
    lower = limit_of([rung for rung in rungs if rung.tuning.nbeta < nbeta])
    rungs = [rung for rung in rungs if rung.tuning.nbeta == nbeta]
    last = rungs[-1]
    curve = np.array([(r.tuning.gamma, r.value, r.error, nbeta**2 * r.loss.variance) for r in rungs])
    value, error, variance, notes = _read_off(curve, settings)
    per_decade = math.nan
    if lower and not notes:
        per_decade = value - lower.value
        if abs(per_decade) > NO_PLATEAU * abs(value):
            notes.append(
                f"λ̂ changes by {per_decade / value:.0%} for each decade of nβ: there is no plateau, and λ̂ belongs to "
                f"nβ = {nbeta:.3g}"
            )
        else:
            seen = math.sqrt(
                max(0.0, per_decade**2 - lower.noise**2 - lower.systematic**2 - error**2)
            )  # what is not noise
            error = math.hypot(error, seen / (DECADE ** (1 / 3) - 1))
    gap = _descent_gap(engine, settings, last.tuning.gamma)
    stein, stein_error = last.stein
    z = stein / stein_error if stein_error else 0.0
    refused, warned = _judge(settings, rungs, value, gap, stein, z)
    warned += notes
    if last.phase == "spent":
        warned.append(
            f"the budget of {settings.budget:.3g} gradients is spent before the sampling was done (error {error:.3g}): "
            "allow more with max_grads, or a larger target"
        )
        if not error <= 5 * settings.target * abs(value) or last.loss.steps < 2 * CHUNK_LIMIT:
            refused.append(warned.pop())
    found = {"rungs": len(rungs), "gap": gap}
    if math.isfinite(per_decade):
        found["per_decade"] = per_decade
    result = _result(
        value, error, refused, warned, found, last, curve,
        variance=variance, gap=gap, gamma=settings.gamma, gradients=gradients, seconds=seconds, name=name,
    )  # fmt: skip
    return _with_chains(result, engine, settings.kernel, last)


def _with_chains(result: LLC, engine: Any, kernel: Kernel, last: Rung) -> LLC:
    """The result with what :meth:`LLC.sample_losses` goes on from."""
    if engine.rows is not None and last.state:
        object.__setattr__(result, "_chains", (engine, kernel, last.state, last.tuning))
    return result


def _result(
    value: float,
    error: float,
    refused: list[str],
    warned: list[str],
    diagnostics: dict[str, Any],
    last: Rung,
    curve: np.ndarray,
    *,
    variance: float,
    gap: float,
    gamma: float | None,
    gradients: float,
    seconds: float,
    name: str,
) -> LLC:
    stein, stein_error = last.stein
    nbeta = last.tuning.nbeta
    return LLC(
        value,
        error,
        Status.REFUSED if refused else Status.WARNING if warned else Status.OK,
        {**diagnostics, "step_size": last.tuning.step_size, "leaps": last.tuning.leaps},
        error_kind="mcse",
        reasons=refused + warned,
        name=f"λ̂ of {name}" if name else "λ̂",
        value_min=value + gap,
        value_var=variance,
        nbeta=nbeta,
        gamma=gamma,
        curve=curve,
        rhat=last.rhat,
        ess=ess(last.loss.draws),
        acceptance=float(np.mean(last.acceptance)) if last.acceptance else math.nan,
        divergences=last.divergences / max(1, last.loss.steps * last.chains),
        stein=stein / stein_error if stein_error else 0.0,
        gradients=gradients,
        seconds=seconds,
        traces={"excess": nbeta * last.loss.draws, "radius": last.radius.draws},
    )


def _as_in_a_paper(
    engine: Any,
    fixed: Fixed,
    nbeta: float,
    gamma: float | None,
    chains: int,
    seed: int,
    name: str,
    notes: Sequence[str] = (),
) -> LLC:
    """λ̂ with fixed settings at a given γ, and its bias in the step size; with ``notes`` the error holds the bias."""
    if gamma is None:
        raise BadInput(f"{fixed.kernel} with a fixed step climbs no ladder", "give gamma, or sampler='auto'")
    whole_number("chains", chains, 1)
    whole, half, seconds = fixed_rungs(engine, fixed, nbeta=nbeta, gamma=gamma, chains=chains, seed=seed)
    settings = Settings(nbeta, gamma, chains, math.inf, math.inf, KERNELS[fixed.kernel]())
    gap = _descent_gap(engine, settings, gamma)
    stein, stein_error = whole.stein
    value, error = whole.value, whole.error
    refused, warned = _judge(settings, [whole], value, gap, stein, stein / stein_error if stein_error else 0.0)
    found, found_error = bias(whole, half)
    words = f"the step size biases λ̂ by about {found:.3g} ± {found_error:.2g} (measured at half the step)"
    if abs(found) > max(2 * found_error, LARGE_BIAS * abs(value)):
        refused.append(f"{words}: use a smaller step")
    elif notes or abs(found) > SMALL_BIAS * abs(value) or found_error > LARGE_BIAS * abs(value):
        warned.append(words)
    if notes:
        warned += notes
        error = math.hypot(error, found)
    curve = np.array([(gamma, r.value, r.error, nbeta**2 * r.loss.variance) for r in (whole,)])
    result = _result(
        value, error, refused, warned, {"bias": found, "bias_error": found_error, "gap": gap}, whole, curve,
        variance=float(curve[0, 3]), gap=gap, gamma=gamma, gradients=whole.gradients + half.gradients, seconds=seconds,
        name=name,
    )  # fmt: skip
    return _with_chains(result, engine, settings.kernel, whole)


def _by_minibatches(
    engine: Any, nbeta: float, gamma: float | None, chains: int, max_grads: float | None, seed: int, name: str
) -> LLC:
    """λ̂ from gradients of few rows, where those of all rows cost too much: biased, by an amount that is measured."""
    chains = min(chains, 2)
    fixed, chosen = minibatch_plan(engine, nbeta=nbeta, gamma=gamma, chains=chains, max_grads=max_grads)
    notes = [f"gradients of {fixed.batch} of {engine.rows} rows, so λ̂ is biased: sampler='langevin' takes all rows"]
    if gamma is None:
        notes.append(f"no ladder is climbed on minibatches: λ̂ belongs to γ = {chosen:.3g}")
    engine = engine.minibatched(fixed.batch)
    found = _as_in_a_paper(engine, fixed, nbeta, chosen, chains, seed, name, notes)
    for _ in range(MOST_HALVINGS):
        biased = abs(found.diagnostics["bias"]) > LARGE_BIAS * abs(float(np.asarray(found.estimate)))
        if not biased or found.gradients > (max_grads or math.inf) / 3:
            break
        fixed = replace(
            fixed, step_size=(fixed.step_size or math.nan) / 2, draws=2 * fixed.draws, burn_in=2 * fixed.burn_in
        )
        found = _as_in_a_paper(engine, fixed, nbeta, chosen, chains, seed, name, notes)
    return found


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


def as_problem(loss: Any, params: Any, data: Any, n: int | None) -> Problem:
    if isinstance(loss, Problem):
        if params is not None or data is not None:
            raise BadInput("a problem has its own parameters and data", "give the problem alone")
        return loss if n is None else Problem(loss.loss, loss.params, loss.data, n, loss.name)
    if params is None:
        raise BadInput("there are no parameters to sample around", "give llc(loss, params, data)")
    return Problem(loss, params, data, n, name="")


def decay_of(prior: float | None) -> float:
    if prior is None:
        return 0.0
    if not (isinstance(prior, int | float) and prior >= 0):
        raise BadInput(f"prior is {prior!r}", "give the coefficient of the L2 term, a number ≥ 0")
    return float(prior)


def chosen_sampler(sampler: str | Kernel | Fixed) -> Kernel | Fixed | None:
    """What a user's word for a sampler means; None leaves the choice to the size of the model."""
    if not isinstance(sampler, str):
        return sampler
    if sampler == "auto":
        return None
    if sampler not in KERNELS:
        raise unknown("sampler", sampler, ["auto", *KERNELS])
    return Fixed(sampler) if sampler in FIXED_KERNELS and sampler != "langevin" else KERNELS[sampler]()


def _nbeta(n: int | None, nbeta: float | None) -> float:
    if nbeta is not None:
        return nbeta
    if n is None:
        raise BadInput("a population loss has no n", "give nbeta, the inverse temperature")
    if n < 3:
        raise BadInput(f"n = {n} is too small for nβ = n/log n", "give nbeta")
    return n / math.log(n)


def settings_for(
    engine: Any,
    n: int | None,
    nbeta: float | None,
    gamma: float | None,
    sampler: Kernel | None,
    chains: int,
    target: float,
    max_grads: float | None,
) -> Settings:
    """What to do, from what a user said and the size of the problem."""
    size, rows = engine.size, engine.rows
    whole_number("chains", chains, 1)
    nbeta = _nbeta(n, nbeta)
    for name, number in (("nbeta", nbeta), ("target", target), ("gamma", gamma), ("max_grads", max_grads)):
        if number is not None and not (isinstance(number, int | float | np.number) and 0 < number < math.inf):
            raise BadInput(f"{name} is {number!r}", "give a positive number")
    if sampler is None:
        sampler = KERNELS["hmc" if size <= SMALL and size * (rows or 0) <= CHEAP else "langevin"]()
    if sampler.adjusted:
        budget = min(max(ADJUSTED_WORK / (size * max(rows or 0, 10)), FEWEST_GRADIENTS), MOST_GRADIENTS)
    else:
        dear = size > 10_000 or size * (rows or 0) > CHEAP
        chains = min(chains, 1 if size > LARGEST_PAIR else 2 if dear else 4)  # a chain more is a warm-up more
        budget = LANGEVIN_BUDGET * chains * (1 if dear else 4)
    settings = Settings(float(nbeta), gamma, chains, target, max_grads or budget, sampler)
    if _descent_gap(engine, settings, gamma or 1.0) > LARGE_GAP * size / 2:  # λ is at most d/2: it will be refused
        return replace(settings, target=max(target, ROUGHLY), budget=settings.budget / 20)
    return settings


LARGEST_PAIR = 100_000
