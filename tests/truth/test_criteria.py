"""WAIC and LOO against ArviZ, against exact posteriors, and against themselves at other temperatures."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.core.results import Result, Status
from phasecast.posterior.scores.criteria import (
    criteria,
    from_arviz,
    new_data_losses,
    pointwise_error,
    skewed_error,
)
from phasecast.posterior.scores.leaving_out import left_out

bare = pytest.mark.bare


def normal_log_likelihood(x, w):
    return -((x - np.asarray(w)[:, None]) ** 2) / 2 - np.log(2 * np.pi) / 2


def draws_and_data(seed=0, n=40, draws=2000, beta=1.0):
    """Draws from the posterior of a normal mean with a flat prior."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return rng.normal(x.mean(), (beta * n) ** -0.5, size=draws), x


def arviz():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        az = pytest.importorskip("arviz", minversion="0.23", reason="WAIC is compared with ArviZ 0.23")
    if not hasattr(az, "waic"):
        pytest.skip("this ArviZ has no WAIC")
    return az


def inference_data(az, ll, chains):
    ll = ll.reshape(chains, -1, ll.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return az.from_dict(posterior={"w": ll[:, :, :3]}, log_likelihood={"y": ll})


@pytest.mark.parametrize("chains", [1, 4])
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_waic_and_psis_loo_are_arviz(chains, scale):
    """scale 4: the model is wrong about the noise, the weights have heavy tails."""
    az = arviz()
    w, x = draws_and_data()
    ll = normal_log_likelihood(scale * x, w)
    data = inference_data(az, ll, chains)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        waic, loo = az.waic(data, scale="negative_log"), az.loo(data, scale="negative_log", pointwise=True)
    found = from_arviz(data)
    n = len(x)
    assert found.waic * n == pytest.approx(waic.iloc[0], abs=1e-10 * n)
    assert found.functional_variance == pytest.approx(waic["p_waic"], abs=1e-10 * n)
    assert pointwise_error(found.pointwise_waic) * n == pytest.approx(waic["se"], rel=1e-10)
    np.testing.assert_allclose(found.pointwise_psis, loo["loo_i"].values, atol=1e-6)
    np.testing.assert_allclose(found.pareto_k, loo["pareto_k"].values, atol=1e-6)


def test_a_tree_is_read_like_inference_data():
    xr = pytest.importorskip("xarray")
    w, x = draws_and_data(draws=400)
    ll = normal_log_likelihood(x, w)
    dataset = xr.Dataset({"y": (("draw", "chain", "obs"), ll.reshape(100, 4, -1))})
    tree = xr.DataTree.from_dict({"log_likelihood": dataset})
    order = ll.reshape(100, 4, -1).transpose(1, 0, 2).reshape(400, -1)
    assert from_arviz(tree) == criteria(order)
    with pytest.raises(BadInput, match="no group log_likelihood"):
        from_arviz(xr.DataTree.from_dict({"posterior": dataset}))
    with pytest.raises(BadInput, match="cannot read a"):
        from_arviz({"log_likelihood": ll})


@bare
@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
def test_loo_is_leaving_out(beta):
    """Against a posterior on a grid that is computed anew without the observation."""
    x = np.random.default_rng(1).normal(size=12)
    w = np.linspace(-4, 4, 801)
    ll = normal_log_likelihood(x, w)
    log_prior = -(w**2) / 2
    left_out = []
    for i in range(12):
        rest = log_prior + beta * np.delete(ll, i, axis=1).sum(axis=1)
        left_out.append(float(np.logaddexp.reduce(rest)) - float(np.logaddexp.reduce(ll[:, i] + rest)))
    found = criteria(ll, beta, log_prior + beta * ll.sum(axis=1))
    np.testing.assert_allclose(found.pointwise_loo, left_out, atol=1e-10)


@bare
def test_weights_are_as_good_as_draws():
    """Repeating a draw is giving it more weight; a draw of weight zero does not count."""
    w, x = draws_and_data(draws=60)
    ll = normal_log_likelihood(x, w)
    counts = np.arange(60) % 3
    repeated = criteria(np.repeat(ll, counts, axis=0), 0.7)
    with np.errstate(divide="ignore"):
        weighted = criteria(ll, 0.7, np.log(counts) + 5.0)
    for name in ("bayes_training_loss", "gibbs_training_loss", "functional_variance", "waic", "loo"):
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), abs=1e-12)


