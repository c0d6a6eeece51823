"""How does ε_g fall with α? The order-parameter equations of one-pass SGD, resolved by eigenspace.

.. math::
   \\dot R[k] &= \\tfrac{\\eta}{K}\\lambda_k (A\\,T[k] + G\\,R[k]) \\\\
   \\dot Q[k] &= \\tfrac{\\eta}{K}\\lambda_k (A\\,R[k]^\\top + G\\,Q[k] + \\text{transpose})
                + \\tfrac{\\eta^2}{K^2}\\lambda_k S

A, G and S depend on R^(1), Q^(1), T^(1) alone, so the hierarchy of Worschech & Rosenow 2024 (eq. 4, 18) closes in these
L(KM + K²) numbers exactly, without the Cayley-Hamilton theorem and its conditioning. They are solved for mean weights
and fluctuations (:func:`weight_rates`), which is cheaper if a mode has few inputs and keeps ε from cancelling.

Student (√M/K)Σg(x_i), teacher (1/√M)Σg(y_n), ε = ½⟨(ζ−σ)²⟩. The printed eq. 18 lacks 1/K and M/K in dR and has the η²
bracket wrong; the factors here follow from eq. 2 and 3.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule
from phasecast.core.precision import float64
from phasecast.core.results import Status
from phasecast.core.types import Array
from phasecast.online.curve_result import Curve, check_alphas
from phasecast.online.numerics.erf_averages import i4_contraction
from phasecast.online.numerics.integrator import Beginning, Control, Integration, begin, integrate
from phasecast.online.order_parameters import OrderParameters
from phasecast.online.spectrum import Spectrum

Activation = Literal["erf", "linear"]
ACTIVATIONS = ("erf", "linear")
RTOL = 1e-8  # default relative tolerance: ε then has about five digits, by ``relative_safety`` below
ROUNDING = 2e-16  # rounding of every arcsine in the cancelling sum that ε is: the precision of float64
Rate: TypeAlias = "float | Array"
"""A learning rate: a number, or a traced scalar inside a transformed function."""


@dataclasses.dataclass(frozen=True)
class SolverPolicy(Policy):
    """When a solved curve is ok, a warning or refused, and how its error is stated."""

    most_steps: int = rule(2_000_000, "chosen, not derived: bounds the time of a solution that does not end")
    shortest_step: float = rule(
        1e-13, "step over the last α; chosen a little above the resolution of float64: shorter steps mean divergence"
    )
    absolute_tolerance: float = rule(
        1e-4, "chosen: absolute over relative tolerance for weights of size one; fluctuations are smaller than weights"
    )
    relative_safety: float = rule(
        1e3, "relative error of ε over rtol, an upper bound; tests/truth/test_online_dynamics.py compares smaller rtol"
    )
    absolute_safety: float = rule(
        10, "absolute error of ε over atol, an upper bound; tests/truth/test_online_dynamics.py compares smaller rtol"
    )
    largest_growth: float = rule(1e6, "chosen, not derived: ε over its start, beyond which it grows without bound")
    smallest_start: float = rule(1e-12, "ε of a start below this is rounding, so growth is not measured from it")
    runaway: float = rule(
        10.0, "chosen, not derived: mean Q^(1) of a student over that of a teacher or of its start; weights diffuse"
    )
    small_rate: float = rule(
        1.0, "ηM/K⟨λ⟩: ε of second order is 1.4 times the first there, and the smallest stability limit is 2 (linear)"
    )


POLICY = SolverPolicy()


class Couplings(NamedTuple):
    """A (K, M), G (K, K) and, to second order, S (K, K)."""

    A: Array
    G: Array
    S: Array | None


class TeacherCoordinates(NamedTuple):
    """What stays constant: the teacher's weights in the coordinates of the factors, and the spectrum."""

    B: Array  # (M, n)
    coordinate_values: Array  # (n,): λ of each coordinate
    coordinate_weights: Array  # (n,): w λ of each coordinate
    T1: Array  # (M, M)
    eigenvalues: Array  # (L,)
    weights: Array  # (L,)
    noise: Array | None = None  # variance that is added to the teacher's output, without this if there is none


