"""What is a learning curve? The generalisation error ε over the examples per input α, with the overlaps on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core import codec
from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement, Status
from phasecast.core.statistics import standard_error
from phasecast.online.order_parameters import OrderParameters

if TYPE_CHECKING:
    import pandas as pd


def _empty() -> np.ndarray:
    return np.empty(0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve(Measurement[np.ndarray]):
    """ε over α. ``eps`` raises if the curve is refused; ``estimate`` is always available.

    ``error`` is the numerical error of a solved curve, and the standard error of the mean over draws or seeds.

    Parameters
    ----------
    alpha: shape (n,), examples divided by inputs.
    R1, Q1: shapes (n, K, M) and (n, K, K): the overlaps R^(1), Q^(1) along the curve; empty if unknown.
    T1: shape (M, M): the teacher's overlaps, which are constant.
    final: all overlaps at the last α, to continue from.
    """

    alpha: np.ndarray = field(default_factory=_empty)
    R1: np.ndarray = field(default_factory=_empty)
    Q1: np.ndarray = field(default_factory=_empty)
    T1: np.ndarray = field(default_factory=_empty)
    final: OrderParameters | None = None

    @property
    def eps(self) -> np.ndarray:
        """The generalisation error at each α, if we would defend it."""
        return np.asarray(self.value)

    @property
    def specialisation(self) -> np.ndarray:
        """Shape (n,): mean over teachers of the best normalised overlap with a student, less the mean over students.

        Zero on a symmetric plateau, near one if every teacher has a student of its own.
        """
        if not self.R1.size:
            raise BadInput("this curve has no overlaps", "solve it with phasecast.online.solve")
        norms = np.sqrt(np.einsum("aii->ai", self.Q1)[:, :, None] * np.diagonal(self.T1)[None, None])
        cosines = np.abs(self.R1) / np.where(norms > 0, norms, np.inf)
        return cosines.max(axis=1).mean(axis=1) - cosines.mean(axis=(1, 2))

    @property
    def slope(self) -> np.ndarray:
        """d log ε / d log α at each α, by differences; NaN at α = 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(self.alpha), np.log(np.asarray(self.estimate, dtype=float))
            return np.gradient(logs[1], logs[0]) if self.alpha.size > 1 else np.full(self.alpha.size, np.nan)

    def first_below(self, level: float) -> float:
        """The first α with ε below ``level``, interpolated log-linearly between grid points; ∞ if never."""
        eps = self.eps
        below = np.flatnonzero(eps < level)
        if not below.size:
            return np.inf
        at = int(below[0])
        if at == 0:
            return float(self.alpha[0])
        before, after = np.log(eps[at - 1] / level), np.log(level / eps[at])
        share = before / (before + after)
        return float(self.alpha[at - 1] + share * (self.alpha[at] - self.alpha[at - 1]))

    def table(self) -> pd.DataFrame:
        """One line per α: the generalisation error as ``estimate``, with its error."""
        import pandas as pd

        columns = {"estimate": np.asarray(self.estimate), "error": np.broadcast_to(self.error, self.alpha.shape)}
        return pd.DataFrame(columns, index=pd.Index(self.alpha, name="alpha"))

    def plain(self) -> dict[str, Any]:
        return {**super().plain(), "alpha": codec.plain(self.alpha)}


def check_alphas(alphas: ArrayLike) -> np.ndarray:
    """Increasing α from 0 on, as an array."""
    grid = np.atleast_1d(np.asarray(alphas, dtype=float))
    if grid.ndim != 1 or not grid.size or not np.isfinite(grid).all():
        raise BadInput("α is not a list of numbers", "give increasing numbers ≥ 0")
    if grid[0] < 0 or (np.diff(grid) <= 0).any():
        raise BadInput("α does not increase", "give increasing numbers ≥ 0")
    return grid


def mean_curve(curves: Sequence[Curve], error_kind: str = "seeds") -> Curve:
    """The mean of several curves on one grid, with the standard error of the mean; refused curves are left out."""
    defended = [curve for curve in curves if curve.status is not Status.REFUSED]
    if not defended:
        raise BadInput("every curve to average is refused", "; ".join(curves[0].reasons) if curves else "give one")
    values = np.stack([curve.eps for curve in defended])
    count = len(values)
    error = standard_error(values) if count > 1 else np.asarray(defended[0].error)
    lost = len(curves) - count
    return Curve(
        values.mean(axis=0),
        error,
        Status.WARNING if lost else Status.OK,
        {"curves": count},
        reasons=[f"{lost} of {len(curves)} curves were refused and are left out"] if lost else (),
        error_kind=error_kind if count > 1 else defended[0].error_kind,
        name="ε",
        alpha=defended[0].alpha,
    )
