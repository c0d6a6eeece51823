"""λ̂ of a PyTorch module: what :func:`phasecast.coefficients.llc.estimate.llc` does, for ``nn.Module`` and tensors.

>>> import torch, phasecast as pc
>>> x = torch.linspace(-1, 1, 200)[:, None]
>>> model = torch.nn.Sequential(torch.nn.Linear(1, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
>>> data, loss = (x, model(x).detach()), lambda outputs, targets: ((outputs - targets) ** 2).mean() / 2
>>> found = pc.torch.llc(model, data, loss, gamma=10.0, sampler="langevin", target=0.1)
>>> 0 < found.estimate < 5
True

Importing this module does not import torch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasecast.coefficients.llc.estimate import chosen_sampler, decay_of, estimate
from phasecast.coefficients.llc.result import LLC
from phasecast.core.errors import BadInput, MissingExtra, whole_number
from phasecast.sampling import KERNELS, Fixed, Kernel
from phasecast.sampling.backends.torch import TorchEngine, refuse_jax

if TYPE_CHECKING:
    from torch import nn

__all__ = ["llc", "load"]

ROWS_AT_ONCE = 1024  # read from a Dataset
NESTED = ("state_dict", "model_state_dict", "model")  # where training scripts put the weights in a checkpoint


def llc(
    module: nn.Module,
    data: Any,
    loss: Callable[..., Any],
    *,
    n: int | None = None,
    nbeta: float | None = None,
    gamma: float | None = None,
    prior: float | None = None,
    only: str | None = None,
    sampler: str | Kernel | Fixed = "auto",
    chains: int = 8,
    target: float = 0.02,
    max_grads: float | None = None,
    seed: int = 0,
    device: Any = None,
) -> LLC:
    """The local learning coefficient of a module at its parameters, sampled in eval mode; the module stays as it is.

    Parameters
    ----------
    module: a trained ``torch.nn.Module``; parameters that need no gradient do not move.
    data: a pair of tensors (inputs, targets), a Dataset or a DataLoader of such pairs, read once; None for a population
        loss, ``loss(module())``.
    loss: ``loss(outputs, targets)``, the *mean* negative log-likelihood per term, such as ``cross_entropy``.
    n: the number of terms, the rows of ``data`` where it is not given; for a language model, the number of tokens.
    only: a pattern for the names of the parameters that move, such as ``"layers.0.*"``.
    device: where to compute; where the module is, if not given.

    The others are those of :func:`phasecast.llc`. Chains run at once where ``torch.func.vmap``
    allows it; where it does not, a :class:`~phasecast.sampling.backends.torch.SequentialChains` warning says why.
    """
    _need_torch()
    chosen, decay = chosen_sampler(sampler), decay_of(prior)
    fixed = chosen if isinstance(chosen, Fixed) else None
    if chosen is not None:
        refuse_jax(KERNELS[chosen.kernel]() if isinstance(chosen, Fixed) else chosen)
    tensors = None if data is None else _tensors(data)
    if n is not None:
        whole_number("n", n, 1)
    elif tensors is not None:
        n = len(tensors[0])
    batch, anchored = (fixed.batch, fixed.anchored) if fixed else (None, True)
    engine = TorchEngine(module, loss, tensors, decay=decay, only=only, device=device, batch=batch, anchored=anchored)
    return estimate(engine, n, nbeta, gamma, chosen, chains, target, max_grads, seed, type(module).__name__)


def load(module: nn.Module, path: str | Path) -> nn.Module:
    """A copy of ``module`` with the weights of a file: safetensors, or what ``torch.save(module.state_dict())`` wrote.

    A file that holds anything but weights is refused, because reading it could run code.
    """
    _need_torch()
    path = Path(path)
    if not path.is_file():
        raise BadInput(f"there is no file {path}", "give a checkpoint")
    weights = _weights(path)
    found = copy.deepcopy(module)
    try:
        found.load_state_dict(weights)
    except RuntimeError as error:
        words = " ".join(str(error).split())
        raise BadInput(f"{path.name} does not fit the module: {words[:200]}", "give its own checkpoint") from error
    return found


def _weights(path: Path) -> dict[str, Any]:
    import torch

    try:
        if path.suffix == ".safetensors":
            found = _safetensors(path)
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    except MissingExtra:
        raise
    except Exception as error:  # readers raise many kinds for a file that is not theirs
        raise BadInput(
            f"{path.name} holds more than weights, or is damaged: it was not loaded, since that could run code",
            "save state_dict() alone, or as .safetensors",
        ) from error
    for name in NESTED:
        if isinstance(found, dict) and isinstance(found.get(name), dict):
            found = found[name]
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise BadInput(f"{path.name} holds no state_dict", f"save state_dict() alone, or under {', '.join(NESTED)}")
    return found


def _safetensors(path: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(path)


def _tensors(data: Any) -> tuple[Any, Any]:
    """(inputs, targets) as two tensors with as many rows."""
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


def _pair(batch: Any) -> tuple[Any, Any]:
    import numpy as np
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


def _need_torch() -> None:
    try:
        import torch  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        raise MissingExtra("torch", "torch") from None
