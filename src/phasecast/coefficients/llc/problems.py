"""From what a user has to what chains run on: a loss and parameters, a Problem, or a PyTorch module."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from phasecast.coefficients.llc.options import LLCOptions
from phasecast.core.errors import BadInput, MissingExtra, whole_number
from phasecast.core.problem import Problem
from phasecast.core.types import PyTree
from phasecast.core.user_code import make
from phasecast.sampling import KERNELS, Fixed
from phasecast.sampling.backends.protocol import Backend

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class TorchProblem:
    """A trained module, its data and its loss: what a factory returns for ``phasecast llc`` and the recipe ``llc``.

    ``pc.torch.Problem(module, data, loss)``; the plain tuple ``(module, data, loss)`` means the same.

    Parameters
    ----------
    module: a trained ``torch.nn.Module``; parameters that need no gradient do not move.
    data: (inputs, targets), ((x1, x2), targets) or a dictionary of tensors, or a Dataset or a DataLoader of such
        batches; None for a population loss, ``loss(module())``.
    loss: ``loss(outputs, targets)``, the *mean* negative log-likelihood per term; None for the module's own ``.loss``.
    n: the number of terms in the mean; defaults to the rows of ``data``, or to its counted tokens.
    name: what tables and figures call it; defaults to the name of the module's class.
    """

    module: nn.Module
    data: Any
    loss: Callable[..., Any] | None = None
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
    """A problem on its back-end: ``n`` terms of the mean loss, and what results call it.

    ``note`` says what n counts, ``notes`` what the user should know of how the problem was understood.
    """

    backend: Backend
    n: int | None
    name: str
    note: str = ""
    notes: tuple[str, ...] = ()


def on_backend(problem: Problem | TorchProblem, options: LLCOptions, *, device: Any = None) -> Sampled:
    """A problem ready for chains; ``device`` is for PyTorch."""
    if isinstance(problem, TorchProblem):
        return _on_torch(problem, options, device)
    from phasecast.sampling.backends.jax import jax_backend

    backend = jax_backend(
        problem.loss, problem.params, problem.data, decay=options.decay, only=options.only, batch=options.minibatch
    )
    notes = backend.notes if options.nbeta is None else ()  # who gives nβ has thought of what it multiplies
    return Sampled(backend, problem.n, problem.name, notes=notes)


def _on_torch(problem: TorchProblem, options: LLCOptions, device: Any) -> Sampled:
    need_torch()
    from phasecast.sampling.backends.torch import refuse_jax, torch_backend
    from phasecast.sampling.backends.torch_data import read_examples

    method = options.method
    if method is not None:
        refuse_jax(KERNELS[method.kernel]() if isinstance(method, Fixed) else method)
    examples = read_examples(problem.data)
    given = problem.n if options.n is None else options.n
    backend = torch_backend(
        problem.module,
        problem.loss,
        examples,
        decay=options.decay,
        only=options.only,
        batch=options.minibatch,
        precision=lambda terms: options.temperature(terms if given is None else given),
        device=device,
    )
    probe = backend.probe
    note = probe.note
    if given is not None:
        note = f"n = {given:,}, as given" + (f"; by default {note}" if note and given != probe.terms else "")
    name = problem.name or type(getattr(problem.module, "_orig_mod", problem.module)).__name__
    return Sampled(backend, probe.terms if problem.n is None else problem.n, name, note, probe.notes)


def need_torch() -> None:
    """Refuse with the command that installs torch, if it is missing."""
    try:
        import torch  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        raise MissingExtra("torch", "torch") from None
