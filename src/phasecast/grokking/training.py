"""How does a network learn? Thousands of optimiser steps in one compiled loop, for many seeds and settings at once.

The loss is the centred square

.. math:: L = \\frac{1}{2B} \\lVert P_\\perp (Y - \\hat Y) \\rVert_F^2

with :math:`P_\\perp` the projection that removes the mean over the B rows (Cullen et al. 2026, section 3). It is
unchanged by a constant added to the outputs, so the outputs are shifted to the mean of the training targets before the
answers are read.

Everything random at a step is a function of the seed and the step, so training resumes from a stored state bit for bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.types import Array, PyTree
from phasecast.grokking.networks import Architecture, Params
from phasecast.grokking.optimisers import Optimiser, Step, optimiser
from phasecast.grokking.tasks import Task, split

if TYPE_CHECKING:
    import jax

    Hyper = tuple[jax.Array, jax.Array]
    """Learning rate and weight decay of each member."""

State = dict[str, Any]
"""What a training continues from: ``params``, ``moments``, ``step``, ``diverged``; arrays lead with the members."""

Part = tuple[Array, Array]
"""Tokens and labels of the training or the validation rows."""

CURVES = ("train_loss", "validation_loss", "train_accuracy", "validation_accuracy")
DISPATCHES = (5000, 2500, 1000, 500, 250, 100, 50)  # steps in one call of the compiled loop
DRAWN_TOGETHER = 50  # minibatches drawn from one random generator; divides every dispatch
WORK = 2e11  # floating-point operations per dispatch, a second or two of one core


@dataclass(frozen=True)
class Piece:
    """Training up to ``step``.

    Parameters
    ----------
    step: steps done.
    state: everything needed to continue, see :data:`State`.
    curves: ``step`` (logged,) and the four :data:`CURVES` (logged, members) since the previous piece.
    at_checkpoint: whether this step is one of the requested checkpoints.
    diverged: (members,) the first logged step with a NaN loss, −1 if there is none.
    number, total: pieces so far, and in all.
    """

    step: int
    state: State
    curves: dict[str, np.ndarray]
    at_checkpoint: bool
    diverged: np.ndarray
    number: int
    total: int

    def params(self, member: int = 0) -> Params:
        """The weights of one member."""
        return {name: leaf[member] for name, leaf in self.state["params"].items()}


def train(
    task: Task,
    network: Architecture,
    *,
    steps: int,
    fraction: float = 0.4,
    count: int | None = None,
    lr: float | Sequence[float] = 1e-3,
    weight_decay: float | Sequence[float] = 1e-4,
    batch: int | None = None,
    optimiser: str = "adam",
    seeds: int | Sequence[int] = 0,
    log_every: int = 20,
    checkpoints: Iterable[int] = (),
    state: State | None = None,
    # wide signature: the settings of a training, the documented keywords of a headline function
) -> Iterator[Piece]:
    """Train a network on part of a task's table; yields a :class:`Piece` at each checkpoint and in between.

    ``seeds``, ``lr`` and ``weight_decay`` may be lists of equal length; then that many members are trained side by
    side. A seed determines training rows, initial weights and minibatches. ``batch`` rows are drawn without replacement
    at each step; it defaults to all training rows. ``state`` is the state of an earlier piece to continue from. A
    member whose loss becomes NaN is frozen; training stops when all have.

    >>> from phasecast.grokking import quadratic, task
    >>> table = task("addition", 5)
    >>> *_, last = train(table, quadratic(table, 16), steps=40, fraction=0.8)
    >>> last.step, last.params()["V"].shape
    (40, (5, 16))
    """
    members = Members.of(seeds, lr, weight_decay)
    data = [split(task, fraction, seed, count=count) for seed in members.seeds]
    n = len(data[0][0])
    whole_number("steps", steps, 1)
    whole_number("log_every", log_every, 1)
    if batch is not None and whole_number("batch", batch, 2) > n:
        raise BadInput(f"batch = {batch} is larger than the {n} training rows", f"use at most {n}, or None for all")
    wanted = sorted({int(step) for step in checkpoints})
    if wanted and not 0 <= wanted[0] <= wanted[-1] <= steps:
        raise BadInput(f"checkpoints reach from step {wanted[0]} to step {wanted[-1]}", f"use steps from 0 to {steps}")
    loop = Loop(task, network, _optimiser(optimiser), data, members, batch, log_every)
    return _pieces(loop, steps, wanted, state)


def checkpoint_steps(steps: int, many: int = 20) -> list[int]:
    """Steps to keep: half of them evenly spaced in log time, half evenly in time, with the first and the last."""
    whole_number("steps", steps, 1)
    whole_number("many", many, 1)
    half = max(2, (many + 1) // 2)
    logs, evenly = np.geomspace(1, steps, half), np.linspace(0, steps, many - half + 2)
    return sorted({round(float(step)) for step in (0, *logs, *evenly)})


def minibatches(seed: int, start: int, stop: int, n: int, batch: int) -> np.ndarray:
    """(stop − start, batch) rows of the minibatches of these steps, each drawn without replacement from n."""
    first, last = start // DRAWN_TOGETHER, -(-stop // DRAWN_TOGETHER)
    rows = np.broadcast_to(np.arange(n, dtype=np.int32), (DRAWN_TOGETHER, n))
    drawn = [np.random.default_rng([seed, 2, unit]).permuted(rows, axis=1)[:, :batch] for unit in range(first, last)]
    return np.concatenate(drawn)[start - first * DRAWN_TOGETHER : stop - first * DRAWN_TOGETHER]


def centred_loss(outputs: jax.Array, labels: Array) -> jax.Array:
    """½‖P⊥(Y − Ŷ)‖²/B of outputs (B, classes) against one-hot labels."""
    import jax.numpy as jnp

    residual = outputs - _one_hot(labels, outputs.shape[1])
    residual = residual - jnp.mean(residual, axis=0)
    return 0.5 * jnp.sum(residual * residual) / outputs.shape[0]


def performance(apply: Callable[..., Any], params: Params, train: Part, validation: Part) -> jax.Array:
    """Losses on the training and the validation part, and how many rows of each are answered correctly, shape (4,).

    The loss leaves the mean output undetermined. Before the largest output is taken as the answer, all outputs are
    shifted so that their mean over the training rows equals that of the training targets.
    """
    import jax.numpy as jnp

    outputs, others = apply(params, train[0]), apply(params, validation[0])
    shift = jnp.mean(_one_hot(train[1], outputs.shape[1]) - outputs, axis=0)

    def correct(outputs: jax.Array, labels: Array) -> jax.Array:
        return jnp.sum(jnp.argmax(outputs + shift, axis=1) == labels).astype(jnp.float32)

    return jnp.stack(
        [
            centred_loss(outputs, train[1]),
            centred_loss(others, validation[1]),
            correct(outputs, train[1]),
            correct(others, validation[1]),
        ]
    )


@dataclass(frozen=True)
class Members:
    """The settings in which networks trained side by side differ."""

    seeds: tuple[int, ...]
    lr: np.ndarray
    weight_decay: np.ndarray

    @classmethod
    def of(
        cls, seeds: int | Sequence[int], lr: float | Sequence[float], weight_decay: float | Sequence[float]
    ) -> Members:
        for name, values in (("seeds", seeds), ("lr", lr), ("weight_decay", weight_decay)):
            if not np.size(values):
                raise BadInput(f"{name} is empty", "give a number, or one per network")
        try:
            drawn, rates, decays = np.broadcast_arrays(*map(np.atleast_1d, (seeds, lr, weight_decay)))
        except ValueError:
            raise BadInput("seeds, lr and weight_decay have different lengths", "give lists of equal length") from None
        if not (np.all(rates > 0) and np.all(np.isfinite(rates))):
            raise BadInput(f"a learning rate is {np.min(rates):g}", "use positive, finite numbers")
        if not np.all(decays >= 0):
            raise BadInput(f"a weight decay is {np.min(decays):g}", "use 0 or a positive number")
        return cls(tuple(map(int, drawn)), rates.astype(np.float32), decays.astype(np.float32))


class Loop:
    """The compiled training of all members of one setting."""

    def __init__(
        self,
        task: Task,
        network: Architecture,
        rule: Optimiser,
        data: list[tuple[np.ndarray, np.ndarray]],
        members: Members,
        batch: int | None,
        log_every: int,
    ):
        self.network, self.rule, self.members = network, rule, members
        self.batch, self.log_every, self.n = batch, log_every, len(data[0][0])
        self.others = task.rows - self.n
        self.single = len(members.seeds) == 1
        tokens, labels = task.tokens.astype(np.int32), task.labels.astype(np.int32)
        rows = [np.stack(part) for part in zip(*data, strict=True)]
        self.data = self._inside(tuple((tokens[part], labels[part]) for part in rows))
        self.hyper = self._inside((members.lr, members.weight_decay))
        weights = sum(leaf.size for leaf in network.init(0).values())
        work = 6 * weights * (batch or self.n) * len(members.seeds)
        self.dispatch = next((steps for steps in DISPATCHES if steps * work <= WORK), DISPATCHES[-1])
        self.program = compiled_program(network, rule, log_every, self.dispatch, len(members.seeds))

    def start(self) -> State:
        """The state before the first step."""
        drawn = [self.network.init(seed) for seed in self.members.seeds]
        params = {name: np.stack([one[name] for one in drawn]) for name in drawn[0]}
        moments = [{name: np.zeros_like(leaf) for name, leaf in params.items()} for _ in range(self.rule.moments)]
        return {"params": params, "moments": moments, "step": 0, "diverged": np.full(len(drawn), -1)}

    def advance(self, state: State, stop: int) -> tuple[State, dict[str, np.ndarray]]:
        """Train up to step ``stop``: the state there, and the curves at the logged steps before it."""
        import jax

        start = int(state["step"])
        batches = None
        if self.batch is not None:
            drawn = [minibatches(seed, start, stop, self.n, self.batch) for seed in self.members.seeds]
            padded = np.zeros((len(drawn), self.dispatch, self.batch), np.int32)  # one shape, one compilation
            padded[:, : stop - start] = drawn
            batches = self._inside(padded) if self.single else padded.swapaxes(0, 1)
        params, moments = self._inside((state["params"], tuple(state["moments"])))
        params, moments, logs = self.program.advance(params, moments, start, stop, batches, self.data, self.hyper)
        steps = np.arange(-(-start // self.log_every), -(-stop // self.log_every)) * self.log_every
        params, moments = jax.tree.map(np.array, self._outside((params, moments)))  # copies: the buffers are reused
        state = {"params": params, "moments": list(moments), "step": stop, "diverged": state["diverged"]}
        return state, self._named(steps, np.asarray(logs)[: len(steps)])

    def evaluated(self, state: State) -> dict[str, np.ndarray]:
        """One row of the curves, at a state."""
        row = np.asarray(self.program.evaluate(self._inside(state["params"]), self.data))
        return self._named(np.array([state["step"]]), row[None])

    def _named(self, steps: np.ndarray, logs: np.ndarray) -> dict[str, np.ndarray]:
        logs = (logs[:, None] if self.single else logs) / np.array([1, 1, self.n, self.others])  # exact: 318/318 is 1
        return {"step": steps, **{name: logs[..., place] for place, name in enumerate(CURVES)}}

    def _inside(self, tree: PyTree) -> PyTree:
        """Drop the axis of the members if there is only one: the loop then compiles without it."""
        import jax

        return jax.tree.map(lambda leaf: leaf[0], tree) if self.single else tree

    def _outside(self, tree: PyTree) -> PyTree:
        import jax

        return jax.tree.map(lambda leaf: leaf[None], tree) if self.single else tree


@functools.lru_cache(maxsize=16)  # programs are small beside the arrays that they run on
def compiled_program(network: Architecture, rule: Optimiser, log_every: int, dispatch: int, members: int) -> Program:
    """The program of a training; trainings that differ in their arrays alone share one, compiled once in a process."""
    return Program(network, rule, log_every, dispatch, members)


class Program:
    """What of a training is compiled: all but the arrays."""

    def __init__(self, network: Architecture, rule: Optimiser, log_every: int, dispatch: int, members: int) -> None:
        import jax

        self.network, self.rule, self.log_every, self.dispatch = network, rule, log_every, dispatch
        self.members, self.single = members, members == 1
        self.advance = jax.jit(self._run, donate_argnums=(0, 1))
        self.evaluate = jax.jit(self._curves)

    def _run(
        self,
        params: Params,
        moments: tuple[Params, ...],
        start: jax.Array,
        stop: jax.Array,
        batches: jax.Array | None,
        data: tuple[Part, Part],
        hyper: Hyper,
    ) -> tuple[Params, tuple[Params, ...], jax.Array]:
        import jax
        import jax.numpy as jnp

        every = self.log_every
        size = () if self.single else (self.members,)
        logs = jnp.zeros((self.dispatch // every + 2, *size, len(CURVES)), jnp.float32)
        step_of_all = self._step if self.single else jax.vmap(self._step, in_axes=(0, 0, None, 0, 0, 0))

        def body(carry: PyTree) -> PyTree:
            step, params, moments, logs = carry
            logs = jax.lax.cond(
                step % every == 0,
                lambda: logs.at[step // every - (start + every - 1) // every].set(self._curves(params, data)),
                lambda: logs,
            )
            rows = None if batches is None else batches[step - start]
            params, moments = step_of_all(params, moments, step + 1.0, rows, data[0], hyper)
            return step + 1, params, moments, logs

        return jax.lax.while_loop(lambda carry: carry[0] < stop, body, (start, params, moments, logs))[1:]

    def _step(
        self,
        params: Params,
        moments: tuple[Params, ...],
        step: jax.Array,
        rows: Array | None,
        train: Part,
        hyper: Hyper,
    ) -> tuple[Params, tuple[Params, ...]]:
        import jax

        tokens, labels = train if rows is None else (train[0][rows], train[1][rows])
        if self.network.gradient is not None:
            gradient = self.network.gradient(params, tokens, labels)
        else:
            gradient = jax.grad(lambda params: centred_loss(self.network.apply(params, tokens), labels))(params)
        at = Step(step, *hyper)
        moved = {
            name: self.rule.update(leaf, gradient[name], tuple(kind[name] for kind in moments), at)
            for name, leaf in params.items()
        }
        kinds = range(self.rule.moments)
        return (
            {name: weight for name, (weight, _) in moved.items()},
            tuple({name: memory[kind] for name, (_, memory) in moved.items()} for kind in kinds),
        )

    def _curves(self, params: Params, data: tuple[Part, Part]) -> jax.Array:
        import jax

        def one(params: Params, data: tuple[Part, Part]) -> jax.Array:
            return performance(self.network.apply, params, *data)

        return one(params, data) if self.single else jax.vmap(one)(params, data)


def _pieces(loop: Loop, steps: int, wanted: list[int], state: State | None) -> Iterator[Piece]:
    """A piece at every multiple of the dispatch, at every checkpoint and at the end."""
    begins = state is None
    state = loop.start() if state is None else state
    stops = sorted({*wanted, *range(loop.dispatch, steps, loop.dispatch), steps})
    for number, stop in enumerate(stops, start=1):
        if stop < state["step"] or (stop == state["step"] and not begins) or np.all(state["diverged"] >= 0):
            continue
        state, curves = loop.advance(state, stop) if stop else (state, loop.evaluated(state))
        if not stop:
            curves = {name: column[:0] for name, column in curves.items()}  # the first advance logs step 0
        if stop == steps:
            last = loop.evaluated(state)
            curves = {name: np.concatenate([column, last[name]]) for name, column in curves.items()}
        state, curves = _look_for_divergence(state, curves)
        over = bool(np.all(state["diverged"] >= 0))
        total = number if over else len(stops)
        yield Piece(stop, state, curves, stop in wanted or over, state["diverged"], number, total)


def _look_for_divergence(state: State, curves: dict[str, np.ndarray]) -> tuple[State, dict[str, np.ndarray]]:
    """Record the first logged step at which each member's loss is NaN; cut the curves once all members' are."""
    broken = np.logical_or.accumulate(~np.isfinite(curves["train_loss"]), axis=0) | (state["diverged"] >= 0)
    if not broken.any():
        return state, curves
    first = np.where(broken.any(axis=0), curves["step"][broken.argmax(axis=0)], -1)
    diverged = np.where(state["diverged"] >= 0, state["diverged"], first)
    if broken.all(axis=1).any():
        keep = int(broken.all(axis=1).argmax()) + 1
        curves = {name: column[:keep] for name, column in curves.items()}
    return {**state, "diverged": diverged}, curves


def _one_hot(labels: Array, classes: int) -> jax.Array:
    import jax.numpy as jnp

    return (labels[:, None] == jnp.arange(classes)).astype(jnp.float32)


_optimiser = optimiser
