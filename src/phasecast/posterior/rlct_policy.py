"""When is λ̂ from tempered posteriors refused, and when does it belong to another phase?"""

from __future__ import annotations

from dataclasses import dataclass

from phasecast.core.policy import Policy, rule


@dataclass(frozen=True)
class RLCTPolicy(Policy):
    """Thresholds of :func:`phasecast.posterior.rlct`."""

    largest_rhat: float = rule(1.01, "Vehtari et al. 2021, section 4: chains agree if R-hat of every quantity is below")
    fewest_effective: float = rule(400, "Vehtari et al. 2021, section 4: below, R-hat and the error are unreliable")
    most_divergent: float = rule(0.001, "chosen, not derived: Stan asks for none; a share of 1/1000 is tolerated")
    most_varied: float = rule(0.2, "chosen, not derived: one number describes λ(β) only if it is flat over the grid")
    tolerance: float = rule(3.0, "standard errors, as in comparisons: 0.3% false alarms for a normal estimate")
    false_alarms: float = rule(0.001, "chosen: probability that chains from both starts seem to differ by chance")
    other_phase: float = rule(
        2.0,
        "around the best parameters β(E[nL] − nL(best)) tends to λ (Watanabe 2013, Theorem 4); an excess of twice λ̂ "
        "belongs elsewhere. The factor is chosen, not derived",
    )
    fewest_live_units: float = rule(0.5, "a mean below one half: most draws have no live unit, the model is constant")
    least_r2: float = rule(0.02, "chosen, not derived: a predictive R² this small is that of a constant up to noise")


POLICY = RLCTPolicy()
