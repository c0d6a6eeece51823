"""Losses and gradients of all chains in one backward pass.

The sum of the losses of independent chains has for its gradient the gradients of each, so one pass serves them all. It
is recorded once for each shape, as a graph of plain operations. Rows that do not fit into memory at once are taken in
equal blocks, weighted by what they count.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor

from phasecast.core.errors import BadInput
from phasecast.sampling.backends.torch_module import ModuleLoss, Rows, one_line
from phasecast.sampling.backends.torch_ops import TorchOps, fold
from phasecast.sampling.backends.torch_probe import MOST_MEMORY, Kind, Probe, few_rows

MOST_LIGHT = 2**22
"""Bytes of activations of a chain up to which chains are evaluated at once: above, convolutions took twice as long and
attention a third longer than in turns, because their operations for many weights at once are slower."""

FEWEST_ROWS = 64  # of a block before chains take turns: fewer would leave too little work for each operation

Pair: TypeAlias = "tuple[Tensor, Tensor]"


class SequentialChains(UserWarning):
    """The module cannot be evaluated for all chains at once, so they take turns: the same answer, more slowly."""


class Gradients:
    """L and ∇L at offsets from w*; ``sequential`` says whether chains take turns because the module cannot be vmapped.

    ``setup_gradients`` is what set-up cost, in gradients of all rows. Recording is not in it: it is compilation, a few
    evaluations of one block for each shape, and what a run counts must not depend on what was recorded before.

    Parameters
    ----------
    loss: the loss of the module.
    probe: how the loss of all rows follows from blocks of rows.
    """

    def __init__(self, loss: ModuleLoss, probe: Probe) -> None:
        self.loss, self.probe = loss, probe
        self.setup_gradients = probe.cost
        self._graphs: dict[tuple[Any, ...], Callable[..., Pair]] = {}
        cause = self._why_not_at_once(own=False)
        self.sequential = cause is not None
        if cause is not None:
            _warn(cause)

    @property
    def rows(self) -> int:
        """Rows of the data; 1 for a population loss."""
        return 1 if self.loss.data is None else len(self.loss.data[0])

    def everywhere(self, centre: Tensor, positions: Tensor) -> Pair:
        """L, in float64, and ∇L over all rows at offsets (chains, size)."""
        turn, block = self._turn_and_block(len(positions), self.rows)
        if len(positions) > turn:
            pieces = [self.everywhere(centre, some) for some in positions.split(turn)]
            return torch.cat([value for value, _ in pieces]), torch.cat([slope for _, slope in pieces])
        if block >= self.rows:
            value, slope = self._evaluate(centre, positions, self.loss.data, own=False)
            return value.double(), slope
        value = torch.zeros(len(positions), dtype=torch.float64, device=positions.device)
        slope = torch.zeros_like(positions)
        for begin in range(0, self.rows, block):
            some = tuple(part[begin : begin + block] for part in self.loss.data or ())
            share = self._share(begin, begin + block)
            one, its_slope = self._evaluate(centre, positions, some, own=False)
            value += share * one.double()
            slope.add_(its_slope, alpha=share)
        return value, slope

    def of_rows(self, centre: Tensor, positions: Tensor, chosen: Tensor) -> Pair:
        """Estimates of L and ∇L at offsets (chains, size) by the rows ``chosen`` (chains, batch) for each chain; where
        there are more offsets than rows chosen, the rows serve again."""
        turn, block = self._turn_and_block(len(positions), chosen.shape[1])
        if block < chosen.shape[1]:
            shares = [some.shape[1] / chosen.shape[1] for some in chosen.split(block, dim=1)]
            pairs = [self.of_rows(centre, positions, some) for some in chosen.split(block, dim=1)]
            value, slope = (
                sum(share * part for share, part in zip(shares, parts, strict=True))
                for parts in zip(*pairs, strict=True)
            )
            return torch.as_tensor(value), torch.as_tensor(slope)
        again = len(positions) // len(chosen)
        some = tuple(part.view(*chosen.shape, *part.shape[1:]) for part in self.loss.chosen(chosen.reshape(-1)))
        some = tuple(torch.cat([part] * again) for part in some) if again > 1 else some
        pieces = [
            self._evaluate(centre, *turns, own=True)
            for turns in zip(positions.split(turn), zip(*(part.split(turn) for part in some), strict=True), strict=True)
        ]
        value, slope = (torch.cat(parts) if len(pieces) > 1 else parts[0] for parts in zip(*pieces, strict=True))
        scale = self._scale(chosen).to(value.dtype).repeat(again)
        return scale * value, scale[:, None] * slope

    def values_of_rows(self, place: Tensor, table: Tensor) -> Tensor:
        """Estimates of L at one place by each row of a table (batches, rows)."""
        with torch.no_grad():
            _, block = self._turn_and_block(1, table.shape[1])
            parts = table.split(block, dim=1)
            values = [[self.loss.number(place, self.loss.chosen(chosen)) for chosen in part] for part in parts]
            scaled = [
                part.shape[1] / table.shape[1] * self._scale(part).cpu() * torch.tensor(of_part, dtype=torch.float64)
                for part, of_part in zip(parts, values, strict=True)
            ]
        return torch.stack(scaled).sum(0).to(table.device, self.loss.dtype)

    def _scale(self, chosen: Tensor) -> Tensor:
        """What the losses of batches (batches, rows) are multiplied by to stand for all rows."""
        counts = self.probe.counts
        if self.probe.kind is Kind.SUM:
            return torch.full((len(chosen),), self.rows / chosen.shape[1], device=chosen.device)
        if counts is None:
            return torch.ones(len(chosen), device=chosen.device)
        mean = float(counts.double().mean())  # a batch that counts more stands for more: without it, a bias
        return counts[chosen].double().mean(1) / mean

    def at(self, place: Tensor) -> float:
        """L over all rows, without its gradient."""
        _, block = self._turn_and_block(1, self.rows)
        with torch.no_grad():
            if block >= self.rows:
                return self.loss.number(place, self.loss.data)
            return sum(
                self._share(begin, begin + block)
                * self.loss.number(place, tuple(part[begin : begin + block] for part in self.loss.data or ()))
                for begin in range(0, self.rows, block)
            )

    def blocks(self) -> list[tuple[Tensor, ...]]:
        """All rows, in blocks that fit into memory for one chain."""
        _, block = self._turn_and_block(1, self.rows)
        parts = [part.split(block) for part in self.loss.data or ()]
        return list(zip(*parts, strict=True))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_graphs": {}}  # compiled programs cannot be pickled; they are recorded again

    def _share(self, begin: int, end: int) -> float:
        """What a block of rows counts in the loss of all rows."""
        if self.probe.kind is Kind.SUM:
            return 1.0
        counts = self.probe.counts
        if counts is None:
            return (min(end, self.rows) - begin) / self.rows
        return float(counts[begin:end].sum()) / float(counts.sum())

    def _turn_and_block(self, chains: int, rows: int) -> tuple[int, int]:
        """How many chains, and how many rows for each, keep their activations within :data:`MOST_MEMORY`."""
        fewest = rows if self.probe.kind is Kind.WHOLE else min(rows, FEWEST_ROWS)
        turn = max(1, min(chains, MOST_MEMORY // (self.probe.bytes_per_row * fewest)))
        turn = 1 if self.sequential else -(-chains // -(-chains // turn))  # equal turns need one record
        if self.probe.kind is Kind.WHOLE:
            return turn, rows
        most = max(1, MOST_MEMORY // (self.probe.bytes_per_row * turn))
        return turn, -(-rows // -(-rows // most))  # equal blocks, too

    def _evaluate(self, centre: Tensor, positions: Tensor, data: Rows, own: bool) -> Pair:
        """L and ∇L for chains and rows that fit into memory; ``own`` if each chain has its own rows."""
        if self.sequential or self._heavy(data, own) or (own and self._own_fails):
            pieces = [
                self._differentiate(
                    centre,
                    positions[chain : chain + 1],
                    tuple(part[chain : chain + 1] for part in data or ()) if own else data,
                    own,
                    sequential=True,
                )
                for chain in range(len(positions))
            ]
            return torch.cat([value for value, _ in pieces]), torch.cat([slope for _, slope in pieces])
        shapes = (own, *positions.shape, *(tuple(part.shape) for part in data or ()))
        if shapes not in self._graphs:
            self._graphs[shapes] = self._graph(centre, positions, data, own)
        return self._graphs[shapes](centre, positions, *(data or ()))

    def _heavy(self, data: Rows, own: bool) -> bool:
        """Whether each chain alone has so much to do that evaluating them at once only costs memory."""
        return data is not None and self.probe.bytes_per_row * data[0].shape[1 if own else 0] > MOST_LIGHT

    @cached_property
    def _own_fails(self) -> bool:
        """Whether chains with rows of their own cannot be evaluated at once."""
        cause = self._why_not_at_once(own=True)
        if cause is not None:
            _warn(cause)
        return cause is not None

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

    def _few(self) -> Rows:
        return self.loss.data if self.probe.kind is Kind.WHOLE else few_rows(self.loss.data, self.probe.few)

    def _why_not_at_once(self, own: bool) -> str | None:
        """Why the chains cannot be evaluated at once, or None if they can: tried at w* and a little beside it."""
        centre, data = self.loss.first, self._few()
        size = 1e-3 * float(centre.abs().mean() + 1e-3)
        noise = TorchOps().normal(fold(0, 0), centre)
        positions = torch.stack([torch.zeros_like(centre), size * noise])
        if own and data is not None:
            data = tuple(torch.stack([part[:2], part[-2:]]) for part in data)
        together, cause = (), None
        if not own:
            self.setup_gradients += 4 * (1.0 if data is None else len(data[0]) / self.rows)
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                together = self._differentiate(centre, positions, data, own)
        except Exception as error:  # whatever a module raises under vmap, taking turns may work
            cause = one_line(error)
        pieces = []
        try:
            with torch.no_grad():
                for chain in range(2):
                    some = tuple(part[chain : chain + 1] for part in data or ()) if own else data
                    pieces.append(self._differentiate(centre, positions[chain : chain + 1], some, own, sequential=True))
        except RuntimeError as error:
            raise BadInput(f"the loss has no gradient: {one_line(error)}", "use differentiable operations") from error
        apart = tuple(torch.cat(parts) for parts in zip(*pieces, strict=True))
        if cause is None and not all(_alike(one, other, 1e-3) for one, other in zip(together, apart, strict=True)):
            return "it gives other numbers than one chain at a time"
        return cause


def _warn(cause: str) -> None:
    warnings.warn(SequentialChains(f"chains take turns, because vmap fails: {cause}"), stacklevel=5)


def _alike(one: Tensor, other: Tensor, share: float) -> bool:
    """Whether two tensors differ by no more than a share of their largest number."""
    largest = float(other.nan_to_num().abs().max())
    return torch.allclose(one, other, rtol=share, atol=share * largest, equal_nan=True)
