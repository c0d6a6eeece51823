"""λ̂ of networks whose λ is known, over data sets, and of those of Table 2 in both phases."""

from __future__ import annotations

import numpy as np
import pytest

from phasecast.coefficients import deep_linear, tanh
from phasecast.core import Status, Verdict
from phasecast.lab import run
from phasecast.posterior import from_numpyro, linear_data, reduced_rank, rlct, two_layer
from phasecast.posterior.rlct import around
from phasecast.posterior.tempered import Sampler


@pytest.mark.slow
def test_reduced_rank_regression_of_full_rank(shared_store):
    """λ = 9/2; at n = 1000 tests/reference/reduced_rank_slope.py has a slope of 4.474 ± 0.016 over 200 data sets."""
    found = run("rlct-linear", {"datasets": 12, "draws": 600, "warmup": 200}, store=shared_store, quiet=True)
    for method in ("variance", "slope"):
        answer = found.conclusion().answers.comparison("lambda", method=method)
        assert answer.verdict is Verdict.AGREES
        measured = answer.measurement
        assert abs(measured.value - 4.474) < 3 * np.hypot(0.016, measured.error)
        assert abs(measured.value - deep_linear((3, 3, 3), 0).value) > 5 * measured.error  # of a truth of rank 0


@pytest.mark.slow
def test_gibbs_and_nuts_agree_on_the_same_data():
    rng = np.random.default_rng(0)
    first, second = (linear_data(list(rng.normal(size=(2, 3, 3))), 1000, seed) for seed in range(2))
    cases: list[tuple[Sampler, dict[str, np.ndarray]]] = [("gibbs", first), ("nuts", first), ("gibbs", second)]
    gibbs, nuts, other = (
        rlct(reduced_rank(3, 3, 3), data, around(1000), sampler=kind, draws=600, warmup=300) for kind, data in cases
    )
    assert gibbs.status is Status.OK
    assert nuts.status is Status.OK
    assert abs(gibbs.variance - nuts.variance) < 4 * np.hypot(gibbs.variance_error, nuts.variance_error)
    errors = np.hypot(gibbs.curve[:, 4], nuts.curve[:, 4])
    assert np.all(np.abs(gibbs.curve[:, 3] - nuts.curve[:, 3]) < 4 * errors)
    assert np.all(np.abs(other.curve[:, 3] - nuts.curve[:, 3]) > 4 * errors)  # on other data


@pytest.mark.slow
def test_a_degenerate_truth_has_a_smaller_lambda(shared_store):
    found = run("rlct-linear", {"widths": (4, 2, 4), "rank": 0, "datasets": 6}, store=shared_store, quiet=True)
    assert found.conclusion().answers.comparison("lambda", method="variance").verdict is Verdict.AGREES


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_setting_of_table_2_is_in_the_constant_submodel(shared_store):
    settings = {"datasets": 4, "chains": 2, "draws": 800, "warmup": 100}  # those of the test of the claim
    conclusion = run("rlct-relu", settings, store=shared_store, quiet=True).conclusion()
    for m, expected in ((3, 0.53), (4, 0.54), (5, 0.56)):
        answer = conclusion.answers.comparison("lambda", true_units=m)
        assert answer.measurement.status is Status.WARNING
        assert "constant submodel" in answer.measurement.reasons[0]
        assert abs(answer.measurement.value - expected) < 3 * np.hypot(0.03, answer.measurement.error)
        live = conclusion.numbers[f"live, m = {m}"]
        assert live is not None
        assert live < 0.2


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_networks_own_lambda_at_large_nbeta(shared_store):
    settings = {"true_units": (3,), "labels": "clean", "datasets": 2, "draws": 600, "warmup": 600}
    conclusion = run("rlct-relu", settings, store=shared_store, quiet=True).conclusion()
    answer = conclusion.answers.comparison("lambda", true_units=3)
    assert answer.measurement.status is Status.OK
    assert abs(answer.measurement.value - 5.2) < 0.4


@pytest.mark.slow
def test_tanh_units_whose_limit_is_far_are_not_ok():
    """Two tanh units where the truth is zero: λ = 2/3, and the constant is right; at n = 300 λ̂ is 0.38 and rising."""
    rng = np.random.default_rng(5)
    sets = [{"x": rng.uniform(-1, 1, size=(300, 1)), "y": rng.normal(size=300)} for _ in range(3)]
    truth = {"w": np.zeros((2, 1)), "q": np.zeros(2)}
    found = rlct(two_layer(2, 1, "tanh", bias=False, truth=truth), sets, draws=800, warmup=100)
    limit = float(tanh(2).value)
    assert abs(found.estimate - limit) > 10 * found.variance_error  # of the chains and data sets alone
    assert found.status is Status.WARNING
    assert found.reasons[0].startswith("λ(β) still rises by")
    assert abs(found.estimate - limit) < 4 * found.error
    assert not any("submodel" in reason for reason in found.reasons)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_logistic_regression_with_collinear_features_is_not_ok():
    """Radius, perimeter and area of cells are nearly one feature: regular, λ = 3, but not at n = 569."""
    datasets = pytest.importorskip("sklearn.datasets")
    numpyro = pytest.importorskip("numpyro")
    x, y = datasets.load_breast_cancer(return_X_y=True)
    x = (x[:, :5] - x[:, :5].mean(axis=0)) / x[:, :5].std(axis=0)

    def logistic(x, y):
        w = numpyro.sample("w", numpyro.distributions.Normal(0, 1).expand([5]).to_event(1))
        intercept = numpyro.sample("intercept", numpyro.distributions.Normal(0, 1))
        numpyro.sample("y", numpyro.distributions.Bernoulli(logits=x @ w + intercept), obs=y)

    data = {"x": x, "y": y}
    found = rlct(from_numpyro(logistic, data), data, draws=800, warmup=400)
    assert found.status is Status.WARNING
    assert found.reasons[0].startswith("2 of 6 directions are left to the prior at this n")
    assert found.identified == 6
    assert abs(found.estimate - 3) < 4 * found.error
