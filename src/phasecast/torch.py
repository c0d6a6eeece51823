"""λ̂ of a PyTorch module: :func:`phasecast.llc` for ``nn.Module`` and tensors.

>>> import torch, phasecast as pc
>>> x = torch.linspace(-1, 1, 200)[:, None]
>>> model = torch.nn.Sequential(torch.nn.Linear(1, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
>>> data, loss = (x, model(x).detach()), lambda outputs, targets: ((outputs - targets) ** 2).mean() / 2
>>> measured = pc.torch.llc(model, data, loss, gamma=10.0, sampler="langevin", target=0.1)
>>> 0 < measured.estimate < 5
True

Importing this module does not import torch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from phasecast.coefficients.llc.estimate import measure
from phasecast.coefficients.llc.options import LLCKeywords, LLCOptions
from phasecast.coefficients.llc.problems import TorchProblem as Problem
from phasecast.coefficients.llc.problems import need_torch, on_backend
from phasecast.coefficients.llc.report import ProgressOption
from phasecast.coefficients.llc.result import LLC
from phasecast.coefficients.llc.studies.components import LLCComponents, heads, of_components
from phasecast.coefficients.llc.studies.trajectory import LLCTrajectory, along, check_checkpoints
from phasecast.core.errors import BadInput, MissingExtra
from phasecast.sampling import Fixed, Kernel
from phasecast.sampling.backends.selection import Only

if TYPE_CHECKING:
    from torch import Tensor, device, nn

__all__ = ["Problem", "heads", "llc", "llc_components", "llc_trajectory", "load"]

NESTED = ("state_dict", "model_state_dict", "model")  # where training scripts put the weights in a checkpoint


def llc(
    # wide signature: phasecast.llc for modules, with the same documented options; they become one LLCOptions at once
    module: nn.Module,
    data: Any,
    loss: Callable[..., Any] | None = None,
    *,
    n: int | None = None,
    nbeta: float | None = None,
    gamma: float | Literal["limit"] | None = None,
    radius: float = 0.3,
    prior: float | None = None,
    only: Only = None,
    sampler: str | Kernel | Fixed = "auto",
    chains: int | None = None,
    target: float = 0.05,
    max_grads: float | None = None,
    seconds: float | None = 60.0,
    seed: int = 0,
    progress: ProgressOption = True,
    device: str | device | None = None,
) -> LLC:
    """The local learning coefficient of a module at its parameters, sampled in eval mode; the module stays as it is.

    Chains run in the precision of the module, at least float32, and in float64 where rounding would be seen.

    Parameters
    ----------
    module: a trained ``torch.nn.Module``; parameters that need no gradient do not move.
    data: (inputs, targets), ((x1, x2), targets) for several inputs, or a dictionary of tensors (``input_ids``,
        ``attention_mask``, ``labels``), of which the module receives what it takes and the loss the labels; or a
        Dataset or a DataLoader of such batches, read once and in order even if it shuffles; None for a population
        loss, ``loss(module())``.
    loss: ``loss(outputs, targets)``, the *mean* negative log-likelihood per term, such as ``cross_entropy``. It
        receives what the module returns; if it fails on that and there are ``.logits``, it receives those. None for
        the ``.loss`` that the module computes itself.
    n: the number of terms in the mean. Defaults to the rows of ``data``; for tokens (targets that are whole numbers,
        several per row) to the number of those that count: not -100, not masked.
    only: which parameters move: a pattern for names such as ``"layers.0.*"``, several, or {name: boolean mask}.
    device: where to compute; defaults to where the module is.

    The others are those of :func:`phasecast.llc`. Chains run at once where ``torch.func.vmap``
    allows it; where it does not, a :class:`~phasecast.sampling.backends.torch.SequentialChains` warning says why.
    """
    options = LLCOptions(
        n=n, nbeta=nbeta, gamma=gamma, radius=radius, prior=prior, only=only, sampler=sampler, chains=chains,
        target=target, max_grads=max_grads, seconds=seconds, seed=seed,
    )  # fmt: skip
    return measure(Problem(module, data, loss, name=_name(module)), options, progress, device=device)


def llc_trajectory(
    module: nn.Module,
    checkpoints: Mapping[float, Any],
    data: Any,
    loss: Callable[..., Any] | None = None,
    *,
    device: str | device | None = None,
    progress: ProgressOption = True,
    **options: Unpack[LLCKeywords],
) -> LLCTrajectory:
    """λ̂ at each checkpoint of a training; the options are those of :func:`phasecast.llc`.

    ``checkpoints`` maps training steps to state dicts, modules, or files that :func:`load` reads. All share one
    compilation, unless buffers (batch norm) or frozen parameters differ, and one γ, by default that of the last
    checkpoint's neighbourhood; chains begin where those of the checkpoint before ended. Early checkpoints are not
    minima: a warning says so. ``seconds`` is the time for each. Ctrl-C returns the checkpoints done so far.
    """
    need_torch()
    chosen = LLCOptions(**options)
    check_checkpoints(checkpoints)
    states = {step: _state(one) for step, one in checkpoints.items()}
    origin = on_backend(Problem(module, data, loss), chosen, device=device)
    last = origin.backend.moved_to(states[max(states)])
    return along(replace(origin, backend=last), states, chosen, progress)


def llc_components(
    module: nn.Module,
    data: Any,
    loss: Callable[..., Any] | None = None,
    components: Mapping[str, Only] | None = None,
    *,
    progress: ProgressOption = True,
    device: str | device | None = None,
    **options: Unpack[LLCKeywords],
) -> LLCComponents:
    """λ̂ restricted to each component of a module; see :func:`phasecast.llc_components`.

    ``components`` maps labels to what ``only`` takes; by default one component per submodule with parameters.
    :func:`heads` makes components of the heads of a fused attention layer.
    """
    need_torch()
    return of_components(Problem(module, data, loss), components, options, progress, device=device)


def load(module: nn.Module, path: str | Path) -> nn.Module:
    """A copy of ``module`` with the weights of a file: safetensors, or what ``torch.save(module.state_dict())`` wrote.

    A file that holds anything but weights is refused, because reading it could run code.
    """
    need_torch()
    weights = read_weights(path)
    loaded = copy.deepcopy(module)
    try:
        loaded.load_state_dict(weights)
    except RuntimeError as error:
        words = " ".join(str(error).split())
        raise BadInput(
            f"{Path(path).name} does not fit the module: {words[:200]}", "give its own checkpoint"
        ) from error
    return loaded


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """The state dict in a file, .safetensors or .pt, without running any code in it."""
    import torch

    path = Path(path)
    if not path.is_file():
        raise BadInput(f"there is no file {path}", "give a checkpoint")
    try:
        weights = (
            _safetensors(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except MissingExtra:
        raise
    except Exception as error:  # readers raise many kinds for a file that is not theirs
        raise BadInput(
            f"{path.name} holds more than weights, or is damaged: it was not loaded, since that could run code",
            "save state_dict() alone, or as .safetensors",
        ) from error
    for name in NESTED:
        if isinstance(weights, dict) and isinstance(weights.get(name), dict):
            weights = weights[name]
    if not isinstance(weights, dict) or not all(isinstance(value, torch.Tensor) for value in weights.values()):
        raise BadInput(f"{path.name} holds no state_dict", f"save state_dict() alone, or under {', '.join(NESTED)}")
    return weights


def _name(module: nn.Module) -> str:
    """What results call a module: its class, also behind ``torch.compile``."""
    return type(getattr(module, "_orig_mod", module)).__name__


def _state(checkpoint: Any) -> Any:
    """A state dict, from one, a module or a file."""
    return read_weights(checkpoint) if isinstance(checkpoint, str | Path) else checkpoint


def _safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return load_file(path)
