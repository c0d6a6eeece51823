"""Susceptibilities, influences and ν from the chains of λ̂, against Gaussian closed forms and against sampling again."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import phasecast as pc
from phasecast.coefficients.llc.studies import observables
from phasecast.coefficients.llc.studies.observables import POLICY
from phasecast.core import Measurement, Status
from phasecast.core.errors import BadInput
from phasecast.sampling.backends.protocol import stream
from phasecast.sampling.traces import mcse

RNG = np.random.default_rng(0)
ROWS, INPUTS, NBETA, GAMMA = 60, 3, 30.0, 2.0
QUIETLY = {"seconds": None, "progress": False}  # a busy machine must not decide
X = RNG.normal(size=(ROWS, INPUTS))
Y = X @ np.arange(INPUTS) + RNG.normal(size=ROWS)
BEST = np.linalg.lstsq(X, Y, rcond=None)[0]
RESIDUALS = Y - X @ BEST
HESSIAN = X.T @ X / ROWS
PRECISION = NBETA * HESSIAN + GAMMA * np.eye(INPUTS)
SPREADS = X @ np.linalg.inv(PRECISION) @ X.T  # of x·(w − w*)
COVARIANCES = np.outer(RESIDUALS, RESIDUALS) * SPREADS + SPREADS**2 / 2  # of (r − x·u)²/2 with Gaussian u
SOME = np.arange(0, ROWS, 6)


def row_losses(w, data):
    return (data[1] - data[0] @ w) ** 2 / 2


@pytest.fixture(scope="module")
def regression():
    def loss(w, data):
        return row_losses(w, data).mean()

    return pc.llc(loss, BEST, (X, Y), nbeta=NBETA, gamma=GAMMA, target=0.05, chains=8, **QUIETLY)


def expected_losses(precision, shift):
    """E[ℓ] of each row for Gaussian w of this precision, its mean shifted so that precision·(mean − w*) = shift."""
    covariance = np.linalg.inv(precision)
    return ((RESIDUALS - X @ covariance @ shift) ** 2 + np.einsum("id,de,ie->i", X, covariance, X)) / 2


@pytest.mark.parametrize("row", [0, 7])
def test_minus_the_covariance_is_the_response_to_the_weight_of_a_row(row):
    """The definition itself, without sampling: exp(−ε ℓ_row) more weight makes another Gaussian."""

    def with_weight(weight):
        x = X[row]
        return expected_losses(PRECISION + weight * np.outer(x, x), weight * RESIDUALS[row] * x)

    step = 1e-4
    response = (with_weight(step) - with_weight(-step)) / (2 * step)
    np.testing.assert_allclose(response, -COVARIANCES[row], rtol=1e-6, atol=1e-9)


def test_minus_nbeta_times_the_covariance_is_the_response_to_a_perturbed_loss():
    def hotter(h):  # L + hL
        return expected_losses(NBETA * (1 + h) * HESSIAN + GAMMA * np.eye(INPUTS), np.zeros(INPUTS))

    step = 1e-4
    response = (hotter(step) - hotter(-step)) / (2 * step)
    np.testing.assert_allclose(response, -NBETA * COVARIANCES.mean(axis=0), rtol=1e-6, atol=1e-9)


def test_influences_are_those_of_the_gaussian(regression):
    found = regression.influence(SOME, row_losses)
    assert found.status is Status.OK
    exact = -COVARIANCES[np.ix_(SOME, SOME)]
    distance = (found.value - exact) / found.error
    assert np.abs(distance).max() < 4
    assert 0.4 < distance.std() < 1.6  # errors are neither too wide nor too narrow; entries share their draws
    assert np.abs((found.on_all + COVARIANCES[SOME].mean(axis=1)) / found.on_all_error).max() < 4
    wrong = (found.value - np.roll(exact, 1, axis=0)) / found.error
    assert np.all(np.abs(wrong).max(axis=1) > 6)  # the influence of another row is told apart, for every row
    assert Measurement.from_json(found.to_json()) == found


def test_susceptibilities_are_those_of_the_gaussian(regression):
    covariance = np.linalg.inv(PRECISION)
    found = regression.susceptibility(
        {
            "loss": row_losses,
            "third row": (row_losses, [3]),
            "weight": lambda w, data: w[0],
            "square": lambda w, data: (w[0] - BEST[0]) ** 2,
        }
    )
    exact = -NBETA * np.array(
        [COVARIANCES.mean(), COVARIANCES[3].mean(), 0.0, (covariance @ HESSIAN @ covariance)[0, 0]]
    )
    assert found.status is Status.OK
    assert np.all(np.abs(found.value - exact) < 4 * found.error)
    assert np.all(
        np.abs(exact[[0, 1, 3]]) > 6 * np.asarray(found.error)[[0, 1, 3]]
    )  # none of them is mistaken for zero
    assert "third row" in str(found)
    to_row = regression.susceptibility((row_losses, [3]), (row_losses, [7]))
    assert abs(float(to_row) + NBETA * COVARIANCES[3, 7]) < 4 * to_row.error
    assert abs(float(to_row) + NBETA * COVARIANCES[3].min()) > 6 * to_row.error  # the row that is furthest from it


def test_the_fluctuation_and_waic_are_those_of_the_gaussian(regression):
    found = regression.fluctuation(row_losses)
    beta, own = NBETA / ROWS, np.diag(SPREADS)
    variance = np.trace(COVARIANCES)
    bayes = np.mean(np.log1p(own) / 2 + RESIDUALS**2 / (2 * (1 + own)))
    assert found.status is Status.OK
    assert found.beta == beta
    assert abs(found.value - beta / 2 * variance) < 4 * found.error < 0.2 * found.value
    assert abs(found.value - variance / 2) > 6 * found.error  # without β it would be another number
    assert abs(found.waic.estimate - bayes - beta * variance / ROWS) < 4 * found.waic.error
    assert abs(found.waic.estimate - bayes + beta * variance / ROWS) > 6 * found.waic.error  # a minus is told apart
    assert Measurement.from_json(found.to_json()) == found


def test_in_a_regular_model_with_many_rows_nu_is_half_the_number_of_parameters():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3000, 4))
    y = rng.normal(size=3000)
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    result = pc.llc(
        lambda w, d: row_losses(w, d).mean(), best, (x, y), nbeta=3000.0, gamma=1.0, target=0.1, chains=8, **QUIETLY
    )
    found = result.fluctuation(row_losses)
    # over data sets 2ν is the mean of n terms r²h with r standard normal and h chi-squared of d = 4 degrees of freedom
    spread = np.sqrt((3 * (4**2 + 2 * 4) - 4**2) / 3000) / 2
    assert abs(found.value - 2) < 4 * np.hypot(found.error, spread)
    assert abs(found.value - 1.5) > 4 * np.hypot(found.error, spread)  # three parameters would be told apart


def test_rows_in_several_parts_give_the_same_numbers(regression):
    whole = observables.fluctuation(regression, row_losses, draws=40, thin=5)
    small = replace(POLICY, memory=3 * 8 * 32 * 25)  # 25 rows at once
    parts = observables.fluctuation(regression, row_losses, draws=40, thin=5, policy=small)
    assert parts.estimate == pytest.approx(whole.estimate, rel=1e-12)
    assert parts.error == pytest.approx(whole.error, rel=1e-9)
    assert parts.waic.estimate == pytest.approx(whole.waic.estimate, rel=1e-12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda r: r.influence([0, ROWS], row_losses), f"there is no row {ROWS}; give 0 to {ROWS - 1}"),
        (lambda r: r.influence([], row_losses), "give a list of row numbers"),
        (lambda r: r.influence([0], lambda w, data: w), f"one number for each of {ROWS} rows"),
        (lambda r: r.fluctuation(lambda w, data: 2 * row_losses(w, data)), "return the terms of the mean loss"),
        (lambda r: r.susceptibility({}), "there are no observables"),
        (lambda r: r.susceptibility(3), "an observable is a int"),
        (lambda r: r.influence([0], row_losses, draws=2), "draws is 2"),
        (lambda r: r.influence(np.zeros(6000, dtype=int), row_losses), "take 1099 MB; ask for fewer, below 64 MB"),
        (lambda r: pc.LLC.from_json(r.to_json()).fluctuation(row_losses), "this result came from a file"),
    ],
)
def test_what_cannot_be_asked_of_the_chains_is_bad_input_of_one_line(regression, call, words):
    with pytest.raises(BadInput, match=words) as caught:
        call(regression)
    assert "\n" not in str(caught.value)


def test_draws_too_correlated_for_an_error_are_refused(regression):
    slow = replace(regression.chains, tuning=regression.chains.tuning._replace(step_size=1e-3, leaps=1.0))
    found = replace(regression, chains=slow).influence([0, 1], row_losses, draws=40, thin=1)
    assert found.status is Status.REFUSED
    assert "raise draws or thin" in found.reasons[0]


def test_ignored_tokens_are_not_counted(regression):
    """Two tokens per row, one of them with loss zero: as many terms as there are rows."""
    whole = regression.fluctuation(row_losses, draws=40, thin=5)
    padded = regression.fluctuation(
        lambda w, data: jnp.stack([row_losses(w, data), jnp.zeros(ROWS)], axis=1), draws=40, thin=5
    )
    assert padded.terms == whole.terms == ROWS
    assert padded.estimate == pytest.approx(whole.estimate, rel=1e-12)
    assert padded.waic.estimate == pytest.approx(whole.waic.estimate, rel=1e-12)


def test_sampling_again_with_a_reweighted_row_changes_a_network_as_its_influence_says():
    rng = np.random.default_rng(4)
    x = np.linspace(-2, 2, 40)
    data = (x, np.sin(2 * x) + 0.3 * rng.normal(size=40))

    def of_rows(params, data):
        a, b, c = params["w"]
        return (a @ jnp.tanh(jnp.outer(b, data[0]) + c[:, None]) - data[1]) ** 2 / 2

    def loss(params, data):
        return (of_rows(params, data) * params["weights"]).sum()

    def params(w, weights):
        return {"w": np.reshape(w, (3, 3)), "weights": weights}

    even = np.full(40, 1 / 40)
    both = jax.jit(jax.value_and_grad(lambda w: loss(params(w, even), data)))
    best = minimize(lambda w: [np.asarray(one, float) for one in both(w)], rng.normal(size=9), jac=True).x
    result = pc.llc(
        loss, params(best, even), data, only="w", nbeta=40.0, gamma=20.0, sampler="hmc", chains=8, **QUIETLY
    )
    row, others, step = 39, np.array([3, 20, 30, 37, 38, 39]), 1.0
    found = result.influence([int(one) for one in others], of_rows)
    chains = result.chains
    assert chains is not None

    def losses(weight):
        """ℓ of the rows at draws with exp(−weight ℓ_row) more."""
        weights = even + weight / result.nbeta * (np.arange(40) == row)
        backend = chains.backend.moved_to(params(best, weights))
        key = stream(backend, backend.key(1), "again")
        state = backend.init(chains.kernel, chains.state["position"], chains.tuning, key)
        series = []
        for number in range(220):
            state, _ = backend.run(chains.kernel, state, chains.tuning, backend.fold(key, number), 5)
            series.append(backend.of_rows(of_rows, state["position"])[:, others])
        return np.array(series[20:])

    more, less = losses(step), losses(-step)
    response = (more.mean(axis=(0, 1)) - less.mean(axis=(0, 1))) / (2 * step)
    errors = np.array([np.hypot(mcse(more[..., j]), mcse(less[..., j])) / (2 * step) for j in range(len(others))])
    said, error = np.asarray(found.estimate)[-1], np.asarray(found.error)[-1]
    cubic = 0.1 * np.abs(said)  # a finite step: the next term of a central difference, of order (ε s)² with s ≈ 0.2
    distance = (response - said) / np.sqrt(errors**2 + error**2 + cubic**2)
    assert np.abs(distance).max() < 4
    other_row = np.asarray(found.estimate)[0]
    wrong = (response - other_row) / np.sqrt(errors**2 + np.asarray(found.error)[0] ** 2 + cubic**2)
    assert np.abs(wrong).max() > 6


def test_a_torch_module_has_the_same_influences_and_fluctuation():
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(INPUTS, 1, bias=False).double()
    module.load_state_dict({"weight": torch.as_tensor(BEST)[None]})
    data = tuple(torch.as_tensor(part) for part in (X, Y[:, None]))

    def of_rows(outputs, targets):
        return (outputs - targets)[:, 0] ** 2 / 2

    result = pc.torch.llc(
        module, data, lambda *at: of_rows(*at).mean(), nbeta=NBETA, gamma=GAMMA, target=0.2, chains=8, **QUIETLY
    )
    found = result.influence(SOME.tolist(), of_rows, draws=100, thin=5)
    estimate, error = np.asarray(found.estimate), np.asarray(found.error)
    assert np.abs((estimate + COVARIANCES[np.ix_(SOME, SOME)]) / error).max() < 4
    assert np.abs(estimate.diagonal() / error.diagonal()).min() > 4
    nu = result.fluctuation(of_rows, draws=100, thin=5)
    assert abs(nu.estimate - NBETA / ROWS / 2 * np.trace(COVARIANCES)) < 4 * nu.error < 0.4 * nu.estimate
    chi = result.susceptibility((of_rows, [3]), draws=100, thin=5)
    assert abs(chi.estimate + NBETA * COVARIANCES[3].mean()) < 4 * chi.error
