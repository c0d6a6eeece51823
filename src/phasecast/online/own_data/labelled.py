"""How fast would a linear student learn my data? The curve of one-pass SGD from rows and their labels.

Rows are centred, turned to their principal axes and scaled to a mean variance of one (ξ); labels are centred. With
y = B·ξ/√N + e, E[eξ] = 0, and Δ = J − B, one step of SGD on a fresh row is Δ ← Δ + ηrξ/√N, r = e − Δ·ξ/√N. The row is
independent of Δ, so m = E[Δ] and C = E[ΔΔᵀ] follow *exactly*, whatever the distribution of the rows:

.. math:: m' = (1 - \\tfrac{\\eta}{N}\\Lambda)\\,m, \\qquad
          C' = C - \\tfrac{\\eta}{N}(\\Lambda C + C\\Lambda) + \\tfrac{\\eta^2}{N}\\,E[\\rho\\,\\xi\\xi^\\top], \\qquad
          \\rho = e^2 - \\tfrac{2e\\,\\xi\\cdot m}{\\sqrt N} + \\tfrac{\\xi^\\top C\\xi}{N}

and ½E[ρ] is the error on fresh rows. The averages are over the rows themselves. For Gaussian rows and independent noise
the diagonal of C closes, D_k = C_kk with λ_k and σ² = E[e²] alone:

.. math:: D_k' = D_k - \\tfrac{2\\eta}{N}\\lambda_k D_k
          + \\tfrac{\\eta^2}{N^2}\\bigl(2\\lambda_k^2 D_k + \\lambda_k\\textstyle\\sum_j\\lambda_j D_j\\bigr)
          + \\tfrac{\\eta^2}{N}\\lambda_k\\sigma^2 .

B comes from least squares, whose own noise, known from residuals, is subtracted from BBᵀ and added to E[e²]: the power
in each mode and the noise level are those of fresh rows, not of the fitted ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core import codec
from phasecast.core.bounds import check_bounds
from phasecast.core.errors import BadInput, whole_number
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Status, show
from phasecast.online.curve_result import Curve, check_alphas
from phasecast.online.linear import check_rate, gaussian_errors, initial_variance

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class LabelledPolicy(Policy):
    """What is computed from rows, and when it is defended."""

    smallest: float = rule(1e-10, "share of the largest variance below which a direction is rounding and left out")
    rows_per_input: float = rule(2.0, "below two rows per input least squares leaves half of the residuals to chance")
    groups: int = rule(5, "left out in turn for the error (jackknife): each fit keeps 80% of the rows")
    held_out: float = rule(0.2, "share of the rows on which a simulated student is tested")
    most_work: float = rule(
        2e12, "products of numbers (rows × N² per step): some minutes; beyond it Gaussian rows are assumed"
    )
    growth: float = rule(10.0, "chosen: error over its start beyond which SGD has diverged")


POLICY = LabelledPolicy()


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelledCurve(Curve):
    """The error ½E[(y − output)²] on fresh rows over α, for one-pass SGD of a linear student on the user's rows.

    Parameters
    ----------
    spectrum: shape (N,), variance of each principal direction, mean one.
    power: shape (N,), variance of the label that each direction explains; may be slightly below zero by noise.
    noise: variance of the label that no linear student explains; ½ of it is the floor of the error.
    label_variance: of the labels: ½ of it is the error of the mean.
    gaussian: shape (n,), the curve for Gaussian rows of the same spectrum, power and noise.
    gaussian_rows: whether the estimate is that curve, because the rows' own moments would take too long.
    simulation: mean and standard error over orders of the rows, tested on rows held out; None if not asked for.
    """

    spectrum: np.ndarray = field(default_factory=lambda: np.empty(0))
    power: np.ndarray = field(default_factory=lambda: np.empty(0))
    noise: float = 0.0
    label_variance: float = 0.0
    gaussian: np.ndarray = field(default_factory=lambda: np.empty(0))
    gaussian_rows: bool = False
    simulation: dict[str, Any] | None = None

    def plain(self) -> dict[str, Any]:
        names = ("spectrum", "power", "noise", "label_variance", "gaussian", "gaussian_rows", "simulation")
        return {**super().plain(), **{name: codec.plain(getattr(self, name)) for name in names}}

    def _rows(self) -> list[tuple[str, str]]:
        shown = np.unique(np.linspace(0, self.alpha.size - 1, min(self.alpha.size, 8)).astype(int))
        estimate, errors = np.asarray(self.estimate), np.broadcast_to(np.asarray(self.error), self.alpha.shape)
        rows = [("inputs N", str(self.spectrum.size))]
        rows += [(f"error({self.alpha[at]:g})", show(float(estimate[at]), float(errors[at]))) for at in shown]
        rows.append(("floor, ½ of the noise", f"{self.noise / 2:.6g}"))
        rows.append(("error of the mean", f"{self.label_variance / 2:.6g}"))
        if self.simulation is not None:
            rows.append(("your rows, last α", show(self.simulation["eps"][-1], self.simulation["error"][-1])))
        return [*rows, ("status", str(self.status)), *(("reason", reason) for reason in self.reasons)]

    def figure(self) -> Figure:
        """The predicted error with its uncertainty, its floor, and SGD on the rows as points."""
        from phasecast.figures.drawing import COLOURS, EXACT, blank, legend

        figure, ((axes,),) = blank(width=6.0, height=4.0)
        value, error = np.asarray(self.estimate), np.broadcast_to(np.asarray(self.error), self.alpha.shape)
        label = "Gaussian rows" if self.gaussian_rows else "predicted from the rows' moments"
        axes.plot(self.alpha, value, color=COLOURS[0], label=label)
        axes.fill_between(self.alpha, value - error, value + error, color=COLOURS[0], alpha=0.2, lw=0)
        if not self.gaussian_rows:
            axes.plot(self.alpha, self.gaussian, color=COLOURS[2], ls=":", label="Gaussian rows")
        if self.noise > 0:
            axes.axhline(self.noise / 2, **EXACT, label="best linear student")
        if self.simulation is not None:
            points, bars = self.simulation["eps"], self.simulation["error"]
            axes.errorbar(self.alpha, points, yerr=bars, fmt="o", ms=3, color=COLOURS[1], label="SGD on your rows")
        axes.set_yscale("log")
        axes.set_xlabel("examples per input α")
        axes.set_ylabel("error on fresh rows ½E(y − output)²")
        legend(axes)
        return figure


def curve_of(
    data: ArrayLike,
    labels: ArrayLike,
    *,
    lr: float,
    alphas: ArrayLike,
    sigma: float = 0.0,
    trained: int | None = None,
    simulate: int = 0,
    seed: int = 0,
) -> LabelledCurve:
    """The learning curve of a linear student on my rows and my labels, by one-pass SGD in a random order.

    Parameters
    ----------
    data: shape (n, d), one example per row; directions without variance are left out.
    labels: shape (n,), numbers; classes as numbers, like −1 and 1.
    lr: η of J ← J + η(y − J·ξ/√N)ξ/√N.
    alphas: rows seen, divided by the number N of directions.
    sigma: standard deviation of the student's first weights.
    trained: only the first N_l principal directions learn; defaults to all.
    simulate: orders of the rows in which a student is really trained, each tested on a fifth held out.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(400, 5))
    >>> found = curve_of(rows, rows[:, 0] + rng.normal(size=400), lr=0.3, alphas=[0, 40])
    >>> bool(0.4 < found.eps[1] < found.eps[0] < 1.2)
    True
    """
    grid = check_alphas(alphas)
    check_rate(lr)
    check_bounds(lr=lr, sigma=sigma, seed=seed, simulate=simulate, points=grid.size, alpha=float(grid[-1]))
    variance = initial_variance(sigma)
    rows, y, notes = prepare(data, labels)
    count, inputs = rows.shape
    learn = inputs if trained is None else whole_number("trained", trained, 1)
    if learn > inputs:
        raise BadInput(f"{trained} trained directions of {inputs}", f"use at most {inputs}")
    steps = np.rint(grid * inputs).astype(np.int64)
    work = 4.0 * count * inputs**2 * float(steps[-1])  # all fits of the jackknife together
    gaussian_rows = work > POLICY.most_work
    student = _Student(lr, variance, learn, steps)
    whole = LabelModel.of(rows, y)
    gaussian = student.gaussian(whole)
    if gaussian_rows:
        notes.append("rows × N² × steps is too much for the moments of the rows; Gaussian rows are assumed")
    value = gaussian if gaussian_rows else student.exact(whole)
    error = _jackknife(rows, y, student, gaussian_rows)
    diverged = not np.isfinite(value).all() or value.max() > POLICY.growth * max(value[0], 1e-300)
    if diverged:
        notes = ["SGD diverges on these rows; lower the learning rate", *notes]
        value, error = (np.nan_to_num(part, nan=np.inf, posinf=np.inf) for part in (value, error))
    simulation = None
    if whole_number("simulate", simulate, 0):
        simulation = _simulated(rows, y, student, range(seed, seed + simulate))
        notes += simulation.pop("notes")
    return LabelledCurve(
        value,
        error,
        Status.REFUSED if diverged else Status.WARNING if notes else Status.OK,
        {"rows": count, "inputs": inputs},
        error_kind="jackknife",
        reasons=notes,
        name="error on fresh rows",
        policy=POLICY.plain(),
        alpha=steps / inputs,
        spectrum=whole.values,
        power=whole.power,
        noise=whole.noise,
        label_variance=float(y @ y / count),
        gaussian=gaussian,
        gaussian_rows=gaussian_rows,
        simulation=simulation,
    )


def prepare(data: ArrayLike, labels: ArrayLike) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """ξ and y: rows on their principal axes with mean variance one, labels less their mean; and what was left out."""
    try:
        rows, y = np.asarray(data, dtype=float), np.asarray(labels, dtype=float)
    except (TypeError, ValueError):
        raise BadInput("rows or labels are not numbers", "give classes as numbers, like −1 and 1") from None
    if rows.ndim != 2 or y.shape != rows.shape[:1]:
        raise BadInput(f"data of shape {rows.shape}, labels of shape {y.shape}", "give (n, d) and (n,)")
    if not (np.isfinite(rows).all() and np.isfinite(y).all()):
        raise BadInput("data or labels have values that are not finite", "leave out or fill in those examples")
    if len(rows) < 2 or not np.ptp(y) > 0:
        raise BadInput("all labels are equal", "give labels to learn")
    centred, y = rows - rows.mean(axis=0), y - y.mean()
    _, scales, basis = np.linalg.svd(centred, full_matrices=False)
    kept = scales**2 > POLICY.smallest * scales[0] ** 2
    if not kept.any():
        raise BadInput("all rows are equal", "give rows that differ")
    inputs = int(kept.sum())
    if len(rows) < POLICY.rows_per_input * inputs:
        raise BadInput(
            f"{len(rows)} rows in {inputs} directions", f"give at least {POLICY.rows_per_input:g} rows per direction"
        )
    axes = centred @ basis[kept].T
    lost = rows.shape[1] - inputs
    notes = [f"{lost} directions without variance are left out"] if lost else []
    return axes / np.sqrt(np.mean(axes**2)), y, notes


@dataclass(frozen=True, eq=False)
class LabelModel:
    """What rows and labels say about fresh ones: y = B·ξ/√N + e.

    ``outer`` is BBᵀ without the noise of the fit; ``residuals`` have the variance of fresh ones.
    """

    rows: np.ndarray
    values: np.ndarray
    weights: np.ndarray
    outer: np.ndarray
    residuals: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, y: np.ndarray) -> LabelModel:
        count, inputs = rows.shape
        values = np.mean(rows**2, axis=0)  # on principal axes the covariance is diagonal
        design = rows / np.sqrt(inputs)
        inverse = np.linalg.pinv(design.T @ design, hermitian=True)
        weights = inverse @ (design.T @ y)
        leverage = np.einsum("ij,jk,ik->i", design, inverse, design)
        raw = y - design @ weights
        residuals = raw / np.sqrt(np.maximum(1 - leverage - 1 / count, 0.5 / count))  # 1/n is that of the mean
        spread = design * residuals[:, None]
        scatter = inverse @ (spread.T @ spread) @ inverse
        return cls(rows, values, weights, np.outer(weights, weights) - scatter, residuals)

    @property
    def power(self) -> np.ndarray:
        """Variance of the label explained by each direction."""
        return self.values * np.diagonal(self.outer) / len(self.values)

    @property
    def noise(self) -> float:
        """Variance of what no linear student explains."""
        return float(np.mean(self.residuals**2))


@dataclass(frozen=True, eq=False)
class _Student:
    """A linear student and when it is looked at."""

    lr: float
    variance: float
    learn: int
    steps: np.ndarray

    def gaussian(self, model: LabelModel) -> np.ndarray:
        """The error for Gaussian rows with this spectrum, power and noise."""
        start = self.variance + np.diagonal(model.outer)
        return gaussian_errors(model.values, start, model.noise, self.lr, self.steps, self.learn)

    def exact(self, model: LabelModel) -> np.ndarray:
        """The error with the moments of the rows themselves, step by step."""
        count, inputs = model.rows.shape
        rate = self.lr / inputs
        moving = (np.arange(inputs) < self.learn).astype(float)
        decay = rate * model.values * moving
        rows, residuals = model.rows, model.residuals
        squares, crossed = residuals**2, 2 * residuals / np.sqrt(inputs)
        m = -model.weights.copy()
        C = model.outer + self.variance * np.eye(inputs)
        errors, at = np.full(len(self.steps), np.nan), 0
        moved = rows * moving * np.sqrt(self.lr * rate / count)
        for place, target in enumerate(self.steps):
            while at <= target:
                rho = squares - crossed * (rows @ m) + np.einsum("ij,ij->i", rows @ C, rows) / inputs
                if at == target:
                    errors[place] = rho.mean() / 2
                    break
                if not abs(rho[0]) < 1e100:
                    return errors
                C = C - decay[:, None] * C - C * decay[None] + (moved * rho[:, None]).T @ moved
                m = m - decay * m
                at += 1
        return errors


def _jackknife(rows: np.ndarray, y: np.ndarray, student: _Student, gaussian_rows: bool) -> np.ndarray:
    """The error of the curve by what other rows would have given: groups of rows left out in turn."""
    groups = np.random.default_rng(0).permutation(len(rows)) % POLICY.groups
    parts = []
    for group in range(POLICY.groups):
        kept = groups != group
        model = LabelModel.of(rows[kept], y[kept])
        parts.append(student.gaussian(model) if gaussian_rows else student.exact(model))
    apart = np.stack(parts) - np.mean(parts, axis=0)
    return np.sqrt((POLICY.groups - 1) / POLICY.groups * np.sum(apart**2, axis=0))


def _simulated(rows: np.ndarray, y: np.ndarray, student: _Student, seeds: range) -> dict[str, Any]:
    """One-pass SGD over the rows in random orders, each tested on rows it does not see; NaN where rows have run out."""
    count, inputs = rows.shape
    tested = max(round(POLICY.held_out * count), 1)
    most = count - tested
    orders, weights = [], []
    for seed in seeds:
        rng = np.random.default_rng([seed, 1])
        orders.append(rng.permutation(count))
        weights.append(np.sqrt(student.variance) * rng.normal(size=inputs))
    order, J = np.stack(orders), np.stack(weights)
    moving = np.arange(inputs) < student.learn
    errors, at = np.full((len(order), len(student.steps)), np.nan), 0
    for place, target in enumerate(student.steps[student.steps <= most]):
        for now in range(at, int(target)):
            example = rows[order[:, tested + now]]
            residual = y[order[:, tested + now]] - np.sum(J * example, axis=1) / np.sqrt(inputs)
            J = J + student.lr * residual[:, None] * (example * moving) / np.sqrt(inputs)
        at = int(target)
        for number, one in enumerate(order):
            held = one[:tested]
            errors[number, place] = np.mean((y[held] - rows[held] @ J[number] / np.sqrt(inputs)) ** 2) / 2
    ran_out = int(np.sum(student.steps > most))
    notes = [f"the rows run out at α = {most / inputs:.4g}; {ran_out} later points are not simulated"]
    spread = errors.std(axis=0, ddof=1) / np.sqrt(len(order)) if len(order) > 1 else np.full(len(student.steps), np.nan)
    return {"orders": len(order), "eps": errors.mean(axis=0), "error": spread, "notes": notes if ran_out else []}
