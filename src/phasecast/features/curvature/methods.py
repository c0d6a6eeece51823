"""Which way to the law of the curvature, for a time t?

| t | route | its error |
| --- | --- | --- |
| 0 and 1 | quadrature | a coarser grid |
| 2 to 40 | dynamical mean-field theory | seeds |
| beyond (not for wide networks) | gradient descent on decoupled labels | seeds, and a finite dimension |
| ∞ | the fixed point where there is one, else decoupled descent until the margin settles | node sets, or seeds |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from phasecast.core.errors import BadInput, OutsideRegime, Refused
from phasecast.core.results import Status
from phasecast.features.curvature.curvature_law import CurvatureLaw
from phasecast.features.curvature.decoupled import decoupled
from phasecast.features.curvature.dmft import dmft
from phasecast.features.curvature.fixed_point import FixedPoint, fixed_point
from phasecast.features.curvature.quadrature import blocks, initial_laws, one_step_laws, settled_laws
from phasecast.features.curvature.wide_dmft import wide_dmft
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import Target

LONGEST_DMFT = 40
UNITS = 16  # neurons of each kind that stand for a wide network
EXAMPLES = 6000  # of decoupled descent: the noise of a margin is theirs
DIMENSIONS = (100, 1000)  # least and most
LONG = (200, 400, 800)  # steps at which decoupled descent is looked at for t → ∞

Laws = tuple[CurvatureLaw, ...]


@dataclass(frozen=True)
class Route:
    """How to get the laws of all blocks.

    ``laws(delta, seed, effort)`` computes them; for a route without randomness the seed is ignored. ``effort`` scales
    the number of points, samples or dimensions. ``fixed`` says that they are the same at every δ, ``random`` that a
    seed matters.
    """

    name: str
    laws: Callable[[float, int, float], Laws]
    fixed: bool = False
    random: bool = True


def route_for(network: Network, target: Target, lr: float, time: float, samples: int) -> Route:
    """The route for time t; t = ∞ gives decoupled descent, see :func:`fixed_point_laws` for the other way."""
    if time == 0:
        return Route("quadrature", lambda delta, seed, effort: initial_laws(network, target, effort), True, False)
    if time == 1:
        return Route(
            "quadrature", lambda delta, seed, effort: one_step_laws(network, target, lr, delta, effort), random=False
        )
    wide = network.width == "wide"
    if time <= LONGEST_DMFT:
        chosen = _wide if wide else _dmft
        return Route(
            "dmft", lambda delta, seed, effort: chosen(network, target, lr, time, delta, seed, samples * effort)
        )
    if wide:
        raise OutsideRegime(
            f"a wide network is known up to t = {LONGEST_DMFT}",
            f"use --time 0 to {LONGEST_DMFT}, or a width from 1 to 4",
        )
    times = LONG if math.isinf(time) else (int(time),)
    return Route(
        "decoupled",
        lambda delta, seed, effort: decoupled_laws(network, target, lr, times, delta, seed, effort)[-1],
    )


def check_time(time: float) -> float:
    """t as a number, if it is a step or the end."""
    if (
        isinstance(time, bool)
        or not isinstance(time, int | float)
        or not (time >= 0 and (time == math.inf or time % 1 == 0))
    ):
        raise BadInput(f"the time is {time}", "use a number of steps, 0, 1, 2, …, or inf")
    return float(time)


def _dmft(network: Network, target: Target, lr: float, time: float, delta: float, seed: int, samples: float) -> Laws:
    run = dmft(network, target, delta, lr, int(time), samples=max(round(samples), 100), seed=seed)
    if run.status is Status.REFUSED:
        raise Refused(run.reasons[0])
    return tuple(run.law(int(time), block) for block in blocks(network))


def _wide(network: Network, target: Target, lr: float, time: float, delta: float, seed: int, samples: float) -> Laws:
    fewer = max(round(samples / 8), 100)  # each carries all the units
    run = wide_dmft(network, target, delta, lr, int(time), samples=fewer, units=UNITS, seed=seed)
    if run.status is Status.REFUSED:
        raise Refused(run.reasons[0])
    return tuple(run.law(int(time), block) for block in blocks(network))


def decoupled_laws(
    network: Network, target: Target, lr: float, times: tuple[int, ...], delta: float, seed: int, effort: float = 1.0
) -> list[Laws]:
    """The laws of all blocks at each of the times, by decoupled descent."""
    dimension = int(np.clip(EXAMPLES * effort / delta, *DIMENSIONS))
    found = [
        decoupled(network, target, delta, lr, times, dimension=dimension, seed=seed, block=block)
        for block in blocks(network)
    ]
    return list(zip(*found, strict=True))


def fixed_point_laws(network: Network, target: Target, delta: float, effort: float = 1.0) -> Laws | None:
    """The law at t = ∞ where descent settles on a convex slope; None where it does not or is not known to."""
    if network.size != 1 or network.width == "wide":
        return None
    found = _fixed_point(network, target, delta)
    if found.status is Status.REFUSED:
        return None
    alpha, q = float(found.alpha.estimate), float(found.q.estimate)  # pyright: ignore[reportArgumentType]
    return settled_laws(network, target, delta, alpha, q, found.overlap, effort)


@lru_cache(maxsize=128)
def _fixed_point(network: Network, target: Target, delta: float) -> FixedPoint:
    return fixed_point(network, target, delta, seeds=2)


def drawn(law: CurvatureLaw, count: int, seed: int) -> CurvatureLaw:
    """``count`` independent draws from a law: what a Hessian of that many examples is made of."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(law.G.size, size=count, p=law.weights)
    return CurvatureLaw(
        law.G[chosen], law.hard[chosen], route=law.route, time=law.time, delta=law.delta, block=law.block
    )
