"""What do people pass as data? Pairs, several inputs, dictionaries, Datasets and DataLoaders of any of these.

All become tensors with one row per example, and a :class:`Layout` that says how the module is called with them.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

from phasecast.core.errors import BadInput

ROWS_AT_ONCE = 1024  # rows read from a Dataset at once: large enough for speed, small enough for memory
LABELS = ("labels", "label", "targets", "target")  # what dictionaries call the targets, the first that is there
MASK = "attention_mask"
NOT_COUNTED = -100  # the ignore_index of torch's cross-entropy and of Hugging Face
FORMS = "give tensors (inputs, targets) or a dictionary of tensors, or a Dataset or DataLoader of such batches"


class Named(NamedTuple):
    """A dictionary of nests."""

    names: tuple[str, ...]
    parts: tuple[Nest, ...]


Nest: TypeAlias = "int | tuple[Nest, ...] | Named | None"
"""The number of a tensor, or numbers nested as the user's tensors were."""


@dataclass(frozen=True)
class Layout:
    """How rows become ``module(inputs)``, ``module(*inputs)`` or ``module(**inputs)``, and what the loss receives."""

    inputs: Nest = 0
    targets: Nest = 1

    def call(self, module: nn.Module, rows: tuple[Tensor, ...]) -> Any:
        """The outputs of the module for these rows."""
        inputs = _put_together(self.inputs, rows)
        if isinstance(inputs, dict):
            return module(**inputs)
        return module(*inputs) if isinstance(inputs, tuple) else module(inputs)

    def targets_of(self, rows: tuple[Tensor, ...]) -> Any:
        """What the loss receives beside the outputs."""
        return _put_together(self.targets, rows)

    def numbers_of_targets(self) -> list[int]:
        """The numbers of the tensors that are targets."""
        return list(_numbers(self.targets))

    def number_of(self, name: str) -> int | None:
        """The number of the input of this name, if inputs have names and it is among them."""
        if isinstance(self.inputs, Named) and name in self.inputs.names:
            number = self.inputs.parts[self.inputs.names.index(name)]
            return number if isinstance(number, int) else None
        return None

    def for_module(self, module: nn.Module) -> Layout:
        """This layout without the named inputs that the module does not take."""
        if not isinstance(self.inputs, Named):
            return self
        parameters = inspect.signature(module.forward).parameters
        if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
            return self
        kept = [pair for pair in zip(*self.inputs, strict=True) if pair[0] in parameters]
        if not kept:
            raise BadInput(
                f"the module takes {', '.join(parameters) or 'nothing'}, the data has {', '.join(self.inputs.names)}",
                "give the inputs the names of the module's arguments",
            )
        return replace(self, inputs=Named(tuple(name for name, _ in kept), tuple(part for _, part in kept)))


@dataclass(frozen=True, eq=False)
class Examples:
    """Tensors with one row per example, and the call they belong to."""

    tensors: tuple[Tensor, ...]
    layout: Layout = Layout()

    def __len__(self) -> int:
        return len(self.tensors[0])


def read_examples(data: Any) -> Examples | None:
    """Everything in ``data``, read once and always in the same order; global randomness stays as it was."""
    if data is None or isinstance(data, Examples):
        return data
    if isinstance(data, DataLoader):
        batches = list(_read(_in_order(data)))
    elif _is_dataset(data):
        batches = list(_read(DataLoader(data, batch_size=ROWS_AT_ONCE)))
    elif isinstance(data, list) and data and all(isinstance(batch, Mapping) for batch in data):
        batches = [_examples(batch) for batch in data]
    else:
        batches = [_examples(data)]
    if not batches:
        raise BadInput("the data has no rows", "give at least one")
    layout = batches[0].layout
    if any(batch.layout != layout for batch in batches):
        raise BadInput("the batches of the data do not have the same parts", FORMS)
    parts = zip(*(batch.tensors for batch in batches), strict=True)
    examples = Examples(tuple(_join(part, layout, number) for number, part in enumerate(parts)), layout)
    lengths = {len(part) if part.ndim else None for part in examples.tensors}
    if len(lengths) > 1 or lengths & {None, 0}:
        shapes = " and ".join(str(tuple(part.shape)) for part in examples.tensors)
        raise BadInput(f"inputs and targets have shapes {shapes}", "give one row of each per example")
    return examples


def _examples(batch: Any) -> Examples:
    """One batch as tensors and their layout."""
    tensors: list[Tensor] = []
    if isinstance(batch, Mapping):
        named = {str(name): part for name, part in batch.items() if part is not None}
        inputs = _take_apart(named, tensors, batch)
        targets = next((inputs.parts[inputs.names.index(name)] for name in LABELS if name in named), None)
        return Examples(tuple(tensors), Layout(inputs, targets))
    if isinstance(batch, tuple | list) and len(batch) == 2:
        inputs, targets = (_take_apart(part, tensors, batch) for part in batch)
        return Examples(tuple(tensors), Layout(inputs, targets))
    raise _refused(batch)


