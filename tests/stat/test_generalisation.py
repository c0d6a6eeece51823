"""Learning curves of Bayesian last layers: Table 1(a) corrected and as published. Minutes, so not in the suite."""

from __future__ import annotations

import numpy as np
import pytest

from phasecast.core.results import Status
from phasecast.posterior.last_layers import feature_networks as nets
from phasecast.posterior.last_layers import generalisation as gen

SIZES = (200, 1000)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def corrected():
    return gen.generalisation_curves(gen.table_setting("1a"), SIZES, datasets=30)


@pytest.fixture(scope="module")
def published():
    return gen.generalisation_curves(gen.table_setting("1a", protocol="published"), SIZES, datasets=30)


@pytest.mark.parametrize(("method", "small", "large"), [("map", 14.0, 5.0), ("last", 14.0, 5.5), ("two", 13.0, 5.5)])
def test_table_1a_with_correct_code(corrected, method, small, large):
    """Against an independent implementation, which was not kept, with standard errors of 1.8 and 1.1."""
    curve = corrected[method]
    for n, mean, error, other, spread in zip(
        SIZES, curve.estimate, curve.error, (small, large), (1.8, 1.1), strict=True
    ):
        assert abs(n * mean - other) < 3 * np.hypot(n * error, spread)


def test_the_three_are_near_each_other(corrected):
    for method in ("last", "two", "laplace-last"):
        less = corrected[method].less(corrected["map"])
        assert np.all(abs(np.asarray(less.estimate)) < 0.25 * np.asarray(corrected["map"].estimate))


def test_laplace_of_two_layers_is_refused(corrected):
    assert corrected["laplace-two"].status is Status.REFUSED


def test_the_published_script_flatters_the_last_layer_and_ruins_laplace(corrected, published):
    np.testing.assert_allclose(published["map"].estimate, corrected["map"].estimate, rtol=1e-5)
    less = published["last"].less(corrected["last"])
    assert 200 * less.estimate[0] < -4 * 200 * less.error[0]
    assert np.all(np.asarray(published["laplace-last"].estimate) > 20 * np.asarray(corrected["laplace-last"].estimate))
    assert np.isposinf(published["laplace-two"].estimate).all()


def test_the_transposed_features_alone_lower_the_last_layer_by_about_three(corrected):
    found = gen.generalisation_curves(gen.table_setting("1a", protocol="transposed"), SIZES, datasets=30)
    lower = found["last"].errors[0] - corrected["last"].errors[0]
    assert abs(200 * lower.mean() + 3) < 3 * 200 * lower.std(ddof=1) / np.sqrt(30)


def test_minibatches_and_a_truth_that_is_no_such_network_train_too():
    setting = gen.table_setting("5c", training=nets.Training(epochs=300))
    found = gen.generalisation_curves(setting, (50, 100, 200), datasets=6)
    for method in ("map", "last", "two"):
        assert np.all(np.isfinite(np.asarray(found[method].estimate)))
    assert np.isfinite(found["last"].slope(intercept=True).estimate)
