"""Which numbers decide what λ̂ is, when its sampling stops, and whether it is ok, a warning or refused?

"Coverage" below is what ``benchmarks/llc_truth.py calibration`` measures with these values: ±2 errors hold in 90 to 95%
of 40 seeds (table in docs/llc.md). Run it again after changing a rule that mentions it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from phasecast.core.policy import Policy, rule


@dataclass(frozen=True)
class LLCPolicy(Policy):
    """The rules of :func:`phasecast.llc`; "work" is parameters × rows of a gradient."""

    # which sampler, and how much of it
    largest_adjusted: int = rule(
        1000, "parameters up to which steps are Metropolis-adjusted; above, λ̂ is so large that its noise is small"
    )
    largest_adjusted_nearby: int = rule(
        100,
        "the same where γ follows from the neighbourhood of trained weights: the least number of adjusted steps gives "
        "0.5% in 30 s where 5% takes 1 to 4 s; 40 of 40 calls of benchmarks/llc_small_nets.py held",
    )
    cheap_work: float = rule(5e5, "chosen: above, long adjusted trajectories cost more than the bias they remove")
    largest_full_work: float = rule(5e8, "chosen: above, a gradient of all rows takes more than about 0.1 s on a core")
    large_work: float = rule(5e7, "chosen: above, chunks are short, so that a time limit is kept to a second or two")
    adjusted_chains: int = rule(8, "chosen: four from inside and four from outside, for R-hat")
    adjusted_work: float = rule(1e11, "chosen: gradients of all chains × work; bounds the time of adjusted chains")
    fewest_gradients: float = rule(5e5, "chosen: lower end of the budget of adjusted chains")
    most_gradients: float = rule(1e9, "chosen: upper end of the budget of adjusted chains")
    langevin_budget: float = rule(5e4, "chosen: gradients of each unadjusted chain on expensive problems")
    cheap_budget_factor: int = rule(4, "chosen: how many more gradients unadjusted chains get on cheap problems")
    expensive_size: int = rule(10_000, "chosen: parameters above which each further chain's warm-up costs too much")
    largest_for_two_chains: int = rule(100_000, "chosen: above, one chain; a second would need its own warm-up")
    descent_steps: int = rule(200, "chosen: L-BFGS iterations from w* at most")
    fewest_descent_steps: int = rule(20, "chosen: L-BFGS iterations from w* at least")
    beside: float = rule(0.1, "chosen: distance from a w* without a slope at which a descent starts, over 1/√γ")
    descent_share: float = rule(0.5, "chosen: gradients of the descent over those of a chain so far")
    descent_time: float = rule(0.3, "chosen: share of the time limit that the descent may take")
    cold_windows: float = rule(
        3.0, "chosen: windows of a cold chain; critically damped, it has then lost 0.98 of a slope"
    )
    lowest_looks: int = rule(20, "chosen: minibatches that compare the end of a cold chain with w*")
    follow: float = rule(
        0.5, "share of a move of w* that chains make with it: all in flat directions, none in stiff ones, half at k = γ"
    )
    coldness: float = rule(1e4, "a temperature of 10⁻⁴ adds 10⁻⁴ λ̂ to the lowest loss")

    fewest_rows: int = rule(16, "chosen: smallest minibatch")
    quiet_batch: float = rule(0.5, "terms of a minibatch over nβ beyond which less noise hardly helps; see plan.py")
    cheap_gradient: float = rule(2e8, "chosen: work of a gradient on a minibatch, about 0.05 s on a core")

    # one level: chains at one γ
    trajectory: float = rule(1.5, "a quarter period of the softest direction is π/2")
    good_acceptance: float = rule(0.85, "chosen: above the 0.65 that is optimal for HMC (Neal 2011), for narrow places")
    warm_acceptance: float = rule(0.6, "chosen: below, the step size is still being found")
    adaptation_gain: float = rule(3.0, "chosen: first change of log step size per unit of acceptance")
    adaptation_decay: float = rule(0.6, "stochastic approximation needs a power in (1/2, 1] (Robbins & Monro 1951)")
    adjusted_chunk: int = rule(20, "chosen: trajectories per chunk")
    positions_per_chain: int = rule(6, "chosen: past positions that show the widest direction")
    fewest_positions: int = rule(24, "chosen: with fewer, the widest direction is noise")
    warm_chunks: int = rule(8, "chosen: chunks before the first look at R-hat")
    warm_rhat: float = rule(1.05, "chosen: looser than largest_rhat, because warm-up traces are short")
    fewest_steps: int = rule(300, "chosen: steps before the error of λ̂ is looked at; enters coverage")
    look_growth: float = rule(1.3, "looking at every chunk would favour stopping on a low error; enters coverage")
    longest_trajectory: int = rule(4096, "chosen: leaps; beyond, a smaller γ costs more than it tells")
    divergence_step_factor: float = rule(0.7, "chosen: how much shorter steps get after divergences")
    most_shortenings: int = rule(
        16,
        "chosen: by then steps are 300 times shorter; of the levels in the tests that ended well none needed 6",
    )
    langevin_step: float = rule(1.0, "half the stability limit 2/√(largest curvature) of leapfrog")
    langevin_window: float = rule(2.0, "chosen: time in 1/√γ over which warm-up is judged")
    langevin_friction: float = rule(2.0, "critical damping of the softest direction, in √γ")
    short_chunk: int = rule(10, "chosen: Langevin steps between looks at the curvature at first")
    long_chunk: int = rule(50, "chosen: Langevin steps between looks later")
    short_chunk_gradients: int = rule(200, "chosen: gradients per chain during which chunks are short")
    first_windows: int = rule(3, "chosen: two windows to compare after one to leave the start")
    heated_share: float = rule(0.75, "share of noise that heats the loss before it is measured: 0.6 to 1 were seen")
    heated_width: float = rule(0.15, "chosen: uncertainty of heating from noise that is known to a tenth, curved paths")
    share_every: int = rule(4, "chosen: looks at the noise per look at that share, which costs five gradients")
    heated_targets: float = rule(3.0, "an uncertain fifth of a bound of 3 targets is 0.6 of the target")
    wanted_heat: float = rule(0.7, "chosen: below what is allowed, because the noise is known to about a third")
    needlessly_cool: float = rule(0.25, "chosen: a step four times longer would do; less is not worth a change")
    far_too_hot: float = rule(4.0, "chosen: worth a shorter step before a window is over; early λ̂ is known to a factor")
    smallest_shrink: float = rule(0.02, "chosen: a step fifty times shorter means that the batch is too small")
    fewest_window_steps: int = rule(20, "chosen: steps of a window at least, so that its means have errors")
    slowest_time: float = rule(2.5, "autocorrelation time of the loss in 1/√γ, of the softest direction; see level.py")
    last_windows: int = rule(3, "chosen: windows sampled at least, with the last of warm-up; enters coverage")
    still: float = rule(0.01, "chosen: relative change between windows that counts as none; enters coverage")
    still_errors: float = rule(3.0, "standard errors: one false alarm in 370")
    most_halvings: int = rule(20, "chosen: a millionth of the first step; the loss is not smooth there")
    curvature_looks: int = rule(4, "chosen: power iterations at the start of a level; the direction is kept")
    curvature_updates: int = rule(2, "chosen: power iterations per chunk of warm-up")
    curvature_gain: float = rule(
        0.25, "chosen: weight of the last look at the curvature on minibatches, in its logarithm"
    )
    difference_share: float = rule(0.1, "chosen: length of finite differences, in 1/√(largest curvature)")

    # γ by γ
    direct_condition: float = rule(1e4, "chosen: largest curvature over γ up to which chains start at γ from w*")
    curve_goal: float = rule(0.1, "chosen: relative error of λ̂ at the γ beside the one that was asked for")
    curve_time: float = rule(0.15, "chosen: share of the time limit after which no γ beside it is sampled")
    level_share: float = rule(0.34, "chosen: share of what is left of the budget that one level may take")
    first_condition: float = rule(100.0, "chosen: largest curvature over γ at the first level, where sampling is easy")
    ratio: float = rule(math.sqrt(10), "chosen: two levels per decade of γ")
    most_levels: int = rule(9, "chosen: four decades of γ")
    small_level_goal: float = rule(0.35, "chosen: error of a level over the target, of small models; enters coverage")
    large_level_goal: float = rule(0.1, "chosen: error of a level over the target, of large models; enters coverage")
    poorest_level: float = rule(0.01, "chosen: largest relative error of a level that enters an extrapolation")
    agreement: float = rule(0.01, "chosen: line and parabola this close end the schedule")
    near: float = rule(0.05, "chosen: the last level this close to the line ends the schedule")
    flat: float = rule(0.025, "chosen: relative change over a decade of γ treated as zero")
    linear: float = rule(0.6, "chosen: smallest power of γ that may be extrapolated by polynomials")
    loose: float = rule(0.02, "chosen: line and parabola this close make the limit believable")
    extrapolated_share: float = rule(
        0.1, "chosen: systematic error as a share of the extrapolated part; enters coverage"
    )
    decade: float = rule(10.0, "how much lower nβ is on the second schedule, which measures the approach to nβ → ∞")
    curvature_steps: int = rule(6, "chosen: power iterations that find the first γ, to a factor of two")
    bisections: int = rule(8, "halvings of a range of about ten decades of γ: to a tenth of a decade")

    # fixed steps
    fixed_chunk: int = rule(100, "chosen: steps between two places where a run can stop")
    fixed_looks: int = rule(8, "chosen: power iterations at w* where a fixed step is chosen")
    careful_gradient_step: float = rule(
        0.1, "chosen: SGLD is then 2.5% too wide in the stiffest direction (step × curvature / 4)"
    )
    careful_mclmc_step: float = rule(0.2, "chosen: share of √(d/curvature)")
    careful_langevin_step: float = rule(0.5, "a quarter of the stability limit of leapfrog")

    # ok, warning or refused
    largest_rhat: float = rule(1.01, "Vehtari et al. 2021")
    most_divergent: float = rule(0.001, "chosen: share of divergent steps; more means places that were not visited")
    lowest_acceptance: float = rule(0.6, "chosen: below, adaptation has failed at good_acceptance")
    small_gap: float = rule(0.02, "chosen: share of λ̂ that descent from w* may gain; more is worth a sentence")
    lost_errors: float = rule(3.0, "standard errors below zero, relative to the minimum: one false alarm in 740")
    large_bias: float = rule(0.05, "chosen: share of λ̂ that a fixed step may bias it by")
    small_bias: float = rule(0.01, "chosen: a fifth of the default target")
    bias_errors: float = rule(2.0, "standard errors: a smaller bias is not told from 0 at 95%")
    large_stein: float = rule(4.0, "standard errors: one false alarm in 16,000")
    small_stein: float = rule(0.01, "share of d: below, a significant bias does not matter")
    no_plateau: float = rule(0.1, "chosen: relative change of λ̂ per decade of nβ that is too much for a limit")
    drift_errors: float = rule(4.0, "standard errors: one false alarm in 16,000")
    drift_share: float = rule(0.04, "chosen: twice small_gap, for |w − w*|²")
    fewest_drift_bins: int = rule(16, "eight means in each half, the least that traces give an error for")
    unfinished_error: float = rule(5.0, "chosen: multiple of the target beyond which a spent budget is refused")
    fewest_times: float = rule(1.0, "autocorrelation times below which a spent budget is refused: not one of its own")
    few_times: float = rule(5.0, "chosen: autocorrelation times below which a warning says how few there were")
    unfinished_steps: int = rule(80, "chosen: steps below which a spent budget is refused")

    def careful_step(self, kernel: str) -> float:
        """A fixed step in the natural unit of a kernel."""
        named = {"mclmc": self.careful_mclmc_step, "langevin": self.careful_langevin_step}
        return named.get(kernel, self.careful_gradient_step)


POLICY = LLCPolicy()
