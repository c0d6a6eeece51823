"""Errors that name a cause and a fix, and the exit code a command ends with when it meets one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PhasecastError(Exception):
    """Anything phasecast raises on purpose. ``cause`` says what is wrong, ``fix`` what would be right."""

    exit_code = 1

    def __init__(self, cause: str, fix: str = ""):
        self.cause = cause
        self.fix = fix
        super().__init__(f"{cause}; {fix}" if fix else cause)

    def __reduce__(self):
        return type(self), (self.cause, self.fix)


class BadInput(PhasecastError, ValueError):
    """The caller asked for something that cannot be: exit code 2."""

    exit_code = 2


class NewerVersion(BadInput):
    """A file was written by a later phasecast than this one."""


class StoreError(BadInput):
    """The folder that should hold the runs cannot be used: not a folder, read-only, full."""


class Refused(PhasecastError):
    """The value of a result that we would not defend was asked for: exit code 3."""

    exit_code = 3


class OutsideRegime(BadInput):
    """A formula was asked about a case it does not cover."""


class MissingExtra(BadInput):
    """An optional dependency is needed and not installed."""

    def __init__(self, package: str, extra: str):
        self.package, self.extra = package, extra
        super().__init__(f"{package} is not installed", f"pip install 'phasecast[{extra}]'")

    def __reduce__(self):
        return type(self), (self.package, self.extra)


class RecipeFailed(PhasecastError):
    """A recipe, or the user's code inside it, raised an exception: exit code 1."""


class RunInterrupted(KeyboardInterrupt):
    """The run with this id was stopped by the user between two chunks; it can be resumed: exit code 130."""

    def __init__(self, run: str, progress: str):
        self.run, self.progress = run, progress
        super().__init__(f"{run} stopped at {progress}; go on with `phasecast runs resume {run}`")

    def __reduce__(self):
        return type(self), (self.run, self.progress)


def unknown(kind: str, name: str, choices: Iterable[str]) -> BadInput:
    """An unknown ``name``, with the nearest right one, or all of them where none is near."""
    choices = list(choices)
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.6)
    if near:
        return BadInput(f"unknown {kind} '{name}'", f"did you mean '{near[0]}'?")
    return BadInput(f"unknown {kind} '{name}'", f"choose one of: {', '.join(choices) or '(there are none)'}")


def whole_number(name: str, value: object, least: int) -> int:
    """``value`` if it is an integer of at least ``least``, else bad input."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadInput(f"{name} is {value!r}", f"use an integer ≥ {least}")
    return value
