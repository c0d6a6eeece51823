"""Plans are the laws they quote, turned around."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.forecasting.bank import shipped_bank
from phasecast.forecasting.forecast import before_start, rows_for
from phasecast.forecasting.planning import plan_curve, plan_feature, plan_grokking, plan_posterior
from phasecast.forecasting.planning.theory import CurveSetting, Measured
from phasecast.forecasting.settings import Settings

SPARSE = Settings("addition", p=17, n=115, lr=1e-3, weight_decay=1e-4, width=85)


def numbers(plan) -> dict[str, float | None]:
    return {line.name: line.value for line in plan.lines}


def test_the_error_of_a_bayesian_model_is_lambda_over_n_both_ways():
    plan = numbers(plan_posterior(Measured(2.5, 0.1), sizes=[100, 1000], errors=[0.01]))
    assert plan == {"error at n = 100": 0.025, "error at n = 1000": 0.0025, "n for error 0.01": 250.0}


def test_two_models_have_the_same_free_energy_at_the_critical_n():
    (n,) = numbers(plan_posterior(Measured(2.0, loss=0.52), other=Measured(8.0, loss=0.5))).values()
    assert n is not None
    assert 0.52 * n + 2 * math.log(n) == pytest.approx(0.5 * n + 8 * math.log(n), rel=1e-9)


def test_the_curve_is_at_the_wanted_error_at_the_planned_alpha():
    from phasecast import online

    setting = CurveSetting(modes=4, exponent=1.0, lr=0.5, draws=2)
    alpha = numbers(plan_curve(setting, [0.01], up_to=300.0))["α for ε = 0.01"]
    assert alpha is not None
    again = online.curve(modes=4, exponent=1.0, lr=0.5, draws=2, alphas=[alpha])
    assert float(np.asarray(again.estimate)[0]) == pytest.approx(0.01, rel=0.02)  # the grid has 2% per point


def test_phase_retrieval_needs_half_an_example_per_dimension_at_best():
    plan = numbers(plan_feature("z**2", dimension=200))
    assert plan["δ_alg"] == pytest.approx(0.5, abs=1e-3)
    assert plan["n at δ_alg"] == pytest.approx(100, abs=0.2)
    assert plan["δ*(0)"] is not None
    assert plan["δ*(0)"] > 0.5


def test_more_certainty_and_less_time_need_more_rows():
    bank = shipped_bank()
    few, many = (rows_for(SPARSE, 8000, bank, chance) for chance in (0.5, 0.95))
    slow, fast = (rows_for(SPARSE, window, bank, 0.9) for window in (8000, 2000))
    assert few is not None
    assert many is not None
    assert slow is not None
    assert fast is not None
    assert few <= many
    assert slow < fast


def test_a_sparse_table_is_advised_against_and_a_dense_one_is_not():
    sparse, dense = before_start(SPARSE, 8000), before_start(dataclasses.replace(SPARSE, n=170), 8000)
    assert (sparse.probability or 0) < 0.5 < (dense.probability or 0)
    assert "use fraction ≥" in sparse.reasons[0]
    assert dense.reasons == ()


def test_the_planned_rows_are_the_fewest_with_the_wanted_chance():
    bank = shipped_bank()
    n = rows_for(SPARSE, 8000, bank, 0.9)
    assert n is not None
    assert (before_start(dataclasses.replace(SPARSE, n=n), 8000).probability or 0) >= 0.9
    assert numbers(plan_grokking(SPARSE))["training rows"] == n


def test_a_plan_outside_of_the_bank_is_bad_input():
    with pytest.raises(BadInput, match="width"):
        plan_grokking(dataclasses.replace(SPARSE, width=400))


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
def test_the_plan_of_a_posterior_is_what_refits_on_subsamples_give(beta):
    """Linear regression with known noise and a flat prior, λ = ν = d/2, refitted to thousands of samples of n′ rows.

    The design has XᵀX = n, so the posterior is N(ŵ, 1/(βn)); fresh labels are drawn at the same inputs.
    """
    d, n, refits = 3, 40, 4000
    rng = np.random.default_rng(0)
    rows = np.linalg.qr(rng.normal(size=(n, d)))[0] * np.sqrt(n)
    noise = rng.normal(size=(refits, n))
    fitted = noise @ rows / n  # ŵ − w₀
    spread = np.sum(rows**2, axis=1) / (beta * n)  # variance of the output under the posterior
    wide = 1 + spread

    def log_loss(residual, variance):
        return 0.5 * np.log(variance) + 0.5 * residual**2 / variance

    shift = fitted @ rows.T
    fresh = rng.normal(size=(refits, n))
    best_fresh, best_seen = log_loss(fresh, 1.0).mean(axis=1), log_loss(noise, 1.0).mean(axis=1)
    draws = rng.normal(size=(refits, d)) / np.sqrt(beta * n) @ rows.T
    measured = {
        "error at": log_loss(fresh - shift, wide).mean(axis=1) - best_fresh,
        "on training": log_loss(noise - shift, wide).mean(axis=1) - best_seen,
        "of one": log_loss(fresh - shift - draws, 1.0).mean(axis=1) - best_fresh,
    }
    plan = plan_posterior(Measured(d / 2, fluctuation=d / 2, beta=beta), sizes=[n])
    for start, values in measured.items():
        planned = next(line for line in plan.lines if line.name.startswith(start))
        assert planned.value is not None
        error = values.std() / np.sqrt(refits)
        assert abs(planned.value - values.mean()) < 3 * error + 2 * (d / 2 / beta / n) ** 2 * d  # next order in 1/n


def test_another_temperature_needs_the_fluctuation():
    with pytest.raises(BadInput, match="fluctuation"):
        plan_posterior(Measured(1.0, beta=2.0), sizes=[10])
