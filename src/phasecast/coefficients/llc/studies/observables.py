"""What else do the chains of λ̂ know? Susceptibilities, influences and the singular fluctuation, with errors.

All are covariances under the law that the chains sample,

.. math:: p(w) \\propto \\exp\\big(-n\\beta L(w) - \\tfrac{\\gamma}{2} |w - w^*|^2\\big), \\qquad
          L = \\frac1n \\sum_i \\ell_i ,

because for a perturbation :math:`p_h \\propto p\\, e^{-h Q}` of it
:math:`\\frac{d}{dh} E_h[A] = -\\mathrm{Cov}(A, Q)` at h = 0.

=================  ====================  =====================================================================
susceptibility     −nβ Cov(A, P)         dE[A]/dh for the loss L + hP (Baker et al. 2025, there without nβ);
                                         by default P = L, and h is a relative change of nβ
influence          −Cov(ℓ_i, ℓ_j)        dE[ℓ_j]/dε for exp(−ε ℓ_i) p (Kreer et al. 2025); times β it is the
                                         change for one more copy of row i in nL
fluctuation        ν = β/2 Σ Var(ℓ_i)    with β = nβ/n (Watanabe 2010); d/2 in a regular model that holds the
                                         truth, as n → ∞ and γ/nβ → 0
=================  ====================  =====================================================================

The chains go on from where they stopped. Errors and the bias of covariances come from a jackknife over long batches
of draws, as many correlation times each as the policy says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from phasecast.coefficients.llc.studies.further_draws import (
    POLICY,
    Batches,
    FurtherDraws,
    ObservablesPolicy,
    RowSums,
    batches_of,
    covariances,
    jackknife_of,
    most_batches,
)
from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement, Status, show
from phasecast.sampling.traces import rhat

if TYPE_CHECKING:
    from phasecast.coefficients.llc.result import LLC
    from phasecast.sampling.kernels.kernel import Array

RowFunction: TypeAlias = Callable[..., Any]
"""``f(params, data)`` in JAX, ``f(outputs, targets)`` in torch: one number per row, or per token of each row."""

Observable: TypeAlias = RowFunction | tuple[RowFunction, Sequence[int]]
"""The mean over all rows of a function, or over the given ones."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Susceptibility(Measurement):
    """χ = −nβ Cov(A, P) of each observable A; ``means`` are E[A]."""

    labels: tuple[str, ...]
    means: np.ndarray
    nbeta: float
    draws: int

    def plain(self) -> dict[str, Any]:
        own = {"labels": list(self.labels), "means": self.means.tolist(), "nbeta": self.nbeta, "draws": self.draws}
        return {**super().plain(), **own}

    def _rows(self) -> list[tuple[str, str]]:
        pairs = zip(self.labels, np.ravel(np.asarray(self.estimate)), np.ravel(self.error), strict=True)
        lines = [(label, show(float(value), float(error))) for label, value, error in pairs]
        return [*lines[:20], *super()._rows()[1:], ("draws", str(self.draws))]


@dataclass(frozen=True, eq=False, kw_only=True)
class Influence(Measurement):
    """−Cov(ℓ_i, ℓ_j) of the rows i, j in ``rows``; ``on_all`` and ``on_all_error`` are −Cov(ℓ_i, L).

    ``beta`` times an entry is the change of E[ℓ_j] for one more copy of row i.
    """

    rows: tuple[int, ...]
    on_all: np.ndarray
    on_all_error: np.ndarray
    beta: float
    draws: int

    def plain(self) -> dict[str, Any]:
        own = {"rows": list(self.rows), "on_all": self.on_all.tolist(), "on_all_error": self.on_all_error.tolist()}
        return {**super().plain(), **own, "beta": self.beta, "draws": self.draws}

    def _rows(self) -> list[tuple[str, str]]:
        return [*super()._rows(), ("rows", f"{len(self.rows)} × {len(self.rows)}"), ("draws", str(self.draws))]


