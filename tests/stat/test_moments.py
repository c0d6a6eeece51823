"""Does every kernel draw from the target it says, and does its bias shrink with the step size as its theory says?

Two targets with moments in closed form. The skewed one has L = Σ (e^(sᵢuᵢ) − sᵢuᵢ − 1) and γ = 0, so that e^(sᵢuᵢ) is
Gamma distributed with shape and rate a = nβ:

    E[sᵢuᵢ] = ψ(a) − log a,   Var[sᵢuᵢ] = ψ'(a),   nβ E[L] = Σ a (log a − ψ(a)).

The Gaussian one has L = ½ uᵀHu and covariance (nβ H + γ)⁻¹.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, polygamma

from phasecast.sampling import KERNELS, Kernel, Tuning, from_blackjax
from phasecast.sampling.backends.jax import JaxBackend, jax_backend
from phasecast.sampling.traces import mcse

pytestmark = pytest.mark.usefixtures("full_optimisation")

SCALES = np.array([1.0, 1.3, 1.6])
HESSIAN = np.array([[1.0, 0.4, 0.2], [0.4, 0.8, -0.3], [0.2, -0.3, 0.6]])


class Truth(NamedTuple):
    """A target with the means of uᵢ, of uᵢ² and of nβL."""

    engine: JaxBackend
    nbeta: float
    gamma: float
    first: np.ndarray
    second: np.ndarray
    heat: float


def skewed(nbeta: float = 2.0, scales: np.ndarray = SCALES) -> Truth:
    def loss(u):
        return jnp.sum(jnp.exp(scales * u) - scales * u - 1)

    mean, variance = digamma(nbeta) - np.log(nbeta), polygamma(1, nbeta)
    engine = jax_backend(loss, jnp.zeros(len(scales)))
    return Truth(
        engine, nbeta, 0.0, mean / scales, (variance + mean**2) / scales**2, float(-nbeta * mean * len(scales))
    )


def gaussian(nbeta: float = 3.0, gamma: float = 1.0, hessian: np.ndarray = HESSIAN) -> Truth:
    covariance = np.linalg.inv(nbeta * hessian + gamma * np.eye(len(hessian)))
    engine = jax_backend(lambda u: u @ (hessian @ u) / 2, jnp.zeros(len(hessian)))
    heat = nbeta / 2 * np.trace(hessian @ covariance)
    return Truth(engine, nbeta, gamma, np.zeros(len(hessian)), np.diag(covariance), float(heat))


def own_mala() -> Kernel:
    """What a user would write to bring a kernel of blackjax."""
    import blackjax

    return from_blackjax(
        lambda logdensity, tuning, _: blackjax.mala(logdensity, tuning.step_size), name="own", adjusted=True
    )


ALL = {**KERNELS, "own": own_mala}
STEP = {
    "hmc": 0.3, "mala": 0.7, "nuts": 0.5, "own": 0.2,
    "langevin": 0.1, "mclmc": 0.2, "sgnht": 0.02, "sgld": 0.01, "rmsprop-sgld": 0.01,
}  # fmt: skip


def sampler(truth: Truth, kernel: Kernel, *, chains=64, steps=2000, thin=1):
    """A function that draws with a step size and an nβ, compiled once for all of them.

    It returns means over ``thin`` steps of uᵢ, uᵢ², nβL, |u|² and Stein's statistic, each (steps, chains), after a
    warm-up.
    """
    engine = truth.engine

    @jax.jit
    def chunk(state, tuning, key):
        def step(carry, number):
            state, _ = kernel.step(engine.ops, engine.target, carry, tuning, jax.random.fold_in(key, number))
            u = state["position"]
            seen = {"u": u, "square": u * u, "heat": truth.nbeta * state["loss"], "radius": (u * u).sum(-1)}
            stein = truth.nbeta * state["pull"] + truth.gamma * seen["radius"] - engine.size
            return state, {**seen, "stein": stein}

        def bin_of_steps(carry, number):
            carry, seen = jax.lax.scan(step, carry, number * thin + jnp.arange(thin))
            return carry, jax.tree.map(lambda x: x.mean(0), seen)

        return jax.lax.scan(bin_of_steps, state, jnp.arange(steps))

    def draw(step_size: float, nbeta: float = truth.nbeta) -> dict[str, np.ndarray]:
        tuning = Tuning(step_size, 4.0, 1.0, nbeta, truth.gamma)
        with engine.precision():
            numbers = engine._numbers(tuning)
            start = engine.array(np.zeros((chains, engine.size))) + 0.3 * engine.normal(engine.key(1), chains)
            state = engine.init(kernel, start, tuning, engine.key(2))
            state, _ = chunk(state, numbers, engine.key(3))
            _, seen = chunk(state, numbers, engine.key(4))
            return {name: np.asarray(value) for name, value in seen.items()}

    return draw


def off(series: np.ndarray, exact: float) -> tuple[float, float]:
    """How far the mean of a series is from the exact one, and the standard error of that."""
    return float(series.mean() - exact), mcse(series)


def furthest(truth: Truth, seen: dict[str, np.ndarray]) -> float:
    """The largest distance of a mean from its exact value, in standard errors."""
    pairs = [(seen["heat"], truth.heat), (seen["stein"], 0.0)]
    for i in range(truth.engine.size):
        pairs += [(seen["u"][..., i], truth.first[i]), (seen["square"][..., i], truth.second[i])]
    return max(abs(bias) / error for bias, error in (off(series, exact) for series, exact in pairs))


@pytest.mark.parametrize("target", [skewed, pytest.param(gaussian, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ALL)
def test_a_kernel_has_the_moments_of_its_target_and_not_those_of_another(name, target, monkeypatch):
    """Eight means within 4 standard errors; with 1.5 times nβ the same check must fail.

    RMSprop-SGLD is given a longer memory, without which it has a bias of its own (see below).
    """
    monkeypatch.setattr("phasecast.sampling.kernels.stochastic.MEMORY", 0.9999)
    truth, kernel = target(), ALL[name]()
    draws = sampler(truth, kernel, thin=1 if kernel.adjusted else 10, steps=1000)
    assert furthest(truth, draws(STEP[name])) < 4
    assert furthest(truth, draws(STEP[name], 1.5 * truth.nbeta)) > 4


def test_the_short_memory_of_rmsprop_leaves_a_bias_that_smaller_steps_do_not_cure():
    truth = gaussian()
    draws = sampler(truth, KERNELS["rmsprop-sgld"](), thin=10, steps=1000)
    for step_size in (0.02, 0.01):
        bias, error = off(draws(step_size)["heat"], truth.heat)
        assert bias > max(5 * error, 0.04 * truth.heat)


@pytest.mark.slow
def test_the_bias_on_a_unit_gaussian_is_the_one_of_the_discretised_equations():
    """Stationarity of the second moments gives E[u²] = 1/(1 − ε/4) for SGLD, 1 for BAOAB, 1 − εξ/2 for SGNHT, with
    ξ the mean friction, which is A(1 + O(ε)); so each order is known, and the constant too."""
    truth, size = gaussian(1.0, 0.0, np.eye(4)), 0.2
    for name, square, slack in (
        ("sgld", 1 / (1 - size / 4), 0),
        ("langevin", 1.0, 0),
        ("sgnht", 1 - size / 2, size**2 / 2),
    ):
        draws = sampler(truth, KERNELS[name](), chains=256, thin=8, steps=500)
        bias, error = off(draws(size)["radius"], 4 * square)
        assert abs(bias) < 4 * error + 4 * slack, name


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size", "order"), [("sgld", 0.1, 1), ("sgnht", 0.1, 1), ("langevin", 0.4, 2)])
def test_the_bias_on_a_skewed_target_has_the_order_of_the_method(name, size, order):
    """From Stein's statistic at ε and 2ε; at these sizes higher orders still add to the slope, so it may be steeper."""
    truth = skewed(scales=np.ones(4))
    draws = sampler(truth, KERNELS[name](), chains=256, thin=8, steps=500)
    (small, error), (large, other) = (off(draws(step)["stein"], 0.0) for step in (size, 2 * size))
    assert abs(large) > 8 * other
    assert abs(small) < abs(large) / 2**order + 4 * np.hypot(error, other / 2**order)
    if order == 1:
        slope = np.log2(large / small)
        assert abs(slope - 1) < 0.3 + 4 * error / abs(small)


@pytest.mark.parametrize("name", ["hmc", "mala", pytest.param("nuts", marks=pytest.mark.slow)])
def test_an_adjusted_kernel_has_no_bias_at_any_step_size(name):
    truth = skewed(scales=np.ones(4))
    draws = sampler(truth, ALL[name](), steps=1000)
    for factor in (0.5, 2.0):
        assert furthest(truth, draws(factor * STEP[name])) < 4


def test_steins_statistic_sees_sgld_with_ten_times_the_step():
    truth = skewed()
    draws = sampler(truth, KERNELS["sgld"](), thin=10, steps=1000)
    bias, error = off(draws(10 * STEP["sgld"])["stein"], 0.0)
    assert bias > 4 * error
