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
    """The largest size of an option, and why it ends there; what is too small is mostly said by who uses it."""

    most: float
    why: str
    least: float = -math.inf


OPTIONS: dict[str, Bound] = {
    "seed": Bound(2**63 - 1, "the generators take 63 bits", least=0),
    "students": Bound(1000, "the equations have one unknown per pair of units and mode"),
    "teachers": Bound(1000, "the equations have one unknown per pair of units and mode"),
    "modes": Bound(10**5, "the equations have one unknown per pair of units and mode"),
    "inputs": Bound(10**9, "the weights of a draw must fit into memory"),
    "draws": Bound(10**8, "all of them are kept"),
    "simulate": Bound(10**5, "so many seeds take years, and a matrix of so many dimensions does not fit"),
    "order": Bound(2, "the equations are known to second order", least=1),
    "points": Bound(10**6, "more than a curve can show", least=1),
    "alpha": Bound(1e15, "beyond, rounding decides"),
    "lr": Bound(1e6, "far above every learning rate that is stable"),
    "sigma": Bound(1e6, "its fourth power enters"),
    "exponent": Bound(100, "powers of the number of modes overflow"),
    "noise": Bound(1e6, "its fourth power enters"),
    "a": Bound(1e6, "its fourth power enters"),
    "b": Bound(1e6, "its fourth power enters"),
    "initial_norm": Bound(1e6, "its fourth power enters"),
    "time": Bound(10**6, "each step is computed; use inf for the end"),
    "delta": Bound(1e9, "far above every threshold"),
    "up_to": Bound(1e9, "far above every threshold"),
    "seeds": Bound(10**5, "so many repetitions take years"),
    "samples": Bound(10**8, "all of them are kept"),
    "chains": Bound(10_000, "all of them move together in memory", least=1),
    "warmup": Bound(10**9, "takes years"),
    "workers": Bound(10_000, "more processes than a machine starts", least=1),
    "threads": Bound(10_000, "more cores than a machine has", least=1),
}
"""Every numeric option by name, here and nowhere else."""


def check_bounds(**values: object) -> None:
    """Refuse numbers outside the range of their option; other values and None are left to who uses them."""
    for name, value in values.items():
        number = value.item() if isinstance(value, np.generic) else value
        if isinstance(number, bool) or not isinstance(number, int | float):
            continue
        bound = OPTIONS[name]
        if number < bound.least or abs(number) > bound.most:
            shown = repr(number) if abs(number) < 10**30 or isinstance(number, float) else "a number of many digits"
            least = f"{bound.least:g} to " if bound.least > -math.inf else "at most "
            raise BadInput(f"{name} is {shown}", f"use {least}{bound.most:g}: {bound.why}")


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


def _gibibytes(size: float) -> str:
    gibibytes = size / 2**30
    return f"{gibibytes:.2g} GiB" if gibibytes < 1000 or not math.isfinite(gibibytes) else f"{gibibytes:.3g} GiB"
