"""What will be done: the options of a user, made definite by the size of the problem."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from phasecast.coefficients.llc.options import LLCOptions
from phasecast.coefficients.llc.policy import LLCPolicy
from phasecast.sampling import KERNELS, Kernel
from phasecast.sampling.backends.protocol import Backend


@dataclass(frozen=True)
class Plan:
    """How chains are run: ``gamma`` is None for the limit γ → 0, ``budget`` in gradients of single chains."""

    nbeta: float
    gamma: float | None
    chains: int
    target: float
    budget: float
    kernel: Kernel
    policy: LLCPolicy

    def plain(self) -> dict[str, float | str]:
        """What the problem decided, to be stored."""
        return {"chains": self.chains, "target": self.target, "budget": self.budget, "kernel": self.kernel.name}


def plan_for(backend: Backend, options: LLCOptions, nbeta: float, kernel: Kernel | None, policy: LLCPolicy) -> Plan:
    """The plan for tuned chains on full gradients."""
    size, rows, chains = backend.size, backend.rows or 0, options.chains
    if kernel is None:
        small = size <= policy.largest_adjusted and size * rows <= policy.cheap_work
        kernel = KERNELS["hmc" if small else "langevin"]()
    if kernel.adjusted:
        affordable = policy.adjusted_work / (size * max(rows, 10))
        budget = min(max(affordable, policy.fewest_gradients), policy.most_gradients)
    else:
        expensive = size > policy.expensive_size or size * rows > policy.cheap_work
        # each extra chain needs its own warm-up
        chains = min(chains, 1 if size > policy.largest_for_two_chains else 2 if expensive else 4)
        budget = policy.langevin_budget * chains * (1 if expensive else policy.cheap_budget_factor)
    plan = Plan(nbeta, options.gamma, chains, options.target, options.max_grads or budget, kernel, policy)
    # λ is at most d/2: a larger gain by descent means that λ̂ will be refused
    if descent_gap(backend, plan, options.gamma or 1.0) > policy.large_gap * size / 2:
        target, budget = max(options.target, policy.rough_target), plan.budget / policy.rough_budget_divisor
        return replace(plan, target=target, budget=budget)
    return plan


def descent_gap(backend: Backend, plan: Plan, gamma: float) -> float:
    """How much lower nβL gets by descent from w*, held back by γ."""
    from scipy.optimize import minimize

    nbeta, centre = plan.nbeta, backend.centre_as_numpy

    def energy(flat: np.ndarray) -> tuple[float, np.ndarray]:
        loss, slope = backend.evaluate(flat[None, :])
        decay = nbeta * backend.decay
        value = nbeta * loss[0] + gamma / 2 * flat @ flat + decay * (flat @ flat / 2 + flat @ centre)
        return float(value), nbeta * slope[0].astype(float) + gamma * flat + decay * (flat + centre)

    steps = {"maxiter": plan.policy.descent_steps}
    lowest = minimize(energy, np.zeros(backend.size), jac=True, method="L-BFGS-B", options=steps)
    return max(0.0, -nbeta * float(backend.evaluate(lowest.x[None, :])[0][0]))
