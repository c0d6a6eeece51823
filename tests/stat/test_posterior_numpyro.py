"""NumPyro programs as models, and our NUTS against NumPyro's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.core.precision import float64
from phasecast.posterior import from_numpyro, linear_data, reduced_rank, tempered
from phasecast.sampling.traces import mcse

numpyro = pytest.importorskip("numpyro")
import numpyro.distributions as dist  # noqa: E402
from numpyro.infer import MCMC, NUTS, util  # noqa: E402


def factors(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1).expand([2, 2]).to_event(2))
    b = numpyro.sample("b", dist.Normal(0, 1).expand([2, 2]).to_event(2))
    numpyro.sample("y", dist.Normal(x @ (b @ a).T, 1).to_event(1), obs=y)


def noisy_line(x, y):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    width = numpyro.sample("width", dist.HalfNormal(1))
    top = numpyro.sample("top", dist.Uniform(0, 2 + width))  # a support that depends on another site
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(slope * x + top, width), obs=y)


@pytest.fixture(scope="module")
def line():
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    return {"x": x, "y": 0.5 * x + 0.3 + rng.normal(size=40)}


def test_prior_and_likelihood_are_those_of_the_program(line):
    """log prior + Σ log-likelihood is minus NumPyro's own potential, Jacobians included."""
    with float64():
        model = from_numpyro(noisy_line, line)
        model.check(line)
        for seed in range(3):
            params = model.init(jax.random.key(seed))
            ours = model.log_prior(params) + model.log_likelihood(params, line).sum()
            theirs = -util.potential_energy(noisy_line, (), line, params)
            assert float(ours) == pytest.approx(float(theirs), rel=1e-10)


def test_the_program_of_a_known_model_is_that_model(line):
    data = linear_data([np.eye(2)], 30, seed=1)
    with float64():
        model, ours = from_numpyro(factors, data), reduced_rank(2, 2, 2)
        params = model.init(jax.random.key(0))
        pair = (params["a"], params["b"])
        np.testing.assert_allclose(model.log_likelihood(params, data), ours.log_likelihood(pair, data), rtol=1e-10)
        assert float(model.log_prior(params)) == pytest.approx(float(ours.log_prior(pair)), rel=1e-10)


@pytest.mark.slow
def test_draws_of_init_are_draws_from_the_prior(line):
    with float64():
        model = from_numpyro(noisy_line, line)
        slopes = jax.vmap(lambda key: model.init(key)["slope"])(jax.random.split(jax.random.key(0), 2000))
        assert abs(float(slopes.mean())) < 4 / np.sqrt(2000)
        assert float(slopes.std()) == pytest.approx(1, abs=0.07)


def test_programs_that_cannot_be_tempered_are_bad_input(line):
    def silent(x, y):
        numpyro.sample("slope", dist.Normal(0, 1))

    def discrete(x, y):
        coin = numpyro.sample("coin", dist.Bernoulli(0.5))
        numpyro.sample("y", dist.Normal(coin * x, 1), obs=y)

    def one_number(x, y):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        numpyro.factor("all", -((y - slope * x) ** 2).sum())

    def flat(x, y):
        slope = numpyro.sample("slope", dist.ImproperUniform(dist.constraints.real, (), ()))
        numpyro.sample("y", dist.Normal(slope * x, 1), obs=y)

    with pytest.raises(BadInput, match="can be normalised"):
        from_numpyro(flat, line)
    with pytest.raises(BadInput, match="given: z, y"):
        from_numpyro(noisy_line, {"z": line["x"], "y": line["y"]})
    with pytest.raises(BadInput, match="the program is a int"):
        from_numpyro(3, line)  # pyright: ignore[reportArgumentType] - what is tested
    with pytest.raises(BadInput, match="'all' has a log-likelihood of shape"):
        from_numpyro(one_number, line).check(line)
    with pytest.raises(BadInput, match="observes nothing"):
        from_numpyro(silent, line)
    with pytest.raises(BadInput, match="'coin' is discrete"):
        from_numpyro(discrete, line)
    with pytest.raises(BadInput, match="give a dict"):
        from_numpyro(noisy_line, (line["x"], line["y"]))  # pyright: ignore[reportArgumentType] - what is tested


@pytest.mark.slow
def test_our_nuts_and_that_of_numpyro_agree_within_their_errors():
    data = linear_data([np.ones((2, 2))], 100, seed=2)
    tree = tempered(from_numpyro(factors, data), data, [0.8, 1.0], draws=2000, warmup=500, thin=1, seed=3)
    with float64():
        settings = {"num_chains": 4, "chain_method": "vectorized", "progress_bar": False}
        mcmc = MCMC(NUTS(factors), num_warmup=500, num_samples=2000, **settings)
        mcmc.run(jax.random.key(0), **{name: jnp.asarray(value) for name, value in data.items()})
        theirs = {name: np.asarray(value) for name, value in mcmc.get_samples(group_by_chain=True).items()}
    warmer, ours = ({name: np.asarray(tree[f"posterior/{name}"])[0, at] for name in ("a", "b")} for at in (0, 1))

    def seen(draws):
        product = draws["b"] @ draws["a"]
        loss = np.sum((data["y"] - np.einsum("nj,cdij->cdni", data["x"], product)) ** 2, axis=(-1, -2)) / 2
        return {"nL": loss, "size": np.sum(draws["a"] ** 2, axis=(-1, -2)), "entry": product[..., 0, 1]}

    def apart(draws):
        pairs = [(seen(draws)[name], seen(theirs)[name]) for name in ("nL", "size", "entry")]
        return [abs(one.mean() - other.mean()) / np.hypot(mcse(one.T), mcse(other.T)) for one, other in pairs]

    assert max(apart(ours)) < 4
    assert max(apart(warmer)) > 4  # a posterior that is a little warmer would be seen


def test_programs_after_one_another_do_not_share_a_precision():
    def coin(x, y=None):
        side = numpyro.sample("side", dist.Bernoulli(0.5))
        numpyro.sample("y", dist.Normal(side * x, 1), obs=y)

    def line(x, y=None):
        numpyro.sample("y", dist.Normal(numpyro.sample("slope", dist.Normal(0, 1)) * x, 1), obs=y)

    x = np.linspace(-1.0, 1.0, 40)
    tempered(from_numpyro(line, {"x": x, "y": x}), {"x": x, "y": x}, [0.3], draws=40, warmup=40, chains=2)
    with pytest.raises(BadInput, match="'side' is discrete"):
        from_numpyro(coin, {"x": x, "y": x})