@bare
def test_closed_forms_of_a_normal_mean():
    """With w ~ N(m, s²): −log E p is that of N(m, 1+s²); Var of (x−w)²/2 is s⁴/2 + (x−m)²s²."""
    n = 25
    x = np.random.default_rng(2).normal(size=n)
    m, s2 = x.mean(), 1 / n
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    found = criteria(normal_log_likelihood(x, m + np.sqrt(s2) * nodes), log_weights=np.log(weights))
    bayes = np.mean((x - m) ** 2 / (1 + s2) / 2 + np.log(2 * np.pi * (1 + s2)) / 2)
    assert found.bayes_training_loss == pytest.approx(bayes, abs=1e-12)
    assert found.functional_variance == pytest.approx(np.sum(s2**2 / 2 + (x - m) ** 2 * s2), abs=1e-12)
    assert found.gibbs_training_loss == pytest.approx(np.mean((x - m) ** 2 + s2) / 2 + np.log(2 * np.pi) / 2, abs=1e-12)
    assert found.waic == pytest.approx(bayes + found.functional_variance / n, abs=1e-12)


@bare
def test_losses_on_new_data():
    w, x = draws_and_data()
    ll = normal_log_likelihood(x, w)
    bayes, gibbs = new_data_losses(ll)
    found = criteria(ll)
    assert (bayes, gibbs) == pytest.approx((found.bayes_training_loss, found.gibbs_training_loss))


@bare
def test_few_draws_are_refused_and_heavy_tails_warned_of():
    w, x = draws_and_data(draws=20)
    few = criteria(normal_log_likelihood(x, w))
    assert few.status is Status.REFUSED
    assert np.isnan(few.psis_loo)
    assert "use at least 25" in few.reasons[0]
    w, x = draws_and_data(n=4, draws=500)
    heavy = criteria(normal_log_likelihood(10 * x, w))
    assert heavy.status is Status.WARNING
    assert "Pareto k" in heavy.reasons[0]
    assert "WAIC" in heavy.reasons[1]
    assert Result.from_json(heavy.to_json()) == heavy
    assert "PSIS-LOO" in str(heavy)
    assert heavy.plain()["status"] == "warning"


@bare
def test_waic_of_a_large_variance_is_believed_where_it_is_that_of_leaving_out():
    """One outlier ten standard deviations away: ℓ is normal, so that WAIC leaves out nothing, whatever its variance."""
    w = np.random.default_rng(3).normal(scale=0.1, size=4000)
    outlier = criteria(normal_log_likelihood(np.array([0.0, 0.5, 10.0]), w))
    assert outlier.status is Status.OK
    assert outlier.waic == pytest.approx(outlier.psis_loo, abs=0.1 * outlier.error)
    few = criteria(normal_log_likelihood(np.array([0.0, 0.5]), w[:20]))
    assert few.waic_status is few.loo_status is Status.REFUSED


@bare
def test_waic_is_not_believed_where_leaving_out_differs():
    """ℓ = c − Σ w² over five normals of variance v: LOO is −c − 5/2 log(1 − 2v); WAIC stops at the second cumulant."""
    v, rng = 0.2, np.random.default_rng(3)
    squares = (v * rng.normal(size=(4000, 40, 5)) ** 2).sum(axis=2)
    constants = 0.1 * rng.normal(size=40)
    skewed = criteria(constants - squares)
    assert (skewed.waic_status, skewed.loo_status, skewed.status) == (Status.WARNING, Status.OK, Status.WARNING)
    assert "WAIC is unreliable" in skewed.waic_reasons[0]
    assert skewed.loo_reasons == ()
    assert (skewed.plain()["waic_status"], skewed.plain()["loo_status"]) == ("warning", "ok")
    exact = -constants.mean() - 5 / 2 * np.log(1 - 2 * v)
    assert abs(skewed.psis_loo - exact) < 2 * skewed.loo_draw_error
    assert exact - skewed.waic > 4 * skewed.loo_draw_error


def distances_of_left_out_losses(problems):
    """The leave-one-out loss of linear regressions minus the expected loss, in our errors and in s/√n."""
    ours, plain = [], []
    for seed in range(problems):
        rng = np.random.default_rng([seed, 17])
        n, inputs = int(rng.integers(20, 120)), int(rng.integers(1, 9))
        x, weights = rng.normal(size=(n, inputs)), rng.normal(size=inputs)
        y = x @ weights + rng.normal(size=n)
        covariance = np.linalg.inv(x.T @ x + np.eye(inputs))
        mean = covariance @ x.T @ y
        leverage = np.einsum("ij,jk,ik->i", x, covariance, x)
        variance = 1 / (1 - leverage)  # of an observation that was left out
        losses = ((y - x @ mean) * variance) ** 2 / variance / 2 + np.log(variance) / 2
        new = rng.normal(size=(4000, inputs))
        variance = 1 + np.einsum("ij,jk,ik->i", new, covariance, new)
        truth = (1 + (new @ (weights - mean)) ** 2) / variance / 2 + np.log(variance) / 2
        gap = losses.mean() - truth.mean()
        ours.append(gap / skewed_error(losses, leverage.sum()))
        plain.append(gap / pointwise_error(losses))
    return np.abs(ours), np.abs(plain)


