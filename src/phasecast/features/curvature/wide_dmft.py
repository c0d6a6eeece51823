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
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.precision import float64
from phasecast.core.results import Measurement, Status
from phasecast.features.curvature.curvature_law import CurvatureLaw
from phasecast.features.curvature.gaussian_draws import JITTER, next_noise, stratified
from phasecast.features.curvature.per_example import check_step, infimum, labels
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import Target

MOST_MEMORY = 4e9  # bytes of the tangents
FARTHEST = 1e12  # a pull or stiffness beyond it is on its way to infinity
NEAR, FAR = 10.0, 40.0  # a curvature that still falls between these predictions is unbounded below


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
    train: Measurement
    test: Measurement
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
            raise BadInput(f"there is no step {time}", f"ask for one from 0 to {self.steps}")
        G = self.G[time, :, block]
        hard = np.repeat(self.latents @ self.target.hard, G.shape[1], axis=0)
        floor = infimum(self.network, self.target, block)
        if time:
            floor = -math.inf if _unbounded(self.network, self.target, block) else float(G.min())
        return CurvatureLaw(
            G.ravel(), hard, lowest=floor, route="dmft", time=float(time), delta=self.delta if time else None,
            block=block,
        )  # fmt: skip


def wide_dmft(
    network: Network,
    target: Target,
    delta: float,
    lr: float,
    steps: int,
    *,
    samples: int = 2000,
    units: int = 16,
    seed: int = 0,
) -> WideTrajectory:
    """The limit of gradient descent for a wide network.

    >>> from phasecast.features.setting.target import target
    >>> run = wide_dmft(Network("gelu", "square", width="wide"), target("tanh(z)**2"), 3.0, 0.5, 2, samples=500)
    >>> bool(run.train.value[2] < run.train.value[0])
    True
    """
    if network.width != "wide":
        raise BadInput(f"the width is {network.width}", "use width='wide', or dmft for 1 to 4 units")
    check_step(delta, lr)
    steps, samples = whole_number("steps", steps, 0), whole_number("samples", samples, 100)
    M, k = whole_number("units", units, 2), target.latents
    needed = 8.0 * samples * 2 * M * 3 * steps**2 / 2
    if needed > MOST_MEMORY:
        raise BadInput(f"{steps} steps of {samples} samples need {needed / 1e9:.1f} GB", "use fewer, or fewer units")
    functions = _compiled(network)
    normals = stratified(samples, k + 1 + 2 * steps, seed)
    rng = np.random.default_rng([seed, 1])
    latents, noise, shared = normals[:, :k], normals[:, k], normals[:, k + 1 :].reshape(samples, steps, 2)
    own = rng.standard_normal((samples, 2 * M, steps)).astype(np.float32)
    first = ndtri((np.arange(M) + rng.random((samples, M))) / M)  # both kinds start at the same places: f = 0 exactly
    xi = np.stack([first, first], axis=1)
    y, easy = labels(target, latents, noise), target.easy @ target.easy.T

    A, B = np.zeros((steps + 1, 2)), np.zeros((steps + 1, 2, k))
    A[0] = network.initial_norm
    Rd, Ro = np.zeros((2, steps + 1, steps + 1)), np.zeros((2, 2, steps + 1, steps + 1))
    rd, ro = np.zeros((2, steps, steps)), np.zeros((2, 2, steps, steps))
    Cd, Co = np.zeros((2, steps, steps)), np.zeros((steps, 2, steps, 2))
    V, W = np.zeros((2, steps + 1, samples, 2, M))
    G = np.zeros((steps + 1, samples, 2, M))
    F, Zi = np.zeros((2, steps, samples, 2, M))
    Zc, mean_F = np.zeros((2, steps, samples, 2))
    losses = np.zeros((2, steps + 1, samples))
    Kd = [np.zeros((steps - s, samples, 2, M)) for s in range(steps)]
    Ko = [np.zeros((steps - s, samples, 2, M, 2)) for s in range(steps)]  # last axis: the kind that is pushed
    reached = steps
    for t in range(steps + 1):
        for g in range(2):
            common = np.einsum("s,sn->n", Rd[g, t, :t], Zc[:t, :, g]) + 0.5 * np.einsum(
                "hs,snh->n", Ro[g, :, t, :t], Zc[:t]
            )
            each = np.tensordot(Rd[g, t, :t], Zi[:t, :, g], 1)
            W[t, :, g] = A[t, g] * xi[:, g] + (latents @ B[t, g])[:, None]
            W[t, :, g] += lr / math.sqrt(delta) * (each + common[:, None])
            crowd = 0.5 * np.einsum("hs,snh->n", Ro[g, :, t, :t], mean_F[:t])
            V[t, :, g] = W[t, :, g] - lr / delta * (np.tensordot(Rd[g, t, :t], F[:t, :, g], 1) + crowd[:, None])
        with float64():
            parts = functions(jnp.asarray(V[t]), jnp.asarray(y))
            losses[1, t] = np.asarray(functions(jnp.asarray(W[t]), jnp.asarray(y))[0])
        losses[0, t], now, G[t], lean, second = (np.asarray(part) for part in parts)
        if not max(np.max(abs(now)), np.max(abs(G[t]))) < FARTHEST:
            reached = t - 1
            break
        if t == steps:
            break
        F[t], mean_F[t] = now, now.mean(axis=2)
        for s in range(t + 1):
            Dd, Do = _tangents(Rd[:, t, s:t], Ro[:, :, t, s:t], Kd[s][: t - s], Ko[s][: t - s], lr / delta)
            swing = (lean * Dd).mean(axis=2) + 0.5 * np.einsum("nhm,nhmc->nc", lean, Do) / M  # m ∂f/∂W of each kind
            Kd[s][t - s] = G[t] * Dd
            Ko[s][t - s] = G[t][..., None] * Do + (second[:, None, None] * lean)[..., None] * swing[:, None, None]
            rd[:, t, s] = Kd[s][t - s].mean(axis=(0, 2))
            ro[:, :, t, s] = Ko[s][t - s].mean(axis=(0, 2))
        A[t + 1] = A[t] - lr * np.einsum("gu,ug->g", rd[:, t, : t + 1], A[: t + 1])
        B[t + 1] = B[t] - lr * np.einsum("ng,nk->gk", mean_F[t], latents) / samples @ easy
        _push_on(Rd, Ro, rd, ro, t, lr)
        Cd[:, t, : t + 1] = np.einsum("ngm,sngm->gs", F[t], F[: t + 1]) / (samples * M)
        Cd[:, : t + 1, t] = Cd[:, t, : t + 1]
        Co[t, :, : t + 1] = np.einsum("ng,snh->gsh", mean_F[t], mean_F[: t + 1]) / samples
        Co[: t + 1, :, t] = Co[t, :, : t + 1].transpose(1, 2, 0)
        Zc[t] = next_noise(Co[: t + 1, :, : t + 1], shared[:, : t + 1])
        for g in range(2):
            rest = Cd[g, : t + 1, : t + 1] - Co[: t + 1, g, : t + 1, g]
            rest = rest + JITTER * np.diag(np.diagonal(Cd[g, : t + 1, : t + 1]))
            factor = np.linalg.cholesky(rest)[-1]
            Zi[t, :, g] = own[:, g * M : (g + 1) * M, : t + 1] @ factor
    kept = slice(0, reached + 1)
    broken = reached < steps
    reasons = (f"descent diverges after step {reached}; lower the learning rate",) if broken else ()
    train, test = (
        _mean(part[kept], name, reasons) for part, name in zip(losses, ("train loss", "test loss"), strict=True)
    )
    norm2 = (W[kept] ** 2).mean(axis=(1, 3))
    status = Status.REFUSED if broken else Status.OK
    return WideTrajectory(
        network, target, float(delta), float(lr), G[kept], latents, train, test, B[kept], norm2, status, reasons
    )  # fmt: skip


