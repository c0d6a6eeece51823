"""What rlct says about traces that are good, and about each way in which they can be bad."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from phasecast.core import Status
from phasecast.core.errors import BadInput
from phasecast.core.results import Result
from phasecast.posterior import Model, exact, linear, linear_data, monomial, rlct, tempered
from phasecast.posterior.limit import LocalShape
from phasecast.posterior.rlct import around, covariance_of_means, estimates, gls_slope, judge_rlct
from phasecast.posterior.rlct_policy import POLICY
from phasecast.posterior.tempered import check_betas

pytestmark = pytest.mark.bare
BETAS = around(1000)
EVERY = np.ones(5, bool)


def made(live: float = 3.0, size: int = 6) -> Model:
    """A model that is only asked for its size and its live units."""
    return Model(
        lambda w, y: -((y - w[0]) ** 2) / 2,
        lambda w: -(w**2).sum() / 2,
        lambda key: jax.random.normal(key, (size,)),
        live_units=lambda w, y: live + 0 * w[0],
        name="made up",
    )


def traces(
    coefficient: float | np.ndarray = 1.5, *, chains=4, draws=2000, best=0.0, divergent=0.0, seed=0
) -> xr.DataTree:
    """nL = Gamma(λ)/β, so that E = λ/β and β²Var = λ exactly; λ may depend on β."""
    rng = np.random.default_rng(seed)
    shapes = np.broadcast_to(coefficient, (5,))
    losses = np.stack([rng.gamma(k, 1 / b, size=(chains, draws)) for k, b in zip(shapes, BETAS, strict=True)])[None]
    dims = ("dataset", "beta", "chain")
    stats = xr.Dataset(
        {
            "nL": ((*dims, "draw"), losses),
            "divergent": (dims, np.full((1, 5, chains), divergent)),
            "acceptance": (dims, np.ones((1, 5, chains))),
            "swapped": (dims, np.ones((1, 5, chains))),
            "best": (("dataset",), np.array([best])),
        },
        coords={"beta": BETAS, "start": ("chain", np.array(["prior", "truth"] * (chains // 2)))},
        attrs={"sampler": "gibbs"},
    )
    places = xr.Dataset({"w": ((*dims, "draw", "w_dim_0"), np.zeros((1, 5, chains, 3, 6)))})
    return xr.DataTree.from_dict({"sample_stats": stats, "posterior": places})


REGULAR = LocalShape(3, np.ones(3), gaussian=1.5, slope=0.0)
"""Three of the six directions are identified and seen, the others are exact symmetries."""


def found(tree: xr.DataTree, shape: LocalShape | None = None, **model):
    return judge_rlct(made(**model), [np.zeros(1000)], tree, EVERY, shape=shape)


def test_good_traces_give_lambda_within_its_error():
    result = found(traces(), REGULAR)
    assert result.status is Status.OK
    assert abs(result.value - 1.5) < 4 * result.error < 0.4
    assert abs(result.slope - 1.5) < 4 * result.slope_error
    assert result.excess == pytest.approx(1.5, rel=0.1)
    assert Result.from_json(result.to_json()) == result
    assert "β² Var[nL]" in str(result)
    assert len(result.figure().axes) == len(result.plot().axes) == 2
    with pytest.raises(BadInput, match="without its draws"):
        result.datatree()


def disagreeing() -> xr.DataTree:
    tree = traces()
    np.asarray(tree["sample_stats/nL"])[:, :, 0] += 2.0  # in place
    return tree


def two_phases() -> xr.DataTree:
    tree = traces()
    np.asarray(tree["sample_stats/nL"])[:, :, ::2] *= 1.1  # in place
    return tree


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        (disagreeing(), "R-hat"),
        (two_phases(), "from the prior and from the truth disagree"),
        (traces(draws=60), "effective draws"),
        (traces(divergent=0.002), "of the steps diverge"),
        (traces(np.array([1.0, 1.2, 1.4, 1.6, 1.8]), draws=8000), "over the grid"),
        (traces(4.0), "above d/2 = 3"),
        (traces(np.array([np.nan] * 5)), "the chains are lost"),
    ],
    ids=["rhat", "starts", "ess", "divergences", "varies", "above", "nan"],
)
def test_each_way_to_be_bad_is_refused_with_its_reason(tree, reason):
    result = found(tree)
    assert result.status is Status.REFUSED
    assert any(reason in words for words in result.reasons)
    assert all(";" in words or ":" in words for words in result.reasons)  # each says what to do


def test_dead_units_far_above_the_truth_are_the_constant_submodel():
    result = found(traces(0.5, best=-40.0), live=0.05)
    assert result.status is Status.WARNING
    assert "the posterior sits in the constant submodel (live units 0.05" in result.reasons[0]
    assert "in another phase" in found(traces(0.5, best=-40.0), live=3.0).reasons[0]
    half = LocalShape(1, np.ones(1), gaussian=0.5, slope=0.0)
    assert found(traces(0.5, best=0.0), half, live=0.05).status is Status.OK  # a constant that is the truth


def test_a_curve_that_still_moves_is_not_ok():
    """λ(β) rises by 15% over the grid, which is no reason to refuse, but the limit is far: 0.27 λ̂ for a power ½."""
    result = found(traces(np.array([1.38, 1.45, 1.5, 1.55, 1.59]), draws=16000))
    assert result.status is Status.WARNING
    assert "λ(β) still rises by" in result.reasons[0]
    expected = np.polyfit(np.log(BETAS), [1.38, 1.45, 1.5, 1.55, 1.59], 1)[0]
    assert abs(result.trend - expected) < 4 * result.trend_error
    assert result.error > result.distance > 2 * result.trend > 0.2 * result.value


def test_a_trend_that_could_not_be_seen_is_not_ok():
    result = found(traces(draws=500, coefficient=0.25))
    assert result.status is Status.WARNING
    assert "too uncertain" in result.reasons[0]


def test_a_flat_curve_with_directions_left_to_the_prior_is_not_ok():
    shape = LocalShape(5, np.array([0.01, 0.02, 0.98, 0.99, 0.99]), gaussian=1.49, slope=0.0)
    result = found(traces(), shape)
    assert result.status is Status.WARNING
    assert result.reasons == (
        "2 of 6 directions are left to the prior at this n (data share of the curvature 0.01; Σ s/2 = 1.5 of 2.5): use "
        "more data, or read λ̂ as that of this n",
    )
    assert abs(result.value - 5 / 2) < 2 * result.error  # λ for n → ∞


def test_one_data_set_of_a_singular_model_does_not_know_the_others():
    """A Gaussian that does not explain λ̂ is no witness: the error is that of other data too."""
    elsewhere = found(traces(), REGULAR._replace(gaussian=2.5))
    assert elsewhere.error_kind == "datasets"
    assert elsewhere.other_data == pytest.approx(np.sqrt(elsewhere.variance * BETAS[2] / 2) / 2)
    assert elsewhere.error > elsewhere.other_data > 3 * elsewhere.variance_error
    assert found(traces(), REGULAR).error_kind == "mcse"
    assert found(traces(), REGULAR).error == pytest.approx(found(traces(), REGULAR).variance_error)


def test_generalised_least_squares_knows_its_error_and_needs_the_right_covariance():
    """Means at different β that share noise, as those of walkers that exchange places, and one that is noisier."""
    rng = np.random.default_rng(1)
    x, right, wrong, plain = 1 / BETAS, [], [], []
    own = np.array([3.0, 0.3, 0.3, 0.3, 0.3])[:, None, None]
    for _ in range(300):
        shared = rng.normal(size=(1, 4, 640))
        losses = 2.0 * x[:, None, None] + (own * rng.normal(size=(5, 4, 640)) + shared) * x[:, None, None]
        covariance = covariance_of_means(losses)
        means = losses.mean(axis=(1, 2))
        slope, error = gls_slope(x, means, covariance)
        right.append((slope - 2) / error)
        slope_wrong, error_wrong = gls_slope(x, means, np.diag(np.diag(covariance)))
        wrong.append((slope_wrong - 2) / error_wrong)
        plain.append((slope, np.polyfit(x, means, 1)[0]))
    assert np.std(right) == pytest.approx(1, abs=0.15)
    assert np.std(wrong) != pytest.approx(1, abs=0.15)
    assert np.std(np.array(plain)[:, 0]) < 0.9 * np.std(np.array(plain)[:, 1])  # ordinary least squares


def test_the_variance_is_less_noisy_than_the_slope():
    pairs = [estimates(np.asarray(traces(seed=seed)["sample_stats/nL"])[0], BETAS, EVERY) for seed in range(60)]
    values = np.array([(one.variance, one.slope) for one in pairs])
    errors = np.array([(one.variance_error, one.slope_error) for one in pairs])
    assert np.all(values.std(axis=0) / errors.mean(axis=0) == pytest.approx(1, abs=0.3))
    assert np.std(values[:, 0]) < np.std(values[:, 1])


@pytest.mark.parametrize("betas", [[0.2, 0.1], [0.0, 0.1], [-1.0], [np.nan], [[0.1]], [], "warm", [0.1, 0.1]])
def test_betas_are_positive_and_increase(betas):
    with pytest.raises(BadInput, match="positive numbers that increase"):
        check_betas(betas)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"sampler": "hmc"}, "unknown sampler"),
        ({"draws": 3}, "draws is 3"),
        ({"draws": 50, "thin": 7}, "not a multiple"),
        ({"chains": 0}, "chains is 0"),
        ({"warmup": 5, "sampler": "nuts"}, "cannot adapt"),
    ],
)
def test_bad_settings_of_tempered_are_bad_input(change, complaint):
    with pytest.raises(BadInput, match=complaint):
        tempered(linear(2), linear_data([[[1.0, 0.0]]], 20, seed=0), [1.0], **change)


def test_bad_models_and_data_are_bad_input():
    data = linear_data([[[1.0, 0.0]]], 20, seed=0)
    with pytest.raises(BadInput, match="no Gibbs update"):
        tempered(made(), np.zeros(20), [1.0], sampler="gibbs")
    with pytest.raises(BadInput, match="differ in size"):
        rlct(linear(2), [data, linear_data([[[1.0, 0.0]]], 21, seed=0)])
    with pytest.raises(BadInput, match="rows"):
        rlct(linear(2), {"x": data["x"], "y": data["y"][:5]})
    with pytest.raises(BadInput, match="too small"):
        rlct(linear(2), linear_data([[[1.0, 0.0]]], 5, seed=0))
    with pytest.raises(BadInput, match="unknown method"):
        rlct(linear(2), data, method="guess")  # pyright: ignore[reportArgumentType] - what is tested
    with pytest.raises(BadInput, match="not a function"):
        Model(3, jnp.sum, lambda key: 0.0)  # pyright: ignore[reportArgumentType] - what is tested
    with pytest.raises(BadInput, match="belong together"):
        Model(lambda w, y: y, jnp.sum, lambda key: 0.0, loss=lambda w, y: y)
    with pytest.raises(BadInput, match="log prior at a draw"):
        Model(lambda w, y: -((y - w) ** 2), lambda w: w * np.nan, jax.random.normal).check(np.zeros(20))
    with pytest.raises(BadInput, match="not a number at a draw"):
        Model(lambda w, y: y * w * np.nan, lambda w: -(w**2), jax.random.normal).check(np.zeros(20))
    with pytest.raises(BadInput, match="init raised"):
        Model(lambda w, y: -((y - w) ** 2), lambda w: -(w**2), lambda key: key["w"]).check(np.zeros(20))
    with pytest.raises(BadInput, match="not finite"):
        exact(Model(lambda w, y: -((y - w) ** 2), lambda w: -(w**2), jax.random.normal), np.full(20, np.nan), [1.0])


GIBBS = {
    "another shape": (lambda key, w, y, beta: jnp.zeros(3), r"returns shape \(3,\).*like those of init"),
    "another tree": (lambda key, w, y, beta: {"w": w}, "returns another tree"),
    "integers": (lambda key, w, y, beta: jnp.zeros(2, int), "not real"),
    "nothing": (lambda key, w, y, beta: None, "returns another tree"),
    "raises": (lambda key, w, y, beta: w["w"], r"the Gibbs update raised .*test_rlct_refusals.py, line"),
    "exits": (lambda key, w, y, beta: exit(3), "the Gibbs update raised SystemExit"),
    "if": (lambda key, w, y, beta: w if w[0] > 0 else -w, "the Gibbs update raised TracerBool"),
}


@pytest.mark.parametrize("name", GIBBS)
def test_a_gibbs_update_that_does_not_return_parameters_is_one_line(name):
    update, words = GIBBS[name]

    def model(gibbs):
        return Model(
            lambda w, y: -((y - w[0]) ** 2) / 2,
            lambda w: -(w**2).sum() / 2,
            lambda key: jax.random.normal(key, (2,)),
            gibbs=gibbs,
        )

    with pytest.raises(BadInput, match=words) as caught:
        tempered(model(update), np.zeros(20), [1.0], draws=20)
    assert "\n" not in str(caught.value)
    model(lambda key, w, y, beta: w + 1.0).check(np.zeros(20))  # the control: parameters of the same form are taken


def test_heavy_tails_are_proper_and_a_flat_direction_is_not():
    likelihood, draw = (lambda w, y: -((y - w[0]) ** 2)), (lambda key: jax.random.normal(key, (2,)))
    Model(likelihood, lambda w: -jax.numpy.log1p(w**2).sum(), draw).check(np.zeros(20))
    with pytest.raises(BadInput, match="along parameter 1"):
        Model(likelihood, lambda w: -(w[0] ** 2), draw).check(np.zeros(20))


def test_another_policy_judges_otherwise_and_is_recorded():
    strict = dataclasses.replace(POLICY, fewest_effective=1e9)
    result = judge_rlct(made(), [np.zeros(1000)], traces(), EVERY, policy=strict)
    assert result.status is Status.REFUSED
    assert result.policy["fewest_effective"] == 1e9
    assert all(POLICY.reasons().values())


def test_what_small_objects_print():
    assert str(made()).splitlines() == [
        "made up",
        "  parameters  6",
        "  sampler     NUTS",
        "  provides    log likelihood, log prior, init, live units",
    ]
    table = exact(monomial([1]), np.zeros(10), [0.5, 1.0])
    assert str(table).splitlines()[0] == "w1^1, exact"
    assert [line.split()[2] for line in str(table).splitlines()[1:]] == ["0.5", "1"]
    assert Result.from_json(table.to_json()) == table
