"""What does gradient descent itself do? Full batches of n = δd Gaussian examples, and the Hessian along its path.

.. math:: \\Theta(t+1) = \\Theta(t) - \\eta\\, \\nabla \\tfrac1n \\sum_i \\ell(f(\\Theta^\\top x_i), y_i)
          = \\Theta(t) - \\tfrac{\\eta}{n} X^\\top g(X\\Theta(t), y)

Θ_* is the first k coordinate axes, without loss of generality for Gaussian inputs. A step is two products with X, in
single precision by NumPy's BLAS (XLA's products of a matrix and a vector are slower on a CPU); test losses are averages
over the law of fresh examples, not over samples. With ``decoupled`` data the hard part of the latents in the labels is
drawn independently of X; see :mod:`phasecast.features.curvature.decoupled`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.results import Measurement, Status
from phasecast.core.statistics import mean_of
from phasecast.features.curvature.per_example import check_step, derivative, few_units, fresh_loss, labels
from phasecast.features.policy import SIMULATION
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import Target
from phasecast.features.setting.target import target as as_target

LANCZOS = 60  # vectors that eigsh keeps: an outlier near the edge needs more than its default of 20


@dataclass(frozen=True, eq=False)
class Data:
    """Training examples, their labels and the initial weights.

    Parameters
    ----------
    X: shape (n, d), single precision.
    latents, y: shapes (n, k) and (n,): the latents that made the labels, and the labels.
    theta: shape (d, m), where descent starts.
    decoupled: whether the hard latents are independent of X.
    """

    network: Network
    target: Target
    X: np.ndarray
    latents: np.ndarray
    y: np.ndarray
    theta: np.ndarray
    decoupled: bool = False

    @property
    def delta(self) -> float:
        return self.X.shape[0] / self.X.shape[1]


@dataclass(frozen=True, eq=False)
class Descent:
    """A run of gradient descent.

    Parameters
    ----------
    times: shape (p,), the recorded steps.
    train, test: shape (p,), losses.
    overlap: shape (p, m, k), Θ(t)ᵀΘ_*.
    gram: shape (p, m, m), Θ(t)ᵀΘ(t).
    theta: shape (d, m), the weights at the last step.
    """

    times: np.ndarray
    train: np.ndarray
    test: np.ndarray
    overlap: np.ndarray
    gram: np.ndarray
    theta: np.ndarray
    status: Status = Status.OK
    reasons: tuple[str, ...] = ()

    def cosine(self, basis: np.ndarray) -> np.ndarray:
        """At each time the largest cosine between a unit's weights and the span of ``basis`` (k, r), shape (p,)."""
        size = np.linalg.norm(self.overlap @ basis, axis=2)
        return (size / np.sqrt(np.einsum("pii->pi", self.gram))).max(axis=1)


def draw_data(
    network: Network, target: str | Target, delta: float, dimension: int, *, seed: int = 0, decoupled: bool = False
) -> Data:
    """n = δd examples in d dimensions, and weights to start from, uniform on the sphere of the initial norm."""
    check_step(delta, 1.0)
    target = as_target(target)
    m, k = few_units(network), target.latents
    d, n = whole_number("dimension", dimension, k + 1), round(delta * dimension)
    if n < 1 or 4.0 * n * d > SIMULATION.most_memory:
        raise BadInput(f"{n} examples in {d} dimensions need {4e-9 * n * d:.1f} GB", "use a smaller dimension or δ")
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((d, m))
    theta *= network.initial_norm / np.linalg.norm(theta, axis=0)
    noise, apart = rng.standard_normal(n), rng.standard_normal((n, k))
    X = rng.standard_normal((n, d), dtype=np.float32)
    latents = X[:, :k].astype(float)
    if decoupled:
        hard = target.hard @ target.hard.T
        latents = latents - latents @ hard + apart @ hard
    return Data(network, target, X, latents, labels(target, latents, noise), theta, decoupled)


def descend(
    data: Data,
    lr: float,
    steps: int,
    *,
    record: Sequence[int] | None = None,
    project: bool = False,
) -> Descent:
    """Gradient descent from ``data.theta``.

    Parameters
    ----------
    record: the steps to record, in increasing order; defaults to all. Each costs an average over fresh examples.
    project: put each unit back on the sphere of the initial norm after a step.

    >>> from phasecast.features.setting.network import Network
    >>> data = draw_data(Network("gelu", "pseudo-huber"), "z**2", delta=5, dimension=40)
    >>> run = descend(data, lr=0.5, steps=20, record=[0, 20])
    >>> bool(run.train[1] < run.train[0])
    True
    """
    check_step(data.delta, lr)
    whole_number("steps", steps, 0)
    recorded = list(range(steps + 1)) if record is None else [int(step) for step in record]
    if not recorded or recorded != sorted(set(recorded)) or recorded[0] < 0 or recorded[-1] > steps:
        raise BadInput("the steps to record must be rising from 0 on", f"give steps from 0 to {steps}")
    network, target, k = data.network, data.target, data.target.latents
    y = data.y.astype(np.float32)
    wanted, rows = set(recorded), []
    diverged, theta = False, data.theta
    for t, theta, V in walk(data, lr, recorded[-1], project=project):
        if t not in wanted:
            continue
        overlap, gram = theta[:k].T.astype(float), theta.T.astype(float) @ theta.astype(float)
        train = float(derivative(network, "losses", V, y).astype(float).mean())
        diverged = not (math.isfinite(train) and np.isfinite(gram).all())
        if diverged:
            break
        rows.append((t, train, fresh_loss(network, target, gram, overlap), overlap, gram))
    reasons = ("the weights are not finite; lower the learning rate",) if diverged else ()
    if not rows:
        nothing = np.empty(0)
        return Descent(nothing, nothing, nothing, nothing, nothing, theta, Status.REFUSED, reasons)
    times, train, test, overlaps, grams = (np.asarray(part) for part in zip(*rows, strict=True))
    return Descent(times, train, test, overlaps, grams, theta, Status.REFUSED if diverged else Status.OK, reasons)


