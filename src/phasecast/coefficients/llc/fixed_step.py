"""λ̂ with the settings of a paper: fixed steps, fixed numbers of draws, and the bias that comes with them, measured.

The same chains are run at ε and at ε/2 over the same time. The bias of these kernels is of the first order in ε, so it
is about twice the difference; it is reported, not removed.
"""

from __future__ import annotations

import math

import numpy as np

from phasecast.coefficients.llc.level import Curvature, Level, LevelPhase
from phasecast.coefficients.llc.plan import Plan
from phasecast.coefficients.llc.policy import LLCPolicy
from phasecast.sampling.backends.protocol import Backend, stream
from phasecast.sampling.kernels.fixed_settings import Fixed
from phasecast.sampling.kernels.kernel import RandomKey, Tuning
from phasecast.sampling.traces import Record


def proceed_fixed(backend: Backend, plan: Plan, fixed: Fixed, levels: list[Level], seed: int) -> bool:
    """Do the next chunk of the chains at ε, then of those at ε/2; False if both are done."""
    key = backend.key(seed)
    if not levels or (len(levels) == 1 and not levels[0].phase.active):
        levels.append(_start(backend, plan, fixed, len(levels) + 1, key))
        return True
    level, number = levels[-1], len(levels)
    if not level.phase.active:
        return False
    chunk = plan.policy.fixed_chunk
    burn_in, draws = fixed.burn_in * number, fixed.draws * number
    before = math.ceil(burn_in / chunk)  # chunks of burn-in
    if level.chunks < before:
        done, total = chunk * level.chunks, burn_in
    else:
        done, total = chunk * (level.chunks - before), draws
    level.run(backend, plan.kernel, stream(backend, key, "fixed chunks", number), min(chunk, total - done))
    if level.chunks == before:
        level.restart(plan.policy)
        level.phase = LevelPhase.SAMPLING
    if level.chunks >= before + math.ceil(draws / chunk):
        level.phase = LevelPhase.DONE
    return True


def _start(backend: Backend, plan: Plan, fixed: Fixed, number: int, key: RandomKey) -> Level:
    """The chains at ε divided by ``number``, all at w*."""
    gamma = plan.gamma or 0.0
    tuning = Tuning(1.0, 1.0, math.sqrt(gamma), plan.nbeta, gamma)
    level = Level(tuning, {}, backend.size, False, Record.empty(plan.chains))
    direction = np.asarray(backend.normal(stream(backend, key, "fixed curvature"), plan.chains))
    at_centre = np.zeros((plan.chains, backend.size))
    level.curvature = Curvature(0.0, direction)
    looks, share = plan.policy.fixed_looks, plan.policy.difference_share
    level.gradients = plan.chains * level.curvature.follow(
        lambda offsets: plan.nbeta * backend.evaluate(offsets)[1], at_centre, gamma, looks, share
    )
    step_size = (fixed.step_size or _careful_step(plan.policy, fixed.kernel, level)) / number
    level.tuning = tuning._replace(step_size=step_size)
    state_key = stream(backend, key, "fixed state", number)
    level.state = backend.init(plan.kernel, backend.array(at_centre), level.tuning, state_key)
    return level


def bias(at_step: Level, at_half: Level) -> tuple[float, float]:
    """The bias at ε to first order, 2(λ̂(ε) − λ̂(ε/2)), and its standard error."""
    return 2 * (at_step.value - at_half.value), 2 * math.hypot(at_step.error, at_half.error)


def _careful_step(policy: LLCPolicy, kernel: str, level: Level) -> float:
    """A step that is small for the largest curvature: of a Langevin step in ε, of the others in √ε's scale."""
    share, curvature = policy.careful_step(kernel), level.curvature.largest
    if kernel == "mclmc":
        return share * math.sqrt(level.size / curvature)
    return share / (curvature if kernel in ("sgld", "rmsprop-sgld") else math.sqrt(curvature))
