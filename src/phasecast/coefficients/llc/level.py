"""One rung of a ladder: all chains at one γ, tuned, warmed up, and sampled until the error is small enough.

A rung is a value that :func:`advance` moves on by one chunk, so that it can be stored between any two.

Adjusted kernels (HMC, MALA, NUTS) start dispersed: half of the chains from inside, half from outside of where they will
end, so that R-hat can see whether they have met. Their step size is tuned for all chains together. Trajectories are as
long as the softest direction needs: a quarter of its period, from the widest spread of the chains and from γ.

Unadjusted Langevin dynamics follows the largest curvature where the chains are, until radius, loss and Stein's identity
stand still, then keeps its step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from phasecast.sampling.kernels.kernel import Kernel, State, Tuning
from phasecast.sampling.traces import Trace, batch_error, drift, mcse, rhat

TRAJECTORY = 1.5  # a quarter period of the softest direction, about π/2
WELL_ACCEPTED = 0.85
CHUNK = 20  # trajectories
PLACES = 6  # of each chain, after its last chunks
FEWEST_PLACES = 24
WARM_CHUNKS = 8
WARM_RHAT = 1.05
GOOD_RHAT = 1.01
FEWEST_STEPS = 300
LONGEST = 4096  # leaps
MOST_DIVERGENT = 0.001
SHORTER = 0.7

STEP = 1.0  # of a Langevin step, in units of 1/√(largest curvature)
WINDOW = 2.0  # of Langevin time, in units of 1/√γ
FRICTION = 2.0  # in units of √γ
SHORT, LONG = 10, 50  # Langevin steps between looks at the curvature
FIRST_WINDOWS, LAST_WINDOWS = 3, 4
STILL = 0.01
ACTIVE = ("warm-up", "sampling")
OBSERVED = ("loss", "radius", "pull")


@dataclass
class Rung:
    """Chains at one γ, in some phase: ``warm-up``, ``sampling``, ``done`` or ``broken``."""

    tuning: Tuning
    state: State
    chains: int
    size: int
    adjusted: bool
    phase: str = "warm-up"
    chunks: int = 0
    chunks_warm: int = 0
    gradients: float = 0.0
    rate: int = 0
    longest_step: float = math.inf
    next_look: int = FEWEST_STEPS
    curvature: float = 0.0
    direction: Any = None
    divergences: int = 0
    halved: int = 0
    acceptance: list[float] = field(default_factory=list)
    loss: Trace = field(default_factory=lambda: Trace(1))
    radius: Trace = field(default_factory=lambda: Trace(1))
    pull: Trace = field(default_factory=lambda: Trace(1))
    places: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    windows: list[tuple[float, float, float]] = field(default_factory=list)
    time: float = 0.0

    def __post_init__(self) -> None:
        if self.loss.chains != self.chains:
            self.fresh()

    def fresh(self) -> None:
        """Forget what was seen."""
        self.loss, self.radius, self.pull = (Trace(self.chains) for _ in range(3))
        self.divergences = 0
        self.acceptance = []
        self.next_look = FEWEST_STEPS

    def forget_chains(self) -> None:
        """Keep what was seen, not where the chains are: others go on from there."""
        self.state, self.direction, self.places = {}, None, np.empty((0, 0))

    def run(self, engine: Any, kernel: Kernel, key: Any, steps: int) -> dict[str, np.ndarray]:
        """Move the chains on by some steps, and note what they saw, unless it is not finite."""
        self.state, seen = engine.run(kernel, self.state, self.tuning, engine.fold(key, self.chunks), steps)
        self.chunks += 1
        self.gradients += steps * self.chains * kernel.gradients(self.tuning)
        self.divergences += int(np.sum(seen["divergent"]))
        if not all(np.all(np.isfinite(seen[name])) for name in OBSERVED):
            return seen
        for name in OBSERVED:
            getattr(self, name).append(seen[name])
        self.acceptance.append(float(np.mean(seen["acceptance"])))
        return seen

    @property
    def value(self) -> float:
        """nβ E[L − L*]."""
        return self.tuning.nbeta * self.loss.mean

    @property
    def error(self) -> float:
        """Its standard error; for chains without a test, which are short, at least that of a few long batches."""
        found = [self.loss.error]
        if not self.adjusted:
            found += [batch_error(self.loss.means, batches) for batches in (10, 5)]
        return self.tuning.nbeta * max(found)

    @property
    def stein(self) -> tuple[float, float]:
        """nβ E[u·∇L] + γ E|u|² − d, which is zero for the target, and its standard error."""
        means = self.tuning.nbeta * self.pull.means + self.tuning.gamma * self.radius.means
        return float(means.mean()) - self.size, mcse(means)

    @property
    def rhat(self) -> float:
        return float(np.nanmax([rhat(self.loss.draws), rhat(self.radius.draws)]))


def start(engine: Any, kernel: Kernel, offsets: Any, tuning: Tuning, key: Any) -> Rung:
    """A rung at ``tuning.gamma`` from these offsets."""
    chains = len(offsets)
    rung = Rung(tuning, {}, chains, engine.size, kernel.adjusted)
    rung.direction = engine.normal(engine.fold(key, 10**6), chains)
    look(engine, rung, offsets, 4)
    rung.tuning = _tuned(rung, kernel)
    rung.state = engine.init(kernel, offsets, rung.tuning, engine.fold(key, 10**6 + 1))
    return rung


def advance(engine: Any, kernel: Kernel, rung: Rung, key: Any, goal: float, budget: float) -> None:
    """Move a rung on by one chunk; ``goal`` is the relative standard error to reach, ``budget`` all its gradients."""
    if kernel.adjusted:
        _advance_adjusted(engine, kernel, rung, key, goal)
    else:
        _advance_langevin(engine, kernel, rung, key, goal)
    if rung.gradients >= budget and rung.phase in ACTIVE:
        rung.phase = "spent"


def _advance_adjusted(engine: Any, kernel: Kernel, rung: Rung, key: Any, goal: float) -> None:
    seen = rung.run(engine, kernel, key, CHUNK)
    accepted = float(np.mean(seen["acceptance"]))
    if rung.divergences > MOST_DIVERGENT / 2 * max(rung.loss.steps, FEWEST_STEPS) * rung.chains:
        rung.longest_step = SHORTER * rung.tuning.step_size  # narrow places decide, not the mean acceptance
        rung.tuning = _tuned(rung, kernel, rung.longest_step)
        rung.phase, rung.chunks_warm = "warm-up", 0
        rung.fresh()
        return
    if rung.phase == "warm-up":
        rung.rate += 1
        rung.chunks_warm += 1
        here = np.asarray(rung.state["position"], dtype=float)
        rung.places = np.concatenate([rung.places.reshape(-1, rung.size), here])[-PLACES * rung.chains :]
        factor = math.exp((accepted - WELL_ACCEPTED) * 3 / rung.rate**0.6)
        rung.tuning = _tuned(rung, kernel, min(rung.longest_step, rung.tuning.step_size * factor))
        if rung.chunks_warm >= WARM_CHUNKS and rung.chunks_warm % 2 == 0:
            recent = [trace.later(0.5) for trace in (rung.loss, rung.radius)]
            if max(rhat(trace.draws) for trace in recent) < WARM_RHAT and accepted > 0.6:
                rung.phase = "sampling"
                rung.fresh()
        return
    if rung.loss.steps >= rung.next_look:  # looking at every step would favour stopping on a low value
        rung.next_look = int(1.3 * rung.loss.steps)
        met = rung.rhat < GOOD_RHAT
        if met and rung.error <= goal * abs(rung.value):
            rung.phase = "done"
        elif not met and rung.loss.steps >= 4 * FEWEST_STEPS:
            rung.loss, rung.radius, rung.pull = (t.later(0.5) for t in (rung.loss, rung.radius, rung.pull))


def _advance_langevin(engine: Any, kernel: Kernel, rung: Rung, key: Any, goal: float) -> None:
    steps = SHORT if rung.phase == "warm-up" and rung.gradients < 200 * rung.chains else LONG
    before = rung.state
    seen = rung.run(engine, kernel, key, steps)
    if not all(np.all(np.isfinite(seen[name])) for name in OBSERVED):
        rung.state = before
        rung.tuning = rung.tuning._replace(step_size=rung.tuning.step_size / 2)
        rung.halved += 1
        if rung.halved > 20:
            rung.phase = "broken"
        return
    rung.time += steps * rung.tuning.step_size
    window = WINDOW / math.sqrt(rung.tuning.gamma)
    if rung.phase == "warm-up":
        look(engine, rung, rung.state["position"], 2)
        rung.tuning = _tuned(rung, kernel)
        if rung.time >= window:
            rung.time = 0.0
            stein = rung.tuning.nbeta * rung.pull.mean + rung.tuning.gamma * rung.radius.mean - rung.size
            rung.windows.append((rung.value, rung.radius.mean, stein))
            rung.fresh()
            if len(rung.windows) >= FIRST_WINDOWS and _stands_still(rung):
                rung.phase = "sampling"
        return
    if rung.time >= LAST_WINDOWS * window and rung.error <= goal * abs(rung.value):
        moved, error = drift(rung.radius.means)
        if abs(moved) <= max(2 * STILL * rung.radius.mean, 3 * error):
            rung.phase = "done"


def _stands_still(rung: Rung) -> bool:
    (loss_before, radius_before, _), (loss, radius, stein) = rung.windows[-2:]
    noise = 2 * math.sqrt(2 / (rung.size * rung.chains))
    return (
        abs(radius / radius_before - 1) < STILL + noise
        and abs(loss / loss_before - 1) < STILL + noise
        and abs(stein) < (STILL + noise) * rung.size
    )


def look(engine: Any, rung: Rung, offsets: Any, looks: int) -> None:
    """Follow the largest curvature of U at the chains, by differences of gradients along a direction that is kept."""
    nbeta, gamma = rung.tuning.nbeta, rung.tuning.gamma
    here = engine.evaluate(offsets)[1]
    direction = np.asarray(rung.direction)
    for _ in range(looks):
        direction = direction / np.linalg.norm(direction, axis=1, keepdims=True)
        size = 0.1 / math.sqrt(max(rung.curvature, gamma))
        there = engine.evaluate(np.asarray(offsets) + size * direction)[1]
        direction = (there - here) * (nbeta / size)
        rung.curvature = max(float(np.max(np.linalg.norm(direction, axis=1))), 1e-300) + gamma
        direction = np.where(
            np.linalg.norm(direction, axis=1, keepdims=True) > 0, direction, np.asarray(rung.direction)
        )
    rung.direction = direction
    rung.gradients += (looks + 1) * rung.chains


def _tuned(rung: Rung, kernel: Kernel, step_size: float | None = None) -> Tuning:
    soft = math.sqrt(rung.tuning.gamma)
    if kernel.adjusted:
        soft = max(soft, 1 / _widest(rung.places))
        first = 1 / math.sqrt(rung.curvature) / rung.size**0.25
        length = min(step_size or first, TRAJECTORY / soft)
        leaps = min(max(1.0, TRAJECTORY / soft / length), LONGEST)
    else:
        length, leaps = STEP / math.sqrt(rung.curvature), 1.0
    return rung.tuning._replace(step_size=length, leaps=leaps, friction=FRICTION * soft)


def _widest(places: np.ndarray) -> float:
    """The largest root-mean-square of the chains' offsets along any direction; infinite before there are enough."""
    if len(places) < FEWEST_PLACES:
        return math.inf
    return math.sqrt(np.linalg.eigvalsh(places @ places.T / len(places))[-1])


