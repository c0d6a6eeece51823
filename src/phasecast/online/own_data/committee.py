"""How fast would a committee of erf units learn my data? A stated teacher, of which the labels give the linear part.

The order-parameter equations need a teacher that is a committee itself, y = s·ζ + e with ζ = (1/√M) Σ g(B_n·ξ/√N). By
Stein's lemma the best linear student of such labels has, for Gaussian rows, the weights

.. math:: b = \\frac{s}{\\sqrt M}\\sqrt{\\frac2\\pi} \\sum_n \\frac{B_n}{\\sqrt{1 + T_{nn}}},

one direction: the sum of the teacher units. How they differ is not in the linear part, and no more is taken from the
labels. The *stated teacher* is the random one of Worschech & Rosenow, T_nm ≈ δ_nm, conditioned on that sum: every
B_n is the fitted direction, with B̄ΣB̄/N = 1/M, plus random differences with sum zero. Then s follows from the variance
that the linear student explains, and what is left of the variance of the labels is noise σ².

For several teacher units the differences, and with them the plateau and the escape, are drawn, not learned from the
data: such a curve is a warning at best. For one unit the teacher is fitted up to its scale, T = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf

from phasecast.core.bounds import check_bounds
from phasecast.core.errors import BadInput, whole_number
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Status
from phasecast.online.curve_result import check_alphas
from phasecast.online.dynamics import generalisation_error, solve_with_noise
from phasecast.online.linear import check_rate, initial_variance
from phasecast.online.order_parameters import OrderParameters
from phasecast.online.own_data.labelled import POLICY as LABELLED
from phasecast.online.own_data.labelled import LabelledCurve, LabelModel, prepare
from phasecast.online.spectrum import Spectrum


@dataclass(frozen=True)
class CommitteePolicy(Policy):
    """When a curve of a stated teacher is shown."""

    least_explained: float = rule(
        3.0, "variance that a linear student explains, over its standard error if it explained nothing, σ²√(2N)/n"
    )
    misfit: float = rule(
        3.0, "combined errors between curve and SGD over the rows beyond which the teacher is said to be another"
    )


POLICY = CommitteePolicy()


@dataclass(frozen=True)
class Committee:
    """A student and its stated teacher.

    Parameters
    ----------
    students, teachers: units K and M.
    sigma: standard deviation of the student's first weights.
    draws: of the fitted direction, scale and noise within their errors, the differences of the teacher's units and the
        first weights: the error of the curve is their spread.
    """

    students: int = 2
    teachers: int = 2
    sigma: float = 0.1
    draws: int = 8

    def __post_init__(self) -> None:
        for name in ("students", "teachers"):
            whole_number(name, getattr(self, name), 1)
        whole_number("draws", self.draws, 2)
        initial_variance(self.sigma)


@dataclass(frozen=True, eq=False)
class StatedTeacher:
    """Weights (M, N) on axes of variances ``values`` (N,), the scale s of the labels, the variance of their noise."""

    values: np.ndarray
    weights: np.ndarray
    scale: float
    noise: float

    @classmethod
    def of(cls, model: LabelModel, teachers: int, rng: np.random.Generator) -> StatedTeacher:
        """The random teacher whose linear part is that of the labels."""
        values, inputs = model.values, len(model.values)

        def overlaps(left: np.ndarray, right: np.ndarray) -> np.ndarray:
            return (left * values) @ right.T / inputs

        size, axes = np.linalg.eigh(np.outer(model.weights, model.weights) - model.outer)  # what least squares adds
        drawn = (model.weights + axes @ (np.sqrt(np.clip(size, 0, None)) * rng.standard_normal(inputs)))[None]
        fitted = drawn / math.sqrt(float(overlaps(drawn, drawn)[0, 0]))
        apart = rng.standard_normal((teachers, inputs))
        apart = apart - apart.mean(axis=0)
        apart = apart - overlaps(apart, fitted) * fitted
        if teachers > 1:
            size = float(np.mean(np.diagonal(overlaps(apart, apart))))
            apart = apart * math.sqrt((1 - 1 / teachers) / size) if size > 0 else apart
        B = fitted / math.sqrt(teachers) + apart
        T = overlaps(B, B)
        line = math.sqrt(2 / math.pi / teachers) * np.sum(B / np.sqrt(1 + np.diagonal(T))[:, None], axis=0)[None]
        power, left = rng.multivariate_normal([np.sum(model.power), model.noise], _spread(model)).clip(0.0)
        scale = math.sqrt(float(power) / float(overlaps(line, line)[0, 0]))
        blank = np.zeros((1, teachers)), np.zeros((1, 1))
        whole = 2 * float(generalisation_error(*blank, T))  # E ζ²: the error of a student that says nothing
        noise = float(power + left) - scale**2 * whole
        return cls(values, B, scale, max(noise, 0.0))


def _spread(model: LabelModel) -> np.ndarray:
    """Covariance, by what each row adds, of the variance that a linear student explains and of what it leaves."""
    fitted = model.rows @ model.weights / math.sqrt(len(model.values))
    parts = np.stack([fitted**2 + 2 * fitted * model.residuals, model.residuals**2])
    return np.cov(parts) / len(fitted)


def committee_curve_of(
    data: ArrayLike,
    labels: ArrayLike,
    committee: Committee | None = None,
    *,
    lr: float,
    alphas: ArrayLike,
    simulate: int = 0,
    seed: int = 0,
) -> LabelledCurve:
    """The learning curve of a committee of erf units on my rows; the teacher is stated, with my labels' linear part.

    Rows enter by their spectrum alone: the fields of the units are taken to be Gaussian. The student is that of
    :func:`phasecast.online.solve`, with labels divided by the scale s of the teacher.

    Parameters
    ----------
    data, labels: as in :func:`curve_of`.
    committee: units of student and teacher, first weights, draws; two of each by default.
    lr: η.
    alphas: rows seen, divided by the number N of directions.
    simulate: orders of the rows in which a student is really trained on the labels themselves, tested on a fifth.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(400, 5))
    >>> found = committee_curve_of(rows, rows[:, 0] + rng.normal(size=400), lr=0.3, alphas=[0, 40])
    >>> str(found.status), bool(found.eps[1] < found.eps[0])
    ('warning', True)
    """
    committee, grid = committee or Committee(), check_alphas(alphas)
    check_rate(lr)
    check_bounds(lr=lr, seed=seed, simulate=simulate, points=grid.size, alpha=float(grid[-1]))
    rows, y, notes = prepare(data, labels)
    whole = LabelModel.of(rows, y)
    power = float(np.sum(whole.power))
    if power < POLICY.least_explained * whole.noise * math.sqrt(2 * len(whole.values)) / len(rows):
        raise BadInput("a linear student explains nothing of these labels: there is no teacher to fit", "use curve_of")
    inputs = len(whole.values)
    spectrum = Spectrum(whole.values)
    chances = [np.random.default_rng([seed, draw, 3]) for draw in range(committee.draws)]
    teachers = [StatedTeacher.of(whole, committee.teachers, rng) for rng in chances]
    starts = [committee.sigma * rng.standard_normal((committee.students, inputs)) for rng in chances]
    states = [OrderParameters.from_weights(J, one.weights, spectrum) for J, one in zip(starts, teachers, strict=True)]
    steps = np.rint(grid * inputs).astype(np.int64)
    if not all(one.scale > 0 for one in teachers):
        raise BadInput("the labels have hardly a linear part: there is no teacher to fit", "use curve_of")
    noises = [one.noise / one.scale**2 for one in teachers]
    curves = solve_with_noise(states, spectrum, lr, steps / inputs, noises)
    refused = [reason for curve in curves if curve.status is Status.REFUSED for reason in curve.reasons]
    each = np.stack([one.scale**2 * curve.eps + one.noise / 2 for one, curve in zip(teachers, curves, strict=True)])
    if committee.teachers > 1:
        notes.append(
            f"how the {committee.teachers} units of the teacher differ is drawn, not read from the labels: plateau and "
            "escape are those of random teachers"
        )
    notes.append("the rows enter by their spectrum, as if Gaussian; the teacher is the linear part of the labels")
    simulation = None
    if whole_number("simulate", simulate, 0):
        scale = float(np.mean([one.scale for one in teachers]))
        simulation = simulated_committee(rows, y / scale, committee, lr, steps, range(seed, seed + simulate))
        simulation |= {name: scale**2 * simulation[name] for name in ("eps", "error")}
        notes += simulation.pop("notes") + _misfit(each.mean(axis=0), each.std(axis=0, ddof=1), simulation)
    return LabelledCurve(
        each.mean(axis=0),
        each.std(axis=0, ddof=1),
        Status.REFUSED if refused else Status.WARNING,
        {"rows": len(rows), "inputs": inputs, "draws": committee.draws, "scale": teachers[0].scale},
        error_kind="seeds",
        reasons=[*refused[:1], *notes],
        name="error on fresh rows",
        policy=POLICY.plain(),
        alpha=steps / inputs,
        spectrum=whole.values,
        power=whole.power,
        noise=float(np.mean([one.noise for one in teachers])),
        label_variance=float(y @ y / len(y)),
        gaussian=each.mean(axis=0),
        gaussian_rows=True,
        simulation=simulation,
    )


def _misfit(predicted: np.ndarray, error: np.ndarray, simulation: dict[str, Any]) -> list[str]:
    """What SGD over the rows says of the stated teacher."""
    apart = np.abs(np.nan_to_num((predicted - simulation["eps"]) / np.hypot(error, simulation["error"])))
    worst = int(np.argmax(apart))  # NaN where rows have run out, and everywhere with one order
    if not apart[worst] > POLICY.misfit:
        return []
    share = float(predicted[worst] / simulation["eps"][worst] - 1)
    return [f"the stated teacher is not that of your labels: the error is {share:+.0%} from that of SGD over your rows"]


def simulated_committee(
    rows: np.ndarray, y: np.ndarray, committee: Committee, lr: float, steps: np.ndarray, seeds: range
) -> dict[str, Any]:
    """One-pass SGD over the rows in random orders, each tested on rows it does not see; NaN where rows have run out."""
    count, inputs = rows.shape
    tested = max(round(LABELLED.held_out * count), 1)
    ratio = math.sqrt(committee.teachers) / committee.students
    chances = [np.random.default_rng([seed, 4]) for seed in seeds]
    order = np.stack([rng.permutation(count) for rng in chances])
    J = np.stack([committee.sigma * rng.standard_normal((committee.students, inputs)) for rng in chances])
    errors, at = np.full((len(order), len(steps)), np.nan), 0
    most = count - tested
    for place, target in enumerate(steps[steps <= most]):
        for now in range(at, int(target)):
            example = rows[order[:, tested + now]] / math.sqrt(inputs)
            fields = np.einsum("oki,oi->ok", J, example)
            gap = y[order[:, tested + now]] - ratio * erf(fields * math.sqrt(0.5)).sum(axis=1)
            push = math.sqrt(2 / math.pi) * np.exp(-(fields**2) / 2) * gap[:, None]
            J = J + lr * ratio * push[:, :, None] * example[:, None, :]
        at = int(target)
        for number, one in enumerate(order):
            held = one[:tested]
            outputs = ratio * erf(rows[held] @ J[number].T / math.sqrt(2 * inputs)).sum(axis=1)
            errors[number, place] = np.mean((y[held] - outputs) ** 2) / 2
    ran_out = int(np.sum(steps > most))
    notes = [f"the rows run out at α = {most / inputs:.4g}; {ran_out} later points are not simulated"]
    spread = errors.std(axis=0, ddof=1) / math.sqrt(len(order)) if len(order) > 1 else np.full(len(steps), np.nan)
    return {"orders": len(order), "eps": errors.mean(axis=0), "error": spread, "notes": notes if ran_out else []}
