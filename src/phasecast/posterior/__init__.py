"""What will it generalise? Tempered posteriors of singular models, their RLCT, and criteria built on them."""

from phasecast.posterior.comparison import Ranking, Scores, compare
from phasecast.posterior.criteria import Criteria, criteria, from_arviz, new_data_losses
from phasecast.posterior.evidence import bic, free_energy, temperature_grid, wbic, wbic_beta
from phasecast.posterior.exact_learning import GridModel, learning_errors, power_model, singular_fluctuation
from phasecast.posterior.feature_networks import Training
from phasecast.posterior.generalisation import Setting, generalisation_curves, table_setting
from phasecast.posterior.model import Model
from phasecast.posterior.rlct import rlct
from phasecast.posterior.rlct_result import RLCT
from phasecast.posterior.scoring import score
from phasecast.posterior.singular import (
    effective_parameters,
    flat_minimum_entropy,
    rescale,
    rescaling,
    scaling_direction,
    singularity,
)
from phasecast.posterior.tempered import tempered

__all__ = [
    "RLCT",
    "Criteria",
    "GridModel",
    "Model",
    "Ranking",
    "Scores",
    "Setting",
    "Training",
    "bic",
    "compare",
    "criteria",
    "effective_parameters",
    "flat_minimum_entropy",
    "free_energy",
    "from_arviz",
    "generalisation_curves",
    "learning_errors",
    "new_data_losses",
    "power_model",
    "rescale",
    "rescaling",
    "rlct",
    "scaling_direction",
    "score",
    "singular_fluctuation",
    "singularity",
    "table_setting",
    "temperature_grid",
    "tempered",
    "wbic",
    "wbic_beta",
]