@dataclass(frozen=True, eq=False, kw_only=True)
class Fluctuation(Measurement):
    """The singular fluctuation ν = β/2 Σ Var(ℓ_i) at the sampled temperature and localisation.

    ``waic`` is −1/n Σ log E exp(−ℓ_i) + β/n Σ Var(ℓ_i), an estimate of the loss on new data of the predictive
    distribution that the chains sample; its first part is ``bayes_training_loss``, and ``gibbs_training_loss`` is E[L].
    """

    waic: Measurement
    bayes_training_loss: float
    gibbs_training_loss: float
    beta: float
    terms: int
    draws: int
    largest_variance: float

    def plain(self) -> dict[str, Any]:
        names = ("bayes_training_loss", "gibbs_training_loss", "beta", "terms", "draws", "largest_variance")
        return {**super().plain(), "waic": self.waic.plain(), **{name: getattr(self, name) for name in names}}

    def _rows(self) -> list[tuple[str, str]]:
        waic = show(self.waic.estimate, self.waic.error) + ("" if self.waic.status is Status.OK else " (warning)")
        return [*super()._rows(), ("WAIC", waic), ("β", f"{self.beta:.4g} of {self.terms} terms")]


def susceptibility(
    result: LLC,
    observables: Observable | Mapping[str, Observable],
    perturbation: Observable | None = None,
    *,
    draws: int = 200,
    thin: int | None = None,
    policy: ObservablesPolicy = POLICY,
) -> Susceptibility:
    """χ = −nβ Cov(A, P): what a small part hP of the loss does to E[A]; see :meth:`LLC.susceptibility`."""
    several = isinstance(observables, Mapping)
    named: dict[str, Observable] = dict(observables) if isinstance(observables, Mapping) else {"χ": observables}
    if not named:
        raise BadInput("there are no observables", "give a function, or {label: function}")
    wanted = [*named.values(), *([] if perturbation is None else [perturbation])]
    functions = [_parts(one) for one in wanted]
    walk = FurtherDraws(result, draws, thin, policy)
    _check_memory(walk.total * len(functions), f"{walk.total} draws of {len(functions)} observables", policy)

    def observe(position: Array) -> np.ndarray:
        losses: dict[int, np.ndarray] = {}
        columns: list[np.ndarray] = []
        for function, rows in functions:
            if id(function) not in losses:
                losses[id(function)] = walk.backend.of_rows(function, position)
            columns.append(_mean_over(losses[id(function)], rows, walk.rows))
        return np.stack(columns, axis=-1)

    loss, values = walk.record(observe)
    other = loss[..., None] if perturbation is None else values[..., -1:]
    values = values[..., : len(named)]
    batches = batches_of(loss, values, policy)
    covariance = covariances(values, other, batches)
    nbeta = walk.nbeta
    estimate, error = -nbeta * covariance.value[:, 0], nbeta * covariance.error[:, 0]
    means = values.mean(axis=(0, 1))
    status, reasons = _judged(result, loss, batches, policy)
    return Susceptibility(
        estimate if several else float(estimate[0]),
        error if several else float(error[0]),
        status,
        batches.diagnostics(),
        error_kind="jackknife",
        reasons=reasons,
        name=f"susceptibility to {'the loss' if perturbation is None else 'the perturbation'}",
        policy=policy.plain(),
        labels=tuple(named),
        means=means,
        nbeta=nbeta,
        draws=walk.total,
    )


