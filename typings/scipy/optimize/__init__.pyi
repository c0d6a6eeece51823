# The functions that we use. SciPy has no types of its own; to infer them from its code takes the checker 12 seconds.
from collections.abc import Callable
from typing import Any

brentq: Callable[..., float]
least_squares: Callable[..., Any]
linear_sum_assignment: Callable[..., Any]
linprog: Callable[..., Any]
minimize: Callable[..., Any]
minimize_scalar: Callable[..., Any]
root: Callable[..., Any]
