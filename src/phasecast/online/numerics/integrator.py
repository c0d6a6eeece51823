"""How are the order-parameter equations integrated? Tsitouras' Runge-Kutta pair 5(4), many starts at once.

.. math:: y_{t+h} = y_t + h\\sum_i b_i k_i, \\qquad k_i = f\\Big(y_t + h\\sum_{j<i} a_{ij} k_j\\Big), \\qquad
          h \\to 0.9\\, h\\, |\\mathrm{error}|^{-1/5}

Written here because a cold ``phasecast curve`` spent three quarters of its time on importing, tracing and compiling a
general solver. The right-hand side does not depend on time and appears once in the loop over stages, so that the
compiled program is small. ``tests/truth/test_online_integrator.py`` compares it with diffrax and measures its order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from phasecast.core.types import Array

STAGES = 7  # of the pair; the last is the first of the next step
A = np.zeros((STAGES, STAGES))
A[1, :1] = 0.161  # Tsitouras 2011
A[2, :2] = -0.008480655492356989, 0.335480655492357  # Tsitouras 2011
A[3, :3] = 2.8971530571054935, -6.359448489975075, 4.3622954328695815  # Tsitouras 2011
A[4, :4] = 5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525  # Tsitouras 2011
A[5, :5] = (
    5.86145544294642,
    -12.92096931784711,
    8.159367898576159,
    -0.071584973281401,
    -0.028269050394068383,
)  # Tsitouras 2011
A[6, :6] = (
    0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081, 2.324710524099774,
)  # fmt: skip
"""Stage i is evaluated at y + h Σ_j A_ij k_j. The last stage is at the new y, so its row is also b (Tsitouras 2011)."""

ERROR = np.array([
    0.0017800110522257773, 0.0008164344596567463, -0.007880878010261994, 0.1447110071732629, -0.5823571654525552,
    0.45808210592918686, -1 / 66,
])  # fmt: skip
"""b less the weights of the embedded formula of fourth order."""

INTERPOLATION = np.array([
    [1.0, -2.763706197274826, 2.9132554618219126, -1.0530884977290216],
    [0.0, 0.1317, -0.2234, 0.1017],
    [0.0, 3.9302962368947516, -5.941033872131505, 2.490627285651253],
    [0.0, -12.411077166933676, 30.33818863028232, -16.548102889244902],
    [0.0, 37.50931341651104, -88.1789048947664, 47.37952196281928],
    [0.0, -27.896526289197286, 65.09189467479366, -34.87065786149661],
    [0.0, 1.5, -4.0, 2.5],
])  # fmt: skip
"""Within a step y(t + θh) = y + h Σ_i k_i Σ_p INTERPOLATION_ip θ^p, p from 1, of fourth order (Tsitouras 2011)."""

ORDER = 5  # of the formula that is used; the embedded one has 4
SAFETY, SMALLEST_FACTOR, LARGEST_FACTOR = 0.9, 0.2, 10.0
"""Of the step control; the usual choices (Hairer, Nørsett & Wanner, section II.4)."""
FIRST_STEP = 0.01  # of α; as in diffrax, and corrected by the step control at once


class Integration(NamedTuple):
    """What was observed on the grid, the last state, the steps, and whether the end was reached; one row per start."""

    observed: tuple[Array, ...]
    y: Array
    steps: Array
    success: Array


class Control(NamedTuple):
    """Tolerances, the step to use without error control (0 with it), the shortest step, and the most steps."""

    rtol: Array
    atol: Array
    fixed: Array
    shortest: Array
    most: Array


class Beginning(NamedTuple):
    """The states at 0, their slopes, what is observed there, and the first step; one row per start."""

    y: Array
    slope: Array
    observed: tuple[Array, ...]
    h: Array


class _Loop(NamedTuple):
    t: Array
    h: Array
    y: Array
    slope: Array
    seen: Array
    observed: tuple[Array, ...]
    steps: Array
    stuck: Array


def integrate(
    slope: Callable[[Array], Array],
    observe: Callable[[Array], tuple[Array, ...]],
    start: Beginning,
    grid: Array,
    control: Control,
) -> Integration:
    """Integrate y' = slope(y) for states of shape (starts, n) from 0 to the end of ``grid``, to be called in ``jit``.

    Every start has its own steps. ``observe`` takes states like ``slope`` and returns arrays with one row per start;
    what was not reached is infinite.
    """
    starts, end, points = len(start.y), grid[-1], len(grid)
    nearly = end - control.shortest  # a last step that is shorter is part of the step before it
    lanes = np.arange(starts)
    initial = jnp.sum(grid <= 0)

    def on_grid(part: Array) -> Array:
        known = (grid <= 0).reshape(1, points, *[1] * (part.ndim - 1))
        return jnp.where(known, part[:, None], jnp.inf)

    def unfinished(now: _Loop) -> Array:
        return (now.t < end) & ~now.stuck & (now.steps < control.most)

    def save(now: _Loop, until: Array, active: Array, stages: Array) -> tuple[Array, tuple[Array, ...]]:
        """Observe at the points of the grid within the steps just accepted."""

        def due(seen: Array) -> Array:
            return active & (seen < points) & (grid[jnp.minimum(seen, points - 1)] <= until)

        def body(carry: tuple[Array, tuple[Array, ...]]) -> tuple[Array, tuple[Array, ...]]:
            seen, observed = carry
            at = jnp.minimum(seen, points - 1)
            theta = (grid[at] - now.t) / now.h
            powers = theta[:, None] ** np.arange(1, 5)
            weights = now.h[:, None] * (powers @ INTERPOLATION.T)
            parts = observe(now.y + jnp.einsum("si,isn->sn", weights, stages))
            new = due(seen)
            kept = tuple(
                whole.at[lanes, at].set(jnp.where(new.reshape(-1, *[1] * (part.ndim - 1)), part, whole[lanes, at]))
                for whole, part in zip(map(jnp.asarray, observed), parts, strict=True)
            )
            return seen + new, kept

        return jax.lax.while_loop(lambda carry: jnp.any(due(carry[0])), body, (now.seen, now.observed))

    def step(now: _Loop) -> _Loop:
        active = unfinished(now)
        h = now.h[:, None]

        def stage(i: Array, stages: Array) -> Array:
            at = now.y + h * jnp.tensordot(jnp.asarray(A)[i], stages, axes=1)
            return jnp.asarray(stages).at[i].set(slope(at))

        stages = jnp.zeros((STAGES, *now.y.shape), now.y.dtype).at[0].set(now.slope)
        stages = jax.lax.fori_loop(1, STAGES, stage, stages)
        y = now.y + h * jnp.tensordot(A[-1], stages, axes=1)
        scale = control.atol + control.rtol * jnp.maximum(jnp.abs(now.y), jnp.abs(y))
        error = _rms(h * jnp.tensordot(ERROR, stages, axes=1) / scale)
        error = jnp.where(jnp.isfinite(error), error, jnp.inf)
        fixed = control.fixed > 0
        accepted = active & (fixed | (error < 1))
        smallest = jnp.where(accepted, 1.0, SMALLEST_FACTOR)
        largest = jnp.where(accepted, LARGEST_FACTOR, SAFETY)
        factor = jnp.where(fixed, 1.0, jnp.clip(SAFETY * error ** (-1 / ORDER), smallest, largest))
        proposed = jnp.where(fixed, control.fixed, now.h * factor)
        reached = now.t + now.h
        reached = jnp.where(reached > nearly, end, reached)
        seen, observed = save(now, reached, accepted, stages)
        t = jnp.where(accepted, reached, now.t)
        late = t + proposed > nearly
        clipped = jnp.where(late, jnp.where(accepted, end - t, (end - t) / 2), proposed)
        return _Loop(
            t,
            jnp.where(active, clipped, now.h),
            jnp.where(accepted[:, None], y, now.y),
            jnp.where(accepted[:, None], stages[-1], now.slope),
            seen,
            observed,
            now.steps + active,
            now.stuck | (active & ~fixed & (proposed < control.shortest)),
        )

    loop = _Loop(
        jnp.zeros(starts, start.y.dtype),
        jnp.where(start.h > nearly, end, start.h),
        start.y,
        start.slope,
        jnp.broadcast_to(initial, (starts,)),
        tuple(on_grid(part) for part in start.observed),
        jnp.zeros(starts, int),
        jnp.zeros(starts, bool),
    )
    last = jax.lax.while_loop(lambda now: jnp.any(unfinished(now)), step, loop)
    return Integration(last.observed, last.y, last.steps, last.t >= end)


def begin(
    slope: Callable[[Array], Array],
    observe: Callable[[Array], tuple[Array, ...]],
    y: np.ndarray,
    control: Control,
) -> Beginning:
    """Where the integration starts, in NumPy: what is evaluated once need not be compiled."""
    return Beginning(y, slope(y), observe(y), np.full(len(y), control.fixed if control.fixed > 0 else FIRST_STEP))


def _rms(parts: Array) -> Array:
    """Root mean square of each row."""
    return jnp.sqrt(jnp.mean(parts**2, axis=1))
