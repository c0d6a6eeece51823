"""What will it generalise? Tempered posteriors of singular models, their RLCT, and criteria built on them."""

from phasecast.posterior.exact import exact
from phasecast.posterior.from_numpyro import from_numpyro
from phasecast.posterior.model import Model
from phasecast.posterior.models import deep_linear, linear, linear_data, mixture, monomial, reduced_rank
from phasecast.posterior.networks import network_data, polygon_network, two_layer
from phasecast.posterior.rlct import rlct
from phasecast.posterior.rlct_result import RLCT
from phasecast.posterior.tempered import tempered

__all__ = [
    "RLCT",
    "Model",
    "deep_linear",
    "exact",
    "from_numpyro",
    "linear",
    "linear_data",
    "mixture",
    "monomial",
    "network_data",
    "polygon_network",
    "reduced_rank",
    "rlct",
    "tempered",
    "two_layer",
]
