"""λ̂ at many settings and along a training run, and the free energy of a basin."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasecast.coefficients.llc.estimate import as_problem, chosen_sampler, decay_of, engine_for, estimate, llc
from phasecast.coefficients.llc.level import ACTIVE, GOOD_RHAT, Rung, advance, start
from phasecast.coefficients.llc.result import COLOUR, LLC
from phasecast.core.errors import BadInput
from phasecast.core.problem import Problem
from phasecast.core.results import Measurement, Status
from phasecast.sampling import KERNELS, Fixed, Kernel, Tuning
from phasecast.sampling.backends.jax import JaxEngine

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
PER_DECADE = 6  # temperatures of a thermodynamic integration
WEAKEST = 0.01  # nβ E[L − L*] under the pull alone where the integration begins


@dataclass(frozen=True)
class LLCSweep:
    """λ̂ on a grid: ``results[i][j]`` at ``nbetas[i]`` and ``gammas[j]``."""

    nbetas: tuple[float, ...]
    gammas: tuple[float, ...]
    results: tuple[tuple[LLC, ...], ...]

    def plot(self) -> Any:
        """λ̂ over γ, a line for each nβ; hollow points are not ok."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 3.8), layout="constrained")
        axes = figure.add_subplot()
        for number, (nbeta, row) in enumerate(zip(self.nbetas, self.results, strict=True)):
            colour = PALETTE[number % len(PALETTE)]
            _points(axes, self.gammas, row, colour, f"nβ = {nbeta:.3g}")
        axes.set_xscale("log")
        axes.set_xlabel("pull γ towards w*")
        axes.set_ylabel("nβ E[L − L*]")
        axes.legend(frameon=False, fontsize=8.5)
        axes.spines[["top", "right"]].set_visible(False)
        return figure

    def intercept(self, gamma: float | None = None) -> Measurement:
        """λ̂ at nβ → ∞ by the regression of 000, appendix B: the line of λ̂(γ) over 1/log nβ, at zero.

        Right where λ̂ approaches λ like 1/log nβ, as x²y² with its multiplicity of two does; where the multiplicity is
        one the approach is a power of nβ, and the line overshoots (x²y⁴). So it is for those who ask, with a warning.
        γ is the smallest swept where it is not given.
        """
        gamma = min(self.gammas) if gamma is None else gamma
        if gamma not in self.gammas or len(set(self.nbetas)) < 3:
            swept = ", ".join(f"{g:g}" for g in self.gammas)
            raise BadInput("there is no line to draw", f"sweep over at least three nβ, and ask for γ of {swept}")
        column = [row[self.gammas.index(gamma)] for row in self.results]
        values, errors = np.array([(float(np.asarray(one.estimate)), float(one.error)) for one in column]).T
        lines = np.stack([np.ones(len(values)), 1 / np.log(self.nbetas)], axis=1)
        weights = lines / errors[:, None] ** 2
        covariance = np.linalg.inv(weights.T @ lines)
        line = covariance @ weights.T @ values
        misfit = float(np.sum(((values - lines @ line) / errors) ** 2) / (len(values) - 2))
        error = math.sqrt(covariance[0, 0] * max(1.0, misfit))
        refused = [f"nβ = {b:.3g}: {r}" for b, one in zip(self.nbetas, column, strict=True) for r in one.reasons
                   if one.status is Status.REFUSED]  # fmt: skip
        words = "an intercept in 1/log nβ is right for multiplicity two, and overshoots for one: compare `results`"
        status = Status.REFUSED if refused else Status.WARNING
        name = f"λ̂ at 1/log nβ → 0, γ = {gamma:g}"
        return Measurement(line[0], error, status, {"misfit": misfit}, reasons=[*refused, words], name=name)


def llc_sweep(
    loss: Callable[..., Any] | Problem,
    params: Any = None,
    data: Any = None,
    *,
    nbetas: Sequence[float],
    gammas: Sequence[float],
    **options: Any,
) -> LLCSweep:
    """λ̂ at every pair of nβ and γ; the other options are those of :func:`llc`."""
    problem = as_problem(loss, params, data, options.pop("n", None))
    if not nbetas or not gammas:
        raise BadInput("there is nothing to sweep over", "give at least one nβ and one γ")
    rows = tuple(tuple(llc(problem, nbeta=b, gamma=g, **options) for g in gammas) for b in nbetas)
    return LLCSweep(tuple(nbetas), tuple(gammas), rows)