def influence(
    result: LLC,
    rows: Sequence[int],
    row_losses: RowFunction,
    *,
    draws: int = 200,
    thin: int | None = None,
    policy: ObservablesPolicy = POLICY,
) -> Influence:
    """−Cov(ℓ_i, ℓ_j) of the given rows; see :meth:`LLC.influence`."""
    walk = FurtherDraws(result, draws, thin, policy)
    chosen = _row_numbers(rows, walk.rows)
    _check_memory(max(walk.total, 4 * len(chosen)) * len(chosen), f"{walk.total} draws of {len(chosen)} rows", policy)

    def observe(position: Array) -> np.ndarray:
        losses = _per_row(walk.backend.of_rows(row_losses, position), walk.rows)
        return np.concatenate([losses[:, chosen], losses.mean(axis=1, keepdims=True)], axis=1)

    loss, values = walk.record(observe)
    batches = batches_of(loss, values, policy)
    covariance = covariances(values[..., :-1], values, batches)
    status, reasons = _judged(result, loss, batches, policy)
    return Influence(
        -covariance.value[:, :-1],
        covariance.error[:, :-1],
        status,
        batches.diagnostics(),
        error_kind="jackknife",
        reasons=reasons,
        name="influence of rows on rows",
        policy=policy.plain(),
        rows=tuple(int(row) for row in chosen),
        on_all=-covariance.value[:, -1],
        on_all_error=covariance.error[:, -1],
        beta=walk.nbeta / walk.rows,
        draws=walk.total,
    )


