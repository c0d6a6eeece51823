"""Further draws of the chains of a λ̂, in batches that are long against their correlation, and statistics over them.

Errors and the bias of covariances come from a jackknife over the batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.policy import Policy, rule
from phasecast.sampling.backends.protocol import stream
from phasecast.sampling.traces import ess

if TYPE_CHECKING:
    from phasecast.coefficients.llc.result import LLC
    from phasecast.sampling.kernels.kernel import Array


@dataclass(frozen=True)
class ObservablesPolicy(Policy):
    """How covariances are sampled and judged."""

    memory: int = rule(2**26, "chosen: bytes of draws × rows, or of batches × rows, that are held at once (64 MB)")
    pilot_chunks: int = rule(20, "chosen: chunks of steps that show the correlation time; they are not used otherwise")
    chunk: int = rule(5, "chosen: steps in a chunk; draws are a multiple of it apart, so that one length is compiled")
    longest_thin: int = rule(200, "chosen: steps between draws at most; what is still correlated widens the error")
    batches: int = rule(32, "chosen: their spread, and so the error, is known to 13%")
    fewest_batches: int = rule(6, "chosen: below, the error is known to no better than a third")
    batch_times: float = rule(5.0, "chosen: correlation times in a batch; what is left between batches is then 10%")
    timed: int = rule(16, "chosen: observables whose correlation times are looked at, beside that of the loss")
    largest_rhat: float = rule(1.05, "chosen: as for warm-up in LLCPolicy; draws are few")
    largest_variance: float = rule(0.4, "of one ℓ_i; above, WAIC starts to fail (Vehtari et al. 2017)")
    same: float = rule(1e-3, "chosen: relative difference of L and the mean of the row losses that rounding explains")


POLICY = ObservablesPolicy()


class FurtherDraws:
    """Further draws of the chains of a result: the same ones each time they are asked for."""

    def __init__(self, result: LLC, draws: int, thin: int | None, policy: ObservablesPolicy) -> None:
        if result.chains is None:
            raise BadInput("this result came from a file, or without data", "use the one that llc returned, with data")
        whole_number("draws", draws, 8)
        self._chains, self.backend, self._policy = result.chains, result.chains.backend, policy
        self.rows, self.nbeta = self.backend.rows or 0, float(self._chains.tuning.nbeta)
        self.draws, self.start = draws, self._chains.state
        self.chains = len(self.start["position"])
        self.thin = self._pilot() if thin is None else whole_number("thin", thin, 1)

    @property
    def total(self) -> int:
        return self.draws * self.chains

    def __iter__(self) -> Iterator[Array]:
        state, chunk = self.start, self._policy.chunk
        for number in range(self.draws):
            lengths = [chunk] * (self.thin // chunk) if self.thin % chunk == 0 else [self.thin]
            for part, length in enumerate(lengths):
                state, _ = self._run(state, length, "further draws", number, part)
            yield state["position"]

    def record(self, observe: Callable[[Array], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """L − L* (draws, chains) and the observables (draws, chains, …) of each draw."""
        losses, values = [], []
        for position in self:
            values.append(observe(position))
            losses.append(self.backend.evaluate(position)[0])
        return np.stack(losses).astype(float), np.stack(values).astype(float)

    def loss_of(self, position: Array) -> np.ndarray:
        """L of each chain."""
        return self.backend.evaluate(position)[0] + self.backend.loss_at_centre

    def _pilot(self) -> int:
        """The steps after which the loss is forgotten, as a multiple of a chunk; the chains go on from there."""
        policy, losses = self._policy, []
        for number in range(policy.pilot_chunks):
            self.start, seen = self._run(self.start, policy.chunk, "correlation time", number)
            losses.append(seen["loss"])
        series = np.concatenate(losses)
        effective = ess(series)
        time = series.size / effective if effective > 0 else 1.0
        return policy.chunk * int(np.clip(math.ceil(time / policy.chunk), 1, policy.longest_thin // policy.chunk))

    def _run(self, state: Any, steps: int, *names: str | int) -> tuple[Any, dict[str, np.ndarray]]:
        key = stream(self.backend, self.backend.key(0), *names)
        return self.backend.run(self._chains.kernel, state, self._chains.tuning, key, steps)


# batches of draws, and the jackknife over them


class Estimate(NamedTuple):
    """A statistic without its bias, and its error."""

    value: np.ndarray
    error: np.ndarray


@dataclass(frozen=True)
class Batches:
    """Consecutive draws of one chain, ``per_chain`` times ``chains`` of them; ``fine`` is what was there to join."""

    per_chain: int
    chains: int
    fine: int
    time: float = field(metadata={"unit": "draws"})
    enough: bool = True

    @property
    def count(self) -> int:
        return self.per_chain * self.chains

    def diagnostics(self) -> dict[str, float]:
        return {"batches": self.count, "correlation_time": self.time}


def most_batches(draws: int, chains: int, policy: ObservablesPolicy) -> int:
    """How many batches each chain has at most."""
    return max(1, min(math.ceil(policy.batches / chains), draws // 2))


def batches_of(loss: np.ndarray, values: np.ndarray, policy: ObservablesPolicy, fine: int | None = None) -> Batches:
    """Batches that are long against the slowest correlation time of the loss and of some observables."""
    draws, chains = loss.shape
    fine = most_batches(draws, chains, policy) if fine is None else fine
    flat = values.reshape(draws, chains, -1)
    looked_at = np.unique(np.linspace(0, flat.shape[-1] - 1, policy.timed).astype(int))
    times = [1.0]
    for one in (loss, *(flat[..., number] for number in looked_at)):
        effective = ess(one)
        if effective > 0:
            times.append(one.size / effective)
    time = max(times)
    longest = max(1, math.floor(draws / (policy.batch_times * time)))
    per_chain = next(count for count in range(min(fine, longest), 0, -1) if fine % count == 0)
    enough = per_chain * chains >= policy.fewest_batches and draws >= policy.batch_times * time
    return Batches(per_chain, chains, fine, time, enough)


def jackknife_of(statistics: np.ndarray, batches: Batches) -> Estimate:
    """From a statistic of all batches, first, and of all but one, to its value without bias and its error."""
    whole, without = statistics[0], statistics[1:]
    count = batches.count
    if count < 2:
        return Estimate(whole, np.full_like(whole, math.inf))
    mean = without.mean(axis=0)
    spread = np.sqrt((count - 1) * without.var(axis=0))
    return Estimate(count * whole - (count - 1) * mean, _wider(count) * spread)


def _wider(count: int) -> float:
    """What makes ±2 errors from few batches hold as often as ±2 standard deviations of a normal (Student's t)."""
    from scipy.special import ndtr, stdtrit

    return float(stdtrit(count - 1, ndtr(2)) / 2)


def covariances(left: np.ndarray, right: np.ndarray, batches: Batches) -> Estimate:
    """Cov of each left with each right observable, (draws, chains, k) and (draws, chains, m): (k, m)."""
    left, right = left - left.mean(axis=(0, 1)), right - right.mean(axis=(0, 1))  # small numbers keep their digits
    count, total = batches.count, left.shape[0] * left.shape[1]
    whole = np.einsum("dck,dcm->km", left, right) / total
    if count < 2:
        return Estimate(whole, np.full_like(whole, math.inf))
    shift, squares = np.zeros_like(whole), np.zeros_like(whole)
    for chain in range(batches.chains):
        for x, y in zip(
            np.array_split(left[:, chain], batches.per_chain), np.array_split(right[:, chain], batches.per_chain),
            strict=True,
        ):  # fmt: skip
            rest = total - len(x)
            without = (total * whole - x.T @ y) / rest - np.outer(x.sum(axis=0), y.sum(axis=0)) / rest**2
            shift += without - whole
            squares += (without - whole) ** 2
    mean = shift / count
    spread = np.sqrt((count - 1) * np.maximum(squares / count - mean**2, 0.0))
    return Estimate(whole - (count - 1) * mean, _wider(count) * spread)


class RowSums:
    """Σ(ℓ − r), Σ(ℓ − r)² and Σ exp(r − ℓ) of each term ℓ over batches of draws; r is its value at one draw."""

    def __init__(self, reference: np.ndarray, draws: int, chains: int, per_chain: int) -> None:
        self._reference, self._draws, self._per_chain = reference, draws, per_chain
        self._sums = np.zeros((3, per_chain, chains, len(reference)))
        self._counts = np.zeros(per_chain)
        self._seen = 0
        self.largest_variance = math.nan

    def add(self, losses: np.ndarray) -> None:
        """A draw (chains, terms)."""
        batch = min(self._seen * self._per_chain // self._draws, self._per_chain - 1)
        above = losses - self._reference
        for total, term in zip(self._sums, (above, above**2, np.exp(-above)), strict=True):
            total[batch] += term
        self._counts[batch] += 1
        self._seen += 1

    def left_out(self, batches: Batches) -> np.ndarray:
        """Σ over terms of the variance, of −log E exp(−ℓ) and of the mean: with all batches, then without each."""
        joined = batches.fine // batches.per_chain
        sums = self._sums.reshape(3, batches.per_chain, joined, *self._sums.shape[2:]).sum(axis=2)
        counts = np.repeat(self._counts.reshape(batches.per_chain, joined).sum(axis=1), batches.chains)
        sums = sums.reshape(3, batches.count, -1)
        whole, total = sums.sum(axis=1), counts.sum()
        rows = [self._of(whole, total)]
        self.largest_variance = float(np.max(whole[1] / total - (whole[0] / total) ** 2))
        for number, count in enumerate(counts):
            rows.append(self._of(whole - sums[:, number], total - count) if total > count else rows[0])
        return np.array(rows)

    def _of(self, sums: np.ndarray, count: float) -> tuple[float, float, float]:
        mean, square, likelihood = sums / count
        variance = float(np.sum(square - mean**2))
        bayes = float(np.sum(self._reference - np.log(likelihood)))
        return variance, bayes, float(np.sum(self._reference + mean))
