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
