"""How singular is it? The learning coefficient λ (RLCT) of a model, a truth and a prior, from tempered posteriors.

.. math:: E_\\beta[nL] = nL(w_0) + \\frac\\lambda\\beta + O_p(\\beta^{-1/2}), \\qquad
          \\frac{dE_\\beta[nL]}{d(1/\\beta)} = \\beta^2\\, \\mathrm{Var}_\\beta[nL] \\to \\lambda

near β = 1/log n (Watanabe 2013, Theorem 4; "Deep learning is singular, and that's good", eq. 18 and Algorithm 1). The
slope of E over 1/β and β²Var (Imai 2019) are the same number, once by differences and once by the fluctuations at each
β; the second is less noisy. A sampler can pass every test of convergence and still be in another phase than the truth,
so the result also describes what the model does where the chains are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from phasecast.core.errors import BadInput, unknown, whole_number
from phasecast.core.results import Status
from phasecast.core.statistics import standard_error
from phasecast.core.types import PyTree
from phasecast.posterior.limit import LocalShape, Trend, distance_to_limit, limit_warnings, local_shape, trend_of
from phasecast.posterior.model import Model
from phasecast.posterior.phase import phase_of, phase_warnings
from phasecast.posterior.rlct_policy import POLICY, RLCTPolicy
from phasecast.posterior.rlct_result import RLCT
from phasecast.posterior.tempered import Sampler, SamplingPlan, as_datasets, check_betas, tempered_until
from phasecast.progress import report_step, working
from phasecast.sampling.traces import ess, mcse, rhat

if TYPE_CHECKING:
    import xarray as xr

METHODS = ("variance", "slope")
GRID = 5  # inverse temperatures around 1/log n, as in the paper
OUTER = 2  # further inverse temperatures on each side, for the curve λ(β)
REACH = math.sqrt(10)  # the curve extends by this factor up and down from 1/log n: over a decade
BATCHES = 16  # per chain, for the covariance of means at different β: 64 batches of 4 chains for a 5 × 5 matrix
FEWEST = 10 * BATCHES  # draws, from which on batches are long enough to know an error by them


def rlct(  # wide signature: documented API, the options of tempered and the method
    model: Model,
    data: PyTree,
    betas: Sequence[float] | np.ndarray | str = "auto",
    *,
    method: Literal["variance", "slope"] = "variance",
    sampler: Sampler = "auto",
    chains: int = 4,
    draws: int = 2000,
    warmup: int = 1000,
    swap: bool = True,
    seed: int = 0,
    target: float | None = None,
    seconds: float | None = None,
    progress: bool = True,
) -> RLCT:
    """λ̂ from posteriors at several inverse temperatures, with standard error, or refused with reasons.

    Parameters
    ----------
    data: one data set, or a list of data sets of one size; then λ̂ is their mean, with the error from their spread.
    betas: ``"auto"`` takes five around 1/log n, :math:`\\beta_0 (1 \\pm 1/\\sqrt{2\\log n})`, and some beyond them for
        the curve λ(β) over a decade; or your own, all of which enter λ̂.
    method: ``"variance"``, the mean of β²Var over the grid; or ``"slope"``, generalised least squares of E on 1/β.
    sampler, chains, draws, warmup, swap: as for :func:`phasecast.posterior.tempered`.
    target: the standard error of the chains to reach, relative to λ̂; then ``draws`` is the most there will be. With
        several data sets it is that of each; where NUTS samples one after another, the first says how many draws.
    seconds: the time after which no more draws are made, and judged are those that there are.
    progress: whether to show progress on stderr after two seconds. Ctrl-C returns what there is if a target or a time
        is given.

    >>> from phasecast.posterior.zoo.linear import linear_data, linear_model
    >>> estimate = rlct(linear_model(2), linear_data([[[1.0, -1.0]]], 500, seed=1), draws=400, warmup=20)
    >>> str(estimate.status), abs(float(estimate) - 1) < 4 * estimate.error
    ('ok', True)
    """
    begun = time.monotonic()
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    whole_number("chains", chains, 2)
    whole_number("draws", draws, 2 * BATCHES)
    sets = as_datasets(data)
    n = model.rows(sets[0])
    grid, inside = auto_betas(n) if isinstance(betas, str) and betas == "auto" else _own(betas)
    if target is not None and not 0 < target < math.inf:
        raise BadInput(f"target is {target}", "use a relative standard error above 0, such as 0.03")
    if seconds is not None and not seconds > 0:
        raise BadInput(f"seconds is {seconds}", "use a positive time limit")

    def enough(losses: np.ndarray) -> bool:
        late = seconds is not None and time.monotonic() - begun > seconds
        return losses.shape[-1] >= FEWEST and (late or _reached(losses, grid, inside, method, target))

    stops = None if target is None and seconds is None else enough
    with working(f"λ̂ of {model.name}", progress, unit="steps") as shown:
        tree = tempered_until(
            model, sets, grid, SamplingPlan(sampler, chains, swap, seed), (draws, warmup, _thin(draws)),
            enough=stops, watch=shown.update,
        )  # fmt: skip
        report_step("judging the estimate")
    shape = local_shape(model, sets, tree, inside)
    return replace(judge_rlct(model, sets, tree, inside, method, time.monotonic() - begun, shape=shape), draws=tree)


def _reached(losses: np.ndarray, betas: np.ndarray, inside: np.ndarray, method: str, target: float | None) -> bool:
    """Whether the chains of every data set know λ̂ well enough, and agree."""
    if target is None:
        return False
    for one in losses:
        known = estimates(one, betas, inside)
        pair = (known.variance, known.variance_error) if method == "variance" else (known.slope, known.slope_error)
        if not pair[1] <= target * abs(pair[0]):
            return False
        if max(float(rhat(one[k].T)) for k in range(betas.size)) > POLICY.largest_rhat:
            return False
        if min(float(ess(one[k].T)) for k in range(betas.size)) < POLICY.fewest_effective:
            return False
    return True


def auto_betas(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The paper's five β around 1/log n with some beyond, over a decade, and which of them are the five.

    >>> grid, inside = auto_betas(1000)
    >>> grid[inside].round(4).tolist(), float((grid[-1] / grid[0]).round(6))
    ([0.1058, 0.1253, 0.1448, 0.1642, 0.1837], 10.0)
    """
    if n < 8:
        raise BadInput(f"n = {n} is too small for β around 1/log n", "give betas")
    middle, five = 1 / math.log(n), around(n)
    low = np.geomspace(min(middle / REACH, five[0] / 1.2), five[0], OUTER + 1)[:-1]
    high = np.geomspace(five[-1], max(low[0] * REACH**2, five[-1] * 1.2), OUTER + 1)[1:]
    inside = np.r_[np.zeros(OUTER, bool), np.ones(GRID, bool), np.zeros(OUTER, bool)]
    return np.concatenate([low, five, high]), inside


