"""What the papers claim and what we found, one folder per paper.

>>> from phasecast import claims
>>> claims.find("survey/lambda-is-min").verdict
<ClaimVerdict.HOLDS_CORRECTED: 'holds with a correction'>
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phasecast.claims.registry import Verification, all_claims, check_of, find, verify
from phasecast.core.claim import Claim, ClaimVerdict, Finding, RecipeCheck

if TYPE_CHECKING:
    from phasecast.claims.verification import StoredVerification, verify_all

RECIPES: dict[str, str] = {"claim-check": "phasecast.claims.verification"}
"""The recipe of a check that is a function; see :data:`phasecast.studies.RECIPES`."""

__all__ = [
    "Claim",
    "ClaimVerdict",
    "Finding",
    "RecipeCheck",
    "StoredVerification",
    "Verification",
    "all_claims",
    "check_of",
    "find",
    "verify",
    "verify_all",
]


def __getattr__(name: str) -> Any:
    if name in ("StoredVerification", "verify_all"):  # the lab takes longer to import than a list of claims to print
        from phasecast.claims import verification

        return getattr(verification, name)
    raise AttributeError(f"module 'phasecast.claims' has no attribute '{name}'")
