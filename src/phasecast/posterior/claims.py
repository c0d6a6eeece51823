"""What the papers claim about posteriors, and what we found."""

from __future__ import annotations

from phasecast.posterior import singular_claims
from phasecast.posterior.generalisation_claims import GENERALISATION_CLAIMS
from phasecast.posterior.learning_claims import LEARNING_CLAIMS
from phasecast.posterior.singularity_claims import SINGULARITY_CLAIMS

CLAIMS = (*singular_claims.CLAIMS, *SINGULARITY_CLAIMS, *GENERALISATION_CLAIMS, *LEARNING_CLAIMS)
