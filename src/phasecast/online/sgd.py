"""What does SGD itself do? One pass over fresh examples, with the exact ε_g of the weights it has reached.

.. math:: J_i \\leftarrow J_i + \\frac{\\eta\\sqrt M}{K}\\, g'(x_i)\\,(\\zeta - \\sigma)\\, \\frac{\\xi}{\\sqrt N}

Steps are taken a block at a time: within a block of c examples x_t = (J₀ξ_t + Σ_{s<t} ΔJ_s ξ_t)/√N needs only the c × c
products of the examples, so the work on N coordinates is in matrix products. It is the same SGD, step by step; results
do not depend on the grid of α or on how many seeds run together.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Status
from phasecast.core.types import Array, Key
from phasecast.online.curve_result import Curve, check_alphas
from phasecast.online.dynamics import ACTIVATIONS, Activation, generalisation_error
from phasecast.online.order_parameters import Moments, draw_weights
from phasecast.online.spectrum import Spectrum
from phasecast.progress import report_step, shows_progress

BLOCK = 32  # examples per block; chosen for speed, any size gives the same steps
MOST_STEPS = 2**31 - 1  # steps are counted in int32


@dataclass(frozen=True)
class SGDPolicy(Policy):
    """When a simulated curve is refused, and how its rounding is stated."""

    largest_growth: float = rule(1e6, "chosen, not derived: ε over its start, beyond which SGD has diverged")
    smallest_start: float = rule(1e-12, "ε of a start below this is rounding, so growth is not measured from it")
    relative_rounding: float = rule(1e-6, "about ten roundings of float32, in which the weights are trained")
    absolute_rounding: float = rule(1e-9, "chosen, not derived: rounding of float32 weights where ε is near zero")


POLICY = SGDPolicy()


class DataOptions(TypedDict, total=False):
    """Options of :func:`simulate_data`.

    sigma: standard deviation of the student's first weights; defaults to 0.01.
    seeds: how many (0, 1, …), or a list; a seed draws the examples and, without ``weights``, student and teacher.
        Defaults to 1.
    activation: of the hidden units; defaults to "erf" for Gaussian inputs and to "linear" for data.
    trained: only the first N_l coordinates of the students move; defaults to all.
    progress: whether a line on stderr shows how far it is after two seconds; defaults to true.
    """

    sigma: float
    seeds: int | Sequence[int]
    activation: Activation
    trained: int | None
    progress: bool


class SGDOptions(DataOptions, total=False):
    """Options of :func:`simulate`: those of :func:`simulate_data`, and

    weights: J (K, N) and B (M, N) to start all seeds from; defaults to random weights.
    rotated: coordinates are those of the data, with the covariance that ``spectrum`` comes from; by default they are
        along its eigenvectors, the largest eigenvalue first.
    """

    weights: tuple[ArrayLike, ArrayLike] | None
    rotated: bool


@dataclass(frozen=True)
class _DataDefaults:
    sigma: float = 0.01
    seeds: int | Sequence[int] = 1
    activation: Activation = "linear"
    trained: int | None = None
    progress: bool = True

    @property
    def numbers(self) -> list[int]:
        if isinstance(self.seeds, int):
            return list(range(whole_number("seeds", self.seeds, 1)))
        return list(self.seeds)


@dataclass(frozen=True)
class _SGDDefaults(_DataDefaults):
    activation: Activation = "erf"
    weights: tuple[ArrayLike, ArrayLike] | None = None
    rotated: bool = False


@shows_progress("SGD")
def simulate(
    students: int,
    teachers: int,
    spectrum: Spectrum,
    lr: float,
    alphas: ArrayLike,
    *,
    inputs: int,
    **options: Unpack[SGDOptions],
) -> list[Curve]:
    """One-pass SGD on Gaussian inputs, one curve per seed, seeds vmapped; training in float32.

    ``inputs`` is N, a multiple of the modes; the keywords are described at :class:`SGDOptions`.
    """
    grid, chosen = check_alphas(alphas), _SGDDefaults(**options)
    numbers, activation = chosen.numbers, chosen.activation
    _check(lr, activation, grid, inputs)
    values = np.repeat(spectrum.eigenvalues, spectrum.inputs_per_mode(inputs))
    if chosen.weights is None:
        drawn = [draw_weights(students, teachers, inputs, chosen.sigma, number) for number in numbers]
    else:
        drawn = [tuple(np.atleast_2d(np.asarray(part, dtype=float)) for part in chosen.weights)] * len(numbers)
        if drawn[0][0].shape != (students, inputs) or drawn[0][1].shape != (teachers, inputs):
            raise BadInput(f"weights of shapes {drawn[0][0].shape} and {drawn[0][1].shape}", "use (K, N) and (M, N)")
    mask = _mask(chosen.trained, inputs)
    if chosen.rotated and spectrum.basis is None:
        raise BadInput("this spectrum has no basis to rotate to", "make it with Spectrum.from_covariance")
    basis = spectrum.basis if chosen.rotated else None
    mix = np.sqrt(values) if basis is None else (basis * np.sqrt(values)) @ basis.T
    J = jnp.asarray(np.stack([j for j, _ in drawn]), jnp.float32)
    B = jnp.asarray(np.stack([b for _, b in drawn]), jnp.float32)
    training = _Training(jnp.asarray(mix, jnp.float32), mask, lr)
    keys = jnp.stack([jax.random.key(number) for number in numbers])
    counts = np.rint(grid * inputs).astype(np.int64)
    reached, at = [], 0
    for count in counts:
        J = _walk(J, B, keys, training, at, int(count), activation=activation)
        at = int(count)
        reached.append(np.asarray(J))
        report_step(f"SGD at α = {at / inputs:.4g}, {len(numbers)} seeds", at, int(counts[-1]))
    runs = zip(np.stack(reached, axis=1), drawn, strict=True)
    states = [[_first_moments(j, b, values, basis) for j in run] for run, (_, b) in runs]
    return [_curve(run, counts / inputs, activation) for run in states]


@shows_progress("SGD on data")
def simulate_data(
    data: ArrayLike, students: int, teachers: int, lr: float, alphas: ArrayLike, **options: Unpack[DataOptions]
) -> list[Curve]:
    """One-pass SGD on the rows of a data matrix, each used once in an order drawn by the seed.

    Rows are centred, rotated to their principal axes (the first ``trained`` of which learn) and scaled to a mean
    variance of one. ε is that of the sample covariance: exact for a linear network, and for erf units what it would be
    if the data were Gaussian. The keywords are described at :class:`DataOptions`.
    """
    grid, chosen = check_alphas(alphas), _DataDefaults(**options)
    activation = chosen.activation
    spectrum = Spectrum.from_data(data)
    rows = np.asarray(data, dtype=float)
    rows = (rows - rows.mean(axis=0)) @ spectrum.basis / np.sqrt(spectrum.scale)
    inputs = rows.shape[1]
    _check(lr, activation, grid, inputs)
    counts = np.rint(grid * inputs).astype(np.int64)
    if counts[-1] > len(rows):
        raise BadInput(
            f"α = {grid[-1]:g} needs {counts[-1]} examples, the data has {len(rows)}",
            f"stop at α = {len(rows) / inputs:.3g}, so that each is used once",
        )
    mask, curves = _mask(chosen.trained, inputs), []
    for number in chosen.numbers:
        first, B = draw_weights(students, teachers, inputs, chosen.sigma, number)
        order = np.random.default_rng([number, 1]).permutation(len(rows))
        J, at, states = jnp.asarray(first, jnp.float32), 0, []
        for count in counts:
            for begin in range(at, int(count), BLOCK):
                batch = rows[order[begin : min(begin + BLOCK, int(count))]]
                padded = np.zeros((BLOCK, inputs))
                padded[: len(batch)] = batch
                active = jnp.arange(BLOCK) < len(batch)
                examples = jnp.asarray(padded, jnp.float32)
                J = _block_once(J, jnp.asarray(B, jnp.float32), examples, active, mask, lr, activation=activation)
            at = int(count)
            states.append(_first_moments(np.asarray(J), B, spectrum.eigenvalues, None))
        curves.append(_curve(states, counts / inputs, activation))
    return curves


class _Training(NamedTuple):
    """What the steps of all seeds share: the root of the covariance, the trained coordinates, and the rate."""

    mix: Array
    mask: Array | None
    lr: float | Array


@functools.partial(jax.jit, static_argnames=("activation",))
def _walk(J: Array, B: Array, keys: Key, training: _Training, begin: int, end: int, *, activation: Activation) -> Array:
    """Steps ``begin`` to ``end`` of all seeds; the examples of a block depend on the seed and its number alone."""
    inputs = J.shape[-1]
    mix, mask, lr = training

    def one(j: Array, b: Array, key: Key) -> Array:
        def block(number: Array, j: Array) -> Array:
            normals = jax.random.normal(jax.random.fold_in(key, number), (BLOCK, inputs), jnp.float32)
            steps = number * BLOCK + jnp.arange(BLOCK)
            examples = normals * mix if mix.ndim == 1 else normals @ mix
            return _block(j, b, examples, (steps >= begin) & (steps < end), mask, lr, activation)

        return jax.lax.fori_loop(begin // BLOCK, (end + BLOCK - 1) // BLOCK, block, j)

    return jax.vmap(one)(J, B, keys)


@functools.partial(jax.jit, static_argnames=("activation",))
def _block_once(
    J: Array, B: Array, examples: Array, active: Array, mask: Array | None, lr: float, *, activation: Activation
) -> jax.Array:
    return _block(J, B, examples, active, mask, lr, activation)


def _block(
    J: Array, B: Array, examples: Array, active: Array, mask: Array | None, lr: float | Array, activation: Activation
) -> jax.Array:
    """The steps of one block of examples (c, N); inactive ones change nothing."""
    students, teachers, inputs = J.shape[0], B.shape[0], J.shape[1]
    moving = examples if mask is None else examples * mask
    products = examples @ moving.T / inputs  # what a step on example s adds to x_t
    start = examples @ J.T / np.sqrt(inputs).astype(np.float32)
    fields = examples @ B.T / np.sqrt(inputs).astype(np.float32)
    erf = activation == "erf"
    root = np.float32(np.sqrt(0.5))
    target = jnp.sum(jax.scipy.special.erf(fields * root) if erf else fields, axis=1) / np.sqrt(teachers)
    gain = lr * np.sqrt(teachers) / students

    def step(updates: jax.Array, now: tuple[Array, ...]) -> tuple[jax.Array, None]:
        t, x0, row, label, on = now
        x = x0 + row @ updates
        output = jnp.sum(jax.scipy.special.erf(x * root) if erf else x) * np.float32(np.sqrt(teachers) / students)
        slope = np.float32(np.sqrt(2 / np.pi)) * jnp.exp(-(x**2) / 2) if erf else jnp.ones_like(x)
        update = jnp.where(on, gain * slope * (label - output), 0.0)
        return updates.at[t].set(update), None

    each = (jnp.arange(len(examples)), start, products, target, active)
    updates, _ = jax.lax.scan(step, jnp.zeros((len(examples), students), J.dtype), each)
    return J + updates.T @ moving / np.sqrt(inputs).astype(np.float32)


def _first_moments(J: np.ndarray, B: np.ndarray, values: np.ndarray, basis: np.ndarray | None) -> Moments:
    """R^(1), Q^(1), T^(1) of weights; not finite if SGD has diverged."""
    J = J.astype(float)
    J, B = (J, B) if basis is None else (J @ basis, B @ basis)
    with np.errstate(over="ignore", invalid="ignore"):
        return Moments(*((left * values) @ right.T / len(values) for left, right in ((J, B), (J, J), (B, B))))


def _curve(states: list[Moments], grid: np.ndarray, activation: Activation) -> Curve:
    R1, Q1, T1 = (np.stack([getattr(state, name) for state in states]) for name in ("R", "Q", "T"))
    with np.errstate(over="ignore", invalid="ignore"):
        eps = np.asarray(generalisation_error(R1, Q1, T1, activation))
    broken = not np.isfinite(eps).all() or np.max(eps) > POLICY.largest_growth * max(eps[0], POLICY.smallest_start)
    return Curve(
        eps,
        np.where(np.isfinite(eps), POLICY.relative_rounding * np.abs(eps) + POLICY.absolute_rounding, 0.0),
        Status.REFUSED if broken else Status.OK,
        {"form": "one-pass SGD"},
        reasons=["SGD diverged; lower the learning rate"] if broken else (),
        error_kind="resolution",
        policy=POLICY.plain(),
        name="ε",
        alpha=grid,
        R1=R1,
        Q1=Q1,
        T1=T1[0],
    )


def _mask(trained: int | None, inputs: int) -> jax.Array | None:
    if trained is None:
        return None
    if whole_number("trained", trained, 1) > inputs:
        raise BadInput(f"{trained} trained coordinates of {inputs}", f"use at most {inputs}")
    return (jnp.arange(inputs) < trained).astype(jnp.float32)


def _check(lr: float, activation: str, grid: np.ndarray, inputs: int) -> None:
    if activation not in ACTIVATIONS:
        raise BadInput(f"unknown activation '{activation}'", f"choose one of: {', '.join(ACTIVATIONS)}")
    if not (np.isfinite(lr) and lr > 0):
        raise BadInput(f"the learning rate is {lr:g}", "use η > 0")
    if grid[-1] * inputs > MOST_STEPS:
        raise BadInput(f"{grid[-1] * inputs:.3g} steps", f"use at most {MOST_STEPS}")
