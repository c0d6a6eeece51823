"""λ̂ of your trained model: the local learning coefficient by sampling, with an error bar that holds.

.. math:: \\hat\\lambda(\\gamma) = n\\beta\\,\\big(E[L(w)] - L(w^*)\\big), \\qquad
          w \\sim \\exp\\big(-n\\beta (L(w) - L(w^*)) - \\tfrac{\\gamma}{2} |w - w^*|^2\\big)

(Cullen et al. 2026, section 2.1). The localisation γ lowers λ̂; towards γ → 0 it does so in proportion to γ, until the
chains leave the neighbourhood. So γ is lowered level by level, and the answer is the limit, if the curve has one.

:class:`Estimator` is the one path to λ̂: the library, PyTorch, the command line, trajectories and studies all run it,
chunk by chunk, and its state is plain arrays that can be stored between any two.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from phasecast.coefficients.llc.fixed_step import bias, minibatch_settings, proceed_fixed
from phasecast.coefficients.llc.judge import Judgement, judge_bias, judge_budget, judge_levels
from phasecast.coefficients.llc.level import Level
from phasecast.coefficients.llc.options import LLCOptions
from phasecast.coefficients.llc.plan import Plan, descent_gap, plan_for
from phasecast.coefficients.llc.policy import POLICY, LLCPolicy
from phasecast.coefficients.llc.problems import Sampled, as_problem, on_backend
from phasecast.coefficients.llc.result import LLC, Chains
from phasecast.coefficients.llc.schedule import limit, limit_of, neville, proceed
from phasecast.coefficients.llc.storage import from_plain, to_plain
from phasecast.core.errors import BadInput
from phasecast.core.problem import Problem
from phasecast.core.types import PyTree
from phasecast.sampling import KERNELS, Fixed, Kernel
from phasecast.sampling.traces import ess


def llc(
    # wide signature: the options of the headline function, each documented; they become one LLCOptions at once
    loss: Callable[..., Any] | Problem,
    params: PyTree = None,
    data: PyTree = None,
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
    n: the number of terms; defaults to the rows of ``data``.
    nbeta: the inverse temperature nβ; defaults to n / log n.
    gamma: the strength of the localisation at w*. Given, λ̂ is the value at this γ; by default γ is lowered level by
        level, and λ̂ is the limit γ → 0.
    prior: the coefficient s of an L2 term s/2 |w|² that the training had; it is sampled with the loss, not counted.
    only: a pattern for the names of the parameters that move, such as ``"layers.0.*"``.
    sampler: ``"auto"``; the name of a kernel in ``phasecast.sampling.KERNELS``; a kernel; or, to do as a paper does,
        ``phasecast.sampling.Fixed(kernel, step_size, draws, burn_in, batch)``.
    chains: the number of chains, at most; large models need fewer.
    target: the standard error to reach, relative to λ̂.
    max_grads: all gradients that may be spent, over all chains.

    >>> bowl = llc(lambda w: (w**2).sum() / 2, np.zeros(20), nbeta=1086, gamma=1.0)
    >>> str(bowl.status), abs(bowl.value - 10 * 1086 / 1087) < 4 * bowl.error
    ('ok', True)
    """
    options = LLCOptions(
        n=n, nbeta=nbeta, gamma=gamma, prior=prior, only=only, sampler=sampler, chains=chains, target=target,
        max_grads=max_grads, seed=seed,
    )  # fmt: skip
    return Estimator(on_backend(as_problem(loss, params, data, options.n), options), options).run()


