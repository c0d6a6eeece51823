"""What "Deep learning is singular, and that's good" states about generalisation, and what we found."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from phasecast.claims.verdicts import verdict_of
from phasecast.core.claim import ClaimVerdict, Finding, RecipeCheck
from phasecast.core.results import Comparison, Measurement, Result, Status, Verdict
from phasecast.studies.posterior.printed_tables import PRINTED

FEW_SIZES = (200, 447, 1000)
NEAR = 4.0  # errors, for numbers that are printed without any


def _slopes(answers: Mapping[str, Result]) -> dict[str, Measurement]:
    found = {}
    for name, answer in answers.items():
        measured = answer.measurement if isinstance(answer, Comparison) else answer
        if name.startswith("slope over 1/n, ") and isinstance(measured, Measurement):
            found[name.removeprefix("slope over 1/n, ")] = measured
    return found


def _words(slopes: Mapping[str, Measurement]) -> str:
    return "; ".join(f"{name} {float(np.asarray(one.estimate)):.3g} ± {float(np.asarray(one.error)):.2g}"
                     for name, one in slopes.items() if one.status is not Status.REFUSED)  # fmt: skip


def _value(one: Measurement) -> tuple[float, float]:
    return float(np.asarray(one.estimate)), float(np.asarray(one.error))


def _judge_order(answers: Mapping[str, Result]) -> Finding:
    """MAP as printed, the last layer no better than it, Laplace of the last layer comparable."""
    slopes = _slopes(answers)
    (point, error), (last, _) = _value(slopes["MAP"]), _value(slopes["last layer"])
    laplace, _ = _value(slopes["last layer, Laplace"])
    as_printed = abs(point - PRINTED["1a"]["map"][0]) < NEAR * error
    better = last < 0.75 * point  # printed: 0.60
    near = abs(laplace / point - 1) < 0.25 and abs(last / point - 1) < 0.25
    verdict = (
        ClaimVerdict.HOLDS if better else ClaimVerdict.NOT_REPRODUCED if as_printed and near else ClaimVerdict.OPEN
    )
    return Finding(verdict, f"slopes {_words(slopes)}", _comparisons(answers))


def _judge_printed(answers: Mapping[str, Result]) -> Finding:
    """With its mistakes the script gives the slopes that are printed and finite; Laplace is far off whatever it is."""
    methods = ("MAP", "last layer", "last two layers")
    printed = [
        comparison
        for name, comparison in answers.items()
        if isinstance(comparison, Comparison) and name.removeprefix("slope over 1/n, ") in methods
    ]
    agree = all(abs(comparison.largest_distance) < NEAR for comparison in printed)
    verdict = ClaimVerdict.HOLDS if agree and len(printed) >= 2 else ClaimVerdict.OPEN
    return Finding(verdict, f"slopes {_words(_slopes(answers))}", _comparisons(answers))


def _comparisons(answers: Mapping[str, Result]) -> tuple[Comparison, ...]:
    return tuple(
        answer
        for answer in answers.values()
        if isinstance(answer, Comparison) and answer.verdict is not Verdict.NOT_COMPARABLE
    )


def ridge_laplace(hessian_of_mean: bool, n: int = 200, seed: int = 0) -> float:
    """n G of a Laplace approximation of linear regression in three inputs, averaged over 50 datasets.

    The posterior is normal, so Laplace is exact; with the Hessian of the mean of |y − wx|² its variance is n/2 times
    too large.
    """
    rng = np.random.default_rng(seed)
    errors = []
    for _ in range(50):
        x, w0 = rng.normal(size=(n, 3)), rng.normal(size=3)
        y = x @ w0 + rng.normal(size=n)
        precision = x.T @ x + np.eye(3)
        w = np.linalg.solve(precision, x.T @ y)
        covariance = np.linalg.inv(2 / n * x.T @ x + 5e-4 * np.eye(3) if hessian_of_mean else precision)
        new = rng.normal(size=(4000, 3))
        spread = 1 + np.einsum("ni,ij,nj->n", new, covariance, new)
        errors.append(np.mean((1 + (new @ (w - w0)) ** 2) / spread - 1 + np.log(spread)) / 2)
    return n * float(np.mean(errors))


def _check_laplace() -> Finding:
    right, wrong = ridge_laplace(False), ridge_laplace(True)
    words = f"nG of exact linear regression: {right:.2f} with the Hessian of the sum, {wrong:.0f} with that of the mean"
    return Finding(verdict_of(right > 15, 0.5 < right < 3 and wrong > 15), words)


def _check_table_5() -> Finding:
    same = all(
        np.array_equal(PRINTED["4" + panel][method], PRINTED["5" + panel][method], equal_nan=True)
        for panel in "abcd"
        for method in PRINTED["4" + panel]
    )
    digits = sum(len(PRINTED["4" + panel]) for panel in "abcd")
    words = f"all {digits} legible entries of Table 4 are those of Table 5" if same else "the tables differ"
    return Finding(ClaimVerdict.DOES_NOT_HOLD if same else ClaimVerdict.OPEN, words)


CHECKS = {
    "singular/table-1": RecipeCheck("generalisation", {"table": "1a", "sizes": FEW_SIZES}, _judge_order),
    "singular/table-1-script": RecipeCheck(
        "generalisation", {"table": "1a", "sizes": FEW_SIZES, "protocol": "published"}, _judge_printed
    ),
    "singular/table-3": RecipeCheck(
        "generalisation",
        {"table": "3a", "sizes": FEW_SIZES, "datasets": 10, "protocol": "published"},
        _judge_printed,
    ),
    "singular/table-4": RecipeCheck(
        "generalisation",
        {"table": "4a", "sizes": FEW_SIZES, "datasets": 20, "protocol": "published"},
        _judge_printed,
    ),
    "singular/laplace-last-layer": _check_laplace,
    "singular/table-5": _check_table_5,
}
"""The check of each claim; ``claims.toml`` has the statements."""
