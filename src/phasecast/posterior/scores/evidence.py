"""How probable are the data under a model? Free energy by thermodynamic integration, WBIC, and BIC for contrast.

.. math:: F = -\\log \\int e^{-nL(w)} \\varphi(w)\\,dw = \\int_0^1 E_\\beta[nL]\\,d\\beta, \\qquad
          \\frac{dE_\\beta}{d\\beta} = -\\mathrm{Var}_\\beta[nL]

with E_β over the posterior at inverse temperature β, the prior at β = 0. WBIC is E_β[nL] at β = 1/log n
(Watanabe 2013); both are F = nL(w₀) + λ log n to leading order, where BIC has d/2 for λ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Measurement, Status
from phasecast.core.types import Array
from phasecast.posterior.scores.criteria import is_tree

if TYPE_CHECKING:
    import xarray as xr

POWER = 5  # of the grid of β: most of the integral is near the prior (Friel & Pettitt 2008)


@dataclass(frozen=True)
class EvidencePolicy(Policy):
    """Thresholds of :func:`free_energy` and :func:`wbic`."""

    fewest_effective: float = rule(100, "with fewer draws the error is itself uncertain by more than 1/√200 = 7%")
    largest_discretisation: float = rule(
        0.5, "nats, chosen: differences below one nat are 'not worth more than a bare mention' (Kass & Raftery 1995)"
    )


POLICY = EvidencePolicy()


def temperature_grid(points: int = 21) -> np.ndarray:
    """β = (k/K)⁵ from the prior, 0, to the posterior, 1.

    >>> temperature_grid(3)
    array([0.     , 0.03125, 1.     ])
    """
    return np.linspace(0, 1, whole_number("points", points, 2)) ** POWER


def wbic_beta(n: int) -> float:
    """1/log n, the inverse temperature of WBIC."""
    return 1 / math.log(whole_number("n", n, 3))


def wbic(
    losses: Array | xr.DataTree, n: int, beta: float | None = None, policy: EvidencePolicy = POLICY
) -> Measurement[float]:
    """WBIC = E_β[nL], in nats, from losses nL of shape (chain, draw) that were sampled at β = 1/log n.

    Or from what ``tempered`` returns, if 1/log n is among its β; ``beta`` is then not needed.

    >>> draws = np.random.default_rng(0).gamma(2.0, size=(4, 500))
    >>> print(wbic(draws, n=1000, beta=wbic_beta(1000)).status)
    ok
    """
    if is_tree(losses):
        betas, every = _tempered_losses(losses)
        nearest = int(np.argmin(abs(betas - wbic_beta(n))))
        rows, beta = every[nearest], float(betas[nearest])
    else:
        rows = losses
    if beta is None:
        raise BadInput("the β of the losses is not given", f"give beta, {wbic_beta(n):.6g} for n = {n}")
    if not math.isclose(beta, wbic_beta(n), rel_tol=1e-6):
        raise BadInput(f"the losses are at β = {beta:g}", f"sample at 1/log n = {wbic_beta(n):.6g}")
    traces = _traces(rows)
    value, error, effective = _mean_with_error(traces)
    reasons = _too_few(effective, policy)
    return Measurement(
        value,
        error,
        Status.REFUSED if reasons else Status.OK,
        {"effective_draws": effective},
        reasons=reasons,
        name="WBIC",
        policy=policy.plain(),
    )


def bic(least_loss: float, parameters: int, n: int) -> float:
    """nL(ŵ) + d/2 log n, valid for regular models only; ``least_loss`` is nL at its minimum.

    >>> round(bic(100.0, 2, 1000), 3)
    106.908
    """
    return float(least_loss) + whole_number("parameters", parameters, 0) / 2 * math.log(whole_number("n", n, 2))


def free_energy(
    betas: Sequence[float] | np.ndarray | xr.DataTree, losses: Array | None = None, policy: EvidencePolicy = POLICY
) -> Measurement[float]:
    """F by thermodynamic integration with its error, in nats.

    Parameters
    ----------
    betas: shape (beta,), increasing from 0 to 1; :func:`temperature_grid` is a good one. Or what ``tempered`` returns
        for all of them but 0.
    losses: shape (beta, chain, draw): nL at draws from each tempered posterior. Beside a tree, that of β = 0 alone,
        shape (chain, draw): ``prior_losses(model, data)``.

    Between two β the integral is (E₀ + E₁)Δ/2 + (Var₁ − Var₀)Δ²/12, which uses that the slope of E is −Var (Friel,
    Hurn & Wyse 2014). The error combines that of the means with the change on a grid half as fine, divided by 15, the
    factor by which a rule of fourth order improves.
    """
    if losses is None:
        raise BadInput("there are no losses at β = 0", "give losses=prior_losses(model, data)")
    if is_tree(betas):
        above, every = _tempered_losses(betas)
        beta, rows = np.r_[0.0, above], [np.asarray(losses), *every]
    else:
        beta, rows = np.asarray(betas, dtype=float), losses
    if beta.ndim != 1 or beta.size < 3 or beta[0] != 0 or beta[-1] != 1 or not (np.diff(beta) > 0).all():
        raise BadInput("betas must increase from 0 to 1 with at least three values", "use temperature_grid()")
    chains = [_traces(some) for some in rows]
    if len(chains) != len(beta):
        raise BadInput(f"{len(chains)} rows of losses for {len(beta)} values of β", "give one row per β")
    mean, error, effective = (np.array(part) for part in zip(*map(_mean_with_error, chains), strict=True))
    variance = np.array([traces.var() for traces in chains])
    fine = _corrected_trapezoid(beta, mean, variance)
    coarse = _corrected_trapezoid(*(part[_every_second(len(beta))] for part in (beta, mean, variance)))
    discretisation = abs(fine - coarse) / 15
    step = np.diff(beta)
    weight = (np.append(step, 0) + np.append(0, step)) / 2
    sampling = float(np.sqrt(np.sum((weight * error) ** 2)))
    fewest = float(effective.min())
    reasons = _too_few(fewest, policy)
    if discretisation > policy.largest_discretisation:
        reasons.append(f"the grid of β is too coarse, by about {discretisation:.2g} nats: use more temperatures")
    return Measurement(
        fine,
        math.hypot(sampling, discretisation),
        Status.REFUSED if reasons else Status.OK,
        {
            "sampling_error": sampling,
            "discretisation": discretisation,
            "fewest_effective_draws": float(effective.min()),
        },
        reasons=reasons,
        name="free energy",
        policy=policy.plain(),
    )


def _tempered_losses(tree: xr.DataTree) -> tuple[np.ndarray, np.ndarray]:
    """The inverse temperatures and nL (beta, chain, draw) that ``tempered`` returned for one data set."""
    stats = tree["sample_stats"].to_dataset() if "sample_stats" in tree.children else {}
    if "nL" not in stats or not {"beta", "chain", "draw"} <= set(stats["nL"].dims):
        problem = "there is no nL with dimensions beta, chain and draw in sample_stats"
        raise BadInput(problem, "give what tempered returned")
    losses = stats["nL"]
    if losses.sizes.get("dataset", 1) > 1:
        raise BadInput(f"there are {losses.sizes['dataset']} data sets", "choose one: tree.isel(dataset=0)")
    losses = losses.squeeze("dataset") if "dataset" in losses.dims else losses
    return losses["beta"].values, losses.transpose("beta", "chain", "draw").values


def _corrected_trapezoid(beta: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> float:
    step = np.diff(beta)
    return float(np.sum(step * (mean[1:] + mean[:-1]) / 2 + step**2 * (variance[1:] - variance[:-1]) / 12))


def _every_second(count: int) -> np.ndarray:
    """Indices 0, 2, … and the last one."""
    return np.unique(np.append(np.arange(0, count, 2), count - 1))


def _traces(losses: Array) -> np.ndarray:
    traces = np.atleast_2d(np.asarray(losses, dtype=float))
    if traces.ndim != 2 or traces.shape[1] < 4:
        raise BadInput(f"the losses have shape {traces.shape}", "give nL of shape (chain, draw), at least four draws")
    if not np.isfinite(traces).all():
        raise BadInput("the losses are not all finite", "remove draws at which the model fails")
    return traces


def _mean_with_error(traces: np.ndarray) -> tuple[float, float, float]:
    """Mean, its Monte Carlo standard error, and the effective number of draws."""
    from arviz_stats.base.array import BaseArray

    spread = float(traces.std())
    if spread == 0:
        return float(traces.mean()), 0.0, float(traces.size)
    effective = float(np.asarray(BaseArray().ess(traces, method="mean")))
    return float(traces.mean()), spread / math.sqrt(effective), effective


def _too_few(effective: float, policy: EvidencePolicy) -> list[str]:
    if effective >= policy.fewest_effective:
        return []
    return [f"only {effective:.0f} effective draws at some β: use more, {policy.fewest_effective:g} are needed at each"]
