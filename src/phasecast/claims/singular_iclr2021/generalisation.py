"""What "Deep learning is singular, and that's good" states about generalisation, and what we found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasecast.claims.seeds import check_generator
from phasecast.claims.verdicts import finding, undecided
from phasecast.core.answers import Answers
from phasecast.core.claim import Finding, RecipeCheck
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Comparison, Status, Verdict
from phasecast.studies.posterior.printed_tables import PRINTED

FEW_SIZES = (200, 447, 1000)  # the ends and the geometric middle of the paper's sizes, to save time


@dataclass(frozen=True)
class TablesPolicy(Policy):
    """When slopes of learning curves are those of the tables, and when one is better than another."""

    printed_within: float = rule(4.0, "our errors; chosen, not derived: the tables print none of their own")
    better_below: float = rule(0.75, "of the slope of MAP; chosen, not derived: between the printed 0.60 and 1")
    same_within: float = rule(0.25, "of the slope of MAP; chosen, not derived: the size of the errors of 30 datasets")
    fewest_printed: int = rule(2, "slopes that must agree: one alone could agree by chance")
    exact_laplace: tuple[float, float] = rule(
        (0.5, 3.0), "nG is near λ = 3/2 where Laplace is exact; factors of 2 to 3"
    )
    wrong_laplace: float = rule(15.0, "ten times λ = 3/2: the order of magnitude that is claimed")


POLICY = TablesPolicy()


def _slopes_in_words(answers: Answers) -> str:
    measured = [(answer.where["method"], answer.measurement) for answer in answers.select("slope")]
    return "slopes " + "; ".join(
        f"{method} {float(one.estimate):.3g} ± {float(one.error):.2g}"
        for method, one in measured
        if one is not None and one.status is not Status.REFUSED
    )


def _comparable(answers: Answers) -> tuple[Comparison, ...]:
    return tuple(one for one in answers.comparisons() if one.verdict is not Verdict.NOT_COMPARABLE)


def _judge_order(answers: Answers) -> Finding:
    """Is the last layer better than MAP? If not, the check counts only if MAP is as printed and Laplace comparable."""
    point = answers.measurement("slope", method="map")
    slope, last, laplace = (
        float(answers.measurement("slope", method=method).estimate) for method in ("map", "last", "laplace-last")
    )
    as_printed = abs(slope - PRINTED["1a"]["map"][0]) < POLICY.printed_within * float(point.error)
    better = last < POLICY.better_below * slope
    same = all(abs(one / slope - 1) < POLICY.same_within for one in (laplace, last))
    words, comparisons = _slopes_in_words(answers), _comparable(answers)
    if not better and not (as_printed and same):
        return undecided(words, comparisons)
    return finding(words, comparisons, printed=better, experiment=True)


def _judge_printed(answers: Answers) -> Finding:
    """With its mistakes the script gives the slopes that are printed and finite; those of Laplace are not compared."""
    slopes = [answer for answer in answers.select("slope") if answer.where["method"] in ("map", "last", "two")]
    printed = [answer.result for answer in slopes if isinstance(answer.result, Comparison)]
    agree = all(abs(comparison.largest_distance) < POLICY.printed_within for comparison in printed)
    enough = len(printed) >= POLICY.fewest_printed
    return finding(_slopes_in_words(answers), _comparable(answers), printed=agree and enough, experiment=True)


def ridge_laplace(hessian_of_mean: bool, n: int = 200, seed: int = 0) -> float:
    """n G of a Laplace approximation of linear regression in three inputs, averaged over 50 datasets.

    The posterior is normal, so Laplace is exact; with the Hessian of the mean of |y − wx|² its variance is n/2 times
    too large.
    """
    rng = check_generator(seed)
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
    low, high = POLICY.exact_laplace
    corrected = low < right < high and wrong > POLICY.wrong_laplace
    return finding(words, printed=right > POLICY.wrong_laplace, corrected=corrected)


def _check_table_5() -> Finding:
    same = all(
        np.array_equal(PRINTED["4" + panel][method], PRINTED["5" + panel][method], equal_nan=True)
        for panel in "abcd"
        for method in PRINTED["4" + panel]
    )
    digits = sum(len(PRINTED["4" + panel]) for panel in "abcd")
    words = f"all {digits} legible entries of Table 4 are those of Table 5" if same else "the tables differ"
    return finding(words, printed=not same)


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