def around(n: int) -> np.ndarray:
    """Five inverse temperatures :math:`\\beta_0(1 \\pm 1/\\sqrt{2\\log n})` around β₀ = 1/log n."""
    middle, width = 1 / math.log(n), 1 / math.sqrt(2 * math.log(n))
    return np.linspace(middle * (1 - width), middle * (1 + width), GRID)


def _own(betas: Sequence[float] | np.ndarray | str) -> tuple[np.ndarray, np.ndarray]:
    grid = check_betas(betas)
    if grid.size < 2:
        raise BadInput("λ̂ needs at least two inverse temperatures", "give more, or betas='auto'")
    return grid, np.ones(grid.size, bool)


def _thin(draws: int) -> int:
    """Steps between stored parameters, such that about a hundred are stored."""
    return next(step for step in range(max(1, draws // 100), 0, -1) if draws % step == 0)


def judge_rlct(
    model: Model,
    sets: list[PyTree],
    tree: xr.DataTree,
    inside: np.ndarray,
    method: str = "variance",
    seconds: float = 0.0,
    policy: RLCTPolicy = POLICY,
    shape: LocalShape | None = None,
) -> RLCT:
    """λ̂ from a tree of :func:`phasecast.posterior.tempered`, judged by a policy.

    ``shape`` is what :func:`phasecast.posterior.limit.local_shape` finds around the best point. The error is that of
    the chains or data sets, and, unless λ̂ is refused, the distance to the limit and what other data would change.
    """
    stats = tree["sample_stats"].to_dataset()
    betas, losses = stats["beta"].values, stats["nL"].values
    each = [estimates(one, betas, inside) for one in losses]
    variance, variance_error = _over_sets([one.variance for one in each], [one.variance_error for one in each])
    slope, slope_error = _over_sets([one.slope for one in each], [one.slope_error for one in each])
    curves = np.array([one.curve for one in each])
    curve = np.column_stack(
        [betas]
        + [column for at in (0, 2) for column in _columns(curves[:, :, at], curves[:, :, at + 1], energies=at == 2)]
    )
    value, error = (variance, variance_error) if method == "variance" else (slope, slope_error)
    series = [one[k].T for one in losses for k in range(betas.size)]
    worst_rhat = float(np.max([rhat(one) for one in series]))
    least_ess = float(np.min([ess(one) for one in series]))
    apart, limit = _starts(losses, stats["start"].values, policy.false_alarms)
    size = model.size()
    swaps = stats["swapped"].values.mean(axis=(0, 2))[:-1]
    phase = phase_of(model, sets, tree, inside)
    checks = Checks(worst_rhat, least_ess, float(stats["divergent"].values.mean()), apart, limit)
    refused = _refusals(checks, curve[inside], value, error, size, policy)
    warned = phase_warnings(phase, value, betas[inside], model.rows(sets[0]), policy)
    trend = Trend(*_over_sets([one.trend.slope for one in each], [one.trend.error for one in each]))
    limit = distance_to_limit(value, error, trend, shape, policy)
    other_data = 0.0
    if not refused:
        if len(sets) == 1 and not limit.regular:
            other_data = policy.fluctuation * math.sqrt(value * float(betas[inside].mean()) / 2)
        warned += limit_warnings(value, limit, trend, shape, size, other_data, policy)
        error = math.hypot(error, limit.distance, other_data) if limit.distance or other_data else error
    return RLCT(
        value,
        error,
        Status.REFUSED if refused else Status.WARNING if warned else Status.OK,
        error_kind="datasets" if len(sets) > 1 or other_data else "mcse",
        reasons=refused + warned,
        name=f"λ̂ of {model.name}",
        policy=policy.plain(),
        variance=variance,
        variance_error=variance_error,
        slope=slope,
        slope_error=slope_error,
        curve=curve,
        in_grid=inside,
        of_datasets=np.array([one.variance if method == "variance" else one.slope for one in each]),
        n=model.rows(sets[0]),
        size=size,
        excess=phase.excess,
        live_units=phase.live_units,
        predictive_r2=phase.predictive_r2,
        rhat=checks.rhat,
        ess=checks.ess,
        divergences=checks.divergent,
        swapped=float(swaps.min()) if swaps.size else math.nan,
        starts_apart=apart,
        trend=trend.slope,
        trend_error=trend.error,
        distance=limit.distance,
        other_data=other_data,
        identified=shape.identified if shape else -1,
        seen=shape.seen if shape else np.empty(0),
        gaussian=shape.gaussian if shape else math.nan,
        sampler=stats.attrs["sampler"],
        seconds=seconds,
    )


class Estimates(NamedTuple):
    """λ̂ of one data set in two ways; ``curve`` has one row (β²Var, error, E, error) per β."""

    variance: float
    variance_error: float
    slope: float
    slope_error: float
    curve: np.ndarray
    trend: Trend


def estimates(losses: np.ndarray, betas: np.ndarray, inside: np.ndarray) -> Estimates:
    """λ̂ from traces of nL (beta, chain, draw) of one data set, over the β of the grid ``inside``."""
    means = losses.mean(axis=(1, 2))
    squares = betas[:, None, None] ** 2 * (losses - means[:, None, None]) ** 2
    pooled = squares[inside].mean(axis=0)  # over β at one step: walkers that exchange parameters are not independent
    curve = np.array([(s.mean(), mcse(s.T), e, mcse(x.T)) for s, e, x in zip(squares, means, losses, strict=True)])
    slope, slope_error = gls_slope(1 / betas[inside], means[inside], covariance_of_means(losses[inside]))
    return Estimates(float(pooled.mean()), mcse(pooled.T), slope, slope_error, curve, trend_of(squares, betas))


def covariance_of_means(losses: np.ndarray) -> np.ndarray:
    """The covariance of the means over chains and draws at different β, from long batches of (beta, chain, draw)."""
    count, chains, draws = losses.shape
    length = draws // BATCHES
    batches = losses[:, :, draws - length * BATCHES :].reshape(count, chains * BATCHES, length).mean(axis=2)
    return np.cov(batches) / (chains * BATCHES)


def gls_slope(x: np.ndarray, y: np.ndarray, covariance: np.ndarray) -> tuple[float, float]:
    """The slope of a line through y(x) by generalised least squares, and its standard error.

    >>> gls_slope(np.array([1.0, 2, 3]), np.array([1.0, 3, 5]), np.diag([1.0, 4, 1]))
    (2.0, 0.707106...)
    """
    design = np.column_stack([np.ones_like(x), x])
    weighted = np.linalg.solve(covariance, design)
    information = np.linalg.inv(design.T @ weighted)
    slope = float((information @ (weighted.T @ y))[1])
    return slope, float(np.sqrt(information[1, 1]))


def _over_sets(values: list[float], errors: list[float]) -> tuple[float, float]:
    """The mean over data sets, and its error: from their spread, but not below that of the chains."""
    alone = math.sqrt(float(np.sum(np.square(errors)))) / len(values)
    if len(values) == 1:
        return float(values[0]), alone
    return float(np.mean(values)), max(alone, float(standard_error(values)))


def _columns(values: np.ndarray, errors: np.ndarray, *, energies: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean and error over data sets at each β; the error of E[nL] is of the chains, since data sets differ in E[nL]."""
    if energies:
        return values.mean(axis=0), np.sqrt(np.sum(errors**2, axis=0)) / len(values)
    pairs = [_over_sets(list(v), list(e)) for v, e in zip(values.T, errors.T, strict=True)]
    return np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])


def _starts(losses: np.ndarray, starts: np.ndarray, false_alarms: float) -> tuple[float, float]:
    """The largest difference of E[nL] between chains from the prior and from the truth, and its limit, in errors."""
    from scipy.special import ndtri

    distances = []
    for one in losses.reshape(-1, *losses.shape[2:]):
        groups = [one[starts == start] for start in ("prior", "truth")]
        error = math.hypot(*(mcse(group.T) for group in groups))
        distances.append(abs(groups[0].mean() - groups[1].mean()) / error if error else 0.0)
    return float(np.max(distances)), -float(ndtri(false_alarms / 2 / len(distances)))


class Checks(NamedTuple):
    """The worst diagnostics over all β and data sets; ``apart`` may be up to ``limit`` errors."""

    rhat: float
    ess: float
    divergent: float
    apart: float
    limit: float


def _refusals(checks: Checks, grid: np.ndarray, value: float, error: float, size: int, policy: RLCTPolicy) -> list[str]:
    """Reasons to refuse λ̂, each with what to do; ``grid`` has rows (β, β²Var, error, …)."""
    refused = []
    if not (math.isfinite(value) and math.isfinite(error) and value > 0):
        refused.append(f"λ̂ is {value:.3g} ± {error:.2g}: the chains are lost; check the model at draws from its prior")
        return refused
    if checks.rhat > policy.largest_rhat:
        refused.append(f"chains disagree (R-hat {checks.rhat:.3f}): use more draws and a longer warm-up")
    if checks.ess < policy.fewest_effective:
        refused.append(f"only {checks.ess:.0f} effective draws at some β: use more draws")
    if checks.divergent > policy.most_divergent:
        refused.append(
            f"{checks.divergent:.2%} of the steps diverge: use a longer warm-up, smoother parameters, or a Gibbs update"
        )
    if checks.apart > checks.limit:
        refused.append(
            f"chains from the prior and from the truth disagree by {checks.apart:.1f} standard errors: there is more "
            "than one phase; use a longer warm-up, or more β for the exchanges"
        )
    low, high = grid[np.argmin(grid[:, 1])], grid[np.argmax(grid[:, 1])]
    varied = high[1] - low[1] - policy.tolerance * math.hypot(low[2], high[2])
    if varied > policy.most_varied * value:
        refused.append(
            f"β²Var goes from {low[1]:.3g} to {high[1]:.3g} over the grid, by more than {policy.most_varied:.0%}: λ(β) "
            "has no plateau here; look at the curve and choose betas where it is flat"
        )
    if value - policy.tolerance * error > size / 2:
        refused.append(
            f"λ̂ is above d/2 = {size / 2:g}, so n or β is too small for the asymptotics: use more data, or larger β"
        )
    return refused
