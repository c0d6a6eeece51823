"""λ̂ of networks whose λ is known, over data sets, and of those of Table 2 in both phases."""

from __future__ import annotations

import numpy as np
import pytest

from phasecast.core import Status, Verdict
from phasecast.lab import run
from phasecast.posterior import linear_data, reduced_rank, rlct, two_layer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_reduced_rank_regression_of_full_rank(shared_store):
    """λ = 9/2; an independent implementation, which was not kept, had a slope of 4.57 ± 0.06 over 20 data sets."""
    found = run("rlct-linear", {}, store=shared_store, quiet=True)
    for method in ("variance", "slope"):
        answer = found.conclusion().answers.comparison("lambda", method=method)
        assert answer.verdict is Verdict.AGREES
        measured = answer.measurement
        assert abs(measured.value - 4.57) < 3 * np.hypot(0.06, measured.error)


def test_gibbs_and_nuts_agree_on_the_same_data():
    rng = np.random.default_rng(0)
    sets = [linear_data(list(rng.normal(size=(2, 3, 3))), 1000, seed) for seed in range(2)]
    gibbs, nuts = (
        rlct(reduced_rank(3, 3, 3), sets, sampler=kind, draws=1000, warmup=500) for kind in ("gibbs", "nuts")
    )
    assert gibbs.status is Status.OK
    assert nuts.status is Status.OK
    for one, other in zip(gibbs.of_datasets, nuts.of_datasets, strict=True):
        assert abs(one - other) < 4 * np.hypot(0.08, 0.1)  # the standard errors of one data set are about these
    energies = gibbs.curve[:, 3] - nuts.curve[:, 3]
    assert np.all(np.abs(energies) < 4 * np.hypot(gibbs.curve[:, 4], nuts.curve[:, 4]))


def test_a_degenerate_truth_has_a_smaller_lambda(shared_store):
    found = run("rlct-linear", {"widths": (4, 2, 4), "rank": 0, "datasets": 6}, store=shared_store, quiet=True)
    assert found.conclusion().answers.comparison("lambda", method="variance").verdict is Verdict.AGREES


def test_the_setting_of_table_2_is_in_the_constant_submodel(shared_store):
    found = run("rlct-relu", {"datasets": 3, "draws": 800}, store=shared_store, quiet=True)
    conclusion = found.conclusion()
    for m, expected in ((3, 0.53), (4, 0.54), (5, 0.56)):
        answer = conclusion.answers.comparison("lambda", true_units=m)
        assert answer.measurement.status is Status.WARNING
        assert "constant submodel" in answer.measurement.reasons[0]
        assert abs(answer.measurement.value - expected) < 3 * np.hypot(0.03, answer.measurement.error)
        live = conclusion.numbers[f"live, m = {m}"]
        assert live is not None
        assert live < 0.2


def test_the_networks_own_lambda_at_large_nbeta(shared_store):
    settings = {"true_units": (3,), "labels": "clean", "datasets": 2, "draws": 600, "warmup": 600}
    conclusion = run("rlct-relu", settings, store=shared_store, quiet=True).conclusion()
    answer = conclusion.answers.comparison("lambda", true_units=3)
    assert answer.measurement.status is Status.OK
    assert abs(answer.measurement.value - 5.2) < 0.4


@pytest.mark.xfail(reason="at n = 300 the limit is far: 0.38 instead of 2/3, and no diagnostic shows it", strict=True)
def test_tanh_units_beside_the_exact_lambda():
    """Two tanh units where the truth is zero: λ = 2/3, and in truth the constant is right, so there is no warning."""
    from phasecast.coefficients import tanh

    rng = np.random.default_rng(5)
    sets = [{"x": rng.uniform(-1, 1, size=(300, 1)), "y": rng.normal(size=300)} for _ in range(3)]
    truth = {"w": np.zeros((2, 1)), "q": np.zeros(2)}
    found = rlct(two_layer(2, 1, "tanh", bias=False, truth=truth), sets, draws=800, warmup=100)
    assert abs(found.estimate - float(tanh(2).value)) < 4 * found.error + 0.15  # (m − 1)/log nβ is not small
    assert not any("submodel" in reason for reason in found.reasons)
