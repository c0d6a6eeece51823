"""Is λ̂ right in PyTorch, in float32, on minibatches, and for trained networks? By closed forms and by differences.

A network has no known λ̂, but at fixed nβ and γ the density of a network beside an independent block is a product:
λ̂(both) − λ̂(network) is λ̂ of the block, which is known. The network is trained with weight decay s, which is sampled
as a prior; the block stands at zero, where s adds nβs to γ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasecast.core.errors import MissingExtra
from phasecast.studies.arena.family import Family, Outcome, log_uniform
from phasecast.studies.arena.llc import Bowl, Product, bowl, product

WORST_FIRST = ("refused", "warning", "ok")


@dataclass(frozen=True)
class InTorch:
    """A bowl or a product as a module, in a precision."""

    landscape: Bowl | Product
    precision: str

    def __str__(self) -> str:
        return f"{self.landscape}, torch {self.precision}"


def in_torch(rng: np.random.Generator) -> InTorch:
    """Bowls and products, half of them in float32."""
    landscape = bowl(rng) if rng.random() < 0.5 else product(rng)
    return InTorch(landscape, str(rng.choice(["float32", "float64"])))


def judge_in_torch(problem: InTorch, seed: int) -> Outcome:
    from phasecast.sampling import gibbs_coefficient

    torch = need_torch()
    import phasecast as pc

    landscape, dtype = problem.landscape, getattr(torch, problem.precision)
    assert landscape.gamma is not None
    if isinstance(landscape, Bowl):
        truth: Any = landscape.coefficient
        module = bowl_module(torch, landscape.spectrum).to(dtype)
    else:
        truth = gibbs_coefficient(
            landscape.widths, landscape.rank, nbeta=landscape.nbeta, gamma=landscape.gamma, sweeps=4000, seed=seed
        )
        module = product_module(torch, landscape.widths, landscape.rank).to(dtype)
    answer = pc.torch.llc(
        module, None, lambda value: value, nbeta=landscape.nbeta, gamma=landscape.gamma, seconds=None, seed=seed,
        progress=False,
    )  # fmt: skip
    return Outcome.of(answer, truth, str(problem))


@dataclass(frozen=True)
class Beside:
    """A trained network with tanh units, and a block of known λ̂ beside it."""

    inputs: int
    width: int
    rows: int
    decay: float
    gamma: float
    block: tuple[str, int]
    draw: int

    @property
    def nbeta(self) -> float:
        return self.rows / math.log(self.rows)

    def __str__(self) -> str:
        kind, size = self.block
        return (
            f"{kind} of size {size} beside a network {self.inputs}-{self.width}-1 trained on {self.rows} rows, decay "
            f"{self.decay:g}, γ = {self.gamma:g}, drawn with {self.draw}"
        )


def beside(rng: np.random.Generator) -> Beside:
    """Small networks on noisy data, with a bowl or a product of two matrices beside them."""
    block = ("bowl", int(rng.integers(8, 25))) if rng.random() < 0.6 else ("product", int(rng.integers(3, 5)))
    return Beside(
        int(rng.integers(1, 4)),
        int(rng.integers(3, 8)),
        round(log_uniform(rng, 100, 400)),
        log_uniform(rng, 5e-4, 5e-3),
        log_uniform(rng, 2, 20),
        block,
        int(rng.integers(2**31)),
    )


def judge_beside(problem: Beside, seed: int) -> Outcome:
    """λ̂ of both minus λ̂ of the network, with both errors; the status is the worse one."""
    from phasecast.sampling import gibbs_coefficient

    torch = need_torch()
    import phasecast as pc

    net, data, loss = trained(torch, problem)
    kind, size = problem.block
    pull = problem.gamma + problem.nbeta * problem.decay
    if kind == "bowl":
        known: tuple[float, float] = Bowl((1.0,) * size, problem.nbeta, pull).coefficient, 0.0
        block = bowl_module(torch, (1.0,) * size)
    else:
        exact = gibbs_coefficient((size,) * 3, 0, nbeta=problem.nbeta, gamma=pull, sweeps=4000, seed=seed)
        known = float(exact.value), float(exact.error)
        block = product_module(torch, (size,) * 3, 0)

    class Pair(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.block = net, block.double()

        def forward(self, inputs):
            return self.net(inputs), self.block()

    def both(outputs, targets):
        return loss(outputs[0], targets) + outputs[1]

    alone, whole = (
        pc.torch.llc(
            module, data, what, n=problem.rows, prior=problem.decay, gamma=problem.gamma, target=0.03, seconds=None,
            seed=seed + number, progress=False,
        )
        for number, (module, what) in enumerate(((net, loss), (Pair(), both)))
    )  # fmt: skip
    statuses = {str(alone.status), str(whole.status)}
    return Outcome(
        next(status for status in WORST_FIRST if status in statuses),
        float(whole.estimate) - float(alone.estimate),
        math.hypot(float(whole.error), float(alone.error)),
        *known,
        str(problem),
        "; ".join([*alone.reasons, *whole.reasons]),
    )


def trained(torch: Any, problem: Beside) -> tuple[Any, tuple[Any, Any], Any]:
    """Down to a minimum of loss + s/2 |w|², by L-BFGS in double precision."""
    nn = torch.nn

    def loss(outputs, targets):
        return ((outputs - targets) ** 2).sum(-1).mean() / 2

    with torch.random.fork_rng():
        torch.manual_seed(problem.draw)
        net = nn.Sequential(nn.Linear(problem.inputs, problem.width), nn.Tanh(), nn.Linear(problem.width, 1)).double()
        inputs = torch.randn(problem.rows, problem.inputs, dtype=torch.float64)
        noise = torch.randn(problem.rows, 1, dtype=torch.float64)
    targets = torch.sin(2 * inputs).sum(1, keepdim=True) + noise
    descent = torch.optim.LBFGS(
        net.parameters(), max_iter=2000, history_size=50, tolerance_grad=1e-7, tolerance_change=0,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure():
        descent.zero_grad()
        squares = sum((parameter**2).sum() for parameter in net.parameters())
        value = loss(net(inputs), targets) + problem.decay / 2 * squares
        value.backward()
        return value

    descent.step(closure)
    return net, (inputs, targets), loss


@dataclass(frozen=True)
class Minibatched:
    """Linear regression at its minimum, sampled with minibatches: λ̂ is that of full batches, in closed form."""

    size: int
    rows: int
    batch: int
    condition: float
    draw: int

    def __str__(self) -> str:
        return (
            f"regression with {self.size} inputs of condition {self.condition:g} on {self.rows} rows, batches of "
            f"{self.batch}, drawn with {self.draw}"
        )


def minibatched(rng: np.random.Generator) -> Minibatched:
    """Batches of sixteen to one hundred of up to a few thousand rows."""
    rows = round(log_uniform(rng, 500, 4000))
    batch = round(log_uniform(rng, 16, 100))
    return Minibatched(int(rng.integers(5, 31)), rows, batch, log_uniform(rng, 1, 30), int(rng.integers(2**31)))


def judge_minibatched(problem: Minibatched, seed: int) -> Outcome:
    from dataclasses import replace

    import jax.numpy as jnp

    import phasecast as pc
    from phasecast.coefficients.llc.estimate import Estimator
    from phasecast.coefficients.llc.options import LLCOptions
    from phasecast.coefficients.llc.policy import POLICY
    from phasecast.coefficients.llc.problems import on_backend

    rng = np.random.default_rng(problem.draw)
    scales = np.geomspace(1, problem.condition**-0.5, problem.size)
    x = rng.normal(size=(problem.rows, problem.size)) * scales
    y = x @ rng.normal(size=problem.size) + rng.normal(size=problem.rows)
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    loss = pc.Problem(lambda w, d: jnp.mean((d[0] @ w - d[1]) ** 2) / 2, best, (x, y))
    options = LLCOptions(seconds=None, seed=seed, chains=4)
    # models that are too large for full batches would take minutes: the size from which batches are taken is lowered
    policy = replace(POLICY, largest_full_work=1, cheap_gradient=problem.batch * problem.size)
    answer = Estimator(on_backend(loss, options), options, policy=policy).run()
    spectrum = np.linalg.eigvalsh(x.T @ x / problem.rows)
    truth = Bowl(tuple(float(h) for h in spectrum), answer.nbeta, answer.gamma).coefficient
    return Outcome.of(answer, truth, str(problem))


def bowl_module(torch: Any, spectrum: tuple[float, ...]) -> Any:
    """½ Σ h v² at zero."""

    class BowlModule(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.v = torch.nn.Parameter(torch.zeros(len(spectrum), dtype=torch.float64))
            self.register_buffer("h", torch.tensor(spectrum, dtype=torch.float64))

        def forward(self):
            return (self.h * self.v**2).sum() / 2

    return BowlModule()


def product_module(torch: Any, widths: tuple[int, ...], rank: int) -> Any:
    """½‖W_1⋯W_L − W*‖² at factors of a rank."""
    from phasecast.models.matrix_products import true_factors

    factors = [torch.tensor(factor) for factor in true_factors(widths, rank)]

    class ProductModule(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.factors = torch.nn.ParameterList([torch.nn.Parameter(factor) for factor in factors])
            self.register_buffer("goal", torch.linalg.multi_dot(factors))

        def forward(self):
            total = self.factors[0]
            for factor in list(self.factors)[1:]:
                total = total @ factor
            return ((total - self.goal) ** 2).sum() / 2

    return ProductModule()


def need_torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", "torch") from None
    return torch


FAMILIES = (
    Family("llc-torch", "torch.llc", "closed forms and exact Gibbs sampling", in_torch, judge_in_torch, 20, 2),
    Family("llc-networks", "torch.llc", "λ̂ of a block beside a trained network", beside, judge_beside, 10, 1),
    Family(
        "llc-minibatches", "llc on minibatches", "closed form of full batches", minibatched, judge_minibatched, 10, 1
    ),
)
