"""How much data does theory ask for? Thresholds for features, learning curves and free energies, as counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phasecast.core.errors import BadInput, OutsideRegime
from phasecast.core.results import Measurement, Status
from phasecast.forecasting.planning.plan import NeedTable, PlanRow

FINEST = 400  # points of α on which a crossing of ε is looked for, evenly in log α
DELTAS, HIGHEST = 9, 8.0  # values of δ that a simulation tries, from δ*(0) on; nine in ten succeed at 4 to 5 δ*(0)
REPEATS = 200  # of the runs, for the error of n for 90%: itself good to 5%
LATE = 9.0  # odds of 90% success


def plan_feature(
    target: str,
    *,
    dimension: int,
    activation: str = "gelu",
    loss: str = "pseudo-huber",
    lr: float = 0.5,
    time: float | None = None,
    simulate: int = 0,
    # wide signature: the words of ``phasecast threshold``, with the dimension
) -> NeedTable:
    """Examples that a network needs to find the hidden directions of a target in ``dimension`` inputs.

    ``time`` adds δ*(t), and δ_NN at infinity, which takes a minute or more. ``simulate`` seeds of
    gradient descent at nine δ give δ₅₀ and the numbers for 50% and 90% success at this d.
    """
    from phasecast.features import algorithmic_threshold, threshold

    if dimension < 2:
        raise BadInput(f"the dimension is {dimension}", "use at least 2")
    times = [("δ*(0)", 0.0, "before the first step: the curvature of the loss shows the direction from here on")]
    if time == math.inf:
        times.append(("δ_NN", math.inf, "for long training: gradient descent detects the direction from here on"))
    elif time is not None:
        times.append((f"δ*({time:g})", time, f"after {time:g} steps of gradient descent"))
    lines, first = [], math.nan
    for name, at, meaning in times:
        found = threshold(target, activation, loss, lr=lr, time=at)
        lines.append(PlanRow.of(name, found, f"examples per dimension; {meaning}"))
        lines.append(PlanRow.of(f"n at {name}", found, f"examples in d = {dimension}", dimension))
        first = float(found.estimate) if at == 0 and found.status is not Status.REFUSED else first
    try:
        best = algorithmic_threshold(target)
        lines.append(PlanRow.of("δ_alg", best, "examples per dimension of the best fast algorithm known"))
        lines.append(PlanRow.of("n at δ_alg", best, f"examples in d = {dimension}", dimension))
    except OutsideRegime as problem:
        lines.append(PlanRow("δ_alg", None, math.nan, str(problem)))
    if simulate:
        lines += _simulated(target, activation, loss, lr, dimension, simulate, first)
    notes = ["δ = n/d for d → ∞; at finite d, δ₅₀(d) by simulation lies above (--simulate SEEDS)"]
    return NeedTable(f"How many examples does a network need to find the directions of {target}?", lines, notes)


def _simulated(
    target: str, activation: str, loss: str, lr: float, dimension: int, seeds: int, start: float
) -> list[PlanRow]:
    from phasecast.features import Network, half_success, successes

    if not math.isfinite(start):
        return [PlanRow("δ₅₀", None, math.nan, "δ*(0) is not known, so there is nowhere to look")]
    deltas = start * np.geomspace(1.0, HIGHEST, DELTAS)
    network = Network(activation, loss)
    won = [
        np.isfinite(successes(network, target, delta, lr, dimension=dimension, seeds=seeds)).sum() for delta in deltas
    ]
    half = half_success(deltas, won, np.full(DELTAS, seeds))
    meaning = f"gradient descent in d = {dimension}, {seeds} seeds at each of {DELTAS} δ"
    lines = [PlanRow.of("δ₅₀", half, f"half of the runs succeed; {meaning}")]
    if half.status is not Status.REFUSED:
        late, error = late_success(deltas, half, seeds)
        lines.append(PlanRow.of("n for 50%", half, f"examples in d = {dimension}", dimension))
        lines.append(PlanRow("n for 90%", late * dimension, error * dimension, f"examples in d = {dimension}"))
    return lines


def late_success(deltas: np.ndarray, half: Measurement[float], seeds: int) -> tuple[float, float]:
    """δ₉₀ of a logistic share of successes, and its standard error by runs drawn again from that share."""
    from phasecast.features import half_success

    def late(one: Measurement[float]) -> float:
        return float(one) * LATE ** float(one.diagnostics["width"])

    drive = np.log(deltas / float(half)) / float(half.diagnostics["width"])
    won = np.random.default_rng(0).binomial(seeds, 1 / (1 + np.exp(-drive)), size=(REPEATS, len(deltas)))
    again = [half_success(deltas, row, np.full(len(deltas), seeds)) for row in won]
    each = [late(one) for one in again if one.status is not Status.REFUSED]
    return late(half), float(np.std(each)) if len(each) > REPEATS // 2 else math.nan


@dataclass(frozen=True)
class CurveSetting:
    """The networks and data of a learning curve; the words of ``phasecast curve``."""

    students: int = 2
    teachers: int = 2
    modes: int = 1
    exponent: float = 0.0
    lr: float = 0.1
    inputs: int | None = None
    sigma: float = 0.01
    draws: int = 5
    seed: int = 0


def plan_curve(setting: CurveSetting, eps: Sequence[float], *, up_to: float) -> NeedTable:
    """Examples per input α until the generalisation error is at most ε, by the order-parameter equations."""
    from phasecast import online

    if not up_to > 1:
        raise BadInput(f"the largest α is {up_to:g}", "use a number above 1")
    grid = np.geomspace(min(0.1, up_to / FINEST), up_to, FINEST)
    curve = online.curve(**vars(setting), alphas=grid)
    if curve.status is Status.REFUSED:
        raise BadInput("; ".join(curve.reasons), "change the setting")
    errors, spread = np.asarray(curve.estimate), np.asarray(curve.spread)
    inputs = setting.inputs or setting.modes
    lines = []
    for level in eps:
        at = crossing(grid, errors, level)
        low, high = (crossing(grid, errors + side * spread, level) for side in (-1, 1))
        if at is None:
            lines.append(PlanRow(f"α for ε = {level:g}", None, math.nan, f"not reached by α = {up_to:g}: increase it"))
            continue
        width = ((up_to if high is None else high) - (at if low is None else low)) / 2
        lines.append(
            PlanRow(f"α for ε = {level:g}", at, width, "examples per input; the error is the spread over draws")
        )
        lines.append(PlanRow(f"n for ε = {level:g}", at * inputs, width * inputs, f"examples for {inputs} inputs"))
    return NeedTable("How many examples until the generalisation error is small enough?", lines, list(curve.reasons))


def crossing(grid: np.ndarray, values: np.ndarray, level: float) -> float | None:
    """Where a curve is at most ``level`` for good, by interpolation in logs; None if it is not at the end.

    >>> round(crossing(np.array([1.0, 10.0, 100.0]), np.array([1.0, 0.1, 0.01]), 0.1), 9)
    10.0
    """
    if not level > 0:
        raise BadInput(f"ε is {level:g}", "use a positive error")
    above = np.flatnonzero(values > level)
    if above.size == 0:
        return float(grid[0])
    last = int(above[-1])
    if last + 1 == len(values):
        return None
    x, y = np.log(grid[last : last + 2]), np.log(np.maximum(values[last : last + 2], np.finfo(float).tiny))
    share = (y[0] - math.log(level)) / (y[0] - y[1])
    return float(np.exp(x[0] + share * (x[1] - x[0])))


@dataclass(frozen=True)
class Measured:
    """A Bayesian model as measured at some n and β: λ̂ with its error, its loss per example and, if known, ν̂."""

    coefficient: float
    error: float = 0.0
    loss: float = 0.0
    fluctuation: float | None = None
    """ν, the singular fluctuation at ``beta``; half the number of parameters for a regular model."""
    fluctuation_error: float = 0.0
    beta: float = 1.0


def plan_posterior(
    model: Measured, *, sizes: Sequence[float] = (), errors: Sequence[float] = (), other: Measured | None = None
) -> NeedTable:
    """What λ̂ and ν̂ say about other sample sizes: errors of the posterior at n′, and which of two models wins.

    To leading order, above the loss of the best parameter (Watanabe 2009, chapter 6):

    .. math:: n\\,E[G] = \\frac{\\lambda-\\nu}{\\beta} + \\nu, \\quad
              n\\,E[T] = \\frac{\\lambda-\\nu}{\\beta} - \\nu, \\quad n\\,E[G_{Gibbs}] = \\frac{\\lambda}{\\beta} + \\nu

    for the predictive distribution on fresh and on training examples, and for one draw of the posterior. At β = 1 the
    first is λ/n, without ν. Two models cross where n ΔL = Δλ ln n.
    """
    from phasecast.coefficients import Basin, Coefficient, critical_sample_size

    if not 0 < model.coefficient < math.inf:
        raise BadInput(f"λ is {model.coefficient:g}", "use a positive coefficient")
    numbers = (*sizes, *errors)
    if not all(0 < number < math.inf for number in numbers) or not 0 <= model.error < math.inf:
        raise BadInput("a size or an error is not positive and finite", "use positive numbers")
    if not 0 < model.beta < math.inf:
        raise BadInput(f"β is {model.beta:g}", "use a positive inverse temperature")
    if model.fluctuation is None and model.beta != 1:
        raise BadInput(f"β is {model.beta:g} and ν is not given", "give ν (--fluctuation), or use β = 1")
    if model.fluctuation is not None and not 0 < model.fluctuation < math.inf:
        raise BadInput(f"ν is {model.fluctuation:g}", "use a positive fluctuation")
    level_at_one, error_at_one = _times_n(model, 1.0, 1.0)
    lines = []
    for n in sizes:
        meaning = "expected log loss above the best parameter, fresh examples"
        lines.append(PlanRow(f"error at n = {n:g}", level_at_one / n, error_at_one / n, meaning))
        if model.fluctuation is not None:
            trained, gibbs = _times_n(model, 1.0, -1.0), _times_n(model, 0.0, 1.0)
            lines.append(PlanRow(f"on training examples, n = {n:g}", trained[0] / n, trained[1] / n, "the same, seen"))
            lines.append(
                PlanRow(f"of one posterior draw, n = {n:g}", gibbs[0] / n, gibbs[1] / n, "without averaging over w")
            )
    lines += [
        PlanRow(f"n for error {level:g}", level_at_one / level, error_at_one / level, "examples") for level in errors
    ]
    if other is not None:
        basins = [Basin(one.loss, Coefficient(one.coefficient)) for one in (model, other)]
        lines.append(_critical(critical_sample_size(*basins)))
    if not lines:
        raise BadInput("nothing is asked", "give sizes, errors, or another model")
    return NeedTable(
        "What does λ say about other numbers of examples?", lines, ["leading order in n, realisable models"]
    )


def _times_n(model: Measured, averaged: float, fresh: float) -> tuple[float, float]:
    """n times an expected error, (λ − averaged·ν)/β + fresh·ν, and its standard error."""
    nu, nu_error = model.fluctuation or 0.0, model.fluctuation_error
    by_nu = fresh - averaged / model.beta
    value = model.coefficient / model.beta + by_nu * nu
    return value, math.hypot(model.error / model.beta, by_nu * nu_error)


def _critical(found: Measurement) -> PlanRow:
    winners = found.diagnostics.get("winners", [])
    names = {"a": "this model", "b": "the other"}
    words = f"below it {names[winners[0]]} wins, above it {names[winners[-1]]}" if len(winners) > 1 else ""
    return PlanRow.of("critical n", found, words)
