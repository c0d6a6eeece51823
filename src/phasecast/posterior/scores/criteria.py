"""How well will it predict, from the draws alone? WAIC and leave-one-out losses of a posterior.

With ℓ_i(w) = log p(X_i|w), E and Var over draws from the posterior at inverse temperature β, and losses in nats per
observation,

.. math:: B_t = -\\frac1n \\sum_i \\log E\\,e^{\\ell_i}, \\quad V = \\sum_i \\mathrm{Var}\\,\\ell_i, \\quad
          \\mathrm{WAIC} = B_t + \\frac{\\beta}{n} V, \\quad
          \\mathrm{LOO} = -\\frac1n \\sum_i \\log \\frac{E\\,e^{(1-\\beta)\\ell_i}}{E\\,e^{-\\beta\\ell_i}}

(Watanabe 2010, eqs. 4-8). One survey prints a minus before V: see ``phasecast claims survey/eq-1``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from phasecast.core import codec
from phasecast.core.errors import BadInput
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Result, Status, show
from phasecast.core.types import Array
from phasecast.posterior.scores.leaving_out import LeftOut, left_out

if TYPE_CHECKING:
    import xarray as xr
    from typing_extensions import TypeIs

InferenceData: TypeAlias = Any
"""An ArviZ InferenceData, which is not installed with this package, or an xarray DataTree."""


@dataclass(frozen=True)
class CriteriaPolicy(Policy):
    """Thresholds of :func:`criteria`."""

    fewest_draws: int = rule(25, "below, the tail that PSIS smooths, a fifth of the draws, has fewer than five")
    largest_variance: float = rule(0.4, "of one log-likelihood; above, WAIC starts to fail (Vehtari et al. 2017)")
    largest_pareto_k: float = rule(0.7, "above min(1 − 1/log₁₀ S, 0.7) PSIS is unreliable (Vehtari et al. 2024)")
    finite_variance: float = rule(
        0.5,
        "above, importance weights have no finite variance (Vehtari et al. 2024): the mean converges slower than 1/√S, "
        "and what the draws do not show of the tail is counted as error",
    )
    largest_gap: float = rule(
        0.1,
        "between WAIC and PSIS-LOO where a variance is too large, in standard errors of WAIC; as a bias it adds 1% to "
        "the squared error",
    )
    largest_draw_error: float = rule(
        0.5, "of LOO over draws, in standard errors over observations; adds an eighth to the error of both together"
    )


POLICY = CriteriaPolicy()


def log_sum(terms: np.ndarray, axis: int = 0) -> np.ndarray:
    """log Σ exp along an axis, without overflow."""
    from scipy.special import logsumexp

    return np.asarray(logsumexp(terms, axis=axis))


def _empty() -> np.ndarray:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class Criteria(Result):
    """Losses of a posterior, in nats per observation; ``functional_variance`` is summed over observations.

    ``pointwise_waic``, ``pointwise_loo`` and ``pointwise_psis`` have shape (observation,), with the criterion as their
    mean; ``pareto_k`` is the tail index of the importance weights of each left-out observation. ``loo_draw_error`` is
    the standard error of ``psis_loo`` over draws; NaN for weighted draws. WAIC and LOO fail for different reasons:
    ``waic_status`` and ``loo_status`` judge them one by one, ``status`` is the worse of the two.
    """

    bayes_training_loss: float
    gibbs_training_loss: float
    functional_variance: float
    waic: float
    loo: float
    psis_loo: float
    beta: float = 1.0
    draws: int = 0
    status: Status = Status.OK
    reasons: tuple[str, ...] = ()
    pointwise_waic: np.ndarray = field(default_factory=_empty)
    pointwise_loo: np.ndarray = field(default_factory=_empty)
    pointwise_psis: np.ndarray = field(default_factory=_empty)
    pareto_k: np.ndarray = field(default_factory=_empty)
    policy: dict[str, Any] = field(default_factory=dict)
    waic_reasons: tuple[str, ...] = ()
    loo_reasons: tuple[str, ...] = ()
    loo_draw_error: float = float("nan")

    @property
    def waic_status(self) -> Status:
        """The status of WAIC alone."""
        return self._status_of(self.waic_reasons)

    @property
    def loo_status(self) -> Status:
        """The status of LOO and PSIS-LOO alone."""
        return self._status_of(self.loo_reasons)

    def _status_of(self, reasons: tuple[str, ...]) -> Status:
        return Status.OK if not reasons else Status.REFUSED if self.status is Status.REFUSED else Status.WARNING

    @property
    def observations(self) -> int:
        return len(self.pointwise_waic)

    @property
    def error(self) -> float:
        """Standard error of WAIC as an estimate of the loss on new data: :func:`skewed_error`."""
        return self._error_of(self.pointwise_waic)

    def _error_of(self, pointwise: np.ndarray) -> float:
        return skewed_error(pointwise, self.beta * self.functional_variance)

    @property
    def singular_fluctuation(self) -> float:
        """βV/2; its mean over datasets tends to ν(β) (Watanabe 2010)."""
        return self.beta * self.functional_variance / 2

    def plain(self) -> dict[str, Any]:
        names = ("bayes_training_loss", "gibbs_training_loss", "functional_variance", "waic", "loo", "psis_loo")
        numbers = {name: codec.plain(getattr(self, name)) for name in names}
        more = {"beta": self.beta, "draws": self.draws, "observations": self.observations}
        largest = float(np.max(self.pareto_k)) if self.pareto_k.size else np.nan
        diagnostics = {
            "largest_pareto_k": codec.plain(largest),
            "loo_draw_error": codec.plain(self.loo_draw_error),
        }
        words = {
            "status": str(self.status),
            "reasons": list(self.reasons),
            "waic_status": str(self.waic_status),
            "loo_status": str(self.loo_status),
        }
        return {**numbers, "error": codec.plain(self.error), **more, **words, "diagnostics": diagnostics}

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            ("Bayes training loss", show(self.bayes_training_loss)),
            ("Gibbs training loss", show(self.gibbs_training_loss)),
            ("functional variance", show(self.functional_variance)),
            ("WAIC", f"{show(self.waic, self._error_of(self.pointwise_waic))} ({self.waic_status})"),
            ("LOO", f"{show(self.loo, self._error_of(self.pointwise_loo))} ({self.loo_status})"),
            ("PSIS-LOO", f"{show(self.psis_loo, self._error_of(self.pointwise_psis))} ({self.loo_status})"),
        ]
        if np.isfinite(self.loo_draw_error):
            rows.append(("error over draws", show(self.loo_draw_error)))
        rows.append(("status", str(self.status)))
        return rows + [("reason", reason) for reason in self.reasons]


def criteria(
    log_likelihood: Array | Sequence[Sequence[float]] | InferenceData,
    beta: float = 1.0,
    log_weights: Array | Sequence[float] | None = None,
    *,
    relative_efficiency: float = 1.0,
    policy: CriteriaPolicy = POLICY,
) -> Criteria:
    """Training losses, functional variance, WAIC, LOO by importance sampling, and PSIS-LOO.

    Parameters
    ----------
    log_likelihood: shape (draw, observation): log p(X_i|w_s) in nats, without β; or what
        ``tempered(…, pointwise=True)`` returns, or an ArviZ InferenceData, as for :func:`from_arviz`.
    beta: inverse temperature of the posterior that the draws are from.
    log_weights: shape (draw,): logarithms of weights of the draws, up to a constant; defaults to equal weights.
    relative_efficiency: effective draws per draw, for the length of the tail that PSIS smooths.

    Variances have ddof = 0. The smoothing is arviz-stats' (Vehtari et al. 2024).

    >>> rng = np.random.default_rng(0)
    >>> x, w = rng.normal(size=50), rng.normal(scale=50**-0.5, size=4000)
    >>> scores = criteria(-((x - w[:, None]) ** 2) / 2 - np.log(2 * np.pi) / 2)
    >>> bool(abs(scores.waic - scores.loo) < 1e-3), bool(0.5 < scores.functional_variance < 1.5)
    (True, True)
    """
    if is_tree(log_likelihood):
        log_likelihood, relative_efficiency = _of_tree(log_likelihood, None)
    ll, logw = _checked(log_likelihood, beta, log_weights)
    if np.isneginf(ll).any():
        raise BadInput("the log-likelihood is −∞ at some draw", "remove draws at which an observation is impossible")
    draws = len(ll)
    weights = np.exp(logw)
    bayes = -log_sum(ll + logw[:, None])
    mean = weights @ ll
    variance = weights @ (ll - mean) ** 2
    loo = log_sum(logw[:, None] - beta * ll) - log_sum(logw[:, None] + (1 - beta) * ll)
    without = left_out(
        ll, beta, logw, relative_efficiency, fewest_draws=policy.fewest_draws, infinite=policy.finite_variance
    )
    waic = bayes + beta * variance
    waic_reasons, loo_reasons = _doubts(waic, variance, without, draws, policy)
    few = draws < policy.fewest_draws
    return Criteria(
        bayes_training_loss=float(bayes.mean()),
        gibbs_training_loss=float(-mean.mean()),
        functional_variance=float(variance.sum()),
        waic=float(waic.mean()),
        loo=float(loo.mean()),
        psis_loo=float(without.losses.mean()),
        beta=float(beta),
        draws=draws,
        status=Status.REFUSED if few else Status.WARNING if waic_reasons or loo_reasons else Status.OK,
        reasons=tuple(dict.fromkeys((*loo_reasons, *waic_reasons))),
        pointwise_waic=waic,
        pointwise_loo=loo,
        pointwise_psis=without.losses,
        pareto_k=without.pareto_k,
        policy=policy.plain(),
        waic_reasons=waic_reasons,
        loo_reasons=loo_reasons,
        loo_draw_error=without.error,
    )


def new_data_losses(
    log_likelihood: Array | Sequence[Sequence[float]], log_weights: Array | Sequence[float] | None = None
) -> tuple[float, float]:
    """Bayes and Gibbs generalisation loss: −log E p and −E log p, means over new observations.

    ``log_likelihood`` has shape (draw, new observation), at draws from the posterior at any β.

    >>> bayes, gibbs = new_data_losses(np.log([[0.5], [0.25]]))
    >>> bool(bayes < gibbs)
    True
    """
    ll, logw = _checked(log_likelihood, 1.0, log_weights)
    return float(-log_sum(ll + logw[:, None]).mean()), float(-(np.exp(logw) @ ll).mean())


def from_arviz(data: InferenceData, *, variable: str | None = None, beta: float = 1.0) -> Criteria:
    """Criteria of an ArviZ InferenceData or DataTree with a group ``log_likelihood`` (chain, draw, …observations).

    ``variable`` is needed if the group has several. With a posterior of more than one chain, its mean effective sample
    size sets the length of the tail that PSIS smooths, as in ArviZ.
    """
    flat, efficiency = _of_tree(data, variable)
    return criteria(flat, beta, relative_efficiency=efficiency)


def pointwise_error(pointwise: np.ndarray) -> float:
    """Standard error of a mean over observations: their standard deviation (ddof = 0, as in ArviZ) over √n."""
    return float(np.std(pointwise) / np.sqrt(pointwise.size)) if pointwise.size else float("nan")


def skewed_error(pointwise: np.ndarray, parameters: float) -> float:
    """An error of the mean of n losses of a model with ``parameters`` effective parameters; two such errors hold 95%.

    .. math:: \\frac{s}{\\sqrt n} \\Big(1 + \\frac{3|\\gamma|}{4\\sqrt n}\\Big) \\sqrt{\\frac{n}{n - p - 3}}

    Losses are skewed: a sample without large ones has a small mean and a small spread s, so that the mean plus two
    s/√n is too low. With skewness γ it is two such errors away only for (2 + 3γ/(2√n)) s/√n (Johnson 1978). The last
    factor is that of Student's distribution with n − p − 1 degrees of freedom, because p parameters follow the noise.
    """
    n = pointwise.size
    if not n:
        return float("nan")
    centred = pointwise - np.mean(pointwise)
    variance = float(np.mean(centred**2))
    skewness = float(np.mean(centred**3)) / variance**1.5 if variance > 0 else 0.0
    widening = (1 + 0.75 * abs(skewness) / np.sqrt(n)) * np.sqrt(n / max(n - parameters - 3, 1))
    return float(np.sqrt(variance / n) * widening)


def _checked(
    log_likelihood: Array | Sequence[Sequence[float]], beta: float, log_weights: Array | Sequence[float] | None
) -> tuple[np.ndarray, np.ndarray]:
    """The log-likelihood as an array, and normalised log weights."""
    try:
        ll = np.asarray(log_likelihood, dtype=float)
    except (TypeError, ValueError):
        kind = type(log_likelihood).__name__
        raise BadInput(f"the log-likelihood is a {kind}", "give an array (draw, observation)") from None
    if ll.ndim != 2:
        raise BadInput(f"the log-likelihood has shape {ll.shape}", "give shape (draw, observation)")
    draws, n = ll.shape
    if draws < 2 or n < 1:
        raise BadInput(f"{draws} draws of {n} observations are too few", "give at least two draws and one observation")
    if np.isnan(ll).any() or np.isposinf(ll).any():
        raise BadInput("the log-likelihood is NaN or +∞ somewhere", "remove draws at which the model fails")
    if not (np.isfinite(beta) and beta > 0):
        raise BadInput(f"beta is {beta}", "use a positive inverse temperature")
    if log_weights is None:
        return ll, np.full(draws, -np.log(draws))
    logw = np.asarray(log_weights, dtype=float)
    if logw.shape != (draws,) or np.isnan(logw).any() or np.isposinf(logw).any() or not np.isfinite(logw.max()):
        raise BadInput(f"invalid log_weights of shape {logw.shape}", f"give one number per draw, shape ({draws},)")
    weighted = np.isfinite(logw)  # a draw of weight zero does not count, but 0 · ∞ would give NaN
    return ll[weighted], logw[weighted] - log_sum(logw[weighted])


def _doubts(
    waic: np.ndarray, variance: np.ndarray, without: LeftOut, draws: int, policy: CriteriaPolicy
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The reasons against WAIC and against LOO, from WAIC and variance of every observation."""
    if draws < policy.fewest_draws:
        few = (f"{draws} draws are too few to leave an observation out: use at least {policy.fewest_draws}",)
        return few, few
    against_waic, against_loo = [], []
    count, spread = len(waic), pointwise_error(without.losses)
    good = min(1 - 1 / np.log10(draws), policy.largest_pareto_k)
    heavy = int(np.sum(~(without.pareto_k <= good)))
    slow = int(np.sum(without.pareto_k > policy.finite_variance))
    if heavy:
        against_loo.append(
            f"LOO of {heavy} of {count} observations depends on few draws (Pareto k > {good:.2f}): fit without "
            "them, or use more draws"
        )
    elif slow and np.isnan(without.error):
        against_loo.append(
            f"LOO of {slow} of {count} observations converges slowly (Pareto k > {policy.finite_variance}), and with "
            "weights its error over draws is unknown: give equally weighted draws"
        )
    elif without.error > policy.largest_draw_error * spread:
        against_loo.append(
            f"the error of LOO over draws, {without.error:.2g}, is large beside that over observations, {spread:.2g}: "
            "use more draws"
        )
    wide = int(np.sum(variance > policy.largest_variance))
    gap = abs(float(np.mean(waic - without.losses)))
    if wide and (heavy or gap > policy.largest_gap * pointwise_error(waic)):
        doubt = "PSIS-LOO cannot check it: fit without them" if heavy else f"PSIS-LOO differs by {gap:.2g}: use that"
        against_waic.append(
            f"WAIC is unreliable: the log-likelihood of {wide} of {count} observations has a variance above "
            f"{policy.largest_variance}, and {doubt}"
        )
    return tuple(against_waic), tuple(against_loo)


