"""Closed Gaussian averages of erf units against plain Monte-Carlo, repeated indices included."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.special import erf

from phasecast.core.precision import float64
from phasecast.online.numerics.erf_averages import i2, i3, i4, i4_contraction

DRAWS = 1_000_000
INDICES = [(0, 1, 2, 3), (0, 0, 1, 2), (0, 1, 0, 1), (0, 0, 0, 0), (0, 1, 1, 1), (2, 3, 3, 0), (1, 1, 2, 2)]


def g(x):
    return erf(x / np.sqrt(2))


def slope(x):
    return np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2)


@pytest.fixture(scope="module")
def covariance():
    root = np.random.default_rng(1).normal(size=(4, 4))
    return root @ root.T / 2


@pytest.fixture(scope="module")
def fields(covariance):
    return np.random.default_rng(2).multivariate_normal(np.zeros(4), covariance, DRAWS).T


@pytest.mark.parametrize("indices", INDICES)
def test_closed_forms_are_the_averages(covariance, fields, indices):
    z = fields[list(indices)]
    C = covariance[np.ix_(indices, indices)]
    samples = (g(z[0]) * g(z[1]), slope(z[0]) * z[1] * g(z[2]), slope(z[0]) * slope(z[1]) * g(z[2]) * g(z[3]))
    with float64():
        closed = (float(i2(C[:2, :2])), float(i3(C[:3, :3])), float(i4(C)))
    for value, sample in zip(closed, samples, strict=True):
        assert abs(sample.mean() - value) < 4.5 * sample.std() / np.sqrt(DRAWS)


def test_the_printed_i4_is_not_the_average(covariance, fields):
    """Eq. 91 as printed: a negative control for the test above."""
    C = covariance
    a4 = (1 + C[0, 0]) * (1 + C[1, 1]) - C[0, 1] ** 2
    a0 = (
        a4 * C[2, 3] + C[1, 2] * C[1, 3] * (1 + C[0, 0]) + C[0, 2] * C[0, 3] * (1 + C[1, 1])
        + C[0, 1] ** 2 * C[0, 2] ** 2 * C[1, 3] ** 2
    )  # fmt: skip
    a1 = a4 * (1 + C[2, 2]) + C[1, 2] * (1 + C[0, 0]) - C[0, 2] * (1 + C[1, 1]) + 2 * C[0, 1] * C[0, 2] * C[1, 2]
    a2 = a4 * (1 + C[3, 3]) - C[1, 3] * (1 + C[0, 0]) - C[0, 3] * (1 + C[1, 1]) + 2 * C[0, 1] * C[0, 3] * C[1, 3]
    printed = 4 / np.pi**2 / np.sqrt(a4) * np.arcsin(a0 / np.sqrt(a1 * a2))
    z = fields
    sample = slope(z[0]) * slope(z[1]) * g(z[2]) * g(z[3])
    assert not abs(sample.mean() - printed) < 20 * sample.std() / np.sqrt(DRAWS)


@pytest.mark.parametrize("students", [1, 2, 3])
def test_the_fused_contraction_is_the_sum_of_i4(students):
    rng = np.random.default_rng(students)
    root = rng.normal(size=(students + 2, 6))
    C, c = root @ root.T / 4, rng.normal(size=students + 2)
    with float64():
        fused = np.asarray(jax.jit(i4_contraction, static_argnums=2)(C, c, students))
        each = jax.jit(jax.vmap(i4))
        for i in range(students):
            for j in range(students):
                every = [(a, b) for a in range(students + 2) for b in range(students + 2)]
                values = np.asarray(each(np.array([C[np.ix_((i, j, a, b), (i, j, a, b))] for a, b in every])))
                total = sum(c[a] * c[b] * value for (a, b), value in zip(every, values, strict=True))
                assert fused[i, j] == pytest.approx(total, rel=1e-12, abs=1e-14)
