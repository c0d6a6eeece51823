"""λ̂ is additive: a block of known λ̂ beside a trained network, with parameters of its own, adds exactly its own.

At fixed nβ and γ the density of the whole is a product, so that λ̂(whole) − λ̂(net) = λ̂(block) whatever the net is. The
nets are trained with weight decay s, which is sampled as a prior. The block stands at zero, where s adds to γ:
γ' = γ + nβs. Then ½|v|² in k directions has ½ k nβ/(nβ + γ'), and a product of matrices has what its exact Gibbs
sampler says at γ'.
"""

from __future__ import annotations

import math

import pytest

import phasecast as pc
from phasecast.sampling import gibbs_coefficient

torch = pytest.importorskip("torch")
from torch_problems import half_square  # noqa: E402

nn = torch.nn

ROWS, DECAY = 200, 1e-3
NBETA = ROWS / math.log(ROWS)
MLP = {"n": ROWS, "prior": DECAY, "gamma": 5.0, "target": 0.04}
TRANSFORMER = {"n": ROWS, "prior": DECAY, "gamma": 20.0, "target": 0.01, "sampler": "langevin"}


@pytest.fixture(autouse=True, scope="module")
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
    """½‖AB‖² at A = B = 0, which is singular."""

    def __init__(self, width: int):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.zeros(width, width)), nn.Parameter(torch.zeros(width, width))

    def forward(self):
        return ((self.a @ self.b) ** 2).sum() / 2


def pull(settings):
    """What holds a block at zero: γ, and the prior."""
    return settings["gamma"] + NBETA * DECAY


def of_bowl(k, settings):
    return k / 2 * NBETA / (NBETA + pull(settings))


def of_product(width, settings):
    exact = gibbs_coefficient((width, width, width), 0, nbeta=NBETA, gamma=pull(settings))
    return exact.value


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


def train(net, loss, inputs, targets):
    """Down to a minimum of loss + s/2 |w|², by L-BFGS in double precision."""
    optimiser = torch.optim.LBFGS(
        net.parameters(),
        max_iter=2000,
        history_size=50,
        tolerance_grad=1e-7,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def closure():
        optimiser.zero_grad()
        decay = sum((parameter**2).sum() for parameter in net.parameters())
        value = loss(net(inputs), targets) + DECAY / 2 * decay
        value.backward()
        return value

    optimiser.step(closure)
    return net


def trained_mlp():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    inputs = torch.randn(ROWS, 2, dtype=torch.float64)
    targets = torch.sin(2 * inputs[:, :1]) * inputs[:, 1:] + torch.randn(ROWS, 1, dtype=torch.float64)
    return train(net, half_square, inputs, targets), (inputs, targets), half_square


def trained_transformer():
    """Addition modulo 5 from the tokens a, b and "=", with answers that are wrong one time in five."""
    torch.manual_seed(1)
    net = Transformer(5).double()
    a, b = torch.cartesian_prod(torch.arange(5), torch.arange(5)).T
    inputs = torch.stack([a, b, torch.full_like(a, 5)], dim=1)
    targets = 0.75 * nn.functional.one_hot((a + b) % 5, 5).double() + 0.05
    net = train(net, nn.functional.cross_entropy, inputs, targets)
    assert bool((net(inputs).argmax(1) == targets.argmax(1)).all())  # it has learnt to add
    return net, (inputs, targets), nn.functional.cross_entropy


def with_and_without(trained, block, settings):
    """λ̂(whole) − λ̂(net) and its error."""
    net, data, loss, alone = trained
    whole = pc.torch.llc(Beside(net, block), data, beside(loss), seed=1, **settings)
    for found in (alone, whole):
        assert str(found.status) == "ok", found.reasons
    return whole.value - alone.value, math.hypot(whole.error, alone.error)


@pytest.fixture(scope="module")
def mlp():
    net, data, loss = trained_mlp()
    return net, data, loss, pc.torch.llc(net, data, loss, **MLP)


@pytest.fixture(scope="module")
def transformer():
    net, data, loss = trained_transformer()
    return net, data, loss, pc.torch.llc(net, data, loss, **TRANSFORMER)


def test_a_bowl_beside_an_mlp_adds_its_own(mlp):
    difference, error = with_and_without(mlp, Bowl(8), MLP)
    assert abs(difference - of_bowl(8, MLP)) < 3 * error
    assert abs(difference - of_bowl(4, MLP)) > 3 * error  # another number of directions is told apart


@pytest.mark.slow
def test_a_singular_block_beside_an_mlp_adds_its_own(mlp):
    difference, error = with_and_without(mlp, Product(4), MLP)
    assert abs(difference - of_product(4, MLP)) < 3 * error
    assert abs(difference - of_bowl(32, MLP)) > 3 * error  # as many parameters, were they regular


@pytest.mark.slow
def test_a_bowl_beside_a_transformer_adds_its_own(transformer):
    difference, error = with_and_without(transformer, Bowl(40), TRANSFORMER)
    assert abs(difference - of_bowl(40, TRANSFORMER)) < 3 * error
    assert abs(difference - of_bowl(30, TRANSFORMER)) > 3 * error


@pytest.mark.slow
def test_a_singular_block_beside_a_transformer_adds_its_own(transformer):
    difference, error = with_and_without(transformer, Product(8), TRANSFORMER)
    assert abs(difference - of_product(8, TRANSFORMER)) < 3 * error
    assert abs(difference - of_bowl(128, TRANSFORMER)) > 3 * error