class Estimator:
    """λ̂ of a problem, one chunk of work at a time.

    ``advance`` until it returns False, then ``conclude``. ``state()`` between any two chunks is plain arrays, numbers
    and strings; an estimator made with it goes on to the same bits.
    """

    def __init__(
        self,
        sampled: Sampled,
        options: LLCOptions,
        *,
        policy: LLCPolicy = POLICY,
        state: dict[str, Any] | None = None,
    ) -> None:
        self.sampled, self.options, self.backend = sampled, options, sampled.backend
        self._begun = time.monotonic()
        self._nbeta = options.temperature(sampled.n)
        self._fixed: Fixed | None = None
        self._halvings = 0
        self._notes: list[str] = []
        self.levels: list[Level] = []
        method = options.method
        full_work = self.backend.size * (self.backend.rows or 0)
        self._minibatched = method is None and full_work > policy.largest_full_work
        if isinstance(method, Fixed):
            self.plan = self._fixed_plan(method, policy)
        elif self._minibatched:
            self.plan = self._minibatch_plan(policy, state)
        elif state is not None:
            kernel = method or KERNELS[state["plan"]["kernel"]]()
            chains, target, budget = (state["plan"][name] for name in ("chains", "target", "budget"))
            self.plan = Plan(self._nbeta, options.gamma, int(chains), float(target), float(budget), kernel, policy)
        else:
            self.plan = plan_for(self.backend, options, self._nbeta, method, policy)
        if state is not None:
            self._halvings = int(state["halvings"])
            self._begun -= float(state["seconds"])
            self.levels = [from_plain(level, self.backend) for level in state["levels"]]

    def run(self) -> LLC:
        """All the work at once."""
        while self.advance():
            pass
        return self.conclude()

    def advance(self) -> bool:
        """Do the next chunk of work; False if there is nothing left to do."""
        if self._fixed is None:
            return proceed(self.backend, self.plan, self.levels, self.options.seed)
        if proceed_fixed(self.backend, self.plan, self._fixed, self.levels, self.options.seed):
            return True
        if self._minibatched and self._worth_halving():
            self._halvings += 1
            self._fixed = _halved(self._fixed)
            self.levels = []
            return True
        return False

    def state(self) -> dict[str, Any]:
        """Where the work is, as plain arrays, numbers and strings."""
        return {
            "plan": self.plan.plain(),
            "fixed": {} if self._fixed is None else {**asdict(self._fixed), "gamma": self.plan.gamma},
            "halvings": self._halvings,
            "seconds": self.seconds,
            "levels": [to_plain(level) for level in self.levels],
        }

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    @property
    def latest(self) -> float:
        """λ̂ at the level that is being sampled; NaN before anything was observed."""
        return self.levels[-1].value if self.levels else math.nan

    def conclude(self) -> LLC:
        """The result, judged; to be called when :meth:`advance` has returned False."""
        return self._conclude_schedule() if self._fixed is None else self._conclude_fixed()

    def _fixed_plan(self, fixed: Fixed, policy: LLCPolicy, gamma: float | None = None, chains: int = 0) -> Plan:
        gamma = self.options.gamma if gamma is None else gamma
        if gamma is None:
            cause = f"{fixed.kernel} with a fixed step cannot extrapolate to γ = 0"
            raise BadInput(cause, "give gamma, or sampler='auto'")
        self._fixed = fixed
        kernel = KERNELS[fixed.kernel]()
        return Plan(self._nbeta, gamma, chains or self.options.chains, math.inf, math.inf, kernel, policy)

    def _minibatch_plan(self, policy: LLCPolicy, state: dict[str, Any] | None) -> Plan:
        """Gradients of few rows, where those of all rows cost too much: biased, by an amount that is measured."""
        options, chains = self.options, min(self.options.chains, 2)
        if state is not None:
            settings = dict(state["fixed"])
            gamma = float(settings.pop("gamma"))
            fixed = Fixed(**settings)
        else:
            fixed, gamma = minibatch_settings(
                self.backend, policy, self._nbeta, options.gamma, chains, options.max_grads
            )
        rows = fixed.batch or 0
        self._notes.append(
            f"gradients of {rows} of {self.backend.rows} rows, so λ̂ is biased: sampler='langevin' takes all rows"
        )
        if options.gamma is None:
            self._notes.append(f"there is no limit γ → 0 on minibatches: λ̂ belongs to γ = {gamma:.3g}")
        self.backend = self.backend.minibatched(rows)
        return self._fixed_plan(fixed, policy, gamma, chains)

    def _worth_halving(self) -> bool:
        """Whether the bias of the step on minibatches is too large, and half the step can be afforded."""
        policy, (whole, half) = self.plan.policy, self.levels
        biased = abs(bias(whole, half)[0]) > policy.large_bias * abs(whole.value)
        affordable = whole.gradients + half.gradients <= (self.options.max_grads or math.inf) / 3
        return biased and affordable and self._halvings < policy.most_step_halvings

    def _conclude_schedule(self) -> LLC:
        plan, policy = self.plan, self.plan.policy
        lower = limit_of([level for level in self.levels if level.tuning.nbeta < plan.nbeta], policy)
        levels = [level for level in self.levels if level.tuning.nbeta == plan.nbeta]
        curve = _curve(levels)
        value, error, variance, notes = _read_off(curve, plan)
        diagnostics: dict[str, float] = {"levels": len(levels)}
        if lower and not notes:
            per_decade = diagnostics["per_decade"] = value - lower.value
            if abs(per_decade) > policy.no_plateau * abs(value):
                notes.append(
                    f"λ̂ changes by {per_decade / value:.0%} for each decade of nβ: there is no plateau, and λ̂ belongs "
                    f"to nβ = {plan.nbeta:.3g}"
                )
            else:  # what is not noise, continued to nβ → ∞ as a power −1/3 of nβ
                beyond_noise = per_decade**2 - lower.noise**2 - lower.systematic**2 - error**2
                error = math.hypot(error, math.sqrt(max(0.0, beyond_noise)) / (policy.decade ** (1 / 3) - 1))
        gap = diagnostics["gap"] = descent_gap(self.backend, plan, levels[-1].tuning.gamma)
        verdict = judge_levels(plan, levels, value, gap)
        verdict.warnings += notes
        budget = judge_budget(plan, levels[-1], value, error)
        verdict = Judgement(verdict.refusals + budget.refusals, verdict.warnings + budget.warnings)
        return self._result(curve, levels[-1], verdict, diagnostics, value=value, error=error, variance=variance)

    def _conclude_fixed(self) -> LLC:
        whole, half = self.levels
        value, error = whole.value, whole.error
        shift, shift_error = bias(whole, half)
        gap = descent_gap(self.backend, self.plan, whole.tuning.gamma)
        verdict = judge_levels(self.plan, [whole], value, gap)
        of_step = judge_bias(self.plan, value, shift, shift_error, always=self._minibatched)
        warnings = verdict.warnings + of_step.warnings + self._notes
        verdict = Judgement(verdict.refusals + of_step.refusals, warnings)
        if self._minibatched:  # the error holds the bias
            error = math.hypot(error, shift)
        diagnostics = {"bias": shift, "bias_error": shift_error, "gap": gap}
        curve = _curve([whole])
        variance = float(curve[0, 3])
        return self._result(curve, whole, verdict, diagnostics, value=value, error=error, variance=variance)

    def _result(
        self,
        curve: np.ndarray,
        last: Level,
        verdict: Judgement,
        diagnostics: dict[str, float],
        *,
        value: float,
        error: float,
        variance: float,
    ) -> LLC:
        nbeta, record, (stein, stein_error) = self.plan.nbeta, last.record, last.stein
        chains = None
        if self.backend.rows is not None and last.state:
            chains = Chains(self.backend, self.plan.kernel, last.state, last.tuning)
        return LLC(
            value,
            error,
            verdict.status,
            {**diagnostics, "step_size": last.tuning.step_size, "leaps": last.tuning.leaps},
            error_kind="mcse",
            reasons=verdict.reasons,
            name=f"λ̂ of {self.sampled.name}" if self.sampled.name else "λ̂",
            policy=self.plan.policy.plain(),
            value_min=value + diagnostics["gap"],
            value_var=variance,
            nbeta=nbeta,
            gamma=self.plan.gamma,
            curve=curve,
            rhat=last.rhat,
            ess=ess(record.loss.draws),
            acceptance=float(np.mean(record.acceptance)) if record.acceptance else math.nan,
            divergences=last.divergent_share,
            stein=stein / stein_error if stein_error else 0.0,
            gradients=sum(level.gradients for level in self.levels),
            seconds=self.seconds,
            traces={"excess": nbeta * record.loss.draws, "radius": record.radius.draws},
            chains=chains,
        )


