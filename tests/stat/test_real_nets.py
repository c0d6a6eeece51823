"""λ̂ is additive: a block of known λ̂ beside a trained network, with parameters of its own, adds exactly its own.

At fixed nβ and γ the density of the whole is a product, so that λ̂(whole) − λ̂(net) = λ̂(block) whatever the net is. The
nets are trained with weight decay s, which is sampled as a prior. The block stands at zero, where s adds to γ:
γ' = γ + nβs. Then ½|v|² in k directions has ½ k nβ/(nβ + γ'), and a product of matrices has what its exact Gibbs
sampler says at γ'.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import phasecast as pc
from phasecast.models import gibbs_coefficient

torch = pytest.importorskip("torch")
nn = torch.nn

ROWS, DECAY, GAMMA = 200, 1e-3, 5.0
NBETA = ROWS / math.log(ROWS)
PULL = GAMMA + NBETA * DECAY  # on a block that stands at zero


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Bowl(nn.Module):
    """½|v|² in k directions."""

    def __init__(self, k: int):
        super().__init__()
        self.v = nn.Parameter(torch.zeros(k))

    def forward(self):
        return (self.v**2).sum() / 2


class Product(nn.Module):
    """½‖AB‖² at A = B = 0: its λ̂ is below half of its number of parameters."""

    def __init__(self, rows: int, inner: int, columns: int):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.zeros(rows, inner)), nn.Parameter(torch.zeros(inner, columns))

    def forward(self):
        return ((self.a @ self.b) ** 2).sum() / 2


class Beside(nn.Module):
    """A net and a block: the outputs of the one and the loss of the other."""

    def __init__(self, net: nn.Module, block: nn.Module):
        super().__init__()
        self.net, self.block = net, block

    def forward(self, inputs):
        return self.net(inputs), self.block()


def beside(loss):
    """The loss of a net beside a block."""
    return lambda outputs, targets: loss(outputs[0], targets) + outputs[1]


class Transformer(nn.Module):
    """One layer over three tokens, the answer read off at the last.

    It has no layer norm: weight decay shrinks weights in front of one towards zero, where there is no smooth minimum.
    """

    def __init__(self, tokens: int, width: int = 8):
        super().__init__()
        self.embed, self.place = nn.Embedding(tokens + 1, width), nn.Parameter(0.3 * torch.randn(3, width))
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.read = nn.Linear(width, tokens)

    def forward(self, sequences):
        stream = self.embed(sequences) + self.place
        stream = stream + self.attention(stream, stream, stream, need_weights=False)[0]
        return self.read((stream + self.mlp(stream))[:, -1])


def half_square(outputs, targets):
    return ((outputs - targets) ** 2).sum(-1).mean() / 2


def train(net, loss, inputs, targets):
    """Down to a minimum of loss + s/2 |w|², by L-BFGS in double precision."""
    optimiser = torch.optim.LBFGS(
        net.parameters(), max_iter=2000, history_size=50, tolerance_grad=1e-9, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure():
        optimiser.zero_grad()
        decay = sum((parameter**2).sum() for parameter in net.parameters())
        value = loss(net(inputs), targets) + DECAY / 2 * decay
        value.backward()
        return value

    optimiser.step(closure)
    closure()
    steepest = max(float(parameter.grad.abs().max()) for parameter in net.parameters())
    return net, steepest


def trained_mlp():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)).double()
    inputs = torch.randn(ROWS, 2, dtype=torch.float64)
    targets = torch.sin(2 * inputs[:, :1]) * inputs[:, 1:] + torch.randn(ROWS, 1, dtype=torch.float64)
    return *train(net, half_square, inputs, targets), (inputs, targets), half_square


def trained_transformer():
    """Addition modulo 5 from the tokens a, b and "=", with answers that are wrong one time in five."""
    torch.manual_seed(1)
    net = Transformer(5).double()
    a, b = torch.cartesian_prod(torch.arange(5), torch.arange(5)).T
    inputs = torch.stack([a, b, torch.full_like(a, 5)], dim=1)
    targets = 0.75 * nn.functional.one_hot((a + b) % 5, 5).double() + 0.05
    return *train(net, nn.functional.cross_entropy, inputs, targets), (inputs, targets), nn.functional.cross_entropy
