"""Which method computes the law of the curvature at time t?

| t | route | its error |
| --- | --- | --- |
| 0 and 1 | quadrature | a coarser grid |
| 2 to 40 | dynamical mean-field theory | seeds |
| beyond (not for wide networks) | gradient descent on decoupled labels | seeds, and a finite dimension |
| ∞ | the fixed point where there is one, else decoupled descent until the margin settles | node sets, or seeds |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from phasecast.core.errors import BadInput, OutsideRegime, Refused
from phasecast.core.results import Status
from phasecast.features.curvature.curvature_law import CurvatureLaw
from phasecast.features.curvature.decoupled import decoupled_blocks
from phasecast.features.curvature.dmft import dmft
from phasecast.features.curvature.fixed_point import FixedPoint, fixed_point
from phasecast.features.curvature.quadrature import initial_laws, one_step_laws, settled_laws
from phasecast.features.curvature.wide_dmft import wide_dmft
from phasecast.features.setting.network import Network, blocks
from phasecast.features.setting.target import Target

LONGEST_DMFT = 40  # steps; the time of the mean-field equations grows like their cube
UNITS = 16  # neurons of each kind that stand for a wide network
EXAMPLES = 6000  # of decoupled descent: the noise of a margin is theirs
DIMENSIONS = (100, 1000)  # of decoupled descent, least and most
LONG = (200, 400, 800)  # steps of decoupled descent that are compared for t → ∞

Laws = tuple[CurvatureLaw, ...]
"""One law for every different block of the Hessian."""


class Draw(NamedTuple):
    """Which draw of a random route, and how much work: ``effort`` scales the points, samples or dimensions."""

    seed: int = 0
    effort: float = 1.0


FIRST_DRAW = Draw()


class Route(ABC):
    """A way to the laws of all blocks. ``constant``: they are the same at every δ. ``random``: a seed matters."""

    name: ClassVar[str]
    constant: ClassVar[bool] = False
    random: ClassVar[bool] = True

    @abstractmethod
    def laws(self, delta: float, draw: Draw = FIRST_DRAW) -> Laws:
        """The laws at one δ; raises :class:`~phasecast.core.errors.Refused` where the route fails."""


@dataclass(frozen=True)
class StartRoute(Route):
    """t = 0, by quadrature."""

    network: Network
    target: Target

    name = "quadrature"
    constant = True
    random = False

    def laws(self, delta: float = 1.0, draw: Draw = FIRST_DRAW) -> Laws:
        return initial_laws(self.network, self.target, draw.effort)


@dataclass(frozen=True)
class FirstStepRoute(Route):
    """t = 1, by quadrature."""

    network: Network
    target: Target
    lr: float

    name = "quadrature"
    random = False

    def laws(self, delta: float, draw: Draw = FIRST_DRAW) -> Laws:
        return one_step_laws(self.network, self.target, self.lr, delta, draw.effort)


@dataclass(frozen=True)
class MeanFieldRoute(Route):
    """A few steps, by the equations of the limit."""

    network: Network
    target: Target
    lr: float
    time: int
    samples: int

    name = "dmft"

    def laws(self, delta: float, draw: Draw = FIRST_DRAW) -> Laws:
        samples = self.samples * draw.effort
        if self.network.width == "wide":
            fewer = max(round(samples / 8), 100)  # each carries all the units
            run = wide_dmft(
                self.network, self.target, delta, self.lr, self.time, samples=fewer, units=UNITS, seed=draw.seed
            )
        else:
            count = max(round(samples), 100)
            run = dmft(self.network, self.target, delta, self.lr, self.time, samples=count, seed=draw.seed)
        if run.status is Status.REFUSED:
            raise Refused(run.reasons[0])
        return tuple(run.law(self.time, block) for block in blocks(self.network))


@dataclass(frozen=True)
class DecoupledRoute(Route):
    """Many steps, by descent on decoupled labels; the laws are those of the last of the times."""

    network: Network
    target: Target
    lr: float
    times: tuple[int, ...]

    name = "decoupled"

    def laws(self, delta: float, draw: Draw = FIRST_DRAW) -> Laws:
        return self.laws_over_time(delta, draw)[-1]

    def laws_over_time(self, delta: float, draw: Draw = FIRST_DRAW) -> list[Laws]:
        """The laws of all blocks at each of the times."""
        dimension = int(np.clip(EXAMPLES * draw.effort / delta, *DIMENSIONS))
        return decoupled_blocks(
            self.network, self.target, delta, self.lr, self.times, dimension=dimension, seed=draw.seed
        )


@dataclass(frozen=True)
class FixedPointRoute(Route):
    """t = ∞ where descent settles at a fixed point."""

    network: Network
    target: Target

    name = "fixed-point"
    random = False

    def laws(self, delta: float, draw: Draw = FIRST_DRAW) -> Laws:
        laws = fixed_point_laws(self.network, self.target, delta, draw.effort)
        if laws is None:
            raise Refused(f"there is no fixed point at δ = {delta:g}", "use decoupled descent")
        return laws


def route_for(network: Network, target: Target, lr: float, time: float, samples: int) -> Route:
    """The route for time t; t = ∞ gives decoupled descent, :class:`FixedPointRoute` is the alternative."""
    if time == 0:
        return StartRoute(network, target)
    if time == 1:
        return FirstStepRoute(network, target, lr)
    if time <= LONGEST_DMFT:
        return MeanFieldRoute(network, target, lr, int(time), samples)
    if network.width == "wide":
        raise OutsideRegime(
            f"a wide network is known up to t = {LONGEST_DMFT}",
            f"use --time 0 to {LONGEST_DMFT}, or a width from 1 to 4",
        )
    return DecoupledRoute(network, target, lr, LONG if math.isinf(time) else (int(time),))


def check_time(time: float) -> float:
    """t as a number; bad input unless it is a number of steps or ∞."""
    if (
        isinstance(time, bool)
        or not isinstance(time, int | float)
        or not (time >= 0 and (time == math.inf or time % 1 == 0))
    ):
        raise BadInput(f"invalid time {time}", "use a number of steps, 0, 1, 2, …, or inf")
    return float(time)


def fixed_point_laws(network: Network, target: Target, delta: float, effort: float = 1.0) -> Laws | None:
    """The law at t = ∞ where descent settles on a convex slope; None where it does not or is not known to."""
    if network.size != 1 or network.width == "wide":
        return None
    end = _fixed_point(network, target, delta)
    if end.status is Status.REFUSED:
        return None
    return settled_laws(network, target, delta, float(end.alpha), float(end.q), end.overlap, effort)


@lru_cache(maxsize=128)
def _fixed_point(network: Network, target: Target, delta: float) -> FixedPoint:
    return fixed_point(network, target, delta, seeds=2)


def drawn(law: CurvatureLaw, count: int, seed: int) -> CurvatureLaw:
    """``count`` independent draws from a law, as in the Hessian of that many examples."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(law.G.size, size=count, p=law.weights)
    return CurvatureLaw(
        law.G[chosen], law.hard[chosen], route=law.route, time=law.time, delta=law.delta, block=law.block
    )
