"""Is a network singular here, and what does its flatness say? Fisher information, Hessians, symmetries, volumes.

For y ~ N(f(x, w), 1) with truth f₀ ("Deep learning is singular, and that's good", eqs. 11-13, A.1; J = ∂f/∂w)

.. math:: K = \\tfrac12 E|f - f_0|^2, \\quad \\nabla^2 K = E[J^T J] + E\\langle f - f_0, \\nabla^2 f\\rangle, \\quad
          I(w) = E[J^T J] + E[J^T (f - f_0)(f - f_0)^T J]

The last one is E[JᵀJ] only if f = f₀, with the constant 1 (eq. 13 prints another). A ReLU network has one direction per
hidden unit that does not change f, so neither I(w) nor the Hessian at a true parameter has an inverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np

from phasecast.coefficients.exact.jacobian_rank import Rank, float_rank
from phasecast.coefficients.small_problems.volume_scaling import volume_scaling
from phasecast.core.display import Displayed, grid_html
from phasecast.core.errors import BadInput
from phasecast.core.precision import float64
from phasecast.core.results import Measurement, Status, show
from phasecast.core.types import Array, PyTree
from phasecast.figures.style import styled

if TYPE_CHECKING:
    import jax

    from phasecast.figures.drawing import Drawing

Layers = Sequence[tuple[Array, Array]]
"""(weight (out, in), bias (out,)) of every layer of a feedforward network, first layer first."""


@dataclass(frozen=True)
class Singularity:
    """How degenerate a model is at a point.

    ``fisher`` and ``hessian`` are the matrices, (d, d), ``fisher_rank`` and ``hessian_rank`` their numerical ranks; the
    model is regular there only if both are d.
    """

    fisher: np.ndarray
    hessian: np.ndarray
    fisher_rank: Rank
    hessian_rank: Rank

    @property
    def parameters(self) -> int:
        return len(self.fisher)

    @property
    def singular(self) -> bool:
        """Whether the Fisher information has no inverse."""
        return self.fisher_rank.rank < self.parameters

    def __str__(self) -> str:
        d, kind = self.parameters, "singular" if self.singular else "regular"
        fisher, hessian = (
            f"rank {rank.rank} of {d}{'' if rank.clear else ', not clear'}"
            for rank in (self.fisher_rank, self.hessian_rank)
        )
        return (
            f"{kind} model\n  parameters          {d}\n  Fisher information  {fisher}\n  Hessian of K        {hessian}"
        )


def singularity(
    f: Callable[[PyTree, PyTree], Array], params: PyTree, inputs: PyTree, truth: Array | None = None
) -> Singularity:
    """Fisher information and Hessian of K at ``params``, means over ``inputs``, and their ranks.

    Parameters
    ----------
    f: ``f(params, inputs) -> (n, outputs)``, or (n,) for one output.
    truth: f₀ at the inputs, shape as that of ``f``'s value; defaults to f at ``params``.

    >>> product = singularity(lambda w, x: w[0] * w[1] * x, np.array([1.0, 2.0]), np.linspace(-1, 1, 9)[:, None])
    >>> print(product)
    singular model
      parameters          2
      Fisher information  rank 1 of 2
      Hessian of K        rank 1 of 2
    """
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    with float64():
        flat, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), params))
        x = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), inputs)

        def outputs(w: jax.Array) -> jax.Array:
            return jnp.asarray(f(unravel(w), x))

        here = outputs(flat)
        if here.ndim == 0:
            raise BadInput("the function returns one number", "return outputs with one row per input")
        f0 = here if truth is None else jnp.asarray(truth, dtype=float)
        if f0.shape != here.shape:
            raise BadInput(f"truth has shape {f0.shape}", f"give f₀ at the inputs, shape {here.shape}")
        n = here.shape[0]
        hessian = jax.jit(jax.hessian(lambda w: jnp.sum((outputs(w) - f0) ** 2) / (2 * n)))(flat)
        jacobian = jax.jit(jax.jacfwd(outputs))(flat).reshape(n, -1, flat.size)
        misfit = jnp.einsum("nod,no->nd", jacobian, (here - f0).reshape(n, -1))
        fisher = jnp.einsum("nod,noe->de", jacobian, jacobian) / n + misfit.T @ misfit / n
        matrices = np.asarray(fisher), np.asarray(hessian)
    return Singularity(*matrices, *(float_rank(matrix) for matrix in matrices))


def relu_network(layers: Layers, x: Array) -> Array:
    """f(x) of shape (n, outputs) for x (n, inputs): affine layers with ReLU between them."""
    import jax

    for number, (weight, bias) in enumerate(layers):
        x = (x if number == 0 else jax.nn.relu(x)) @ weight.T + bias
    return x


def scaling_direction(layers: Layers, layer: int, unit: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The direction of Lemma A.1: a hidden unit's incoming weights and bias grow as its outgoing ones shrink.

    ``layer`` counts from 0, the first hidden one, and ``unit`` within it. The network does not change along it.
    """
    if not 0 <= layer < len(layers) - 1:
        raise BadInput(f"layer {layer} is not hidden", f"use 0 to {len(layers) - 2}")
    if not 0 <= unit < len(layers[layer][0]):
        raise BadInput(f"layer {layer} has no unit {unit}", f"use 0 to {len(layers[layer][0]) - 1}")
    direction = [(np.zeros(np.shape(weight)), np.zeros(np.shape(bias))) for weight, bias in layers]
    direction[layer][0][unit] = np.asarray(layers[layer][0])[unit]
    direction[layer][1][unit] = np.asarray(layers[layer][1])[unit]
    direction[layer + 1][0][:, unit] = -np.asarray(layers[layer + 1][0])[:, unit]
    return direction


