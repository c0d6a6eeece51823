"""Can this loss be sampled? A few evaluations that tell, before any chain moves, on every back-end.

A loss must be a function: the same number twice at the same point. It must depend on the parameters, and its gradient
must be its own: difference quotients tell a slope from ``stop_gradient`` or ``detach``. In float64 they are taken along
random directions near w* and, because a loss that rounds its parameters is flat there, farther away. In float32
rounding hides most of those, so that a second set is taken along the gradient itself, where a quotient is largest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule

Value = Callable[[np.ndarray], float]
Slope = Callable[[np.ndarray], np.ndarray]

SUMMED = (
    "the loss doubles when every row is given twice, so it is a sum over rows, not a mean: "
    "use reduction='mean', or give the nbeta that you mean"
)
FEW = 256
"""Rows that tell as much as all of them, and are cheap beside one gradient of all."""


@dataclass(frozen=True)
class ProbePolicy(Policy):
    """What counts as the same number, and as another slope."""

    places: float = rule(0.01, "chosen: distance of the probes over the size of a parameter, where losses are smooth")
    places_single: float = rule(0.1, "the same in float32: farther, because rounding hides what is nearer")
    far: float = rule(1.0, "chosen: a loss that is the same at w*, nearby and at this distance does not move")
    farther: float = rule(10.0, "chosen: a loss that is lower still at this distance has no minimum near w*")
    closest: float = rule(1e-2, "chosen: over the distance of the probes; chains of any use go farther than this")
    step: float = rule(1e-4, "over the distance: the cubic term is below 1e-8, rounding in float64 below 1e-6")
    step_single: float = rule(0.03, "the same in float32: rounding is 1e-5 of it, the cubic term of r¹⁶ 3%")
    shorter: float = rule(
        8.0,
        "chosen: a quotient counts that a step 8 times shorter confirms; along its gradient a CNN on digits is off by "
        "up to four times the slope at the first step, by up to 5% at the second",
    )
    confirmed: float = rule(0.1, "chosen: what two steps may differ by, beyond rounding; well below slope_off")
    directions: int = rule(3, "chosen: a kink may lie across one of them")
    disagree: int = rule(2, "the majority of the directions")
    same: float = rule(1e-6, "rounding of sums in another order, with room")
    same_single: float = rule(1e-5, "the same in float32: about a hundred units of rounding")
    slope_off: float = rule(0.25, "chosen: far above what curvature does to a quotient of this step")
    rounding: float = rule(1e4, "units of rounding of the loss that a quotient may hold")
    rounding_single: float = rule(100, "the same in float32; sums over rows and layers leave fewer than ten")
    largest: float = rule(1e100, "its square, and nβ times it, must be finite numbers")
    largest_single: float = rule(1e16, "the same in float32")
    smallest: float = rule(1e-100, "its square must not vanish")
    smallest_single: float = rule(1e-16, "the same in float32")


POLICY = ProbePolicy()


def probe(value: Value, slope: Slope, centre: np.ndarray, *, double: bool, policy: ProbePolicy = POLICY) -> None:
    """Refuse a loss, as a function of the offset from w*, that chains cannot sample."""
    draw = np.random.default_rng(0)
    size = float(np.sqrt(np.mean(np.square(centre)))) or 1.0
    length = size * (policy.places if double else policy.places_single)
    start, zero = length * draw.normal(size=centre.shape), np.zeros(centre.shape)
    here, near = value(zero), value(start)
    same = policy.same if double else policy.same_single
    if any(not _same(first, value(place), same) for first, place in ((here, zero), (near, start))):
        raise BadInput(
            "the loss gives another number at the same parameters",
            "draw random numbers once, outside the loss, and keep no state in it",
        )
    if not np.isfinite([here, near]).all():
        _refuse_walls(value, draw.normal(size=(policy.directions, *centre.shape)), length, policy)
        return
    scale = max(abs(here), abs(near - here))
    least = policy.smallest if double else policy.smallest_single
    most = policy.largest if double else policy.largest_single
    if scale > most or 0 < scale < least:
        raise BadInput(f"the loss is of size {scale:.0e}", "multiply it by a constant that makes it of order one")
    first = slope(start)
    away = policy.far * size * draw.normal(size=centre.shape)
    far = value(away)
    if here == near == far and not first.any():
        raise BadInput("the loss does not depend on the parameters that move", "check the loss, params and only")
    if far < near < here and all(
        value(sign * policy.farther * size * direction) < far
        for direction in draw.normal(size=(policy.directions, *centre.shape))
        for sign in (1, -1)
    ):
        raise BadInput(
            "the loss falls in every direction away from params, the farther the more",
            "check its sign, and give parameters at a minimum",
        )
    step = length * (policy.step if double else policy.step_single)
    units = policy.rounding if double else policy.rounding_single
    unit = units * float(np.finfo(np.float64 if double else np.float32).eps)

    def is_foreign(place: np.ndarray, gradient: np.ndarray, direction: np.ndarray) -> bool:
        """Whether a difference quotient that a shorter step confirms is not what the gradient says, beyond rounding."""
        expected, rounding = float(np.sum(gradient * direction)), unit * max(abs(here), abs(value(place)))

        def quotient(h: float) -> float:
            return (value(place + h * direction) - value(place - h * direction)) / (2 * h)

        def apart(one: float, other: float, share: float, h: float) -> bool:
            return bool(abs(one - other) > max(rounding / h, share * max(abs(one), abs(other))))

        h, found = step, quotient(step)
        for _ in range(2):
            if not apart(found, expected, policy.slope_off, h):
                return False
            before, h = found, h / policy.shorter
            found = quotient(h)
            if not apart(before, found, policy.confirmed, h):
                return True
        return False

    votes = [sum(is_foreign(start, first, draw.normal(size=centre.shape)) for _ in range(policy.directions))]
    if double and np.isfinite(far) and np.isfinite(there := slope(away)).all():
        votes.append(sum(is_foreign(away, there, draw.normal(size=centre.shape)) for _ in range(policy.directions)))
    if not double:
        places = [start, *(length * draw.normal(size=centre.shape) for _ in range(policy.directions - 1))]
        gradients = [first, *(slope(place) for place in places[1:])]
        pairs = zip(places, gradients, strict=True)
        votes.append(sum(is_foreign(place, gradient, _as_long(gradient)) for place, gradient in pairs))
    if max(votes) >= policy.disagree:
        raise BadInput(
            "the gradient of the loss is not its own: finite differences disagree with it",
            "remove stop_gradient, detach, rounding and straight-through estimators from the loss",
        )


def _refuse_walls(value: Value, directions: np.ndarray, length: float, policy: ProbePolicy) -> None:
    """Refuse a loss that is not finite anywhere around w*; one that has walls on some sides can be sampled."""
    closest = policy.closest * length
    if not any(np.isfinite(value(sign * closest * direction)) for direction in directions for sign in (1, -1)):
        raise BadInput(
            f"the loss is not finite anywhere around params, not even at a distance of {closest:.0e}",
            "give a loss that is finite in a neighbourhood",
        )


def _as_long(slope: np.ndarray) -> np.ndarray:
    """The direction of a gradient, as long as a random one; zero if it vanishes."""
    length = float(np.sqrt(np.sum(slope**2)))
    return slope * (np.sqrt(slope.size) / length) if 0 < length < np.inf else np.zeros_like(slope)


def _same(first: float, second: float, relative: float) -> bool:
    both_odd = not np.isfinite(first) and not np.isfinite(second)
    return both_odd or abs(first - second) <= relative * max(abs(first), abs(second))
