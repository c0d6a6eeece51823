"""Targets, activations and losses: what is parsed, what is hard, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from phasecast.core.errors import BadInput, OutsideRegime
from phasecast.core.precision import float64
from phasecast.features.algorithmic import algorithmic_threshold
from phasecast.features.setting.expressions import FUNCTIONS
from phasecast.features.setting.functions import ACTIVATIONS, LOSSES, activation, loss
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import PRESETS, target

pytestmark = pytest.mark.bare


@pytest.mark.parametrize(
    ("text", "z", "value"),
    [
        ("z**2", [3.0], 9.0),
        ("minimum(z**2, 3)", [3.0], 3.0),
        ("tanh(z)**2", [0.5], np.tanh(0.5) ** 2),
        ("z1*z2", [2.0, -3.0], -6.0),
        ("(z1 > 0)*(z2 > 0)", [1.0, -1.0], 0.0),
        ("-z1/2 + max(z2, 0) - abs(z3)**0.5", [2.0, 3.0, -4.0], 0.0),
        ("sin(pi*z) + exp(-z**2) + z**-1", [0.5], 1 + np.exp(-0.25) + 2),
        ("gelu(z) + relu(-z)", [1.0], norm.cdf(1.0)),
    ],
)
def test_expressions_mean_what_they_say(text, z, value):
    with float64():
        assert float(target(text).link(jnp.asarray(z))) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3 + 1", "not a function of z"),
        ("z - z", "not a function of z"),
        ("x**2", "unknown name 'x'"),
        ("z1 + z4", "at most 3 latents"),
        ("z + z1", "number all of them"),
        ("z**z", "exponent"),
        ("z**1000", "too large"),
        ("halfspace", "did you mean 'halfspaces'"),
        ("z**", "invalid expression .* for the target"),
        ("z + 1e999", "not arithmetic"),
        ("z + 1" + "0" * 400, "not arithmetic"),
        ("foo(z)", "unknown function 'foo'"),
        ("__import__('os').system('true')", "not arithmetic"),
        ("open(z)", "unknown function"),
        ("z.__class__", "not arithmetic"),
        ("[z][0]", "not arithmetic"),
        ("lambda z: z", "not arithmetic"),
        ("z if z > 0 else 0", "not arithmetic"),
        ("True*z", "not arithmetic"),
        ("minimum(z)", "2"),
        ("log(z)", "not finite"),
        ("z+" * 300 + "z", "characters"),
        ("sin(" * 60 + "z" + ")" * 60, "nested too deeply"),
    ],
)
def test_what_is_no_function_of_z_is_bad_input(text, words):
    with pytest.raises(BadInput, match="(?s).*" + words.replace("(", r"\(")):
        target(text)


def test_an_expression_runs_no_code():
    """Only names on the list are ever called, and none of them is from Python's builtins."""
    for name, (function, _) in FUNCTIONS.items():
        assert function is not getattr(__builtins__, name, None)


def test_a_function_of_the_caller():
    own = target(lambda z: z[..., 0] ** 2 + z[..., 1], latents=2)
    np.testing.assert_allclose(abs(own.hard[:, 0]), [1, 0], atol=1e-9)
    with pytest.raises(BadInput, match="latents"):
        target(lambda z: z[..., 0])
    with pytest.raises(BadInput, match="1 to 3"):
        target(lambda z: z[..., 0], latents=4)
    with pytest.raises(BadInput, match="labels of shape"):
        target(lambda z: z, latents=2)
    with pytest.raises(BadInput, match="fails"):
        target(lambda z: z[..., 0] if z.sum() > 0 else 0, latents=1)
    with pytest.raises(BadInput, match="noise"):
        target("z**2", noise=-1.0)
    with pytest.raises(BadInput, match="where it is made"):
        target(target("z**2"), noise=0.5)


