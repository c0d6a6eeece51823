"""What the papers claim and what we found: every claim, and its check run again.

>>> from phasecast import claims
>>> claims.find("survey/lambda-is-min").verdict
<ClaimVerdict.HOLDS_CORRECTED: 'holds with a correction'>
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from phasecast.core.claim import Claim, ClaimVerdict, Finding
from phasecast.core.errors import unknown

PACKAGES = ("coefficients",)
"""The science packages; each has a module ``claims`` with its ``CLAIMS``."""

__all__ = ["Claim", "ClaimVerdict", "Finding", "Verification", "all_claims", "find", "verify"]


@dataclass(frozen=True)
class Verification:
    """A claim, what its check found just now, and whether that is what we say."""

    claim: Claim
    finding: Finding

    @property
    def confirmed(self) -> bool:
        return self.finding.verdict is self.claim.verdict

    def plain(self) -> dict[str, Any]:
        return {
            **plain(self.claim),
            "found": {
                "verdict": str(self.finding.verdict),
                "found": self.finding.found,
                "comparisons": [comparison.plain() for comparison in self.finding.comparisons],
            },
            "confirmed": self.confirmed,
        }


def all_claims() -> dict[str, Claim]:
    """Every claim by its id."""
    modules = (importlib.import_module(f"phasecast.{package}.claims") for package in PACKAGES)
    return {claim.id: claim for module in modules for claim in module.CLAIMS}


def find(identity: str) -> Claim:
    """One claim."""
    claims = all_claims()
    if identity not in claims:
        raise unknown("claim", identity, claims)
    return claims[identity]


def verify(identity: str) -> Verification:
    """Run the check of a claim again."""
    claim = find(identity)
    return Verification(claim, claim.check())


def plain(claim: Claim) -> dict[str, Any]:
    """A claim for other programs."""
    return {
        "id": claim.id,
        "source": claim.source,
        "statement": claim.statement,
        "verdict": str(claim.verdict),
        "why": claim.why,
        "ours": claim.ours or None,
        "counterexample": claim.counterexample or None,
    }