class Solution(NamedTuple):
    """One integrated start, or several stacked: R^(1), Q^(1) and ε on the grid, the last state, steps, success."""

    R1: Array
    Q1: Array
    eps: Array
    J: Array
    C: Array | None
    steps: Array
    success: Array


class Solver(NamedTuple):
    """How to integrate: the activation, the order in η, the tolerance, and a fixed step if there is one."""

    activation: Activation
    order: int
    rtol: float
    step: float | None


def couplings(
    R1: Array, Q1: Array, T1: Array, activation: Activation, order: int, noise: Array | None = None
) -> Couplings:
    """How the first moments drive every mode.

    Noise of variance σ² on the teacher's output adds Mσ²⟨g'(x_i)g'(x_j)⟩ to S, and nothing to first order.
    """
    xp = R1.__array_namespace__()
    students, teachers = R1.shape
    ratio = teachers / students
    if activation == "linear":
        S = xp.sum(T1) - 2 * ratio * xp.sum(R1) + ratio**2 * xp.sum(Q1)
        S = S if noise is None else S + teachers * noise
        A, G = xp.ones((students, teachers), R1.dtype), -ratio * xp.ones((students, students), R1.dtype)
        return Couplings(A, G, S * xp.ones((students, students), R1.dtype) if order == 2 else None)
    q, t = 1 + xp.diagonal(Q1), 1 + xp.diagonal(T1)
    A = 2 / math.pi / xp.sqrt(q[:, None] * t[None] - R1**2)
    g = 2 / math.pi * ratio / xp.sqrt(q[:, None] * q[None] - Q1**2)
    G = -g + xp.diag((xp.sum(g * Q1, axis=1) - xp.sum(A * R1, axis=1)) / q)
    if order == 1:
        return Couplings(A, G, None)
    C = xp.block([[Q1, R1], [R1.T, T1]])
    coefficients = xp.concatenate([xp.full(students, -ratio), xp.ones(teachers)]).astype(R1.dtype)
    S = i4_contraction(C, coefficients, students)
    return Couplings(A, G, S if noise is None else S + students * noise * g)  # ⟨g'g'⟩ = g K/M


def generalisation_error(R1: Array, Q1: Array, T1: Array, activation: Activation = "erf") -> Array:
    """ε of first moments of shapes (…, K, M), (…, K, K), (…, M, M): eq. 19 and 94 for any K and M."""
    xp = R1.__array_namespace__()
    students, teachers = R1.shape[-2:]
    ratio = teachers / students
    if activation == "linear":
        parts = R1, Q1, T1
    else:
        q, t = (1 / xp.sqrt(1 + xp.diagonal(part, axis1=-2, axis2=-1)) for part in (Q1, T1))
        pairs = ((R1, q, t), (Q1, q, q), (T1, t, t))
        parts = [2 / math.pi * xp.arcsin(x * a[..., :, None] * b[..., None, :]) for x, a, b in pairs]
    R, Q, T = (xp.sum(part, axis=(-2, -1)) for part in parts)
    return (T - 2 * ratio * R + ratio**2 * Q) / (2 * teachers)


def overlap_rates(
    R: Array, Q: Array, T: Array, eigenvalues: Array, weights: Array, lr: Rate, activation: Activation, order: int
) -> tuple[Array, Array]:
    """(dR/dα, dQ/dα) of all modes."""
    students = R.shape[1]
    xp = R.__array_namespace__()
    R1, Q1, T1 = (xp.tensordot(weights * eigenvalues, part, axes=1) for part in (R, Q, T))
    A, G, S = couplings(R1, Q1, T1, activation, order)
    rate = (lr / students * eigenvalues)[:, None, None]
    dR = rate * (A @ T + G @ R)
    half = A @ R.swapaxes(1, 2) + G @ Q
    dQ = rate * (half + half.swapaxes(1, 2))
    return dR, dQ if S is None else dQ + rate * (lr / students) * S


