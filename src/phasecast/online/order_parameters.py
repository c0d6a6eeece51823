"""What describes a student and a teacher completely, as far as online learning goes? Their overlaps in each mode.

With P_k the projector on the k-th eigenspace of the covariance, of dimension N_k,

.. math:: R[k] = J P_k B^\\top / N_k, \\qquad Q[k] = J P_k J^\\top / N_k, \\qquad T[k] = B P_k B^\\top / N_k

close among themselves. The moments of the paper are their sums :math:`R^{(l)} = \\sum_k w_k \\lambda_k^l R[k]`, with
w_k = N_k/N; going back from moments to modes inverts a Vandermonde matrix, which is impossible in float64 beyond
ten modes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.results import Result
from phasecast.online.spectrum import Spectrum

SYMMETRY = 1e-9  # relative asymmetry of an overlap matrix; rounding is below 1e-12, so more is a mistake of the caller


class Moments(NamedTuple):
    """R^(l), Q^(l) and T^(l) of one order l."""

    R: np.ndarray
    Q: np.ndarray
    T: np.ndarray


@dataclass(frozen=True, eq=False)
class OrderParameters(Result):
    """The overlaps of K student and M teacher units in each of L modes.

    Parameters
    ----------
    R: shape (L, K, M), student with teacher.
    Q: shape (L, K, K), student with student.
    T: shape (L, M, M), teacher with teacher.
    """

    R: np.ndarray
    Q: np.ndarray
    T: np.ndarray

    def __post_init__(self) -> None:
        for name in ("R", "Q", "T"):
            value = np.array(getattr(self, name), dtype=float)
            if value.ndim != 3:
                raise BadInput(f"{name} has shape {value.shape}", "use (L,K,M), (L,K,K) and (L,M,M) for R, Q and T")
            if not np.isfinite(value).all():
                raise BadInput(f"{name} has values that are not finite", "give real overlaps")
            object.__setattr__(self, name, value)
        modes, students, teachers = self.R.shape
        if self.Q.shape != (modes, students, students) or self.T.shape != (modes, teachers, teachers):
            raise BadInput(
                f"shapes {self.R.shape}, {self.Q.shape}, {self.T.shape} of R, Q, T do not fit",
                "use (L,K,M), (L,K,K) and (L,M,M)",
            )
        for name in ("Q", "T"):
            value = getattr(self, name)
            if abs(value - value.swapaxes(1, 2)).max() > SYMMETRY * max(abs(value).max(), 1e-300):
                raise BadInput(f"{name} is not symmetric", "overlaps of the same units are")

    @classmethod
    def draw(
        cls, students: int, teachers: int, spectrum: Spectrum, *, inputs: int, sigma: float, seed: int = 0
    ) -> OrderParameters:
        """Overlaps of random weights: teachers with variance one, students with standard deviation ``sigma`` (σ_J)."""
        J, B = draw_weights(students, teachers, inputs, sigma, seed)
        return cls.from_weights(J, B, spectrum, rotate=False)

    @classmethod
    def from_weights(cls, J: ArrayLike, B: ArrayLike, spectrum: Spectrum, *, rotate: bool = True) -> OrderParameters:
        """Overlaps of weights J of shape (K, N) and B of shape (M, N).

        Where the spectrum has a basis the weights are taken to be in the coordinates of the data and are rotated;
        otherwise the covariance is diagonal, the largest eigenvalue first.
        """
        J, B = (np.atleast_2d(np.asarray(weights, dtype=float)) for weights in (J, B))
        if J.ndim != 2 or B.ndim != 2 or J.shape[1] != B.shape[1]:
            raise BadInput(f"weights of shapes {J.shape} and {B.shape}", "use (K, N) and (M, N)")
        counts = spectrum.inputs_per_mode(J.shape[1])
        if spectrum.basis is not None and rotate:
            J, B = J @ spectrum.basis, B @ spectrum.basis
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])

        def overlap(left: np.ndarray, right: np.ndarray) -> np.ndarray:
            products = np.einsum("in,jn->nij", left, right) if left.size * len(right) < 5e7 else None
            if products is not None:
                return np.add.reduceat(products, starts, axis=0) / counts[:, None, None]
            parts = [left[:, s : s + c] @ right[:, s : s + c].T / c for s, c in zip(starts, counts, strict=True)]
            return np.stack(parts)

        Q, T = overlap(J, J), overlap(B, B)
        return cls(overlap(J, B), (Q + Q.swapaxes(1, 2)) / 2, (T + T.swapaxes(1, 2)) / 2)

    @classmethod
    def infinite(cls, students: int, teachers: int, spectrum: Spectrum, *, sigma: float) -> OrderParameters:
        """The values that random weights have on average, and for N/L → ∞ exactly: R = 0, Q = σ_J²·1, T = 1.

        For more than one student this point is symmetric under exchanging units, and so is everything after it: the
        curve never leaves the plateau. Draw finite weights to see the escape.
        """
        students, teachers = whole_number("students", students, 1), whole_number("teachers", teachers, 1)
        _check_sigma(sigma)
        modes = spectrum.modes
        unit = np.ones((modes, 1, 1))
        return cls(np.zeros((modes, students, teachers)), sigma**2 * unit * np.eye(students), unit * np.eye(teachers))

    @property
    def shape(self) -> tuple[int, int, int]:
        """(L, K, M)."""
        return self.R.shape  # pyright: ignore[reportReturnType]

    def moment(self, order: int, spectrum: Spectrum) -> Moments:
        """The paper's R^(l), Q^(l), T^(l)."""
        self.check_modes(spectrum)
        weights = spectrum.weights * spectrum.eigenvalues ** whole_number("order", order, 0)
        return Moments(*(np.tensordot(weights, part, axes=1) for part in (self.R, self.Q, self.T)))

    def check_modes(self, spectrum: Spectrum) -> None:
        if self.shape[0] != spectrum.modes:
            raise BadInput(f"order parameters of {self.shape[0]} modes, a spectrum of {spectrum.modes}", "use one L")

    def factors(self) -> tuple[np.ndarray, np.ndarray]:
        """Vectors with these overlaps: J of shape (L, K, r) and B of shape (L, M, r), r the largest rank in a mode.

        They exist where every mode's Gram matrix of all units is positive semidefinite; otherwise bad input.
        """
        _, students, teachers = self.shape
        sizes = [np.sqrt(np.mean(np.diagonal(part, axis1=1, axis2=2))) for part in (self.Q, self.T)]
        scale = np.repeat([size if size > 0 else 1.0 for size in sizes], [students, teachers])
        gram = np.block([[self.Q, self.R], [self.R.swapaxes(1, 2), self.T]]) / np.outer(scale, scale)
        values, vectors = np.linalg.eigh(gram)
        largest = max(values.max(), 1e-300)
        if values.min() < -1e-9 * largest:
            raise BadInput(
                f"no weights have these overlaps (a Gram matrix has the eigenvalue {values.min():.2g})",
                "use |R|² ≤ QT in every mode",
            )
        rank = max(int(np.max(np.sum(values > 1e-13 * largest, axis=1))), 1)
        roots = vectors[:, :, -rank:] * np.sqrt(np.clip(values[:, None, -rank:], 0, None)) * scale[:, None]
        return roots[:, :students], roots[:, students:]

    def plain(self) -> dict[str, Any]:
        return {"R": self.R.tolist(), "Q": self.Q.tolist(), "T": self.T.tolist()}

    def _rows(self) -> list[tuple[str, str]]:
        modes, students, teachers = self.shape
        return [("modes", str(modes)), ("students", str(students)), ("teachers", str(teachers))]


