"""How fast does weight decay act under Adam? The clock I(t; β₂) that the settings of a training run on.

After memorisation the gradients are tiny, but Adam's second moment still remembers the early ones. If they came as a
burst with Σg² = G² near step 0, then

.. math:: \\hat v_t = \\frac{(1 - \\beta_2)\\,\\beta_2^t}{1 - \\beta_2^t}\\, G^2,

and a drift of the weights by lr·wd/√v̂ per step adds up to lr·wd·I(t)/G with

.. math:: I(t) = \\frac{1}{\\sqrt{1 - \\beta_2}} \\int_0^t \\sqrt{\\frac{1 - \\beta_2^s}{\\beta_2^s}}\\, ds
               = \\frac{2\\tau}{\\sqrt{1 - \\beta_2}}\\,[\\,y - \\arctan y\\,], \\qquad
          y = \\sqrt{e^{t/\\tau} - 1}, \\quad \\tau = -1/\\ln\\beta_2.

I(t) ≈ ⅔ t^{3/2} for t ≪ τ, whatever β₂ is, and grows like e^{t/2τ} for t ≫ τ. A network generalises when lr·wd·I(t)
reaches a value A(p, N) that does not depend on the optimiser.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput

SMALL = 0.1  # y below which y − arctan y cancels more than two digits: there the series of nine terms is exact
LARGE = 1e8  # y above which y − arctan y = y − π/2 to the last digit
STEPS = 60  # Newton's method doubles the digits at every step; it needs fewer than ten


def adam_clock(step: ArrayLike, beta2: float = 0.999) -> np.ndarray:
    """I(t; β₂) at the given steps.

    >>> adam_clock(100, 0.999).round(1)
    np.float64(677.0)
    """
    return np.exp(log_adam_clock(step, beta2))


def log_adam_clock(step: ArrayLike, beta2: float = 0.999) -> np.ndarray:
    """ln I(t; β₂): finite also where I(t) overflows; −∞ at step 0."""
    tau = _memory(beta2)
    t = np.asarray(step, dtype=float)
    if np.any(~(t >= 0)):
        raise BadInput(f"a step is {np.min(t):g}", "use steps ≥ 0")
    with np.errstate(divide="ignore", over="ignore"):
        log_y = 0.5 * (t / tau + np.log(-np.expm1(-t / tau)))
        y = np.exp(np.minimum(log_y, math.log(LARGE)))
        middle = np.log(y - np.arctan(y))
        terms = np.polynomial.polynomial.polyval(-(y**2), 3 / np.arange(3.0, 21.0, 2.0))
        small = 3 * log_y - math.log(3) + np.log(terms)
    shape = np.where(y < SMALL, small, np.where(log_y < math.log(LARGE), middle, log_y))
    return math.log(2 * tau) - 0.5 * math.log1p(-beta2) + shape


def adam_clock_inverse(value: ArrayLike, beta2: float = 0.999) -> np.ndarray:
    """The step t at which I(t; β₂) has a value."""
    with np.errstate(divide="ignore"):
        return inverse_log_adam_clock(np.log(np.asarray(value, dtype=float)), beta2)


def inverse_log_adam_clock(value: ArrayLike, beta2: float = 0.999) -> np.ndarray:
    """The step t at which ln I(t; β₂) has a value: Newton in ln t, where ln I is convex, from an upper bound."""
    tau = _memory(beta2)
    target = np.asarray(value, dtype=float)
    early = (target + math.log(1.5)) * 2 / 3  # I ≥ ⅔ t^{3/2}
    log_y = np.logaddexp(target - math.log(2 * tau) + 0.5 * math.log1p(-beta2), math.log(math.pi / 2))
    late = np.log(tau * np.logaddexp(0, 2 * log_y))  # y ≤ I/… + π/2
    x = np.minimum(early, late)
    for _ in range(STEPS):
        t = np.exp(x)
        level = log_adam_clock(t, beta2)
        log_speed = 0.5 * (t / tau + np.log(-np.expm1(-t / tau)) - math.log1p(-beta2))
        with np.errstate(invalid="ignore"):
            change = (level - target) / np.exp(x + log_speed - level)
        x = x - np.where(np.isfinite(change), change, 0.0)
        if np.all(np.abs(np.nan_to_num(change)) < 1e-12):
            break
    return np.exp(x)


def _memory(beta2: float) -> float:
    """τ = −1/ln β₂: the steps after which Adam has forgotten all but 1/e of a gradient's square."""
    if not 0 < beta2 < 1:
        raise BadInput(f"beta2 is {beta2:g}", "use a number between 0 and 1; Adam's default is 0.999")
    return -1 / math.log(beta2)
