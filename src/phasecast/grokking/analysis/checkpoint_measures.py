"""What does the network look like along its training? A row of numbers per checkpoint, for the quadratic network.

- ``weight_norm``; ``kernel_change``, 0 while the training is lazy and approaching 1 as it becomes rich;
- ``signal_cosine``, ``signal_scale``, ``signal_residual``: the gradient signal compared with cỸỸᵀF̃ (section 5.2);
- ``energy``: the mean of E(w_j/|w_j|) over the units in use, at most p/4 on the full table;
- ``fourier_share``: the mean, over the units in use, of the share of a unit's power at its best frequency;
- ``gauss_newton``, ``nonlinearity``: λ̂ of a quadratic landscape at the sampler's nβ and γ, and how far the landscape is
  from quadratic within the reach of γ. With a nonlinearity near one or above, the first is not a prediction.
"""

from __future__ import annotations

import math

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.grokking.analysis.curves import alive
from phasecast.grokking.theory.fourier_features import best_frequency, kernel_change, weight_norm
from phasecast.grokking.theory.gradient_signal import energy, gradient_signal
from phasecast.grokking.theory.pair_features import Params
from phasecast.grokking.theory.predictions import gauss_newton_sampled, nonlinearity

PROBES, DEPTH = 6, 24  # chosen for speed, not derived: the value is stored beside λ̂ and judges nothing

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
    params: Params, first: Params, tokens: np.ndarray, labels: np.ndarray, p: int, *, nbeta: float, gamma: float
) -> dict[str, float]:
    """:data:`OBSERVED` at ``params``, on the training pairs; ``first`` are the parameters before training."""
    living = alive(params["V"])
    W = np.asarray(params["W"], dtype=float)[:, living]
    lengths = np.linalg.norm(W, axis=0)
    W = W[:, lengths > 0] / lengths[lengths > 0]
    try:
        signal = gradient_signal(params, tokens, labels, p)
        push = {"signal_cosine": signal.cosine, "signal_scale": signal.scale, "signal_residual": signal.residual}
    except BadInput:  # fitted exactly: there is no signal left
        push = {"signal_cosine": math.nan, "signal_scale": math.nan, "signal_residual": math.nan}
    newton = gauss_newton_sampled(params, tokens, p, nbeta, gamma, probes=PROBES, depth=DEPTH)
    return {
        "weight_norm": weight_norm(params),
        "kernel_change": kernel_change(first, params, tokens, p),
        **push,
        "energy": float(np.mean(energy(W, tokens, labels, p)[0])),
        "fourier_share": float(np.mean(best_frequency(W[:p], W[p:])[1])),
        "gauss_newton": float(newton),
        "nonlinearity": nonlinearity(params, tokens, p, gamma),
    }
