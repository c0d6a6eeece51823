"""How high is the plateau, and how fast is it left? The symmetric plateau of a soft committee, and its escape.

While all students are alike, J_i = J, the first-order equations rest where J is a combination of the teachers,

.. math:: J^* = \\sum_m a_m B_m, \\qquad a_m = \\frac{A_m (1+Q)}{M g + \\sum_n A_n R_n}, \\qquad
          A_m = \\frac{2/\\pi}{\\sqrt{(1+Q)(1+T_{mm}) - R_m^2}}, \\quad g = \\frac{2/\\pi}{\\sqrt{1+2Q}}

in every mode at once and for any number of students. Students that differ by δ_i with Σδ_i = 0 drift apart with
dr/dα = (η/K) T^(2) W r, r_n = δ·ΣB_n/N: an M × M matrix, whatever the number of modes. Both are exact for any teacher
Gram matrix; the paper has them for equal teachers (eq. 13, 15, 95-99).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.results import Prediction, Result, show
from phasecast.online.order_parameters import OrderParameters
from phasecast.online.spectrum import Spectrum

SOURCE = "Worschech & Rosenow 2024"


@dataclass(frozen=True, eq=False)
class Plateau(Result):
    """The symmetric fixed point of first order in η.

    Parameters
    ----------
    R: shape (M,), overlap R^(1) of every student with each teacher.
    Q: overlap Q^(1) of any two students, themselves included.
    eps: the generalisation error.
    coefficients: shape (M,), a with J* = Σ a_m B_m.
    """

    R: np.ndarray
    Q: float
    eps: float
    coefficients: np.ndarray

    def moment(self, T: ArrayLike) -> tuple[np.ndarray, float]:
        """R^(l) and Q^(l) on the plateau, from the teachers' T^(l) of the same order (or of one mode)."""
        gram = _gram(T, "T")
        return gram @ self.coefficients, float(self.coefficients @ gram @ self.coefficients)

    def plain(self) -> dict[str, Any]:
        return {"R": self.R.tolist(), "Q": self.Q, "eps": self.eps}

    def _rows(self) -> list[tuple[str, str]]:
        return [("ε", show(self.eps)), ("R", show(self.R)), ("Q", show(self.Q))]


def plateau(T1: ArrayLike) -> Plateau:
    """The symmetric plateau of a teacher Gram matrix T^(1) of shape (M, M), for any number of students.

    >>> at = plateau(np.eye(2))
    >>> round(at.eps, 8), round(at.Q, 6)
    (0.00580542, 0.333333)
    """
    from scipy.optimize import root

    T1 = _gram(T1, "T1")
    teachers = len(T1)
    total = T1.sum() / teachers
    if total <= 1e-12 * np.trace(T1):
        raise BadInput("the teachers cancel each other, so there is no symmetric plateau", "use teachers with ΣB ≠ 0")
    guess = 1 / math.sqrt(teachers * (teachers * (T1.trace() / teachers + 1) - total))

    def gap(a: np.ndarray) -> np.ndarray:
        R, Q = T1 @ a, a @ T1 @ a
        A = 1 / np.sqrt((1 + Q) * (1 + np.diagonal(T1)) - R**2)
        return a * (teachers / np.sqrt(1 + 2 * Q) + A @ R) - A * (1 + Q)

    a = root(gap, np.full(teachers, guess), tol=1e-15).x
    if abs(gap(a)).max() > 1e-10 or a @ T1 @ a <= 0:
        raise BadInput("no symmetric plateau was found for these teachers", "check that T1 is a Gram matrix of units")
    R, Q = T1 @ a, float(a @ T1 @ a)
    t = np.sqrt(1 + np.diagonal(T1))
    sums = (
        np.arcsin(T1 / np.outer(t, t)).sum()
        + teachers**2 * math.asin(Q / (1 + Q))
        - 2 * teachers * np.arcsin(R / (t * math.sqrt(1 + Q))).sum()
    )
    return Plateau(R, Q, float(sums / (math.pi * teachers)), a)


def equal_plateau(teachers: int, T: float = 1.0, D: float = 0.0) -> Plateau:
    """The plateau for equal teachers in closed form: eq. 97, and eq. 99 with D/(M−1) in its second term.

    T is the diagonal of T^(1), D the sum of the other entries of a row.
    """
    M = whole_number("teachers", teachers, 1)
    if T <= 0 or T + D <= 0 or (M == 1 and D != 0):
        raise BadInput(f"teachers with T = {T:g} and D = {D:g}", "use T > 0 and T + D > 0, and D = 0 for one teacher")
    Q = (T + D) / (M * (T + 1) - T - D)
    R = (T + D) / math.sqrt(M * (M * (T + 1) - T - D))
    eps = (
        M * math.asin((T + D) / (M * (T + 1)))
        + math.asin(T / (T + 1))
        + (M - 1) * (math.asin(D / (M - 1) / (T + 1)) if M > 1 else 0.0)
        - 2 * M * math.asin(R / math.sqrt((1 + Q) * (1 + T)))
    ) / math.pi
    return Plateau(np.full(M, R), Q, eps, np.full(M, R / (T + D)))


