"""At which temperature does SGD sample? The noise of minibatches around a minimum, as T in exp(−L/T).

A step is w ← w − η ∇L_B, with the mean loss L_B over B of n rows drawn without replacement. Its noise has covariance

.. math:: V = \\frac{n - B}{B(n - 1)}\\,C, \\qquad C = \\frac1n \\sum_i (g_i - \\bar g)(g_i - \\bar g)^\\top

and around a minimum with Hessian H the stationary covariance Σ of w solves, to first order in η,
:math:`H\\Sigma + \\Sigma H = \\eta V`. Its trace says what the mean loss is, whatever H is:

.. math:: E[L] - L^* = \\tfrac12 \\operatorname{tr} H\\Sigma = \\tfrac\\eta4 \\operatorname{tr} V = \\tfrac{d}{2} T,
          \\qquad T = \\frac{\\eta}{2}\\,\\frac{n - B}{B(n - 1)}\\,\\frac{\\operatorname{tr} C}{d}

exp(−L/T) would have Σ = T/H, which needs V = 2T/η · 1. So SGD has one temperature only where its noise is the same in
all directions. In well-specified regression C = σ²H, and it is Σ that is the same in all directions.
(Cullen et al. 2026, appendix C, corrected; the argument is that of Mandt et al. 2017.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.precision import float64
from phasecast.core.problem import Problem
from phasecast.core.results import Measurement, Status

MOST_PARAMETERS = 2000  # the Hessian is held as a matrix
FLAT = 1e-9  # of the largest curvature: below, a direction counts as flat
SMALL_NOISE = 1e-6  # of all noise, in flat directions
LARGE_GAP = 0.2  # of the mean excess loss
LARGE_SPREAD = 0.5  # standard deviation of the directions' temperatures over their mean
LARGE_CHANGE = 0.2  # of T, by terms of higher order in the step
DRAWS = 16  # pairs of points at which the noise is looked at again
ROUNDING = 1e-12  # of a loss in double precision


def sgd_temperature(loss: Callable[..., Any], params: Any, data: Any, lr: float, batch: int) -> Measurement:
    """The temperature of SGD around a minimum: T with E[L] − L* = T·d/2, and how far SGD is from exp(−L/T).

    Parameters
    ----------
    loss: ``loss(params, data)``, the *mean* over the rows of ``data``.
    params: a minimum of it.
    lr, batch: the step η and the B rows of a minibatch, drawn without replacement at each step.

    d counts the directions in which the loss is curved. The error is the size of what is left out: terms of higher
    order in η, and the change of the noise over the places SGD visits. The diagnostics hold nβ = 1/T, the inverse
    temperature of :func:`phasecast.llc`, and the lowest and highest temperature of a direction. Where these differ much
    there is a warning: T still says what the mean loss is, but not how far each direction spreads.

    >>> x = np.array([-1.0, 1.0, -1.0, 1.0])
    >>> found = sgd_temperature(lambda w, x: ((w - x) ** 2).mean() / 2, np.zeros(1), x, lr=0.01, batch=2)
    >>> round(found.value, 12), round(0.01 / 2 * (4 - 2) / (2 * 3), 12)  # C = 1
    (0.001666666667, 0.001666666667)
    """
    problem = Problem(loss, params, data)
    if problem.data is None or problem.n is None or problem.n < 2:
        raise BadInput("there are no rows to make minibatches of", "give data with at least two rows")
    n, batch = problem.n, whole_number("batch", batch, 1)
    if batch > n:
        raise BadInput(f"a batch of {batch} of {n} rows", f"choose batch ≤ {n}")
    if not (isinstance(lr, int | float | np.number) and 0 < lr < math.inf):
        raise BadInput(f"lr is {lr!r}", "give a positive number")
    slopes, hessian, gradients_at = _derivatives(problem)
    share = (n - batch) / (batch * (n - 1))
    curvatures, directions = np.linalg.eigh(hessian)
    curved = curvatures > FLAT * abs(curvatures).max()
    h, inside, outside = curvatures[curved], directions[:, curved], directions[:, ~curved]
    noise = share * _covariance(slopes @ inside)
    T = lr / 2 * float(np.trace(noise)) / max(1, len(h))
    temperatures = np.linalg.eigvalsh(lr / 2 * noise) if len(h) else np.zeros(1)
    refused, warned = [], []
    if curvatures[0] < -FLAT * abs(curvatures).max() or not len(h):
        refused.append(f"the loss has curvature {curvatures[0]:.3g} at params, so this is no minimum: train further")
    leaking = share * float(np.trace(_covariance(slopes @ outside)))
    if leaking > SMALL_NOISE * (leaking + float(np.trace(noise))):
        refused.append("there is noise in directions where the loss is flat, and SGD diffuses there: add an L2 term")
    gap = float(np.sum((slopes.mean(0) @ inside) ** 2 / h)) / 2
    if gap > max(LARGE_GAP * T * len(h) / 2, ROUNDING):
        refused.append(f"params is {gap:.3g} above the minimum and SGD only {T * len(h) / 2:.3g}: train further")
    if len(h) and lr * h[-1] >= 2:
        refused.append(f"SGD is unstable here: the largest curvature is {h[-1]:.3g}; choose lr < {2 / h[-1]:.3g}")
    error = math.inf
    if not refused:
        longer = lr / 2 * float(np.sum(np.diag(noise) / (1 - lr * h / 2))) / len(h) - T
        spread = lr * noise / (h[:, None] + h)
        error = longer + lr / 2 * share * abs(_change_of_noise(gradients_at, inside, spread)) / len(h)
        if error > LARGE_CHANGE * T:
            warned.append(f"terms of higher order in lr change T by about {error / T:.0%}: it holds for smaller steps")
    scatter = float(temperatures.std()) / T if T else 0.0
    if scatter > LARGE_SPREAD:
        warned.append(
            f"directions have temperatures from {temperatures[0]:.3g} to {temperatures[-1]:.3g}: T is that of the mean "
            "loss, and SGD does not sample exp(−L/T)"
        )
    return Measurement(
        T,
        error,
        Status.REFUSED if refused else Status.WARNING if warned else Status.OK,
        {
            "nβ": 1 / T if T else math.inf,
            "lowest": max(0.0, float(temperatures[0])),
            "highest": float(temperatures[-1]),
            "scatter": scatter,
            "directions": len(h),
        },
        error_kind="quadrature",
        reasons=refused + warned,
        name="temperature of SGD",
    )


def _derivatives(problem: Problem) -> tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Gradients of each row (rows, size) and the Hessian at w*, and the former as a function of the offset from w*."""
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    with float64():
        data = jax.tree.map(_double, problem.data)
        flat, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, float), problem.params))
        if flat.size > MOST_PARAMETERS:
            raise BadInput(f"{flat.size} parameters have too large a Hessian", f"give at most {MOST_PARAMETERS}")

        def of_row(flat: Any, row: Any) -> Any:
            return problem.loss(unravel(flat), jax.tree.map(lambda leaf: leaf[None], row))

        rows = jax.jit(jax.vmap(jax.grad(of_row), (None, 0)))
        slopes = np.asarray(rows(flat, data))
        hessian = np.asarray(jax.hessian(lambda flat: problem.loss(unravel(flat), data))(flat))
        mean = np.asarray(jax.grad(lambda flat: problem.loss(unravel(flat), data))(flat))
    if not (np.all(np.isfinite(slopes)) and np.all(np.isfinite(hessian))):
        raise BadInput("the loss has derivatives that are not finite", "give a loss that is smooth at params")
    if not np.allclose(mean, slopes.mean(0), rtol=1e-6, atol=1e-9 * max(1e-300, abs(slopes).max())):
        raise BadInput("the loss is not the mean of the losses of its rows", "give loss(params, data) as such a mean")

    def gradients_at(offset: np.ndarray) -> np.ndarray:
        with float64():
            return np.asarray(rows(flat + offset, data))

    return slopes, (hessian + hessian.T) / 2, gradients_at


def _double(leaf: Any) -> Any:
    """An array, its real numbers in double precision; integers stay."""
    import jax.numpy as jnp

    leaf = jnp.asarray(leaf)
    return leaf.astype(float) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf


def _covariance(slopes: np.ndarray) -> np.ndarray:
    centred = slopes - slopes.mean(0)
    return centred.T @ centred / len(slopes)


def _change_of_noise(gradients_at: Callable[..., np.ndarray], inside: np.ndarray, spread: np.ndarray) -> float:
    """How much larger tr C is on average over the places that SGD visits, Gaussian around w*, than at w*."""
    values, vectors = np.linalg.eigh(spread)
    root = inside @ vectors * np.sqrt(np.maximum(values, 0))
    offsets = np.random.default_rng(0).standard_normal((DRAWS, len(values))) @ root.T

    def noise(offset: np.ndarray) -> float:
        return float(np.sum(np.var(gradients_at(offset) @ inside, axis=0)))

    return float(np.mean([noise(offset) + noise(-offset) for offset in offsets])) / 2 - noise(np.zeros(len(inside)))
