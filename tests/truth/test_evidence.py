"""Free energies by thermodynamic integration and WBIC against closed forms, and models compared."""

from __future__ import annotations

import math

import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement, Result, Status
from phasecast.posterior.scores import evidence
from phasecast.posterior.scores.comparison import Scores, compare, summary_sentence
from phasecast.posterior.scores.criteria import criteria

pytestmark = pytest.mark.bare

N = 50
X = np.random.default_rng(4).normal(0.3, 1, size=N)


def losses(w):
    return ((X - np.asarray(w)[..., None]) ** 2).sum(axis=-1) / 2 + N * math.log(2 * math.pi) / 2


def tempered_draws(beta, rng, prior_sd=1.0, shape=(4, 500)):
    """Exact draws of a normal mean at β."""
    precision = prior_sd**-2 + beta * N
    return rng.normal(beta * N * X.mean() / precision, precision**-0.5, size=shape)


def closed_free_energy(prior_sd=1.0):
    """−log N(x; 0, 1 + s² 11ᵀ)."""
    covariance = np.eye(N) + prior_sd**2
    return (X @ np.linalg.solve(covariance, X) + np.linalg.slogdet(covariance)[1] + N * math.log(2 * math.pi)) / 2


def ladder(prior_sd=1.0, points=21, seed=0):
    rng = np.random.default_rng(seed)
    betas = evidence.temperature_grid(points)
    return betas, np.stack([losses(tempered_draws(beta, rng, prior_sd)) for beta in betas])


@pytest.mark.parametrize("prior_sd", [1.0, 5.0])
def test_the_free_energy_of_a_normal_mean(prior_sd):
    distances = []
    for seed in range(8):
        found = evidence.free_energy(*ladder(prior_sd, seed=seed))
        assert found.status is Status.OK
        distances.append((found.value - closed_free_energy(prior_sd)) / found.error)
    assert np.max(np.abs(distances)) < 4
    assert 0.2 < np.std(distances) < 2.5  # the error is neither too small nor too large


def test_the_wrong_prior_has_another_free_energy():
    found = evidence.free_energy(*ladder(5.0))
    assert abs(found.value - closed_free_energy(1.0)) > 5 * found.error


def test_a_coarse_ladder_is_refused():
    betas, traces = ladder(50.0)
    few = [0, 10, 20]
    found = evidence.free_energy(betas[few], traces[few])
    assert found.status is Status.REFUSED
    assert "use more temperatures" in found.reasons[0]


def test_wbic_is_the_mean_loss_at_its_temperature():
    beta = evidence.wbic_beta(N)
    precision = 1 + beta * N
    mean = beta * N * X.mean() / precision
    closed = losses(mean) + N / precision / 2
    found = evidence.wbic(losses(tempered_draws(beta, np.random.default_rng(1))), N, beta)
    assert abs(found.value - closed) < 4 * found.error
    with pytest.raises(BadInput, match="sample at 1/log n"):
        evidence.wbic(np.ones((2, 10)), N, 1.0)
    short = evidence.wbic(losses(tempered_draws(beta, np.random.default_rng(1), shape=(2, 20))), N, beta)
    assert short.status is Status.REFUSED


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evidence.free_energy([0, 1], np.ones((2, 2, 10))), "temperature_grid"),
        (lambda: evidence.free_energy([0.1, 0.5, 1], np.ones((3, 2, 10))), "temperature_grid"),
        (lambda: evidence.free_energy([0, 0.5, 1], np.ones((2, 2, 10))), "one row per β"),
        (lambda: evidence.free_energy([0, 0.5, 1], np.full((3, 2, 10), np.nan)), "finite"),
        (lambda: evidence.bic(1.0, -1, 10), "parameters"),
        (lambda: compare({"one": criteria(np.zeros((30, 3)))}), "two or more"),
    ],
)
def test_bad_input_says_what_would_be_right(call, message):
    with pytest.raises(BadInput, match=message):
        call()


def test_models_are_compared_by_every_criterion_they_all_have():
    rng = np.random.default_rng(0)
    w = tempered_draws(1.0, rng).ravel()
    free = Scores(
        criteria(-((X - w[:, None]) ** 2) / 2 - math.log(2 * math.pi) / 2),
        evidence.free_energy(*ladder()),
        bic=evidence.bic(float(losses(X.mean())), 1, N),
        generalisation=1.42,
    )
    shifted = Scores(
        criteria(-((X - 1 - w[:, None]) ** 2) / 2 - math.log(2 * math.pi) / 2),
        Measurement(90.0, 0.1),
        bic=95.0,
        generalisation=1.9,
    )
    found = compare({"free": free, "shifted": shifted})
    assert found.criteria == ("WAIC", "LOO", "PSIS-LOO", "free energy / n", "BIC / n", "generalisation")
    assert set(found.choices.values()) == {"free"}
    assert "free predicts best" in summary_sentence(found)
    assert Result.from_json(found.to_json()) == found
    assert "→ free" in str(found)
    assert found.plain()["criteria"]["WAIC"]["choice"] == "free"
    assert len(found.figure().axes) == 1
    difference = free.criteria.pointwise_waic - shifted.criteria.pointwise_waic
    assert found.errors[0, 1] == pytest.approx(np.std(difference) / math.sqrt(N))


def test_a_refused_number_is_left_out_and_named():
    one = criteria(-((X - np.linspace(-1, 1, 100)[:, None]) ** 2) / 2)
    refused = Measurement(1.0, 0.1, Status.REFUSED, reasons=["the ladder is too coarse"])
    found = compare({"a": Scores(one, refused), "b": Scores(one, Measurement(80.0, 0.1))})
    row = found.criteria.index("free energy / n")
    assert np.isnan(found.values[row, 0])
    assert found.choices["free energy / n"] == "b"
    assert "too coarse" in found.refused[0]
    both = compare({"a": Scores(one, refused), "b": Scores(one, refused)})
    assert "free energy / n" not in both.criteria
    assert len(both.refused) == 2
    with pytest.raises(BadInput, match="the same data"):
        compare({"a": one, "b": criteria(np.zeros((30, 3)))})