def escape_rates(T1: ArrayLike, T2: ArrayLike, lr: float, students: int | None = None) -> np.ndarray:
    """Growth rates of the differences between students on the plateau, fastest first: those of (η/K) T^(2) W."""
    T1, T2 = _gram(T1, "T1"), _gram(T2, "T2")
    if T1.shape != T2.shape:
        raise BadInput(f"T1 of shape {T1.shape}, T2 of shape {T2.shape}", "use the same teachers")
    if not (math.isfinite(lr) and lr > 0):
        raise BadInput(f"the learning rate is {lr:g}", "use η > 0")
    teachers = len(T1)
    count = teachers if students is None else whole_number("students", students, 2)
    if count < 2:
        raise BadInput("a single student does not specialise", "use two or more students")
    growth = lr / count * T2 @ response(T1, plateau(T1))
    return np.sort(np.linalg.eigvals(growth).real)[::-1]


def escape_time(T1: ArrayLike, T2: ArrayLike, lr: float, students: int | None = None) -> Prediction[float]:
    """τ, the e-folding time of the differences r between students on the plateau, for any teachers.

    ε is quadratic in r and leaves the plateau with τ/2. For equal teachers it is eq. 15 (:func:`equal_escape_time`).

    >>> spectrum = Spectrum.power_law(10, 0.25)
    >>> round(escape_time(np.eye(4), spectrum.moment(2) * np.eye(4), lr=0.1).value, 3)
    478.106
    """
    fastest = escape_rates(T1, T2, lr, students)[0]
    return Prediction(
        float(1 / fastest) if fastest > 0 else math.inf,
        regime="first order in the learning rate, students alike; ε escapes with half of it",
        source=f"{SOURCE}, eq. 15, for any teacher Gram matrix",
        name="τ",
    )


def equal_escape_time(
    teachers: int, lr: float, *, T1: float = 1.0, D1: float = 0.0, T2: float = 1.0, D2: float = 0.0
) -> float:
    """Eq. 15 (116): the e-folding time of r for M equal teachers and as many students.

    .. math:: \\tau = \\frac{\\pi}{2\\eta}\\,\\frac{\\sqrt{(M-1)T_1 - D_1 + M}\\,(D_1 + (M+1)T_1 + M)^{3/2}}
                                  {(T_2 - D_2/(M-1))(D_1 + T_1)}
    """
    M = whole_number("teachers", teachers, 2)
    root_part = math.sqrt((M - 1) * T1 - D1 + M) * (D1 + (M + 1) * T1 + M) ** 1.5
    return math.pi / (2 * lr) * root_part / ((T2 - D2 / (M - 1)) * (D1 + T1))


def plateaus_of_draws(
    teachers: int, spectrum: Spectrum, *, inputs: int, lr: float, draws: int, seed: int = 0
) -> dict[str, np.ndarray]:
    """Height ε* and escape time τ of the plateau for random teachers: they differ between draws at any N when L = N."""
    pairs = []
    for number in range(whole_number("draws", draws, 1)):
        state = OrderParameters.draw(1, teachers, spectrum, inputs=inputs, sigma=0.0, seed=seed + number)
        T1, T2 = state.moment(1, spectrum).T, state.moment(2, spectrum).T
        tau = float(escape_time(T1, T2, lr, students=max(teachers, 2)))
        pairs.append((plateau(T1).eps, tau))
    eps, tau = np.array(pairs).T
    return {"eps": eps, "tau": tau}


def response(T1: np.ndarray, at: Plateau) -> np.ndarray:
    """W = ∂c/∂r: how the drift Σ c_m B_m of one student changes with its own differences r from the others.

    The others move by −r together, which cancels in the sums over students to first order, so K does not appear.
    """
    a, R, Q, t, teachers = at.coefficients, at.R, at.Q, 1 + np.diagonal(T1), len(T1)
    own = 1 + Q
    A, g = 1 / np.sqrt(own * t - R**2), teachers / math.sqrt(1 + 2 * Q)
    # c = A + a(−g + (gQ − A·R)/own) up to 2/π; with r, own grows by 2a·r, Q by a·r and R by r
    dA = A[:, None] ** 3 * (np.diag(R) - np.outer(t, a))
    dg = -g / (1 + 2 * Q) * a
    dc = -dg + (dg * Q + g * a - R @ dA - A) / own - 2 * a * (g * Q - A @ R) / own**2
    return 2 / math.pi * (dA + np.outer(a, dc))


def _gram(matrix: ArrayLike, name: str) -> np.ndarray:
    gram = np.array(matrix, dtype=float)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not gram.size or not np.isfinite(gram).all():
        raise BadInput(f"{name} of shape {gram.shape} is not a Gram matrix", "give overlaps of shape (M, M)")
    if abs(gram - gram.T).max() > 1e-9 * abs(gram).max() or np.linalg.eigvalsh(gram)[0] < -1e-9 * abs(gram).max():
        raise BadInput(f"{name} is not symmetric and positive semidefinite", "give overlaps of teachers")
    return gram