def next_rung(engine: Any, kernel: Kernel, rung: Rung, gamma: float, key: Any) -> Rung:
    """The chains of one rung at another γ; those of adjusted kernels are dispersed again."""
    offsets = np.asarray(rung.state["position"])
    if kernel.adjusted:
        offsets = offsets * np.where(np.arange(rung.chains) % 2, math.sqrt(rung.tuning.gamma / gamma), 1.0)[:, None]
    found = start(engine, kernel, engine.array(offsets), rung.tuning._replace(gamma=gamma), key)
    if "momentum" in rung.state:
        found.state = {**found.state, "momentum": rung.state["momentum"]}
    return found


def to_plain(rung: Rung) -> dict[str, Any]:
    """A rung as arrays, numbers and strings, to be stored."""
    plain: dict[str, Any] = {}
    for one in fields(Rung):
        value = getattr(rung, one.name)
        if isinstance(value, Trace):
            value = {part.name: getattr(value, part.name) for part in fields(Trace)}
        elif one.name == "state":
            value = {name: np.asarray(array) for name, array in value.items()}
        elif one.name == "tuning":
            value = [float(number) for number in value]
        elif one.name == "direction":
            value = np.empty(0) if value is None else np.asarray(value)
        elif one.name == "windows":
            value = np.array(value, dtype=float).reshape(-1, 3)
        elif one.name == "longest_step":
            value = value if math.isfinite(value) else 0.0
        plain[one.name] = value
    return plain


def from_plain(plain: dict[str, Any], engine: Any) -> Rung:
    """The rung that :func:`to_plain` took apart."""
    found = dict(plain)
    for name in OBSERVED:
        found[name] = Trace(**found[name])
    found["state"] = {name: engine.array(array) for name, array in found["state"].items()}
    found["tuning"] = Tuning(*found["tuning"])
    found["direction"] = found["direction"] if found["direction"].size else None
    found["windows"] = [tuple(row) for row in found["windows"].tolist()]
    found["acceptance"] = [float(a) for a in found["acceptance"]]
    found["longest_step"] = found["longest_step"] or math.inf
    return Rung(**found)