def _take_apart(value: Any, tensors: list[Tensor], batch: Any) -> Any:
    """A nest of the numbers that the tensors in ``value`` have after they are appended to ``tensors``."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        value = torch.as_tensor(value)
    if isinstance(value, Tensor):
        tensors.append(value)
        return len(tensors) - 1
    if isinstance(value, Mapping) and value:
        return Named(tuple(map(str, value)), tuple(_take_apart(part, tensors, batch) for part in value.values()))
    if isinstance(value, tuple | list) and value:
        return tuple(_take_apart(part, tensors, batch) for part in value)
    raise _refused(batch)


def _put_together(nest: Nest, tensors: tuple[Tensor, ...]) -> Any:
    if nest is None:
        return None
    if isinstance(nest, Named):
        return {name: _put_together(part, tensors) for name, part in zip(*nest, strict=True)}
    return tuple(_put_together(part, tensors) for part in nest) if isinstance(nest, tuple) else tensors[nest]


def _numbers(nest: Nest) -> Iterator[int]:
    if isinstance(nest, int):
        yield nest
    elif nest is not None:
        for part in nest.parts if isinstance(nest, Named) else nest:
            yield from _numbers(part)


def _join(parts: Sequence[Tensor], layout: Layout, number: int) -> Tensor:
    """The rows of all batches; with a mask, rows that were padded to different lengths are padded to the longest."""
    shapes = {tuple(part.shape[1:]) for part in parts}
    if len(shapes) > 1:
        if layout.number_of(MASK) is None or any(part.ndim != 2 for part in parts):
            lengths = " and ".join(str(shape) for shape in sorted(shapes)[:2])
            raise BadInput(
                f"rows of different batches have shapes {lengths}",
                f"pad them to one length, or give dictionaries with an {MASK}",
            )
        longest = max(part.shape[1] for part in parts)
        fill = NOT_COUNTED if number in layout.numbers_of_targets() else 0
        parts = [nn.functional.pad(part, (0, longest - part.shape[1]), value=fill) for part in parts]
    return torch.cat(list(parts)) if len(parts) > 1 else parts[0]


def _is_dataset(data: Any) -> bool:
    """Whether this is a torch Dataset, or has rows that can be numbered, as those of Hugging Face have."""
    plain = isinstance(data, Tensor | np.ndarray | Mapping | tuple | list | str)
    return isinstance(data, Dataset) or (not plain and hasattr(data, "__getitem__") and hasattr(data, "__len__"))


def _in_order(loader: DataLoader[Any]) -> DataLoader[Any]:
    """A loader that shuffles, as one that reads the same rows in their order; others stay as they are."""
    sampler = loader.sampler
    whole = isinstance(sampler, RandomSampler) and not sampler.replacement and loader.batch_size is not None
    if not whole or sampler.num_samples != len(loader.dataset):  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]
        return loader
    return DataLoader(loader.dataset, batch_size=loader.batch_size, collate_fn=loader.collate_fn)


def _read(loader: Iterable[Any]) -> Iterator[Examples]:
    own = [getattr(loader, "generator", None), getattr(getattr(loader, "sampler", None), "generator", None)]
    with _fixed_randomness([generator for generator in own if generator is not None]):
        batches = [_examples(batch) for batch in loader]
    yield from batches


@contextmanager
def _fixed_randomness(generators: list[torch.Generator]) -> Iterator[None]:
    """Inside, everything that draws begins from one seed; outside, nothing was drawn. A loader draws a seed even where
    it does not shuffle, and a sampler or a transformation of the data may draw more."""
    plain, states = random.getstate(), [generator.get_state() for generator in generators]
    arrays = np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # of the CPU alone
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        for generator in generators:
            generator.manual_seed(0)
        try:
            yield
        finally:
            random.setstate(plain)
            np.random.set_state(arrays)  # noqa: NPY002
            for generator, state in zip(generators, states, strict=True):
                generator.set_state(state)


def _refused(batch: Any) -> BadInput:
    if isinstance(batch, Mapping):
        bad = [f"{name!r} ({type(part).__name__})" for name, part in batch.items() if not isinstance(part, Tensor)]
        return BadInput(f"data holds a dictionary whose {', '.join(bad[:3]) or 'parts'} are not tensors", FORMS)
    if isinstance(batch, tuple | list):
        kinds = ", ".join(type(part).__name__ for part in batch[:4])
        return BadInput(f"data holds {kinds}", f"{FORMS}; several inputs go into a tuple, ((x1, x2), targets)")
    return BadInput(f"data holds a {type(batch).__name__}", FORMS)
