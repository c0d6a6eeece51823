"""From what a user has to what chains run on: a loss and parameters, a Problem, or a PyTorch module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from phasecast.coefficients.llc.options import LLCOptions
from phasecast.core.errors import BadInput, MissingExtra, whole_number
from phasecast.core.problem import Problem
from phasecast.core.types import PyTree
from phasecast.core.user_code import make
from phasecast.sampling import KERNELS, Fixed
from phasecast.sampling.backends.protocol import Backend

if TYPE_CHECKING:
    from torch import Tensor, nn

ROWS_AT_ONCE = 1024  # rows read from a Dataset at once: large enough for speed, small enough for memory


@dataclass(frozen=True)
class TorchProblem:
    """A trained module, its data and its loss: what a factory returns for ``phasecast llc`` and the recipe ``llc``.

    ``pc.torch.Problem(module, data, loss)``; the plain tuple ``(module, data, loss)`` means the same.

    Parameters
    ----------
    module: a trained ``torch.nn.Module``; parameters that need no gradient do not move.
    data: a pair of tensors (inputs, targets), or a Dataset or a DataLoader of such pairs; None for a population loss,
        ``loss(module())``.
    loss: ``loss(outputs, targets)``, the *mean* negative log-likelihood per term.
    n: the number of terms in the mean; defaults to the rows of ``data``.
    name: what tables and figures call it; defaults to the name of the module's class.
    """

    module: nn.Module
    data: Any
    loss: Callable[..., Any]
    n: int | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.n is not None:
            whole_number("n", self.n, 1)


def as_problem(loss: Callable[..., Any] | Problem, params: PyTree, data: PyTree, n: int | None = None) -> Problem:
    """A problem from a loss, parameters and data; a problem stays as it is."""
    if isinstance(loss, Problem):
        if params is not None or data is not None:
            raise BadInput("a problem has its own parameters and data", "give the problem alone")
        return loss if n is None else Problem(loss.loss, loss.params, loss.data, n, loss.name)
    if params is None:
        raise BadInput("there are no parameters to sample around", "give llc(loss, params, data)")
    return Problem(loss, params, data, n, name="")


def load_sampled_problem(reference: str) -> Problem | TorchProblem:
    """What the factory behind ``package.module:factory`` returns: a problem for JAX or for PyTorch."""
    made = make(reference)
    if isinstance(made, Problem | TorchProblem):
        return made
    torch = sys.modules.get("torch")  # a factory that returns a module has imported it
    if torch is not None and isinstance(made, tuple) and len(made) == 3 and isinstance(made[0], torch.nn.Module):
        return TorchProblem(*made)
    raise BadInput(
        f"the factory '{reference}' returned a {type(made).__name__}",
        "return phasecast.Problem(loss, params, data, n), or (module, data, loss) for PyTorch",
    )


@dataclass(frozen=True)
class Sampled:
    """A problem on its back-end: ``n`` terms of the mean loss, and what results call it."""

    backend: Backend
    n: int | None
    name: str
    notes: tuple[str, ...] = ()

    @property
    def setup_gradients(self) -> float:
        """What it took to make, in gradients over all rows."""
        return float(getattr(self.backend, "setup_gradients", 1.0))


def on_backend(problem: Problem | TorchProblem, options: LLCOptions, *, device: Any = None) -> Sampled:
    """A problem ready for chains; ``device`` is for PyTorch."""
    if isinstance(problem, TorchProblem):
        return _on_torch(problem, options, device)
    from phasecast.sampling.backends.jax import jax_backend

    backend = jax_backend(
        problem.loss, problem.params, problem.data, decay=options.decay, only=options.only, batch=options.minibatch
    )
    return Sampled(backend, problem.n, problem.name)


def _on_torch(problem: TorchProblem, options: LLCOptions, device: Any) -> Sampled:
    need_torch()
    from phasecast.sampling.backends.torch import refuse_jax, torch_backend

    method = options.method
    if method is not None:
        refuse_jax(KERNELS[method.kernel]() if isinstance(method, Fixed) else method)
    tensors = None if problem.data is None else tensors_of(problem.data)
    n = len(tensors[0]) if problem.n is None and tensors is not None else problem.n
    backend = torch_backend(
        problem.module,
        problem.loss,
        tensors,
        decay=options.decay,
        only=options.only,
        batch=options.minibatch,
        device=device,
    )
    return Sampled(backend, n, problem.name or type(problem.module).__name__)


def need_torch() -> None:
    """Refuse with the command that installs torch, if it is missing."""
    try:
        import torch  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        raise MissingExtra("torch", "torch") from None


def tensors_of(data: Any) -> tuple[Tensor, Tensor]:
    """(inputs, targets) as two tensors with as many rows, from a pair, a Dataset or a DataLoader."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    if isinstance(data, Dataset):
        data = DataLoader(data, batch_size=ROWS_AT_ONCE)
    if isinstance(data, DataLoader):
        with torch.random.fork_rng(devices=[]):  # a loader draws a seed even where it does not shuffle
            pairs = [_pair(batch) for batch in data]
        if not pairs:
            raise BadInput("the data has no rows", "give at least one")
        inputs, targets = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    else:
        inputs, targets = _pair(data)
    if not inputs.ndim or not targets.ndim or len(inputs) != len(targets) or not len(inputs):
        shapes = f"{tuple(inputs.shape)} and {tuple(targets.shape)}"
        raise BadInput(f"inputs and targets have shapes {shapes}", "give one row of each per example")
    return inputs, targets


def _pair(batch: Any) -> tuple[Tensor, Tensor]:
    import torch

    if isinstance(batch, tuple | list) and len(batch) == 2:
        parts = [torch.as_tensor(part) if isinstance(part, np.ndarray) else part for part in batch]
        if all(isinstance(part, torch.Tensor) for part in parts):
            return parts[0], parts[1]
    held = ", ".join(_kinds(batch))
    raise BadInput(f"data holds {held}", "give tensors (inputs, targets), or a Dataset or DataLoader of such pairs")


def _kinds(batch: Any) -> Iterator[str]:
    if isinstance(batch, tuple | list):
        yield from (type(part).__name__ for part in batch[:4])
    else:
        yield f"a {type(batch).__name__}"