def weight_rates(
    J: Array, C: Array | None, fixed: TeacherCoordinates, lr: Rate, activation: Activation, order: int
) -> tuple[Array, Array | None]:
    """dJ/dα of the mean weights (K, n) and, to second order, dC/dα of their fluctuations (L, K, K).

    The overlaps are R = J Bᵀ and Q = J Jᵀ + C in every mode, with

    .. math:: \\dot J = \\tfrac{\\eta}{K}(A B + G J)\\Sigma, \\qquad
              \\dot C[k] = \\tfrac{\\eta}{K}\\lambda_k (G C[k] + C[k] G^\\top) + \\tfrac{\\eta^2}{K^2}\\lambda_k S

    Put together that is :func:`overlap_rates`, but an error δ of J moves ε by δ² only where learning is nearly perfect.
    """
    R1, Q1 = first_moments(J, C, fixed)
    A, G, S = couplings(R1, Q1, fixed.T1, activation, order, fixed.noise)
    rate = lr / J.shape[0]
    dJ = rate * fixed.coordinate_values * (A @ fixed.B + G @ J)
    if S is None or C is None:
        return dJ, None
    half = G @ C
    return dJ, rate * fixed.eigenvalues[:, None, None] * (half + half.swapaxes(1, 2) + rate * S)


def first_moments(J: Array, C: Array | None, fixed: TeacherCoordinates) -> tuple[Array, Array]:
    """R^(1) and Q^(1) of mean weights and fluctuations."""
    scaled = J * fixed.coordinate_weights
    Q1 = scaled @ J.T
    if C is not None:
        Q1 = Q1 + C.__array_namespace__().tensordot(fixed.weights * fixed.eigenvalues, C, axes=1)
    return scaled @ fixed.B.T, Q1


def solve(
    order_parameters: OrderParameters,
    spectrum: Spectrum,
    lr: float,
    alphas: ArrayLike,
    activation: Activation = "erf",
    order: int = 1,
    *,
    rtol: float = RTOL,
    step: float | None = None,
) -> Curve:
    """ε_g(α) from the order-parameter equations, with R^(1), Q^(1) along the way and the final state.

    Parameters
    ----------
    order_parameters: the state at α = 0.
    lr: η; ``order=1`` keeps O(η), ``order=2`` also the noise of the steps, O(η²), which is exact for N → ∞. The first
        order has no stability limit, so if ηM/K times the mean eigenvalue exceeds ``POLICY.small_rate`` the second
        is solved too: the curve is refused if that one is, and otherwise warns by how much they differ.
    alphas: increasing values of α to report.
    rtol: of the error-controlled solver (Tsitouras 5(4)). ε is a difference of sums that cancel near perfect learning,
        so ``error`` of the curve adds the rounding of that difference.
    step: a fixed step in α instead of error control.

    >>> spectrum = Spectrum.power_law(4, 1.0)
    >>> start = OrderParameters.draw(2, 2, spectrum, inputs=400, sigma=0.1, seed=0)
    >>> curve = solve(start, spectrum, lr=0.5, alphas=[0, 10, 100])
    >>> str(curve.status), bool(curve.eps[-1] < curve.eps[0])
    ('ok', True)
    """
    return solve_many([order_parameters], spectrum, lr, alphas, activation, order, rtol=rtol, step=step)[0]


def solve_many(
    states: Sequence[OrderParameters],
    spectrum: Spectrum | Sequence[Spectrum],
    lr: float | Sequence[float],
    alphas: ArrayLike,
    activation: Activation = "erf",
    order: int = 1,
    *,
    rtol: float = RTOL,
    step: float | None = None,
) -> list[Curve]:
    """:func:`solve` for many initial conditions of one shape, vmapped; ``spectrum`` and ``lr`` may be one per state."""
    grid = check_alphas(alphas)
    states = list(states)
    if not states:
        return []
    spectra = [spectrum] * len(states) if isinstance(spectrum, Spectrum) else list(spectrum)
    rates = np.broadcast_to(np.asarray(lr, dtype=float), (len(states),)) if np.ndim(lr) == 0 else np.asarray(lr, float)
    solver = Solver(activation, order, rtol, step)
    _check(states, spectra, rates, solver)
    curves = _solved(states, spectra, rates, grid, solver)
    _, students, teachers = states[0].shape
    sizes = rates * teachers / students * np.array([one.moment(1) for one in spectra])
    large = np.flatnonzero(sizes > POLICY.small_rate) if order == 1 else ()
    if len(large):
        chosen = [states[at] for at in large], [spectra[at] for at in large]
        second = _solved(*chosen, rates[large], grid, solver._replace(order=2))
        for at, noisy in zip(large, second, strict=True):
            curves[at] = _with_second_order(curves[at], noisy, float(sizes[at]))
    return curves


