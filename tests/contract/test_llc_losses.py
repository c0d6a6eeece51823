"""A loss that cannot be sampled is refused before any chain moves, in one sentence that says what to change."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import phasecast as pc
from phasecast.core.errors import BadInput, PhasecastError
from phasecast.sampling.backends.jax import jax_backend

COUNTER = itertools.count()
NOISE = np.random.default_rng(0)


def bowl(w):
    return jnp.sum(w**2) / 2


def raises(w):
    raise KeyError("a missing\nkey")


def random_elsewhere(w):
    return bowl(w) * (1 + (NOISE.normal() if float(jnp.sum(w**2)) > 0 else 0.0))


LOSSES = {
    "None": (lambda w: None, "returned None"),
    "text": (lambda w: "low", "returned a text"),
    "vector": (lambda w: w, r"has shape \(3,\)"),
    "complex": (lambda w: bowl(w) + 1j, "complex"),
    "integer": (lambda w: jnp.sum(jnp.round(w)).astype(int), "whole number"),
    "raises": (raises, r"raised KeyError.*test_llc_losses.py, line"),
    "exits": (lambda w: exit(3), "raised SystemExit"),
    "no argument": (lambda: 0.0, "raised TypeError"),
    "two arguments": (lambda w, data: bowl(w), "raised TypeError"),
    "if": (lambda w: bowl(w) if w[0] >= 0 else 0.0, "jnp.where instead of if"),
    "float": (lambda w: float(bowl(w)), "float"),
    "numpy": (lambda w: np.sum(np.asarray(w) ** 2), "NumPy"),
    "noise": (lambda w: bowl(w) + NOISE.normal(), "another number at the same parameters"),
    "counter": (lambda w: bowl(w) + next(COUNTER), "another number at the same parameters"),
    "stop_gradient": (lambda w: jnp.sum(w * jax.lax.stop_gradient(w)) / 2, "gradient of the loss is not its own"),
    "straight through": (lambda w: bowl(w + jax.lax.stop_gradient(jnp.sign(w) - w)), "not its own|does not depend"),
    "rounded": (lambda w: bowl(w + jax.lax.stop_gradient(jnp.round(w) - w)), "not its own"),
    "constant": (lambda w: 0 * w[0] + 1.0, "does not depend on the parameters"),
    "wall": (lambda w: jnp.where(w @ w < 1e-12, w @ w, jnp.inf), "not finite anywhere around"),
    "negated": (lambda w: -bowl(w), "falls in every direction"),
    "huge": (lambda w: 1e300 * bowl(w), "is of size"),
    "tiny": (lambda w: 1e-300 * bowl(w), "is of size"),
}


ONLY_SINGLE = {
    "half": (lambda w: jnp.sum(w * jax.lax.stop_gradient(w)) + 2.0, "gradient of the loss is not its own"),
    "huge": (lambda w: 1e30 * bowl(w), "is of size"),
    "tiny": (lambda w: 1e-30 * bowl(w), "is of size"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_that_cannot_be_sampled_is_one_sentence(name):
    loss, words = LOSSES[name]
    with pytest.raises(PhasecastError, match=words) as caught:
        pc.llc(loss, np.zeros(3), nbeta=100.0, gamma=1.0, progress=False)
    assert "\n" not in str(caught.value)


SINGLE = ("noise", "counter", "negated", "stop_gradient", "straight through", "constant", "half", "huge", "tiny")


@pytest.mark.parametrize("name", SINGLE)
def test_the_same_is_noticed_in_float32(name):
    loss, words = {**LOSSES, **ONLY_SINGLE}[name]
    with pytest.raises(PhasecastError, match=words):
        jax_backend(loss, np.zeros(3), None, precision="float32")


def mostly_frozen(w):
    """The gradient of all but one in a thousand parameters is stopped."""
    return bowl(w[::1000]) + bowl(jax.lax.stop_gradient(w[1:])) + 3.0


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_many_parameters_and_rows_do_not_hide_a_stopped_gradient(precision):
    rows = np.random.default_rng(0).normal(size=(2000, 10))
    weights = np.random.default_rng(1).normal(size=5000) / 10

    def net(w, x, stop=lambda hidden: hidden):
        hidden = jnp.tanh(stop(x @ w[:2000].reshape(10, 200)))
        return jnp.mean((hidden @ w[2000:4000].reshape(200, 10) + w[4000:4010] - x) ** 2)

    jax_backend(net, weights, rows, precision=precision)  # the control
    with pytest.raises(BadInput, match="not its own"):
        jax_backend(lambda w, x: net(w, x, jax.lax.stop_gradient), weights, rows, precision=precision)
    with pytest.raises(BadInput, match="not its own"):
        jax_backend(mostly_frozen, weights, None, precision=precision)
    with pytest.raises(BadInput, match="another number"):
        jax_backend(lambda w, x: net(w, x) + 1e-3 * NOISE.normal(), weights, rows, precision=precision)


@pytest.mark.parametrize("steepness", [10.0, 100.0, 300.0])
def test_a_steep_loss_has_its_own_gradient(steepness):
    """Along its gradient a first quotient is off by sinh(x)/x with x up to 9, as in trained convolutional nets."""
    weights = np.ones(100)
    loss = lambda w: jnp.cosh(steepness * jnp.mean(w - 1) * 10)  # noqa: E731
    jax_backend(loss, weights, None, precision="float32")
    with pytest.raises(BadInput, match="not its own"):  # the negative control
        jax_backend(lambda w: 2 * loss(w) - jax.lax.stop_gradient(loss(w)), weights, None, precision="float32")


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_summed_loss_is_recognised_and_a_mean_is_not(precision):
    rows = np.random.default_rng(0).normal(size=(400, 3))

    def notes(loss, data=rows):
        return jax_backend(loss, np.zeros(3), data, precision=precision).notes

    assert notes(lambda w, x: jnp.mean((x @ w) ** 2)) == ()
    assert "is a sum over rows" in notes(lambda w, x: jnp.sum((x @ w) ** 2))[0]
    assert notes(lambda w, x: jnp.sum((x @ w) ** 2) / 400) != ()  # it is a sum all the same: of parts of the rows
    assert notes(lambda w, x: bowl(w) + 0 * jnp.sum(x)) == ()
    assert notes(lambda w, x: bowl(w) + jnp.sum(x[:400] - rows) * 0) == ()  # needs its 400 rows
    assert jax_backend(bowl, np.zeros(3), None, precision=precision).notes == ()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([[1.0, 2.0], [3.0]], "single numbers, not rows"),
        ({"x": np.array(["a", "b"])}, "not numbers"),
        ((np.array([object(), 1]),), "not numbers"),
        ("rows", "holds a str"),
        ([], "holds nothing"),
        (np.zeros((0, 3)), "no rows"),
        (3.0, "single numbers"),
    ],
)
def test_data_without_rows_are_refused(data, words):
    with pytest.raises(BadInput, match=words):
        jax_backend(lambda w, x: bowl(w), np.zeros(3), data)


@pytest.mark.parametrize(
    "params", [{}, [], (), np.zeros(3) + 1j, "w", None, np.array([object()] * 3), {"a": np.zeros(2), "b": "text"}]
)
def test_parameters_that_cannot_move_are_refused(params):
    with pytest.raises(BadInput):
        pc.llc(bowl, params, nbeta=100.0, gamma=1.0, progress=False)


GOOD = {
    "bowl": (bowl, np.zeros(3)),
    "quartic": (lambda w: jnp.sum(w**4), np.zeros(3)),
    "monomial": (lambda w: w[0] ** 2 * w[1] ** 4 * w[2] ** 2, np.zeros(3)),
    "kinks": (lambda w: jnp.sum(jax.nn.relu(w) ** 2) + jnp.sum(jnp.abs(w)), np.array([0.5, -0.5, 0.2])),
    "only one": (lambda w: w[0] ** 2, np.zeros(3)),
    "large weights": (lambda w: jnp.mean((w - 1000.0) ** 2), np.full(3, 1000.0)),
    "constant beside": (lambda w: 1e6 + bowl(w), np.zeros(3)),
    "maximum of a bounded loss": (lambda w: jnp.sum(jnp.cos(w)), np.zeros(3)),
    "saddle": (lambda w: jnp.sum(w**4 / 4) - jnp.sum(w**2), np.zeros(3)),
    "product": (lambda w: (w[0] * w[1] * w[2] - 1) ** 2, np.zeros(3)),
    "half a wall": (lambda w: jnp.where(w[0] < 1e-6, w @ w, jnp.inf), np.zeros(3)),
    "linear": (lambda w: jnp.sum(w), np.zeros(3)),
    "steep": (lambda w: 1e8 * bowl(w), np.zeros(3)),
    "scalar": (lambda w: w**2, np.array(0.0)),
}


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("name", GOOD)
def test_ordinary_losses_pass_the_probe(name, precision):
    """The control: no loss that can be sampled is refused."""
    loss, params = GOOD[name]
    assert jax_backend(loss, params, None, precision=precision).size == np.size(params)


@pytest.mark.parametrize("width", [0.03, 0.001])
def test_walls_that_no_step_is_short_enough_for_are_refused_soon(width):
    """Chains stay in a box that is far narrower than their trajectories, which all end at its walls."""

    def box(w):
        return jnp.where(jnp.max(jnp.abs(w)) < width, bowl(w), jnp.inf)

    refused = pc.llc(box, np.zeros(4), nbeta=100.0, gamma=1.0, seconds=None, progress=False)
    assert str(refused.status) == "refused"
    assert "not finite however small the step" in refused.reasons[0]
    assert refused.gradients < 5e6  # of the 10⁹ that it may spend


def test_a_saddle_is_not_a_minimum():
    """Six bowls and four double wells with w* on top; relative to the minimum it is 4 higher, by nβ·4·0.01."""

    def wells(w):
        return bowl(w[:6]) + jnp.sum(w[6:] ** 4 / 4 - 0.1 * w[6:] ** 2)

    at_saddle = pc.llc(wells, np.zeros(10), nbeta=100.0, gamma=1.0, target=0.2, seconds=None, progress=False)
    assert str(at_saddle.status) != "ok"
    assert any("not a minimum" in reason for reason in at_saddle.reasons)
    assert at_saddle.value_min - float(at_saddle.estimate) == pytest.approx(4.0, abs=0.2)  # γ holds the descent back
