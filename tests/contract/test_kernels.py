"""What every kernel promises to whoever drives it: a pure pair init and step, whose state tells the truth."""

from __future__ import annotations

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import lfilter

from phasecast.core.errors import BadInput
from phasecast.sampling import KERNELS, Tuning, from_blackjax
from phasecast.sampling.backends.jax import JaxBackend, jax_backend
from phasecast.sampling.backends.protocol import Minibatch
from phasecast.sampling.traces import MOST_BINS, Trace, mcse


def own():
    """What a user would write to bring a kernel of blackjax."""

    def build(logdensity, tuning, size):
        return blackjax.hmc(logdensity, tuning.step_size, jnp.ones(size), 3)

    return from_blackjax(build, name="own", adjusted=True)


TUNING = Tuning(step_size=0.02, leaps=3.0, friction=1.0, nbeta=5.0, gamma=1.5)
CHAINS, ROWS = 4, 40
X = np.random.default_rng(0).normal(size=(ROWS, 3))
Y = X @ [1.0, -2.0, 0.5] + np.random.default_rng(1).normal(size=ROWS)
W = np.array([0.9, -1.8, 0.4])


def quartic(params, rows):
    x, y = rows
    residual = x @ params["w"] + params["b"] - y
    return jnp.mean(residual**2 / 2 + residual**4 / 20)


def engine(loss=quartic, **options) -> JaxBackend:
    return jax_backend(loss, {"b": np.zeros(1), "w": W}, (X, Y), **options)


def copied(state):
    return jax.tree.map(lambda x: np.array(x), state)


def same(one, other) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


@pytest.fixture(params=[*KERNELS, "own"])
def kernel(request):
    return {**KERNELS, "own": own}[request.param]()


@pytest.fixture(params=["sgld", "nuts"])
def one_of_each(request):
    """A kernel of ours and one of blackjax."""
    return KERNELS[request.param]()


def test_every_kernel_keeps_the_contract(kernel):
    calls = []

    def counted(params, rows):
        calls.append(1)
        return quartic(params, rows)

    flag = jax.config.read("jax_enable_x64")
    here = engine(counted)
    start = here.array(0.1 * np.asarray(here.normal(here.key(1), CHAINS)))
    given = np.array(start)
    state = here.init(kernel, start, TUNING, here.key(2))
    before = copied(state)
    after, seen = here.run(kernel, state, TUNING, here.key(3), 7)

    assert {name: after[name].shape for name in ("position", "energy", "gradient", "loss", "pull")} == {
        "position": (CHAINS, 4), "energy": (CHAINS,), "gradient": (CHAINS, 4), "loss": (CHAINS,), "pull": (CHAINS,)
    }  # fmt: skip
    for told in (state, after):
        u = np.asarray(told["position"])
        loss, slope = here.evaluate(u)
        np.testing.assert_allclose(told["loss"], loss, atol=1e-12)
        np.testing.assert_allclose(told["gradient"], 5.0 * slope + 1.5 * u, atol=1e-11)
        np.testing.assert_allclose(told["energy"], 5.0 * loss + 0.75 * np.sum(u * u, 1), atol=1e-11)
        np.testing.assert_allclose(told["pull"], np.sum(u * slope, 1), atol=1e-12)
    assert {name: value.shape for name, value in seen.items()} == dict.fromkeys(seen, (7, CHAINS))
    np.testing.assert_array_equal(seen["loss"][-1], after["loss"])
    assert not seen["divergent"].any()
    assert np.all((seen["acceptance"] >= 0) & (seen["acceptance"] <= 1))

    # pure: nothing given is changed, the key decides everything, another engine says the same
    assert np.array_equal(start, given)
    assert same(state, before)
    traced = len(calls)
    assert same(after, here.run(kernel, state, TUNING, here.key(3), 7)[0])
    assert not same(after["position"], here.run(kernel, state, TUNING, here.key(4), 7)[0]["position"])
    twin = engine()
    assert same(after, twin.run(kernel, twin.init(kernel, start, TUNING, twin.key(2)), TUNING, twin.key(3), 7)[0])

    # one trace per shape: other numbers and more chunks compile nothing
    for number in range(3):
        other = TUNING._replace(step_size=0.01 + 0.001 * number, leaps=2.0, friction=0.5 * number + 0.1, gamma=1.0)
        after, _ = here.run(kernel, after, other, here.fold(here.key(5), number), 7)
    assert len(calls) == traced
    assert jax.config.read("jax_enable_x64") == flag


def test_a_step_to_where_the_energy_is_not_finite_is_a_divergence(kernel):
    cliff = jax_backend(lambda u: jnp.where(jnp.sum(u * u) < 1, jnp.sum(u * u), jnp.nan), jnp.zeros(3))
    state = cliff.init(kernel, cliff.array(np.full((2, 3), 0.5)), TUNING, cliff.key(0))
    _, seen = cliff.run(kernel, state, TUNING._replace(step_size=50.0), cliff.key(1), 1)
    assert seen["divergent"].all()