def walk(data: Data, lr: float, steps: int, *, project: bool = False) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """The steps of gradient descent one by one: t, the weights (d, m), and XΘ (n, m)."""
    X, n = data.X, len(data.X)
    y = data.y.astype(np.float32)
    theta = data.theta.astype(np.float32)
    for t in range(steps + 1):
        with np.errstate(over="ignore", invalid="ignore"):  # descend checks that they are finite
            V = X @ theta
        yield t, theta, V
        if t == steps:
            return
        with np.errstate(over="ignore", invalid="ignore"):
            theta = theta - np.float32(lr / n) * (X.T @ derivative(data.network, "gradient", V, y))
            if project:
                theta *= np.float32(data.network.initial_norm) / np.linalg.norm(theta, axis=0)


def simulate_descent(
    network: Network,
    target: str | Target,
    delta: float,
    lr: float,
    steps: int,
    *,
    dimension: int,
    seeds: int | Sequence[int] = 8,
    record: Sequence[int] | None = None,
) -> dict[str, Measurement]:
    """Gradient descent on several draws of examples and weights: ``train``, ``test``, ``gram`` and ``overlap``.

    ``gram`` is ΘᵀΘ, shape (p, m, m), ``overlap`` the size \\|ΘᵀΘ_*\\|, shape (p, m, k), because on hard directions its
    sign is the draw's. Errors are standard errors over draws.
    """
    numbers = range(whole_number("seeds", seeds, 2)) if isinstance(seeds, int) else list(seeds)
    target, runs = as_target(target), []
    for number in numbers:
        data = draw_data(network, target, delta, dimension, seed=number)
        runs.append(descend(data, lr, steps, record=record))
    diverged = [run for run in runs if run.status is Status.REFUSED]
    if diverged:
        nothing = Measurement.refused(*diverged[0].reasons, error_kind="seeds")
        return dict.fromkeys(("train", "test", "gram", "overlap"), nothing)
    parts = {name: [getattr(run, name) for run in runs] for name in ("train", "test", "gram", "overlap")}
    parts["overlap"] = [abs(part) for part in parts["overlap"]]
    return {name: over_draws(values, name) for name, values in parts.items()}


@overload
def over_draws(values: Sequence[float], name: str = "") -> Measurement[float]: ...
@overload
def over_draws(values: Sequence[np.ndarray], name: str = "") -> Measurement[np.ndarray]: ...
@overload
def over_draws(values: ArrayLike, name: str = "") -> Measurement: ...
def over_draws(values: ArrayLike, name: str = "") -> Measurement:
    """The mean over the first axis, one draw each, with its standard error."""
    return mean_of(values, "seeds", name)


@dataclass(frozen=True, eq=False)
class Extremes:
    """The lowest eigenvalues of m∇²Risk, rising.

    Parameters
    ----------
    values: shape (c,).
    overlap2: shape (c,), the squared length of each eigenvector's part in the hard directions.
    weights2: shape (c,), the squared length of its part along the weights themselves.
    """

    values: np.ndarray
    overlap2: np.ndarray
    weights2: np.ndarray


def lowest_curvatures(data: Data, theta: np.ndarray, count: int = 3, *, highest: bool = False) -> Extremes:
    """Extreme eigenpairs of the Hessian m∇²Risk at weights (d, m) by Lanczos, from products with X alone.

    With decoupled data X does not contain the hard directions, and the overlaps are meaningless.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    (n, d), m = data.X.shape, data.theta.shape[1]
    V = data.X @ theta.astype(np.float32)
    H = m * derivative(data.network, "hessian", V, data.y.astype(np.float32))

    def product(vector: np.ndarray) -> np.ndarray:
        moved = data.X @ vector.reshape(d, m).astype(np.float32)
        return (data.X.T @ np.einsum("nij,nj->ni", H, moved) / np.float32(n)).ravel()

    operator = LinearOperator((d * m, d * m), matvec=product, dtype=np.float32)  # pyright: ignore[reportCallIssue]
    start = np.random.default_rng(0).standard_normal(d * m).astype(np.float32)
    vectors_kept = min(d * m - 1, max(LANCZOS, 2 * count + 1))
    which = "LA" if highest else "SA"
    values, vectors = eigsh(operator, k=count, which=which, v0=start, ncv=vectors_kept, tol=1e-5)  # pyright: ignore[reportArgumentType]
    order = np.argsort(values)
    units = vectors[:, order].T.reshape(count, d, m)
    hard = np.einsum("kr,ckm->crm", data.target.hard, units[:, : data.target.latents])
    along = np.einsum("dm,cdm->cm", theta / np.linalg.norm(theta, axis=0), units)
    return Extremes(values[order].astype(float), (hard**2).sum(axis=(1, 2)), (along**2).sum(axis=1))
