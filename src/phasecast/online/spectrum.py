"""How is the variance of the inputs spread over directions? Power laws, any eigenvalues, a covariance, or data.

.. math:: \\lambda_l = \\lambda_+\\, l^{-(1+\\beta)}, \\qquad \\frac1L \\sum_l \\lambda_l = 1

(Worschech & Rosenow 2024, eq. 1). A spectrum has L distinct eigenvalues; mode l holds the share w_l of the inputs,
1/L each in the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput, whole_number
from phasecast.figures.style import styled

if TYPE_CHECKING:
    from phasecast.figures.drawing import Drawing

FEWEST_TO_FIT = 8  # chosen, not derived: two eigenvalues beyond the shortest default range, ranks 2 to 6


@dataclass(frozen=True)
class ExponentFit:
    """β of the line through log λ over log l, between two ranks.

    ``spread`` is half the difference between the slopes of the two halves of the range (in log l): how far the spectrum
    is from one power law. It is not a standard error.
    """

    exponent: float
    spread: float
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class Spectrum:
    """L distinct eigenvalues of the input covariance, largest first, and the share of the inputs that each holds.

    Parameters
    ----------
    eigenvalues: shape (L,), positive.
    weights: shape (L,), sums to one; defaults to equal shares.
    exponent: β, if the spectrum is a power law.
    basis: shape (N, N), one eigenvector per column, if the spectrum comes from a covariance.
    scale: the factor that the eigenvalues were divided by to have mean one.

    >>> round(Spectrum.power_law(10, 0.25).largest, 7)
    4.2135804
    """

    eigenvalues: np.ndarray
    weights: np.ndarray = field(default_factory=lambda: np.empty(0))
    exponent: float | None = None
    basis: np.ndarray | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        values = np.array(self.eigenvalues, dtype=float)
        if values.ndim != 1 or not values.size:
            raise BadInput(f"eigenvalues of shape {values.shape}", "give a list of at least one")
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise BadInput("an eigenvalue is not a positive number", "leave out directions without variance")
        shares = np.array(self.weights, dtype=float)
        shares = shares if shares.size else np.full(values.size, 1 / values.size)
        if shares.shape != values.shape or not (shares > 0).all() or abs(shares.sum() - 1) > 1e-9:
            raise BadInput(
                "the weights are not shares of the inputs", "give one positive number per mode, with sum one"
            )
        order = np.argsort(-values, kind="stable")
        if self.basis is not None and (order != np.arange(values.size)).any():
            raise BadInput("eigenvalues with a basis are not sorted", "give the largest first")
        object.__setattr__(self, "eigenvalues", values[order])
        object.__setattr__(self, "weights", shares[order])

    @classmethod
    def power_law(cls, modes: int, exponent: float) -> Spectrum:
        """λ_l ∝ l^{−(1+β)} with mean one, ``exponent`` being β."""
        modes = whole_number("modes", modes, 1)
        if not (math.isfinite(exponent) and exponent > 0):
            raise BadInput(f"the exponent β is {exponent}", "use β > 0; the eigenvalues fall like l^−(1+β)")
        values = np.arange(1, modes + 1, dtype=float) ** -(1 + exponent)
        if values[-1] == 0:
            raise BadInput(f"the smallest of {modes} eigenvalues underflows", "use a smaller exponent")
        return cls(values / values.mean(), exponent=float(exponent))

    @classmethod
    def from_covariance(cls, covariance: ArrayLike, *, normalise: bool = True) -> Spectrum:
        """The eigenvalues of a covariance matrix, with their basis; divided by their mean if ``normalise``."""
        matrix = np.array(covariance, dtype=float)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise BadInput(f"a covariance of shape {matrix.shape}", "give a square matrix")
        if not np.isfinite(matrix).all() or abs(matrix - matrix.T).max() > 1e-8 * max(abs(matrix).max(), 1e-300):
            raise BadInput("the covariance is not symmetric and finite", "give (A + Aᵀ)/2 if it is only rounding")
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        values, vectors = values[::-1], vectors[:, ::-1]
        rounding = values.size * np.finfo(float).eps * abs(values).max()
        if values[-1] < -10 * rounding:
            raise BadInput(f"the covariance has the negative eigenvalue {values[-1]:.3g}", "give a covariance")
        if values[-1] <= rounding:
            raise BadInput(
                f"{np.sum(values <= rounding)} directions have no variance",
                "project them out, or give more rows of data",
            )
        scale = float(values.mean()) if normalise else 1.0
        return cls(values / scale, basis=vectors, scale=scale)

    @classmethod
    def from_data(cls, data: ArrayLike, *, normalise: bool = True, centre: bool = True) -> Spectrum:
        """The spectrum of the sample covariance of rows of data; constant columns must be left out before."""
        rows = np.asarray(data, dtype=float)
        if rows.ndim != 2 or rows.shape[0] < 2:
            raise BadInput(f"data of shape {rows.shape}", "give a matrix with one example per row")
        if not np.isfinite(rows).all():
            raise BadInput("the data has values that are not finite", "leave out or fill in those examples")
        if rows.shape[0] <= rows.shape[1]:
            raise BadInput(
                f"{rows.shape[0]} examples of {rows.shape[1]} features leave directions without variance",
                "give more examples than features",
            )
        rows = rows - rows.mean(axis=0) if centre else rows
        return cls.from_covariance(rows.T @ rows / (len(rows) - centre), normalise=normalise)

    @property
    def modes(self) -> int:
        return self.eigenvalues.size

    @property
    def largest(self) -> float:
        """λ₊."""
        return float(self.eigenvalues[0])

    def moment(self, order: int) -> float:
        """Tr Σˡ / N = Σ_k w_k λ_kˡ."""
        return float(self.weights @ self.eigenvalues**order)

    def inputs_per_mode(self, inputs: int) -> np.ndarray:
        """How many of N inputs each mode holds; these must be whole numbers."""
        inputs = whole_number("inputs", inputs, 1)
        counts = self.weights * inputs
        if abs(counts - np.rint(counts)).max() > 1e-6 or counts.min() < 0.5:
            raise BadInput(
                f"{inputs} inputs cannot be shared out over {self.modes} modes",
                f"use a multiple of {self.modes}" if np.ptp(self.weights) < 1e-12 else "fit N to the weights",
            )
        return np.rint(counts).astype(int)

    def fit(self, first: int | None = None, last: int | None = None) -> ExponentFit:
        """β by least squares of log λ on log l, every rank weighted by 1/l so that each decade counts alike.

        The range is ranks 2 to L/3 by default: the first eigenvalue of real data is often apart, and the last ones of a
        sample covariance are too small.
        """
        if self.modes < FEWEST_TO_FIT:
            raise BadInput(f"{self.modes} eigenvalues are too few to fit β", f"use at least {FEWEST_TO_FIT}")
        first, last = 2 if first is None else first, max(self.modes // 3, 6) if last is None else last
        if not 1 <= first < last - 2 or last > self.modes:
            raise BadInput(f"cannot fit ranks {first} to {last} of {self.modes}", "use 1 ≤ first < last − 2")
        middle = math.sqrt(first * last)
        low, high = self._slope(first, max(round(middle), first + 1)), self._slope(min(round(middle), last - 1), last)
        return ExponentFit(-self._slope(first, last) - 1, abs(low - high) / 2, first, last)

    def _slope(self, first: int, last: int) -> float:
        ranks = np.arange(first, last + 1)
        weights = 1 / np.sqrt(ranks)  # polyfit squares them
        return float(np.polyfit(np.log(ranks), np.log(self.eigenvalues[first - 1 : last]), 1, w=weights)[0])

    @styled
    def figure(self) -> Drawing:
        """The eigenvalues over their rank on logarithmic axes, with the fitted power law dashed."""
        from phasecast.figures.drawing import COLOURS, blank, legend

        figure, ((axes,),) = blank(width=5.0, height=3.6)
        ranks = np.arange(1, self.modes + 1)
        axes.loglog(ranks, self.eigenvalues, "o", ms=3, color=COLOURS[0], label="eigenvalues")
        if self.modes >= FEWEST_TO_FIT:
            fit = self.fit()
            line = ranks[fit.first - 1 : fit.last]
            anchor = np.log(self.eigenvalues[line - 1]) + (1 + fit.exponent) * np.log(line)
            label = f"β = {fit.exponent:.3f} (ranks {fit.first} to {fit.last})"
            axes.loglog(line, np.exp(anchor.mean()) * line ** -(1 + fit.exponent), "--", color=COLOURS[1], label=label)
        axes.set_xlabel("rank l")
        axes.set_ylabel("eigenvalue λ")
        legend(axes)
        return figure

    def plain(self) -> dict[str, Any]:
        """For other programs."""
        fitted = self.fit() if self.modes >= FEWEST_TO_FIT and self.exponent is None else None
        return {
            "modes": self.modes,
            "exponent": self.exponent if fitted is None else fitted.exponent,
            "exponent_spread": None if fitted is None else fitted.spread,
            "largest": self.largest,
            "smallest": float(self.eigenvalues[-1]),
            "scale": self.scale,
        }
