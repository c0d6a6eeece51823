"""What will it generalise? Tempered posteriors of singular models, their RLCT, and criteria built on them."""

from phasecast.posterior.model import Model
from phasecast.posterior.rlct import rlct
from phasecast.posterior.rlct_result import RLCT
from phasecast.posterior.tempered import tempered

__all__ = ["RLCT", "Model", "rlct", "tempered"]
