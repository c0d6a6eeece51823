"""Two-layer networks, sampled with their output layer integrated out.

.. math:: y = c + \\sum_{i=1}^H q_i\\, \\sigma(\\langle w_i, x\\rangle + b_i) + N(0, 1)

("Deep learning is singular, and that's good", section 6). Given the hidden units, (q, c) is Gaussian, so the density
of the hidden units alone is known in closed form: with features Φ, :math:`A = \\beta\\Phi^\\top\\Phi + s^{-2}`,

.. math:: \\log p^\\beta(w, b) = \\tfrac12 \\beta^2\\, y^\\top\\Phi A^{-1}\\Phi^\\top y - \\tfrac12\\log\\det A
          - \\tfrac1{2s^2} |(w, b)|^2 + \\text{const}

One unit after another moves under this density (no gradient, no step size, kinks do no harm); then (q, c) is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from phasecast.core.errors import BadInput, unknown, whole_number
from phasecast.core.types import Key
from phasecast.posterior.model import Model
from phasecast.posterior.zoo.gaussian import LOG_2PI, Data, draw_normal, normal_log_density, positive

Activation = Literal["relu", "silu", "tanh"]
ACTIVATIONS = {
    "relu": lambda u: jnp.maximum(u, 0),
    "silu": lambda u: u * jax.nn.sigmoid(SHARPNESS * u),
    "tanh": jnp.tanh,
}
SHARPNESS = 100.0
"""τ of the SiLU x/(1 + e^(−τx)), as in section 6."""

DECADES = 5.0  # random-walk steps are from the prior's width down to 10⁻⁵ of it; any value leaves the target as it is
STRETCH = 0.5  # standard deviation of the logarithm of a stretch; any value leaves the target as it is
ALIVE = 2.0  # a unit with n Var(q σ) > 2 changes nL = n (f − f₀)²/2 by about a nat

Feature = Callable[[jax.Array], jax.Array]
"""The weights of a unit to its output on the data, (n,)."""


def two_layer(
    hidden: int,
    inputs: int = 2,
    activation: Activation = "relu",
    *,
    prior_sd: float = 1.0,
    bias: bool = True,
    truth: Data | None = None,
) -> Model:
    """A two-layer network with one output and normal weights; data are ``{"x": (n, inputs), "y": (n,)}``.

    Params are ``{"w": (H, inputs), "b": (H,), "q": (H,), "c": ()}``; without ``bias`` there are no b and c.

    >>> two_layer(5, 2).size(), two_layer(2, 1, "tanh", bias=False).size()
    (21, 4)
    """
    H, inputs = whole_number("hidden", hidden, 1), whole_number("inputs", inputs, 1)
    if activation not in ACTIVATIONS:
        raise unknown("activation", activation, ACTIVATIONS)
    return replace(_two_layer(H, inputs, activation, positive("prior_sd", prior_sd), bool(bias)), truth=truth)


@cache  # the same model is the same compilation
def _two_layer(H: int, inputs: int, activation: Activation, sd: float, bias: bool) -> Model:
    act = ACTIVATIONS[activation]

    def features(params: Data, x: jax.Array) -> jax.Array:
        """(n, H), without the column of ones."""
        return act(x @ params["w"].T + (params["b"] if bias else 0.0))

    def predict(params: Data, data: Data) -> jax.Array:
        return features(params, data["x"]) @ params["q"] + (params["c"] if bias else 0.0)

    def log_likelihood(params: Data, data: Data) -> jax.Array:
        return -0.5 * (data["y"] - predict(params, data)) ** 2 - LOG_2PI / 2

    def init(key: Key) -> Data:
        shapes = {"w": (H, inputs), "q": (H,)} | ({"b": (H,), "c": ()} if bias else {})
        keys = jax.random.split(key, len(shapes))
        return {name: sd * jax.random.normal(k, shape) for k, (name, shape) in zip(keys, shapes.items(), strict=True)}

    def live_units(params: Data, data: Data) -> jax.Array:
        spread = jnp.var(features(params, data["x"]) * params["q"], axis=0)
        return jnp.sum(data["y"].shape[0] * spread > ALIVE)

    def gibbs(key: Key, params: Data, data: Data, beta: jax.Array) -> Data:
        x, y = data["x"], data["y"]
        ones = jnp.ones((x.shape[0], 1 if bias else 0))
        hidden_weights = jnp.concatenate([params["w"], params["b"][:, None]], 1) if bias else params["w"]

        def feature(unit: jax.Array) -> jax.Array:
            return act(x @ unit[:inputs] + (unit[inputs] if bias else 0.0))

        def move(number: jax.Array, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            weights, phi, gram, cross = carry
            log_evidence, overlaps = _evidence_of_one(number, phi, gram, cross, y, beta, sd)
            unit = _move_unit(jax.random.fold_in(key, number), weights[number], feature, log_evidence, sd)
            column = feature(unit)
            row, own = overlaps(column)
            row = row.at[number].set(column @ column)
            return (
                weights.at[number].set(unit),
                phi.at[:, number].set(column),
                gram.at[number].set(row).at[:, number].set(row),
                cross.at[number].set(own),
            )

        phi = jnp.concatenate([features(params, x), ones], axis=1)
        start = (hidden_weights, phi, phi.T @ phi, phi.T @ y)
        weights, phi, gram, cross = jax.lax.fori_loop(0, H, move, start)
        precision = beta * gram + jnp.eye(gram.shape[0]) / sd**2
        outer = draw_normal(jax.random.fold_in(key, H), precision, beta * cross)
        updated = {"w": weights[:, :inputs], "q": outer[:H]}
        return updated | ({"b": weights[:, inputs], "c": outer[H]} if bias else {})

    return Model(
        log_likelihood,
        lambda params: normal_log_density(params, sd),
        init,
        predict=predict,
        observed=lambda data: data["y"],
        gibbs=gibbs,
        live_units=live_units,
        name=f"{activation} network with {H} units",
    )


def _evidence_of_one(
    number: jax.Array, phi: jax.Array, gram: jax.Array, cross: jax.Array, y: jax.Array, beta: jax.Array, sd: float
) -> tuple[Callable[[jax.Array], jax.Array], Callable[[jax.Array], tuple[jax.Array, jax.Array]]]:
    """The log evidence as a function of column ``number`` of the features alone, and its overlaps with the others.

    With a the column's overlaps with the others, :math:`A_o` their matrix, :math:`u = A_o^{-1}\\beta\\Phi_o^\\top y`,
    the Schur complement :math:`s = \\beta|\\phi|^2 + s_0^{-2} - \\beta^2 a^\\top A_o^{-1} a` is all there is to it:
    :math:`-\\tfrac12\\log s + \\tfrac12 (\\beta\\phi^\\top y - \\beta a^\\top u)^2 / s`.
    """
    size = gram.shape[0]
    others = jnp.arange(size) != number
    rest = jnp.where(others[:, None] & others[None, :], gram, 0.0)
    lower = jnp.linalg.cholesky(beta * rest + jnp.eye(size) / sd**2)
    solved = jax.scipy.linalg.cho_solve((lower, True), beta * jnp.where(others, cross, 0.0))

    def overlaps(column: jax.Array) -> tuple[jax.Array, jax.Array]:
        return column @ phi, column @ y

    def log_evidence(column: jax.Array) -> jax.Array:
        row, own = overlaps(column)
        a = beta * jnp.where(others, row, 0.0)
        half = jax.scipy.linalg.solve_triangular(lower, a, lower=True)
        schur = beta * column @ column + 1 / sd**2 - half @ half
        schur = jnp.maximum(schur, 1 / sd**2)  # true up to rounding
        return -0.5 * jnp.log(schur) + 0.5 * (beta * own - a @ solved) ** 2 / schur

    return log_evidence, overlaps


def _move_unit(
    key: Key, unit: jax.Array, feature: Feature, log_evidence: Callable[[jax.Array], jax.Array], sd: float
) -> jax.Array:
    """A slice along an ellipse of the prior, a stretch, and a step of a random size: far, along the symmetry, near."""
    import blackjax

    size = unit.shape[0]
    for_slice, for_stretch, for_walk, for_tests = jax.random.split(key, 4)

    def log_likelihood(value: jax.Array) -> jax.Array:
        return log_evidence(feature(value))

    def log_density(value: jax.Array) -> jax.Array:
        return log_likelihood(value) - 0.5 * jnp.sum((value / sd) ** 2)

    slicer: Any = blackjax.elliptical_slice(log_likelihood, mean=jnp.zeros(size), cov=jnp.full(size, sd**2))
    unit = slicer.step(for_slice, slicer.init(unit))[0].position
    here = log_density(unit)
    tests = jnp.log(jax.random.uniform(for_tests, (2,)))
    stretch = STRETCH * jax.random.normal(for_stretch)
    stretched = jnp.exp(stretch) * unit
    there = log_density(stretched)
    accepted = tests[0] < there - here + size * stretch
    unit, here = jnp.where(accepted, stretched, unit), jnp.where(accepted, there, here)
    for_size, for_direction = jax.random.split(for_walk)
    length = sd * 10 ** (-DECADES * jax.random.uniform(for_size))
    walked = unit + length * jax.random.normal(for_direction, (size,))
    return jnp.where(tests[1] < log_density(walked) - here, walked, unit)


def polygon_network(corners: int, hidden: int) -> Data:
    """The true parameters s_m of section 6: m ReLU units on the sides of a regular polygon, the others zero.

    With g the rotation by 2π/m: :math:`w_i = g^{i-1}\\sqrt g\\,(1, 0)^\\top`, b = −1/3 and q = 1 for i ≤ m.
    (Lengths are in the square [−1, 1]², as in Figure 2.)

    >>> polygon_network(3, 5)["b"]
    array([-0.33333333, -0.33333333, -0.33333333,  0.        ,  0.        ])
    """
    m, H = whole_number("corners", corners, 3), whole_number("hidden", hidden, 3)
    if m > H:
        raise BadInput(f"{m} true units do not fit into {H}", f"use corners ≤ {H}")
    angle = 2 * math.pi / m * (np.arange(m) + 0.5)
    w = np.zeros((H, 2))
    w[:m] = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    on = (np.arange(H) < m).astype(float)
    return {"w": w, "b": np.where(on, -1 / 3, 0.0), "q": on, "c": np.zeros(())}


def network_data(truth: Data, n: int, seed: int, *, activation: Activation = "relu", noise: float = 1.0) -> Data:
    """n inputs uniform on [−1, 1]^d and the outputs of the network ``truth``, with normal noise of this size."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(whole_number("n", n, 1), np.shape(truth["w"])[1]))
    u = x @ np.asarray(truth["w"]).T + np.asarray(truth.get("b", 0.0))
    if activation == "relu":
        hidden = np.maximum(u, 0)
    elif activation == "silu":
        hidden = u / (1 + np.exp(-np.clip(SHARPNESS * u, -700, 700)))
    else:
        hidden = np.tanh(u)
    mean = hidden @ np.asarray(truth["q"]) + float(truth.get("c", 0.0))
    return {"x": x, "y": mean + noise * rng.normal(size=n)}
