"""How do chains move? Kernels with one contract for JAX and PyTorch, tempering, and an exact Gibbs sampler."""

from phasecast.sampling.gibbs import gibbs_coefficient
from phasecast.sampling.kernels.blackjax import from_blackjax, mclmc, nuts
from phasecast.sampling.kernels.fixed_settings import Fixed
from phasecast.sampling.kernels.hmc import hmc, mala
from phasecast.sampling.kernels.kernel import Kernel, Tuning
from phasecast.sampling.kernels.langevin import langevin
from phasecast.sampling.kernels.stochastic import rmsprop_sgld, sgld, sgnht

KERNELS = {
    "hmc": hmc,
    "langevin": langevin,
    "mala": mala,
    "mclmc": mclmc,
    "nuts": nuts,
    "rmsprop-sgld": rmsprop_sgld,
    "sgld": sgld,
    "sgnht": sgnht,
}
"""Every kernel by the name that ``llc(…, sampler=…)`` knows it by."""

__all__ = [
    "KERNELS",
    "Fixed",
    "Kernel",
    "Tuning",
    "from_blackjax",
    "gibbs_coefficient",
    "hmc",
    "langevin",
    "mala",
    "mclmc",
    "nuts",
    "rmsprop_sgld",
    "sgld",
    "sgnht",
]
