"""Errors that name a cause and a fix, each with the exit code of a command that raises it."""

from __future__ import annotations

import contextlib
import difflib
import operator
from collections.abc import Iterable
from typing import SupportsIndex

LARGEST_COUNT = 2**63 - 1  # fits into 64 bits; far above every count that can be computed with
MOST_CHOICES = 40  # chosen: a longer list does not fit on a screen as one line


class PhasecastError(Exception):
    """The base of all errors that phasecast raises deliberately: ``cause`` is what is wrong, ``fix`` what to do."""

    exit_code = 1

    def __init__(self, cause: str, fix: str = ""):
        self.cause = cause
        self.fix = fix
        super().__init__(f"{cause}; {fix}" if fix else cause)

    def __reduce__(self):
        return type(self), (self.cause, self.fix)


class BadInput(PhasecastError, ValueError):
    """Invalid input: exit code 2."""

    exit_code = 2


class NewerVersion(BadInput):
    """A file was written by a newer version of phasecast."""


class StoreError(BadInput):
    """The folder of runs cannot be used: not a folder, read-only or full."""


class DamagedRun(StoreError):
    """The files of a finished run are not what was written; it must be computed again."""

    def __init__(self, run: str, damage: str):
        self.run, self.damage = run, damage
        super().__init__(
            f"run {run} is damaged: {damage}", f"remove it with `phasecast runs rm {run}` and compute it again"
        )

    def __reduce__(self):
        return type(self), (self.run, self.damage)


class Refused(PhasecastError):
    """The ``value`` of a refused result was requested: exit code 3."""

    exit_code = 3


class OutsideRegime(BadInput):
    """A formula does not cover this case."""


class MissingExtra(BadInput):
    """An optional dependency is required but not installed."""

    def __init__(self, package: str, extra: str):
        self.package, self.extra = package, extra
        super().__init__(f"{package} is not installed", f"pip install 'phasecast[{extra}]'")

    def __reduce__(self):
        return type(self), (self.package, self.extra)


class UserCodeFailed(BadInput):
    """The user's module, factory or model raised an exception before anything was computed: exit code 1."""

    exit_code = 1


class RecipeFailed(PhasecastError):
    """A recipe, or the user's code inside it, raised an exception: exit code 1."""


class RunInterrupted(KeyboardInterrupt):
    """The user stopped a run between two chunks; it can be resumed: exit code 130."""

    def __init__(self, run: str, progress: str):
        self.run, self.progress = run, progress
        super().__init__(f"{run} stopped at {progress}; continue with `phasecast runs resume {run}`")

    def __reduce__(self):
        return type(self), (self.run, self.progress)


def unknown(kind: str, name: str, choices: Iterable[str]) -> BadInput:
    """An unknown ``name``, with the nearest valid one; if none is near, with all of them, or a few if they are many."""
    choices = list(choices)
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.6)
    if near:
        return BadInput(f"unknown {kind} '{name}'", f"did you mean '{near[0]}'?")
    if len(choices) > MOST_CHOICES:
        nearest = difflib.get_close_matches(name, choices, n=3, cutoff=0.0)
        return BadInput(f"unknown {kind} '{name}'", f"the nearest of {len(choices)} are: {', '.join(nearest)}")
    return BadInput(f"unknown {kind} '{name}'", f"choose one of: {', '.join(choices) or '(there are none)'}")


def whole_number(name: str, value: object, least: int, most: int = LARGEST_COUNT) -> int:
    """``value`` if it is an integer of at least ``least`` and at most ``most``, else bad input."""
    if isinstance(value, SupportsIndex) and getattr(value, "ndim", None) == 0:  # NumPy's integers
        with contextlib.suppress(TypeError):  # and not its floats
            value = operator.index(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        shown = repr(value) if not isinstance(value, int) or abs(value) < 10**40 else "a number of many digits"
        raise BadInput(f"{name} is {shown}", f"use an integer ≥ {least}")
    if value > most:
        raise BadInput(f"{name} is larger than {most}", f"use an integer from {least} to {most}")
    return value
