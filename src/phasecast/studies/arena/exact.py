"""Are the closed forms of λ right on random inputs? Monomials, polynomials and networks, by other derivations.

A sum of even monomials with positive coefficients behaves, in coordinates x_i = e^{-u_i}, like its largest term, so
that the volume below ε is

.. math:: \\int e^{-\\sum_i u_i}\\, 1[\\min_\\alpha \\alpha \\cdot u \\ge \\log 1/\\varepsilon]\\,du

and λ is the solution of a linear programme: min Σu with α·u ≥ 1 for all exponents α, and u ≥ 0. It is the dual of what
``newton`` solves, here in floats and by another solver.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from phasecast.studies.arena.family import Family, Outcome

LINEAR_PROGRAMME_ERROR = 1e-9  # scipy's solver works in floats


@dataclass(frozen=True)
class Powers:
    """A product of powers and the powers of a prior density."""

    powers: tuple[int, ...]
    prior: tuple[int, ...]

    def __str__(self) -> str:
        prior = f" under a prior with powers {list(self.prior)}" if any(self.prior) else ""
        return f"monomial with powers {list(self.powers)}{prior}"


def powers(rng: np.random.Generator) -> Powers:
    """One to five variables; half of the problems have a prior. Powers up to 4 are 96 where the prior is flat."""
    count = int(rng.integers(1, 6))
    exponents = rng.integers(0, 5, count)
    exponents[rng.integers(count)] = rng.integers(1, 5)
    prior = rng.integers(0, 4, count) * (rng.random() < 0.5)
    return Powers(tuple(map(int, exponents)), tuple(map(int, prior)))


def judge_monomial(problem: Powers, seed: int) -> Outcome:
    """Against the Newton polyhedron, with x_i = u_i^(1/(h_i+1)), which makes the prior flat."""
    from phasecast.coefficients import monomial, newton

    answer = monomial(problem.powers, problem.prior)
    common = 2 * math.lcm(*(h + 1 for h in problem.prior))  # even powers: newton wants K ≥ 0
    flat = [a * common // (h + 1) for a, h in zip(problem.powers, problem.prior, strict=True)]
    text = "*".join(f"x{i}**{power}" for i, power in enumerate(flat) if power)
    known = newton(text)
    truth = known.fraction * common
    same = answer.multiplicity == known.multiplicity
    return exact_outcome(answer.fraction if same else math.nan, truth, str(problem))


def exact_outcome(answer: Fraction | float, truth: Fraction | float, words: str) -> Outcome:
    """Of an answer without error: NaN where something beside the number is wrong."""
    estimate = math.inf if answer != answer else answer  # NaN
    return Outcome("ok", float(estimate), 0.0, float(truth), words=words)


@dataclass(frozen=True)
class EvenPolynomial:
    """A sum of even monomials with positive coefficients."""

    exponents: tuple[tuple[int, ...], ...]
    coefficients: tuple[int, ...]

    @property
    def text(self) -> str:
        terms = []
        for coefficient, alpha in zip(self.coefficients, self.exponents, strict=True):
            parts = [f"x{i}**{power}" for i, power in enumerate(alpha) if power]
            terms.append("*".join([str(coefficient), *parts]))
        return " + ".join(terms)

    def __str__(self) -> str:
        return f"K = {self.text}"

    def coefficient(self) -> float:
        """λ by the linear programme above."""
        from scipy.optimize import linprog

        rows = np.array(self.exponents, dtype=float)
        solved = linprog(np.ones(rows.shape[1]), A_ub=-rows, b_ub=-np.ones(len(rows)), bounds=(0, None))
        return float(solved.fun)


def polynomial(rng: np.random.Generator, variables: int | None = None) -> EvenPolynomial:
    """Two to four variables, two to five terms."""
    count = int(rng.integers(2, 5)) if variables is None else variables
    while True:
        drawn = 2 * rng.integers(0, 5, (int(rng.integers(2, 6)), count))
        exponents = {tuple(map(int, row)) for row in drawn if row.any()}
        if len(exponents) >= 2 and all(any(alpha[i] for alpha in exponents) for i in range(count)):
            coefficients = tuple(int(c) for c in rng.integers(1, 6, len(exponents)))
            return EvenPolynomial(tuple(sorted(exponents)), coefficients)


def judge_newton(problem: EvenPolynomial, seed: int) -> Outcome:
    from phasecast.coefficients import newton

    answer = newton(problem.text)
    status = "ok" if answer.kind == "exact" else "warning"
    return Outcome(status, float(answer.value), 0.0, problem.coefficient(), LINEAR_PROGRAMME_ERROR)


@dataclass(frozen=True)
class PolynomialNetwork:
    """A network whose λ at a generic true parameter is half the rank of its outputs' derivative."""

    kind: str
    sizes: tuple[int, ...]
    centred: bool
    draw: int

    def __str__(self) -> str:
        centred = ", centred" if self.centred else ""
        return f"{self.kind} {'-'.join(map(str, self.sizes))}{centred}, parameters drawn with {self.draw}"


