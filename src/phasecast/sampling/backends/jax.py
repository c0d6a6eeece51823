"""Chains on JAX: all at once (``vmap``), a chunk of steps in one compiled loop.

What is compiled (:class:`_Program`) takes w* as an argument, so that one compilation serves all checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.precision import float64
from phasecast.core.types import Key, PyTree
from phasecast.sampling.backends.jax_ops import JaxOps
from phasecast.sampling.backends.jax_probe import check_value, explaining, probe_loss
from phasecast.sampling.backends.jax_trees import as_arrays, named_leaves
from phasecast.sampling.backends.loss_probe import FEW, SUMMED
from phasecast.sampling.backends.protocol import LARGEST_DOUBLE, Minibatch, NotPickled, batches, check_batch
from phasecast.sampling.backends.selection import Entries, Only, entries_that_move, how_many
from phasecast.sampling.kernels.kernel import Array, Kernel, State, Tuning, dot, localised

OPS = JaxOps()
_fold = jax.jit(jax.random.fold_in)  # 30 µs instead of 260

ASIDE = 0.03  # chosen: distance from w*, over the size of a parameter, at which sums and means are told apart
SAME = 1e-4  # relative difference of losses that rounding in float32 explains, with room
ROOM = 64  # steps that one compiled chunk can hold; chunks of λ̂ have 10, 20 or 50


class Place(NamedTuple):
    """w*: all parameters, those that move as one vector, the loss there, its gradient for anchored minibatches, and the
    batches of a table with the loss of each there."""

    leaves: list[Array]
    centre: Array
    lowest: Array
    slope: Array | None
    table: Array | None = None
    table_losses: Array | None = None


@dataclass(frozen=True, eq=False)
class _Program:
    """The loss as a function of w* and the offset, and what is compiled of it."""

    loss: Callable[..., Any]
    tree: Any  # the structure of the parameters, as JAX describes it
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    moves: tuple[bool, ...]
    entries: tuple[Entries, ...]  # of each leaf that moves
    data: PyTree
    decay: float
    batch: Minibatch | None
    double: bool

    @cached_property
    def sizes(self) -> list[int]:
        shapes = [shape for shape, take in zip(self.shapes, self.moves, strict=True) if take]
        return [how_many(entries, shape) for entries, shape in zip(self.entries, shapes, strict=True)]

    @property
    def size(self) -> int:
        return sum(self.sizes)

    @property
    def rows(self) -> int | None:
        return None if self.data is None else len(jax.tree.leaves(self.data)[0])

    @property
    def real(self) -> type[np.floating]:
        return np.float64 if self.double else np.float32

    @contextmanager
    def precision(self) -> Iterator[None]:
        with float64() if self.double else nullcontext():
            yield

    def place(self, leaves: list[Any]) -> Place:
        """w* at these arrays."""
        with self.precision():  # in NumPy, since every operation outside of a compiled function is compiled by itself
            values = [np.asarray(leaf, self.real) for leaf in leaves]
            moving = [leaf.ravel() for leaf, take in zip(values, self.moves, strict=True) if take]
            centre = jnp.asarray(
                np.concatenate(
                    [
                        leaf if chosen is None else leaf[chosen]
                        for leaf, chosen in zip(moving, self.entries, strict=True)
                    ]
                )
            )
            arrays = [jnp.asarray(leaf) for leaf in values]
            zero = np.zeros(centre.size, self.real)
            if self.double:  # the program of the probes and of descents
                here = Place(arrays, centre, jnp.asarray(0.0, self.real), None)
                lowest = np.asarray(self.everywhere(here, zero[None])[0])[0]
            else:
                lowest = self.loss_everywhere(arrays, zero)
            slope = None
            if self.batch is not None and self.batch.anchored:
                slope = jax.jit(jax.grad(self.mean_loss, argnums=1))(arrays, zero, self.data)
            table = table_losses = None
            if self.batch is not None and self.batch.table:
                table = jnp.asarray(batches(self.rows or 0, self.batch.rows))
                table_losses = self.table_losses(arrays, table)
            return Place(arrays, centre, jnp.asarray(lowest), slope, table, table_losses)

    def few_rows(self) -> PyTree:
        """Some rows from all over the data; None if there are not more than that."""
        rows, leaves = self.rows or 0, jax.tree.leaves(self.data)
        if rows <= FEW or any(not np.ndim(leaf) or len(leaf) != rows for leaf in leaves):
            return None
        chosen = np.linspace(0, rows - 1, FEW).astype(int)
        return jax.tree.map(lambda leaf: leaf[chosen], self.data)

    def loss_of(self, leaves: list[Array], chosen: Array | slice) -> Array:
        """The loss of some rows at w*."""
        some = jax.tree.map(lambda leaf: leaf[chosen], self.data)
        return self.mean_loss(leaves, jnp.zeros(self.size, self.real), some)

    def params_at(self, leaves: list[Array], offset: Array) -> PyTree:
        parts = iter(zip(jnp.split(offset, np.cumsum(self.sizes)[:-1]), self.entries, strict=True))
        moved = [_moved(leaf, *next(parts)) if take else leaf for leaf, take in zip(leaves, self.moves, strict=True)]
        return jax.tree.unflatten(self.tree, moved)

    def mean_loss(self, leaves: list[Array], offset: Array, rows: PyTree) -> Array:
        there = self.params_at(leaves, offset)
        value = self.loss(there) if rows is None else self.loss(there, rows)
        check_value(value)
        return jnp.asarray(value)

    def evaluate(self, place: Place, positions: Array, key: Key | None) -> tuple[Array, Array]:
        """L − L* and ∇L at each position, over all rows or over a minibatch for each chain."""
        leaves, lowest, slope_at_centre = place.leaves, place.lowest, place.slope
        differentiated = jax.value_and_grad(lambda offset, rows: self.mean_loss(leaves, offset, rows))
        if key is None:
            value, slope = jax.vmap(lambda offset: differentiated(offset, self.data))(positions)
            return value - lowest, slope
        count, rows = self.batch.rows if self.batch else 0, self.rows or 0

        def one(position: Array, chosen: Array) -> tuple[Array, Array]:
            some = jax.tree.map(lambda leaf: leaf[chosen], self.data)
            value, slope = differentiated(position, some)
            if slope_at_centre is None:
                return value - lowest, slope
            there, slope_there = differentiated(jnp.zeros_like(position), some)
            return value - there, slope - slope_there + slope_at_centre

        if place.table is not None and place.table_losses is not None:
            number = jax.random.randint(key, (len(positions),), 0, len(place.table))
            value, slope = jax.vmap(one)(positions, place.table[number])
            return value + lowest - place.table_losses[number], slope
        bits = jax.random.bits(key, (len(positions), count), "uint32")  # the remainder is uneven by rows/2³² at most
        return jax.vmap(one)(positions, bits % rows)

    def target(self, place: Place, position: Array, tuning: Tuning, key: Key | None) -> State:
        """Energy, gradient, loss and pull at the offsets of all chains."""
        loss, slope = self.evaluate(place, position, key if self.batch is not None else None)
        return localised(position, loss, slope, tuning, self.decay, place.centre)

    @cached_property
    def begin(self) -> Callable[..., State]:
        def init(place: Place, position: Array, tuning: Tuning, key: Key, kernel: Kernel) -> State:
            return kernel.init(OPS, lambda *at: self.target(place, *at), position, tuning, key)

        return jax.jit(init, static_argnames=("kernel",))

    @cached_property
    def chunk(self) -> Callable[..., tuple[State, dict[str, Array]]]:
        def run(
            place: Place, state: State, tuning: Tuning, key: Key, steps: Array, kernel: Kernel, room: int
        ) -> tuple[State, dict[str, Array]]:
            def step(state: State, number: Array) -> tuple[State, dict[str, Array]]:
                step_key = jax.random.fold_in(key, number)
                state, info = kernel.step(OPS, lambda *at: self.target(place, *at), state, tuning, step_key)
                return state, {
                    "loss": state["loss"],
                    "radius": dot(state["position"], state["position"]),
                    "pull": state["pull"],
                    "acceptance": info.acceptance,
                    "divergent": info.divergent,
                }

            def step_and_keep(number: Array, moving: tuple[State, dict[str, Array]]) -> tuple[State, dict[str, Array]]:
                state, observed = step(moving[0], number)
                return state, {name: kept.at[number].set(observed[name]) for name, kept in moving[1].items()}

            _, shapes = jax.eval_shape(step, state, 0)
            empty = {name: jnp.zeros((room, *one.shape), one.dtype) for name, one in shapes.items()}
            return jax.lax.fori_loop(0, steps, step_and_keep, (state, empty))

        return jax.jit(run, static_argnames=("kernel", "room"))

    @cached_property
    def row_function(self) -> Callable[..., Array]:
        def rows(place: Place, offsets: Array, row_losses: Callable[..., Any]) -> Array:
            return jax.vmap(lambda offset: row_losses(self.params_at(place.leaves, offset), self.data))(offsets)

        return jax.jit(rows, static_argnames=("row_losses",))

    @cached_property
    def table_losses(self) -> Callable[..., Array]:
        return jax.jit(lambda leaves, table: jax.lax.map(lambda chosen: self.loss_of(leaves, chosen), table))

    @cached_property
    def batched(self) -> dict[int, _Program]:
        """The same on minibatches, by their size: compiled once for all checkpoints."""
        return {}

    @cached_property
    def loss_everywhere(self) -> Callable[..., Array]:
        return jax.jit(lambda leaves, offset: self.mean_loss(leaves, offset, self.data))

    @cached_property
    def everywhere(self) -> Callable[..., tuple[Array, Array]]:
        return jax.jit(lambda place, offsets: self.evaluate(place, offsets, None))


def jax_backend(
    loss: Callable[..., Any],
    params: PyTree,
    data: PyTree = None,
    *,
    decay: float = 0.0,
    only: Only = None,
    batch: Minibatch | None = None,
    precision: str | None = None,
) -> JaxBackend:
    """A loss around its parameters, ready for chains.

    Parameters
    ----------
    loss, params, data: as in :class:`phasecast.Problem`.
    decay: the coefficient s of a training-time L2 term s/2 |w|² that is sampled along with the loss.
    only: which parameters move, as patterns for names (``"layers.0.*"``) or masks; the others stay where they are.
    batch: the minibatches of gradients; None for gradients of all rows.
    precision: "float64" or "float32"; by default float64 up to :data:`LARGEST_DOUBLE` parameters.
    """
    names, leaves, tree = named_leaves(params)
    shapes = tuple(np.shape(leaf) for leaf in leaves)
    by_name = dict(zip(names, shapes, strict=True))
    entries = entries_that_move(only, by_name)
    moves = tuple(name in entries for name in names)
    if precision not in (None, "float32", "float64"):
        raise BadInput(f"unknown precision '{precision}'", "use float32 or float64")
    size = sum(how_many(chosen, by_name[name]) for name, chosen in entries.items())
    double = size <= LARGEST_DOUBLE if precision is None else precision == "float64"
    with float64() if double else nullcontext():
        arrays = as_arrays(data, np.float64 if double else np.float32)
    program = _Program(loss, tree, tuple(names), shapes, moves, tuple(entries.values()), arrays, decay, batch, double)
    check_batch(batch, program.rows)
    with explaining():
        backend = JaxBackend(program, leaves)
        backend.probe()
    return backend


class JaxBackend:
    """A :class:`~phasecast.sampling.backends.protocol.Backend` in JAX; :func:`jax_backend` makes one."""

    def __init__(self, program: _Program, leaves: list[Any]) -> None:
        self._program, self._place = program, program.place(leaves)
        self.loss_at_centre = float(self._place.lowest)
        self.centre_as_numpy = np.asarray(self._place.centre, dtype=float)
        if not np.isfinite(self.loss_at_centre):
            raise BadInput(f"the loss at params is {self.loss_at_centre}", "give parameters at which it is finite")

    @property
    def size(self) -> int:
        return self._program.size

    @property
    def model_size(self) -> int:
        return sum(math.prod(shape) for shape in self._program.shapes)

    @property
    def rows(self) -> int | None:
        return self._program.rows

    @property
    def decay(self) -> float:
        return self._program.decay

    def probe(self) -> None:
        """Refuse a loss that chains cannot sample. Large models are tried on few rows; all rows confirm a refusal."""
        program, place = self._program, self._place
        with self.precision():
            if not self.double and (few := program.few_rows()) is not None:
                try:
                    return probe_loss(lambda offset: program.mean_loss(place.leaves, offset, few), place.centre)
                except Exception:  # also a loss that insists on its number of rows
                    pass
            return probe_loss(
                lambda offset: program.mean_loss(place.leaves, offset, program.data),
                place.centre,
                self._at if self.double else None,
            )

    def _at(self, offset: np.ndarray) -> tuple[float, np.ndarray]:
        """L and ∇L over all the data at one offset."""
        loss, slope = self.evaluate(offset[None])
        return float(loss[0]) + self.loss_at_centre, slope[0].astype(float)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of the loss: that it is a sum over rows."""
        program, rows = self._program, self._program.rows or 0
        if not rows or any(not np.ndim(leaf) or len(leaf) != rows for leaf in jax.tree.leaves(program.data)):
            return ()
        once = program.few_rows() if rows > FEW else program.data
        twice = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), once)
        length = ASIDE * float(np.sqrt(np.mean(self.centre_as_numpy**2)) or 1.0)  # at w* the loss may vanish
        with self.precision():
            aside = jnp.asarray(length * np.random.default_rng(0).normal(size=self.size), program.real)
            try:
                mean_loss = jax.jit(program.mean_loss)
                first, second = (float(mean_loss(self._place.leaves, aside, part)) for part in (once, twice))
            except Exception:  # a loss that insists on its number of rows
                return ()
        exact = (1e-9 if self.double else 3e-5) * abs(first)
        return (SUMMED,) if np.isfinite(first) and abs(second - 2 * first) <= exact < abs(first) else ()

    @property
    def separable(self) -> bool:
        """Whether the loss of all rows is the mean of those of two halves, to rounding."""
        program, leaves = self._program, jax.tree.leaves(self._program.data)
        rows = program.rows or 0
        if rows < 2 or any(not np.ndim(leaf) or len(leaf) != rows for leaf in leaves):
            return False
        half = rows // 2
        with self.precision():
            first, second = (program.loss_of(self._place.leaves, slice(*part)) for part in ((0, half), (half, rows)))
            joined = (half * float(first) + (rows - half) * float(second)) / rows
        return abs(joined - self.loss_at_centre) <= SAME * max(abs(self.loss_at_centre), abs(joined))

    @property
    def double(self) -> bool:
        return self._program.double

    @property
    def names(self) -> list[str]:
        return list(self._program.names)

    @property
    def setup_gradients(self) -> float:
        """L(w*), and ∇L(w*) where minibatches are anchored there."""
        return 1.0 if self._place.slope is None else 2.0

    def moved_to(self, params: PyTree) -> JaxBackend:
        """The same around other parameters of the same shapes, without another compilation."""
        names, leaves, tree = named_leaves(params)
        if tree != self._program.tree or tuple(np.shape(leaf) for leaf in leaves) != self._program.shapes:
            raise BadInput(
                f"these parameters have other names or shapes ({', '.join(names[:8])})", "give the same ones"
            )
        return JaxBackend(self._program, leaves)

    def minibatched(self, batch: int) -> JaxBackend:
        """The same with gradients of about so many rows, from a table of batches."""
        programs = self._program.batched
        if batch not in programs:
            programs[batch] = replace(self._program, batch=Minibatch(batch, anchored=False, table=True))
            for name in ("loss_everywhere", "everywhere"):  # over all rows, whatever the batches
                vars(programs[batch])[name] = getattr(self._program, name)
        return JaxBackend(programs[batch], self._place.leaves)

    def __getstate__(self) -> dict[str, Any]:
        lost = NotPickled("what JAX compiled, and numbers in float64, stay in their process")
        return {**self.__dict__, "_program": lost, "_place": lost}

    # what kernels see

    @property
    def ops(self) -> JaxOps:
        return OPS

    def target(self, position: Array, tuning: Tuning, key: Key | None) -> State:
        """Energy, gradient, loss and pull at the offsets of all chains."""
        return self._program.target(self._place, position, tuning, key)

    def precision(self) -> Any:
        """A context in which JAX computes in the precision of the chains."""
        return self._program.precision()

    # what the estimator calls

    def key(self, seed: int) -> Key:
        return jax.random.key(seed)

    def fold(self, key: Key, number: int) -> Key:
        return _fold(key, np.uint32(number))

    def normal(self, key: Key, chains: int) -> Array:
        with self.precision():
            return jax.random.normal(key, (chains, self.size), self._program.real)

    def array(self, values: Array) -> Array:
        with self.precision():
            return jnp.asarray(values, self._program.real)

    def init(self, kernel: Kernel, position: Array, tuning: Tuning, key: Key) -> State:
        """The state of a kernel at these offsets."""
        with self.precision():
            return self._program.begin(self._place, position, self._numbers(tuning), key, kernel=kernel)

    def run(
        self, kernel: Kernel, state: State, tuning: Tuning, key: Key, steps: int
    ) -> tuple[State, dict[str, np.ndarray]]:
        """The state after a chunk of steps, and what each step observed, as arrays (steps, chains)."""
        with self.precision():
            room = max(ROOM, 1 << (steps - 1).bit_length())
            state, observed = self._program.chunk(
                self._place, state, self._numbers(tuning), key, np.int32(steps), kernel=kernel, room=room
            )
            return state, {name: np.asarray(value)[:steps] for name, value in observed.items()}

    def evaluate(self, offsets: Array) -> tuple[np.ndarray, np.ndarray]:
        """L − L* and ∇L over all the data at offsets (chains, size)."""
        with self.precision():
            bare = self._place._replace(
                slope=None, table=None, table_losses=None
            )  # one program, with or without batches
            loss, slope = self._program.everywhere(bare, jnp.asarray(offsets, self._program.real))
            return np.asarray(loss), np.asarray(slope)

    def of_rows(self, row_losses: Callable[..., Any], offsets: Array) -> np.ndarray:
        """``row_losses(params, data)``, the loss of each row, at offsets (chains, size): (chains, rows)."""
        with self.precision():
            places = jnp.asarray(offsets, self._program.real)
            return np.asarray(self._program.row_function(self._place, places, row_losses=row_losses))

    def _numbers(self, tuning: Tuning) -> Tuning:
        return Tuning(*(np.asarray(value, self._program.real) for value in tuning))


def _moved(leaf: Array, part: Array, entries: Entries) -> Array:
    """A parameter with an offset added to the entries that move."""
    if entries is None:
        return leaf + part.reshape(leaf.shape)
    return leaf.ravel().at[entries].add(part, unique_indices=True, indices_are_sorted=True).reshape(leaf.shape)
