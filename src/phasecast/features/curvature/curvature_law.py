"""What does the spectrum of the Hessian depend on? On the joint law of two things, at one time and one δ = n/d.

A Hessian block is H = (1/n) Σ_i G_i x_i x_iᵀ, where the weight G_i depends on x_i through the labels. In the limit of
many dimensions its bulk depends on the law of G alone and its informative outliers on the joint law of G and the
latents V_H along the hard directions (Wang & Montanari 2026). Every route to that law (quadrature, dynamical mean-field
theory, decoupled gradient descent, fixed point) returns a :class:`CurvatureLaw`, and
:mod:`phasecast.features.hessian_spectrum` takes one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from phasecast.core.errors import BadInput


@dataclass(frozen=True, eq=False)
class CurvatureLaw:
    """Weighted points of the joint law of G and V_H.

    Parameters
    ----------
    G: shape (n,), Hessian weights.
    hard: shape (n, r), latents along the hard directions; r = 0 where there are none.
    weights: shape (n,), not negative, sums to one; defaults to equal weights.
    lowest: the infimum of the support of G, −inf where it is unbounded below; defaults to the least of the points.
    route: how it was computed, in one word (``quadrature``, ``dmft``, ``decoupled``, ``fixed-point``).
    time: t, ``math.inf`` for the end of training.
    delta: the δ it was computed for; None where the law does not depend on δ, as at t = 0.
    block: which neuron's block of the Hessian.
    rest: shape (n, s), the other standard normal latents that G depends on (preactivations, easy latents), where they
        are all there is, as at t = 0; for outliers that carry no information about the hard directions.
    """

    G: np.ndarray
    hard: np.ndarray
    weights: np.ndarray = field(default_factory=lambda: np.empty(0))
    lowest: float = math.nan
    route: str = "quadrature"
    time: float = 0.0
    delta: float | None = None
    block: int = 0
    rest: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self) -> None:
        G = np.asarray(self.G, dtype=float)
        hard = np.asarray(self.hard, dtype=float)
        if G.ndim != 1 or not G.size or hard.ndim != 2 or len(hard) != G.size:
            raise BadInput(f"G of shape {G.shape} with latents of shape {hard.shape}", "give (n,) and (n, r)")
        weights = np.asarray(self.weights, dtype=float)
        weights = weights if weights.size else np.full(G.size, 1 / G.size)
        if weights.shape != G.shape or not (weights >= 0).all() or abs(weights.sum() - 1) > 1e-6:
            raise BadInput("the weights are not probabilities", "pass one per point, ≥ 0, with sum one")
        if not (np.isfinite(G).all() and np.isfinite(hard).all()):
            raise BadInput("the law has values that are not finite", "use a smaller learning rate or a bounded label")
        object.__setattr__(self, "G", G)
        object.__setattr__(self, "hard", hard)
        object.__setattr__(self, "weights", weights / weights.sum())
        rest = np.asarray(self.rest, dtype=float)
        object.__setattr__(self, "rest", rest if rest.size else np.empty((G.size, 0)))
        if self.rest.shape[:1] != G.shape:
            raise BadInput(f"other latents of shape {rest.shape} for {G.size} points", "give (n, s)")
        if math.isnan(self.lowest):
            object.__setattr__(self, "lowest", float(G.min()))

    @property
    def directions(self) -> int:
        """r, the dimension of the hard subspace."""
        return self.hard.shape[1]

    def mean(self, values: np.ndarray) -> np.ndarray:
        """E over the law of ``values`` of shape (n, ...)."""
        return np.tensordot(self.weights, values, axes=(0, 0))

    def clipped(self, at: float) -> CurvatureLaw:
        """The same law with G raised to at least ``at``."""
        return replace(self, G=np.maximum(self.G, at), lowest=max(at, self.lowest))

    def quantile(self, level: float) -> float:
        """The least G with at least ``level`` of the weight at or below it."""
        ordered, weight_up_to = self._cumulated
        return float(ordered[min(np.searchsorted(weight_up_to, level), ordered.size - 1)])

    @cached_property
    def _cumulated(self) -> tuple[np.ndarray, np.ndarray]:
        """G in ascending order, and the weight at or below each."""
        order = np.argsort(self.G)
        return self.G[order], np.cumsum(self.weights[order])
