"""Criteria of whole models: linear regression in closed form, and reduced rank regression of three widths."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import xarray as xr

from phasecast.core.errors import BadInput
from phasecast.posterior import (
    compare,
    criteria,
    free_energy,
    from_arviz,
    linear,
    linear_data,
    prior_losses,
    reduced_rank,
    score,
    temperature_grid,
    tempered,
    wbic,
    wbic_beta,
)
from phasecast.posterior.scores.comparison import summary_sentence

pytestmark = pytest.mark.bare


def closed_free_energy(data: dict[str, np.ndarray]) -> float:
    """−log p(y | x) of linear regression with unit noise and a unit normal prior."""
    x, y = np.asarray(data["x"], dtype=float), np.asarray(data["y"], dtype=float)[:, 0]
    covariance = np.eye(len(x)) + x @ x.T
    determinant = np.linalg.slogdet(covariance)[1] + len(x) * np.log(2 * np.pi)
    return float(y @ np.linalg.solve(covariance, y) + determinant) / 2


@cache
def sampled() -> tuple[dict[str, np.ndarray], np.ndarray, xr.DataTree]:
    """Data of linear regression, inverse temperatures, and draws at them."""
    data = linear_data([[[1.0, -0.5]]], 60, seed=1)
    betas = np.unique([*temperature_grid(9)[1:], wbic_beta(60)])
    return data, betas, tempered(linear(2), data, betas, draws=400, warmup=20, thin=4, pointwise=True)


def test_every_criterion_takes_what_tempered_returns():
    """With the same numbers as from arrays; F is the closed one."""
    data, betas, tree = sampled()
    one = criteria(tree)
    array = np.asarray(tree["log_likelihood/y"]).reshape(-1, 60)
    assert one.waic == criteria(array).waic
    assert one.psis_loo == criteria(tree.isel(dataset=0)).psis_loo == from_arviz(tree).psis_loo
    prior = prior_losses(linear(2), data, draws=400)
    losses = np.asarray(tree["sample_stats/nL"])[0]
    energy = free_energy(tree, prior)
    assert energy == free_energy(np.r_[0.0, betas], np.concatenate([prior[None], losses]))
    assert abs(energy.value - closed_free_energy(data)) < 4 * energy.error
    assert wbic(tree, 60) == wbic(losses[int(np.argmin(abs(betas - wbic_beta(60))))], 60, wbic_beta(60))
    ranking = compare({"right": tree, "again": tree})
    assert {"WAIC", "PSIS-LOO", "WBIC / n"} <= set(ranking.criteria)
    np.testing.assert_array_equal(ranking.values[:, 0], ranking.values[:, 1])
    assert compare({"right": tree, "array": criteria(array)}).choices["WAIC"] == "right"


def test_trees_that_say_too_little_are_bad_input():
    tree = sampled()[2]
    two = xr.DataTree.from_dict(
        {name: xr.concat([node.to_dataset()] * 2, "dataset") for name, node in tree.children.items()}
    )
    with pytest.raises(BadInput, match="2 data sets"):
        criteria(two)
    with pytest.raises(BadInput, match="2 data sets"):
        free_energy(two, np.zeros((4, 40)))
    with pytest.raises(BadInput, match="no losses at β = 0"):
        free_energy(tree)
    with pytest.raises(BadInput, match="at least three values"):
        free_energy(tree.isel(beta=[-1]), np.zeros((4, 40)))
    with pytest.raises(BadInput, match="sample at 1/log n"):
        wbic(tree, 61)
    with pytest.raises(BadInput, match="the β of the losses is not given"):
        wbic(np.zeros((4, 40)), 60)
    with pytest.raises(BadInput, match="pointwise=True"):
        criteria(tree.filter(lambda node: node.name != "log_likelihood"))
    with pytest.raises(BadInput, match="give what tempered returned"):
        wbic(tree.filter(lambda node: node.name != "sample_stats"), 60)


@pytest.mark.slow
def test_linear_regression_has_its_closed_free_energy_and_loss():
    data = linear_data([[[1.0, -0.5]]], 60, seed=1)
    new = linear_data([[[1.0, -0.5]]], 2000, seed=2)
    x, y = (np.asarray(data[name], dtype=float) for name in ("x", "y"))
    found = score(linear(2), data, new, draws=1000)
    assert found.free_energy is not None
    assert abs(found.free_energy.value - closed_free_energy(data)) < 4 * found.free_energy.error
    spread = np.linalg.inv(x.T @ x + np.eye(2))
    mean = spread @ x.T @ y[:, 0]
    variance = 1 + np.einsum("ni,ij,nj->n", new["x"], spread, new["x"])
    loss = np.mean((new["y"][:, 0] - new["x"] @ mean) ** 2 / variance + np.log(2 * np.pi * variance)) / 2
    assert found.generalisation == pytest.approx(loss, abs=0.005)
    assert found.criteria.functional_variance == pytest.approx(2, abs=1.0)  # about twice λ = 1, at n = 60


@pytest.mark.slow
def test_the_width_that_is_true_is_chosen():
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(1, 3)), rng.normal(size=(3, 1))]
    data, new = (linear_data(factors, n, seed=seed) for n, seed in ((100, 1), (5000, 2)))
    found = compare({f"rank {h}": score(reduced_rank(3, h, 3), data, new, draws=1000) for h in (1, 2, 3)})
    assert found.choices["free energy / n"] == "rank 1"
    assert found.choices["BIC / n"] == "rank 1"
    assert "predicts best" in summary_sentence(found)