def network(rng: np.random.Generator) -> PolynomialNetwork:
    """Products of matrices at full rank, quadratic networks, and quadratic networks that add modulo p."""
    kind = str(rng.choice(["product", "quadratic", "addition"]))
    if kind == "product":
        sizes = rng.integers(1, 6, int(rng.integers(2, 6)))
    elif kind == "quadratic":
        sizes = [rng.integers(1, 6), rng.integers(1, 5), rng.integers(1, 9)]
    else:
        sizes = [rng.choice([3, 5, 7]), rng.integers(1, 13)]
    draw = int(rng.integers(2**31))
    return PolynomialNetwork(kind, tuple(int(s) for s in sizes), kind == "addition" and bool(rng.integers(2)), draw)


def judge_network(problem: PolynomialNetwork, seed: int) -> Outcome:
    """Against the exact rank of the Jacobian at integer parameters."""
    import jax.numpy as jnp

    from phasecast import coefficients
    from phasecast.models import modular_table

    rng = np.random.default_rng(problem.draw)

    def integers(*shape: int) -> np.ndarray:
        return rng.integers(1, 10, shape) * rng.choice([-1, 1], shape)

    if problem.kind == "product":
        widths = problem.sizes
        answer = coefficients.deep_linear(widths, min(widths))
        weights = [integers(*shape) for shape in itertools.pairwise(widths)]
        inputs = np.eye(widths[0])

        def outputs(params, x):
            for factor in params:
                x = x @ factor
            return x

    else:
        if problem.kind == "quadratic":
            d, p, width = problem.sizes
            answer = coefficients.quadratic(d, p, width)
            inputs = integers(d * (d + 1), d)  # twice as many as quadratic forms have coefficients
        else:
            p, width = problem.sizes
            answer = coefficients.modular_addition(p, width, centred=problem.centred)
            inputs = np.asarray(modular_table(p)[0], dtype=float)
            d = inputs.shape[1]
        weights = [integers(d, width), integers(width, p)]

        def outputs(params, x):
            return jnp.square(x @ params[0]) @ params[1]

    rank = coefficients.jacobian_rank(outputs, weights, inputs, exact=True, centred=problem.centred)
    return exact_outcome(answer.fraction, Fraction(rank.rank, 2), str(problem))


def small_polynomial(rng: np.random.Generator) -> EvenPolynomial:
    """Two variables."""
    return polynomial(rng, variables=2)


def _loss(problem: EvenPolynomial):
    import jax.numpy as jnp

    def loss(w):
        terms = [
            c * jnp.prod(jnp.stack([w[i] ** power for i, power in enumerate(alpha)]))
            for c, alpha in zip(problem.coefficients, problem.exponents, strict=True)
        ]
        return sum(terms, start=jnp.zeros(()))

    return loss


def judge_volumes(problem: EvenPolynomial, seed: int) -> Outcome:
    """With the multiplicity where it is not one: without it a logarithm is refused, as it should be."""
    from phasecast.coefficients import newton, volume_scaling
    from phasecast.core.problem import Problem

    multiplicity = newton(problem.text).multiplicity
    given = multiplicity if multiplicity != 1 else None
    answer = volume_scaling(Problem(_loss(problem), np.zeros(2)), multiplicity=given, seed=seed)
    words = f"{problem}, multiplicity {given} given" if given else str(problem)
    return Outcome.of(answer, problem.coefficient(), words)


def judge_quadrature(problem: EvenPolynomial, seed: int) -> Outcome:
    from phasecast.coefficients import temperature_quadrature
    from phasecast.core.problem import Problem

    answer = temperature_quadrature(Problem(_loss(problem), np.zeros(2)))
    return Outcome.of(answer, problem.coefficient(), str(problem))


SOLVED = "a linear programme in logarithmic coordinates"
FAMILIES = (
    Family("exact-monomials", "coefficients.monomial", "Newton polyhedra", powers, judge_monomial, 30, 6, exact=True),
    Family("exact-newton", "coefficients.newton", SOLVED, polynomial, judge_newton, 30, 6, exact=True),
    Family(
        "exact-networks",
        "coefficients.deep_linear, quadratic, modular_addition",
        "exact ranks of Jacobians at integer parameters",
        network,
        judge_network,
        30,
        6,
        exact=True,
    ),
    Family("exact-volumes", "coefficients.volume_scaling", SOLVED, small_polynomial, judge_volumes, 24, 3),
    Family(
        "exact-quadrature", "coefficients.temperature_quadrature", SOLVED, small_polynomial, judge_quadrature, 24, 3
    ),
)
