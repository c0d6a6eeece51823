"""What does gradient descent do to one example as n, d → ∞ with n/d = δ? Dynamical mean-field theory, by Monte Carlo.

With g = ∂ℓ(f(V), y)/∂V the pull on an example and H = ∂g/∂V, both m- and m×m-valued,

.. math::
    V(t) &= W(t) - \\tfrac{\\eta}{\\delta} \\sum_{s<t} R_\\theta(t,s)\\, g(s), \\qquad
    W(t) = A_t \\xi + B_t V_* + \\tfrac{\\eta}{\\sqrt\\delta} \\sum_{s<t} R_\\theta(t,s)\\, Z(s), \\\\
    R_\\theta(t+1,s) &= R_\\theta(t,s) - \\eta \\sum_{u>s} R_f(t,u) R_\\theta(u,s), \\quad R_\\theta(s+1,s) = 1, \\\\
    R_f(t,s) &= E[H_t D(t,s)], \\quad
    D(t,s) = 1_{t=s} - \\tfrac{\\eta}{\\delta} \\sum_{s \\le u<t} R_\\theta(t,u) H_u D(u,s), \\\\
    A_{t+1} &= A_t - \\eta \\sum_u R_f(t,u) A_u, \\qquad B_{t+1} = B_t - \\eta\\, E[g_t V_*^\\top] P_{easy},

Z a Gaussian process with covariance C_f(t,s) = E[g_t g_sᵀ], ξ standard normal (Wang & Montanari 2026, the evolution
equations, solved for the weights; B follows from their R(t,*) by Stein's lemma and is E[ΘΘ_*ᵀ]). A fresh example sees
W(t) where a training example sees V(t), so that test losses come from the same draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.results import Measurement, Status
from phasecast.features.curvature.curvature_law import CurvatureLaw
from phasecast.features.curvature.gaussian_draws import next_noise, stratified
from phasecast.features.curvature.per_example import (
    check_step,
    curvature_law,
    few_units,
    labels,
    mean_loss,
    pull,
    stiffness,
)
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import Target

MOST_MEMORY = 4e9  # bytes of the tangents
FARTHEST = 1e12  # a pull or stiffness beyond it is on its way to infinity


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
    train: Measurement
    test: Measurement
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
            raise BadInput(f"there is no step {time}", f"ask for one from 0 to {self.steps}")
        return curvature_law(
            self.network, self.target, self.V[time], self.labels, self.latents, route="dmft", time=float(time),
            delta=self.delta if time else None, block=unit,
        )  # fmt: skip


def dmft(
    network: Network,
    target: Target,
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

    >>> from phasecast.features.setting.target import target
    >>> run = dmft(Network("gelu", "pseudo-huber"), target("z**2"), delta=8.0, lr=0.5, steps=3, samples=2000)
    >>> run.train.value.shape, bool(run.train.value[3] < run.test.value[3])
    ((4,), True)
    """
    check_step(delta, lr)
    steps = whole_number("steps", steps, 0)
    samples = whole_number("samples", samples, 100)
    m, k = few_units(network), target.latents
    needed = 8.0 * samples * (m * steps) ** 2 / 2
    if needed > MOST_MEMORY:
        raise BadInput(f"{steps} steps of {samples} samples need {needed / 1e9:.1f} GB", "use fewer of them")
    normals = stratified(samples, k + 1 + m * (steps + 1), seed)
    latents, noise = normals[:, :k], normals[:, k]
    xi, shocks = normals[:, k + 1 : k + 1 + m], normals[:, k + 1 + m :].reshape(samples, steps, m)
    y = labels(target, latents, noise)
    easy = target.easy @ target.easy.T

    A = np.zeros((steps + 1, m, m))
    A[0] = network.initial_norm * np.eye(m)
    B = np.zeros((steps + 1, m, k))
    R = np.zeros((steps + 1, steps + 1, m, m))
    Rf = np.zeros((steps, steps, m, m))
    Cf = np.zeros((steps, m, steps, m))
    V, W, Z = (np.zeros((count, samples, m)) for count in (steps + 1, steps + 1, steps))
    pulls = np.zeros((steps, samples, m))
    tangents = [np.zeros((steps - s, m, m * samples)) for s in range(steps)]  # H_u D(u, s), u from s on
    reached = steps
    for t in range(steps + 1):
        W[t] = xi @ A[t].T + latents @ B[t].T + lr / np.sqrt(delta) * np.einsum("sij,snj->ni", R[t, :t], Z[:t])
        V[t] = W[t] - lr / delta * np.einsum("sij,snj->ni", R[t, :t], pulls[:t])
        if t == steps:
            break
        pulls[t], H = pull(network, V[t], y), stiffness(network, V[t], y)
        if not max(np.max(abs(pulls[t])), np.max(abs(H))) < FARTHEST:  # also where it is NaN
            reached = t - 1
            break
        for s in range(t + 1):
            if s == t:
                D = np.broadcast_to(np.eye(m)[:, :, None], (m, m, samples))
            else:
                past = -lr / delta * R[t, s:t].transpose(1, 0, 2).reshape(m, -1)
                D = (past @ tangents[s][: t - s].reshape((t - s) * m, -1)).reshape(m, m, samples)
            pushed = np.einsum("nil,ljn->ijn", H, D) if m > 1 else H[:, 0, 0] * D
            tangents[s][t - s] = pushed.reshape(m, -1)
            Rf[t, s] = pushed.mean(axis=2)
        A[t + 1] = A[t] - lr * np.einsum("uij,ujk->ik", Rf[t, : t + 1], A[: t + 1])
        B[t + 1] = B[t] - lr * pulls[t].T @ latents / samples @ easy
        R[t + 1, t] = np.eye(m)
        for s in range(t):
            R[t + 1, s] = R[t, s] - lr * np.einsum("uij,ujk->ik", Rf[t, s + 1 : t + 1], R[s + 1 : t + 1, s])
        Cf[t, :, : t + 1] = np.einsum("ni,snj->isj", pulls[t], pulls[: t + 1]) / samples
        Cf[: t + 1, :, t] = Cf[t, :, : t + 1].transpose(1, 2, 0)
        Z[t] = next_noise(Cf[: t + 1, :, : t + 1], shocks[:, : t + 1])
    kept = slice(0, reached + 1)
    noise_part = np.einsum("tuij,ujvk,svlk->tsil", R[kept, :steps], Cf, R[kept, :steps], optimize=True)
    C = np.einsum("tij,skj->tsik", A[kept], A[kept]) + np.einsum("tij,skj->tsik", B[kept], B[kept])
    C = C + lr**2 / delta * noise_part
    broken = reached < steps
    reasons = (f"descent diverges after step {reached}; lower the learning rate",) if broken else ()
    return Trajectory(
        network, target, float(delta), float(lr), V[kept], latents, y,
        mean_loss(network, V[kept], y, "train loss", reasons), mean_loss(network, W[kept], y, "test loss", reasons),
        B[kept], C, R[kept, kept], Status.REFUSED if broken else Status.OK, reasons,
    )  # fmt: skip
