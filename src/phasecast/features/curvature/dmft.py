"""What does gradient descent do to one example as n, d → ∞ with n/d = δ? Dynamical mean-field theory, by Monte Carlo.

With g = ∂ℓ(f(V), y)/∂V and H = ∂g/∂V, the gradient (m) and the Hessian (m×m) of the loss of an example,

.. math::
    V(t) &= W(t) - \\tfrac{\\eta}{\\delta} \\sum_{s<t} R_\\theta(t,s)\\, g(s), \\qquad
    W(t) = A_t \\xi + B_t V_* + \\tfrac{\\eta}{\\sqrt\\delta} \\sum_{s<t} R_\\theta(t,s)\\, Z(s), \\\\
    R_\\theta(t+1,s) &= R_\\theta(t,s) - \\eta \\sum_{u>s} R_f(t,u) R_\\theta(u,s), \\quad R_\\theta(s+1,s) = 1, \\\\
    R_f(t,s) &= E[H_t D(t,s)], \\quad
    D(t,s) = 1_{t=s} - \\tfrac{\\eta}{\\delta} \\sum_{s \\le u<t} R_\\theta(t,u) H_u D(u,s), \\\\
    A_{t+1} &= A_t - \\eta \\sum_u R_f(t,u) A_u, \\qquad B_{t+1} = B_t - \\eta\\, E[g_t V_*^\\top] P_{easy},

Z a Gaussian process with covariance C_f(t,s) = E[g_t g_sᵀ], ξ standard normal (Wang & Montanari 2026, the evolution
equations, solved for the weights; B follows from their R(t,*) by Stein's lemma and is E[ΘΘ_*ᵀ]). A fresh
example has the preactivation W(t) where a training example has V(t), so that test losses come from the same draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.results import Measurement, Status
from phasecast.features.curvature.curvature_law import CurvatureLaw
from phasecast.features.curvature.gaussian_draws import next_noise, stratified
from phasecast.features.curvature.per_example import (
    Origin,
    check_step,
    curvature_law,
    few_units,
    labels,
    loss_gradient,
    loss_hessian,
    mean_loss,
)
from phasecast.features.policy import POLICY
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import Target
from phasecast.features.setting.target import target as as_target


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Gradient descent in the limit, step by step.

    Parameters
    ----------
    V: shape (steps+1, samples, m): what training examples see, Θ(t)ᵀx.
    latents, labels: shapes (samples, k) and (samples,): V_* and y of the same examples.
    train, test: losses at t = 0, 1, …, steps, with the standard error of the average over samples alone.
    overlap: shape (steps+1, m, k), Θ(t)ᵀΘ_*; zero on hard directions.
    C_theta: shape (steps+1, steps+1, m, m), Θ(t)ᵀΘ(s).
    R_theta: shape (steps+1, steps+1, m, m), the response of Θ(t) to a push at step s.
    """

    network: Network
    target: Target
    delta: float
    lr: float
    V: np.ndarray
    latents: np.ndarray
    labels: np.ndarray
    train: Measurement[np.ndarray]
    test: Measurement[np.ndarray]
    overlap: np.ndarray
    C_theta: np.ndarray
    R_theta: np.ndarray
    status: Status = Status.OK
    reasons: tuple[str, ...] = ()

    @property
    def steps(self) -> int:
        return len(self.V) - 1

    def law(self, time: int, unit: int = 0) -> CurvatureLaw:
        """The law of G and the hard latents after ``time`` steps, of the block of one unit."""
        if not 0 <= time <= self.steps:
            raise BadInput(f"step {time} was not computed", f"use a step from 0 to {self.steps}")
        return curvature_law(
            self.network, self.target, self.V[time], self.labels, self.latents,
            Origin("dmft", float(time), self.delta if time else None, unit),
        )  # fmt: skip


def dmft(
    network: Network,
    target: str | Target,
    delta: float,
    lr: float,
    steps: int,
    *,
    samples: int = 20_000,
    seed: int = 0,
) -> Trajectory:
    """The limit of gradient descent on n = δd examples, for one unit or a few.

    Time grows like samples · steps³ and memory like samples · (m · steps)². The same seed draws the same latents,
    noise and normals at every δ, all of them stratified, so that differences in δ are smooth.

    >>> run = dmft(Network("gelu", "pseudo-huber"), "z**2", delta=8.0, lr=0.5, steps=3, samples=2000)
    >>> run.train.value.shape, bool(run.train.value[3] < run.test.value[3])
    ((4,), True)
    """
    check_step(delta, lr)
    target = as_target(target)
    steps = whole_number("steps", steps, 0)
    samples = whole_number("samples", samples, 100)
    m, k = few_units(network), target.latents
    needed = 8.0 * samples * (m * steps) ** 2 / 2
    if needed > POLICY.most_memory:
        raise BadInput(f"{steps} steps of {samples} samples need {needed / 1e9:.1f} GB", "use fewer of them")
    work = _Workspace(network, target, delta, lr, stratified(samples, k + 1 + m * (steps + 1), seed), steps)
    reached = steps
    for t in range(steps + 1):
        work.preactivations(t)
        if t == steps:
            break
        if not work.derivatives(t):
            reached = t - 1
            break
        work.force_responses(t)
        work.advance(t)
    computed = slice(0, reached + 1)
    diverged = reached < steps
    reasons = (f"descent diverges after step {reached}; lower the learning rate",) if diverged else ()
    train, test = (
        mean_loss(network, inputs[computed], work.y, f"{name} loss", reasons)
        for name, inputs in (("train", work.V), ("test", work.W))
    )
    status = Status.REFUSED if diverged else Status.OK
    return Trajectory(
        network, target, float(delta), float(lr), work.V[computed], work.latents, work.y, train, test,
        work.overlap[computed], work.inner_products(computed), work.response[computed, computed], status, reasons,
    )  # fmt: skip


