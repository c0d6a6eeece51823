"""The λ that the arena takes from theory, against quadrature and volumes: two tanh units around one, and mixtures."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

import phasecast as pc
from phasecast.core.problem import Problem
from phasecast.studies.arena.posteriors import TWO_AROUND_ONE

FARTHEST = 8.0  # standard deviations of the prior of b; beyond is e⁻³²
DECADES = 9  # of distances to 0 and to B; at nβ = 10¹² nothing changes below 10⁻⁷


def graded(start: float, end: float, panels: int, nodes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss-Legendre panels between two points, in the logarithm of the distance to the first."""
    inner, weights = np.polynomial.legendre.leggauss(nodes)
    edges = np.linspace(-DECADES * math.log(10), 0, panels + 1)
    half = np.diff(edges) / 2
    distance = np.longdouble(end - start) * np.exp((edges[:-1] + half)[:, None] + half[:, None] * inner).ravel()
    return start + distance, np.abs(distance) * (half[:, None] * weights).ravel()


def log_evidence(nbeta: float, height: float, slope: float, panels: int = 16) -> float:
    """log ∫ φ(w) exp(−nβK(w)) dw of two tanh units around one: over a in closed form, over b > 0 by quadrature.

    K is half the mean square over x ~ N(0, 1) without noise. tanh is odd, so b < 0 is b > 0 with another sign of a.
    """
    pieces = [(0.0, slope / 2), (slope, slope / 2), (slope, 2 * slope), (2 * slope, FARTHEST)]
    b, weights = (np.concatenate(part) for part in zip(*[graded(*piece, panels) for piece in pieces], strict=True))
    x, probability = np.polynomial.hermite_e.hermegauss(40)
    probability = probability / probability.sum()
    features, mean = np.tanh(np.outer(b, x)), height * np.tanh(slope * x.astype(np.longdouble))
    gram = nbeta * ((features * probability) @ features.T)  # of long doubles, as all that cancels to a part in nβ
    cross = nbeta * ((features * probability) @ mean)
    first, u = np.diag(gram)[:, None] + 1, cross[:, None]
    second = 1 + np.diag(gram) - gram**2 / first  # of the second unit beside the first
    explained = u**2 / first + (cross - u * gram / first) ** 2 / second
    exponent = (explained - nbeta * np.sum(probability * mean**2) - np.log(first * second)) / 2
    exponent = exponent.astype(float) + np.add.outer(np.log(weights) - b**2 / 2, np.log(weights) - b**2 / 2)
    return float(np.logaddexp.reduce(exponent, axis=None))


def coefficient_at(nbeta: float, height: float, slope: float, panels: int = 16) -> float:
    """−d log Z/d log nβ between nβ/3 and 3nβ."""
    high, low = (log_evidence(nbeta * factor, height, slope, panels) for factor in (3.0, 1 / 3))
    return (low - high) / math.log(9)


@pytest.mark.skipif(bool(np.finfo(np.longdouble).eps > 1e-18), reason="K cancels to a part in nβ: needs long doubles")
@pytest.mark.parametrize(("height", "slope"), [(1.0, 1.0), (2.0, 1.0), (1.5, 2.0)])
def test_two_tanh_units_around_one_have_lambda_five_quarters_without_logarithms(height, slope):
    before, far = (coefficient_at(nbeta, height, slope) for nbeta in (1e11, 1e12))
    limit = float(TWO_AROUND_ONE)
    assert far == pytest.approx(limit, abs=0.005)  # a multiplicity of 2 would leave it 1/log nβ = 0.036 below
    assert (far - limit) / (before - limit) == pytest.approx(10**-0.25, abs=0.15)  # a correction (nβ)^(−1/4)
    assert far == pytest.approx(coefficient_at(1e12, height, slope, panels=24), abs=1e-4)


def mixture_excess(w):
    """χ² of a mixture of two normals to N(0, I), up to third moments of their means: Σ |E m⊗…⊗m|²/k!.

    w has the weight a of the second, the mean u of both and the distance b between them, so that no moment cancels.
    """
    a, (u, b) = jnp.abs(w[0]), jnp.split(w[1:], 2)
    spread = a * (1 - a)
    second = jnp.outer(u, u) + spread * jnp.outer(b, b)
    third = jnp.einsum("i,j,k", u, u, u) + spread * (1 - 2 * a) * jnp.einsum("i,j,k", b, b, b)
    mixed = jnp.einsum("i,j,k", u, b, b)
    third = third + spread * (mixed + mixed.transpose(1, 0, 2) + mixed.transpose(1, 2, 0))
    return jnp.sum(u**2) + jnp.sum(second**2) / 2 + jnp.sum(third**2) / 6


@pytest.mark.parametrize(
    ("dimension", "equivalent"),
    [(1, "u**2 + a**2*b**4"), (2, "u**2 + v**2 + a**2*b**4 + a**2*c**4")],
)
def test_the_newton_polyhedron_of_two_components_around_one_gives_the_exact_lambda(dimension, equivalent):
    exact, polyhedron = pc.coefficients.mixture(2, 1, dimension), pc.coefficients.newton(equivalent)
    assert (polyhedron.value, polyhedron.multiplicity) == (exact.value, exact.multiplicity)
    assert polyhedron.kind == "exact"


@pytest.mark.parametrize(("dimension", "wrong"), [(1, 1.0), (2, 1.0)])
def test_volumes_of_two_components_around_one_have_the_exact_lambda(dimension, wrong):
    exact = pc.coefficients.mixture(2, 1, dimension)
    problem = Problem(mixture_excess, np.zeros(1 + 2 * dimension))
    measured = pc.coefficients.volume_scaling(
        problem, radius=0.3, multiplicity=exact.multiplicity, samples=50_000, blocks=64
    )
    assert measured.status == "ok"
    assert abs(measured.estimate - float(exact.value)) < 4 * measured.error
    assert abs(measured.estimate - wrong) > 4 * measured.error  # ½ and 0 for the spare component, in place of ¼ and ½
