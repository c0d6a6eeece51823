"""At which temperature does SGD sample? The noise of minibatches around a minimum, as T in exp(−L/T).

A step is w ← w − η ∇L_B, with the mean loss L_B over B of n rows drawn without replacement. Its noise has covariance

.. math:: V = \\frac{n - B}{B(n - 1)}\\,C, \\qquad C = \\frac1n \\sum_i (g_i - \\bar g)(g_i - \\bar g)^\\top

and around a minimum with Hessian H the stationary covariance Σ of w solves, to first order in η,
:math:`H\\Sigma + \\Sigma H = \\eta V`. Its trace gives the mean loss, for any H:

.. math:: E[L] - L^* = \\tfrac12 \\operatorname{tr} H\\Sigma = \\tfrac\\eta4 \\operatorname{tr} V = \\tfrac{d}{2} T,
          \\qquad T = \\frac{\\eta}{2}\\,\\frac{n - B}{B(n - 1)}\\,\\frac{\\operatorname{tr} C}{d}

exp(−L/T) would have Σ = T/H, which needs V = 2T/η · 1. So SGD has one temperature only if its noise is the same in
all directions. In well-specified regression C = σ²H, and it is Σ that is the same in all directions.
(Cullen et al. 2026, appendix C, corrected; the argument is that of Mandt et al. 2017.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.policy import Policy, rule
from phasecast.core.precision import float64
from phasecast.core.problem import Problem
from phasecast.core.results import Measurement, Status
from phasecast.core.types import Array, PyTree

MOST_PARAMETERS = 2000  # the Hessian is held as a matrix, 32 MB
DRAWS = 16  # pairs of points at which the noise is computed again; chosen, not derived
ROUNDING = 1e-12  # of a loss in double precision


@dataclass(frozen=True)
class SgdTemperaturePolicy(Policy):
    """When does SGD have a temperature?"""

    flat: float = rule(1e-9, "share of the largest curvature below which a direction is flat: rounding of the Hessian")
    small_noise: float = rule(1e-6, "largest share of all noise in flat directions; chosen: rounding, not derived")
    large_gap: float = rule(
        0.2, "of the mean excess loss: largest distance of params above the minimum; chosen, not derived"
    )
    large_spread: float = rule(
        0.5, "standard deviation of the temperatures of the directions over their mean; chosen, not derived"
    )
    large_change: float = rule(0.2, "of T, by terms of higher order in the step; chosen, not derived")


POLICY = SgdTemperaturePolicy()


def sgd_temperature(
    loss: Callable[[PyTree, PyTree], Array], params: PyTree, data: PyTree, lr: float, batch: int
) -> Measurement:
    """The temperature of SGD around a minimum: T with E[L] − L* = T·d/2, and how far SGD is from exp(−L/T).

    Parameters
    ----------
    loss: ``loss(params, data)``, the *mean* over the rows of ``data``.
    params: a minimum of it.
    lr, batch: the step η and the B rows of a minibatch, drawn without replacement at each step.

    d counts the directions in which the loss is curved. The error is the size of the neglected terms: those of higher
    order in η, and the change of the noise over the region that SGD visits. The diagnostics hold nβ = 1/T, the inverse
    temperature of :func:`phasecast.llc`, and the lowest and highest temperature of a direction. If these differ much
    there is a warning: T is still that of the mean loss, but does not say how far each direction spreads.

    >>> x = np.array([-1.0, 1.0, -1.0, 1.0])
    >>> temperature = sgd_temperature(lambda w, x: ((w - x) ** 2).mean() / 2, np.zeros(1), x, lr=0.01, batch=2)
    >>> round(temperature.value, 12), round(0.01 / 2 * (4 - 2) / (2 * 3), 12)  # C = 1
    (0.001666666667, 0.001666666667)
    """
    problem = Problem(loss, params, data)
    n, batch = _checked(problem, lr, batch)
    share = (n - batch) / (batch * (n - 1))
    minimum = _Minimum.of(problem, share)
    T = lr / 2 * float(np.trace(minimum.noise)) / max(1, minimum.size)
    temperatures = np.linalg.eigvalsh(lr / 2 * minimum.noise) if minimum.size else np.zeros(1)
    refusals, warnings, error = minimum.problems(lr, T), [], math.inf
    if not refusals:
        error = minimum.neglected(lr, share, T)
        if error > POLICY.large_change * T:
            warnings.append(f"terms of higher order in lr change T by about {error / T:.0%}: use a smaller lr")
    scatter = float(temperatures.std()) / T if T else 0.0
    if scatter > POLICY.large_spread:
        warnings.append(
            f"directions have temperatures from {temperatures[0]:.3g} to {temperatures[-1]:.3g}: T is that of the mean "
            "loss, and SGD does not sample exp(−L/T)"
        )
    return Measurement(
        T,
        error,
        Status.REFUSED if refusals else Status.WARNING if warnings else Status.OK,
        {
            "nβ": 1 / T if T else math.inf,
            "lowest": max(0.0, float(temperatures[0])),
            "highest": float(temperatures[-1]),
            "scatter": scatter,
            "directions": minimum.size,
        },
        error_kind="quadrature",
        reasons=refusals + warnings,
        name="temperature of SGD",
        policy=POLICY.plain(),
    )


def _checked(problem: Problem, lr: float, batch: int) -> tuple[int, int]:
    """The number of rows, and the batch size."""
    if problem.data is None or problem.n is None or problem.n < 2:
        raise BadInput("minibatches need rows of data", "give data with at least two rows")
    batch = whole_number("batch", batch, 1)
    if batch > problem.n:
        raise BadInput(
            f"batch must be at most the number of rows, {problem.n}, got {batch}", f"choose batch ≤ {problem.n}"
        )
    if not (isinstance(lr, int | float | np.number) and 0 < lr < math.inf):
        raise BadInput(f"lr is {lr!r}", "give a positive number")
    return problem.n, batch


@dataclass(frozen=True)
class _Minimum:
    """The curved and the flat directions at w*, and the noise of a minibatch gradient in them."""

    curvatures: np.ndarray
    """All eigenvalues of the Hessian, ascending."""
    curved: np.ndarray
    """Those of curved directions."""
    inside: np.ndarray
    """The curved directions, as columns."""
    slope: np.ndarray
    """The mean gradient in the curved directions."""
    noise: np.ndarray
    """The covariance V of a minibatch gradient in the curved directions."""
    flat_noise: float
    """The trace of V in the flat directions."""
    gradients_at: Callable[[np.ndarray], np.ndarray]
    """The gradient of each row as a function of the offset from w*."""

    @classmethod
    def of(cls, problem: Problem, share: float) -> _Minimum:
        slopes, hessian, gradients_at = _derivatives(problem)
        curvatures, directions = np.linalg.eigh(hessian)
        curved = curvatures > POLICY.flat * abs(curvatures).max()
        inside, outside = directions[:, curved], directions[:, ~curved]
        return cls(
            curvatures,
            curvatures[curved],
            inside,
            slopes.mean(0) @ inside,
            share * _covariance(slopes @ inside),
            share * float(np.trace(_covariance(slopes @ outside))),
            gradients_at,
        )

    @property
    def size(self) -> int:
        return len(self.curved)

    def problems(self, lr: float, T: float) -> list[str]:
        """Why SGD does not settle around here, if it does not."""
        h, reasons = self.curved, []
        if self.curvatures[0] < -POLICY.flat * abs(self.curvatures).max() or not self.size:
            reasons.append(f"the loss has curvature {self.curvatures[0]:.3g} at params, not a minimum: train further")
        if self.flat_noise > POLICY.small_noise * (self.flat_noise + float(np.trace(self.noise))):
            reasons.append(
                "there is noise in directions where the loss is flat, and SGD diffuses there: add an L2 term"
            )
        gap = float(np.sum(self.slope**2 / h)) / 2
        excess = T * self.size / 2
        if gap > max(POLICY.large_gap * T * self.size / 2, ROUNDING):
            reasons.append(f"params is {gap:.3g} above the minimum, SGD only {excess:.3g}: train further")
        if self.size and lr * h[-1] >= 2:
            reasons.append(f"SGD is unstable here: the largest curvature is {h[-1]:.3g}; choose lr < {2 / h[-1]:.3g}")
        return reasons

    def neglected(self, lr: float, share: float, T: float) -> float:
        """How much terms of higher order in the step, and the change of the noise around w*, change T."""
        h, noise = self.curved, self.noise
        higher_order = lr / 2 * float(np.sum(np.diag(noise) / (1 - lr * h / 2))) / self.size - T
        spread = lr * noise / (h[:, None] + h)
        return higher_order + lr / 2 * share * abs(_change_of_noise(self.gradients_at, self.inside, spread)) / self.size


def _derivatives(problem: Problem) -> tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Gradients of each row, (rows, size), and the Hessian at w*; and the gradients as a function of the offset."""
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    with float64():
        data = jax.tree.map(_double, problem.data)
        flat, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, float), problem.params))
        if flat.size > MOST_PARAMETERS:
            raise BadInput(
                f"the Hessian of {flat.size} parameters is too large", f"use at most {MOST_PARAMETERS} parameters"
            )

        def of_row(flat: jax.Array, row: PyTree) -> Array:
            return problem.loss(unravel(flat), jax.tree.map(lambda leaf: leaf[None], row))

        rows = jax.jit(jax.vmap(jax.grad(of_row), (None, 0)))
        slopes = np.asarray(rows(flat, data))

        def whole(flat: jax.Array) -> Array:
            return problem.loss(unravel(flat), data)

        hessian, mean = map(np.asarray, jax.jit(lambda flat: (jax.hessian(whole)(flat), jax.grad(whole)(flat)))(flat))
    if not (np.all(np.isfinite(slopes)) and np.all(np.isfinite(hessian))):
        raise BadInput("the loss has derivatives that are not finite", "give a loss that is smooth at params")
    if not np.allclose(mean, slopes.mean(0), rtol=1e-6, atol=1e-9 * max(1e-300, abs(slopes).max())):
        raise BadInput("the loss is not the mean of the losses of its rows", "give loss(params, data) as such a mean")

    def gradients_at(offset: np.ndarray) -> np.ndarray:
        with float64():
            return np.asarray(rows(flat + offset, data))

    return slopes, (hessian + hessian.T) / 2, gradients_at


def _double(leaf: Array) -> Array:
    """An array with floats in double precision; integers stay."""
    import jax.numpy as jnp

    leaf = jnp.asarray(leaf)
    return leaf.astype(float) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf


def _covariance(slopes: np.ndarray) -> np.ndarray:
    centred = slopes - slopes.mean(0)
    return centred.T @ centred / len(slopes)


def _change_of_noise(gradients_at: Callable[..., np.ndarray], inside: np.ndarray, spread: np.ndarray) -> float:
    """How much larger tr C is on average over where SGD goes, Gaussian around w*, than at w*."""
    values, vectors = np.linalg.eigh(spread)
    root = inside @ vectors * np.sqrt(np.maximum(values, 0))
    offsets = np.random.default_rng(0).standard_normal((DRAWS, len(values))) @ root.T

    def noise(offset: np.ndarray) -> float:
        return float(np.sum(np.var(gradients_at(offset) @ inside, axis=0)))

    return float(np.mean([noise(offset) + noise(-offset) for offset in offsets])) / 2 - noise(np.zeros(len(inside)))
