"""Chains on PyTorch: all at once (``torch.func.vmap``), on any device, for any ``nn.Module``.

As on JAX, everything is a function of the offset u from w*, flattened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from phasecast.core.errors import BadInput
from phasecast.sampling.backends.protocol import LARGEST_DOUBLE, Minibatch, check_batch
from phasecast.sampling.backends.selection import Only, how_many
from phasecast.sampling.backends.torch_gradients import Gradients, SequentialChains
from phasecast.sampling.backends.torch_module import ModuleLoss, Rows, moving_parameters, one_line
from phasecast.sampling.backends.torch_ops import TorchOps, fold, generator
from phasecast.sampling.kernels.kernel import Array, Kernel, State, Tuning, dot, localised

__all__ = ["SequentialChains", "TorchBackend", "torch_backend"]

OPS = TorchOps()


def torch_backend(
    module: nn.Module,
    loss: Callable[..., Any],
    data: Rows = None,
    *,
    decay: float = 0.0,
    only: Only = None,
    batch: Minibatch | None = None,
    precision: str | None = None,
    device: str | torch.device | None = None,
) -> TorchBackend:
    """A loss around the parameters of a module, ready for chains.

    Parameters
    ----------
    module: a trained ``nn.Module``, evaluated as ``module(inputs)``; parameters that need no gradient stay.
    loss: ``loss(outputs, targets)``, the *mean* negative log-likelihood per term.
    data: tensors (inputs, targets) with one row per example; None for a population loss, ``loss(module())``.
    decay: the coefficient s of a training-time L2 term s/2 |w|² that is sampled along with the loss.
    only: which parameters move, as patterns for names (``"layers.0.*"``) or masks; the others stay where they are.
    batch: the minibatches of gradients; None for gradients of all rows.
    precision: "float64" or "float32"; by default float64 up to :data:`LARGEST_DOUBLE` parameters, where the device and
        the module's code allow it.
    device: where to compute; by default where the module is.
    """
    if not isinstance(module, nn.Module):
        raise BadInput(f"module is a {type(module).__name__}", "give a torch.nn.Module")
    if not callable(loss):
        raise BadInput(f"loss is a {type(loss).__name__}, not a function", "give loss(outputs, targets)")
    module = getattr(module, "_orig_mod", module)  # what torch.compile wraps
    names, moving, entries = moving_parameters(module, only)
    check_batch(batch, None if data is None else len(data[0]))
    place = _device(device, next(iter(moving.values())).device)
    if precision not in (None, "float32", "float64"):
        raise BadInput(f"unknown precision '{precision}'", "use float32 or float64")
    size = sum(how_many(entries[name], tuple(parameter.shape)) for name, parameter in moving.items())
    double = (size <= LARGEST_DOUBLE) if precision is None else precision == "float64"
    dtype = torch.float64 if double and place.type != "mps" else torch.float32
    try:
        owned = ModuleLoss(module, loss, data, entries, place, dtype)
        value = owned.value_at(owned.first)
    except BadInput:
        if precision is not None or dtype == torch.float32:
            raise
        owned = ModuleLoss(module, loss, data, entries, place, torch.float32)  # its code may insist on float32
        value = owned.value_at(owned.first)
    _check_finite(value)
    gradients = Gradients(owned, batch.rows if batch else None)
    return TorchBackend(names, gradients, owned.first, value, decay, batch)


class TorchBackend:
    """A :class:`~phasecast.sampling.backends.protocol.Backend` in PyTorch; :func:`torch_backend` makes one.

    Between chunks everything rests on the CPU, where numpy can read it.
    """

    def __init__(
        self,
        names: list[str],
        gradients: Gradients,
        centre: Tensor,
        loss_at_centre: float,
        decay: float,
        batch: Minibatch | None,
    ) -> None:
        self.names, self.decay, self.loss_at_centre = names, decay, loss_at_centre
        self._gradients, self._centre, self._batch = gradients, centre, batch
        self.centre_as_numpy = centre.cpu().numpy().astype(float)

    @property
    def _loss(self) -> ModuleLoss:
        return self._gradients.loss

    @property
    def size(self) -> int:
        return self._centre.numel()

    @property
    def rows(self) -> int | None:
        return None if self._loss.data is None else len(self._loss.data[0])

    @property
    def double(self) -> bool:
        return self._loss.dtype == torch.float64

    @property
    def sequential(self) -> bool:
        """Whether chains take turns because the module cannot be vmapped."""
        return self._gradients.sequential

    @property
    def device(self) -> torch.device:
        return self._loss.device

    def moved_to(self, params: Mapping[str, Any] | nn.Module) -> TorchBackend:
        """The same around the weights of a state dict or of another module of the same shape.

        Compiled again only where buffers or frozen parameters differ, as those of batch norm do.
        """
        state = params.state_dict() if isinstance(params, nn.Module) else params
        state = {name.removeprefix("_orig_mod."): value for name, value in state.items()}
        centre = self._loss.centre_of(state)
        loss, gradients = self._loss.with_fixed(state), self._gradients
        if loss is not self._loss:
            gradients = Gradients(loss, gradients.batch)
        value = loss.value_at(centre)
        _check_finite(value)
        return TorchBackend(self.names, gradients, centre, value, self.decay, self._batch)

    def minibatched(self, batch: int) -> TorchBackend:
        """The same with anchored gradients of so many rows."""
        gradients = Gradients(self._loss, batch)
        return TorchBackend(self.names, gradients, self._centre, self.loss_at_centre, self.decay, Minibatch(batch))

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
        data = self._loss.data
        if key is None or self._batch is None:
            value, slope = self._gradients(self._centre, positions, data, own=False)
            return value - self.loss_at_centre, slope
        chains, count = len(positions), self._batch.rows
        chosen = torch.randint(
            self.rows or 0, (chains * count,), generator=generator(key, self.device), device=self.device
        )
        some = tuple(part.index_select(0, chosen).view(chains, count, *part.shape[1:]) for part in data or ())
        value, slope = self._gradients(self._centre, positions, some, own=True)
        if not self._batch.anchored:
            return value - self.loss_at_centre, slope
        zero = torch.zeros_like(self._centre).expand(chains, -1)
        there, slope_there = self._gradients(self._centre, zero, some, own=True)
        return value - there, slope - slope_there + self._slope_at_centre

    @cached_property
    def _slope_at_centre(self) -> Tensor:
        return self._gradients(self._centre, torch.zeros_like(self._centre)[None], self._loss.data, own=False)[1][0]

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
        """L − L* and ∇L over all the data at offsets (chains, size)."""
        with torch.no_grad():
            loss, slope = self._evaluate(torch.as_tensor(offsets).to(self.device, self._loss.dtype), None)
            return loss.cpu().numpy(), slope.cpu().numpy()

    def of_rows(self, row_losses: Callable[..., Any], offsets: Array) -> np.ndarray:
        """``row_losses(outputs, targets)``, the loss of each row, at offsets (chains, size): (chains, rows)."""
        with torch.no_grad():
            places = torch.as_tensor(offsets).to(self.device, self._loss.dtype)
            rows = [self._loss(self._loss.parts(self._centre + at), self._loss.data, row_losses) for at in places]
        return torch.stack(rows).cpu().numpy()


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