def _halved(fixed: Fixed) -> Fixed:
    """Half the step over the same time."""
    step_size = (fixed.step_size or math.nan) / 2
    return replace(fixed, step_size=step_size, draws=2 * fixed.draws, burn_in=2 * fixed.burn_in)


def _curve(levels: list[Level]) -> np.ndarray:
    """(γ, λ̂(γ), error, value_var) of each level."""
    return np.array(
        [
            (level.tuning.gamma, level.value, level.error, level.tuning.nbeta**2 * level.record.loss.variance)
            for level in levels
        ]
    )


def _read_off(curve: np.ndarray, plan: Plan) -> tuple[float, float, float, list[str]]:
    """λ̂, its error and value_var: at the given γ, or in the limit γ → 0 if there is one."""
    gammas, values, errors, variances = curve.T
    last = float(values[-1]), float(errors[-1]), float(variances[-1])
    if plan.gamma is not None:
        return *last, []
    if len(curve) < 3:
        return *last, ["sampling ended before the curve λ̂(γ) had three points: see `curve`"]
    extrapolated = limit(gammas, values, errors, plan.policy)
    if not extrapolated.believable:
        note = (
            "λ̂(γ) has neither a plateau nor a limit that can be read off, so this is its value at the smallest γ: "
            "see `curve`, and give the γ that you mean"
        )
        return *last, [note]
    error = math.hypot(extrapolated.noise, extrapolated.systematic)
    return extrapolated.value, error, neville(gammas[-3:], variances[-3:]), []
