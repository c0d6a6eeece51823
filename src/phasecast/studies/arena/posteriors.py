"""Is the λ̂ of a Bayesian model its λ? One data set, as a user has it, of models whose λ is known exactly.

Regular models have λ = d/2: linear, logistic and Poisson regressions, and one tanh unit whose truth is not zero. The
others have the λ of :mod:`phasecast.coefficients`, but for two tanh units around one, which is :data:`TWO_AROUND_ONE`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from phasecast.core.types import PyTree
from phasecast.studies.arena.family import Family, Outcome, log_uniform

if TYPE_CHECKING:
    import jax

    from phasecast.posterior import Model

TWO_AROUND_ONE = Fraction(5, 4)
r"""λ of :math:`a_1 \tanh b_1x + a_2 \tanh b_2x` where the truth is one unit :math:`A \tanh Bx`, A and B not zero.

Let both units be near it, :math:`b_i = B + \beta_i` (a unit near −B is one near B with the other sign). The mean is off
by a sum of linearly independent functions of x times

.. math:: s = a_1 + a_2 - A, \quad t = a_1\beta_1 + a_2\beta_2, \quad a_1\beta_1^2 + a_2\beta_2^2, \quad \dots

With s = t = 0 the third is :math:`(A/a_1)\, a_2\beta_2^2` to leading order and the later ones are multiples of it, so
that K ~ s² + t² + (a₂β₂²)² and λ = ½ + ½ + min(½, ¼), with multiplicity 1. Where the second unit is far from ±B it has
a₂b₂ = 0 instead: K ~ s² + β₁² + (a₂b₂)² and 3/2, which is larger. The quadrature of
``tests/truth/test_arena_coefficients.py`` agrees.
"""


@dataclass(frozen=True)
class Bayesian:
    """A model, with n observations of a truth drawn from a seed; ``true`` is the true rank, or number of parts."""

    kind: str
    sizes: tuple[int, ...]
    true: int
    n: int
    draw: int

    def __str__(self) -> str:
        truth = TRUTHS.get(self.kind, "").format(self.true)
        return f"{self.kind} {'-'.join(map(str, self.sizes))}{truth}, n = {self.n}, data drawn with {self.draw}"


class Case(NamedTuple):
    """What the product receives, and the λ it should find."""

    model: Model
    data: PyTree
    truth: float


def _drawn(rng: np.random.Generator, kind: str, sizes: tuple[int, ...], true: int, low: int, high: int) -> Bayesian:
    return Bayesian(kind, sizes, true, round(log_uniform(rng, low, high)), int(rng.integers(2**31)))


def regular(rng: np.random.Generator) -> Bayesian:
    """A regression, or one tanh unit, with many observations per parameter."""
    kind = str(rng.choice(["linear regression", "logistic regression", "Poisson regression", "one tanh unit"]))
    if kind == "linear regression":
        return _drawn(rng, kind, (int(rng.integers(1, 7)), int(rng.integers(1, 3))), 0, 100, 5000)
    return _drawn(rng, kind, (int(rng.integers(1, 3 if kind == "one tanh unit" else 4)),), 0, 300, 800)


def linear_network(rng: np.random.Generator) -> Bayesian:
    """Two or three factors of widths up to four, of any true rank."""
    sizes = tuple(int(size) for size in rng.integers(1, 5, int(rng.integers(3, 5))))
    return _drawn(rng, "linear network", sizes, int(rng.integers(0, min(sizes) + 1)), 300, 10_000)


def singular(rng: np.random.Generator) -> Bayesian:
    """A product of powers at zero, tanh units around zero or one, or a mixture with spare components."""
    kind = str(rng.choice(["monomial", "tanh units", "tanh units around one", "mixture"]))
    if kind == "monomial":
        powers = tuple(int(power) for power in rng.integers(1, 4, int(rng.integers(1, 4))))
        return _drawn(rng, kind, powers, 0, 200, 5000)
    if kind == "mixture":
        return _drawn(rng, kind, (2, int(rng.integers(1, 3))), 1, 100, 400)  # three components take NUTS minutes
    if kind == "tanh units":
        return _drawn(rng, kind, (int(rng.integers(1, 4)),), 0, 100, 1000)
    return _drawn(rng, "tanh units", (2,), 1, 200, 800)


def judge(problem: Bayesian, seed: int) -> Outcome:
    """λ̂ with the defaults of ``rlct``."""
    from phasecast import posterior

    model, data, truth = CASES[problem.kind](problem, np.random.default_rng(problem.draw))
    return Outcome.of(posterior.rlct(model, data, seed=seed), truth, str(problem))


def _linear_regression(problem: Bayesian, rng: np.random.Generator) -> Case:
    from phasecast import posterior

    inputs, outputs = problem.sizes
    data = posterior.linear_data([rng.normal(size=(outputs, inputs))], problem.n, seed=problem.draw)
    return Case(posterior.linear(inputs, outputs), data, inputs * outputs / 2)


def _logistic_regression(problem: Bayesian, rng: np.random.Generator) -> Case:
    """Labels of normal inputs; the weights have length 1 on average, so that classes overlap."""
    (inputs,) = problem.sizes
    x = rng.normal(size=(problem.n, inputs))
    log_odds = x @ rng.normal(size=inputs) / np.sqrt(inputs)
    y = (rng.random(problem.n) < 1 / (1 + np.exp(-log_odds))).astype(float)
    return Case(generalised_linear("logistic", inputs), {"x": x, "y": y}, inputs / 2)


def _poisson_regression(problem: Bayesian, rng: np.random.Generator) -> Case:
    """Counts with log rates that are normal with a standard deviation of about ½."""
    (inputs,) = problem.sizes
    x = rng.normal(size=(problem.n, inputs))
    y = rng.poisson(np.exp(x @ rng.normal(size=inputs) / np.sqrt(4 * inputs))).astype(float)
    return Case(generalised_linear("Poisson", inputs), {"x": x, "y": y}, inputs / 2)


@cache  # the same model is the same compilation
def generalised_linear(kind: str, inputs: int) -> Model:
    """A regression as a user writes it, with N(0, 1) weights and natural parameter η = ⟨w, x⟩.

    The log-likelihood is yη − A(η), with A = log(1 + e^η) for labels and e^η for counts, but for a term without w.
    """
    import jax
    import jax.numpy as jnp

    from phasecast.posterior import Model

    normaliser: Callable[[jax.Array], jax.Array] = {"logistic": jax.nn.softplus, "Poisson": jnp.exp}[kind]

    def log_likelihood(w: jax.Array, data: dict[str, jax.Array]) -> jax.Array:
        eta = data["x"] @ w
        return data["y"] * eta - normaliser(eta)

    return Model(
        log_likelihood,
        lambda w: -jnp.sum(w**2) / 2,
        lambda key: jax.random.normal(key, (inputs,)),
        name=f"{kind} regression",
    )


def _one_tanh_unit(problem: Bayesian, rng: np.random.Generator) -> Case:
    """Identified up to its sign, since neither its weights nor its output weight are zero."""
    from phasecast import posterior

    (inputs,) = problem.sizes
    model = posterior.two_layer(1, inputs, "tanh", bias=False)
    return Case(model, _tanh_data(rng, problem.n, inputs), (inputs + 1) / 2)


def _tanh_data(rng: np.random.Generator, n: int, inputs: int) -> dict[str, np.ndarray]:
    """Outputs A tanh⟨b, x⟩ with unit noise, A and the length of b from 1 to 2."""
    height, length = rng.uniform(1, 2, 2)
    direction = rng.normal(size=inputs)
    x = rng.normal(size=(n, inputs))
    mean = height * np.tanh(length * (x @ direction) / np.linalg.norm(direction))
    return {"x": x, "y": mean + rng.normal(size=n)}


def _linear_network(problem: Bayesian, rng: np.random.Generator) -> Case:
    from phasecast import coefficients, posterior

    sizes = (problem.sizes[0], problem.sizes[-1])
    turns = [np.linalg.qr(rng.normal(size=(size, size)))[0][:, : problem.true] for size in sizes]
    data = posterior.linear_data([turns[0].T, turns[1]], problem.n, seed=problem.draw)  # singular values 1
    truth = float(coefficients.deep_linear(problem.sizes, problem.true).value)
    return Case(posterior.deep_linear(problem.sizes), data, truth)


def _monomial(problem: Bayesian, rng: np.random.Generator) -> Case:
    from phasecast import coefficients, posterior

    powers_of_loss = [2 * power for power in problem.sizes]  # the loss is the square of the mean
    truth = float(coefficients.monomial(powers_of_loss).value)
    return Case(posterior.monomial(problem.sizes), rng.normal(size=problem.n), truth)


def _tanh_units(problem: Bayesian, rng: np.random.Generator) -> Case:
    from phasecast import coefficients, posterior

    (hidden,) = problem.sizes
    model = posterior.two_layer(hidden, 1, "tanh", bias=False)
    if problem.true == 0:
        data = {"x": rng.normal(size=(problem.n, 1)), "y": rng.normal(size=problem.n)}
        return Case(model, data, float(coefficients.tanh(hidden).value))
    return Case(model, _tanh_data(rng, problem.n, 1), float(TWO_AROUND_ONE))


def _mixture(problem: Bayesian, rng: np.random.Generator) -> Case:
    """True components with equal weights, four standard deviations apart along the first axis."""
    from phasecast import coefficients, posterior

    components, dimension = problem.sizes
    data = rng.normal(size=(problem.n, dimension))
    data[:, 0] += 4 * (rng.integers(0, problem.true, problem.n) - (problem.true - 1) / 2)
    truth = float(coefficients.mixture(components, problem.true, dimension).value)
    return Case(posterior.mixture(components, dimension), data, truth)


CASES: dict[str, Callable[[Bayesian, np.random.Generator], Case]] = {
    "linear regression": _linear_regression,
    "logistic regression": _logistic_regression,
    "Poisson regression": _poisson_regression,
    "one tanh unit": _one_tanh_unit,
    "linear network": _linear_network,
    "monomial": _monomial,
    "tanh units": _tanh_units,
    "mixture": _mixture,
}
TRUTHS = {
    "linear network": " of true rank {}",
    "tanh units": " around {} true",
    "mixture": " around {} true",
}
KNOWN = "exact λ"
FAMILIES = (
    Family("rlct-regular", "posterior.rlct", "d/2", regular, judge, 20, 1),
    Family("rlct-linear", "posterior.rlct", KNOWN, linear_network, judge, 20, 1),
    Family(
        "rlct-singular",
        "posterior.rlct",
        KNOWN,
        singular,
        judge,
        12,
        1,
        refusing="with logarithms λ̂ at any n that can be sampled is far from λ, and narrow valleys make NUTS diverge",
    ),
)