@pytest.mark.parametrize("name", ["hmc", "mala"])
def test_the_cost_of_a_step_is_the_gradients_it_takes(name):
    kernel, here = KERNELS[name](), engine()
    for leaps in (1.0, 2.0, 3.5):
        tuning = TUNING._replace(leaps=leaps)
        counts = []

        class Counting(type(here.ops)):
            def repeat(self, count, body, state, key):
                counts.append(int(count))  # noqa: B023
                return state

        with here.precision():
            state = here.init(kernel, 0.1 * here.normal(here.key(0), CHAINS), tuning, here.key(1))
            for number in range(300):
                kernel.step(Counting(), here.target, state, tuning, here.fold(here.key(2), number))
        error = np.std(counts) / np.sqrt(len(counts))
        assert abs(np.mean(counts) - kernel.gradients(tuning)) <= 4 * error


@pytest.mark.parametrize("anchored", [True, False])
def test_minibatches_are_right_on_average_and_anchored_gradients_are_exact_at_the_centre(anchored):
    here, copies = engine(batch=Minibatch(5, anchored)), 4000
    key = here.key(0)
    with here.precision():
        for offset, at_centre in ((np.zeros(4), True), (np.array([0.3, -0.2, 0.4, 0.1]), False)):
            told = jax.jit(here.target)(here.array(np.tile(offset, (copies, 1))), TUNING, key)
            loss, slope = (part[0] for part in here.evaluate(offset[None]))
            gradient = 5.0 * slope + 1.5 * offset
            if at_centre and anchored:
                np.testing.assert_allclose(told["gradient"], np.tile(gradient, (copies, 1)), atol=1e-12)
                np.testing.assert_allclose(told["loss"], 0, atol=1e-12)
                continue
            for many, exact in ((np.asarray(told["loss"]), loss), (np.asarray(told["gradient"]), gradient)):
                error = many.std(axis=0) / np.sqrt(copies)
                assert np.all(error > 0)
                assert np.all(np.abs(many.mean(axis=0) - exact) < 4 * error)


def test_only_the_named_parameters_move(one_of_each):
    kernel = one_of_each
    seen = []

    def watched(params, rows):
        jax.debug.callback(lambda b: seen.append(float(np.ravel(b)[0])), params["b"])
        return quartic(params, rows)

    here = engine(watched, only="w")
    state = here.init(kernel, here.array(np.zeros((CHAINS, 3))), TUNING, here.key(0))
    after, _ = here.run(kernel, state, TUNING, here.key(1), 2)
    jax.effects_barrier()
    assert here.size == 3
    assert np.any(np.asarray(after["position"]) != 0)
    assert set(seen) == {0.0}
    with pytest.raises(BadInput, match="no parameter is called like 'v'"):
        engine(only="v")


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_the_precision_is_a_choice_of_the_engine_and_nobody_elses(one_of_each, precision):
    kernel = one_of_each
    flag = jax.config.read("jax_enable_x64")
    here = engine(precision=precision)
    state = here.init(kernel, here.array(np.zeros((CHAINS, 4))), TUNING, here.key(0))
    after, _ = here.run(kernel, state, TUNING, here.key(1), 2)
    kinds = {str(leaf.dtype) for leaf in jax.tree.leaves(after) if jnp.issubdtype(leaf.dtype, jnp.floating)}
    assert kinds == {precision}
    assert jax.config.read("jax_enable_x64") == flag
    assert jnp.ones(1).dtype == (jnp.float64 if flag else jnp.float32)


@pytest.mark.parametrize("pieces", [[100_000], [1] * 50 + [9_950] * 10, [333] * 301, [2048, 1, 2047, 4097, 7, 60_001]])
def test_a_trace_stays_small_and_right_however_it_is_fed(pieces):
    """An AR(1) series xₜ = ρxₜ₋₁ + √(1−ρ²)ξₜ: unit variance, and a mean with variance (1+ρ)/(1−ρ)/steps."""
    rho, chains, steps = 0.8, 3, sum(pieces)
    noise = np.sqrt(1 - rho**2) * np.random.default_rng(0).normal(size=(steps, chains))
    noise[0] /= np.sqrt(1 - rho**2)
    series = 2 + np.asarray(lfilter([1], [1, -rho], noise, axis=0))
    trace, done = Trace(chains), 0
    for piece in pieces:
        trace.append(series[done : done + piece])
        done += piece
        assert len(trace.means) == len(trace.draws) <= MOST_BINS
        assert len(trace.rest) < 2 * trace.width
    covered = len(trace.means) * trace.width
    np.testing.assert_allclose(trace.mean, series[:covered].mean(), atol=1e-9)
    np.testing.assert_allclose(trace.variance, series.var(), atol=1e-9)
    expected = np.sqrt((1 + rho) / (1 - rho) / (steps * chains))
    assert trace.error == pytest.approx(expected, rel=0.15)
    assert trace.error == pytest.approx(mcse(series), rel=0.15)
    assert abs(trace.mean - 2) < 4 * trace.error
