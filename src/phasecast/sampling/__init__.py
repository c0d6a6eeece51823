"""How chains move: kernels with one contract, for JAX and for PyTorch."""

from phasecast.sampling.fixed import Fixed
from phasecast.sampling.hmc import hmc, mala
from phasecast.sampling.kernel import Kernel, Tuning
from phasecast.sampling.langevin import langevin
from phasecast.sampling.stochastic import rmsprop_sgld, sgld, sgnht
from phasecast.sampling.through_blackjax import from_blackjax, mclmc, nuts

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
    "hmc",
    "langevin",
    "mala",
    "mclmc",
    "nuts",
    "rmsprop_sgld",
    "sgld",
    "sgnht",
]