class _Workspace:
    """The arrays of one run, filled step by step; the symbols are those of the module's equations.

    V, W: (steps+1, n, m), what training and fresh examples see; ``noise`` Z and ``gradients`` g: (steps, n, m).
    ``start`` A: (steps+1, m, m), ``overlap`` B: (steps+1, m, k), ``response`` R_θ: (steps+1, steps+1, m, m).
    ``force_response`` R_f: (steps, steps, m, m), ``covariance`` C_f: (steps, m, steps, m).
    ``tangents[s]``: (steps−s, m, m·n), H_u D(u, s) from u = s on.
    """

    def __init__(
        self, network: Network, target: Target, delta: float, lr: float, normals: np.ndarray, steps: int
    ) -> None:
        samples, m, k = len(normals), network.size, target.latents
        self.network, self.delta, self.lr, self.samples, self.m, self.steps = network, delta, lr, samples, m, steps
        self.latents = normals[:, :k]
        self.xi = normals[:, k + 1 : k + 1 + m]
        self.shocks = normals[:, k + 1 + m :].reshape(samples, steps, m)
        self.y = labels(target, self.latents, normals[:, k])
        self.easy = target.easy @ target.easy.T
        self.start = np.zeros((steps + 1, m, m))
        self.start[0] = network.initial_norm * np.eye(m)
        self.overlap = np.zeros((steps + 1, m, k))
        self.response = np.zeros((steps + 1, steps + 1, m, m))
        self.force_response = np.zeros((steps, steps, m, m))
        self.covariance = np.zeros((steps, m, steps, m))
        self.V, self.W, self.noise = (np.zeros((count, samples, m)) for count in (steps + 1, steps + 1, steps))
        self.gradients = np.zeros((steps, samples, m))
        self.hessian = np.zeros((samples, m, m))
        self.tangents = [np.zeros((steps - s, m, m * samples)) for s in range(steps)]

    def preactivations(self, t: int) -> None:
        """W(t) and V(t) from what happened before t."""
        past, lr, delta = self.response[t, :t], self.lr, self.delta
        drawn = self.xi @ self.start[t].T + self.latents @ self.overlap[t].T
        self.W[t] = drawn + lr / np.sqrt(delta) * np.einsum("sij,snj->ni", past, self.noise[:t])
        self.V[t] = self.W[t] - lr / delta * np.einsum("sij,snj->ni", past, self.gradients[:t])

    def derivatives(self, t: int) -> bool:
        """g(t) and H(t); whether they are still finite."""
        self.gradients[t] = loss_gradient(self.network, self.V[t], self.y)
        self.hessian = loss_hessian(self.network, self.V[t], self.y)
        return bool(max(np.max(abs(self.gradients[t])), np.max(abs(self.hessian))) < POLICY.diverged)  # False for NaN

    def force_responses(self, t: int) -> None:
        """R_f(t, s) for all s ≤ t, by the tangents D(t, s) of every example."""
        m, samples = self.m, self.samples
        for s in range(t + 1):
            if s == t:
                D = np.broadcast_to(np.eye(m)[:, :, None], (m, m, samples))
            else:
                past = -self.lr / self.delta * self.response[t, s:t].transpose(1, 0, 2).reshape(m, -1)
                D = (past @ self.tangents[s][: t - s].reshape((t - s) * m, -1)).reshape(m, m, samples)
            pushed = np.einsum("nil,ljn->ijn", self.hessian, D) if m > 1 else self.hessian[:, 0, 0] * D
            self.tangents[s][t - s] = pushed.reshape(m, -1)
            self.force_response[t, s] = pushed.mean(axis=2)

    def advance(self, t: int) -> None:
        """A, B and R_θ at t + 1, and the noise Z(t)."""
        A, R, Rf, Cf, g = self.start, self.response, self.force_response, self.covariance, self.gradients
        lr, samples = self.lr, self.samples
        A[t + 1] = A[t] - lr * np.einsum("uij,ujk->ik", Rf[t, : t + 1], A[: t + 1])
        self.overlap[t + 1] = self.overlap[t] - lr * g[t].T @ self.latents / samples @ self.easy
        R[t + 1, t] = np.eye(self.m)
        for s in range(t):
            R[t + 1, s] = R[t, s] - lr * np.einsum("uij,ujk->ik", Rf[t, s + 1 : t + 1], R[s + 1 : t + 1, s])
        Cf[t, :, : t + 1] = np.einsum("ni,snj->isj", g[t], g[: t + 1]) / samples
        Cf[: t + 1, :, t] = Cf[t, :, : t + 1].transpose(1, 2, 0)
        self.noise[t] = next_noise(Cf[: t + 1, :, : t + 1], self.shocks[:, : t + 1])

    def inner_products(self, computed: slice) -> np.ndarray:
        """C_θ of the steps computed, shape (p, p, m, m)."""
        A, B, R = self.start[computed], self.overlap[computed], self.response[computed, : self.steps]
        stirred = np.einsum("tuij,ujvk,svlk->tsil", R, self.covariance, R, optimize=True)
        C = np.einsum("tij,skj->tsik", A, A) + np.einsum("tij,skj->tsik", B, B)
        return C + self.lr**2 / self.delta * stirred
