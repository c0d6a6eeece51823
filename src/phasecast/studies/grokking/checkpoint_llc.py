"""What is λ̂ at a checkpoint of a training, on its training rows? Compiled once, sampled with any options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from phasecast.coefficients.llc.options import LLCOptions
from phasecast.core.errors import BadInput
from phasecast.grokking.networks import Architecture
from phasecast.grokking.training import centred_loss
from phasecast.sampling import Fixed

if TYPE_CHECKING:
    from phasecast.coefficients.llc.result import LLC
    from phasecast.sampling.backends.jax import JaxBackend

PAPER_NBETA, PAPER_GAMMA = 30.0, 5.0  # Cullen et al. 2026, appendix H.1
PAPER_SGLD = Fixed("sgld", step_size=1e-4, draws=600, burn_in=100)
PAPER_CHAINS = 3  # Cullen et al. 2026, appendix H.1


class CheckpointLLC:
    """λ̂ of one network on one set of training rows, at one checkpoint after another."""

    def __init__(self, network: Architecture, tokens: np.ndarray, labels: np.ndarray, precision: str | None = None):
        self.network, self.precision = network, precision
        self.data = (tokens.astype(np.int32), labels.astype(np.int32))
        self._backend: JaxBackend | None = None

    def sample(self, params: dict[str, np.ndarray], options: LLCOptions) -> LLC:
        """λ̂ at these parameters; not ok if the checkpoint is not a minimum yet."""
        from phasecast.coefficients.llc.estimate import Estimator
        from phasecast.coefficients.llc.problems import Sampled
        from phasecast.sampling.backends.jax import jax_backend

        if options.minibatch is not None or options.prior is not None or options.only is not None:
            raise BadInput("λ̂ at a checkpoint uses all rows and all weights", "leave out minibatches, prior and only")
        if self._backend is None:
            network = self.network
            self._backend = jax_backend(
                lambda params, data: centred_loss(network.apply(params, data[0]), data[1]),
                params,
                self.data,
                precision=self.precision,
            )
        estimator = Estimator(Sampled(self._backend.moved_to(params), len(self.data[1]), ""), options)
        while estimator.advance():  # Ctrl-C ends the run, which resumes to the same bits
            pass
        return estimator.conclude()
