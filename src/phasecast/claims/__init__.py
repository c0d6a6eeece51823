"""What the papers claim and what we found, one folder per paper.

>>> from phasecast import claims
>>> claims.find("survey/lambda-is-min").verdict
<ClaimVerdict.HOLDS_CORRECTED: 'holds with a correction'>
"""

from phasecast.claims.registry import Verification, all_claims, check_of, find, verify
from phasecast.claims.verification import StoredVerification, verify_all
from phasecast.core.claim import Claim, ClaimVerdict, Finding, RecipeCheck

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
