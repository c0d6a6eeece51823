from phasecast.posterior.generalisation_claims import GENERALISATION_CLAIMS
from phasecast.posterior.learning_claims import LEARNING_CLAIMS
from phasecast.posterior.singular_claims import SINGULARITY_CLAIMS

CLAIMS = (*LEARNING_CLAIMS, *SINGULARITY_CLAIMS, *GENERALISATION_CLAIMS)
