"""What does the network look like along its training? A row of numbers at each checkpoint, for the quadratic network.

- ``weight_norm``; ``kernel_change``, 0 while the training is lazy and towards 1 as it becomes rich;
- ``signal_cosine``, ``signal_scale``, ``signal_residual``: the gradient signal beside cỸỸᵀF̃ (section 5.2);
- ``energy``: the mean of E(w_j/|w_j|) over the living units, at most p/4 on the full table;
- ``fourier_share``: the mean share of a living unit's power that its best frequency has;
- ``gauss_newton``, ``nonlinearity``: λ̂ of a quadratic landscape at the sampler's nβ and γ, and how far from quadratic
  the landscape is within reach of the pull. Near one or above, the first is no prediction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.grokking.analysis.curves import alive
from phasecast.grokking.theory.fourier_features import best_frequency, kernel_change, weight_norm
from phasecast.grokking.theory.gradient_signal import energy, gradient_signal
from phasecast.grokking.theory.pair_features import Params
from phasecast.grokking.theory.predictions import gauss_newton_sampled, nonlinearity

OBSERVED = (
    "weight_norm",
    "kernel_change",
    "signal_cosine",
    "signal_scale",
    "signal_residual",
    "energy",
    "fourier_share",
    "gauss_newton",
    "nonlinearity",
)


def observe(
    params: Params, first: Params, tokens: Any, labels: Any, p: int, *, nbeta: float, gamma: float
) -> dict[str, float]:
    """:data:`OBSERVED` at ``params``; ``first`` are the parameters before training, the pairs those trained on."""
    living = alive(params["V"])
    W = np.asarray(params["W"], dtype=float)[:, living]
    lengths = np.linalg.norm(W, axis=0)
    W = W[:, lengths > 0] / lengths[lengths > 0]
    try:
        signal = gradient_signal(params, tokens, labels, p)
        seen = {"signal_cosine": signal.cosine, "signal_scale": signal.scale, "signal_residual": signal.residual}
    except BadInput:  # fitted exactly: there is no signal left
        seen = {"signal_cosine": math.nan, "signal_scale": math.nan, "signal_residual": math.nan}
    return {
        "weight_norm": weight_norm(params),
        "kernel_change": kernel_change(first, params, tokens, p),
        **seen,
        "energy": float(np.mean(energy(W, tokens, labels, p)[0])),
        "fourier_share": float(np.mean(best_frequency(W[:p], W[p:])[1])),
        "gauss_newton": float(
            np.asarray(gauss_newton_sampled(params, tokens, p, nbeta, gamma, probes=6, depth=24).estimate)
        ),
        "nonlinearity": nonlinearity(params, tokens, p, gamma),
    }
