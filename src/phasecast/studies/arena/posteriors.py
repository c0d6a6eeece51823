"""Is the λ̂ of a Bayesian model its λ? One data set, as a user has it, of models whose λ is known exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasecast.studies.arena.family import Family, Outcome, log_uniform


@dataclass(frozen=True)
class Bayesian:
    """A model of the zoo, with n observations of a truth drawn from a seed."""

    kind: str
    sizes: tuple[int, ...]
    rank: int
    n: int
    draw: int

    def __str__(self) -> str:
        rank = f" of true rank {self.rank}" if self.kind == "linear network" else ""
        return f"{self.kind} {'-'.join(map(str, self.sizes))}{rank}, n = {self.n}, data drawn with {self.draw}"


def _drawn(rng: np.random.Generator, kind: str, sizes: tuple[int, ...], rank: int, low: int, high: int) -> Bayesian:
    return Bayesian(kind, sizes, rank, round(log_uniform(rng, low, high)), int(rng.integers(2**31)))


def regular(rng: np.random.Generator) -> Bayesian:
    """Linear regression with one to six inputs and one or two outputs."""
    sizes = (int(rng.integers(1, 7)), int(rng.integers(1, 3)))
    return _drawn(rng, "linear regression", sizes, 0, 100, 5000)


def linear_network(rng: np.random.Generator) -> Bayesian:
    """Two or three factors of widths up to four, of any true rank."""
    sizes = tuple(int(size) for size in rng.integers(1, 5, int(rng.integers(3, 5))))
    return _drawn(rng, "linear network", sizes, int(rng.integers(0, min(sizes) + 1)), 300, 10_000)


def singular(rng: np.random.Generator) -> Bayesian:
    """A product of powers at zero, or tanh units around zero: half of them have logarithms."""
    if rng.random() < 0.5:
        powers = tuple(int(power) for power in rng.integers(1, 4, int(rng.integers(1, 4))))
        return _drawn(rng, "monomial", powers, 0, 200, 5000)
    return _drawn(rng, "tanh units", (int(rng.integers(1, 4)),), 0, 100, 1000)


def judge(problem: Bayesian, seed: int) -> Outcome:
    """λ̂ with the defaults of ``rlct``."""
    from phasecast import coefficients, posterior

    rng, n = np.random.default_rng(problem.draw), problem.n
    if problem.kind == "linear regression":
        inputs, outputs = problem.sizes
        model, truth = posterior.linear(inputs, outputs), inputs * outputs / 2
        data = posterior.linear_data([rng.normal(size=(outputs, inputs))], n, seed=problem.draw)
    elif problem.kind == "linear network":
        inputs, outputs = problem.sizes[0], problem.sizes[-1]
        model = posterior.deep_linear(problem.sizes)
        truth = float(coefficients.deep_linear(problem.sizes, problem.rank).value)
        turns = [np.linalg.qr(rng.normal(size=(size, size)))[0][:, : problem.rank] for size in (inputs, outputs)]
        data = posterior.linear_data([turns[0].T, turns[1]], n, seed=problem.draw)  # singular values 1
    elif problem.kind == "monomial":
        model, truth = posterior.monomial(problem.sizes), float(coefficients.monomial(_doubled(problem.sizes)).value)
        data = rng.normal(size=n)
    else:
        (hidden,) = problem.sizes
        model = posterior.two_layer(hidden, 1, "tanh", bias=False)
        truth = float(coefficients.tanh(hidden).value)
        data = {"x": rng.normal(size=(n, 1)), "y": rng.normal(size=n)}
    return Outcome.of(posterior.rlct(model, data, seed=seed), truth, str(problem))


def _doubled(powers: tuple[int, ...]) -> list[int]:
    """Powers of the loss, which is the square of the mean."""
    return [2 * power for power in powers]


KNOWN = "exact λ"
FAMILIES = (
    Family("rlct-regular", "posterior.rlct", "d/2", regular, judge, 10, 1),
    Family("rlct-linear", "posterior.rlct", KNOWN, linear_network, judge, 10, 1),
    Family(
        "rlct-singular",
        "posterior.rlct",
        KNOWN,
        singular,
        judge,
        8,
        1,
        refusing="with logarithms λ̂ at any n that can be sampled is far from λ, and narrow valleys make NUTS diverge",
    ),
)