def solve_with_noise(
    states: Sequence[OrderParameters],
    spectrum: Spectrum,
    lr: float,
    alphas: ArrayLike,
    noise: Sequence[float],
    activation: Activation = "erf",
) -> list[Curve]:
    """:func:`solve_many` to second order for labels with independent noise of these variances, one per state.

    ε stays the error against the teacher, without the noise.
    """
    rates, noises = np.full(len(states), float(lr)), np.asarray(noise, dtype=float)
    solver, spectra = Solver(activation, 2, RTOL, None), [spectrum] * len(states)
    _check(list(states), spectra, rates, solver)
    if noises.shape != rates.shape or not (np.isfinite(noises).all() and (noises >= 0).all()):
        raise BadInput(f"the noise is {noises.tolist()}", "give one variance ≥ 0 per state")
    return _solved(list(states), spectra, rates, check_alphas(alphas), solver, noises)


def _solved(
    states: list[OrderParameters],
    spectra: list[Spectrum],
    rates: np.ndarray,
    grid: np.ndarray,
    solver: Solver,
    noises: np.ndarray | None = None,
) -> list[Curve]:
    """One curve per state, to the order of the solver."""
    J, fixed = weight_coordinates(states, spectra)
    fixed = fixed._replace(noise=noises)
    students = states[0].shape[1]
    scale = POLICY.absolute_tolerance * min(1.0, float(np.sqrt(np.mean(J**2))) or 1.0)
    atol = solver.rtol * scale
    equations = _Equations(fixed, rates, students, solver.activation, solver.order)
    solved = _integrate(J, equations, grid, (solver.rtol, atol), solver.step)
    curves = []
    for at, state in enumerate(states):
        one: Solution = jax.tree.map(lambda part, at=at: part[at], solved)
        first = np.einsum("k,kii->", spectra[at].weights * spectra[at].eigenvalues, state.Q) / students
        how = {
            "solver": "tsit5" if solver.step is None else f"tsit5, fixed step {solver.step}",
            "order": solver.order,
            "steps": int(one.steps),
            "rtol": solver.rtol,
            "atol": atol,
        }
        status, reasons, floor = _judge(one, fixed.T1[at], how, float(rates[at]), first)
        eps = np.asarray(one.eps)
        curves.append(
            Curve(
                eps,
                np.where(np.isfinite(eps), POLICY.relative_safety * solver.rtol * np.abs(eps) + floor, 0.0),
                status,
                {**how, "floor": floor},
                reasons=reasons,
                error_kind="quadrature",
                policy=POLICY.plain(),
                name="ε",
                alpha=grid,
                R1=np.asarray(one.R1),
                Q1=np.asarray(one.Q1),
                T1=np.asarray(fixed.T1[at]),
                final=_final(one, fixed.B[at], state),
            )
        )
    return curves


class _Equations(NamedTuple):
    """The equations of several starts for states that are one row of numbers each, in NumPy or traced by JAX."""

    fixed: TeacherCoordinates
    lr: Array
    students: int
    activation: Activation
    order: int

    def unpack(self, y: Array) -> tuple[Array, Array | None]:
        coordinates, modes = self.students * self.fixed.B.shape[-1], self.fixed.eigenvalues.shape[-1]
        J = y[:, :coordinates].reshape(len(y), self.students, -1)
        return J, y[:, coordinates:].reshape(len(y), modes, self.students, -1) if self.order == 2 else None

    def slope(self, y: Array) -> Array:
        def rates(J: Array, C: Array | None, fixed: TeacherCoordinates, lr: Array) -> Array:
            parts = weight_rates(J, C, fixed, lr, self.activation, self.order)
            return J.__array_namespace__().concatenate([part.ravel() for part in parts if part is not None])

        return _for_each(rates)(*self.unpack(y), self.fixed, self.lr)

    def observe(self, y: Array) -> tuple[Array, Array, Array]:
        R1, Q1 = _for_each(first_moments)(*self.unpack(y), self.fixed)
        return R1, Q1, generalisation_error(R1, Q1, self.fixed.T1, self.activation)


