"""What Worschech & Rosenow 2024 say about scaling laws, and what we found."""

from __future__ import annotations

from phasecast.online.equation_claims import EQUATION_CLAIMS
from phasecast.online.figure_claims import FIGURE_CLAIMS
from phasecast.online.linear_claims import LINEAR_CLAIMS
from phasecast.online.plateau_claims import PLATEAU_CLAIMS

CLAIMS = (*EQUATION_CLAIMS, *LINEAR_CLAIMS, *PLATEAU_CLAIMS, *FIGURE_CLAIMS)