@bare
def test_two_errors_hold_the_loss_on_new_data_and_two_plain_ones_do_not():
    ours, plain = distances_of_left_out_losses(1000)
    chance = 3 * (0.95 * 0.05 / 1000) ** 0.5
    assert np.mean(ours < 2) > 0.95 - chance > np.mean(plain < 2)
    assert np.sqrt(np.mean(ours**2)) > 0.8  # an error that is too large holds, too


def losses_of_pareto_weights(k, draws, repeats):
    """Distances of LOO from log E r, r = u^{−k}, in our errors over draws, and in those of a mean with a variance."""
    ours, textbook = [], []
    for repeat in range(repeats):
        r = np.random.default_rng([repeat, draws]).random((draws, 1)) ** -k
        even = np.full(draws, -np.log(draws))
        left = left_out(-np.log(r), 1.0, even, 1.0, fewest_draws=25, infinite=0.5)
        gap = left.losses[0] + np.log(1 - k)
        ours.append(gap / left.error)
        textbook.append(gap / (r.std() / r.mean() / draws**0.5))
    return np.abs(ours), np.abs(textbook)


@bare
@pytest.mark.parametrize(("k", "repeats"), [(0.2, 300), (0.4, 300), (0.6, 300)])
def test_the_error_over_draws_holds_for_tails_of_known_shape(k, repeats):
    ours, _ = losses_of_pareto_weights(k, 1000, repeats)
    assert np.mean(ours < 2) > 0.95 - 3 * (0.95 * 0.05 / repeats) ** 0.5
    assert np.sqrt(np.mean(ours**2)) > 0.7


@bare
def test_the_textbook_error_of_a_mean_does_not_hold_for_heavy_tails():
    _, textbook = losses_of_pareto_weights(0.6, 1000, 300)
    assert np.mean(textbook < 2) < 0.95 - 3 * (0.95 * 0.05 / 300) ** 0.5


@bare
def test_the_error_over_draws_is_that_of_a_chain():
    """An autoregressive chain with τ = (1 + ρ)/(1 − ρ) has √τ times the error of as many independent draws."""
    rho, rng = 0.8, np.random.default_rng(5)
    noise = rng.normal(size=(16000, 20)) * (1 - rho**2) ** 0.5
    chain = np.zeros_like(noise)
    for t in range(1, len(noise)):
        chain[t] = rho * chain[t - 1] + noise[t]
    slow, fast = criteria(0.1 * chain).loo_draw_error, criteria(0.1 * rng.permuted(chain, axis=0)).loo_draw_error
    # each of the two is uncertain by 1/√30
    assert slow / fast == pytest.approx(((1 + rho) / (1 - rho)) ** 0.5, rel=3 * (2 / 30) ** 0.5)
    assert np.isnan(criteria(0.1 * chain[:500], log_weights=np.linspace(0, 1, 500)).loo_draw_error)


@bare
def test_a_likelihood_that_does_not_move_needs_no_smoothing_and_a_chain_that_is_stuck_is_heavy():
    constant = criteria(np.full((50, 3), -1.5))
    assert constant.status is Status.OK
    assert constant.psis_loo == pytest.approx(1.5)
    stuck = np.linspace(-2, -1, 50)[:, None] * np.ones(3)
    stuck[:30] = -5.0  # one draw, thirty times, with all the weight
    assert criteria(stuck).status is Status.WARNING


@bare
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: criteria(np.zeros(5)), "give shape"),
        (lambda: criteria(np.zeros((1, 5))), "too few"),
        (lambda: criteria(np.full((30, 5), np.nan)), "NaN"),
        (lambda: criteria(np.full((30, 5), -np.inf)), "−∞ at some draw"),
        (lambda: criteria("draws.npy"), "is a str"),  # pyright: ignore[reportArgumentType] - what is tested,
        (lambda: criteria(np.zeros((30, 5)), beta=0.0), "beta is 0"),
        (lambda: criteria(np.zeros((30, 5)), beta=float("inf")), "beta is inf"),
        (lambda: criteria(np.zeros((30, 5)), log_weights=np.zeros(5)), "log_weights"),
        (lambda: criteria(np.zeros((30, 5)), log_weights=np.full(30, -np.inf)), "log_weights"),
    ],
)
def test_bad_input_is_one_line(call, message):
    with pytest.raises(BadInput, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
