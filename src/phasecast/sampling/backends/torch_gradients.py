"""Losses and gradients of all chains in one backward pass.

The sum of the losses of independent chains has for its gradient the gradients of each, so one pass serves them all. It
is recorded once for each shape, as a graph of plain operations.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from phasecast.core.errors import BadInput
from phasecast.sampling.backends.torch_module import ModuleLoss, Rows, one_line
from phasecast.sampling.backends.torch_ops import TorchOps, fold

MOST_MEMORY = 2**30
"""Bytes of activations that chains at once may hold, chosen to fit a small laptop; with more, they take turns."""

Pair: TypeAlias = "tuple[Tensor, Tensor]"


class SequentialChains(UserWarning):
    """The module cannot be evaluated for all chains at once, so they take turns: the same answer, more slowly."""


class Gradients:
    """L and ∇L at offsets from w*; ``sequential`` says whether chains take turns because the module cannot be vmapped.

    Parameters
    ----------
    loss: the loss of the module.
    batch: rows of a minibatch; None for all of them.
    """

    def __init__(self, loss: ModuleLoss, batch: int | None) -> None:
        self.loss, self.batch = loss, batch
        self._at_once = self._chains_in_memory()
        self._graphs: dict[tuple[Any, ...], Callable[..., Pair]] = {}
        cause = self._why_not_at_once()
        self.sequential = cause is not None
        if cause is not None:
            warnings.warn(SequentialChains(f"chains take turns, because vmap fails: {cause}"), stacklevel=4)

    def __call__(self, centre: Tensor, positions: Tensor, data: Rows, own: bool) -> Pair:
        """L and ∇L at offsets (chains, size); ``own`` if each chain has its own rows, on a first axis of data."""
        return self._evaluate(centre, positions, data, own, self.sequential)

    def _evaluate(self, centre: Tensor, positions: Tensor, data: Rows, own: bool, sequential: bool) -> Pair:
        turn = 1 if sequential else self._at_once
        if len(positions) > turn:
            pieces = [
                self._evaluate(
                    centre,
                    positions[begin : begin + turn],
                    tuple(part[begin : begin + turn] for part in data or ()) if own else data,
                    own,
                    sequential,
                )
                for begin in range(0, len(positions), turn)
            ]
            return torch.cat([value for value, _ in pieces]), torch.cat([slope for _, slope in pieces])
        if sequential:
            return self._differentiate(centre, positions, data, own, sequential=True)
        shapes = (own, *positions.shape, *(tuple(part.shape) for part in data or ()))
        if shapes not in self._graphs:
            self._graphs[shapes] = self._graph(centre, positions, data, own)
        return self._graphs[shapes](centre, positions, *(data or ()))

    def _graph(self, centre: Tensor, positions: Tensor, data: Rows, own: bool) -> Callable[..., Pair]:
        """:meth:`_differentiate` for these shapes as the operations it comes down to, without what vmap and autograd
        cost each time; itself, if it cannot be recorded or the record gives other numbers."""
        from torch.fx.experimental.proxy_tensor import make_fx  # slow to import

        def plain(centre: Tensor, positions: Tensor, *data: Tensor) -> Pair:
            return self._differentiate(centre, positions, data or None, own)

        def operations() -> Callable[..., Any]:
            return make_fx(plain)(*given)

        def compiled() -> Callable[..., Any]:  # its heir, torch.compile, needs a C++ compiler
            traced: Any = torch.jit.trace(best, given, check_trace=False)
            return torch.jit.freeze(traced.eval())

        given = (centre, positions, *(data or ()))
        expected = plain(*given)
        exact = 1e-8 if self.loss.dtype == torch.float64 else 1e-4  # far above rounding, far below a wrong operation
        best: Callable[..., Any] = plain
        for faster in (operations, compiled):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    recorded = faster()
                    numbers = recorded(*given)
            except Exception:  # tracing is a matter of speed only
                break
            if not all(_alike(one, other, exact) for one, other in zip(numbers, expected, strict=True)):
                break
            best = recorded
        return best

    def _differentiate(
        self, centre: Tensor, positions: Tensor, data: Rows, own: bool, sequential: bool = False
    ) -> Pair:
        parts = [part.requires_grad_() for part in self.loss.parts(centre + positions)]
        with torch.enable_grad(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")  # still faster than taking turns
            if sequential:
                some = tuple(part[0] for part in data or ()) if own else data
                value = self.loss([part[0] for part in parts], some)[None]
            elif data is None:
                value = torch.func.vmap(lambda parts: self.loss(parts, None))(parts)
            else:
                value = torch.func.vmap(self.loss, in_dims=(0, 0 if own else None))(parts, data)
            slopes = torch.autograd.grad(value.sum(), parts, allow_unused=True, materialize_grads=True)
        return value.detach(), self.loss.flat([slope.reshape(len(positions), -1) for slope in slopes])

    def _chains_in_memory(self) -> int:
        """How many chains at once keep their activations within :data:`MOST_MEMORY`."""
        held = 0

        def count(tensor: Tensor) -> Tensor:
            nonlocal held
            held += tensor.numel() * tensor.element_size()
            return tensor

        data = self.loss.data
        some = data if self.batch is None or data is None else tuple(part[: self.batch] for part in data)
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            parts = [part.requires_grad_() for part in self.loss.parts(self.loss.first.clone())]
            value = self.loss(parts, some)
            if not value.requires_grad:
                raise BadInput(
                    "the loss has no gradient in the parameters that move",
                    "do not detach them, nor use no_grad, between parameters and loss",
                )
        del value
        return max(1, MOST_MEMORY // max(1, held))

    def _why_not_at_once(self) -> str | None:
        """Why the chains cannot be evaluated at once, or None if they can: tried at w* and a little beside it."""
        centre, data = self.loss.first, self.loss.data
        size = 1e-3 * float(centre.abs().mean() + 1e-3)
        noise = TorchOps().normal(fold(0, 0), centre)
        positions = torch.stack([torch.zeros_like(centre), size * noise])
        own_rows = None if data is None else tuple(torch.stack([part[:1], part[:1]]) for part in data)
        together, cause = (), None
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                together = self._evaluate(centre, positions, data, own=False, sequential=False)
                if self.batch is not None:
                    self._evaluate(centre, positions, own_rows, own=True, sequential=False)
        except Exception as error:  # whatever a module raises under vmap, taking turns may work
            cause = one_line(error)
        try:
            with torch.no_grad():
                apart = self._evaluate(centre, positions, data, own=False, sequential=True)
        except RuntimeError as error:
            raise BadInput(f"the loss has no gradient: {one_line(error)}", "use differentiable operations") from error
        if cause is None and not all(_alike(one, other, 1e-3) for one, other in zip(together, apart, strict=True)):
            return "it gives other numbers than one chain at a time"
        return cause


def _alike(one: Tensor, other: Tensor, share: float) -> bool:
    """Whether two tensors differ by no more than a share of their largest number."""
    return torch.allclose(one, other, rtol=share, atol=share * float(other.abs().max()), equal_nan=True)
