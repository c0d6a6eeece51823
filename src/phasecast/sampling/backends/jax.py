"""Chains on JAX: all at once (``vmap``), a chunk of steps in one compiled ``scan``.

Everything is a function of the offset u from w*, flattened, so that the loss above L(w*) keeps its digits.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.precision import float64
from phasecast.sampling.kernels.kernel import Array, Kernel, State, Tuning, dot, localised

LARGEST_DOUBLE = 100_000
"""Above this many parameters chains run in float32, which is twice as fast and accurate enough for so many."""


class JaxOps:
    """The operations of kernels, in JAX."""

    @staticmethod
    def split(key: Any, count: int) -> Any:
        import jax

        return jax.random.split(key, count)

    @staticmethod
    def normal(key: Any, like: Array) -> Array:
        import jax

        return jax.random.normal(key, like.shape, like.dtype)

    @staticmethod
    def uniform(key: Any, like: Array) -> Array:
        import jax

        return jax.random.uniform(key, like.shape, like.dtype)

    @staticmethod
    def same_for_all(key: Any) -> Any:
        import jax

        return jax.random.uniform(key)

    @staticmethod
    def repeat(count: Any, body: Callable[[Any, State], State], state: State, key: Any) -> State:
        import jax
        import jax.numpy as jnp

        whole = jnp.floor(count).astype(int)
        return jax.lax.fori_loop(0, whole, lambda i, moving: body(jax.random.fold_in(key, i), moving), state)

    @staticmethod
    def where(chains: Array, new: Array, old: Array) -> Array:
        import jax.numpy as jnp

        return jnp.where(chains.reshape(chains.shape + (1,) * (new.ndim - 1)), new, old)

    @staticmethod
    def exp(x: Array) -> Array:
        import jax.numpy as jnp

        return jnp.exp(x)

    @staticmethod
    def sqrt(x: Array) -> Array:
        import jax.numpy as jnp

        return jnp.sqrt(x)

    @staticmethod
    def clip(x: Array, low: float, high: float) -> Array:
        import jax.numpy as jnp

        return jnp.clip(x, low, high)

    @staticmethod
    def finite(x: Array) -> Array:
        import jax.numpy as jnp

        return jnp.isfinite(x)

    @staticmethod
    def zeros_like(x: Array) -> Array:
        import jax.numpy as jnp

        return jnp.zeros_like(x)


class Place(NamedTuple):
    """w*: all parameters, those that move as one vector, the loss there, and its gradient for anchored minibatches."""

    leaves: list[Array]
    centre: Array
    lowest: Array
    slope: Array | None


class JaxEngine:
    """A loss around w* that kernels can sample, in JAX.

    Parameters
    ----------
    loss, params, data: as in :class:`phasecast.Problem`.
    decay: the coefficient s of a training-time L2 term s/2 |w|² that is sampled along with the loss.
    only: a pattern for the names of the parameters to move (``"layers.0.*"``); the others stay where they are.
    batch: rows in a minibatch; None for all of them.
    anchored: with minibatches, whether loss and gradient are taken relative to w* on the same rows.
    precision: "float64" or "float32"; by default double up to :data:`LARGEST_DOUBLE` parameters.
    """

    ops = JaxOps

    def __init__(
        self,
        loss: Callable[..., Any],
        params: Any,
        data: Any = None,
        *,
        decay: float = 0.0,
        only: str | None = None,
        batch: int | None = None,
        anchored: bool = True,
        precision: str | None = None,
    ) -> None:
        import jax
        import jax.numpy as jnp

        names, leaves, tree = _named_leaves(params)
        chosen = [only is None or fnmatchcase(name, only) for name in names]
        if not any(chosen):
            raise BadInput(f"no parameter is called like '{only}'", f"use a pattern for one of {', '.join(names[:8])}")
        sizes = [np.size(leaf) for leaf, take in zip(leaves, chosen, strict=True) if take]
        if precision not in (None, "float32", "float64"):
            raise BadInput(f"unknown precision '{precision}'", "use float32 or float64")
        self.size, self.names, self.decay = int(sum(sizes)), names, decay
        self.double = self.size <= LARGEST_DOUBLE if precision is None else precision == "float64"
        self._real = np.float64 if self.double else np.float32
        ends = np.cumsum(sizes)[:-1]

        def params_at(leaves: list[Array], offset: Array) -> Any:
            parts = iter(jnp.split(offset, ends))
            moved = [
                leaf + next(parts).reshape(leaf.shape) if take else leaf
                for leaf, take in zip(leaves, chosen, strict=True)
            ]
            return jax.tree.unflatten(tree, moved)

        def mean_loss(leaves: list[Array], offset: Array, some: Any) -> Array:
            there = params_at(leaves, offset)
            value = loss(there) if some is None else loss(there, some)
            if jnp.shape(value) != ():
                raise BadInput(f"the loss has shape {jnp.shape(value)}", "return one number, the mean over the rows")
            return value

        with self.precision():
            self._rows_of_data = _as_arrays(data, self._real)
        self.rows = None if data is None else len(jax.tree.leaves(self._rows_of_data)[0])
        if batch is not None and (self.rows is None or not 0 < batch <= self.rows):
            raise BadInput(f"a batch of {batch} of {self.rows or 'no'} rows", "give data and a batch within them")
        self._params_at, self._mean_loss, self._chosen, self._tree = params_at, mean_loss, chosen, tree
        self._batch, self._anchored = batch, anchored
        self._settle(leaves)
        self._compile()

    def _settle(self, leaves: list[Any]) -> None:
        """Put w* where these arrays say."""
        import jax
        import jax.numpy as jnp

        with self.precision():
            arrays = [jnp.asarray(leaf, self._real) for leaf in leaves]
            moving = [leaf.ravel() for leaf, take in zip(arrays, self._chosen, strict=True) if take]
            centre = jnp.concatenate(moving)
            lowest = self._mean_loss(arrays, jnp.zeros_like(centre), self._rows_of_data)
            slope = None
            if self._batch is not None and self._anchored:
                slope = jax.grad(self._mean_loss, argnums=1)(arrays, jnp.zeros_like(centre), self._rows_of_data)
            self._place = Place(arrays, centre, jnp.asarray(lowest), slope)
        self.loss_at_centre = float(lowest)
        self.centre_as_numpy = np.asarray(centre, dtype=float)
        if not np.isfinite(self.loss_at_centre):
            raise BadInput(f"the loss at params is {self.loss_at_centre}", "give parameters at which it is finite")

    def _compile(self) -> None:
        import jax

        self._chunk = jax.jit(self._run, static_argnames=("kernel", "steps"))
        self._begin = jax.jit(self._init, static_argnames=("kernel",))
        self._all = jax.jit(lambda place, offsets: self._at(place)._evaluate(offsets, None))

    def _at(self, place: Place) -> JaxEngine:
        """The same at another w*: inside what is compiled, so that one compilation serves them all."""
        found = copy.copy(self)
        found._place = place
        return found

    def moved_to(self, params: Any) -> JaxEngine:
        """The same around other parameters of the same shapes, without another compilation."""
        names, leaves, tree = _named_leaves(params)
        shapes = [np.shape(leaf) for leaf in leaves]
        if tree != self._tree or shapes != [leaf.shape for leaf in self._place.leaves]:
            raise BadInput(
                f"these parameters have other names or shapes ({', '.join(names[:8])})", "give the same ones"
            )
        found = copy.copy(self)
        found._settle(leaves)
        return found

    def minibatched(self, batch: int) -> JaxEngine:
        """The same with anchored gradients of so many rows."""
        found = copy.copy(self)
        found._batch, found._anchored = batch, True
        found._settle(self._place.leaves)
        found._compile()
        return found

    @contextmanager
    def precision(self) -> Iterator[None]:
        with float64() if self.double else nullcontext():
            yield

    # what kernels see

    def target(self, position: Array, tuning: Tuning, key: Any) -> State:
        """Energy, gradient, loss and pull at the offsets of all chains."""
        loss, slope = self._evaluate(position, key if self._batch is not None else None)
        return localised(position, loss, slope, tuning, self.decay, self._place.centre)

    def _evaluate(self, positions: Array, key: Any) -> tuple[Array, Array]:
        """L − L* and ∇L at each position, over all rows or over a minibatch for each chain."""
        import jax
        import jax.numpy as jnp

        leaves, _, lowest, slope_at_centre = self._place
        differentiated = jax.value_and_grad(lambda offset, some: self._mean_loss(leaves, offset, some))
        if key is None:
            value, slope = jax.vmap(lambda offset: differentiated(offset, self._rows_of_data))(positions)
            return value - lowest, slope
        count, rows = self._batch or 0, self.rows or 0

        def one(position: Array, chosen: Array) -> tuple[Array, Array]:
            some = jax.tree.map(lambda leaf: leaf[chosen], self._rows_of_data)
            value, slope = differentiated(position, some)
            if slope_at_centre is None:
                return value - lowest, slope
            there, slope_there = differentiated(jnp.zeros_like(position), some)
            return value - there, slope - slope_there + slope_at_centre

        bits = jax.random.bits(key, (len(positions), count), "uint32")  # the remainder is uneven by rows/2³² at most
        return jax.vmap(one)(positions, bits % rows)

    # what the driver calls

    def key(self, seed: int) -> Any:
        import jax

        return jax.random.key(seed)

    def fold(self, key: Any, number: int) -> Any:
        import jax

        return jax.random.fold_in(key, number)

    def normal(self, key: Any, chains: int) -> Array:
        import jax

        with self.precision():
            return jax.random.normal(key, (chains, self.size), self._real)

    def init(self, kernel: Kernel, position: Array, tuning: Tuning, key: Any) -> State:
        """The state of a kernel at these offsets."""
        with self.precision():
            return self._begin(self._place, position, self._numbers(tuning), key, kernel=kernel)

    def run(self, kernel: Kernel, state: State, tuning: Tuning, key: Any, steps: int) -> tuple[State, dict[str, Any]]:
        """A chunk of steps: the state after it, and what each step saw, as numpy arrays (steps, chains)."""
        with self.precision():
            state, seen = self._chunk(self._place, state, self._numbers(tuning), key, kernel=kernel, steps=steps)
            return state, {name: np.asarray(value) for name, value in seen.items()}

    def evaluate(self, offsets: Any) -> tuple[np.ndarray, np.ndarray]:
        """L − L* and ∇L over all the data at offsets (chains, size)."""
        import jax.numpy as jnp

        with self.precision():
            loss, slope = self._all(self._place, jnp.asarray(offsets, self._real))
            return np.asarray(loss), np.asarray(slope)

    def of_rows(self, row_losses: Callable[..., Any], offsets: Any) -> np.ndarray:
        """``row_losses(params, data)``, the loss of each row, at offsets (chains, size): (chains, rows)."""
        import jax
        import jax.numpy as jnp

        def one(offset: Array) -> Array:
            return row_losses(self._params_at(self._place.leaves, offset), self._rows_of_data)

        with self.precision():
            return np.asarray(jax.vmap(one)(jnp.asarray(offsets, self._real)))

    def array(self, values: Any) -> Array:
        import jax.numpy as jnp

        with self.precision():
            return jnp.asarray(values, self._real)

    def _init(self, place: Place, position: Array, tuning: Tuning, key: Any, kernel: Kernel) -> State:
        return kernel.init(self.ops, self._at(place).target, position, tuning, key)

    def _run(
        self, place: Place, state: State, tuning: Tuning, key: Any, kernel: Kernel, steps: int
    ) -> tuple[State, dict[str, Array]]:
        import jax

        target = self._at(place).target

        def one(state: State, number: Array) -> tuple[State, dict[str, Array]]:
            state, info = kernel.step(self.ops, target, state, tuning, jax.random.fold_in(key, number))
            return state, {
                "loss": state["loss"],
                "radius": dot(state["position"], state["position"]),
                "pull": state["pull"],
                "acceptance": info.acceptance,
                "divergent": info.divergent,
            }

        return jax.lax.scan(one, state, jax.numpy.arange(steps))

    def _numbers(self, tuning: Tuning) -> Tuning:
        import jax.numpy as jnp

        return Tuning(*(jnp.asarray(value, self._real) for value in tuning))


def _named_leaves(params: Any) -> tuple[list[str], list[Any], Any]:
    """The arrays of a tree with their names, like ``layers.0.weight``."""
    import jax

    found, tree = jax.tree_util.tree_flatten_with_path(params)
    if not found:
        raise BadInput("params holds no arrays", "give the parameters of a trained model")
    names = [".".join(_part(key) for key in path) or "params" for path, _ in found]
    return names, [leaf for _, leaf in found], tree


def _part(key: Any) -> str:
    for field in ("key", "idx", "name"):
        if hasattr(key, field):
            return str(getattr(key, field))
    return str(key)


def _as_arrays(data: Any, real: Any) -> Any:
    """Data with its real numbers in the precision of the chains; integers stay."""
    import jax
    import jax.numpy as jnp

    def convert(leaf: Any) -> Any:
        array = jnp.asarray(leaf)
        return array.astype(real) if jnp.issubdtype(array.dtype, jnp.floating) else array

    return None if data is None else jax.tree.map(convert, data)
