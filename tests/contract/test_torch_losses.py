"""A loss of a torch module that cannot be sampled is refused before any chain moves, in float32 and in float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import phasecast as pc  # noqa: E402
from phasecast.core.errors import BadInput  # noqa: E402
from phasecast.sampling.backends.torch import torch_backend  # noqa: E402

COUNTER = itertools.count()
NOISE = np.random.default_rng(0)


def mse(outputs, targets):
    return ((outputs - targets) ** 2).mean()


def raises(outputs, targets):
    raise KeyError("a missing\nkey")


class Straight(torch.autograd.Function):
    """Rounds, and passes the gradient on as if it had not."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return torch.round(8 * x) / 8

    @staticmethod
    def setup_context(ctx, inputs, output):
        return None

    @staticmethod
    def backward(ctx, *gradients):
        return gradients[0]


def noise_elsewhere(outputs, targets):
    """The same number wherever the fit is exact, random elsewhere: what two evaluations at w* do not show."""
    return mse(outputs, targets) * (1 + torch.rand(()))


LOSSES = {
    "None": (lambda outputs, targets: None, "no tensor"),
    "text": (lambda outputs, targets: "low", "no tensor"),
    "vector": (lambda outputs, targets: outputs[:, 0], "has shape"),
    "raises": (raises, r"cannot be computed.*test_torch_losses.py, line"),
    "exits": (lambda outputs, targets: exit(3), "cannot be computed"),
    "no argument": (lambda: 0.0, "cannot be computed"),
    "one argument": (lambda outputs: outputs.mean(), "cannot be computed"),
    "float": (lambda outputs, targets: float(mse(outputs, targets)), "no tensor"),
    "detached": (lambda outputs, targets: mse(outputs.detach(), targets), "no gradient"),
    "noise": (lambda outputs, targets: mse(outputs, targets) + torch.rand(()), "two evaluations"),
    "numpy noise": (lambda outputs, targets: mse(outputs, targets) + NOISE.normal(), "two evaluations"),
    "noise elsewhere": (noise_elsewhere, "another number at the same parameters"),
    "counter": (lambda outputs, targets: mse(outputs, targets) + next(COUNTER), "two evaluations"),
    "half detached": (lambda outputs, targets: ((outputs - targets) * (outputs - targets).detach()).mean(), "not its"),
    "straight through": (lambda outputs, targets: Straight.apply(mse(outputs, targets) + 1), "not its own"),
    "constant": (lambda outputs, targets: 0 * outputs.mean() + 1.0, "does not depend"),
    "huge": (lambda outputs, targets: 1e30 * mse(outputs, targets), "is of size"),
    "nan": (lambda outputs, targets: mse(outputs, targets) * float("nan"), "nan|not finite"),
}


def problem(dtype):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)).to(dtype)
    x = torch.randn(300, 3, dtype=dtype)
    return module, (x, module(x).detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_that_cannot_be_sampled_is_one_sentence(name, dtype):
    loss, words = LOSSES[name]
    module, data = problem(dtype)
    scaled = (lambda outputs, targets: 1e90 * loss(outputs, targets)) if name == "huge" and "64" in str(dtype) else loss
    with pytest.raises(BadInput, match=words) as caught:
        torch_backend(module, scaled, data)
    assert "\n" not in str(caught.value)


GOOD = {
    "mse": mse,
    "mse in the air": lambda outputs, targets: 1000 + mse(outputs, targets),
    "steep": lambda outputs, targets: 1e6 * mse(outputs, targets),
    "absolute": lambda outputs, targets: (outputs - targets).abs().mean(),
    "kinks": lambda outputs, targets: torch.relu(outputs - targets + 0.1).mean(),
    "fourth power": lambda outputs, targets: ((outputs - targets) ** 4).mean(),
    "sum": lambda outputs, targets: ((outputs - targets) ** 2).sum(),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", GOOD)
def test_ordinary_losses_pass_the_probe(name, dtype):
    """The control: no loss that can be sampled is refused, and nothing random is used up."""
    module, data = problem(dtype)
    before = torch.random.get_rng_state()
    assert torch_backend(module, GOOD[name], data).size == 32
    assert torch.equal(before, torch.random.get_rng_state())


def test_parts_that_few_rows_do_not_touch_are_not_called_constant():
    """One row in a thousand uses the embedding that moves."""
    torch.manual_seed(0)
    tokens = torch.zeros(3000, dtype=torch.long)
    tokens[[7, 1501]] = 1
    module = torch.nn.Embedding(2, 4)
    mask = torch.zeros(2, 4, dtype=torch.bool)
    mask[1] = True
    targets = module(tokens).detach()
    assert torch_backend(module, mse, (tokens, targets), only={"weight": mask}).size == 4


@pytest.mark.parametrize(
    "data",
    [
        ([[1.0, 2.0], [3.0]], [[1.0], [2.0]]),
        (np.array([object(), object()]), np.zeros(2)),
        ("text", "more"),
        (torch.zeros(4, 3), torch.zeros(5, 2)),
        (torch.zeros(0, 3), torch.zeros(0, 2)),
        [(torch.zeros(3), torch.zeros(2)), (torch.zeros(4), torch.zeros(2))],
        3.0,
        {},
    ],
    ids=["ragged", "objects", "text", "lengths", "empty", "ragged rows", "number", "nothing"],
)
def test_data_without_rows_are_refused(data):
    module, _ = problem(torch.float32)
    with pytest.raises(BadInput) as caught:
        pc.torch.llc(module, data, mse, progress=False)
    assert "\n" not in str(caught.value)
