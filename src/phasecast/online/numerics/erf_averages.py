"""What are the Gaussian averages of erf units? I2, I3, I4 of Saad & Solla 1995, in closed form.

With g(x) = erf(x/√2), C the covariance of (z₁, …), for the numbered variables

.. math::
   I_2 &= \\langle g(z_1) g(z_2)\\rangle = \\tfrac2\\pi \\arcsin\\frac{C_{12}}{\\sqrt{(1+C_{11})(1+C_{22})}} \\\\
   I_3 &= \\langle g'(z_1) z_2 g(z_3)\\rangle
        = \\tfrac2\\pi \\frac{C_{23}(1+C_{11}) - C_{12}C_{13}}{(1+C_{11})\\sqrt{(1+C_{11})(1+C_{33}) - C_{13}^2}} \\\\
   I_4 &= \\langle g'(z_1) g'(z_2) g(z_3) g(z_4)\\rangle
        = \\tfrac4{\\pi^2} \\frac1{\\sqrt{A_4}} \\arcsin\\frac{V_{34}}{\\sqrt{(1+V_{33})(1+V_{44})}}

with A₄ = (1+C₁₁)(1+C₂₂) − C₁₂² and V the covariance of z₃, z₄ given that z₁ and z₂ plus unit noise are zero:
V = C_{34,34} − C_{34,12}(1 + C_{12,12})⁻¹C_{12,34}. That is eq. 91 with corrected signs: A₀ = A₄V₃₄ and
A₁ = A₄(1+V₃₃).
Repeated indices need no special treatment. The functions take NumPy or JAX arrays.
"""

from __future__ import annotations

import math

import numpy as np

from phasecast.core.types import Array


def i2(C: Array) -> Array:
    """⟨g(z₁)g(z₂)⟩ for covariances of shape (…, 2, 2)."""
    xp = C.__array_namespace__()
    return 2 / math.pi * xp.arcsin(C[..., 0, 1] / xp.sqrt((1 + C[..., 0, 0]) * (1 + C[..., 1, 1])))


def i3(C: Array) -> Array:
    """⟨g'(z₁)z₂g(z₃)⟩ for covariances of shape (…, 3, 3)."""
    xp = C.__array_namespace__()
    one = 1 + C[..., 0, 0]
    root = xp.sqrt(one * (1 + C[..., 2, 2]) - C[..., 0, 2] ** 2)
    return 2 / math.pi * (C[..., 1, 2] * one - C[..., 0, 1] * C[..., 0, 2]) / (one * root)


def i4(C: Array) -> Array:
    """⟨g'(z₁)g'(z₂)g(z₃)g(z₄)⟩ for covariances of shape (…, 4, 4)."""
    xp = C.__array_namespace__()
    a, b, c = 1 + C[..., 0, 0], 1 + C[..., 1, 1], C[..., 0, 1]
    A4 = a * b - c**2

    def given(n: int, m: int) -> Array:
        first, second = C[..., 0, n], C[..., 1, n]
        one, two = C[..., 0, m], C[..., 1, m]
        return C[..., n, m] - (b * first * one + a * second * two - c * (first * two + second * one)) / A4

    sine = given(2, 3) / xp.sqrt((1 + given(2, 2)) * (1 + given(3, 3)))
    return 4 / math.pi**2 * xp.arcsin(sine) / xp.sqrt(A4)


def i4_contraction(C: Array, coefficients: Array, students: int) -> Array:
    """S_ij = Σ_ab c_a c_b I4(x_i, x_j, z_a, z_b) over all units z = (x, y), shape (K, K).

    ``C`` is the covariance (K+M, K+M) of all units, the K students first. One conditional covariance serves a whole
    pair (i, j), and only i ≤ j and a ≤ b are computed: about K²(K+M)²/4 arcsines, without a table of 4 × 4 covariances.
    """
    xp, units = C.__array_namespace__(), C.shape[0]
    rows, columns = np.triu_indices(students)
    a, b = 1 + C[rows, rows], 1 + C[columns, columns]
    c = C[rows, columns]
    A4 = a * b - c**2
    first, second = C[rows], C[columns]  # (pairs, units)
    # V_ab of a pair is C_ab − (b u_a u_b + a v_a v_b − c(u_a v_b + v_a u_b))/A4
    left_u = (b[:, None] * first - c[:, None] * second) / A4[:, None]
    left_v = (a[:, None] * second - c[:, None] * first) / A4[:, None]
    V = C[None] - left_u[:, :, None] * first[:, None, :] - left_v[:, :, None] * second[:, None, :]
    spread = xp.diagonal(C)[None] - left_u * first - left_v * second
    scale = 1 / xp.sqrt(1 + spread)
    upper_a, upper_b = np.triu_indices(units)
    twice = np.where(upper_a == upper_b, 1.0, 2.0) * coefficients[upper_a] * coefficients[upper_b]
    sines = (V * scale[:, :, None] * scale[:, None, :])[:, upper_a, upper_b]
    sums = 4 / math.pi**2 * (xp.arcsin(sines) @ twice) / xp.sqrt(A4)
    pair = np.zeros((students, students), int)  # which of the sums is S_ij
    pair[rows, columns] = pair[columns, rows] = np.arange(rows.size)
    return sums[pair]
