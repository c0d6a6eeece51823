"""Learning curves of Bayesian last layers: Table 1(a) corrected and as published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from phasecast import claims
from phasecast.core import RecipeCheck
from phasecast.core.results import Status
from phasecast.lab import run
from phasecast.posterior.last_layers import feature_networks as nets
from phasecast.posterior.last_layers import generalisation as gen
from phasecast.studies.posterior.generalisation import RECIPE, Generalisation, curves_of

Curves = dict[str, gen.GeneralisationCurve]
SMALL, LARGE = 0, 2  # where n = 200 and n = 1000 are among the sizes of the checks


@pytest.fixture(scope="module")
def curves_of_check(shared_store: Path) -> Callable[[str], Curves]:
    """The curves that the check of a claim computes: whichever test comes first computes them for all."""

    def of(claim: str) -> Curves:
        check = claims.check_of(claim)
        assert isinstance(check, RecipeCheck)
        found = run(check.recipe, check.spec, store=shared_store, quiet=True)
        assert isinstance(found.spec, Generalisation)
        return curves_of(found.spec, found.results())

    return of


@pytest.fixture(scope="module")
def corrected(curves_of_check: Callable[[str], Curves]) -> Curves:
    return curves_of_check("singular/table-1")


@pytest.fixture(scope="module")
def published(curves_of_check: Callable[[str], Curves]) -> Curves:
    return curves_of_check("singular/table-1-script")


@pytest.mark.slow
@pytest.mark.parametrize(("method", "small", "large"), [("map", 14.0, 5.0), ("last", 14.0, 5.5), ("two", 13.0, 5.5)])
def test_table_1a_with_correct_code(corrected, method, small, large):
    """Against an independent implementation, which was not kept, with standard errors of 1.8 and 1.1."""
    curve = corrected[method]
    for at, other, spread in ((SMALL, small, 1.8), (LARGE, large, 1.1)):
        n, mean, error = curve.sizes[at], np.asarray(curve.estimate)[at], np.asarray(curve.error)[at]
        assert abs(n * mean - other) < 3 * np.hypot(n * error, spread)


@pytest.mark.slow
def test_the_three_are_near_each_other(corrected):
    for method in ("last", "two", "laplace-last"):
        less = corrected[method].less(corrected["map"])
        assert np.all(abs(np.asarray(less.estimate)) < 0.25 * np.asarray(corrected["map"].estimate))


@pytest.mark.slow
def test_laplace_of_two_layers_is_refused(corrected):
    assert corrected["laplace-two"].status is Status.REFUSED


@pytest.mark.slow
def test_the_published_script_flatters_the_last_layer_and_ruins_laplace(corrected, published):
    np.testing.assert_allclose(published["map"].estimate, corrected["map"].estimate, rtol=1e-5)
    less = published["last"].less(corrected["last"])
    assert 200 * less.estimate[SMALL] < -4 * 200 * less.error[SMALL]
    assert np.all(np.asarray(published["laplace-last"].estimate) > 20 * np.asarray(corrected["laplace-last"].estimate))
    assert np.isposinf(published["laplace-two"].estimate).all()


@pytest.mark.slow
def test_the_transposed_features_alone_lower_the_last_layer_by_about_three(corrected):
    found = gen.generalisation_curves(gen.table_setting("1a", protocol="transposed"), (200, 1000), datasets=30)
    lower = found["last"].errors[0] - corrected["last"].errors[SMALL]  # of the same data
    assert abs(200 * lower.mean() + 3) < 3 * 200 * lower.std(ddof=1) / np.sqrt(30)


@pytest.mark.slow
def test_minibatches_and_a_truth_that_is_no_such_network_train_too():
    setting = gen.table_setting("5c", training=nets.Training(epochs=100), test=500, warmup=40, draws=20)
    found = gen.generalisation_curves(setting, (50, 100, 200), datasets=6)
    for method in ("map", "last", "two"):
        assert np.all(np.isfinite(np.asarray(found[method].estimate)))
    assert np.isfinite(found["last"].slope(intercept=True).estimate)


def _stored(spec: Generalisation, **changed: float) -> xr.DataTree:
    """Results in which every method has the error 10/n, of three datasets, with some columns changed."""
    sizes = np.asarray(spec.sizes)
    noise = np.random.default_rng(0).normal(1.0, 0.05, (3, sizes.size))
    errors = dict.fromkeys(("map", "last", "two", "laplace_last", "laplace_two"), 10.0 / sizes * noise)
    columns = {**errors, "undetermined": 0.0 * noise, "rhat": 1.0 + 0.0 * noise, "divergent": 0.0 * noise}
    columns |= {name: value * np.ones_like(noise) for name, value in changed.items()}
    data = xr.Dataset({name: (("dataset", "n"), rows) for name, rows in columns.items()}, {"n": sizes})
    return xr.DataTree.from_dict({"errors": data})


def test_layers_without_a_laplace_approximation_are_a_finding_and_no_refusal():
    spec = Generalisation()
    conclusion = RECIPE.conclude(spec, _stored(spec, laplace_two=np.nan, undetermined=8.0))
    assert conclusion.status is not Status.REFUSED
    assert conclusion.answers.measurement("undetermined").estimate == 8.0
    assert "no Laplace approximation: in 8 directions" in conclusion.sentence


@pytest.mark.parametrize("failed", [{"map": np.nan, "undetermined": 8.0}, {"laplace_two": np.nan}])
def test_a_training_that_failed_is_still_refused(failed):
    spec = Generalisation()
    assert RECIPE.conclude(spec, _stored(spec, **failed)).status is Status.REFUSED
