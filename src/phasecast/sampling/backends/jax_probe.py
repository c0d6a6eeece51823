"""Can this loss be sampled? A few evaluations that tell, before any chain moves.

A loss must be a function: the same number twice at the same point. It must be traceable by JAX, depend on the
parameters, and have a gradient that is its own: difference quotients tell ``stop_gradient`` from a slope.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from phasecast.core.errors import BadInput, PhasecastError, UserCodeFailed
from phasecast.core.policy import Policy, rule
from phasecast.sampling.kernels.kernel import Array


@dataclass(frozen=True)
class ProbePolicy(Policy):
    """What counts as the same number, and as another slope."""

    places: float = rule(0.01, "chosen: distance of the probes over the size of a parameter, where losses are smooth")
    far: float = rule(1.0, "chosen: a loss that is the same at w*, nearby and at this distance does not move")
    step: float = rule(1e-4, "over the distance: the cubic term is below 1e-8, rounding in float64 below 1e-6")
    directions: int = rule(3, "chosen: a kink may lie across one of them")
    disagree: int = rule(2, "the majority of the directions")
    same: float = rule(1e-6, "rounding of sums in another order, with room")
    slope_off: float = rule(0.25, "chosen: far above what curvature does to a quotient of this step")
    rounding: float = rule(1e4, "units of rounding of the loss that a quotient may hold")
    largest: float = rule(1e100, "its square, and nβ times it, must be finite numbers")
    smallest: float = rule(1e-100, "its square must not vanish")


POLICY = ProbePolicy()


@contextmanager
def explaining() -> Iterator[None]:
    """Turn what the user's loss raises into one sentence."""
    try:
        yield
    except PhasecastError:
        raise
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
        raise BadInput(
            f"the loss uses if, float() or NumPy on a value that JAX traces{_line(error)}",
            "write it with jax.numpy, with jnp.where instead of if",
        ) from error
    except (Exception, SystemExit) as error:
        words = " ".join(str(error).split())[:200]
        raise UserCodeFailed(
            f"the loss raised {type(error).__name__}: {words}{_line(error)}",
            "give loss(params, data), or loss(params) without data, that returns one number",
        ) from error


def check_value(value: object) -> None:
    """Refuse what is not one real number."""
    if value is None or isinstance(value, str | bytes):
        raise BadInput(f"the loss returned {'None' if value is None else 'a text'}", "return one number")
    if jnp.shape(value) != ():  # pyright: ignore[reportArgumentType]
        raise BadInput(
            f"the loss has shape {jnp.shape(value)}",  # pyright: ignore[reportArgumentType]
            "return one number, the mean over the rows",
        )
    if jnp.iscomplexobj(value):
        raise BadInput("the loss is a complex number", "return a real one")


def probe(
    loss_at: Callable[[Array], Array],
    evaluate: Callable[[np.ndarray], tuple[float, np.ndarray]],
    centre: np.ndarray,
    policy: ProbePolicy = POLICY,
) -> None:
    """Refuse a loss that chains cannot sample; in float64.

    ``loss_at`` is the loss as a function of the offset from w*, to be traced, and ``evaluate`` its value and gradient,
    compiled.
    """
    draw = np.random.default_rng(0)
    size = float(np.sqrt(np.mean(np.square(centre)))) or 1.0
    length = policy.places * size
    start = length * draw.normal(size=centre.shape)

    def value(offset: np.ndarray) -> float:
        return evaluate(offset)[0]

    zero = np.zeros(centre.shape)
    with explaining():
        traces = [jax.make_jaxpr(lambda offset: loss_at(offset))(zero) for _ in range(2)]
        here, (near, slope) = value(zero), evaluate(start)
    if not _equal(*traces) or any(not _same(first, value(at), policy) for first, at in ((here, zero), (near, start))):
        raise BadInput(
            "the loss gives another number at the same parameters", "draw random numbers once, outside the loss"
        )
    if not np.isfinite([here, near]).all():
        return
    scale = max(abs(here), abs(near - here))
    if scale > policy.largest or 0 < scale < policy.smallest:
        raise BadInput(f"the loss is of size {scale:.0e}", "multiply it by a constant that makes it of order one")
    far = value(policy.far * size * draw.normal(size=centre.shape))
    if here == near == far and not slope.any():
        raise BadInput("the loss does not depend on the parameters that move", "check the loss, params and only")
    step, disagreeing = policy.step * length, 0
    rounding = policy.rounding * np.finfo(float).eps * max(abs(here), abs(near)) / step
    for _ in range(policy.directions):
        direction = draw.normal(size=centre.shape)
        quotient = (value(start + step * direction) - value(start - step * direction)) / (2 * step)
        expected = float(slope @ direction)
        off = abs(quotient - expected)
        disagreeing += bool(off > rounding and off > policy.slope_off * max(abs(quotient), abs(expected)))
    if disagreeing >= policy.disagree:
        raise BadInput(
            "the gradient of the loss is not its own: finite differences disagree with jax.grad",
            "remove stop_gradient, rounding and straight-through estimators from the loss",
        )


def _equal(first: jax.extend.core.ClosedJaxpr, second: jax.extend.core.ClosedJaxpr) -> bool:
    """Whether tracing a loss twice gave one program: random numbers of NumPy are constants in it."""
    constants = zip(first.consts, second.consts, strict=False)
    return str(first.jaxpr) == str(second.jaxpr) and all(
        one is other or np.array_equal(one, other, equal_nan=True) for one, other in constants
    )


def _same(first: float, second: float, policy: ProbePolicy) -> bool:
    both_odd = not np.isfinite(first) and not np.isfinite(second)
    return both_odd or abs(first - second) <= policy.same * max(abs(first), abs(second))


def _line(error: BaseException) -> str:
    """Where in the user's own code it happened: the last line outside of installed packages and of phasecast."""
    from pathlib import Path

    from phasecast.core.user_code import is_installed

    frames: list[Any] = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.endswith(".py") and not is_installed(Path(frame.filename))]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
