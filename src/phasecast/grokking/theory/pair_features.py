"""What are the features of the hidden layer? Squares of sums of two rows of W, centred as the loss centres them.

The network is f(x) = V (Wᵀx)² with x = (e_a, e_b), so that Wᵀx is a sum of two rows of W: W[a] + W[p+b]. The loss
½‖P⊥(Y − Ŷ)‖²/n removes the mean over the n examples (Cullen et al. 2026, sections 3.2 and 5).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput

Params = Mapping[str, ArrayLike]
"""W (2p, K) and V (p, K) by name."""


def checked_pairs(tokens: ArrayLike, p: int) -> np.ndarray:
    """Pairs of operands (n, 2) of integers from 0 to p−1."""
    pairs = np.asarray(tokens)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) < 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise BadInput(f"tokens has shape {pairs.shape} and type {pairs.dtype}", "give integers of shape (n, 2), n ≥ 2")
    if pairs.min() < 0 or pairs.max() >= p:
        raise BadInput(f"operands go from {pairs.min()} to {pairs.max()}", f"use integers from 0 to {p - 1}")
    return pairs


def checked_weights(params: Params, p: int) -> tuple[np.ndarray, np.ndarray]:
    """W (2p, K) and V (p, K) in float64."""
    missing = {"W", "V"} - set(params)
    if missing:
        raise BadInput(f"params has no {', '.join(sorted(missing))}", "give {'W': (2p, K), 'V': (p, K)}")
    W, V = (np.asarray(params[name], dtype=float) for name in ("W", "V"))
    if W.ndim != 2 or W.shape[0] != 2 * p or V.shape != (p, W.shape[1]):
        raise BadInput(f"W has shape {W.shape} and V {V.shape}", f"for p = {p} use ({2 * p}, K) and ({p}, K)")
    return W, V


def hidden(W: np.ndarray, tokens: np.ndarray, p: int) -> np.ndarray:
    """XW, shape (n, K): the inputs of the squares."""
    return W[tokens[:, 0]] + W[p + tokens[:, 1]]


def centred(rows: np.ndarray) -> np.ndarray:
    """P⊥ applied to ``rows``: the mean over the examples removed."""
    return rows - rows.mean(axis=0, keepdims=True)


def one_hot(labels: ArrayLike, p: int) -> np.ndarray:
    """Targets Y (n, p)."""
    labels = np.asarray(labels)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0 or labels.max() >= p:
        raise BadInput("labels are not class numbers", f"give one integer from 0 to {p - 1} per example")
    return np.eye(p)[labels]


def inputs_of(tokens: np.ndarray, p: int) -> np.ndarray:
    """The one-hot pairs X (n, 2p) themselves, where a formula needs Xᵀ."""
    rows = np.eye(p)
    return np.concatenate([rows[tokens[:, 0]], rows[tokens[:, 1]]], axis=1)
