"""Criteria of whole models: linear regression in closed form, and reduced rank regression of three widths."""

from __future__ import annotations

import numpy as np
import pytest

from phasecast.posterior import linear, linear_data, reduced_rank
from phasecast.posterior.scores.comparison import compare, summary_sentence
from phasecast.posterior.scores.scoring import score

pytestmark = pytest.mark.bare


@pytest.mark.slow
def test_linear_regression_has_its_closed_free_energy_and_loss():
    data = linear_data([[[1.0, -0.5]]], 60, seed=1)
    new = linear_data([[[1.0, -0.5]]], 2000, seed=2)
    x, y = (np.asarray(data[name], dtype=float) for name in ("x", "y"))
    covariance = np.eye(60) + x @ x.T
    closed = (
        y[:, 0] @ np.linalg.solve(covariance, y[:, 0]) + np.linalg.slogdet(covariance)[1] + 60 * np.log(2 * np.pi)
    ) / 2
    found = score(linear(2), data, new, draws=1000)
    assert found.free_energy is not None
    assert abs(found.free_energy.value - closed) < 4 * found.free_energy.error
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
