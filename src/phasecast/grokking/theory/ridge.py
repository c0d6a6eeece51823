"""How well does a network with a frozen first layer do? The ridge solution of the second layer, and its λ.

.. math:: V_{\\rm ridge} = (\\tilde F^\\top\\tilde F + \\eta I)^{-1}\\tilde F^\\top\\tilde Y

(Cullen et al. 2026, eq. 4), with F̃ and Ỹ centred features and targets of the training set. The loss is quadratic in V,
so λ over V alone is ½ p rank F̃ for every η, whether or not it interpolates (Theorem 5.2, with the rank of the centred
features of the training examples). η belongs to the summed loss ½‖·‖²; a weight decay s of a mean loss is η = n s.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.coefficients.exact.jacobian_rank import float_rank
from phasecast.core.errors import BadInput
from phasecast.grokking.theory.pair_features import centred, checked_pairs, hidden, one_hot


@dataclass(frozen=True)
class RidgeSolution:
    """The second layer fitted to fixed random features.

    ``V`` (p, K); ``residual`` ‖Ỹ − F̃V‖/‖Ỹ‖ on the training set; accuracies with outputs centred by the training mean;
    ``coefficient`` λ over V alone; ``eigenvalues`` of F̃ᵀF̃/n, from which λ̂ at finite nβ and γ follows.
    """

    V: np.ndarray
    ridge: float
    residual: float
    train_accuracy: float
    val_accuracy: float
    coefficient: Coefficient
    eigenvalues: np.ndarray

    def at(self, nbeta: float, gamma: float) -> float:
        """nβ E[L − L*] over V alone, ½ p Σ nβe/(nβe + γ): exact, because the loss is quadratic in V."""
        scaled = nbeta * self.eigenvalues
        return 0.5 * len(self.V) * float(np.sum(scaled / (scaled + gamma)))


def ridge_solution(
    W: ArrayLike,
    tokens: ArrayLike,
    labels: ArrayLike,
    p: int,
    ridge: float,
    validation: tuple[ArrayLike, ArrayLike] | None = None,
) -> RidgeSolution:
    """V_ridge for the frozen first layer ``W`` (2p, K), with its accuracies.

    Parameters
    ----------
    ridge: η > 0 of the summed loss.
    validation: held-out pairs and labels; without them the validation accuracy is NaN.
    """
    if not ridge > 0:
        raise BadInput(f"ridge is {ridge:g}", "use a positive number, e.g. 1e-9 for almost no ridge")
    W, pairs = np.asarray(W, dtype=float), checked_pairs(tokens, p)
    raw = hidden(W, pairs, p) ** 2
    features, targets = centred(raw), one_hot(labels, p)
    left, values, right = np.linalg.svd(features, full_matrices=False)
    shrunk = values / (values**2 + ridge)
    V = (right.T * shrunk @ (left.T @ centred(targets))).T
    mean_feature, mean_target = raw.mean(axis=0), targets.mean(axis=0)

    def accuracy(where: np.ndarray, truth: ArrayLike) -> float:
        outputs = (hidden(W, where, p) ** 2 - mean_feature) @ V.T + mean_target
        return float(np.mean(outputs.argmax(axis=1) == np.asarray(truth)))

    residual = centred(targets) - features @ V.T
    return RidgeSolution(
        V=V,
        ridge=float(ridge),
        residual=float(np.linalg.norm(residual) / np.linalg.norm(centred(targets))),
        train_accuracy=accuracy(pairs, labels),
        val_accuracy=accuracy(checked_pairs(validation[0], p), validation[1]) if validation else float("nan"),
        coefficient=second_layer_coefficient(features, p),
        eigenvalues=values**2 / len(pairs),
    )


def second_layer_coefficient(features: np.ndarray, p: int) -> Coefficient:
    """λ over V alone: half of p times the rank of the centred features (Cullen et al. 2026, Theorem 5.2)."""
    return Coefficient(
        Fraction(p * float_rank(features).rank, 2),
        regime="first layer frozen; these examples",
        source="Cullen et al. 2026, Theorem 5.2, with the rank of the centred features",
        name="second layer alone",
    )
