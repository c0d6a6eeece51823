"""How many parameter directions change what the network computes? Ranks of Jacobians, in floats and exactly.

Where the Jacobian of the outputs has constant rank near w*, λ is half of that rank; in general half the rank is a lower
bound, because the loss has at least that many quadratic directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule
from phasecast.core.precision import float64
from phasecast.core.types import Array, PyTree

PRIME = 2_147_483_629
"""The largest prime below 2³¹ − 1; integers are reduced modulo it."""
PANEL = 48  # columns eliminated before the rest of the matrix is updated by one product; affects speed only
LARGEST_EXACT = 2**53  # float64 holds all integers up to here


@dataclass(frozen=True)
class RankPolicy(Policy):
    """Which singular values count, and when is the rank beyond doubt?"""

    rounding: float = rule(
        10.0, "NumPy's matrix_rank counts values above max(shape)·eps·σ₁; ten times it, for the rounding of derivatives"
    )
    clear_gap: float = rule(
        1e3, "smallest ratio of the last value that counts to the first that does not; chosen, not derived"
    )
    smallest_curvature: float = rule(-1e-9, "of the largest: a more negative one is not rounding; chosen, not derived")


POLICY = RankPolicy()


@dataclass(frozen=True)
class Rank:
    """A rank, whether it is exact, and how clear it is.

    ``gap`` is the ratio of the last singular value that counts to the first that does not; infinite for an exact or
    full rank.
    """

    rank: int
    shape: tuple[int, int]
    exact: bool
    gap: float

    @property
    def clear(self) -> bool:
        """Whether the gap between the singular values is wide enough."""
        return self.gap >= POLICY.clear_gap

    def coefficient(self) -> Coefficient:
        """Half the rank: a lower bound on λ, and λ itself where the rank is constant around the point."""
        return Coefficient(
            Fraction(self.rank, 2),
            regime="λ where the rank is constant near the parameter; elsewhere a lower bound",
            source="quadratic directions of the loss (Cullen et al. 2026, Theorem F.1 and Corollary F.2)",
            kind="lower-bound",
            name="jacobian-rank",
        )


def jacobian_rank(
    f: Callable[[PyTree, PyTree], Array],
    params: PyTree,
    inputs: PyTree,
    *,
    exact: bool = False,
    centred: bool = False,
) -> Rank:
    """The rank of the derivative of all outputs ``f(params, inputs)`` by all parameters.

    In float64 the rank is where the singular values drop. ``exact=True`` is for polynomial networks at parameters and
    inputs that are integers: then float64 computes the Jacobian without rounding, and its rank is taken modulo a 31-bit
    prime (it can only be too small, with a probability of about 10⁻⁹).
    ``centred=True`` removes the mean over the examples, as a centred loss does.
    """
    jacobian = _jacobian(f, params, inputs)
    if exact:
        if not (np.all(jacobian == np.round(jacobian)) and np.all(abs(jacobian) < LARGEST_EXACT)):
            raise BadInput("the Jacobian has entries that are not integers", "use integer parameters and inputs")
        whole = jacobian.astype(np.int64)
        if centred:  # n times the centred Jacobian, which has the same rank and is made of integers
            whole = len(whole) * whole - whole.sum(axis=0, keepdims=True)
        matrix = whole.reshape(-1, whole.shape[-1])
        return Rank(rank_mod_prime(matrix), matrix.shape, True, np.inf)
    if centred:
        jacobian = jacobian - jacobian.mean(axis=0, keepdims=True)
    return float_rank(jacobian.reshape(-1, jacobian.shape[-1]))


def float_rank(matrix: np.ndarray) -> Rank:
    """The numerical rank: singular values above the rounding of the largest one."""
    values = np.linalg.svd(matrix, compute_uv=False)
    floor = max(matrix.shape) * np.finfo(float).eps * values[0] * POLICY.rounding if values.size else 0.0
    rank = int(np.sum(values > floor))
    gap = float(values[rank - 1] / values[rank]) if 0 < rank < len(values) and values[rank] > 0 else np.inf
    return Rank(rank, matrix.shape, False, gap)


def ntk_coefficient(
    f: Callable[[PyTree, PyTree], Array],
    params: PyTree,
    inputs: PyTree,
    loss: Callable[[Array, Array], Array],
    targets: Array,
) -> Coefficient:
    """λ of the model linearised at ``params``: half the rank of E[φᵀ w φ], with w the curvature of the loss.

    Cullen et al. 2026, Theorem 5.1. ``loss(outputs, target)`` is the loss of one example; only directions in which it
    is curved count.
    """
    import jax

    jacobian = _jacobian(f, params, inputs)
    with float64():
        curvature = np.asarray(
            jax.vmap(jax.hessian(loss))(jax.numpy.asarray(f(params, inputs), dtype=float), jax.numpy.asarray(targets))
        ).reshape(len(jacobian), jacobian.shape[1], jacobian.shape[1])
    values, vectors = np.linalg.eigh(curvature)
    if values.min() < POLICY.smallest_curvature * abs(values).max():
        raise BadInput("the loss is not convex in the outputs here", "use a negative log-likelihood at its minimum")
    roots = np.sqrt(np.clip(values, 0, None))[:, :, None] * np.swapaxes(vectors, 1, 2)
    curved = float_rank((roots @ jacobian).reshape(-1, jacobian.shape[-1]))
    return Coefficient(
        Fraction(curved.rank, 2),
        regime="the model linearised at these parameters, on these inputs",
        source="Cullen et al. 2026, Theorem 5.1",
        name="ntk",
    )


def feature_span(inputs: np.ndarray, activation: Callable[[np.ndarray], Array], *, seed: int = 0) -> int:
    """The dimension l that random features σ(Xw) span (Cullen et al. 2026, Theorem E.1): rank of σ(XW) for wide W."""
    inputs = np.asarray(inputs, dtype=float)
    weights = np.random.default_rng(seed).normal(size=(inputs.shape[1], len(inputs) + 8))
    return float_rank(np.asarray(activation(inputs @ weights), dtype=float)).rank


def rank_mod_prime(matrix: np.ndarray) -> int:
    """The rank of an integer matrix modulo :data:`PRIME`, by elimination in panels of columns.

    Within a panel rows are eliminated one pivot at a time; the rest of the matrix is updated by one product per panel,
    which is exact: residues are split into halves of 16 bits, whose products and sums fit float64.
    """
    left = np.mod(np.asarray(matrix, dtype=np.int64), PRIME)
    if left.shape[0] < left.shape[1]:
        left = left.T
    left = np.ascontiguousarray(left)
    rank = 0
    for start in range(0, left.shape[1], PANEL):
        stop = min(start + PANEL, left.shape[1])
        pivots, factors = _eliminate(left, rank, start, stop)
        if pivots == 0:
            continue
        _update(left, rank, pivots, factors, stop)
        rank += pivots
        if rank == left.shape[0]:
            break
    return rank


def _eliminate(left: np.ndarray, top: int, start: int, stop: int) -> tuple[int, np.ndarray]:
    """Eliminate columns start…stop below row ``top`` and swap pivot rows up; their number, and the factors."""
    panel = left[top:, start:stop].copy()
    factors = np.zeros((len(panel), stop - start), dtype=np.int64)
    pivots = 0
    for column in range(stop - start):
        candidates = np.flatnonzero(panel[pivots:, column])
        if candidates.size == 0:
            continue
        pivot = pivots + candidates[0]
        if pivot != pivots:
            panel[[pivots, pivot]] = panel[[pivot, pivots]]
            factors[[pivots, pivot]] = factors[[pivot, pivots]]
            left[[top + pivots, top + pivot], stop:] = left[[top + pivot, top + pivots], stop:]
        inverse = pow(int(panel[pivots, column]), -1, PRIME)
        below = panel[pivots + 1 :, column] * inverse % PRIME
        factors[pivots + 1 :, pivots] = below
        panel[pivots + 1 :, column:] = (panel[pivots + 1 :, column:] - below[:, None] * panel[pivots, column:]) % PRIME
        pivots += 1
        if pivots == len(panel):
            break
    return pivots, factors[:, :pivots]


def _update(left: np.ndarray, top: int, pivots: int, factors: np.ndarray, stop: int) -> None:
    """Apply the eliminations of a panel to the columns after it."""
    rows = left[top : top + pivots, stop:]
    for row in range(1, pivots):
        rows[row] = (rows[row] - _product(factors[row : row + 1, :row], rows[:row])[0]) % PRIME
    below = left[top + pivots :, stop:]
    below[:] = (below - _product(factors[pivots:], rows)) % PRIME


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """A product of residues modulo PRIME, exact for inner sizes up to 2²⁰."""
    high, low = (left >> 16).astype(float), (left & 0xFFFF).astype(float)
    upper, lower = (right >> 16).astype(float), (right & 0xFFFF).astype(float)
    top = (high @ upper).astype(np.int64) % PRIME
    middle = (high @ lower + low @ upper).astype(np.int64) % PRIME
    bottom = (low @ lower).astype(np.int64) % PRIME
    return ((top * 65536 + middle) % PRIME * 65536 + bottom) % PRIME


def _jacobian(f: Callable[[PyTree, PyTree], Array], params: PyTree, inputs: PyTree) -> np.ndarray:
    """The derivative of ``f(params, inputs)`` of shape (n, …) as an array (n, outputs, parameters)."""
    import jax
    import jax.numpy as jnp

    # in NumPy: JAX would compile a program per shape to convert and to join the leaves
    leaves, structure = jax.tree.flatten(params)
    arrays = [np.asarray(leaf, dtype=float) for leaf in leaves]
    ends = np.cumsum([array.size for array in arrays])[:-1]

    def unravel(w: Array) -> PyTree:
        parts = jnp.split(jnp.asarray(w), ends)
        return structure.unflatten([part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True)])

    with float64():
        flat = jnp.asarray(np.concatenate([array.ravel() for array in arrays]))
        examples = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, dtype=float)), inputs)
        derivative = jax.jacfwd(lambda w: f(unravel(w), examples))
        try:
            jacobian = jax.jit(derivative)(flat)  # one program: compiling operation by operation costs ten times more
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
            jacobian = derivative(flat)  # a function that looks at its values
        if jacobian.ndim == 1:
            raise BadInput("the function returns one number", "return one row of outputs per input")
        return np.asarray(jacobian).reshape(jacobian.shape[0], -1, flat.size)
