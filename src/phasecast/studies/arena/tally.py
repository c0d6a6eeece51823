"""What does the record of a family say? Shares, coverage, what is wrong and ok, and the worst case.

The goals are those of a tool that may be believed: ±2 errors hold for at least 90% of what is called ok (95% if errors
were normal and exact), at most 1% of it is beyond 4 errors, and at least 60% of the problems get an answer that is ok,
except in families where refusing is right.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasecast.core import codec
from phasecast.core.results import Measurement, Status, show
from phasecast.studies.arena.family import STATUSES, Family, Outcome

# the goals that docs/arena.md states, written before the first run
LEAST_COVERED = 0.90  # of ok answers within two errors; 95% if errors are right
MOST_WRONG = 0.01  # of ok answers beyond four errors
LEAST_OK = 0.60  # so that refusing everything does not pass


@dataclass(frozen=True)
class Judged:
    """One problem of one family, with its outcome and the seconds it took."""

    family: str
    number: int
    outcome: Outcome
    seconds: float

    def command(self, seed: int) -> str:
        """The words that compute it again."""
        return f"phasecast arena --seed {seed} --family {self.family} --problem {self.number}"

    def sentence(self) -> str:
        """The answer beside the truth."""
        outcome = self.outcome
        apart = f" ({outcome.distance:+.1f} errors)" if math.isfinite(outcome.distance) else ""
        given = show(outcome.estimate, outcome.error)
        if outcome.status in ("failed", "skipped"):
            return f"{outcome.words}: {outcome.status}, {outcome.reasons}"
        true = (
            "no answer is right" if math.isnan(outcome.truth) else f"truth {show(outcome.truth, outcome.truth_error)}"
        )
        return f"{outcome.words}: {outcome.status}, {given}, {true}{apart}"

    def plain(self, seed: int) -> dict[str, Any]:
        outcome = self.outcome
        return {
            "family": self.family,
            "problem": self.number,
            "status": outcome.status,
            "estimate": codec.plain(outcome.estimate),
            "error": codec.plain(outcome.error),
            "truth": codec.plain(outcome.truth),
            "truth_error": codec.plain(outcome.truth_error),
            "distance": codec.plain(outcome.distance),
            "covered": outcome.covered,
            "words": outcome.words,
            "reasons": outcome.reasons,
            "seconds": round(self.seconds, 2),
            "command": self.command(seed),
        }


@dataclass(frozen=True)
class Tally:
    """The record of one family."""

    family: Family
    judged: Sequence[Judged]

    def count(self, status: str) -> int:
        return sum(one.outcome.status == status for one in self.judged)

    @property
    def tried(self) -> int:
        """Problems that could be asked here."""
        return len(self.judged) - self.count("skipped")

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.judged)

    def share(self, status: str) -> float:
        return self.count(status) / self.tried if self.tried else math.nan

    def covered(self, status: str) -> tuple[int, int]:
        """How many outcomes of a status are within ±2 errors, and of how many."""
        chosen = [one.outcome.covered for one in self.judged if one.outcome.status == status]
        return sum(chosen), len(chosen)

    @property
    def wrong(self) -> list[Judged]:
        """Wrong and ok."""
        return [one for one in self.judged if one.outcome.wrong]

    @property
    def failed(self) -> list[Judged]:
        return [one for one in self.judged if one.outcome.status == "failed"]

    def distances(self, status: str = "ok") -> np.ndarray:
        """Distances in combined errors, of a status; those of exact answers are left out."""
        if self.family.exact:
            return np.empty(0)
        each = [one.outcome.distance for one in self.judged if one.outcome.status == status]
        return np.array([distance for distance in each if not math.isnan(distance)])

    @property
    def worst(self) -> Judged | None:
        """The answer called ok that is furthest from the truth; without one, the warning that is."""
        for status in ("failed", "ok", "warning"):
            chosen = [one for one in self.judged if one.outcome.status == status]
            if chosen:
                return max(chosen, key=lambda one: abs(np.nan_to_num(one.outcome.distance, nan=-1.0, posinf=1e9)))
        return None

    def missed(self) -> list[str]:
        """The goals that this record misses."""
        within, ok = self.covered("ok")
        reasons = []
        if ok and within < LEAST_COVERED * ok:
            reasons.append(f"±2 errors hold for {within} of {ok} that are ok, less than {LEAST_COVERED:.0%}")
        if len(self.wrong) > MOST_WRONG * ok:
            reasons.append(f"{len(self.wrong)} of {ok} that are ok are wrong, more than {MOST_WRONG:.0%}")
        if self.failed:
            reasons.append(f"{len(self.failed)} failed with an exception")
        if not self.family.refusing and self.tried and ok < LEAST_OK * self.tried:
            reasons.append(f"{ok} of {self.tried} are ok, less than {LEAST_OK:.0%}")
        return reasons

    def measurement(self, seed: int) -> Measurement:
        """Coverage among ok with its binomial error; the share of ok where nothing is ok."""
        within, ok = self.covered("ok")
        hits, of = (within, ok) if ok else (0, self.tried)
        missed = self.missed()
        notes = [*missed]
        if self.family.refusing:
            notes.append(f"a warning or a refusal is right here: {self.family.refusing}")
        if self.worst is not None:
            notes.append(f"furthest: {self.worst.sentence()}. {self.worst.command(seed)}")
        status = Status.WARNING if missed else Status.OK
        return Measurement(
            hits / of if of else math.nan, binomial_error(hits, of), status, reasons=notes, error_kind="seeds"
        )

    def plain(self, seed: int) -> dict[str, Any]:
        return {
            "family": self.family.name,
            "judged": self.family.judged,
            "truth": self.family.truth,
            "refusing_is_right": self.family.refusing or None,
            "problems": len(self.judged),
            **{status: self.count(status) for status in STATUSES},
            "covered_ok": list(self.covered("ok")),
            "covered_warning": list(self.covered("warning")),
            "wrong_and_ok": [one.plain(seed) for one in self.wrong],
            "failures": [one.plain(seed) for one in self.failed],
            "worst": self.worst.plain(seed) if self.worst else None,
            "missed": self.missed(),
            "seconds": round(self.seconds, 1),
        }


def binomial_error(hits: int, of: int) -> float:
    """The standard deviation of Jeffreys' posterior of a share: above zero also where all or none hit."""
    a, b = hits + 0.5, of - hits + 0.5
    return math.sqrt(a * b / (a + b + 1)) / (a + b)


HEAD = ("family", "problems", "ok", "warning", "refused", "±2 of ok", "±2 of warnings", "wrong+ok", "furthest", "time")


def table_rows(tallies: Iterable[Tally]) -> list[tuple[str, ...]]:
    """One row per family below :data:`HEAD`."""
    rows = []
    for tally in tallies:
        covered = [f"{hits}/{of}" if of else "–" for hits, of in map(tally.covered, ("ok", "warning"))]
        worst = tally.worst.outcome.distance if tally.worst and tally.worst.outcome.status != "failed" else math.nan
        furthest = "–" if math.isnan(worst) else "∞" if math.isinf(worst) else f"{worst:+.1f}"
        failed = f", {tally.count('failed')} failed" if tally.failed else ""
        rows.append(
            (
                tally.family.name + ("*" if tally.family.refusing else ""),
                f"{len(tally.judged)}{failed}",
                *(f"{tally.share(status):.0%}" if tally.tried else "–" for status in ("ok", "warning", "refused")),
                *covered,
                str(len(tally.wrong)),
                furthest,
                f"{tally.seconds:.0f} s",
            )
        )
    return rows
