"""How much lower is the loss near w*? Descent from w*, held back by γ: what λ̂ relative to the minimum needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from phasecast.coefficients.llc.level import Level
from phasecast.coefficients.llc.plan import Plan
from phasecast.sampling.backends.protocol import Backend, stream
from phasecast.sampling.kernels.kernel import RandomKey


class _TimeIsUp(Exception):
    pass


def fall_from_centre(
    backend: Backend, plan: Plan, level: Level, key: RandomKey, out_of_time: Callable[[], bool]
) -> tuple[float, float]:
    """By how much nβL falls on a descent from w* at the γ of a level, and how many gradients that took.

    It may take half of the gradients that a chain of the level has taken, and ends when ``out_of_time()``; where it
    ends early the fall is a lower bound.
    """
    if plan.batch is not None:
        return _by_cold_chain(backend, plan, level, key, out_of_time)
    return _by_quasi_newton(backend, plan, level, out_of_time)


def _by_quasi_newton(
    backend: Backend, plan: Plan, level: Level, out_of_time: Callable[[], bool]
) -> tuple[float, float]:
    from scipy.optimize import minimize

    policy, nbeta, gamma, centre = plan.policy, plan.nbeta, level.tuning.gamma, backend.centre_as_numpy
    evaluations, lowest, fall = 0, 0.0, 0.0

    def energy(flat: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal evaluations, lowest, fall
        if out_of_time():
            raise _TimeIsUp
        evaluations += 1
        loss, slope = backend.evaluate(flat[None, :])
        decay = nbeta * backend.decay
        value = float(nbeta * loss[0] + gamma / 2 * flat @ flat + decay * (flat @ flat / 2 + flat @ centre))
        if value < lowest:
            lowest, fall = value, -nbeta * float(loss[0])
        return value, nbeta * slope[0].astype(float) + gamma * flat + decay * (flat + centre)

    affordable = int(policy.descent_share * level.gradients / level.chains)
    steps = min(max(policy.fewest_descent_steps, affordable), policy.descent_steps)
    limits = {"maxiter": steps, "maxfun": 2 * steps}
    with suppress(_TimeIsUp):
        minimize(energy, np.zeros(backend.size), jac=True, method="L-BFGS-B", options=limits)
    return max(0.0, fall), float(evaluations)


COOLING = ((1.0, 0.67), (0.5, 0.25), (0.25, 0.08))
"""Steps of a cold chain, over those of a chain without noise, and the share of its time that each has: the long ones do
the descent, the short ones take away what noisy gradients add to it."""


def _by_cold_chain(
    backend: Backend, plan: Plan, level: Level, key: RandomKey, out_of_time: Callable[[], bool]
) -> tuple[float, float]:
    """Minibatches cannot be searched along a line; a chain at a very low temperature is descent with momentum.

    nβ and γ times c is the temperature 1/c; with the step over √c and the friction times √c it moves as before.
    """
    policy, tuning = plan.policy, level.tuning
    cold, root = policy.coldness, math.sqrt(policy.coldness)
    window, full = policy.langevin_window / math.sqrt(tuning.gamma), tuning.step_size / level.warm_up.shrink
    state, losses, heating, spent = None, [0.0], 0.0, 0
    for shorter, share in COOLING:
        heated = tuning._replace(step_size=shorter * full)
        frozen = heated._replace(
            step_size=heated.step_size / root,
            friction=tuning.friction * root,
            nbeta=tuning.nbeta * cold,
            gamma=tuning.gamma * cold,
        )
        if state is None:
            state = backend.init(
                plan.kernel, backend.array(np.zeros((1, backend.size))), frozen, stream(backend, key, "cold")
            )
        steps = math.ceil(share * policy.cold_windows * window / heated.step_size)
        for begin in range(0, steps, plan.chunk):
            if out_of_time():
                break
            chunk = min(plan.chunk, steps - begin)
            state, observed = backend.run(plan.kernel, state, frozen, stream(backend, key, "cold chunk", spent), chunk)
            losses = [*(losses if begin else []), float(np.mean(observed["loss"]))]
            spent += chunk
            heating = level.heating_of(heated)
    # noisy gradients heat a cold chain as much as the others
    fall = -plan.nbeta * float(np.mean(losses[-max(1, len(losses) // 2) :])) + policy.heated_share * heating
    return (max(0.0, fall) if math.isfinite(fall) else 0.0), float(spent)
