"""Placeholder."""

from dataclasses import dataclass


@dataclass(frozen=True)
class P:
    unbounded_fall: float = 0.1
    most_memory: float = 4e9
    diverged: float = 1e12


POLICY = P()
