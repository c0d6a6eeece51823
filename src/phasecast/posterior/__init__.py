"""What will it generalise? Tempered posteriors of singular models, their RLCT, and criteria built on them."""

from phasecast.posterior.exact_evidence import exact
from phasecast.posterior.exact_learning import GridModel, learning_errors, power_model, singular_fluctuation
from phasecast.posterior.from_numpyro import from_numpyro
from phasecast.posterior.last_layers.feature_networks import Training
from phasecast.posterior.last_layers.generalisation import Setting, generalisation_curves, table_setting
from phasecast.posterior.model import Model
from phasecast.posterior.rlct import rlct
from phasecast.posterior.rlct_result import RLCT
from phasecast.posterior.scores.comparison import Ranking, Scores, compare
from phasecast.posterior.scores.criteria import Criteria, criteria, from_arviz, new_data_losses
from phasecast.posterior.scores.evidence import bic, free_energy, temperature_grid, wbic, wbic_beta
from phasecast.posterior.scores.scoring import prior_losses, score
from phasecast.posterior.singularity import (
    effective_parameters,
    flat_minimum_entropy,
    rescale,
    rescaling,
    scaling_direction,
    singularity,
)
from phasecast.posterior.tempered import tempered
from phasecast.posterior.zoo.linear import deep_linear_model as deep_linear
from phasecast.posterior.zoo.linear import linear_data
from phasecast.posterior.zoo.linear import linear_model as linear
from phasecast.posterior.zoo.linear import reduced_rank_model as reduced_rank
from phasecast.posterior.zoo.mixture import mixture_model as mixture
from phasecast.posterior.zoo.monomial import monomial_model as monomial
from phasecast.posterior.zoo.two_layer import network_data, polygon_network, two_layer

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
    "deep_linear",
    "effective_parameters",
    "exact",
    "flat_minimum_entropy",
    "free_energy",
    "from_arviz",
    "from_numpyro",
    "generalisation_curves",
    "learning_errors",
    "linear",
    "linear_data",
    "mixture",
    "monomial",
    "network_data",
    "new_data_losses",
    "polygon_network",
    "power_model",
    "prior_losses",
    "reduced_rank",
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
    "two_layer",
    "wbic",
    "wbic_beta",
]
