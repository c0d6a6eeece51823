"""When is λ̂ from tempered posteriors refused, when does it belong to another phase, and when is its limit far?"""

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
    distance_per_trend: float = rule(
        2.0,
        "times dλ(β)/d log β is the distance to the limit for a correction (nβ)^(−1/2), as of w⁴ and of the noise of a "
        "singular model; it is half of that in a regular model and log nβ, about twice that, for a multiplicity",
    )
    most_distant: float = rule(
        0.2,
        "of λ̂, as most_varied. By quadrature this distance at nβ = 50 is 0.10 of λ̂ for w⁴, which is off by 0.11, and "
        "0.25 to 0.33 for x²y² and two tanh units around zero, which are off by 0.7 to 0.8",
    )
    least_seen: float = rule(
        0.5,
        "share of the data in the mean curvature along a direction over the posterior: below, the prior decides more "
        "than the data. At a singularity single draws have flat directions, but not the same ones",
    )
    curvature_draws: int = rule(
        32, "for that mean; chosen: more than the flat directions of any model we know turn into"
    )
    gaussian_within: float = rule(
        0.05,
        "of the Gaussian prediction, beside the errors; chosen: its own corrections are of order d/nβ, some percent",
    )
    fluctuation: float = rule(
        0.5,
        "times √(λβ/2), the most that λ̂ of one data set differs from others if the model is singular: the derivative "
        "over 1/β of the random term U√(λ/2β) with E[U²] ≤ 1 (Watanabe 2013, Theorem 4); a regular model has U = 0",
    )
    most_parameters: int = rule(200, "for the Hessian at the best point; chosen: beyond, it costs more than the chains")
    most_scores: float = rule(
        2e7, "observations × parameters, for the derivative of every log-likelihood; chosen: 160 MB"
    )


POLICY = RLCTPolicy()
