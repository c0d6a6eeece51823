"""How much lower is the loss near w*? Descent, held back to w* by γ: what λ̂ relative to the minimum needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from phasecast.coefficients.llc.level import Level
from phasecast.coefficients.llc.plan import Plan
from phasecast.sampling.backends.protocol import Backend, stream
from phasecast.sampling.kernels.kernel import Array, RandomKey


class _TimeIsUp(Exception):
    pass


def fall_below_centre(
    backend: Backend, plan: Plan, level: Level, start: Array, key: RandomKey, out_of_time: Callable[[], bool]
) -> tuple[float, float]:
    """By how much nβL falls below nβL(w*) on a descent at the γ of a level, and how many gradients that took.

    It begins at the offset ``start`` from w*, may take half of the gradients that a chain of the level has taken, and
    ends when ``out_of_time()``; where it ends early the fall is a lower bound.
    """
    if plan.batch is not None:
        return _by_cold_chain(backend, plan, level, start, key, out_of_time)
    return _by_quasi_newton(backend, plan, level, start, out_of_time)


def _by_quasi_newton(
    backend: Backend, plan: Plan, level: Level, start: Array, out_of_time: Callable[[], bool]
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
        minimize(energy, np.asarray(start, dtype=float), jac=True, method="L-BFGS-B", options=limits)
        if lowest == 0.0:  # w* may be a saddle, where the slope vanishes: start a little beside it
            beside = np.random.default_rng(0).normal(size=backend.size) * policy.beside / math.sqrt(gamma)
            minimize(energy, beside, jac=True, method="L-BFGS-B", options=limits)
    return max(0.0, fall), float(evaluations)


def _by_cold_chain(
    backend: Backend, plan: Plan, level: Level, start: Array, key: RandomKey, out_of_time: Callable[[], bool]
) -> tuple[float, float]:
    """Minibatches cannot be searched along a line; a chain at a very low temperature is descent with momentum.

    nβ and γ times c is the temperature 1/c; with the step over √c and the friction times √c it moves as before. Noisy
    gradients move it about; the mean of its later places is nearer to the minimum than any of them.
    """
    policy, tuning = plan.policy, level.tuning
    cold, root = policy.coldness, math.sqrt(policy.coldness)
    full = tuning.step_size / level.warm_up.shrink
    frozen = tuning._replace(
        step_size=full / root, friction=tuning.friction * root, nbeta=tuning.nbeta * cold, gamma=tuning.gamma * cold
    )
    state = backend.init(plan.kernel, backend.array(np.asarray(start)[None, :]), frozen, stream(backend, key, "cold"))
    steps = math.ceil(policy.cold_windows * policy.langevin_window / math.sqrt(tuning.gamma) / full)
    places: list[np.ndarray] = []  # while it settles; before that, where time may end it, the last
    spent = 0
    while spent < 1.5 * steps and not out_of_time():  # two thirds of the time at the full step, then half of it
        settling = spent >= 2 / 3 * steps
        chunk = policy.short_chunk if settling else min(plan.chunk, math.ceil(2 / 3 * steps))
        moving = frozen._replace(step_size=full / root / 2) if settling else frozen
        state, observed = backend.run(plan.kernel, state, moving, stream(backend, key, "cold chunk", spent), chunk)
        if not np.all(np.isfinite(observed["loss"])):
            break
        spent += chunk
        here = np.asarray(state["position"], dtype=float)
        places = [*places, here] if settling else [here]
    if not places:
        return 0.0, float(spent)
    lowest = backend.array(np.mean(places[len(places) // 3 :], axis=0))
    looks = [
        backend.init(plan.kernel, lowest, tuning, stream(backend, key, "lowest", number))["loss"]
        for number in range(policy.lowest_looks)
    ]
    fall = -plan.nbeta * float(np.mean([np.asarray(loss) for loss in looks]))
    return (max(0.0, fall) if math.isfinite(fall) else 0.0), float(spent + policy.lowest_looks)
