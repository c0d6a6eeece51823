"""What will it generalise? Tempered posteriors of singular models, their RLCT, and criteria built on them."""

from phasecast.posterior.model import Model

__all__ = ["Model"]
