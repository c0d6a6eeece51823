"""λ̂ of torch modules against closed forms, and against the same model on JAX."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import phasecast as pc
from phasecast.coefficients.llc.estimate import llc

torch = pytest.importorskip("torch")
from torch_problems import _one_thread, half_square  # noqa: E402, F401

GAMMA, ROWS, INPUTS = 1.0, 300, 20


def regression():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((ROWS, INPUTS)), rng.standard_normal(INPUTS)
    module = torch.nn.Linear(INPUTS, 1, bias=False).double()
    with torch.no_grad():
        module.weight[:] = torch.as_tensor(w)
    return module, x, w, (x @ w)[:, None]


def expected(x, nbeta, gamma=GAMMA):
    """Σ ½ nβh/(nβh + γ) over the eigenvalues h of the Hessian: each direction is a Gaussian."""
    h = np.linalg.eigvalsh(x.T @ x / len(x))
    return float((0.5 * nbeta * h / (nbeta * h + gamma)).sum())


@functools.cache
def of_regression(sampler: str) -> pc.LLC:
    module, x, _, y = regression()
    return pc.torch.llc(module, (x, y), half_square, gamma=GAMMA, sampler=sampler, target=0.05, seed=1)


@pytest.mark.parametrize("sampler", ["hmc", "mala", "langevin"])
def test_linear_regression_has_its_closed_form(sampler):
    x, found = regression()[1], of_regression(sampler)
    assert str(found.status) == "ok", found.reasons
    exact = expected(x, ROWS / math.log(ROWS))
    assert abs(found.value - exact) < 4 * found.error
    assert found.error < 0.06 * exact
    assert abs(found.value - expected(x, ROWS / math.log(ROWS), 30.0)) > 4 * found.error  # another γ is told apart


def test_jax_and_torch_agree():
    _, x, w, y = regression()
    here = of_regression("hmc")
    there = llc(lambda w, d: ((d[0] @ w - d[1][:, 0]) ** 2).mean() / 2, w, (x, y), gamma=GAMMA, target=0.05)
    assert here.nbeta == there.nbeta
    assert abs(here.value - there.value) < 4 * math.hypot(here.error, there.error)


def test_only_some_parameters_count():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((200, 6))
    module = torch.nn.Sequential(torch.nn.Linear(6, 3, bias=False), torch.nn.Linear(3, 2, bias=False)).double()
    y = module(torch.as_tensor(x)).detach()
    found = pc.torch.llc(module, (x, y), half_square, only="1.*", gamma=GAMMA, target=0.08)
    hidden = x @ module[0].weight.detach().numpy().T
    exact = 2 * expected(hidden, 200 / math.log(200))  # one regression for each output
    assert abs(found.value - exact) < 4 * found.error


def test_a_prior_makes_its_own_minimum_one_to_sample_around():
    """With s/2 |w|² the target is Gaussian around the ridge solution: nβ(h + s) + γ is its precision."""
    _, x, w, _ = regression()
    y = (x @ w)[:, None] + np.random.default_rng(3).standard_normal((ROWS, 1))
    s, hessian = 1.0, x.T @ x / ROWS
    module = torch.nn.Linear(INPUTS, 1, bias=False).double()
    with torch.no_grad():
        module.weight[:] = torch.as_tensor(np.linalg.solve(hessian + s * np.eye(INPUTS), x.T @ y[:, 0] / ROWS))
    found = pc.torch.llc(module, (x, y), half_square, gamma=GAMMA, prior=s, target=0.1)
    nbeta, h = ROWS / math.log(ROWS), np.linalg.eigvalsh(hessian)
    exact = float((0.5 * nbeta * h / (nbeta * (h + s) + GAMMA)).sum())
    assert abs(found.estimate - exact) < 4 * found.error
    assert abs(found.estimate - expected(x, nbeta)) > 4 * found.error  # as if there were no prior


def test_a_population_loss_needs_no_data():
    class Bowl(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(10))

        def forward(self):
            return (self.w**2).sum() / 2

    found = pc.torch.llc(Bowl(), None, lambda value: value, nbeta=500.0, gamma=GAMMA, sampler="langevin", target=0.04)
    assert abs(found.value - 5 * 500 / 501) < 4 * found.error


def test_same_seed_same_answer():
    module, x, _, y = regression()
    first, second, other = (
        pc.torch.llc(module, (x, y), half_square, gamma=GAMMA, sampler="mala", target=0.5, seed=seed)
        for seed in (3, 3, 4)
    )
    assert first.estimate == second.estimate
    np.testing.assert_array_equal(first.curve, second.curve)
    assert first.estimate != other.estimate


def test_a_shifted_minimum_is_a_warning_with_the_value_above_it():
    module, x, _, y = regression()
    with torch.no_grad():
        module.weight += 0.05 * 3
    found = pc.torch.llc(module, (x, y), half_square, gamma=GAMMA, sampler="langevin", target=0.1)
    assert str(found.status) == "warning"
    assert "not a minimum" in found.reasons[0]
    assert found.value_min > found.value
    held_back = GAMMA * float(0.15**2 * module.weight.numel()) / 2
    assert abs(found.value_min - expected(x, found.nbeta)) < 4 * found.error + held_back


def test_losses_of_single_rows_of_a_module():
    module, x, _, y = regression()
    found = pc.torch.llc(module, (x, y), half_square, gamma=GAMMA, sampler="langevin", target=0.1)
    rows = found.sample_losses(lambda outputs, targets: ((outputs - targets) ** 2).sum(-1) / 2, draws=60, thin=20)
    assert rows.shape == (60, found.traces["excess"].shape[1], ROWS)
    excess = found.nbeta * rows.mean(axis=2)  # the loss at w* is zero
    assert abs(excess.mean() - expected(x, found.nbeta)) < 4 * excess.std() / math.sqrt(excess.size / 4)
