"""What does gradient descent do to one example of a wide network? The limit d → ∞ with n/d = δ first, then m → ∞.

f = (1/m) Σ a_j σ(V_j + b) with half of the a_j equal to +a and half to −a. The learning rate counts per neuron,
θ_j ← θ_j − η · mean(F_j x) with F_j = a_j ℓ' σ'(V_j + b), which is m times that of the risk: at a fixed rate for the
risk wide networks stand still. Neurons of a kind g ∈ {+, −} are alike and see each other through f only, so that
responses between two of them are of order 1/m, and sums over all neurons of order one. With R^d, ρ^d of a neuron to
itself and R^o/m, ρ^o/m between two, in the notation of :mod:`phasecast.features.curvature.dmft`,

.. math::
    V_j(t) &= W_j(t) - \\tfrac{\\eta}{\\delta} \\sum_{s<t} \\bigl[ R^d_g(t,s) F_j(s)
              + \\tfrac12 \\sum_h R^o_{gh}(t,s)\\, \\overline{F}_h(s) \\bigr], \\\\
    R^d_g(t+1,s) &= R^d_g(t,s) - \\eta \\sum_u \\rho^d_g(t,u) R^d_g(u,s), \\\\
    R^o_{gh}(t+1,s) &= R^o_{gh}(t,s) - \\eta \\sum_u \\bigl[ \\rho^d_g R^o_{gh} + \\rho^o_{gh} R^d_h
              + \\tfrac12 \\sum_c \\rho^o_{gc} R^o_{ch} \\bigr](t,u,s),

a bar being the mean over the neurons of a kind that see the same example. W_j has a part that all neurons of a kind
share, with covariance E[F̄F̄], and one of its own. Means over neurons are taken over ``units`` of each kind, with their
first weights stratified; what is left is of order 1/units.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.precision import float64
from phasecast.core.results import Measurement, Status
from phasecast.core.statistics import standard_error
from phasecast.core.types import Array
from phasecast.features.curvature.curvature_law import CurvatureLaw
from phasecast.features.curvature.gaussian_draws import JITTER, next_noise, stratified
from phasecast.features.curvature.lower_bound import curvature_floor
from phasecast.features.curvature.per_example import check_step, labels
from phasecast.features.policy import POLICY
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import Target
from phasecast.features.setting.target import target as as_target


@dataclass(frozen=True, eq=False)
class WideTrajectory:
    """Gradient descent of a wide network in the limit, step by step.

    Parameters
    ----------
    G: shape (steps+1, samples, 2, units): the Hessian's weights a_j ℓ' σ'' for both kinds of neurons.
    latents: shape (samples, k).
    train, test: losses at t = 0, 1, …, steps, with the standard error of the average over samples alone.
    overlap: shape (steps+1, 2, k), of a neuron of each kind with Θ_*; zero on hard directions.
    norm2: shape (steps+1, 2), the squared length of a neuron's weights.
    """

    network: Network
    target: Target
    delta: float
    lr: float
    G: np.ndarray
    latents: np.ndarray
    train: Measurement[np.ndarray]
    test: Measurement[np.ndarray]
    overlap: np.ndarray
    norm2: np.ndarray
    status: Status = Status.OK
    reasons: tuple[str, ...] = ()

    @property
    def steps(self) -> int:
        return len(self.G) - 1

    def law(self, time: int, block: int = 0) -> CurvatureLaw:
        """The law of G and the hard latents after ``time`` steps, of a neuron with a_j = +a (0) or −a (1).

        Its lowest G is that of the draws, after the first step: what outputs further out would add is rarer than one
        draw in all, but would move the formula's edge. It is −∞ where G has no lower bound.
        """
        if not 0 <= time <= self.steps:
            raise BadInput(f"step {time} was not computed", f"use a step from 0 to {self.steps}")
        G = self.G[time, :, block]
        hard = np.repeat(self.latents @ self.target.hard, G.shape[1], axis=0)
        floor = curvature_floor(self.network, self.target, block, moved=time > 0)
        if time and floor > -math.inf:
            floor = float(G.min())
        return CurvatureLaw(
            G.ravel(), hard, lowest=floor, route="dmft", time=float(time), delta=self.delta if time else None,
            block=block,
        )  # fmt: skip


def wide_dmft(
    network: Network,
    target: str | Target,
    delta: float,
    lr: float,
    steps: int,
    *,
    samples: int = 2000,
    units: int = 16,
    seed: int = 0,
) -> WideTrajectory:
    """The limit of gradient descent for a wide network.

    >>> run = wide_dmft(Network("gelu", "square", width="wide"), "tanh(z)**2", 3.0, 0.5, 2, samples=500)
    >>> bool(run.train.value[2] < run.train.value[0])
    True
    """
    if network.width != "wide":
        raise BadInput(f"the width is {network.width}", "use width='wide', or dmft for 1 to 4 units")
    check_step(delta, lr)
    target = as_target(target)
    steps, samples = whole_number("steps", steps, 0), whole_number("samples", samples, 100)
    units = whole_number("units", units, 2)
    needed = 8.0 * samples * 2 * units * 3 * steps**2 / 2
    if needed > POLICY.most_memory:
        raise BadInput(f"{steps} steps of {samples} samples need {needed / 1e9:.1f} GB", "use fewer, or fewer units")
    work = _Workspace(network, target, delta, lr, (samples, steps, units), seed)
    reached = steps
    for t in range(steps + 1):
        work.preactivations(t)
        if not work.derivatives(t):
            reached = t - 1
            break
        if t == steps:
            break
        work.force_responses(t)
        work.advance(t)
        work.draw_noise(t)
    computed = slice(0, reached + 1)
    diverged = reached < steps
    reasons = (f"descent diverges after step {reached}; lower the learning rate",) if diverged else ()
    train, test = (
        _mean(part[computed], name, reasons)
        for part, name in zip(work.losses, ("train loss", "test loss"), strict=True)
    )
    norm2 = (work.W[computed] ** 2).mean(axis=(1, 3))
    status = Status.REFUSED if diverged else Status.OK
    return WideTrajectory(
        network, target, float(delta), float(lr), work.G[computed], work.latents, train, test, work.overlap[computed],
        norm2, status, reasons,
    )  # fmt: skip


class _Workspace:
    """The arrays of one run, filled step by step. Axes: t, s steps; n samples; g, h kinds of neurons; M units per kind.

    V, W, G: (t, n, g, M), what training and fresh examples see, and the Hessian's weights. ``force`` F: (t, n, g, M),
    ``mean_force``: its mean over units, (t, n, g). ``own_*`` relate a neuron to itself, ``cross_*`` two neurons.
    ``start`` A: (t, g), ``overlap`` B: (t, g, k). ``own_response`` R^d: (g, t, s), ``cross_response`` R^o:
    (g, h, t, s), of the weights; ``own_reaction`` ρ^d and ``cross_reaction`` ρ^o the same, of the forces.
    ``own_covariance``: (g, t, s) of F; ``shared_covariance``: (t, g, s, h) of its means. ``own_noise``: (t, n, g, M),
    ``shared_noise``: (t, n, g). ``own_tangents[s]``: (t−s, n, g, M), ``cross_tangents[s]``: (t−s, n, g, M, h), what a
    push at s does to F, the last axis being the kind that is pushed. ``losses``: (train and test, t, n).
    """

    def __init__(
        self, network: Network, target: Target, delta: float, lr: float, sizes: tuple[int, int, int], seed: int
    ) -> None:
        from scipy.special import ndtri

        samples, steps, units = sizes
        k = target.latents
        self.functions = _compiled(network)
        self.delta, self.lr, self.samples, self.units = delta, lr, samples, units
        normals = stratified(samples, k + 1 + 2 * steps, seed)
        rng = np.random.default_rng([seed, 1])
        self.latents = normals[:, :k]
        self.shared_shocks = normals[:, k + 1 :].reshape(samples, steps, 2)
        self.own_shocks = rng.standard_normal((samples, 2 * units, steps)).astype(np.float32)
        # both kinds start at the same places, so that f = 0 exactly
        first = ndtri((np.arange(units) + rng.random((samples, units))) / units)
        self.xi = np.stack([first, first], axis=1)
        self.y, self.easy = labels(target, self.latents, normals[:, k]), target.easy @ target.easy.T

        self.start, self.overlap = np.zeros((steps + 1, 2)), np.zeros((steps + 1, 2, k))
        self.start[0] = network.initial_norm
        self.own_response = np.zeros((2, steps + 1, steps + 1))
        self.cross_response = np.zeros((2, 2, steps + 1, steps + 1))
        self.own_reaction, self.cross_reaction = np.zeros((2, steps, steps)), np.zeros((2, 2, steps, steps))
        self.own_covariance, self.shared_covariance = np.zeros((2, steps, steps)), np.zeros((steps, 2, steps, 2))
        self.V, self.W = np.zeros((2, steps + 1, samples, 2, units))
        self.G = np.zeros((steps + 1, samples, 2, units))
        self.force, self.own_noise = np.zeros((2, steps, samples, 2, units))
        self.shared_noise, self.mean_force = np.zeros((2, steps, samples, 2))
        self.losses = np.zeros((2, steps + 1, samples))
        self.unit_slope = self.loss_bend = np.empty(0)  # a σ' and ℓ'' at the present step
        self.own_tangents = [np.zeros((steps - s, samples, 2, units)) for s in range(steps)]
        self.cross_tangents = [np.zeros((steps - s, samples, 2, units, 2)) for s in range(steps)]

    def preactivations(self, t: int) -> None:
        """W(t) and V(t) of both kinds of neurons from what happened before t."""
        lr, delta = self.lr, self.delta
        for g in range(2):
            own, cross = self.own_response[g, t, :t], self.cross_response[g, :, t, :t]
            shared = np.einsum("s,sn->n", own, self.shared_noise[:t, :, g]) + 0.5 * np.einsum(
                "hs,snh->n", cross, self.shared_noise[:t]
            )
            each = np.tensordot(own, self.own_noise[:t, :, g], 1)
            self.W[t, :, g] = self.start[t, g] * self.xi[:, g] + (self.latents @ self.overlap[t, g])[:, None]
            self.W[t, :, g] += lr / math.sqrt(delta) * (each + shared[:, None])
            from_others = 0.5 * np.einsum("hs,snh->n", cross, self.mean_force[:t])
            from_itself = np.tensordot(own, self.force[:t, :, g], 1)
            self.V[t, :, g] = self.W[t, :, g] - lr / delta * (from_itself + from_others[:, None])

    def derivatives(self, t: int) -> bool:
        """Losses, forces and curvatures at t; whether they are still finite. Forces are not kept at the last step."""
        with float64():
            parts = self.functions(jnp.asarray(self.V[t]), jnp.asarray(self.y))
            self.losses[1, t] = np.asarray(self.functions(jnp.asarray(self.W[t]), jnp.asarray(self.y))[0])
        self.losses[0, t], force, self.G[t], self.unit_slope, self.loss_bend = (np.asarray(part) for part in parts)
        if not max(np.max(abs(force)), np.max(abs(self.G[t]))) < POLICY.diverged:  # also where it is NaN
            return False
        if t < len(self.force):
            self.force[t], self.mean_force[t] = force, force.mean(axis=2)
        return True

    def force_responses(self, t: int) -> None:
        """ρ^d(t, s) and ρ^o(t, s) for all s ≤ t, by the tangents of every example."""
        slope = self.unit_slope
        for s in range(t + 1):
            own, cross = self._tangents(t, s)
            # m ∂f/∂W of each kind
            output = (slope * own).mean(axis=2) + 0.5 * np.einsum("nhm,nhmc->nc", slope, cross) / self.units
            self.own_tangents[s][t - s] = self.G[t] * own
            by_output = (self.loss_bend[:, None, None] * slope)[..., None] * output[:, None, None]
            self.cross_tangents[s][t - s] = self.G[t][..., None] * cross + by_output
            self.own_reaction[:, t, s] = self.own_tangents[s][t - s].mean(axis=(0, 2))
            self.cross_reaction[:, :, t, s] = self.cross_tangents[s][t - s].mean(axis=(0, 2))

    def _tangents(self, t: int, s: int) -> tuple[np.ndarray, np.ndarray]:
        """∂V_j(t)/∂W_k(s) for k = j, shape (n, 2, units), and m times that averaged over a kind of k, (n, 2, units, 2).

        With no step between s and t, V moves with W alone.
        """
        own_response, cross_response = self.own_response[:, t, s:t], self.cross_response[:, :, t, s:t]
        before, crossed = self.own_tangents[s][: t - s], self.cross_tangents[s][: t - s]
        shape = (self.samples, 2, self.units)
        if s == t:
            return np.ones(shape), np.zeros((*shape, 2))
        mean_own, mean_cross = before.mean(axis=3), crossed.mean(axis=3)
        own, cross = np.empty(shape), np.empty((*shape, 2))
        pace = self.lr / self.delta
        for g in range(2):
            own[:, g] = -pace * np.tensordot(own_response[g], before[:, :, g], 1)
            from_others = np.einsum("cu,unc->nc", cross_response[g], mean_own)
            from_others = from_others + 0.5 * np.einsum("hu,unhc->nc", cross_response[g], mean_cross)
            from_itself = np.tensordot(own_response[g], crossed[:, :, g], 1)
            cross[:, g] = -pace * (from_itself + from_others[:, None])
        return own, cross

    def advance(self, t: int) -> None:
        """A, B and the responses of the weights at t + 1."""
        lr, A = self.lr, self.start
        own, cross = self.own_response, self.cross_response
        own_reaction, cross_reaction = self.own_reaction[:, t], self.cross_reaction[:, :, t]
        A[t + 1] = A[t] - lr * np.einsum("gu,ug->g", own_reaction[:, : t + 1], A[: t + 1])
        along_easy = lr * np.einsum("ng,nk->gk", self.mean_force[t], self.latents) / self.samples @ self.easy
        self.overlap[t + 1] = self.overlap[t] - along_easy
        for s in range(t):
            u = slice(s + 1, t + 1)
            own[:, t + 1, s] = own[:, t, s] - lr * np.einsum("gu,gu->g", own_reaction[:, u], own[:, u, s])
            change = np.einsum("gu,ghu->gh", own_reaction[:, u], cross[:, :, u, s])
            change += np.einsum("ghu,hu->gh", cross_reaction[:, :, u], own[:, u, s])
            change += 0.5 * np.einsum("gcu,chu->gh", cross_reaction[:, :, u], cross[:, :, u, s])
            cross[:, :, t + 1, s] = cross[:, :, t, s] - lr * change
        own[:, t + 1, t] = 1.0

    def draw_noise(self, t: int) -> None:
        """The covariances of the forces up to t, and the noise of step t: one part per kind and one per neuron."""
        own, shared, mean_force = self.own_covariance, self.shared_covariance, self.mean_force
        now = slice(0, t + 1)
        own[:, t, now] = np.einsum("ngm,sngm->gs", self.force[t], self.force[now]) / (self.samples * self.units)
        own[:, now, t] = own[:, t, now]
        shared[t, :, now] = np.einsum("ng,snh->gsh", mean_force[t], mean_force[now]) / self.samples
        shared[now, :, t] = shared[t, :, now].transpose(1, 2, 0)
        self.shared_noise[t] = next_noise(shared[now, :, now], self.shared_shocks[:, now])
        for g in range(2):
            rest = own[g, now, now] - shared[now, g, now, g]
            rest = rest + JITTER * np.diag(np.diagonal(own[g, now, now]))
            factor = np.linalg.cholesky(rest)[-1]
            self.own_noise[t, :, g] = self.own_shocks[:, g * self.units : (g + 1) * self.units, now] @ factor


def _mean(each: np.ndarray, name: str, reasons: tuple[str, ...]) -> Measurement[np.ndarray]:
    error = standard_error(each, axis=1)
    return Measurement(each.mean(axis=1), error, Status.REFUSED if reasons else Status.OK, reasons=reasons, name=name)


@functools.lru_cache(maxsize=16)
def _compiled(network: Network) -> Callable[[Array, Array], tuple[Array, ...]]:
    """Of V (n, 2, units) and y (n,): losses, F, G, a σ' and ℓ''."""
    a, b = np.asarray(network.a_each)[:, None], np.asarray(network.b_each)[:, None]

    def functions(V, y):
        prediction = (a * network.activation(V + b)).mean(axis=(1, 2))
        slope = network.loss.first(prediction, y)[:, None, None]
        first, second = a * network.activation.first(V + b), a * network.activation.second(V + b)
        return network.loss(prediction, y), slope * first, slope * second, first, network.loss.second(prediction, y)

    return jax.jit(functions)
