"""Chains on PyTorch: all at once (``torch.func.vmap``), on any device, for any ``nn.Module``.

As on JAX, everything is a function of the offset u from w*, flattened.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from phasecast.core.errors import BadInput
from phasecast.sampling.backends.protocol import LARGEST_DOUBLE, Minibatch, NotPickled, batches, check_batch
from phasecast.sampling.backends.selection import Only
from phasecast.sampling.backends.torch_data import read_examples
from phasecast.sampling.backends.torch_gradients import Gradients, SequentialChains
from phasecast.sampling.backends.torch_module import (
    ModuleLoss,
    differs_in_training,
    moving_parameters,
    one_line,
    uncompiled,
)
from phasecast.sampling.backends.torch_ops import TorchOps, fold, generator
from phasecast.sampling.backends.torch_probe import FORWARD, Kind, Probe, look, try_loss
from phasecast.sampling.kernels.kernel import Array, Kernel, State, Tuning, dot, localised

__all__ = ["SequentialChains", "TorchBackend", "torch_backend"]

OPS = TorchOps()

ROUNDING = 2.0**-23  # of float32
HEAVY_WORK = 1e7  # parameters × rows above which float64 costs seconds per λ̂
MEAN_OF_MANY = 10.0  # more rounding is accepted there: it differs from batch to batch, and λ̂ is a mean over hundreds
QUICK_WORK = 5e7  # parameters × rows up to which L(w*) is evaluated at once, so that a loss that is not finite is seen
MOST_ROUNDING = 1e-3
"""Rounding of λ̂ that is accepted for each thousand parameters, and for fewer: λ̂ itself grows with their number."""


def torch_backend(
    module: nn.Module,
    loss: Callable[..., Any] | None,
    data: Any = None,
    *,
    decay: float = 0.0,
    only: Only = None,
    batch: Minibatch | None = None,
    precision: str | Callable[[int | None], float] | None = None,
    device: str | torch.device | None = None,
) -> TorchBackend:
    """A loss around the parameters of a module, ready for chains.

    Parameters
    ----------
    module: a trained ``nn.Module``; parameters that need no gradient stay.
    loss: ``loss(outputs, targets)``, the *mean* negative log-likelihood per term; None for the outputs' ``.loss``.
    data: what :func:`~phasecast.sampling.backends.torch_data.read_examples` reads; None for a population loss,
        ``loss(module())``.
    decay: the coefficient s of a training-time L2 term s/2 |w|² that is sampled along with the loss.
    only: which parameters move, as patterns for names (``"layers.0.*"``) or masks; the others stay where they are.
    batch: the minibatches of gradients; None for gradients of all rows.
    precision: "float64" or "float32"; by default that of the module, float32 for anything shorter. A function from the
        number of terms to the planned nβ also means that, but float64 where nβL(w*) is so large that rounding in
        float32 would be seen in λ̂.
    device: where to compute; by default where the module is.
    """
    if not isinstance(module, nn.Module):
        raise BadInput(f"module is a {type(module).__name__}", "give a torch.nn.Module")
    if loss is not None and not callable(loss):
        raise BadInput(f"loss is a {type(loss).__name__}, not a function", "give loss(outputs, targets)")
    examples = read_examples(data)
    if loss is None and examples is None:
        raise BadInput("loss is a NoneType, and there is no data", "give loss(outputs)")
    in_training = differs_in_training(module)
    module = uncompiled(module)
    names, moving, entries = moving_parameters(module, only)
    check_batch(batch, None if examples is None else len(examples))
    place = _device(device, next(iter(moving.values())).device)
    if precision is not None and not callable(precision) and precision not in ("float32", "float64"):
        raise BadInput(f"unknown precision '{precision}'", "use float32 or float64")

    def in_precision(dtype: torch.dtype) -> tuple[ModuleLoss, Probe]:
        owned = ModuleLoss(module, loss, examples, entries, place, dtype)
        return owned, look(owned)

    owned, probe = _precise_enough(in_precision, precision, next(iter(moving.values())).dtype, place)
    if in_training:
        word = "the module was in train mode: it is sampled in eval mode, without dropout, with stored statistics"
        probe = replace(probe, notes=(*probe.notes, word))
    if math.isfinite(probe.value):
        probe = replace(probe, cost=probe.cost + try_loss(owned, probe.few))
    return TorchBackend(names, Gradients(owned, probe), owned.first, decay, batch)


def _precise_enough(
    in_precision: Callable[[torch.dtype], tuple[ModuleLoss, Probe]],
    chosen: str | Callable[[int | None], float] | None,
    own: torch.dtype,
    place: torch.device,
) -> tuple[ModuleLoss, Probe]:
    """The loss in the precision that was asked for, or in that of the module unless rounding matters."""
    if isinstance(chosen, str):
        return in_precision(torch.float64 if chosen == "float64" and place.type != "mps" else torch.float32)
    if own == torch.float64 and place.type != "mps":
        try:
            return in_precision(torch.float64)
        except BadInput:  # its code may insist on float32
            return in_precision(torch.float32)
    owned, probe = in_precision(torch.float32)
    size = owned.first.numel()
    rounding = 0.0 if chosen is None else chosen(probe.terms) * abs(probe.value) * ROUNDING
    accepted = MOST_ROUNDING * max(1.0, size / 1000)
    if owned.data is not None and owned.model_size * len(owned.data[0]) > HEAVY_WORK:
        accepted *= MEAN_OF_MANY
    if place.type == "mps" or size > LARGEST_DOUBLE or not rounding > accepted:
        return owned, probe
    try:
        return in_precision(torch.float64)
    except BadInput:
        return owned, probe


class TorchBackend:
    """A :class:`~phasecast.sampling.backends.protocol.Backend` in PyTorch; :func:`torch_backend` makes one.

    Between chunks everything rests on the CPU, where numpy can read it.
    """

    def __init__(
        self,
        names: list[str],
        gradients: Gradients,
        centre: Tensor,
        decay: float,
        batch: Minibatch | None,
    ) -> None:
        self.names, self.decay = names, decay
        self._gradients, self._centre, self._batch = gradients, centre, batch
        self._setup = gradients.setup_gradients
        self.centre_as_numpy = centre.cpu().numpy().astype(float)
        if (self.rows or 1) * self.model_size <= QUICK_WORK:
            _check_finite(self.loss_at_centre)

    @property
    def loss_at_centre(self) -> float:
        """L(w*) over all rows; those of a table of batches add up to it, and need not be evaluated again."""
        return self._loss_at_centre

    @cached_property
    def _loss_at_centre(self) -> float:
        value = self._gradients.at(self._centre) if self._batch is None or not self._table_adds_up else self._table_mean
        _check_finite(value)
        return value

    @property
    def _loss(self) -> ModuleLoss:
        return self._gradients.loss

    @property
    def size(self) -> int:
        return self._centre.numel()

    @property
    def model_size(self) -> int:
        return self._loss.model_size

    @property
    def rows(self) -> int | None:
        return None if self._loss.data is None else len(self._loss.data[0])

    @property
    def separable(self) -> bool:
        """Whether the loss of all rows follows from those of parts of them."""
        return self._loss.data is not None and self.probe.kind is not Kind.WHOLE

    @property
    def double(self) -> bool:
        return self._loss.dtype == torch.float64

    @property
    def sequential(self) -> bool:
        """Whether chains take turns because the module cannot be vmapped."""
        return self._gradients.sequential

    @property
    def probe(self) -> Probe:
        """What is known about the loss: its terms, and what the user should know of it."""
        return self._gradients.probe

    @property
    def setup_gradients(self) -> float:
        """What is evaluated before the chains, in gradients of all rows: a look at few rows, L(w*), and what
        minibatches are compared with there."""
        if self._batch is None or self._batch.table:
            return self._setup + FORWARD * (1 if self._batch is None or self._table_adds_up else 2)
        return self._setup + FORWARD + float(self._batch.anchored)

    @property
    def device(self) -> torch.device:
        return self._loss.device

    def moved_to(self, params: Mapping[str, Any] | nn.Module) -> TorchBackend:
        """The same around the weights of a state dict or of another module of the same shape.

        Compiled again only where buffers or frozen parameters differ, as those of batch norm do.
        """
        state = params.state_dict() if isinstance(params, nn.Module) else params
        state = {name.replace("_orig_mod.", ""): value for name, value in state.items()}
        centre = self._loss.centre_of(state)
        loss, gradients = self._loss.with_fixed(state), self._gradients
        if loss is not self._loss:
            gradients = Gradients(loss, replace(gradients.probe, cost=0.0))
        moved = TorchBackend(self.names, gradients, centre, self.decay, self._batch)
        moved._setup = 0.0 if loss is self._loss else gradients.setup_gradients
        return moved

    def minibatched(self, batch: int) -> TorchBackend:
        """The same with gradients of about so many rows, from a table of batches."""
        chosen = Minibatch(batch, anchored=False, table=True)
        check_batch(chosen, self.rows)
        same = TorchBackend(self.names, self._gradients, self._centre, self.decay, chosen)
        same._setup = self._setup
        return same

    def __getstate__(self) -> dict[str, Any]:
        self._loss.put_first()
        _ = self.loss_at_centre  # what was pickled may not be able to evaluate it
        try:
            pickle.dumps((self._loss.module, self._loss.loss))
        except Exception as error:  # a lambda, or a class inside a function
            return {**self.__dict__, "_gradients": NotPickled(one_line(error))}
        return self.__dict__

    # what kernels see

    @property
    def ops(self) -> TorchOps:
        return OPS

    def target(self, position: Array, tuning: Tuning, key: int) -> State:
        """Energy, gradient, loss and pull at the offsets of all chains."""
        loss, slope = self._evaluate(position, key if self._batch is not None else None)
        return localised(position, loss, slope, tuning, self.decay, self._centre)

    def _evaluate(self, positions: Tensor, key: int | None) -> tuple[Tensor, Tensor]:
        """L − L* and ∇L at each position, over all rows or over a minibatch for each chain."""
        batch = self._batch
        if key is None or batch is None:
            value, slope = self._gradients.everywhere(self._centre, positions)
            return (value - self.loss_at_centre).to(slope.dtype), slope
        chains, rows = len(positions), self.rows or 0
        draw = generator(key, self.device)
        if batch.table:
            table, losses = self._table
            number = torch.randint(len(table), (chains,), generator=draw, device=self.device)
            value, slope = self._gradients.of_rows(self._centre, positions, table[number])
            return value - losses[number], slope
        chosen = torch.randint(rows, (chains, batch.rows), generator=draw, device=self.device)
        if not batch.anchored:
            value, slope = self._gradients.of_rows(self._centre, positions, chosen)
            return value - self.loss_at_centre, slope
        both = torch.cat([positions, torch.zeros_like(positions)])
        value, slope = self._gradients.of_rows(self._centre, both, chosen)
        (here, there), (slope_here, slope_there) = value.split(chains), slope.split(chains)
        return here - there, slope_here - slope_there + self._slope_at_centre

    @cached_property
    def _table(self) -> tuple[Tensor, Tensor]:
        """Batches of rows, and the loss of each at w*."""
        table = torch.as_tensor(batches(self.rows or 0, self._batch.rows if self._batch else 1), device=self.device)
        losses = self._gradients.values_of_rows(self._centre, table)
        _check_finite(float(losses.mean()))
        return table, losses

    @property
    def _table_adds_up(self) -> bool:
        """Whether L(w*) is the plain mean over the rows of a table of batches."""
        plain = self.probe.kind is Kind.MEAN and self.probe.counts is None
        return self._batch is not None and self._batch.table and plain

    @property
    def _table_mean(self) -> float:
        """The mean of the table's losses, without the few rows at its end that it holds a second time."""
        (table, losses), rows = self._table, self.rows or 1
        total, twice = float(losses.double().sum()) * table.shape[1], table.flatten()[rows:]
        if len(twice):
            total -= len(twice) * float(self._gradients.values_of_rows(self._centre, twice[None])[0])
        return total / rows

    @cached_property
    def _slope_at_centre(self) -> Tensor:
        return self._gradients.everywhere(self._centre, torch.zeros_like(self._centre)[None])[1][0]

    # what the estimator calls

    def key(self, seed: int) -> int:
        return fold(seed % 2**64, 0)

    def fold(self, key: int, number: int) -> int:
        return fold(key, number)

    def normal(self, key: int, chains: int) -> Tensor:
        return OPS.normal(key, torch.empty(chains, self.size, dtype=self._loss.dtype))

    def array(self, values: Array) -> Tensor:
        return torch.as_tensor(values, dtype=self._loss.dtype)

    def init(self, kernel: Kernel, position: Array, tuning: Tuning, key: int) -> State:
        """The state of a kernel at these offsets."""
        refuse_jax(kernel)
        with torch.no_grad():
            position = torch.as_tensor(position).to(self.device, self._loss.dtype)
            return _rest(kernel.init(OPS, self.target, position, _floats(tuning), key))

    def run(
        self, kernel: Kernel, state: State, tuning: Tuning, key: int, steps: int
    ) -> tuple[State, dict[str, np.ndarray]]:
        """The state after a chunk of steps, and what each step observed, as arrays (steps, chains)."""
        refuse_jax(kernel)
        numbers = _floats(tuning)
        observed: dict[str, list[Tensor]] = {name: [] for name in ("loss", "radius", "pull", "acceptance", "divergent")}
        with torch.no_grad():
            state = {name: value.to(self.device) for name, value in state.items()}
            for number in range(steps):
                state, info = kernel.step(OPS, self.target, state, numbers, fold(key, number))
                position = state["position"]
                values = (state["loss"], dot(position, position), state["pull"], info.acceptance, info.divergent)
                for name, value in zip(observed, values, strict=True):
                    observed[name].append(value)
            return _rest(state), {name: torch.stack(values).cpu().numpy() for name, values in observed.items()}

    def evaluate(self, offsets: Array) -> tuple[np.ndarray, np.ndarray]:
        """L − L* and ∇L over all the data at offsets (chains, size), as float64 for whatever is computed from them."""
        with torch.no_grad():
            loss, slope = self._evaluate(torch.as_tensor(offsets).to(self.device, self._loss.dtype), None)
            return loss.double().cpu().numpy(), slope.double().cpu().numpy()

    def of_rows(self, row_losses: Callable[..., Any], offsets: Array) -> np.ndarray:
        """``row_losses(outputs, targets)``, the loss of each row or of each of its tokens, at offsets (chains, size):
        (chains, rows) or (chains, rows, tokens)."""
        with torch.no_grad():
            places = torch.as_tensor(offsets).to(self.device, self._loss.dtype)
            chains = [torch.cat(list(self._rows_at(row_losses, self._centre + place))) for place in places]
        return torch.stack(chains).cpu().numpy()

    def _rows_at(self, row_losses: Callable[..., Any], place: Tensor) -> Iterator[Tensor]:
        parts = self._loss.parts(place)
        for rows in self._gradients.blocks():
            losses, count = self._loss(parts, rows, row_losses), len(rows[0])
            if losses.ndim == 1 and len(losses) > count and len(losses) % count == 0:  # tokens in one line
                losses = losses.view(count, -1)
            if not losses.ndim or len(losses) != count:
                raise BadInput(
                    f"row_losses has shape {tuple(losses.shape)} for {count} rows",
                    "return a number for each row, or for each token of each row, as with reduction='none'",
                )
            yield losses


def refuse_jax(kernel: Kernel) -> None:
    """Bad input if a kernel needs JAX itself."""
    if kernel.only_jax:
        raise BadInput(f"{kernel.name} runs on JAX only", "for a torch module use hmc, mala or langevin")


def _check_finite(value: float) -> None:
    if not math.isfinite(value):
        raise BadInput(f"the loss at the module's parameters is {value}", "give parameters at which it is finite")


def _floats(tuning: Tuning) -> Tuning:
    return Tuning(*(float(value) for value in tuning))


def _rest(state: State) -> State:
    return {name: value.cpu() for name, value in state.items()}


def _device(asked: str | torch.device | None, own: torch.device) -> torch.device:
    try:
        device = own if asked is None else torch.device(asked)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        raise BadInput(f"there is no device '{asked}' here: {one_line(error)}", "use cpu") from error
    return device
