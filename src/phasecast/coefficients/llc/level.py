"""One level of γ: all chains at one γ, tuned, warmed up, and sampled until the error is small enough.

A level is a value that :func:`advance` moves on by one chunk, so that it can be stored between any two.

Adjusted kernels (HMC, MALA, NUTS) start dispersed: half of the chains from inside, half from outside of where they will
end, so that R-hat can see whether they have met. Their step size is tuned for all chains together. Trajectories are as
long as the softest direction needs: a quarter of its period, from the widest spread of the chains and from γ.

Unadjusted Langevin dynamics follows the largest curvature where the chains are, until radius, loss and Stein's identity
stand still, then keeps its step.

On minibatches the noise of the gradients heats the chains; :mod:`~phasecast.coefficients.llc.noise` says by how much.

The loss of such chains forgets itself within τ = 2.5/√γ. In a direction that γ alone holds, critically damped, the
offset u has the autocorrelation (1 + t) exp(−t) with t in 1/√γ, its square that of the loss, and the sum of it over all
times is 2∫(1 + t)² exp(−2t) dt = 2.5; in stiffer directions it is less. So the error of chains of a few τ is known
beforehand: Var(nβL) is at most λ̂ in a bowl, and λ̂ where the loss is singular. Their own spread may not yet show it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from phasecast.coefficients.llc.noise import Slope, batch_gradient, fitting_shrink, heated, heating, measure_noise
from phasecast.coefficients.llc.plan import Plan
from phasecast.coefficients.llc.policy import POLICY, LLCPolicy
from phasecast.sampling.backends.protocol import Backend, stream
from phasecast.sampling.kernels.kernel import Array, Kernel, RandomKey, State, Tuning
from phasecast.sampling.traces import Record, all_finite, batch_error, drift, mcse, mean_variance, rhat, slow_error

UNKNOWN = -1.0
"""A gap that was not measured yet, as it is stored."""


class LevelPhase(StrEnum):
    """Where a level is: its chains warm up, are sampled, and end in one of four ways."""

    WARM_UP = "warm-up"
    SAMPLING = "sampling"
    DONE = "done"
    SPENT = "spent"
    """The budget ended before the error was small enough."""
    COLD = "cold"
    """The budget ended during warm-up."""
    BROKEN = "broken"
    """The loss is not finite, however small the step."""

    @property
    def active(self) -> bool:
        return self in (LevelPhase.WARM_UP, LevelPhase.SAMPLING)


@dataclass
class Curvature:
    """The largest curvature of the energy at the chains, and the direction of each chain that found it."""

    largest: float = 0.0
    direction: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    def follow(self, slope: Slope, offsets: Array, gamma: float, looks: int, share: float) -> int:
        """Power iterations by differences of ``slope``, ∇(nβL); returns how many gradients each chain spent."""
        offsets = np.asarray(offsets)
        here = slope(offsets)
        first = direction = np.asarray(self.direction)
        for _ in range(looks):
            direction = direction / np.linalg.norm(direction, axis=1, keepdims=True)
            size = share / math.sqrt(max(self.largest, gamma))
            direction = (slope(offsets + size * direction) - here) / size
            self.largest = max(float(np.max(np.linalg.norm(direction, axis=1))), 1e-300) + gamma
            direction = np.where(np.linalg.norm(direction, axis=1, keepdims=True) > 0, direction, first)
        self.direction = direction
        return looks + 1


@dataclass
class WarmUp:
    """How far the tuning of a level is.

    Adjusted kernels count ``chunks`` since the last restart and all ``adaptations``, how often divergences ``halved``
    their step (by less than that), keep the ``longest_step`` that does not diverge and the last ``positions``; Langevin
    dynamics keeps (λ̂, its error, |w − w*|², Stein) of its ``windows``, the ``time`` since the last, how often its step
    was ``halved``, how much that and noise ``shrink`` it, how many windows were ``cool`` since, and how many steps of
    the last one are ``borrowed``: on minibatches, where λ̂ is large and its noise small, they count only until the
    chains have moved on for an autocorrelation time.
    """

    chunks: int = 0
    adaptations: int = 0
    longest_step: float = math.inf
    positions: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    windows: list[tuple[float, float, float, float]] = field(default_factory=list)
    time: float = 0.0
    halved: int = 0
    shrink: float = 1.0
    cool: int = 0
    borrowed: int = 0


@dataclass
class Level:
    """Chains at one γ.

    ``next_look`` is the number of steps after which the error of λ̂ is looked at, ``noise`` the trace of the
    covariance of the gradient on minibatches and ``loss_noise`` the variance of their losses, from so many
    ``noise_looks``, ``share`` ± ``share_width`` how much of it heats the loss, from so many ``share_looks``,
    ``gap`` by how much descent from w* lowers nβL, or :data:`UNKNOWN`, and ``slowest`` the longest autocorrelation
    time of the loss, or 0 if it is unknown.
    """

    tuning: Tuning
    state: State
    size: int
    adjusted: bool
    record: Record
    phase: LevelPhase = LevelPhase.WARM_UP
    curvature: Curvature = field(default_factory=Curvature)
    warm_up: WarmUp = field(default_factory=WarmUp)
    next_look: int = 0
    chunks: int = 0
    gradients: float = 0.0
    noise: float = 0.0
    loss_noise: float = 0.0
    noise_looks: int = 0
    share: float = POLICY.heated_share
    share_width: float = 1 - POLICY.heated_share
    share_looks: int = 0
    gap: float = UNKNOWN
    slowest: float = 0.0

    @property
    def chains(self) -> int:
        return self.record.chains

    @property
    def warmed_up(self) -> bool:
        """Whether what was observed counts."""
        return self.phase not in (LevelPhase.WARM_UP, LevelPhase.COLD)

    def end(self) -> None:
        """Nothing more will be sampled."""
        if self.phase.active:
            self.phase = LevelPhase.SPENT if self.warmed_up else LevelPhase.COLD

    @property
    def steps(self) -> int:
        """Steps of each chain that count."""
        return self.record.loss.steps

    def restart(self, policy: LLCPolicy) -> None:
        """Forget what was observed; of the noise, what was measured so far counts as one look."""
        self.record = Record.empty(self.chains)
        self.next_look = policy.fewest_steps
        self.noise_looks, self.share_looks = min(1, self.noise_looks), min(1, self.share_looks)

    def hand_over(self) -> State:
        """Where the chains are and what tuned them, for a start at another w*."""
        state = {name: np.asarray(array) for name, array in self.state.items()}
        tuned = {"shrink": self.warm_up.shrink, "curvature": self.curvature.largest, "gap": self.gap}
        return state | {name: np.array(number) for name, number in tuned.items()}

    def take_over(self, start: State) -> None:
        """Begin with the step that suited other chains; their gap says how large λ̂ is until there is a descent."""
        self.warm_up.shrink, self.curvature.largest = float(start["shrink"]), float(start["curvature"])
        self.gap = float(start["gap"])

    def forget_chains(self) -> None:
        """Keep what was observed, not where the chains are: another level goes on from there."""
        self.state, self.curvature.direction, self.warm_up.positions = {}, np.empty((0, 0)), np.empty((0, 0))

    def run(self, backend: Backend, kernel: Kernel, key: RandomKey, steps: int) -> dict[str, np.ndarray]:
        """Move the chains on by some steps, and note what they observed, unless it is not finite."""
        key = stream(backend, key, "chunk", self.chunks)
        self.state, observed = backend.run(kernel, self.state, self.tuning, key, steps)
        self.chunks += 1
        self.gradients += steps * self.chains * kernel.gradients(self.tuning)
        self.record.append(observed)
        return observed

    @property
    def value(self) -> float:
        """nβ E[L − L*], less what the noise of minibatches adds to it."""
        return self.tuning.nbeta * self.record.loss.mean - self.share * self.heating

    @property
    def error(self) -> float:
        """Its standard error, with what is uncertain of the noise of minibatches."""
        return math.hypot(self.sampling_error, self._heating_error)

    @property
    def _heating_error(self) -> float:
        """What stays uncertain of the heating, however long the chains."""
        return math.hypot(POLICY.heated_width, self.share_width) * self.heating

    @property
    def sampling_error(self) -> float:
        """The standard error of a mean over so many steps.

        For chains without a test, which are short, it is at least that of a few long batches, and once they are warm at
        least what chains of so few autocorrelation times have. Where time ended them, it holds how far they drifted.
        """
        errors = [self.record.loss.error]
        if not self.adjusted:
            errors += [batch_error(self.record.loss.means, batches) for batches in (10, 5)]
        error = self.tuning.nbeta * max(errors)
        if self.slowest and self.warmed_up and self.steps:
            error = self._error_of_few_times if math.isinf(error) else max(error, self._error_of_few_times)
            if self.phase is LevelPhase.SPENT and len(self.record.loss.means) > 1:
                moved, _ = drift(self.record.loss.means)  # of pure noise it is two errors
                beyond = max(0.0, (self.tuning.nbeta * moved) ** 2 - 4 * error**2)
                error = math.hypot(error, math.sqrt(beyond))
        return error

    @property
    def _error_of_few_times(self) -> float:
        """From the spread of batches, corrected for their correlation, or from theory, whichever is less."""
        of_spread = self.tuning.nbeta * slow_error(self.record.loss.means, self.times)
        of_batches = self.tuning.nbeta**2 * self.loss_noise / self.steps
        return min(of_spread, math.sqrt((self.scale * mean_variance(self.times) + of_batches) / self.chains))

    @property
    def times(self) -> float:
        """How many autocorrelation times of the loss each chain is long; infinite where they are not known."""
        return self.steps * self.tuning.step_size / self.slowest if self.slowest else math.inf

    @property
    def provisional(self) -> tuple[float, float] | None:
        """λ̂ of the last window of warm-up, its error with how far it is from the one before; None without two."""
        if len(self.warm_up.windows) < 2:
            return None
        (before, *_), (last, error, *_) = self.warm_up.windows[-2:]
        times = POLICY.langevin_window / POLICY.slowest_time  # a window is shorter than what the loss remembers
        of_theory = math.sqrt((abs(last) + max(0.0, self.gap)) * mean_variance(times) / self.chains)
        return last, math.hypot(max(error, of_theory), last - before, self._heating_error)

    @property
    def scale(self) -> float:
        """The size of λ̂, also where it is relative to a w* that is not a minimum, or ended with warm-up."""
        value = self.provisional[0] if self.phase is LevelPhase.COLD and self.provisional else self.value
        return max(abs(value), abs(value + max(0.0, self.gap)))

    @property
    def heating(self) -> float:
        """The most that the noise of minibatches adds to λ̂."""
        return heating(self.tuning, self.noise) if self.noise_looks else 0.0

    @property
    def variance(self) -> float:
        """(nβ)² Var L, without the variance of the loss between minibatches."""
        return self.tuning.nbeta**2 * max(0.0, self.record.loss.variance - self.loss_noise)

    @property
    def stein(self) -> tuple[float, float]:
        """nβ E[u·∇L] + γ E|u|² − d, which is zero for the target, and its error as in :attr:`sampling_error`."""
        means = self.tuning.nbeta * self.record.pull.means + self.tuning.gamma * self.record.radius.means
        if not means.size:
            return math.nan, math.inf
        error = mcse(means)
        if self.slowest and math.isfinite(spread := slow_error(means, self.times)):
            error = max(error, spread)
        return float(means.mean()) - self.size, error

    def drifts(self, policy: LLCPolicy) -> dict[str, float]:
        """What moved between the halves of the record by more than its noise, and by which share of its size."""
        radius, loss, found = self.record.radius, self.record.loss, {}
        if len(radius.means) >= policy.fewest_drift_bins:
            sizes = {"|w − w*|²": (radius, radius.mean), "the loss": (loss, self.scale / self.tuning.nbeta)}
            for name, (trace, size) in sizes.items():
                moved, error = drift(trace.means)
                if abs(moved) > max(policy.drift_errors * error, policy.drift_share * size):
                    found[name] = moved / size
        return found

    @property
    def rhat(self) -> float:
        return float(np.fmax(rhat(self.record.loss.draws), rhat(self.record.radius.draws)))

    @property
    def divergent_share(self) -> float:
        """Divergent steps over all steps."""
        return self.record.divergences / max(1, self.steps * self.chains)


def start(backend: Backend, plan: Plan, offsets: Array, tuning: Tuning, key: RandomKey) -> Level:
    """A level at ``tuning.gamma`` from these offsets."""
    chains, policy = len(offsets), plan.policy
    level = Level(tuning, {}, backend.size, plan.kernel.adjusted, Record.empty(chains), next_look=policy.fewest_steps)
    if not plan.kernel.adjusted:
        level.slowest = policy.slowest_time / math.sqrt(tuning.gamma)
    level.curvature.direction = np.asarray(backend.normal(stream(backend, key, "curvature"), chains))
    if plan.start is not None and plan.batch is not None:
        level.take_over(plan.start)
    _follow_curvature(backend, plan, level, offsets, policy.curvature_looks, key)
    level.tuning = _tuned(level, plan)
    level.state = backend.init(plan.kernel, offsets, level.tuning, stream(backend, key, "state"))
    return level


def at_next_gamma(backend: Backend, plan: Plan, level: Level, gamma: float, key: RandomKey) -> Level:
    """The chains of one level at another γ; those of adjusted kernels are dispersed again."""
    offsets = np.asarray(level.state["position"])
    if plan.kernel.adjusted:
        wider = math.sqrt(level.tuning.gamma / gamma)
        offsets = offsets * np.where(np.arange(level.chains) % 2, wider, 1.0)[:, None]
    following = start(backend, plan, backend.array(offsets), level.tuning._replace(gamma=gamma), key)
    following.warm_up.shrink, following.gap = level.warm_up.shrink, level.gap
    if "momentum" in level.state:
        following.state = {**following.state, "momentum": level.state["momentum"]}
    return following


def advance(backend: Backend, plan: Plan, level: Level, key: RandomKey, goal: float, budget: float) -> None:
    """Move a level on by one chunk; ``goal`` is the relative standard error to reach, ``budget`` all its gradients."""
    if plan.kernel.adjusted:
        _advance_adjusted(backend, plan, level, key, goal)
    else:
        _advance_langevin(backend, plan, level, key, goal)
    if level.gradients >= budget:
        level.end()


def _advance_adjusted(backend: Backend, plan: Plan, level: Level, key: RandomKey, goal: float) -> None:
    policy, warm_up = plan.policy, level.warm_up
    observed = level.run(backend, plan.kernel, key, policy.adjusted_chunk)
    accepted = float(np.mean(observed["acceptance"]))
    most = policy.most_divergent / 2 * max(level.steps, policy.fewest_steps) * level.chains
    if level.record.divergences > most:
        # narrow places decide, not the mean acceptance
        warm_up.halved += 1
        if warm_up.halved > policy.most_shortenings:
            level.phase = LevelPhase.BROKEN
            return
        warm_up.longest_step = policy.divergence_step_factor * level.tuning.step_size
        level.tuning = _tuned(level, plan, warm_up.longest_step)
        level.phase, warm_up.chunks = LevelPhase.WARM_UP, 0
        level.restart(policy)
        return
    if level.phase is LevelPhase.WARM_UP:
        warm_up.adaptations += 1
        warm_up.chunks += 1
        here = np.asarray(level.state["position"], dtype=float)
        recent = np.concatenate([warm_up.positions.reshape(-1, level.size), here])
        warm_up.positions = recent[-policy.positions_per_chain * level.chains :]
        rate = policy.adaptation_gain / warm_up.adaptations**policy.adaptation_decay
        factor = math.exp((accepted - policy.good_acceptance) * rate)
        level.tuning = _tuned(level, plan, min(warm_up.longest_step, level.tuning.step_size * factor))
        if warm_up.chunks >= policy.warm_chunks and warm_up.chunks % 2 == 0:
            later = [trace.later(0.5) for trace in (level.record.loss, level.record.radius)]
            met = max(rhat(trace.draws) for trace in later) < policy.warm_rhat
            if met and accepted > policy.warm_acceptance:
                level.phase = LevelPhase.SAMPLING
                level.restart(policy)
        return
    if level.steps >= level.next_look:
        level.next_look = int(policy.look_growth * level.steps)
        met = level.rhat < policy.largest_rhat
        if met and level.error <= goal * level.scale:
            level.phase = LevelPhase.DONE
        elif not met and level.steps >= 4 * policy.fewest_steps:
            level.record.keep_later(0.5)


def _advance_langevin(backend: Backend, plan: Plan, level: Level, key: RandomKey, goal: float) -> None:
    policy, warm_up = plan.policy, level.warm_up
    early = level.phase is LevelPhase.WARM_UP and level.gradients < policy.short_chunk_gradients * level.chains
    tuned = plan.start is not None and plan.batch is not None
    steps = policy.short_chunk if early and not tuned else plan.chunk
    observed = level.run(backend, plan.kernel, key, steps)
    if not all_finite(observed):
        _begin_again(backend, plan, level, key)
        return
    warm_up.time += steps * level.tuning.step_size
    window = policy.langevin_window / math.sqrt(level.tuning.gamma)
    if plan.batch is not None:
        measure_noise(backend, plan, level, key)
    if level.phase is LevelPhase.WARM_UP:
        _follow_curvature(backend, plan, level, level.state["position"], policy.curvature_updates, key)
        level.tuning = _tuned(level, plan)
        over = warm_up.time >= window
        hot = level.gap != UNKNOWN and heated(plan, level) > (1.0 if over else policy.far_too_hot)
        if hot and level.steps >= policy.fewest_window_steps and warm_up.shrink > policy.smallest_shrink:
            _change_step(plan, level)
            warm_up.time, warm_up.cool = 0.0, 0
            level.restart(policy)
            return
        if over and level.steps >= policy.fewest_window_steps:
            warm_up.time = 0.0
            warm_up.cool += 1
            radius = level.record.radius
            stein = level.tuning.nbeta * level.record.pull.mean + level.tuning.gamma * radius.mean - level.size
            warm_up.windows.append((level.value, level.sampling_error, radius.mean, stein))
            moved_before = plan.start is not None and not warm_up.halved  # such chains have left their start
            fewest = policy.first_windows - moved_before
            still = len(warm_up.windows) >= fewest and warm_up.cool >= 2 and _stands_still(level, policy)
            if still:
                level.phase, level.next_look = LevelPhase.SAMPLING, 0  # what the last window observed counts
                warm_up.borrowed = level.steps if plan.batch is not None else 0
            else:
                if plan.batch is not None and heated(plan, level) < policy.needlessly_cool:
                    _change_step(plan, level)
                level.restart(policy)
        return
    sampled = (level.steps - warm_up.borrowed) * level.tuning.step_size
    needed = policy.last_windows * window if plan.batch is None else level.slowest
    enough = sampled >= needed and level.steps >= level.next_look
    if enough:
        if warm_up.borrowed:
            level.record.keep_later(1 - warm_up.borrowed / level.steps)
            warm_up.borrowed = 0
        radius = level.record.radius
        moved, error = drift(radius.means)
        still = abs(moved) <= max(2 * policy.still * radius.mean, policy.still_errors * error)
        if plan.batch is not None and level.drifts(policy):
            level.record.keep_later(0.5)
        elif still and level.error <= goal * level.scale:
            level.phase = LevelPhase.DONE
        level.next_look = int(policy.look_growth * level.steps)


def _begin_again(backend: Backend, plan: Plan, level: Level, key: RandomKey) -> None:
    """From w* with half the step: chains that flew to where the loss is not finite do not come back."""
    halved, shrink = level.warm_up.halved + 1, level.warm_up.shrink / 2
    if halved > plan.policy.most_halvings:
        level.phase = LevelPhase.BROKEN
        return
    level.warm_up, level.phase = WarmUp(halved=halved, shrink=shrink), LevelPhase.WARM_UP
    level.restart(plan.policy)
    key = stream(backend, key, "again", halved)
    at_centre = backend.array(np.zeros((level.chains, level.size)))
    level.curvature = Curvature(0.0, np.asarray(backend.normal(stream(backend, key, "curvature"), level.chains)))
    _follow_curvature(backend, plan, level, at_centre, plan.policy.curvature_looks, key)
    level.tuning = _tuned(level, plan)
    level.state = backend.init(plan.kernel, at_centre, level.tuning, stream(backend, key, "state"))


def _stands_still(level: Level, policy: LLCPolicy) -> bool:
    """Whether the last two windows differ by less than the noise of the quieter one, since drift looks like noise."""
    (loss_before, error_before, radius_before, _), (loss, error, radius, stein) = level.warm_up.windows[-2:]
    noise = 2 * math.sqrt(2 / (level.size * level.chains))
    return (
        abs(radius / radius_before - 1) < policy.still + noise
        and abs(loss - loss_before) < max((policy.still + noise) * level.scale, math.sqrt(8) * min(error, error_before))
        and abs(stein) < (policy.still + noise) * level.size + level.heating * 2
    )


def _change_step(plan: Plan, level: Level) -> None:
    level.warm_up.shrink = fitting_shrink(plan, level)
    level.tuning = _tuned(level, plan)


def _follow_curvature(backend: Backend, plan: Plan, level: Level, offsets: Array, looks: int, key: RandomKey) -> None:
    policy, (nbeta, gamma) = plan.policy, (level.tuning.nbeta, level.tuning.gamma)
    one_batch = stream(backend, key, "curvature rows", level.chunks)

    def slope(offsets: np.ndarray) -> np.ndarray:
        if plan.batch is None:
            return nbeta * backend.evaluate(offsets)[1]
        return batch_gradient(backend, plan, level, offsets, one_batch) - gamma * offsets

    before = level.curvature.largest
    spent = level.curvature.follow(slope, offsets, gamma, looks, policy.difference_share)
    if plan.batch is not None and before > 0:  # few rows tell it to a factor of two
        level.curvature.largest = before * (level.curvature.largest / before) ** policy.curvature_gain
    level.gradients += spent * level.chains


def _tuned(level: Level, plan: Plan, step_size: float | None = None) -> Tuning:
    policy, soft = plan.policy, math.sqrt(level.tuning.gamma)
    if plan.kernel.adjusted:
        soft = max(soft, 1 / _widest(level.warm_up.positions, policy.fewest_positions))
        first = 1 / math.sqrt(level.curvature.largest) / level.size**0.25
        length = min(step_size or first, policy.trajectory / soft)
        leaps = min(max(1.0, policy.trajectory / soft / length), policy.longest_trajectory)
    else:
        length, leaps = level.warm_up.shrink * policy.langevin_step / math.sqrt(level.curvature.largest), 1.0
    return level.tuning._replace(step_size=length, leaps=leaps, friction=policy.langevin_friction * soft)


def _widest(positions: np.ndarray, fewest: int) -> float:
    """The largest root-mean-square of the chains' offsets along any direction; infinite before there are enough."""
    if len(positions) < fewest:
        return math.inf
    return math.sqrt(np.linalg.eigvalsh(positions @ positions.T / len(positions))[-1])