def draw_weights(students: int, teachers: int, inputs: int, sigma: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random weights J ~ N(0, σ_J²) of shape (K, N) and B ~ N(0, 1) of shape (M, N)."""
    students, teachers = whole_number("students", students, 1), whole_number("teachers", teachers, 1)
    inputs = whole_number("inputs", inputs, 1)
    _check_sigma(sigma)
    rng = np.random.default_rng(seed)
    return sigma * rng.standard_normal((students, inputs)), rng.standard_normal((teachers, inputs))


def moment_variance(order: int, spectrum: Spectrum, inputs: int) -> tuple[float, float]:
    """Variances over random teachers of a diagonal and of an off-diagonal entry of T^(l).

    .. math:: \\mathrm{Var}\\, T^{(l)}_{nm} = \\frac{1 + \\delta_{nm}}{N} \\sum_k w_k \\lambda_k^{2l}

    The paper prints λ² for λ^{2l} (section 5.1.1). With L = N and λ₊ ∝ L it does not vanish for large N: plateaus
    differ between draws.
    """
    off = spectrum.moment(2 * whole_number("order", order, 0)) / whole_number("inputs", inputs, 1)
    return 2 * off, off


def _check_sigma(sigma: float) -> None:
    if not (np.isfinite(sigma) and sigma >= 0):
        raise BadInput(f"σ_J is {sigma}", "give a standard deviation ≥ 0")