def _tangents(
    Rd: np.ndarray, Ro: np.ndarray, Kd: np.ndarray, Ko: np.ndarray, pace: float
) -> tuple[np.ndarray, np.ndarray]:
    """∂V_j(t)/∂W_k(s) for k = j, shape (n, 2, units), and m times that averaged over a kind of k, (n, 2, units, 2).

    Rd (2, u) and Ro (2, 2, u) are the responses from the steps u = s, …, t−1 to t, Kd (u, n, 2, units) and Ko
    (u, n, 2, units, 2) what a push at s has done to F there; with no step between, V moves with W alone.
    """
    samples, _, units = Kd.shape[1:]
    if not len(Kd):
        return np.ones((samples, 2, units)), np.zeros((samples, 2, units, 2))
    means_d, means_o = Kd.mean(axis=3), Ko.mean(axis=3)
    own, others = np.empty((samples, 2, units)), np.empty((samples, 2, units, 2))
    for g in range(2):
        own[:, g] = -pace * np.tensordot(Rd[g], Kd[:, :, g], 1)
        crowd = np.einsum("cu,unc->nc", Ro[g], means_d) + 0.5 * np.einsum("hu,unhc->nc", Ro[g], means_o)
        others[:, g] = -pace * (np.tensordot(Rd[g], Ko[:, :, g], 1) + crowd[:, None])
    return own, others


