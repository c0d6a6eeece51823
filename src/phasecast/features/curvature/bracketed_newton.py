"""Where does an increasing function vanish, for many points at once? Newton's method kept inside a bracket."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SOLVED = 1e-11  # largest |function| of a solution; preactivations are of order one, so about rounding

Pointwise = Callable[[np.ndarray], np.ndarray]


def bracketed_newton(
    function: Pointwise, slope: Pointwise, bracket: tuple[np.ndarray, np.ndarray], start: np.ndarray, steps: int
) -> np.ndarray:
    """The zeros, shape (n,), of a function that is negative at the lower and positive at the upper ends.

    A step of Newton's that would leave the bracket is replaced by a bisection; each evaluation shortens the bracket.

    >>> ends = np.zeros(2), np.full(2, 3.0)
    >>> bracketed_newton(lambda x: x**2 - [1, 4], lambda x: 2 * x, ends, np.full(2, 0.1), 60).round(9).tolist()
    [1.0, 2.0]
    """
    low, high = bracket
    x = start
    for _ in range(steps):
        value = function(x)
        if np.max(abs(value)) < SOLVED:
            break
        low, high = np.where(value < 0, x, low), np.where(value > 0, x, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = x - value / slope(x)
        x = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
    return x
