"""A statement from a paper, what we found about it, and the check that anybody can run again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from phasecast.core.answers import Answers
from phasecast.core.errors import BadInput
from phasecast.core.results import Comparison

LONGEST_COUNTEREXAMPLE = 10  # lines: one look is enough to follow it


class ClaimVerdict(StrEnum):
    """What we found about a claim."""

    HOLDS = "holds"
    HOLDS_CORRECTED = "holds with a correction"
    DOES_NOT_HOLD = "does not hold"
    NOT_REPRODUCED = "not reproduced"
    OPEN = "open"


@dataclass(frozen=True)
class Finding:
    """What one run of a check found: the verdict it supports, a sentence, and the comparisons behind it."""

    verdict: ClaimVerdict
    words: str
    comparisons: tuple[Comparison, ...] = field(default=())

    def plain(self) -> dict[str, Any]:
        """The finding for other programs."""
        comparisons = [comparison.plain() for comparison in self.comparisons]
        return {"verdict": str(self.verdict), "words": self.words, "comparisons": comparisons}


@dataclass(frozen=True)
class RecipeCheck:
    """A check that is an experiment: run a recipe with a spec, then judge its answers."""

    recipe: str
    spec: Mapping[str, Any]
    judge: Callable[[Answers], Finding]


@dataclass(frozen=True)
class Claim:
    """One statement of one paper.

    Parameters
    ----------
    id: short and stable, ``paper/what``.
    source: paper and place.
    statement: what the paper says.
    verdict: what we found.
    why: the reason in one or two sentences.
    ours: our version of the statement, where the paper's needs one.
    counterexample: at most ten lines of Python that print the contradiction, where the claim does not hold as
        printed.
    criterion: what the check requires, with its reason, where that is more than equality or agreement within errors.
    exploratory: whether the criterion was chosen, or changed, when results were known: such a verdict needs a check
        on other seeds and sizes.
    seen: of an open claim, the verdicts that its check reached with different seeds.
    """

    id: str
    source: str
    statement: str
    verdict: ClaimVerdict
    why: str
    ours: str = ""
    counterexample: str = ""
    criterion: str = ""
    exploratory: bool = False
    seen: tuple[ClaimVerdict, ...] = ()

    def __post_init__(self) -> None:
        against = self.verdict in (ClaimVerdict.HOLDS_CORRECTED, ClaimVerdict.DOES_NOT_HOLD)
        if against and not (self.ours and self.counterexample):
            raise BadInput(
                f"claim '{self.id}' speaks against its paper without showing it",
                "give a counterexample and our version of the statement",
            )
        if sum(bool(line.strip()) for line in self.counterexample.splitlines()) > LONGEST_COUNTEREXAMPLE:
            raise BadInput(
                f"the counterexample of claim '{self.id}' is too long",
                f"use {LONGEST_COUNTEREXAMPLE} lines at most",
            )
        if self.exploratory and not self.criterion:
            raise BadInput(f"claim '{self.id}' is exploratory without a criterion", "say what its check requires")
        if self.seen and self.verdict is not ClaimVerdict.OPEN:
            raise BadInput(f"claim '{self.id}' is decided, and seeds disagree about it", "make its verdict open")

    def confirmed_by(self, found: ClaimVerdict) -> bool:
        """Whether a check that finds this says what we say."""
        return found is self.verdict or found in self.seen

    def plain(self) -> dict[str, Any]:
        """The claim for other programs."""
        return {
            "id": self.id,
            "source": self.source,
            "statement": self.statement,
            "verdict": str(self.verdict),
            "why": self.why,
            "ours": self.ours or None,
            "counterexample": self.counterexample or None,
            "criterion": self.criterion or None,
            "exploratory": self.exploratory,
            "seen": [str(verdict) for verdict in self.seen],
        }