def _group(data: InferenceData, name: str) -> xr.Dataset | None:
    """A group of an InferenceData or DataTree as a dataset, or None."""
    groups = getattr(data, "children", None)
    if groups is not None:  # a DataTree
        return groups[name].to_dataset() if name in groups else None
    if not hasattr(data, "groups"):
        raise BadInput(f"cannot read a {type(data).__name__}", "give an ArviZ InferenceData or a DataTree")
    return getattr(data, name, None)


def is_tree(data: object) -> TypeIs[xr.DataTree]:
    """Whether these are draws with names, an InferenceData or DataTree, and not an array."""
    return hasattr(data, "children") or hasattr(data, "groups")


def _of_tree(data: InferenceData, variable: str | None) -> tuple[np.ndarray, float]:
    """The log-likelihood (draw, observation) of a group of that name, and the effective draws per draw."""
    group = _group(data, "log_likelihood")
    if group is None:
        raise BadInput(
            "there is no group log_likelihood",
            "store the log-likelihood per observation with the draws, in tempered by pointwise=True",
        )
    names = list(group.data_vars)
    if variable is None and len(names) != 1:
        raise BadInput(f"log_likelihood has {len(names)} variables", f"choose one of: {', '.join(map(str, names))}")
    if variable is not None and variable not in names:
        raise BadInput(f"log_likelihood has no '{variable}'", f"choose one of: {', '.join(map(str, names))}")
    array = group[variable or names[0]]
    if not {"chain", "draw"} <= set(array.dims):
        raise BadInput(f"the log-likelihood has dimensions {array.dims}", "use chain, draw and the observations'")
    if array.sizes.get("dataset", 1) > 1:
        raise BadInput(f"there are {array.sizes['dataset']} data sets", "choose one: tree.isel(dataset=0)")
    array = array.transpose("chain", "draw", ...)
    flat = np.asarray(array.values, dtype=float).reshape(array.sizes["chain"] * array.sizes["draw"], -1)
    posterior = _group(data, "posterior")
    efficiency = 1.0 if posterior is None else _relative_efficiency(posterior)
    return flat, efficiency


def _relative_efficiency(posterior: xr.Dataset) -> float:
    """Mean effective sample size of all posterior variables, over the number of draws."""
    from arviz_stats.base.array import BaseArray

    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    if chains == 1:
        return 1.0
    sizes = []
    for variable in posterior.data_vars.values():
        values = np.asarray(variable.transpose("chain", "draw", ...).values, dtype=float).reshape(chains, draws, -1)
        sizes += [BaseArray().ess(values[..., k], method="mean") for k in range(values.shape[2])]
    return float(np.mean(sizes) / (chains * draws))