def _for_each(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` for stacked arguments: vmapped if the first is of JAX, else one call after another."""

    def stacked(*trees: Any) -> Any:
        if isinstance(trees[0], jax.Array):
            return jax.vmap(function)(*trees)
        rows = (jax.tree.map(lambda part, at=at: part[at], trees) for at in range(len(trees[0])))
        return jax.tree.map(lambda *parts: np.stack(parts), *(function(*row) for row in rows))

    return stacked


def _integrate(
    J: np.ndarray, equations: _Equations, grid: np.ndarray, tolerance: tuple[float, float], step: float | None
) -> Solution:
    """Every start with its own constants and rate, on one grid."""
    starts, students, modes = len(J), equations.students, equations.fixed.eigenvalues.shape[-1]
    fluctuations = np.zeros((starts, modes * students**2 if equations.order == 2 else 0))
    y = np.concatenate([J.reshape(starts, -1), fluctuations], axis=1)
    rtol, atol, fixed, shortest = (
        np.asarray(part, float) for part in (*tolerance, step or 0.0, POLICY.shortest_step * grid[-1])
    )
    control = Control(rtol, atol, fixed, shortest, np.asarray(POLICY.most_steps))
    start = begin(equations.slope, equations.observe, y, control)
    with float64():
        outcome = _compiled(start, equations.fixed, equations.lr, grid, control, *equations[2:])
        outcome = jax.tree.map(np.asarray, outcome)
    parts = (*outcome.observed, *equations.unpack(outcome.y), outcome.steps, outcome.success)
    return Solution._make(parts)


@functools.partial(jax.jit, static_argnums=(5, 6, 7))
def _compiled(
    # wide signature: jit traces the arrays and compiles for each value of the last three
    start: Beginning,
    fixed: TeacherCoordinates,
    lr: Array,
    grid: Array,
    control: Control,
    students: int,
    activation: Activation,
    order: int,
) -> Integration:
    equations = _Equations(fixed, lr, students, activation, order)
    return integrate(equations.slope, equations.observe, start, grid, control)


def weight_coordinates(states: list[OrderParameters], spectra: list[Spectrum]) -> tuple[np.ndarray, TeacherCoordinates]:
    """Weights with the overlaps of all states, padded to one rank: J of shape (states, K, L·rank); and the constants.

    At most K + M coordinates per mode are needed, fewer if a mode has fewer inputs.
    """
    factored = [state.factors() for state in states]
    rank = max(J.shape[-1] for J, _ in factored)

    def flat(part: np.ndarray) -> np.ndarray:
        padded = np.pad(part, ((0, 0), (0, 0), (rank - part.shape[-1], 0)))
        return padded.swapaxes(0, 1).reshape(part.shape[1], -1)

    values, shares = (np.stack([getattr(one, name) for one in spectra]) for name in ("eigenvalues", "weights"))
    T1 = np.einsum("sl,slnm->snm", shares * values, np.stack([state.T for state in states]))
    B = np.stack([flat(B) for _, B in factored])
    repeated = np.repeat(values, rank, axis=-1), np.repeat(values * shares, rank, axis=-1)
    return np.stack([flat(J) for J, _ in factored]), TeacherCoordinates(B, *repeated, T1, values, shares)


def _final(solution: Solution, B: Array, state: OrderParameters) -> OrderParameters | None:
    """All overlaps at the last α; None if the solution diverged."""
    J, C = np.asarray(solution.J), solution.C
    if not np.isfinite(J).all() or (C is not None and not np.isfinite(C).all()):
        return None
    J, B = (part.reshape(len(part), state.shape[0], -1).swapaxes(0, 1) for part in (J, np.asarray(B)))
    Q = J @ J.swapaxes(1, 2) + (0 if C is None else np.asarray(C))
    return OrderParameters(J @ B.swapaxes(1, 2), (Q + Q.swapaxes(1, 2)) / 2, state.T)


def _judge(
    solution: Solution, T1: Array, how: dict[str, Any], lr: float, first: float
) -> tuple[Status, list[str], float]:
    """Status, reasons, and the floor below which ε is rounding; ``first`` is the students' mean Q^(1) at α = 0."""
    eps, Q1 = np.asarray(solution.eps), np.asarray(solution.Q1)
    students, teachers = solution.R1.shape[1:]
    floor = ROUNDING * (students + teachers) ** 2 / (2 * teachers)
    floor += POLICY.absolute_safety * how["atol"]
    reasons = []
    if not (bool(solution.success) and np.isfinite(eps).all()):
        reasons.append(
            f"the solver gave up after {how['steps']} steps; the curve diverges (η = {lr:g} too large) or the last α "
            "is too large: lower η or shorten α"
        )
    elif np.max(eps) > POLICY.largest_growth * max(eps[0], POLICY.smallest_start):
        reasons.append(f"ε grows without bound; η = {lr:g} is above the stability limit, lower it")
    elif (size := np.trace(Q1[-1]) / students) > POLICY.runaway * max(np.trace(T1) / teachers, first):
        # ε of erf units stays bounded when they saturate, so it does not show this
        reasons.append(f"the students' weights run away (mean Q is {size:.3g}); η = {lr:g} is too large, lower it")
    status = Status.REFUSED if reasons else Status.OK
    if not reasons and np.min(eps) < floor:
        status = Status.WARNING
        reasons.append(f"ε below {floor:.1g} is rounding and tolerance, not signal; lower rtol, or ignore those values")
    return status, reasons, floor


def _with_second_order(curve: Curve, noisy: Curve, size: float) -> Curve:
    """A first-order curve with the status that the second order gives it."""
    if curve.status is Status.REFUSED:
        return curve
    if noisy.status is Status.REFUSED:
        reasons = [f"to second order {noisy.reasons[0]}"]
        return dataclasses.replace(curve, status=Status.REFUSED, reasons=reasons)
    ratio = noisy.eps / np.maximum(curve.eps, curve.diagnostics["floor"])
    far = float(ratio[np.argmax(np.abs(np.log(np.maximum(ratio, ROUNDING))))])
    reason = f"ηM/K = {size:.3g} is not small: ε of second order is up to {far:.3g} times this; use order=2 or lower η"
    return dataclasses.replace(curve, status=Status.WARNING, reasons=[*curve.reasons, reason])


def _check(states: list[OrderParameters], spectra: list[Spectrum], rates: np.ndarray, solver: Solver) -> None:
    if solver.activation not in ACTIVATIONS:
        raise BadInput(f"unknown activation '{solver.activation}'", f"choose one of: {', '.join(ACTIVATIONS)}")
    if solver.order not in (1, 2):
        raise BadInput(f"order {solver.order}", "use 1 for O(η) or 2 for O(η²)")
    if len(spectra) != len(states) or rates.shape != (len(states),):
        raise BadInput(
            f"{len(states)} states, {len(spectra)} spectra, {rates.size} learning rates", "give one, or one per state"
        )
    if not (np.isfinite(rates).all() and (rates > 0).all()):
        raise BadInput(f"a learning rate is {rates.min():g}", "use η > 0")
    if not 0 < solver.rtol < 1e-2:
        raise BadInput(f"rtol {solver.rtol:g}", "use a relative tolerance between 0 and 0.01")
    if solver.step is not None and not (np.isfinite(solver.step) and solver.step > 0):
        raise BadInput(f"a step of {solver.step}", "use a positive step in α")
    for state, spectrum in zip(states, spectra, strict=True):
        state.check_modes(spectrum)
        if state.shape != states[0].shape:
            raise BadInput(f"states of shapes {states[0].shape} and {state.shape}", "solve them separately")