def _push_on(Rd: np.ndarray, Ro: np.ndarray, rd: np.ndarray, ro: np.ndarray, t: int, lr: float) -> None:
    """Fill in the responses of the weights at t + 1 from those up to t."""
    for s in range(t):
        u = slice(s + 1, t + 1)
        Rd[:, t + 1, s] = Rd[:, t, s] - lr * np.einsum("gu,gu->g", rd[:, t, u], Rd[:, u, s])
        change = np.einsum("gu,ghu->gh", rd[:, t, u], Ro[:, :, u, s])
        change += np.einsum("ghu,hu->gh", ro[:, :, t, u], Rd[:, u, s])
        change += 0.5 * np.einsum("gcu,chu->gh", ro[:, :, t, u], Ro[:, :, u, s])
        Ro[:, :, t + 1, s] = Ro[:, :, t, s] - lr * change
    Rd[:, t + 1, t] = 1.0


def _unbounded(network: Network, target: Target, block: int) -> bool:
    """Whether a_j ℓ'(f, y) σ'' keeps falling as f and y go far out, which they may once f is not zero."""
    far = np.linspace(-FAR, FAR, 4001)
    line = np.linspace(-FAR, FAR, 33)
    z = np.stack(np.meshgrid(*[line] * target.latents), -1).reshape(-1, target.latents)
    y = np.unique(labels(target, z, np.zeros(len(z))))
    with float64():
        bend = network.a_each[block] * np.asarray(network.activation.second(jnp.asarray(far)))
        slopes = np.asarray(network.loss.first(jnp.asarray(far)[:, None], jnp.asarray(y)[None]))
    inside = slopes[abs(far) <= NEAR]
    near, out = (min(part.min() * bend.max(), part.max() * bend.min()) for part in (inside, slopes))
    return bool(near - out > 0.1 * (1 + abs(near)))


def _mean(each: np.ndarray, name: str, reasons: tuple[str, ...]) -> Measurement:
    error = each.std(axis=1, ddof=1) / math.sqrt(each.shape[1])
    return Measurement(each.mean(axis=1), error, Status.REFUSED if reasons else Status.OK, reasons=reasons, name=name)


@functools.lru_cache(maxsize=16)
def _compiled(network: Network) -> Any:
    """Of V (n, 2, units) and y (n,): losses, F, G, a σ' and ℓ''."""
    a, b = np.asarray(network.a_each)[:, None], np.asarray(network.b_each)[:, None]

    def functions(V, y):
        prediction = (a * network.activation(V + b)).mean(axis=(1, 2))
        slope = network.loss.first(prediction, y)[:, None, None]
        lean, bend = a * network.activation.first(V + b), a * network.activation.second(V + b)
        return network.loss(prediction, y), slope * lean, slope * bend, lean, network.loss.second(prediction, y)

    return jax.jit(functions)