@pytest.mark.parametrize(
    ("text", "hard"),
    [
        ("z**2", [[1]]),
        ("z", []),
        ("z**3 - 3*z", []),
        ("z**4 - 6*z**2", [[1]]),
        ("z1*z2", [[1, 0], [0, 1]]),
        ("z1 + z2 + z1*z2", [[1, -1]]),
        ("two-layer", [[1, -1]]),
        ("two-layer-even", [[1, 0], [0, 1]]),
        ("halfspaces", [[1, -1]]),
        ("z1**2*z2", [[1, 0]]),
        ("z1 + z1*z2", []),  # z2 is seen once z1 is known: a staircase
        ("z1 + z2*z3", [[0, 1, 0], [0, 0, 1]]),
        ("z1*z2*z3", [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        ("tanh((z1 + 2*z2)/sqrt(5)) + ((2*z1 - z2)/sqrt(5))**2", [[2, -1]]),
    ],
)
def test_the_hard_subspace_is_the_one_of_the_symmetries(text, hard):
    found = target(text)
    space = np.array(hard, dtype=float).reshape(len(hard), found.latents).T
    space = space / np.linalg.norm(space, axis=0) if space.size else space
    assert found.hard.shape == space.shape
    np.testing.assert_allclose(found.hard @ found.hard.T, space @ space.T, atol=2e-3)
    whole = np.hstack([found.easy, found.hard])
    np.testing.assert_allclose(whole.T @ whole, np.eye(found.latents), atol=1e-9)
    assert found.split.left < found.split.resolution
    assert all(signal > found.split.resolution for signal in found.split.signals)


def test_a_signal_below_the_resolution_is_not_claimed():
    """A trace of z in z² is seen while it is above the resolution that is reported."""
    for amount in (0.3, 0.1, 0.03):
        split = target(f"z**2 + {amount}*z").split
        assert split.easy.shape == (1, 1)
        assert split.signals[0] > split.resolution
    assert target("z**2").split.resolution < 1e-4


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_target(name):
    assert target(name).latents in (1, 2)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_have_their_derivatives(name):
    """Against differences, and the elementwise form against the scalar one."""
    sigma, u, step = activation(name), np.linspace(-3, 3, 13), 1e-4
    with float64():
        slopes = (np.asarray(sigma(u + step)) - np.asarray(sigma(u - step))) / (2 * step)
        bends = (np.asarray(sigma(u + step)) - 2 * np.asarray(sigma(u)) + np.asarray(sigma(u - step))) / step**2
        np.testing.assert_allclose(sigma.first(u), slopes, atol=1e-6)
        np.testing.assert_allclose(sigma.second(u), bends, atol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_have_their_derivatives_and_their_minimum(name):
    ell, p, step = loss(name), np.linspace(-3, 3, 14), 1e-4
    with float64():
        slopes = (np.asarray(ell(p + step, 0.4)) - np.asarray(ell(p - step, 0.4))) / (2 * step)
        np.testing.assert_allclose(ell.first(p, 0.4), slopes, atol=1e-6)
        assert (np.asarray(ell.second(p, 0.4)) >= 0).all()
        best = np.log(0.4 / 0.6) if name == "logistic" else 0.4
        assert float(ell.first(best, 0.4)) == pytest.approx(0, abs=1e-12)
        if name != "logistic":  # the same curvature at the bottom: one learning rate means one thing
            assert float(ell.second(0.4, 0.4)) == pytest.approx(1, abs=1e-9)


def test_what_has_no_second_derivative_is_bad_input():
    for name in ("relu", "abs"):
        with pytest.raises(BadInput, match="no second derivative"):
            activation(name)
    with pytest.raises(BadInput, match="no second derivative"):
        loss("absolute")
    with pytest.raises(BadInput, match="no second derivative"):
        loss(lambda p, y: jnp.abs(p - y))
    with pytest.raises(BadInput, match="no second derivative"):
        activation(lambda u: jnp.maximum(u, 0.0))
    with pytest.raises(BadInput, match="not finite"):
        activation(jnp.log)
    with pytest.raises(BadInput, match="did you mean 'gelu'"):
        activation("gelo")
    assert loss(lambda p, y: (p - y) ** 4).second(2.0, 0.0) == 48.0


def test_force_and_curvature_are_the_risks_derivatives():
    """For three different neurons: the risk's gradient is the mean of F x/m, block j of m∇² that of G_j xxᵀ."""
    rng = np.random.default_rng(1)
    x, y, theta = rng.normal(size=(30, 4)), rng.normal(size=30), rng.normal(size=(4, 3))
    network = Network("swish", "logcosh", 3, a=(1.0, -2.0, 0.5), b=(0.0, 0.3, -1.0))

    def risk(weights):
        return network.loss(network.predict(x @ weights), y).mean()

    with float64():
        F, G = np.asarray(network.force(x @ theta, y)), np.asarray(network.curvature(x @ theta, y))
        slope = jax.jit(jax.grad(risk))(jnp.asarray(theta))
        bend = np.asarray(jax.jit(jax.hessian(risk))(jnp.asarray(theta)))
    np.testing.assert_allclose(slope, x.T @ F / 30 / 3, atol=1e-12)
    for j in range(3):
        np.testing.assert_allclose(3 * bend[:, j, :, j], (x.T * G[:, j]) @ x / 30, atol=1e-12)


@pytest.mark.parametrize(
    "wrong", [{"width": 5}, {"width": 0}, {"width": "deep"}, {"a": 0.0}, {"a": (1.0, 2.0)}, {"initial_norm": 0.0}]
)
def test_networks_that_are_not_covered(wrong):
    with pytest.raises(BadInput):
        Network("gelu", "square", **wrong)


def test_the_algorithmic_threshold():
    """½ for phase retrieval whatever is done to the label one-to-one; closed forms for a clipped and a binary one."""
    for text in ("z**2", "abs(z)", "tanh(z)**2"):
        found = algorithmic_threshold(text)
        assert float(found.value) == pytest.approx(0.5, abs=1e-5)
    beyond = 2 * norm.sf(1.0)  # P(|z| > 1); E[(z²−1)·1] = 2φ(1) there
    exact = 1 / ((2 * norm.pdf(1.0)) ** 2 * (1 / beyond + 1 / (1 - beyond)))
    found = algorithmic_threshold("abs(z) > 1")
    assert float(found.value) == pytest.approx(exact, abs=max(3 * float(found.systematic), 1e-5))
    root = np.sqrt(3.0)
    line = np.linspace(-root, root, 200_001)
    inner = np.trapezoid((line**2 - 1) ** 2 * norm.pdf(line), line)
    exact = 1 / (inner + (2 * root * norm.pdf(root)) ** 2 / (2 * norm.sf(root)))
    found = algorithmic_threshold("minimum(z**2, 3)")
    assert float(found.value) == pytest.approx(exact, abs=3 * float(found.systematic))
    assert algorithmic_threshold("z").value == 0
    noisy = [float(algorithmic_threshold("z**2", noise=noise).value) for noise in (0.1, 1.0, 3.0)]
    assert 0.5 < noisy[0] < noisy[1] < noisy[2]
    with pytest.raises(OutsideRegime, match="one"):
        algorithmic_threshold("z1*z2")
