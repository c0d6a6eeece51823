"""What will be done: the options of a user, made definite by the size of the problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasecast.coefficients.llc.options import LLCOptions
from phasecast.coefficients.llc.policy import LLCPolicy
from phasecast.core.bounds import check_memory
from phasecast.sampling import KERNELS, Fixed, Kernel
from phasecast.sampling.backends.protocol import Backend
from phasecast.sampling.kernels.kernel import State

ARRAYS = 12  # per chain: position, slope, momentum, and what a step and its record hold beside them; chosen


@dataclass(frozen=True)
class Plan:
    """How chains are run.

    ``gamma`` is None for the limit γ → 0, ``neighbourhood`` whether γ follows from the radius of a neighbourhood,
    ``budget`` in gradients of single chains, ``batch`` the rows of a minibatch or None for all of them, and ``start``
    where the chains begin, if not at w*.
    """

    nbeta: float
    gamma: float | None
    chains: int
    target: float
    budget: float
    kernel: Kernel
    policy: LLCPolicy
    neighbourhood: bool = False
    batch: int | None = None
    chunk: int = 50
    start: State | None = None

    def plain(self) -> dict[str, float | str]:
        """What the problem decided, to be stored."""
        return {"chains": self.chains, "target": self.target, "budget": self.budget, "kernel": self.kernel.name}


def check_chains(chains: int, backend: Backend) -> None:
    """Refuse chains that do not fit into memory, before they are allocated."""
    numbers = chains * (ARRAYS * backend.size + (backend.rows or 0))
    check_memory(
        numbers * (8.0 if backend.double else 4.0), f"{chains} chains of {backend.size} parameters", "use fewer chains"
    )


def localisation(centre: np.ndarray, radius: float) -> float | None:
    """γ = d / (r²|w*|²), at which a flat loss would put the chains at r|w*| from w*; None where w* = 0 has no scale."""
    square = float(centre @ centre)
    return len(centre) / (radius**2 * square) if square > 0 else None


def plan_for(backend: Backend, options: LLCOptions, nbeta: float, terms: int, policy: LLCPolicy) -> Plan:
    """The plan for tuned chains; ``terms`` is the number of terms in the mean loss."""
    gamma: float | None = None
    if options.gamma is None:
        gamma = localisation(backend.centre_as_numpy, options.radius)
    elif options.gamma != "limit":
        gamma = options.gamma
    size, kernel = backend.size, options.method
    assert not isinstance(kernel, Fixed)
    work = backend.model_size * terms  # of a gradient, however few parameters move
    batched = kernel is None and work > policy.largest_full_work and gamma is not None and backend.separable
    if kernel is None:
        local = options.gamma is None and gamma is not None
        most = policy.largest_adjusted_nearby if local else policy.largest_adjusted
        small = size <= most and work <= policy.cheap_work and not batched
        kernel = KERNELS["hmc" if small else "langevin"]()
    if kernel.adjusted:
        affordable = policy.adjusted_work / (size * max(terms, 10))
        budget = min(max(affordable, policy.fewest_gradients), policy.most_gradients)
        chains = options.chains or policy.adjusted_chains
    else:
        expensive = size > policy.expensive_size or work > policy.cheap_work
        # each extra chain needs its own warm-up
        few = 1 if size > policy.largest_for_two_chains or batched else 2 if expensive else 4
        chains = options.chains or few
        budget = policy.langevin_budget * chains * (1 if expensive else policy.cheap_budget_factor)
    return Plan(
        nbeta,
        gamma,
        chains,
        options.target,
        options.max_grads or budget,
        kernel,
        policy,
        neighbourhood=options.gamma is None and gamma is not None,
        batch=_batch_rows(backend, terms, nbeta, policy) if batched else None,
        chunk=policy.long_chunk if work <= policy.large_work or batched else policy.short_chunk,
    )


def _batch_rows(backend: Backend, terms: int, nbeta: float, policy: LLCPolicy) -> int:
    """As many rows as make a gradient cheap, and no more than its noise calls for.

    Noise that may add the share h of λ̂ allows steps with which a window of time 2/√γ takes nβR/(2h) terms, however they
    are split into batches, where R = tr(nβH)/(2γλ̂), about 7 for a transformer; without noise it takes some 100 steps.
    So with h = 0.1 batches of more than about nβ/3 terms make steps dearer, not longer.
    """
    rows = backend.rows or 1
    terms_per_row = max(1.0, terms / rows)
    cheap = policy.cheap_gradient / (backend.model_size * terms_per_row)
    quiet = policy.quiet_batch * nbeta / terms_per_row
    return int(min(rows, max(policy.fewest_rows, min(cheap, quiet))))