def fluctuation(
    result: LLC,
    row_losses: RowFunction,
    *,
    draws: int = 200,
    thin: int | None = None,
    policy: ObservablesPolicy = POLICY,
) -> Fluctuation:
    """ν and WAIC of the sampled law; see :meth:`LLC.fluctuation`."""
    walk = FurtherDraws(result, draws, thin, policy)
    first = _terms(walk.backend.of_rows(row_losses, walk.start["position"]))
    returned, terms = first.shape[1], _count_terms(first, walk.loss_of(walk.start["position"]), policy)
    per_chain = most_batches(walk.draws, walk.chains, policy)
    at_once = max(1, policy.memory // (3 * 8 * per_chain * walk.chains))
    beta = walk.nbeta / terms
    timed = np.unique(np.linspace(0, returned - 1, policy.timed).astype(int))
    left_out: list[np.ndarray] = []
    largest, loss, series, batches = 0.0, np.empty(0), np.empty(0), None
    for begin in range(0, returned, at_once):  # the same draws once more for each part of many rows
        sums = RowSums(first[0, begin : begin + at_once], walk.draws, walk.chains, per_chain)

        def observe(position: Array, sums: RowSums = sums, begin: int = begin) -> np.ndarray:
            losses = _terms(walk.backend.of_rows(row_losses, position))
            sums.add(losses[:, begin : begin + at_once])
            return losses[:, timed]

        if batches is None:
            loss, series = walk.record(observe)
            batches = batches_of(loss, series, policy, per_chain)
        else:
            walk.record(observe)
        left_out.append(sums.left_out(batches))
        largest = max(largest, sums.largest_variance)
    assert batches is not None
    totals = np.sum(left_out, axis=0)  # (batches + 1, 3): variance, −log E exp(−ℓ), mean; the first with all batches
    variance, bayes, gibbs = totals.T
    nu = jackknife_of(beta / 2 * variance, batches)
    waic = jackknife_of((bayes + beta * variance) / terms, batches)
    status, reasons = _judged(result, loss, batches, policy)
    waic_reasons = list(reasons)
    if largest > policy.largest_variance:
        waic_reasons.append(
            f"the loss of one term has variance {largest:.2g}: WAIC is unreliable; raise nbeta or gamma"
        )
    waic_status = Status.WARNING if status is Status.OK and waic_reasons else status
    shared: dict[str, Any] = {"error_kind": "jackknife", "policy": policy.plain()}
    return Fluctuation(
        float(nu.value),
        float(nu.error),
        status,
        batches.diagnostics(),
        reasons=reasons,
        name="singular fluctuation ν",
        waic=Measurement(
            float(waic.value), float(waic.error), waic_status, reasons=waic_reasons, name="WAIC", **shared
        ),
        bayes_training_loss=float(jackknife_of(bayes / terms, batches).value),
        gibbs_training_loss=float(gibbs[0] / terms),
        beta=beta,
        terms=terms,
        draws=walk.total,
        largest_variance=largest,
        **shared,
    )


# what is given, and what is judged


def _parts(observable: Observable) -> tuple[RowFunction, np.ndarray | None]:
    function, rows = observable if isinstance(observable, tuple) else (observable, None)
    if not callable(function):
        raise BadInput(f"an observable is a {type(function).__name__}", "give a function, or (function, rows)")
    return function, None if rows is None else np.asarray(rows)


def _mean_over(values: np.ndarray, rows: np.ndarray | None, count: int) -> np.ndarray:
    """The mean of what each chain returned, over some rows if given."""
    if rows is not None:
        values = _per_row(values, count)[:, _row_numbers(rows, count)]
    return values.reshape(len(values), -1).mean(axis=1)


def _per_row(values: np.ndarray, rows: int) -> np.ndarray:
    """One number per row: the mean over the tokens of a row, where it has some."""
    if values.ndim < 2 or values.shape[1] != rows:
        raise BadInput(
            f"the function of rows has shape {values.shape[1:]}", f"return one number for each of {rows} rows"
        )
    return values.reshape(len(values), rows, -1).mean(axis=-1)


def _terms(values: np.ndarray) -> np.ndarray:
    """All terms of the mean loss, (chains, terms)."""
    return values.reshape(len(values), -1).astype(float)


def _row_numbers(rows: Any, count: int) -> np.ndarray:
    numbers = np.asarray(rows)
    if numbers.dtype == bool and numbers.shape == (count,):
        numbers = np.flatnonzero(numbers)
    if numbers.ndim != 1 or not len(numbers) or not np.issubdtype(numbers.dtype, np.integer):
        raise BadInput(f"rows has shape {numbers.shape}", "give a list of row numbers")
    if numbers.min() < 0 or numbers.max() >= count:
        raise BadInput(
            f"there is no row {numbers.max() if numbers.max() >= count else numbers.min()}", f"give 0 to {count - 1}"
        )
    return numbers


def _check_memory(numbers: int, what: str, policy: ObservablesPolicy) -> None:
    if 8 * numbers > policy.memory:
        size = 8 * numbers / 2**20
        raise BadInput(f"{what} take {size:.0f} MB", f"ask for fewer, below {policy.memory / 2**20:.0f} MB")


def _count_terms(values: np.ndarray, loss: np.ndarray, policy: ObservablesPolicy) -> int:
    """How many terms have the loss as their mean: all, or those that are not zero because they are ignored."""
    counted = int(np.count_nonzero(values.any(axis=0)))
    for count in (values.shape[1], counted):
        if np.allclose(values.sum(axis=1), count * loss, rtol=policy.same):
            return count
    raise BadInput(
        f"the mean of row_losses is {values[0].mean():.6g} where the loss is {loss[0]:.6g}",
        "return the terms of the mean loss",
    )


def _judged(
    result: LLC, loss: np.ndarray, batches: Batches, policy: ObservablesPolicy
) -> tuple[Status, tuple[str, ...]]:
    refusals = (
        [f"λ̂ of these chains is refused: {reason}" for reason in result.reasons]
        if (result.status is Status.REFUSED)
        else []
    )
    if not batches.enough:
        refusals.append(
            f"draws are correlated over {batches.time:.3g} of them, too long for an error: raise draws or thin"
        )
    apart = rhat(loss)
    warnings = [f"R-hat of the loss is {apart:.3f}: raise draws"] if apart > policy.largest_rhat else []
    heating = result.diagnostics.get("bias_bound", 0.0)
    if heating:
        share = heating / max(abs(float(result.estimate)), heating)
        warnings.append(f"minibatches heat these chains by up to {share:.0%} of λ̂, and covariances grow with it")
    status = Status.REFUSED if refusals else Status.WARNING if warnings else Status.OK
    return status, (*refusals, *warnings)
