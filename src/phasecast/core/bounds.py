"""Which numbers does an option take, and what do they need? Bounds with a meaning, and sizes before they are allocated.

A number beyond its bound is a typing error or more than a machine can do; it is refused in one line before anything is
computed. The bounds are far above any use that we know.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import numpy as np

from phasecast.core.errors import BadInput

MEMORY_SHARE = 0.8  # chosen: of the free memory that one array may take


@dataclass(frozen=True)
class Bound:
    """Smallest and largest value of an option, whether it counts something, and what the largest stands for."""

    low: float
    high: float
    why: str
    whole: bool = True


SEED = Bound(0, 2**32 - 1, "NumPy and JAX take seeds of 32 bits")
COUNT = Bound(0, 10**12, "beyond exact floating-point arithmetic on sums of squares")
CHAINS = Bound(1, 10_000, "more than one machine can move")
STEPS = Bound(0, 10**7, "years of computing")
UNITS = Bound(1, 1000, "the equations have as many unknowns as pairs of units and modes")
MODES = Bound(1, 10**5, "a matrix of modes by modes must fit")
SEEDS = Bound(0, 10**5, "a larger number of repetitions is a typing error")
POINTS = Bound(1, 10**6, "more than a curve can show")
DIMENSION = Bound(2, 10**5, "a matrix of this size squared must fit")
SAMPLES = Bound(2, 10**8, "more than a machine holds")
WORKERS = Bound(1, 10_000, "more processes than a machine starts")
SIZE = Bound(-1e30, 1e30, "squares of larger numbers overflow", whole=False)
POSITIVE = Bound(1e-30, 1e30, "squares of other numbers overflow or vanish", whole=False)
NOT_NEGATIVE = Bound(0, 1e30, "squares of larger numbers overflow", whole=False)


def within(name: str, value: object, bound: Bound) -> int | float:
    """``value`` as a Python number if it is one within the bound, else bad input."""
    number = value.item() if isinstance(value, np.generic) else value
    kind = int if bound.whole else int | float
    words = f"{'an integer' if bound.whole else 'a number'} from {_shown(bound.low)} to {_shown(bound.high)}"
    if isinstance(number, bool) or not isinstance(number, kind) or not bound.low <= number <= bound.high:
        shown = repr(number) if len(repr(number)) <= 40 else repr(number)[:37] + "…"
        raise BadInput(f"{name} is {shown}", f"use {words}")
    return number


def check_memory(needed: float, what: str, fix: str) -> None:
    """Refuse what does not fit into the free memory, before it is allocated."""
    free = free_memory()
    if free is not None and needed > MEMORY_SHARE * free:
        raise BadInput(f"{what} needs {_gibibytes(needed)}; {_gibibytes(free)} are free", fix)


def free_memory() -> int | None:
    """Bytes that this process can still get; None where the system does not say."""
    try:
        with open("/proc/meminfo", "rb") as file:
            lines = dict(line.split(b":", 1) for line in file)
        return int(lines[b"MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, AttributeError):
            return None


def is_prime(p: int) -> bool:
    """Whether p is prime, by the test of Miller and Rabin; with these bases it is exact below 3.3 × 10²⁴.

    >>> [p for p in range(20) if is_prime(p)], is_prime(1000000000000000003)
    ([2, 3, 5, 7, 11, 13, 17, 19], True)
    """
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)  # Sorenson and Webster 2015
    if p < 2 or any(p % base == 0 for base in bases):
        return p in bases
    odd, twos = p - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in bases:
        x = pow(base, odd, p)
        if x in (1, p - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % p
            if x == p - 1:
                break
        else:
            return False
    return True


def _shown(number: float) -> str:
    if isinstance(number, int) and number == 2**32 - 1:
        return "2³² − 1"
    return f"{number:,}" if abs(number) < 10**7 and number == int(number) else f"{number:g}"


def _gibibytes(size: float) -> str:
    gibibytes = size / 2**30
    return f"{gibibytes:.2g} GiB" if gibibytes < 1000 or not math.isfinite(gibibytes) else f"{gibibytes:.3g} GiB"
