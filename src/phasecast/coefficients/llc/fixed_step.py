"""λ̂ with the settings of a paper: fixed steps, fixed numbers of draws, and the bias that comes with them, measured.

The same chains are run at ε and at ε/2 over the same time. The bias of these kernels is of the first order in ε, so it
is about twice the difference; it is reported, not removed.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from phasecast.coefficients.llc.level import WINDOW, Rung, look
from phasecast.sampling import KERNELS, Tuning
from phasecast.sampling.kernels.fixed_step import Fixed

CHUNK = 100
FIRST_CONDITION = 100.0  # the largest curvature at w* over γ
FEWEST_ROWS, CHEAP_GRADIENT = 256, 1e8  # of a minibatch; parameters × rows of its gradient
WARM_WINDOWS, SAMPLED_WINDOWS = 6, 12  # of the time that the pull needs
FEWEST_DRAWS = 400
CAREFUL = {"sgld": 0.1, "rmsprop-sgld": 0.1, "sgnht": 0.1, "mclmc": 0.2, "langevin": 0.5}


def fixed_rungs(
    engine: Any, fixed: Fixed, *, nbeta: float, gamma: float, chains: int, seed: int
) -> tuple[Rung, Rung, float]:
    """The chains at ε and at ε/2, and the seconds they took."""
    begun = time.monotonic()
    kernel, key = KERNELS[fixed.kernel](), engine.key(seed)
    offsets = engine.array(np.zeros((chains, engine.size)))
    rungs = []
    for number in (1, 2):
        tuning = Tuning(1.0, 1.0, math.sqrt(gamma), nbeta, gamma)
        rung = Rung(tuning, {}, chains, engine.size, adjusted=False)
        rung.direction = np.asarray(engine.normal(engine.fold(key, 9), chains))
        look(engine, rung, np.zeros((chains, engine.size)), 8)
        step_size = (fixed.step_size or _careful(fixed.kernel, rung)) / number
        rung.tuning = tuning._replace(step_size=step_size)
        rung.state = engine.init(kernel, offsets, rung.tuning, engine.fold(key, number))
        own_key = engine.fold(key, 10 + number)
        for burning, steps in ((True, fixed.burn_in * number), (False, fixed.draws * number)):
            done = 0
            while done < steps:
                count = min(CHUNK, steps - done)
                rung.run(engine, kernel, own_key, count)
                done += count
            if burning:
                rung.fresh()
        rung.phase = "done"
        rungs.append(rung)
    return rungs[0], rungs[1], time.monotonic() - begun


def minibatch_plan(
    engine: Any, *, nbeta: float, gamma: float | None, chains: int, max_grads: float | None
) -> tuple[Fixed, float]:
    """Underdamped Langevin dynamics on minibatches, and its γ, from a few full gradients at w*.

    The batch has as many rows as make a gradient cheap. Where γ is not given it is a hundredth of the largest curvature
    at w*, the first rung of a ladder: smaller ones would need more steps than minibatches deserve.
    """
    probe = Rung(Tuning(1.0, 1.0, 1.0, nbeta, gamma or 1.0), {}, 1, engine.size, adjusted=False)
    probe.direction = np.asarray(engine.normal(engine.key(0), 1))
    look(engine, probe, np.zeros((1, engine.size)), 8)
    gamma = gamma or probe.curvature / FIRST_CONDITION
    step_size = CAREFUL["langevin"] / math.sqrt(probe.curvature)
    window = math.ceil(WINDOW / math.sqrt(gamma) / step_size)
    draws = max(FEWEST_DRAWS, SAMPLED_WINDOWS * window)
    if max_grads is not None:
        draws = int(min(draws, max(20, max_grads / (3 * chains * (1 + WARM_WINDOWS / SAMPLED_WINDOWS)))))
    batch = min(engine.rows, max(FEWEST_ROWS, int(CHEAP_GRADIENT / engine.size)))
    burn_in = math.ceil(draws * WARM_WINDOWS / SAMPLED_WINDOWS)
    return Fixed("langevin", step_size, draws, burn_in, batch, anchored=True), gamma


def _careful(kernel: str, rung: Rung) -> float:
    """A step that is small for the largest curvature: of a Langevin step in ε, of the others in √ε's scale."""
    share, curvature = CAREFUL[kernel], rung.curvature
    if kernel == "mclmc":
        return share * math.sqrt(rung.size / curvature)
    return share / (curvature if kernel in ("sgld", "rmsprop-sgld") else math.sqrt(curvature))


def bias(at_step: Rung, at_half: Rung) -> tuple[float, float]:
    """The bias at ε to first order, 2(λ̂(ε) − λ̂(ε/2)), and its standard error."""
    return 2 * (at_step.value - at_half.value), 2 * math.hypot(at_step.error, at_half.error)
