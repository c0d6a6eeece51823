"""The loss of a module as a function of its parameters: a private copy in eval mode, in the precision of the chains."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from phasecast.core.errors import BadInput
from phasecast.core.user_code import own_line
from phasecast.sampling.backends.selection import Entries, Only, entries_that_move, how_many
from phasecast.sampling.backends.torch_data import Examples, Layout

SAME = 1e-5  # relative difference of two evaluations that rounding explains: about a hundred units of float32

Rows: TypeAlias = "tuple[Tensor, ...] | None"
"""Tensors with one row per example, as a :class:`Layout` numbers them; None for a population loss."""


class View(StrEnum):
    """What of the module's outputs the loss receives."""

    OUTPUTS = "outputs"
    LOGITS = "logits"
    LOSS = "loss"
    """The module computes its own loss."""


class ModuleLoss:
    """``loss(module(inputs), targets)`` with the parameters called ``moving`` replaced by given tensors.

    The module that it is given is only read. ``first`` holds its moving parameters as one vector. Without a ``loss`` it
    is the ``.loss`` of the outputs. A loss receives the outputs as they are; if it fails on them and they have
    ``.logits``, it receives those. :meth:`settle` finds out which, once.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Callable[..., Any] | None,
        data: Examples | None,
        moving: Mapping[str, Entries],
        device: Any,
        dtype: torch.dtype,
    ) -> None:
        self.moving, self.device, self.dtype = dict(moving), device, dtype
        self.module = self._own(module)
        self.loss = self._own(loss) if isinstance(loss, nn.Module) else loss
        self.layout = Layout() if data is None else data.layout.for_module(self.module)
        self.data = None if data is None else tuple(self._tensor(part) for part in data.tensors)
        self.view = View.OUTPUTS if loss is not None else View.LOSS
        at = dict(self.module.named_parameters())
        self.model_size = sum(parameter.numel() for parameter in at.values())
        self.shapes = [tuple(at[name].shape) for name in moving]
        self.sizes = [how_many(entries, shape) for entries, shape in zip(moving.values(), self.shapes, strict=True)]
        self._entries = [None if chosen is None else torch.as_tensor(chosen).to(device) for chosen in moving.values()]
        self.first = self.flat([at[name].detach().reshape(-1) for name in moving])
        number = {id(at[name]): place for place, name in enumerate(moving)}
        self._places = [  # a parameter that is tied to another is in two places
            (owner._parameters, name, number[id(parameter)])
            for owner in self.module.modules()
            for name, parameter in owner._parameters.items()
            if id(parameter) in number
        ]
        everything = [*self.module.named_parameters(remove_duplicate=False), *self.module.named_buffers()]
        self._fixed = {name: tensor.detach().clone() for name, tensor in everything if id(tensor) not in number}
        self._partly = {
            name: entries for name, entries in zip(moving, self._entries, strict=True) if entries is not None
        }
        for name, entries in self._partly.items():
            self._fixed[name] = _without(at[name].detach(), entries)
        self._recurrent = [owner for owner in self.module.modules() if isinstance(owner, nn.RNNBase)]

    def __call__(self, parts: list[Tensor], data: Rows, loss: Callable[..., Any] | None = None) -> Tensor:
        """The loss, or another function of outputs and targets, with these tensors as the moving parameters."""
        self._put(parts)
        with _differentiable_attention():
            outputs = self._call(data)
            if self.view is View.LOSS and loss is None:
                return field_of(outputs, "loss")
            if self.view is View.LOGITS:
                outputs = field_of(outputs, "logits")
            return self._apply(self.loss if loss is None else loss, outputs, data)

    def parts(self, flat: Tensor) -> list[Tensor]:
        """Views of a flat tensor (…, size) in the shapes of the parameters."""
        pieces = flat.split(self.sizes, dim=-1)
        return [
            (piece if entries is None else self._among_fixed(piece, name, entries)).view(*flat.shape[:-1], *shape)
            for piece, name, shape, entries in zip(pieces, self.moving, self.shapes, self._entries, strict=True)
        ]

    def flat(self, parts: list[Tensor]) -> Tensor:
        """The entries that move, as one vector, of parameters that are flat themselves, (…, entries)."""
        chosen = zip(parts, self._entries, strict=True)
        return torch.cat([part if entries is None else part[..., entries] for part, entries in chosen], dim=-1)

    def chosen(self, rows: Tensor) -> tuple[Tensor, ...]:
        """These rows of the data."""
        return tuple(part.index_select(0, rows.to(part.device)) for part in self.data or ())

    def outputs(self, place: Tensor, data: Rows) -> Any:
        """What the module returns with these moving parameters."""
        self._put(self.parts(place))
        with _differentiable_attention():
            return self._call(data)

    def number(self, place: Tensor, data: Rows) -> float:
        """The loss with these moving parameters; bad input if it is not one number."""
        value = self(self.parts(place), data)
        shape = tuple(getattr(value, "shape", ("no tensor",)))
        if shape != ():
            raise BadInput(f"the loss has shape {shape}", "return one number, the mean over the rows")
        return float(value)

    def settle(self, place: Tensor, data: Rows) -> float:
        """Find out what the loss takes, and its value; bad input if it is not one number, and always the same one."""
        try:
            with untouched_randomness(self.device), torch.no_grad():
                self._settle_view(place, data)
                value, again = self.number(place, data), self.number(place, data)
        except (Exception, SystemExit) as error:
            if isinstance(error, BadInput):
                raise
            fix = "give a module and a loss that work as loss(module(inputs), targets)"
            raise BadInput(f"the loss cannot be computed: {one_line(error)}{own_line(error)}", fix) from error
        if abs(value - again) > SAME * abs(value):
            raise BadInput(
                f"two evaluations of the module at the same parameters give {value:.6g} and {again:.6g}",
                "give one that in eval mode is deterministic, has no memory and leaves its inputs as they are",
            )
        return value

    def bytes_per_row(self, data: Rows) -> int:
        """Bytes that one chain keeps for each row between loss and gradient; bad input if there is no gradient."""
        held, flat = 0, self.first.clone()
        weights = flat.untyped_storage().data_ptr()

        def count(tensor: Tensor) -> Tensor:
            nonlocal held
            if tensor.untyped_storage().data_ptr() != weights:
                held += tensor.numel() * tensor.element_size()
            return tensor

        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            value = self([part.requires_grad_() for part in self.parts(flat)], data)
        if not value.requires_grad:
            raise BadInput(
                "the loss has no gradient in the parameters that move",
                "do not detach them, nor use no_grad, between parameters and loss",
            )
        return max(1, held // (1 if data is None else len(data[0])))

    def _settle_view(self, place: Tensor, data: Rows) -> None:
        outputs = self.outputs(place, data)
        if self.view is View.LOSS:
            if not isinstance(field_of(outputs, "loss"), Tensor):
                raise BadInput(
                    f"loss is a NoneType, and the module returns a {type(outputs).__name__} without a loss",
                    "give loss(outputs, targets), or labels for the module's own loss",
                )
            return
        logits = None if isinstance(outputs, Tensor) else field_of(outputs, "logits")
        if logits is None:
            return
        assert self.loss is not None
        try:
            self._apply(self.loss, outputs, data)
        except Exception as error:
            try:
                self._apply(self.loss, logits, data)
            except AttributeError:  # the loss reads the outputs itself, so that what went wrong there is the cause
                raise error from None
            self.view = View.LOGITS

    def _call(self, data: Rows) -> Any:
        return self.module() if data is None else self.layout.call(self.module, data)

    def _apply(self, loss: Any, outputs: Any, data: Rows) -> Any:
        return loss(outputs) if data is None else loss(outputs, self.layout.targets_of(data))

    def centre_of(self, state: Mapping[str, Any]) -> Tensor:
        """The moving parameters in a state dict, as one vector."""
        shapes = dict(zip(self.moving, self.shapes, strict=True))
        for name, shape in shapes.items():
            if name not in state:
                raise BadInput(f"these weights have no '{name}'", "give the state_dict() of this module")
            if tuple(state[name].shape) != shape:
                raise BadInput(f"'{name}' has shape {tuple(state[name].shape)}", f"the module has {shape}")
        return self.flat([torch.as_tensor(state[name]).detach().to(self.first).reshape(-1) for name in self.moving])

    def with_fixed(self, state: Mapping[str, Any]) -> ModuleLoss:
        """This loss with the frozen parameters and buffers of a state dict: itself, where they are the same."""
        given = {name: torch.as_tensor(state[name]).to(own) for name, own in self._fixed.items() if name in state}
        for name, entries in self._partly.items():
            given[name] = _without(given[name], entries)
        if all(torch.equal(value, self._fixed[name]) for name, value in given.items()):
            return self
        self.put_first()
        module = copy.deepcopy(self.module)
        module.load_state_dict(given, strict=False)
        data = None if self.data is None else Examples(self.data, self.layout)
        other = ModuleLoss(module, self.loss, data, self.moving, self.device, self.dtype)
        other.view = self.view
        return other

    def __getstate__(self) -> dict[str, Any]:
        self.put_first()  # what vmap left in the module cannot be pickled
        return self.__dict__

    def put_first(self) -> None:
        """Put the parameters of ``first`` into the module."""
        self._put([nn.Parameter(part, requires_grad=False) for part in self.parts(self.first.clone())])

    def _among_fixed(self, piece: Tensor, name: str, entries: Tensor) -> Tensor:
        """A flat parameter (…, entries) of which only some move."""
        fixed = self._fixed[name].reshape(-1)
        return fixed.expand(*piece.shape[:-1], -1).index_copy(-1, entries, piece)

    def _put(self, parts: list[Tensor]) -> None:
        # not torch.func.functional_call: it costs a walk over the module for each evaluation, and leaves out the list
        # of weights that recurrent layers keep
        for parameters, name, number in self._places:
            parameters[name] = parts[number]  # pyright: ignore[reportArgumentType]
        for recurrent in self._recurrent:
            recurrent._flat_weights = [getattr(recurrent, name) for name in recurrent._flat_weights_names]

    def _own(self, module: nn.Module) -> nn.Module:
        try:
            return copy.deepcopy(module).requires_grad_(False).eval().to(self.device, self.dtype)
        except (RuntimeError, TypeError, ValueError) as error:
            raise BadInput(f"the module cannot be copied: {one_line(error)}", "give one that can") from error

    def _tensor(self, part: Tensor) -> Tensor:
        """A copy of data on the device, its real numbers in the precision of the chains; integers stay."""
        return part.detach().to(self.device, self.dtype if part.is_floating_point() else part.dtype, copy=True)


def uncompiled(module: nn.Module) -> nn.Module:
    """The module that torch.compile wraps; a copy, if it wraps only parts of it."""
    module = getattr(module, "_orig_mod", module)
    if not any("_orig_mod" in name for name, _ in module.named_modules()):
        return module
    module = copy.deepcopy(module)
    for owner in list(module.modules()):
        for name, child in owner.named_children():
            setattr(owner, name, getattr(child, "_orig_mod", child))
    return module


def differs_in_training(module: nn.Module) -> bool:
    """Whether a layer is in train mode and would do something else there, as dropout and batch norm do."""
    for layer in module.modules():
        random = getattr(layer, "p", 0) if isinstance(layer, nn.modules.dropout._DropoutNd) else 0
        if isinstance(layer, nn.RNNBase | nn.MultiheadAttention):
            random = layer.dropout
        running = isinstance(layer, nn.modules.batchnorm._NormBase) and layer.track_running_stats
        if layer.training and (random or running):
            return True
    return False


def field_of(outputs: Any, name: str) -> Any:
    """An attribute of the outputs, or an item of a dictionary; None if there is none."""
    found = getattr(outputs, name, None)
    return outputs.get(name) if found is None and isinstance(outputs, Mapping) else found


def moving_parameters(module: nn.Module, only: Only) -> tuple[list[str], dict[str, Tensor], dict[str, Entries]]:
    """The names of all parameters, those that move, and which entries of them."""
    every = {name: parameter for name, parameter in module.named_parameters() if parameter.is_floating_point()}
    if not every:
        raise BadInput("the module has no real parameters", "give a trained module")
    free = {name: parameter for name, parameter in every.items() if parameter.requires_grad}
    if not free:
        raise BadInput("every parameter of the module is frozen", "let them move with module.requires_grad_(True)")
    entries = entries_that_move(only, {name: tuple(parameter.shape) for name, parameter in free.items()})
    return list(every), {name: free[name] for name in entries}, entries


def _without(value: Tensor, entries: Tensor) -> Tensor:
    """A parameter with zeros in the entries that move."""
    return value.reshape(-1).index_fill(-1, entries, 0.0).view(value.shape)


@contextmanager
def untouched_randomness(device: torch.device) -> Iterator[None]:
    """Whatever is drawn inside leaves the global generators as they were."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


@contextmanager
def _differentiable_attention() -> Iterator[None]:
    """Inside, attention is made of operations with gradients: in eval mode torch prefers one that has none, where it
    does not see under vmap that the weights need them."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def one_line(error: BaseException) -> str:
    """The first sentence of an error."""
    words = " ".join(str(error).split()) or type(error).__name__
    return words.split(". ")[0].rstrip(".")[:200]