@dataclass(frozen=True)
class LLCTrajectory:
    """λ̂ along a training run: ``results[i]`` at ``steps[i]``."""

    steps: tuple[float, ...]
    results: tuple[LLC, ...]

    def plot(self) -> Any:
        """λ̂ over training; hollow points are not ok, as early ones often are: they are not minima yet."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.add_subplot()
        _points(axes, self.steps, self.results, COLOUR, "")
        axes.set_xlabel("training step")
        axes.set_ylabel("λ̂")
        axes.spines[["top", "right"]].set_visible(False)
        return figure


def llc_trajectory(
    checkpoints: Mapping[float, Any],
    loss: Callable[..., Any],
    data: Any = None,
    *,
    n: int | None = None,
    nbeta: float | None = None,
    gamma: float | None = None,
    prior: float | None = None,
    only: str | None = None,
    sampler: str | Kernel | Fixed = "auto",
    chains: int = 8,
    target: float = 0.02,
    max_grads: float | None = None,
    seed: int = 0,
) -> LLCTrajectory:
    """λ̂ at each checkpoint, a mapping from training step to parameters; the options are those of :func:`llc`.

    Early checkpoints are not minima, so refusals there are normal: each result says what it is. All checkpoints share
    one compilation.
    """
    if not checkpoints:
        raise BadInput("there are no checkpoints", "give {step: params, …}")
    problem = as_problem(loss, next(iter(checkpoints.values())), data, n)
    chosen = chosen_sampler(sampler)
    engine = engine_for(problem, chosen, prior, only)
    results = tuple(
        estimate(engine.moved_to(params), problem.n, nbeta, gamma, chosen, chains, target, max_grads, seed)
        for params in checkpoints.values()
    )
    return LLCTrajectory(tuple(checkpoints), results)


def local_free_energy(
    loss: Callable[..., Any] | Problem,
    params: Any = None,
    data: Any = None,
    *,
    gamma: float,
    n: int | None = None,
    nbeta: float | None = None,
    prior: float | None = None,
    chains: int = 8,
    target: float = 0.02,
    seed: int = 0,
) -> Measurement:
    """−log of the evidence of a basin under the pull γ as its prior, by thermodynamic integration.

    .. math:: F = n\\beta L(w^*) + \\int_0^{n\\beta} E_t[L - L^*]\\,dt
              = n\\beta L(w^*) + \\int \\hat\\lambda(t)\\,d\\log t,

    with E_t the mean under :math:`\\exp(-t(L - L^*) - \\gamma/2|w-w^*|^2)`. nβ is n where it is not given. Two basins
    with the same n and γ are compared by their F: λ alone does not locate where one overtakes the other (Cullen et al.
    2026, section 2.1).

    >>> found = local_free_energy(lambda w: (w**2).sum() / 2, np.zeros(3), nbeta=100.0, gamma=1.0)
    >>> bool(abs(found.value - 1.5 * np.log(101)) < 4 * found.error)
    True
    """
    problem = as_problem(loss, params, data, n)
    top = nbeta if nbeta is not None else problem.n
    if top is None:
        raise BadInput("a population loss has no n", "give nbeta")
    if not (gamma > 0 and top > 0):
        raise BadInput(f"gamma = {gamma:g}, nbeta = {top:g}", "give positive numbers")
    engine = JaxEngine(problem.loss, problem.params, problem.data, decay=decay_of(prior))
    kernel, key = KERNELS["hmc"](), engine.key(seed)
    noise = np.asarray(engine.normal(engine.fold(key, 10**6), max(chains, 32)))
    free = float(np.mean(engine.evaluate(noise / math.sqrt(gamma))[0]))  # E₀[L − L*], from the pull alone
    if not math.isfinite(free):
        raise BadInput("the loss is not finite where the pull alone puts the chains", "use a larger gamma")
    low = min(WEAKEST * max(1, engine.size) / max(free, 1e-300), top / 10)
    nbetas = np.geomspace(low, top, max(5, math.ceil(PER_DECADE * math.log10(top / low)) + 1))
    rungs: list[Rung] = []
    offsets = noise[:chains] / math.sqrt(gamma)
    for number, t in enumerate(nbetas):
        own_key = engine.fold(key, number)
        rung = start(engine, kernel, engine.array(offsets), Tuning(1.0, 1.0, 1.0, float(t), gamma), own_key)
        while rung.phase in ACTIVE:
            advance(engine, kernel, rung, own_key, target, 1e7)
        offsets = np.asarray(rung.state["position"])
        rung.forget_chains()
        rungs.append(rung)
    values, errors = np.array([r.value for r in rungs]), np.array([r.error for r in rungs])
    integral, weights, quadrature = _integrate(np.log(nbetas), values)
    # below the lowest t the mean loss is still that of the lowest rung: ∫₀ E dt = λ̂(low)
    total = float(top) * engine.loss_at_centre + integral + values[0]
    weights[0] += 1
    error = math.hypot(float(np.sqrt(np.sum((weights * errors) ** 2))), quadrature + 0.5 * values[0] ** 2 / engine.size)
    reasons = [
        f"chains disagree at nβ = {r.tuning.nbeta:.3g} (R-hat {r.rhat:.3f}): use a larger γ"
        for r in rungs
        if r.phase != "done" or r.rhat > GOOD_RHAT
    ]
    return Measurement(
        total,
        error,
        Status.REFUSED if reasons else Status.OK,
        {"temperatures": len(nbetas), "gradients": sum(r.gradients for r in rungs), "integral": integral},
        error_kind="mcse",
        reasons=reasons[:3],
        name="local free energy",
    )


def _integrate(x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray, float]:
    """∫ y dx over points that are evenly spaced, the weights of the points, and how far a coarser rule is away."""
    step = x[1] - x[0]
    weights = np.full(len(x), step)
    weights[[0, -1]] = step / 2
    # end corrections by the derivatives there (Euler-Maclaurin), so that the rule is of fourth order
    for end, sign in ((0, 1), (-1, -1)):
        near, far = (1, 2) if end == 0 else (-2, -3)
        for place, share in ((end, -3 / 2), (near, 2.0), (far, -1 / 2)):
            weights[place] += share * step / 12 * (sign if end == 0 else -sign)
    plain = step * (y.sum() - (y[0] + y[-1]) / 2)
    return float(weights @ y), weights, abs(float(weights @ y) - plain) / 4


def _points(axes: Any, where: Sequence[float], results: Sequence[LLC], colour: str, label: str) -> None:
    values = [float(np.asarray(result.estimate)) for result in results]
    axes.plot(where, values, "-", lw=0.8, color=colour, alpha=0.6)
    for place, (at, value, result) in enumerate(zip(where, values, results, strict=True)):
        fill = colour if result.status is Status.OK else "none"
        error = result.error if np.isfinite(result.error) else 0.0
        axes.errorbar(
            at, value, yerr=error, fmt="o", ms=4.5, color=colour, mfc=fill, capsize=2, label=None if place else label
        )
