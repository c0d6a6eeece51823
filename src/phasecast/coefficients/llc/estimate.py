"""λ̂ of your trained model: the local learning coefficient by sampling, with an error bar that holds.

.. math:: \\hat\\lambda(\\gamma) = n\\beta\\,\\big(E[L(w)] - L(w^*)\\big), \\qquad
          w \\sim \\exp\\big(-n\\beta (L(w) - L(w^*)) - \\tfrac{\\gamma}{2} |w - w^*|^2\\big)

(Cullen et al. 2026, section 2.1). γ says what "local" means. By default it is set by a neighbourhood: γ = d/(r²|w*|²)
keeps the chains within r|w*| of w*. Problems with an exact λ have a limit γ → 0, which ``gamma="limit"`` extrapolates
to; a trained network has none, because its chains leave every neighbourhood of w* before λ̂(γ) is flat.

:class:`Estimator` is the one path to λ̂: the library, PyTorch, the command line, trajectories and studies all run it,
chunk by chunk, and its state is plain arrays that can be stored between any two.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from phasecast.coefficients.llc.descent import fall_below_centre
from phasecast.coefficients.llc.fixed_step import bias, proceed_fixed
from phasecast.coefficients.llc.judge import Judgement, judge_bias, judge_budget, judge_levels
from phasecast.coefficients.llc.level import UNKNOWN, Level, LevelPhase
from phasecast.coefficients.llc.options import LLCOptions
from phasecast.coefficients.llc.plan import Plan, check_chains, localisation, plan_for
from phasecast.coefficients.llc.policy import POLICY, LLCPolicy
from phasecast.coefficients.llc.problems import Sampled, TorchProblem, as_problem, on_backend
from phasecast.coefficients.llc.report import LLCProgress, ProgressOption, reporting
from phasecast.coefficients.llc.result import LLC, Chains
from phasecast.coefficients.llc.schedule import add_neighbour, goal_of, limit, limit_of, neighbours, neville, proceed
from phasecast.coefficients.llc.storage import from_plain, to_plain
from phasecast.core.errors import BadInput
from phasecast.core.problem import Problem
from phasecast.core.types import PyTree
from phasecast.sampling import KERNELS, Fixed, Kernel
from phasecast.sampling.backends.protocol import Backend, stream
from phasecast.sampling.backends.selection import Only
from phasecast.sampling.kernels.kernel import State
from phasecast.sampling.traces import ess

INTERRUPT = "Ctrl-C"


def llc(
    # wide signature: the options of the headline function, each documented; they become one LLCOptions at once
    loss: Callable[..., Any] | Problem,
    params: PyTree = None,
    data: PyTree = None,
    *,
    n: int | None = None,
    nbeta: float | None = None,
    gamma: float | Literal["limit"] | None = None,
    radius: float = 0.3,
    prior: float | None = None,
    only: Only = None,
    sampler: str | Kernel | Fixed = "auto",
    chains: int | None = None,
    target: float = 0.05,
    max_grads: float | None = None,
    seconds: float | None = 60.0,
    seed: int = 0,
    progress: ProgressOption = True,
) -> LLC:
    """The local learning coefficient of a model at ``params``, sampled; ``llc(problem)`` works too.

    Parameters
    ----------
    loss: ``loss(params, data)``, the *mean* negative log-likelihood per term; ``loss(params)`` for a population loss.
    n: the number of terms; defaults to the rows of ``data``.
    nbeta: the inverse temperature nβ; defaults to n / log n.
    gamma: the strength γ of the localisation at w*. Defaults to what ``radius`` says; ``"limit"`` lowers γ level by
        level and extrapolates to γ → 0, for problems with an exact λ. Where w* = 0 there is no scale, and the default
        is the limit.
    radius: the radius r of the neighbourhood relative to |w*|: γ = d / (r² |w*|²), with d parameters that move.
    prior: the coefficient s of an L2 term s/2 |w|² that the training had; it is sampled with the loss, not counted.
    only: which parameters move: a pattern for names such as ``"layers.0.*"``, several, or {name: boolean mask}.
    sampler: ``"auto"``; the name of a kernel in ``phasecast.sampling.KERNELS``; a kernel; or, to do as a paper does,
        ``phasecast.sampling.Fixed(kernel, step_size, draws, burn_in, batch)``.
    chains: the number of chains; defaults to 8 where steps are Metropolis-adjusted, and to 4, 2 or 1 for larger models.
    target: the standard error to reach, relative to λ̂.
    max_grads: the gradients that all chains may spend together; set-up and descent come on top.
    seconds: the time after which the estimate so far is returned; None for no limit. Ctrl-C returns it at once.
    progress: whether to show progress on stderr after two seconds; or a function that gets each
        :class:`~phasecast.coefficients.llc.report.LLCProgress`.

    >>> bowl = llc(lambda w: (w**2).sum() / 2, np.zeros(20), nbeta=1086, gamma=1.0)
    >>> str(bowl.status), abs(bowl.value - 10 * 1086 / 1087) < 4 * bowl.error
    ('ok', True)
    """
    options = LLCOptions(
        n=n, nbeta=nbeta, gamma=gamma, radius=radius, prior=prior, only=only, sampler=sampler, chains=chains,
        target=target, max_grads=max_grads, seconds=seconds, seed=seed,
    )  # fmt: skip
    return measure(as_problem(loss, params, data, options.n), options, progress)


def measure(
    problem: Problem | TorchProblem, options: LLCOptions, progress: ProgressOption = True, *, device: Any = None
) -> LLC:
    """λ̂ of a problem, from its set-up on; ``device`` is for PyTorch."""
    begun = time.monotonic()
    with reporting(problem.name, progress) as report:
        sampled = on_backend(problem, options, device=device)
        return Estimator(sampled, options, begun=begun).run_reporting(report)


class Estimator:
    """λ̂ of a problem, one chunk of work at a time.

    ``advance`` until it returns False, then ``conclude``. ``state()`` between any two chunks is plain arrays, numbers
    and strings; an estimator made with it goes on to the same bits. ``start`` is where chains begin if not at w*, such
    as where those of the checkpoint before ended (:attr:`last_state`), and ``begun`` when the time that counts began.
    """

    def __init__(
        self,
        sampled: Sampled,
        options: LLCOptions,
        *,
        policy: LLCPolicy = POLICY,
        state: dict[str, Any] | None = None,
        start: State | None = None,
        begun: float | None = None,
    ) -> None:
        self.sampled, self.options, self.backend = sampled, options, sampled.backend
        self.levels: list[Level] = []
        self._begun, self._ended_by = time.monotonic() if begun is None else begun, ""
        self._gap, self._descents, self._descent_gradients = UNKNOWN, 0, 0.0
        self._fixed = options.method if isinstance(options.method, Fixed) else None
        nbeta = options.temperature(sampled.n)
        if self._fixed is not None:
            self.plan = _fixed_plan(self.backend, self._fixed, options, nbeta, policy)
        else:
            terms = max(self.backend.rows or 0, sampled.n or 0) if self.backend.rows else 0
            self.plan = plan_for(self.backend, options, nbeta, terms, policy)
            tuned = self.plan.gamma is not None and not self.plan.kernel.adjusted
            if tuned and start is not None and len(start["position"]) == self.plan.chains:
                moved = _beside_centre(start, self.backend.centre_as_numpy, policy.follow)
                self.plan = replace(self.plan, start=moved)
            if self.plan.batch is not None:
                self.backend = self.backend.minibatched(self.plan.batch)
        check_chains(self.plan.chains, self.backend)
        if state is not None:
            self._gap, self._descents = float(state["gap"]), int(state["descents"])
            self._descent_gradients = float(state["descent_gradients"])
            self._begun -= float(state["seconds"])
            self._ended_by = str(state["ended_by"])
            self.levels = [from_plain(level, self.backend) for level in state["levels"]]

    def run(self, progress: ProgressOption = False) -> LLC:
        """All the work at once; what there is when time is over or Ctrl-C is pressed."""
        with reporting(self.sampled.name, progress) as report:
            return self.run_reporting(report)

    def run_reporting(self, report: Callable[[Callable[[], LLCProgress]], None]) -> LLC:
        """:meth:`run` with what :func:`~phasecast.coefficients.llc.report.reporting` gives."""
        try:
            while self.advance():
                report(lambda: self.progress)
        except KeyboardInterrupt:
            if not any(level.steps for level in self.levels):
                raise
            self.stop(INTERRUPT)
        return self.conclude()

    def advance(self) -> bool:
        """Do the next chunk of work; False if there is nothing left to do."""
        if self._ended_by:
            return False
        if self._out_of_time and self.levels:
            self.stop(f"the time limit of {self.options.seconds:g} s")
            return False
        seed = self.options.seed
        if self._fixed is not None:
            return proceed_fixed(self.backend, self.plan, self._fixed, self.levels, seed) or self._descend()
        if self._ready_to_descend and self._descend():
            return True
        return proceed(self.backend, self.plan, self.levels, seed) or self._descend() or self._beside()

    def stop(self, cause: str) -> None:
        """Sample nothing more; ``cause`` is what the result will name."""
        self._ended_by = cause
        for level in self.levels:
            level.end()

    def state(self) -> dict[str, Any]:
        """Where the work is, as plain arrays, numbers and strings."""
        return {
            "plan": self.plan.plain(),
            "gap": self._gap,
            "descents": self._descents,
            "descent_gradients": self._descent_gradients,
            "seconds": self.seconds,
            "ended_by": self._ended_by,
            "levels": [to_plain(level) for level in self.levels],
        }

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self._ended_by == INTERRUPT

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    @property
    def _out_of_time(self) -> bool:
        return self.options.seconds is not None and self.seconds > self.options.seconds

    @property
    def gradients(self) -> float:
        """Gradients of single chains so far, with those of the set-up and of the descent."""
        return (
            self.sampled.backend.setup_gradients
            + self._descent_gradients
            + sum(level.gradients for level in self.levels)
        )

    @property
    def latest(self) -> float:
        """λ̂ at the level that is being sampled; NaN before anything was observed."""
        return self.levels[-1].value if self.levels else math.nan

    @property
    def last_state(self) -> State | None:
        """Where the chains of the γ that was asked for ended, and how long their steps were."""
        level = self._main
        if level is None or not level.state:
            return None
        return level.hand_over() | {"centre": self.backend.centre_as_numpy}

    @property
    def progress(self) -> LLCProgress:
        """Where the work is, for people."""
        level = self.levels[-1] if self.levels else None
        if level is None:
            return LLCProgress("set-up", math.nan, math.nan, math.nan, self.gradients, self.seconds, None)
        left, goal = None, goal_of(self.plan, level) * level.scale
        if level.phase is LevelPhase.SAMPLING and 0 < goal < math.inf and math.isfinite(level.error):
            left = max(0.0, (level.error / goal) ** 2 - 1) * self.seconds
        if self.options.seconds is not None:
            left = min(math.inf if left is None else left, max(0.0, self.options.seconds - self.seconds))
        return LLCProgress(
            str(level.phase), level.tuning.gamma, level.value, level.error, self.gradients, self.seconds, left
        )

    def conclude(self) -> LLC:
        """The result, judged; to be called when :meth:`advance` has returned False."""
        return self._conclude_schedule() if self._fixed is None else self._conclude_fixed()

    @property
    def _main(self) -> Level | None:
        """The level whose λ̂ is the answer, or the one nearest to it so far."""
        levels = [level for level in self.levels if level.tuning.nbeta == self.plan.nbeta]
        at_gamma = [level for level in levels if level.tuning.gamma == self.plan.gamma]
        return at_gamma[0] if at_gamma else levels[-1] if levels else None

    @property
    def _ready_to_descend(self) -> bool:
        """Whether the step is known; on minibatches before that, because it may be longer where λ̂ is larger."""
        level = self.levels[-1] if self.levels else None
        if level is None or level.tuning.gamma != self.plan.gamma:
            return False
        noise_is_known = self.plan.batch is not None and level.noise_looks > 0
        return level.phase is LevelPhase.SAMPLING or noise_is_known

    def _descend(self) -> bool:
        """The descent from w*, and another from a chain if chains come lower than that; whether one was done now."""
        level = self._main
        if level is None or (self._descents and not self._chains_are_lower(level)):
            return False
        key = stream(self.backend, self.backend.key(self.options.seed), *["descent"] * (1 + self._descents))
        start = np.asarray(level.state["position"])[0] if self._descents else np.zeros(self.backend.size)
        seconds = math.inf if self.options.seconds is None else self.options.seconds
        end = min(seconds, self.seconds + self.plan.policy.descent_time * seconds)
        fall, gradients = fall_below_centre(self.backend, self.plan, level, start, key, lambda: self.seconds > end)
        self._gap, self._descents = max(self._gap, fall), self._descents + 1
        self._descent_gradients += gradients
        for each in self.levels:
            each.gap = self._gap
        return True

    def _chains_are_lower(self, level: Level) -> bool:
        """Whether chains on minibatches, which are warm, are lower than the one descent that there was."""
        first_only = self.plan.batch is not None and self._descents == 1
        return first_only and level.warmed_up and bool(level.state) and level.value + self._gap < 0

    def _beside(self) -> bool:
        """Begin a level at the next γ beside the one of the neighbourhood, if there is time."""
        limit_of_time, main = self.options.seconds, self._main
        if main is None or main.phase is not LevelPhase.DONE or self.levels[-1].phase is not LevelPhase.DONE:
            return False
        gammas = [gamma for gamma in neighbours(self.plan) if gamma not in [one.tuning.gamma for one in self.levels]]
        late = limit_of_time is not None and self.seconds > self.plan.policy.curve_time * limit_of_time
        if late or not gammas or 2 * sum(level.gradients for level in self.levels) > self.plan.budget:
            return False
        add_neighbour(self.backend, self.plan, self.levels, gammas[0], self.options.seed)
        return True

    def _conclude_schedule(self) -> LLC:
        plan, policy, main = self.plan, self.plan.policy, self._main
        if main is None:
            raise BadInput("nothing was sampled", "allow more time with seconds")
        levels = [level for level in self.levels if level.tuning.nbeta == plan.nbeta]
        usable = [level for level in levels if math.isfinite(level.value) and level.warmed_up] or [main]
        curve = _curve(usable)
        gap = self._lowest_gap(main)
        diagnostics: dict[str, float] = {"levels": len(usable), "gap": gap}
        notes = list(self.sampled.notes)
        gamma = main.tuning.gamma
        if plan.gamma is None:
            lower = limit_of([level for level in self.levels if level.tuning.nbeta < plan.nbeta], policy)
            value, error, variance, reached, limit_notes = _read_limit(curve, plan)
            notes += limit_notes
            gamma = 0.0 if reached else gamma
            if lower and reached:
                error = self._with_approach(lower.value, math.hypot(lower.noise, lower.systematic), value, error)
                per_decade = diagnostics["per_decade"] = value - lower.value
                if abs(per_decade) > policy.no_plateau * abs(value):
                    notes.append(
                        f"λ̂ changes by {per_decade / value:.0%} per decade of nβ: there is no plateau, and λ̂ belongs "
                        f"to nβ = {plan.nbeta:.3g}"
                    )
            if reached and error > plan.target * abs(value):
                notes.append(f"the error of the limit is {error / abs(value):.1%} of it, more than the target")
            last, judged = levels[-1], levels
        else:
            value, error, variance, last = main.value, main.error, main.variance, main
            if main.phase is LevelPhase.COLD:
                value, error = main.provisional or (value, error)
            judged = levels[: levels.index(main) + 1]  # those beside it come after
            if main.tuning.gamma != plan.gamma:
                notes.append(f"sampling ended at γ = {main.tuning.gamma:.3g}, before γ = {plan.gamma:.3g}")
        if plan.batch is not None:
            diagnostics |= {"batch": plan.batch, "bias_bound": last.heating, "bias": last.share * last.heating}
        verdict = judge_levels(plan, judged, value, error, gap)
        cause = self._ended_by or f"the budget of {plan.budget:.3g} gradients"
        budget = judge_budget(plan, last, error, cause)
        verdict = Judgement(verdict.refusals + budget.refusals, notes + verdict.warnings + budget.warnings)
        return self._result(curve, last, verdict, diagnostics, (value, error, variance), gamma)

    def _lowest_gap(self, level: Level) -> float:
        """How far nβL falls below nβL(w*): on the descent, or on the chains where the descent ended early."""
        if self._gap == UNKNOWN:
            return math.nan
        draws = level.record.loss.draws
        exact = not (self.plan.batch or self.options.minibatch or self.backend.decay) and len(draws)
        return max(self._gap, -self.plan.nbeta * float(draws.min())) if exact else self._gap

    def _with_approach(self, lower: float, lower_error: float, value: float, error: float) -> float:
        """The error with what is not noise of the change per decade of nβ, continued to nβ → ∞ as a power −1/3."""
        beyond_noise = (value - lower) ** 2 - lower_error**2 - error**2
        policy = self.plan.policy
        if abs(value - lower) > policy.no_plateau * abs(value):
            return error
        return math.hypot(error, math.sqrt(max(0.0, beyond_noise)) / (policy.decade ** (1 / 3) - 1))

    def _conclude_fixed(self) -> LLC:
        whole = self.levels[0]
        gap = self._lowest_gap(whole)
        verdict = judge_levels(self.plan, [whole], whole.value, whole.error, gap)
        diagnostics = {"gap": gap}
        if len(self.levels) > 1 and self.levels[1].phase is LevelPhase.DONE:
            shift, shift_error = bias(whole, self.levels[1])
            of_step = judge_bias(self.plan, whole.value, shift, shift_error)
            diagnostics |= {"bias": shift, "bias_error": shift_error}
        else:
            of_step = Judgement([f"{self._ended_by or 'the budget'} ended before the bias of the step was measured"])
        notes = list(self.sampled.notes)
        verdict = Judgement(verdict.refusals + of_step.refusals, notes + verdict.warnings + of_step.warnings)
        answer = whole.value, whole.error, whole.variance
        return self._result(_curve([whole]), whole, verdict, diagnostics, answer, whole.tuning.gamma)

    def _result(
        self,
        curve: np.ndarray,
        last: Level,
        verdict: Judgement,
        diagnostics: dict[str, float],
        answer: tuple[float, float, float],
        gamma: float,
    ) -> LLC:
        (value, error, variance), record, (stein, stein_error) = answer, last.record, last.stein
        chains = None
        if self.backend.rows is not None and last.state:
            chains = Chains(self.backend, self.plan.kernel, last.state, last.tuning)
        norm = math.sqrt(float(self.backend.centre_as_numpy @ self.backend.centre_as_numpy))
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
            nbeta=self.plan.nbeta,
            gamma=gamma,
            radius=math.sqrt(max(0.0, record.radius.mean)) / norm if norm else math.nan,
            terms=self.sampled.note,
            curve=curve,
            rhat=last.rhat,
            ess=ess(record.loss.draws),
            acceptance=float(np.mean(record.acceptance)) if record.acceptance else math.nan,
            divergences=last.divergent_share,
            stein=stein / stein_error if stein_error else 0.0,
            gradients=self.gradients,
            seconds=self.seconds,
            traces={"excess": self.plan.nbeta * record.loss.draws, "radius": record.radius.draws},
            chains=chains,
        )


def _fixed_plan(backend: Backend, fixed: Fixed, options: LLCOptions, nbeta: float, policy: LLCPolicy) -> Plan:
    """The settings of a paper, which are not tuned."""
    gamma = localisation(backend.centre_as_numpy, options.radius) if options.gamma is None else options.gamma
    if gamma is None or gamma == "limit":
        raise BadInput(f"{fixed.kernel} with a fixed step cannot extrapolate to γ = 0", "give gamma, or sampler='auto'")
    chains = options.chains or policy.adjusted_chains
    return Plan(nbeta, gamma, chains, math.inf, math.inf, KERNELS[fixed.kernel](), policy)


def _beside_centre(start: State, centre: np.ndarray, follow: float) -> State:
    """Where chains go on when w* has moved to ``centre``: they ``follow`` a share of the way.

    In a direction in which nβL has the curvature k, the mean of the chains moves by γ/(k + γ) of what w* moves.
    """
    back = (1 - follow) * (np.asarray(start["centre"]) - centre)
    offsets = np.asarray(start["position"])
    return start | {"position": (offsets + back).astype(offsets.dtype)}


def _curve(levels: list[Level]) -> np.ndarray:
    """(γ, λ̂(γ), error, value_var) of each level, from the largest γ to the smallest."""
    rows = [(level.tuning.gamma, level.value, level.error, level.variance) for level in levels]
    return np.array(sorted(rows, key=lambda row: -row[0]))


def _read_limit(curve: np.ndarray, plan: Plan) -> tuple[float, float, float, bool, list[str]]:
    """λ̂, its error and value_var in the limit γ → 0, and True; at the smallest γ, and False, if there is no limit."""
    gammas, values, errors, variances = curve.T
    last = float(values[-1]), float(errors[-1]), float(variances[-1])
    at_last = f"this is λ̂ at γ = {gammas[-1]:.3g}: see `curve`, or give the γ that you mean"
    if len(curve) < 3:
        return *last, False, [f"sampling ended before the curve λ̂(γ) had three points, so {at_last}"]
    extrapolated = limit(gammas, values, errors, plan.policy)
    if not extrapolated.believable:
        return *last, False, [f"λ̂(γ) has neither a plateau nor a limit that can be read off, so {at_last}"]
    error = math.hypot(extrapolated.noise, extrapolated.systematic)
    return extrapolated.value, error, neville(gammas[-3:], variances[-3:]), True, []
