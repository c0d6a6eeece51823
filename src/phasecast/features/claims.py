"""What Wang & Montanari 2026 say about feature learning, and what we found."""

from __future__ import annotations

from phasecast.features.study_claims import STUDY_CLAIMS
from phasecast.features.theory_claims import THEORY_CLAIMS

CLAIMS = THEORY_CLAIMS + STUDY_CLAIMS