def rescale(layers: Layers, layer: int, unit: int, scale: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """The same function with a hidden unit's incoming weights times ``scale`` > 0 and its outgoing ones over it."""
    if not (np.isfinite(scale) and scale > 0):
        raise BadInput(f"scale is {scale}", "use a positive number: ReLU(−x) is not −ReLU(x)")
    scaling_direction(layers, layer, unit)  # for its checks
    moved = [(np.array(weight, dtype=float), np.array(bias, dtype=float)) for weight, bias in layers]
    moved[layer][0][unit] *= scale
    moved[layer][1][unit] *= scale
    moved[layer + 1][0][:, unit] /= scale
    return moved


def change_along(layers: Layers, direction: Layers, inputs: Array) -> float:
    """The largest |Σ v_i ∂f/∂w_i| over the inputs, as a share of Σ |v_i| |∂f/∂w_i|: zero to rounding for a symmetry."""
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    with float64():
        flat, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), [*layers]))
        along = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), [*direction]))[0]
        x = jnp.asarray(inputs, dtype=float)
        jacobian = jax.jit(jax.jacfwd(lambda w: relu_network(unravel(w), x)))(flat)
        change, parts = float(jnp.max(jnp.abs(jacobian @ along))), float(jnp.max(jnp.abs(jacobian) @ jnp.abs(along)))
    return change / parts if parts > 0 else 0.0  # a dead unit does not change f in any direction


class VolumeOptions(TypedDict, total=False):
    """Options of :func:`phasecast.coefficients.volume_scaling` for a loss with a sampler."""

    epsilons: np.ndarray | None
    samples: int
    blocks: int
    multiplicity: int | None
    seed: int


def effective_parameters(
    loss: Callable[[Array], Array],
    sampler: Callable[[np.random.Generator, int], np.ndarray],
    **options: Unpack[VolumeOptions],
) -> Measurement:
    """The volume codimension 2λ: the effective number of parameters in K < t for small t (eq. 6).

    ``loss`` is K(w) ≥ 0 of one parameter, ``sampler(rng, count)`` draws parameters; ``options`` are passed to
    :func:`phasecast.coefficients.volume_scaling`.

    >>> disc = effective_parameters(
    ...     lambda w: w[0] ** 2 + w[1] ** 2, lambda rng, count: rng.uniform(-1, 1, (count, 3)), multiplicity=1
    ... )
    >>> abs(disc.value - 2) < 4 * disc.error  # of three
    True
    """
    volume = volume_scaling(loss, sampler, **options)
    estimate, error = 2 * float(volume.estimate), 2 * float(volume.error)
    return replace(volume, estimate=estimate, error=error, name="effective parameters 2λ")


def flat_minimum_entropy(hessian: np.ndarray, tolerance: float) -> float:
    """Eq. (7), with d' for d in the sum: −log V(t₀)/t₀^{d/2} = (d−d')/2 log t₀ + ½ Σ_{i ≤ d'} log c_i.

    c_i are the curvatures of K in its d' quadratic directions, half the eigenvalues of its Hessian (eq. 4); a constant
    that depends on d' only is left out. If d' < d it depends on the tolerance t₀, and on the scale of the units.

    >>> bool(np.isclose(flat_minimum_entropy(np.diag([2.0, 8.0]), 0.01), np.log(4) / 2))
    True
    """
    if not (np.isfinite(tolerance) and tolerance > 0):
        raise BadInput(f"tolerance is {tolerance}", "use a positive loss")
    curvatures = positive_curvatures(hessian)
    return (len(hessian) - len(curvatures)) / 2 * math.log(tolerance) + float(np.sum(np.log(curvatures))) / 2


def positive_curvatures(hessian: np.ndarray) -> np.ndarray:
    """c_i > 0 of K = Σ c_i w_i²: half the eigenvalues of the Hessian that count, by its numerical rank."""
    values = np.linalg.eigvalsh(np.asarray(hessian, dtype=float))[::-1]
    nonzero = values[: float_rank(np.asarray(hessian, dtype=float)).rank]
    if not nonzero.size or nonzero.min() <= 0:
        raise BadInput("the Hessian has directions that go down", "use a true parameter, where K is least")
    return nonzero / 2


