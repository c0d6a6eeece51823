"""What the papers claim about posteriors, and what we found."""

from __future__ import annotations

from phasecast.posterior import singular_claims

CLAIMS = singular_claims.CLAIMS
