"""Chains on PyTorch: all at once (``torch.func.vmap``), on any device, for any ``nn.Module``.

As on JAX, everything is a function of the offset u from w*, flattened. The engine works on its own copy of the module,
in eval mode; the one it was given is only read. Gradients of all chains come from one backward pass, because the sum
of the losses of independent chains has for its gradient the gradients of each; that pass is written down once
for each shape, as a graph of plain operations.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from phasecast.core.errors import BadInput, MissingExtra
from phasecast.sampling.kernels.kernel import Array, Kernel, State, Tuning, dot, localised

LARGEST_DOUBLE = 100_000
"""Above this many parameters chains run in float32, which is twice as fast and accurate enough for so many."""
MOST_MEMORY = 2**30
"""Bytes of activations that chains at once may hold; with more, they take turns."""
SAME = 1e-5  # relative difference of two evaluations that rounding explains


class SequentialChains(UserWarning):
    """The module cannot be evaluated for all chains at once, so they take turns: the same answer, more slowly."""


class TorchOps:
    """The operations of kernels, in PyTorch. A key is an integer, and a draw is a function of it."""

    @staticmethod
    def split(key: int, count: int) -> list[int]:
        return [fold(key ^ _APART, number) for number in range(count)]

    @staticmethod
    def normal(key: int, like: Array) -> Array:
        import torch

        return torch.randn(like.shape, generator=_generator(key, like.device), dtype=like.dtype, device=like.device)

    @staticmethod
    def uniform(key: int, like: Array) -> Array:
        import torch

        return torch.rand(like.shape, generator=_generator(key, like.device), dtype=like.dtype, device=like.device)

    @staticmethod
    def same_for_all(key: int) -> float:
        return fold(key, 0) / 2**64

    @staticmethod
    def repeat(count: float, body: Callable[[int, State], State], state: State, key: int) -> State:
        for number in range(math.floor(count)):
            state = body(fold(key, number), state)
        return state

    @staticmethod
    def where(chains: Array, new: Array, old: Array) -> Array:
        import torch

        return torch.where(chains.reshape(chains.shape + (1,) * (new.ndim - 1)), new, old)

    @staticmethod
    def exp(x: Array) -> Array:
        return math.exp(x) if isinstance(x, float) else x.exp()

    @staticmethod
    def sqrt(x: Array) -> Array:
        return math.sqrt(x) if isinstance(x, float) else x.sqrt()

    @staticmethod
    def clip(x: Array, low: float, high: float) -> Array:
        return x.clamp(low, high)

    @staticmethod
    def finite(x: Array) -> Array:
        return x.isfinite()

    @staticmethod
    def zeros_like(x: Array) -> Array:
        import torch

        return torch.zeros_like(x)


class TorchEngine:
    """A loss around the parameters of a module that kernels can sample, in PyTorch.

    Parameters
    ----------
    module: a trained ``nn.Module``, evaluated as ``module(inputs)``; parameters that need no gradient stay.
    loss: ``loss(outputs, targets)``, the *mean* negative log-likelihood per term.
    data: tensors (inputs, targets) with one row per example; None for a population loss, ``loss(module())``.
    decay: the coefficient s of a training-time L2 term s/2 |w|² that is sampled along with the loss.
    only: a pattern for the names of the parameters to move (``"layers.0.*"``); the others stay where they are.
    batch: rows in a minibatch; None for all of them.
    anchored: with minibatches, whether loss and gradient are taken relative to w* on the same rows.
    precision: "float64" or "float32"; by default double up to :data:`LARGEST_DOUBLE` parameters, where the device and
        the module's code allow it.
    device: where to compute; by default where the module is.

    ``sequential`` says whether the chains take turns because the module cannot be vmapped.
    """

    ops = TorchOps

    def __init__(
        self,
        module: Any,
        loss: Callable[..., Any],
        data: tuple[Any, Any] | None = None,
        *,
        decay: float = 0.0,
        only: str | None = None,
        batch: int | None = None,
        anchored: bool = True,
        precision: str | None = None,
        device: Any = None,
    ) -> None:
        try:
            import torch
        except ImportError:
            raise MissingExtra("torch", "torch") from None

        if not isinstance(module, torch.nn.Module):
            raise BadInput(f"module is a {type(module).__name__}", "give a torch.nn.Module")
        if not callable(loss):
            raise BadInput(f"loss is a {type(loss).__name__}, not a function", "give loss(outputs, targets)")
        module = getattr(module, "_orig_mod", module)  # what torch.compile wraps
        self.names, moving = _moving(module, only)
        self.size = sum(parameter.numel() for parameter in moving.values())
        self.decay, self._batch, self._anchored = decay, batch, anchored
        self.rows = None if data is None else len(data[0])
        if batch is not None and (self.rows is None or not 0 < batch <= self.rows):
            raise BadInput(f"a batch of {batch} of {self.rows or 'no'} rows", "give data and a batch within them")
        self.device = _device(device, next(iter(moving.values())).device)
        self._settle(module, loss, data, list(moving), precision)
        self.double = self.dtype == torch.float64
        self.centre_as_numpy = self.centre.cpu().numpy().astype(float)
        self._compile()

    def minibatched(self, batch: int) -> TorchEngine:
        """The same with anchored gradients of so many rows."""
        found = copy.copy(self)
        found._batch, found._anchored = batch, True
        found._compile()
        return found

    def _compile(self) -> None:
        self._at_once, self._slope = self._memory(), None
        self._graphs: dict[Any, Callable[..., tuple[Array, Array]]] = {}
        self.sequential = False
        cause = self._try_all_at_once()
        if cause is not None:
            self.sequential = True
            warnings.warn(SequentialChains(f"chains take turns, because vmap fails: {cause}"), stacklevel=4)

    # the module at an offset

    def _settle(self, module: Any, loss: Any, data: Any, moving: list[str], precision: str | None) -> None:
        """Copy the module in the precision that suits: double if small, the module's own if its code insists on it."""
        import torch

        double = (self.size <= LARGEST_DOUBLE) if precision is None else precision == "float64"
        self.dtype = torch.float64 if double and self.device.type != "mps" else torch.float32
        self._copy(module, loss, data, moving)
        try:
            found, again = self._twice_at_centre()
        except BadInput:
            if precision is not None or self.dtype == torch.float32:
                raise
            self.dtype = torch.float32
            self._copy(module, loss, data, moving)
            found, again = self._twice_at_centre()
        self.loss_at_centre = found
        if not math.isfinite(found):
            raise BadInput(f"the loss at the module's parameters is {found}", "give parameters at which it is finite")
        if abs(found - again) > SAME * abs(found):
            raise BadInput(
                f"two evaluations of the module at the same parameters give {found:.6g} and {again:.6g}",
                "give one that in eval mode is deterministic, has no memory and leaves its inputs as they are",
            )

    def _copy(self, module: Any, loss: Any, data: Any, moving: list[str]) -> None:
        import torch

        def own(thing: Any) -> Any:
            try:
                return copy.deepcopy(thing).requires_grad_(False).eval().to(self.device, self.dtype)
            except (RuntimeError, TypeError, ValueError) as error:
                raise BadInput(f"the module cannot be copied: {_one_line(error)}", "give one that can") from error

        self._module = own(module)
        self._loss = own(loss) if isinstance(loss, torch.nn.Module) else loss
        self._data = None if data is None else tuple(self._tensor(part) for part in data)
        at: dict[str, Any] = dict(self._module.named_parameters())
        self.centre = torch.cat([at[name].detach().reshape(-1) for name in moving])
        self._zero = torch.zeros_like(self.centre)
        self._shapes = [tuple(at[name].shape) for name in moving]
        self._sizes = [at[name].numel() for name in moving]
        number = {id(at[name]): place for place, name in enumerate(moving)}
        self._places = [  # a parameter that is tied to another is in two places
            (owner._parameters, name, number[id(parameter)])
            for owner in self._module.modules()
            for name, parameter in owner._parameters.items()
            if id(parameter) in number
        ]
        self._recurrent = [owner for owner in self._module.modules() if isinstance(owner, torch.nn.RNNBase)]

    def _tensor(self, part: Any) -> Any:
        """A copy of data on the device, its real numbers in the precision of the chains; integers stay."""
        return part.detach().to(self.device, self.dtype if part.is_floating_point() else part.dtype, copy=True)

    def _mean_loss(self, parts: list[Any], data: Any) -> Any:
        """The loss with these tensors in place of the moving parameters."""
        for parameters, name, number in self._places:
            parameters[name] = parts[number]
        for recurrent in self._recurrent:  # these keep a list of their own
            recurrent._flat_weights = [getattr(recurrent, name) for name in recurrent._flat_weights_names]
        with _differentiable_attention():
            return self._loss(self._module()) if data is None else self._loss(self._module(data[0]), data[1])

    def _twice_at_centre(self) -> tuple[float, float]:
        import torch

        try:
            with _untouched_randomness(self.device), torch.no_grad():
                return self._value_at_centre(), self._value_at_centre()
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            if isinstance(error, BadInput):
                raise
            fix = "give a module and a loss that work as loss(module(inputs), targets)"
            raise BadInput(f"the loss cannot be computed: {_one_line(error)}", fix) from error

    def _value_at_centre(self) -> float:
        value = self._mean_loss(self._parts(self.centre), self._data)
        shape = tuple(getattr(value, "shape", ("no tensor",)))
        if shape != ():
            raise BadInput(f"the loss has shape {shape}", "return one number, the mean over the rows")
        return float(value)

    def _parts(self, flat: Any) -> list[Any]:
        """Views of a flat tensor (…, size) in the shapes of the parameters."""
        pieces = flat.split(self._sizes, dim=-1)
        return [piece.view(*flat.shape[:-1], *shape) for piece, shape in zip(pieces, self._shapes, strict=True)]

    def _memory(self) -> int:
        """How many chains at once keep their activations within :data:`MOST_MEMORY`."""
        import torch

        held = 0

        def count(tensor: Any) -> Any:
            nonlocal held
            held += tensor.numel() * tensor.element_size()
            return tensor

        some = self._data if self._batch is None or self._data is None else tuple(p[: self._batch] for p in self._data)
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            parts = [part.requires_grad_() for part in self._parts(self.centre.clone())]
            value = self._mean_loss(parts, some)
            if not value.requires_grad:
                raise BadInput(
                    "the loss has no gradient in the parameters that move",
                    "do not detach them, nor use no_grad, between parameters and loss",
                )
        del value
        return max(1, MOST_MEMORY // max(1, held))

    def _try_all_at_once(self) -> str | None:
        """Why the chains cannot be evaluated at once, or None if they can: tried at w* and a little beside it."""
        import torch

        size = 1e-3 * float(self.centre.abs().mean() + 1e-3)
        noise = TorchOps.normal(fold(0, 0), self.centre)
        positions = torch.stack([self._zero, size * noise])
        own_rows = None if self._data is None else tuple(torch.stack([part[:1], part[:1]]) for part in self._data)
        together, cause = (), None
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                together = self._at_offsets(positions, self._data, own=False)
                if self._batch is not None:
                    self._at_offsets(positions, own_rows, own=True)
        except Exception as error:  # whatever a module raises under vmap, taking turns may work
            cause = _one_line(error)
        self.sequential = True
        try:
            with torch.no_grad():
                apart = self._at_offsets(positions, self._data, own=False)
        except RuntimeError as error:
            raise BadInput(f"the loss has no gradient: {_one_line(error)}", "use differentiable operations") from error
        finally:
            self.sequential = False
        if cause is None and not all(_alike(one, other, 1e-3) for one, other in zip(together, apart, strict=True)):
            return "it gives other numbers than one chain at a time"
        return cause

    def _at_offsets(self, positions: Array, data: Any, own: bool) -> tuple[Array, Array]:
        """L and ∇L at offsets (chains, size); ``own`` if each chain has its own rows, on a first axis of data."""
        import torch

        turn = 1 if self.sequential else self._at_once
        if len(positions) > turn:
            found = [
                self._at_offsets(
                    positions[begin : begin + turn],
                    tuple(part[begin : begin + turn] for part in data) if own else data,
                    own,
                )
                for begin in range(0, len(positions), turn)
            ]
            return torch.cat([value for value, _ in found]), torch.cat([slope for _, slope in found])
        if self.sequential:
            return self._differentiate(positions, data, own)
        shapes = (own, *positions.shape, *(tuple(part.shape) for part in data or ()))
        if shapes not in self._graphs:
            self._graphs[shapes] = self._graph(positions, data, own)
        return self._graphs[shapes](positions, *(data or ()))

    def _graph(self, positions: Array, data: Any, own: bool) -> Callable[..., tuple[Array, Array]]:
        """:meth:`_differentiate` for these shapes as the operations it comes down to, without what vmap and autograd
        cost each time; itself, if it cannot be written so or that gives other numbers."""
        import torch
        from torch.fx.experimental.proxy_tensor import make_fx

        def plain(positions: Array, *data: Any) -> tuple[Array, Array]:
            return self._differentiate(positions, data or None, own)

        def operations() -> Callable[..., Any]:
            return make_fx(plain)(*given)

        def compiled() -> Callable[..., Any]:  # its heir, torch.compile, needs a C++ compiler
            traced: Any = torch.jit.trace(best, given, check_trace=False)
            return torch.jit.freeze(traced.eval())

        given = (positions, *(data or ()))
        expected = plain(*given)
        exact = 1e-8 if self.dtype == torch.float64 else 1e-4
        best: Callable[..., Any] = plain
        for faster in (operations, compiled):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    found = faster()
                    numbers = found(*given)
            except Exception:  # tracing is a matter of speed only
                break
            if not all(_alike(one, other, exact) for one, other in zip(numbers, expected, strict=True)):
                break
            best = found
        return best

    def _differentiate(self, positions: Array, data: Any, own: bool) -> tuple[Array, Array]:
        import torch

        parts = [part.requires_grad_() for part in self._parts(self.centre + positions)]
        with torch.enable_grad(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")  # still faster than taking turns
            if self.sequential:
                some = tuple(part[0] for part in data) if own else data
                value = self._mean_loss([part[0] for part in parts], some)[None]
            elif data is None:
                value = torch.func.vmap(lambda parts: self._mean_loss(parts, None))(parts)
            else:
                value = torch.func.vmap(self._mean_loss, in_dims=(0, 0 if own else None))(parts, data)
            slopes = torch.autograd.grad(value.sum(), parts, allow_unused=True, materialize_grads=True)
        return value.detach(), torch.cat([slope.reshape(len(positions), -1) for slope in slopes], dim=-1)

    # what kernels see

    def target(self, position: Array, tuning: Tuning, key: Any) -> State:
        """Energy, gradient, loss and pull at the offsets of all chains."""
        loss, slope = self._evaluate(position, key if self._batch is not None else None)
        return localised(position, loss, slope, tuning, self.decay, self.centre)

    def _evaluate(self, positions: Array, key: Any) -> tuple[Array, Array]:
        """L − L* and ∇L at each position, over all rows or over a minibatch for each chain."""
        import torch

        if key is None:
            value, slope = self._at_offsets(positions, self._data, own=False)
            return value - self.loss_at_centre, slope
        chains, count = len(positions), self._batch or 0
        chosen = torch.randint(
            self.rows or 0, (chains * count,), generator=_generator(key, self.device), device=self.device
        )
        some = tuple(part.index_select(0, chosen).view(chains, count, *part.shape[1:]) for part in self._data or ())
        value, slope = self._at_offsets(positions, some, own=True)
        if not self._anchored:
            return value - self.loss_at_centre, slope
        there, slope_there = self._at_offsets(self._zero.expand(chains, -1), some, own=True)
        return value - there, slope - slope_there + self._slope_at_centre()

    def _slope_at_centre(self) -> Array:
        if self._slope is None:
            self._slope = self._at_offsets(self._zero[None], self._data, own=False)[1][0]
        return self._slope

    # what the driver calls; between chunks everything rests on the CPU, where numpy can read it

    def key(self, seed: int) -> int:
        return fold(seed % 2**64, 0)

    def fold(self, key: int, number: int) -> int:
        return fold(key, number)

    def normal(self, key: int, chains: int) -> Array:
        import torch

        return TorchOps.normal(key, torch.empty(chains, self.size, dtype=self.dtype))

    def array(self, values: Any) -> Array:
        import torch

        return torch.as_tensor(values, dtype=self.dtype)

    def init(self, kernel: Kernel, position: Array, tuning: Tuning, key: int) -> State:
        """The state of a kernel at these offsets."""
        import torch

        refuse_jax(kernel)
        with torch.no_grad():
            position = torch.as_tensor(position).to(self.device, self.dtype)
            return _rest(kernel.init(self.ops, self.target, position, _floats(tuning), key))

    def run(self, kernel: Kernel, state: State, tuning: Tuning, key: int, steps: int) -> tuple[State, dict[str, Any]]:
        """A chunk of steps: the state after it, and what each step saw, as numpy arrays (steps, chains)."""
        import torch

        refuse_jax(kernel)
        numbers = _floats(tuning)
        seen: dict[str, list[Any]] = {name: [] for name in ("loss", "radius", "pull", "acceptance", "divergent")}
        with torch.no_grad():
            state = {name: value.to(self.device) for name, value in state.items()}
            for number in range(steps):
                state, info = kernel.step(self.ops, self.target, state, numbers, fold(key, number))
                position = state["position"]
                saw = (state["loss"], dot(position, position), state["pull"], info.acceptance, info.divergent)
                for name, value in zip(seen, saw, strict=True):
                    seen[name].append(value)
            return _rest(state), {name: torch.stack(values).cpu().numpy() for name, values in seen.items()}

    def of_rows(self, row_losses: Callable[..., Any], offsets: Any) -> np.ndarray:
        """``row_losses(outputs, targets)``, the loss of each row, at offsets (chains, size): (chains, rows)."""
        import torch

        whole, self._loss = self._loss, row_losses
        try:
            with torch.no_grad():
                places = torch.as_tensor(offsets).to(self.device, self.dtype)
                found = [self._mean_loss(self._parts(self.centre + place), self._data) for place in places]
        finally:
            self._loss = whole
        return torch.stack(found).cpu().numpy()

    def evaluate(self, offsets: Any) -> tuple[np.ndarray, np.ndarray]:
        """L − L* and ∇L over all the data at offsets (chains, size)."""
        import torch

        with torch.no_grad():
            loss, slope = self._evaluate(torch.as_tensor(offsets).to(self.device, self.dtype), None)
            return loss.cpu().numpy(), slope.cpu().numpy()


def refuse_jax(kernel: Kernel) -> None:
    """Bad input if a kernel needs JAX itself."""
    if kernel.only_jax:
        raise BadInput(f"{kernel.name} runs on JAX only", "for a torch module use hmc, mala or langevin")


_APART = 0xA5A5_5A5A_C3C3_3C3C  # keeps the keys of a split from those of a fold
_ALL_BITS = 2**64 - 1


def fold(key: int, number: int) -> int:
    """A key for each number, by the mixing function of SplitMix64 (Steele, Lea & Flood 2014)."""
    mixed = (key + (number + 1) * 0x9E37_79B9_7F4A_7C15) & _ALL_BITS
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58_476D_1CE4_E5B9) & _ALL_BITS
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D0_49BB_1331_11EB) & _ALL_BITS
    return mixed ^ (mixed >> 31)


