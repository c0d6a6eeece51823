"""Which of two basins has more evidence? −log of the evidence of a basin, by thermodynamic integration."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from phasecast.coefficients.llc.level import Level, LevelPhase, advance, start
from phasecast.coefficients.llc.options import LLCKeywords, LLCOptions
from phasecast.coefficients.llc.plan import Plan
from phasecast.coefficients.llc.policy import POLICY
from phasecast.coefficients.llc.problems import as_problem, on_backend
from phasecast.core.errors import BadInput
from phasecast.core.problem import Problem
from phasecast.core.results import Measurement, Status
from phasecast.core.types import PyTree
from phasecast.sampling import KERNELS, Tuning
from phasecast.sampling.backends.protocol import Backend, stream

PER_DECADE = 6  # temperatures per decade; chosen, and the error of the quadrature is estimated and included
WEAKEST = 0.01  # nβ E[L − L*] per parameter where the integration begins; below, the integrand is linear in nβ
PRIOR_DRAWS = 32  # draws from the localisation alone: they only choose where the integration begins
MOST_GRADIENTS = 1e7  # per temperature; chosen, a safeguard


def local_free_energy(
    loss: Callable[..., Any] | Problem,
    params: PyTree = None,
    data: PyTree = None,
    **options: Unpack[LLCKeywords],
) -> Measurement:
    """−log of the evidence of a basin with the localisation γ as its prior, by thermodynamic integration.

    .. math:: F = n\\beta L(w^*) + \\int_0^{n\\beta} E_t[L - L^*]\\,dt
              = n\\beta L(w^*) + \\int \\hat\\lambda(t)\\,d\\log t,

    with E_t the mean under :math:`\\exp(-t(L - L^*) - \\gamma/2|w-w^*|^2)`. ``gamma`` must be given, nβ defaults to n,
    and the chains are always HMC; the other options are those of :func:`phasecast.llc`. Two basins with the same n and
    γ are compared by their F: λ alone does not locate where one overtakes the other (Cullen et al. 2026, section 2.1).

    >>> basin = local_free_energy(lambda w: (w**2).sum() / 2, np.zeros(3), nbeta=100.0, gamma=1.0)
    >>> bool(abs(basin.value - 1.5 * np.log(101)) < 4 * basin.error)
    True
    """
    for name in ("sampler", "max_grads", "seconds", "radius"):
        if name in options:
            raise BadInput(
                f"local_free_energy has no option {name}", "leave it out: the chains are HMC at every temperature"
            )
    settings = LLCOptions(**options)
    sampled = on_backend(as_problem(loss, params, data, settings.n), settings)
    top = settings.nbeta if settings.nbeta is not None else sampled.n
    if top is None:
        raise BadInput("a population loss has no n", "give nbeta")
    if settings.gamma is None or settings.gamma == "limit":
        raise BadInput("the evidence of a basin needs a prior", "give gamma as a number")
    nbetas, levels = _temperatures(sampled.backend, settings, settings.gamma, float(top))
    values, errors = np.array([level.value for level in levels]), np.array([level.error for level in levels])
    integral, weights, quadrature = _integrate(np.log(nbetas), values)
    # below the lowest t the mean loss is still that of the lowest level: ∫₀ E dt = λ̂(low)
    total = float(top) * sampled.backend.loss_at_centre + integral + values[0]
    weights[0] += 1
    beginning = 0.5 * values[0] ** 2 / sampled.backend.size
    error = math.hypot(float(np.sqrt(np.sum((weights * errors) ** 2))), quadrature + beginning)
    reasons = [
        f"chains disagree at nβ = {level.tuning.nbeta:.3g} (R-hat {level.rhat:.3f}): use a larger γ"
        for level in levels
        if level.phase is not LevelPhase.DONE or level.rhat > POLICY.largest_rhat
    ]
    return Measurement(
        total,
        error,
        Status.REFUSED if reasons else Status.OK,
        {"temperatures": len(nbetas), "gradients": sum(level.gradients for level in levels), "integral": integral},
        error_kind="mcse",
        reasons=reasons[:3],
        name="local free energy",
        policy=POLICY.plain(),
    )


def _temperatures(backend: Backend, options: LLCOptions, gamma: float, top: float) -> tuple[np.ndarray, list[Level]]:
    """Chains at nβ from where the localisation dominates up to ``top``, each level from where the last one ended."""
    key, chains = backend.key(options.seed), options.chains or POLICY.adjusted_chains
    noise = np.asarray(backend.normal(stream(backend, key, "prior"), max(chains, PRIOR_DRAWS)))
    free = float(np.mean(backend.evaluate(noise / math.sqrt(gamma))[0]))  # E₀[L − L*]
    if not math.isfinite(free):
        raise BadInput("the loss is not finite where γ alone puts the chains", "use a larger gamma")
    low = min(WEAKEST * max(1, backend.size) / max(free, 1e-300), top / 10)
    nbetas = np.geomspace(low, top, max(5, math.ceil(PER_DECADE * math.log10(top / low)) + 1))
    plan = Plan(top, gamma, chains, options.target, MOST_GRADIENTS, KERNELS["hmc"](), POLICY)
    levels: list[Level] = []
    offsets = noise[:chains] / math.sqrt(gamma)
    for number, nbeta in enumerate(nbetas):
        own_key = stream(backend, key, "temperature", number)
        tuning = Tuning(1.0, 1.0, 1.0, float(nbeta), gamma)
        level = start(backend, plan, backend.array(offsets), tuning, own_key)
        while level.phase.active:
            advance(backend, plan, level, own_key, plan.target, plan.budget)
        offsets = np.asarray(level.state["position"])
        level.forget_chains()
        levels.append(level)
    return nbetas, levels


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