@dataclass(frozen=True)
class Rescaling(Displayed):
    """One function at several scales of a unit: measures of flatness and 2λ, arrays over ``scales``.

    ``entropy`` (tolerance, scale) is that of eq. (7); it depends on the scale and, because d' < d, on the tolerance.
    """

    scales: np.ndarray
    log_determinant: np.ndarray
    tolerances: np.ndarray
    entropy: np.ndarray
    rank: np.ndarray
    effective: tuple[Measurement, ...]

    def __str__(self) -> str:
        rows = zip(self.scales, self.log_determinant, self.effective, strict=True)
        lines = [f"  {s:<6g} {f'{d:.3f}':<8} {show(e.estimate, e.error)}" for s, d, e in rows]
        return "\n".join(
            ["one function at several scales of a unit", "  scale  log det  effective parameters 2λ", *lines]
        )

    def _html_table(self) -> str:
        rows = [
            (f"{scale:g}", f"{flat:.3f}", show(one.estimate, one.error), str(one.status))
            for scale, flat, one in zip(self.scales, self.log_determinant, self.effective, strict=True)
        ]
        columns = ("scale", "log det", "effective parameters 2λ", "status")
        return grid_html("one function at several scales of a unit", columns, rows)

    @styled
    def figure(self) -> Drawing:
        """Flatness by determinant and by entropy over the scale, beside 2λ by volume and by rank."""
        from phasecast.figures.drawing import COLOURS, blank

        blue, orange, green, purple, yellow = COLOURS[:5]
        figure, grid = blank(columns=2, width=8.0, height=3.6)
        left, right = grid[0]
        left.plot(self.scales, self.log_determinant, "o-", ms=4, color=orange, label="log det of the nonzero part")
        for row, tolerance, style, colour in zip(
            self.entropy, self.tolerances, ("s--", "^:"), (purple, yellow), strict=True
        ):
            left.plot(self.scales, row, style, ms=4, color=colour, label=f"entropy at tolerance {tolerance:g}")
        left.set_ylabel("flatness of the same function")
        low, high = left.get_ylim()
        left.set_ylim(low, high + 0.5 * (high - low))  # room for the legend
        left.legend(loc="upper center")
        values = np.array([float(one.estimate) for one in self.effective])
        errors = np.array([float(one.error) for one in self.effective])
        refused = np.array([one.status is Status.REFUSED for one in self.effective])
        for which, face in ((~refused, blue), (refused, "none")):
            right.errorbar(
                self.scales[which], values[which], yerr=errors[which], fmt="o", ms=4, color=blue, mfc=face,
                label=None if not which.any() else "2λ by volume" + ("" if face != "none" else ", refused"),
            )  # fmt: skip
        right.plot(self.scales, self.rank, "--", color=green, label="rank of the Hessian")
        right.set_ylabel("effective parameters 2λ")
        right.set_ylim(0, 1.6 * max(float(values.max()), float(self.rank.max())))
        right.legend()
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_xticks(self.scales, [f"{scale:g}" for scale in self.scales])
            axes.set_xticks([], minor=True)
            axes.set_xlabel("scale of a hidden unit")
        return figure


def rescaling(
    scales: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0), *, samples: int = 40_000, seed: int = 0
) -> Rescaling:
    """f(x) = a ReLU(b x) on [−1, 1] with true ab = 1, at (a, b) = (1/s, s): flatness by determinant against 2λ.

    K = (ab − 1)²/6 has one quadratic direction out of two. The volume is that of a square around the point.
    """
    import jax.numpy as jnp

    inputs = np.linspace(-1, 1, 201)[:, None]
    unit = [(np.ones((1, 1)), np.zeros(1)), (np.ones((1, 1)), np.zeros(1))]

    def network(w: jax.Array, x: jax.Array) -> jax.Array:
        return w[0] * jnp.maximum(w[1] * x, 0.0)

    def loss(w: Array) -> Array:
        return (w[0] * w[1] - 1) ** 2 / 6

    tolerances = np.array([1e-2, 1e-4])
    determinants, entropies, ranks, volumes = [], [], [], []
    for scale in scales:
        moved = rescale(unit, 0, 0, float(scale))
        here = np.array([moved[1][0][0, 0], moved[0][0][0, 0]])
        hessian = singularity(network, here, inputs).hessian
        curvatures = positive_curvatures(hessian)
        determinants.append(float(np.sum(np.log(2 * curvatures))))
        entropies.append([flat_minimum_entropy(hessian, tolerance) for tolerance in tolerances])
        ranks.append(len(curvatures))
        reach = 0.1 * here.min()

        def sampler(rng: np.random.Generator, count: int, here: np.ndarray = here, reach: float = reach) -> np.ndarray:
            return here + rng.uniform(-reach, reach, (count, 2))

        volumes.append(effective_parameters(loss, sampler, samples=samples, multiplicity=1, seed=seed))
    at, determinant, entropy, rank = (np.array(part, dtype=float) for part in (scales, determinants, entropies, ranks))
    return Rescaling(at, determinant, tolerances, entropy.T, rank, tuple(volumes))