def _generator(key: int, device: Any) -> Any:
    import torch

    return torch.Generator(device).manual_seed(key >> 1)  # seeds are signed


@contextmanager
def _untouched_randomness(device: Any) -> Iterator[None]:
    """Whatever is drawn inside leaves the global generators as they were."""
    import torch

    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


@contextmanager
def _differentiable_attention() -> Iterator[None]:
    """Inside, attention is made of operations with gradients: in eval mode torch prefers one that has none, where it
    does not see under vmap that the weights need them."""
    import torch

    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _alike(one: Array, other: Array, share: float) -> bool:
    """Whether two tensors differ by no more than a share of their largest number."""
    import torch

    return torch.allclose(one, other, rtol=share, atol=share * float(other.abs().max()), equal_nan=True)


def _floats(tuning: Tuning) -> Tuning:
    return Tuning(*(float(value) for value in tuning))


def _rest(state: State) -> State:
    return {name: value.cpu() for name, value in state.items()}


def _moving(module: Any, only: str | None) -> tuple[list[str], dict[str, Any]]:
    """The names of all parameters, and those that move."""
    found = {name: parameter for name, parameter in module.named_parameters() if parameter.is_floating_point()}
    if not found:
        raise BadInput("the module has no real parameters", "give a trained module")
    free = {name: parameter for name, parameter in found.items() if parameter.requires_grad}
    if not free:
        raise BadInput("every parameter of the module is frozen", "let them move with module.requires_grad_(True)")
    moving = {name: parameter for name, parameter in free.items() if only is None or fnmatchcase(name, only)}
    if not moving:
        raise BadInput(f"no parameter is called like '{only}'", f"use a pattern for one of {', '.join([*free][:8])}")
    return list(found), moving


def _device(asked: Any, own: Any) -> Any:
    import torch

    try:
        device = own if asked is None else torch.device(asked)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        raise BadInput(f"there is no device '{asked}' here: {_one_line(error)}", "use cpu") from error
    return device


def _one_line(error: BaseException) -> str:
    """The first sentence of an error."""
    words = " ".join(str(error).split()) or type(error).__name__
    return words.split(". ")[0].rstrip(".")[:200]
