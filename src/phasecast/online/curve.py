"""The whole forecast for one setting: the curve with its spread over draws, plateau, escape, and the end of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from phasecast.core import codec
from phasecast.core.errors import BadInput, whole_number
from phasecast.core.results import Status, show
from phasecast.online.asymptotic_decay import asymptotic_rates, max_learning_rate, scaling_exponent
from phasecast.online.dynamics import ACTIVATIONS, Activation, solve_many
from phasecast.online.learning_curve import Curve, check_alphas, mean_curve
from phasecast.online.linear import sgd_stability_limit, stability_limit
from phasecast.online.order_parameters import OrderParameters
from phasecast.online.plateau import escape_time, plateau
from phasecast.online.spectrum import Spectrum

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEFT = 0.9  # of its height: below this ε has left the plateau


@dataclass(frozen=True, eq=False, kw_only=True)
class Forecast(Curve):
    """ε(α) averaged over draws of student and teacher, with what theory says about its parts.

    ``error`` is the standard error of the mean over draws, ``spread`` the standard deviation between them.
    ``plateau``, ``escape``, ``slope`` and ``simulation`` are small tables; empty where they do not apply.
    """

    spread: np.ndarray = field(default_factory=lambda: np.empty(0))
    spectrum: dict[str, Any] = field(default_factory=dict)
    plateau: dict[str, Any] = field(default_factory=dict)
    escape: dict[str, Any] = field(default_factory=dict)
    slope_at_end: dict[str, Any] = field(default_factory=dict)
    simulation: dict[str, Any] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        whole = super().plain()
        parts = {
            "eps": whole["value"],
            "spread": self.spread,
            "spectrum": self.spectrum,
            "plateau": self.plateau or None,
            "escape": self.escape or None,
            "slope": self.slope_at_end or None,
            "simulation": self.simulation or None,
        }
        return {**whole, **{name: codec.plain(part) for name, part in parts.items()}}

    def _rows(self) -> list[tuple[str, str]]:
        shown = np.unique(np.linspace(0, self.alpha.size - 1, min(self.alpha.size, 8)).astype(int))
        errors = np.broadcast_to(np.asarray(self.error), self.alpha.shape)
        estimate = np.asarray(self.estimate)
        rows = [(f"ε({self.alpha[at]:g})", show(float(estimate[at]), float(errors[at]))) for at in shown]
        if self.plateau:
            rows.append(("plateau ε*", f"{self.plateau['eps']:.6g}, spread over draws {self.plateau['spread']:.1g}"))
        if self.escape:
            left = self.escape["left_at"]
            seen = f"; left at α = {left:.4g}" if math.isfinite(left) else "; not left within α"
            rows.append(("escape time τ of r", f"{self.escape['tau']:.6g}, of ε {self.escape['tau_of_eps']:.6g}{seen}"))
        if self.slope_at_end:
            expected = self.slope_at_end["predicted"]
            beside = (
                ""
                if expected is None
                else "; −β/(1+β) = {:.4g}, to be seen for {:.3g} ≪ α ≪ {:.3g}".format(
                    expected, *self.slope_at_end["window"]
                )
            )
            rows.append(("slope at the end", f"{self.slope_at_end['measured']:.4g}{beside}"))
        if self.simulation:
            rows.append(("SGD at the last α", show(self.simulation["eps"][-1], self.simulation["error"][-1])))
        return [*rows, ("status", str(self.status)), *(("reason", reason) for reason in self.reasons)]

    def figure(self) -> Figure:
        """The curve with its spread, the plateau dashed, and SGD as points where it was run."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.0, 4.0), layout="constrained")
        axes = figure.add_subplot()
        eps = np.asarray(self.estimate)
        axes.plot(self.alpha, eps, color="#0072B2", label="ε, mean over draws")
        low = np.maximum(eps - self.spread, eps / 10)
        axes.fill_between(
            self.alpha, low, eps + self.spread, color="#0072B2", alpha=0.2, lw=0, label="spread over draws"
        )
        if self.plateau:
            axes.axhline(self.plateau["eps"], ls="--", color="#888888", lw=1, label="plateau ε*")
        if self.simulation:
            error = self.simulation["error"]
            axes.errorbar(self.alpha, self.simulation["eps"], yerr=error, fmt="o", ms=3, color="#D55E00", label="SGD")
        axes.set_yscale("log")
        axes.set_xlabel("examples per input α")
        axes.set_ylabel("generalisation error ε")
        axes.legend()
        return figure


def curve(
    students: int = 2,
    teachers: int = 2,
    *,
    modes: int | None = None,
    exponent: float | None = None,
    spectrum: Spectrum | None = None,
    lr: float,
    sigma: float = 0.01,
    inputs: int | None = None,
    draws: int = 5,
    seed: int = 0,
    alphas: Any,
    order: int = 1,
    activation: Activation = "erf",
    simulate: int = 0,
) -> Forecast:
    """Forecast a learning curve: ε over α from the order-parameter equations, and what its parts should be.

    Give ``modes`` and ``exponent`` (β), or a ``spectrum``. ``sigma`` is the standard deviation of the student's
    weights, ``inputs`` N (a multiple of the modes; one a mode if not given), ``simulate`` a number of seeds of SGD.

    >>> found = curve(modes=4, exponent=1.0, lr=0.5, inputs=400, draws=2, alphas=[1, 30])
    >>> str(found.status), found.plateau["eps"] > 0.005
    ('ok', True)
    """
    grid = check_alphas(alphas)
    chosen = _spectrum(modes, exponent, spectrum)
    count = chosen.modes if inputs is None else inputs
    whole_number("draws", draws, 1)
    whole_number("simulate", simulate, 0)
    if activation not in ACTIVATIONS:
        raise BadInput(f"unknown activation '{activation}'", f"choose one of: {', '.join(ACTIVATIONS)}")
    warnings = _stability(students, teachers, chosen, lr, activation, count)
    starts = [
        OrderParameters.draw(students, teachers, chosen, inputs=count, sigma=sigma, seed=seed + number)
        for number in range(draws)
    ]
    curves = solve_many(starts, chosen, lr, grid, activation, order)
    refused = [one for one in curves if one.status is Status.REFUSED]
    if refused:
        reasons = [f"{len(refused)} of {len(curves)} draws: {refused[0].reasons[0]}"]
        estimate = np.mean([np.asarray(one.estimate) for one in curves], axis=0)
        return _forecast(
            estimate, np.zeros(grid.size), Status.REFUSED, reasons, draws, grid, np.zeros(grid.size), chosen
        )
    mean = mean_curve(curves)
    spread = np.std([one.eps for one in curves], axis=0, ddof=1) if draws > 1 else np.zeros(grid.size)
    reasons = list(dict.fromkeys([*warnings, *mean.reasons, *(reason for one in curves for reason in one.reasons)]))
    parts: dict[str, Any] = {"slope_at_end": _slope(mean, chosen, students, teachers, lr, activation)}
    if activation == "erf" and students > 1:
        parts["plateau"], parts["escape"] = _plateau(starts, curves, chosen, lr)
    if simulate:
        parts["simulation"] = _simulation(
            simulate, students, teachers, chosen, lr, grid, count, sigma, seed, activation, curves
        )
    status = Status.WARNING if reasons else Status.OK
    return _forecast(mean.eps, mean.error, status, reasons, draws, grid, spread, chosen, mean.error_kind, **parts)


def _forecast(
    eps: Any, error: Any, status: Status, reasons: list[str], draws: int, grid: np.ndarray, spread: np.ndarray,
    spectrum: Spectrum, error_kind: str = "seeds", **parts: Any,
) -> Forecast:  # fmt: skip
    return Forecast(
        eps, error, status, {"draws": draws}, reasons=reasons, error_kind=error_kind, name="learning curve", alpha=grid,
        spread=spread, spectrum=spectrum.plain(), **parts,
    )  # fmt: skip


def _spectrum(modes: int | None, exponent: float | None, spectrum: Spectrum | None) -> Spectrum:
    if spectrum is not None:
        if modes is not None or exponent is not None:
            raise BadInput("both a spectrum and modes or an exponent are given", "give one of them")
        return spectrum
    if modes is None or exponent is None:
        raise BadInput("the spectrum is not given", "give modes and exponent, or data")
    return Spectrum.power_law(modes, exponent)


def _stability(students: int, teachers: int, spectrum: Spectrum, lr: float, activation: str, inputs: int) -> list[str]:
    """Bad input above the limit for N → ∞; a warning above that of N inputs, which is known for linear students.

    Linear students err by ΣB − (M/K)ΣJ, which learns like a single one with the rate ηM/K.
    """
    if not (math.isfinite(lr) and lr > 0):
        raise BadInput(f"the learning rate is {lr:g}", "use η > 0")
    if activation == "linear":
        limit = float(stability_limit(spectrum).value) * students / teachers
    elif students == teachers:
        limit = float(max_learning_rate(teachers, spectrum).value)
    else:
        limit = math.inf
    if lr >= limit * (1 - 1e-12):
        raise BadInput(f"the learning rate {lr:g} is above the stability limit", f"use η < {limit:.6g}")
    if activation == "linear":
        finite = float(sgd_stability_limit(spectrum, inputs).value) * students / teachers
        if lr >= finite:
            return [f"SGD with {inputs} inputs diverges from η = {finite:.4g} on; this curve is for N → ∞"]
    return []


def _plateau(starts: list[OrderParameters], curves: list[Curve], spectrum: Spectrum, lr: float):
    heights, times, left = [], [], []
    for start, one in zip(starts, curves, strict=True):
        T1, T2 = start.moment(1, spectrum).T, start.moment(2, spectrum).T
        heights.append(plateau(T1).eps)
        times.append(float(escape_time(T1, T2, lr, start.shape[1]).value))
        left.append(one.first_below(LEFT * heights[-1]))
    wide = len(starts) > 1
    tau, between = float(np.mean(times)), float(np.std(times, ddof=1)) if wide else 0.0
    height = {"eps": float(np.mean(heights)), "spread": float(np.std(heights, ddof=1)) if wide else 0.0}
    return height, {"tau": tau, "spread": between, "tau_of_eps": tau / 2, "left_at": float(np.median(left))}


def _slope(mean: Curve, spectrum: Spectrum, students: int, teachers: int, lr: float, activation: str) -> dict[str, Any]:
    """The slope of log ε over log α in the last third of the grid, beside −β/(1+β) and its window."""
    last = mean.alpha.size - max(mean.alpha.size // 3, 3)
    alpha, eps = mean.alpha[max(last, 0) :], mean.eps[max(last, 0) :]
    seen = (alpha > 0) & (eps > 0)
    if np.sum(seen) < 3:
        return {}
    rates = 2 * lr * teachers / students * spectrum.eigenvalues
    if activation == "erf":
        rates = asymptotic_rates(teachers, spectrum, lr)[0] if students == teachers else np.array([math.nan])
    return {
        "measured": float(np.polyfit(np.log(alpha[seen]), np.log(eps[seen]), 1)[0]),
        "predicted": None if spectrum.exponent is None else scaling_exponent(spectrum.exponent),
        "window": (float(1 / rates.max()), float(1 / rates.min())),
    }


def _simulation(
    seeds, students, teachers, spectrum, lr, grid, inputs, sigma, seed, activation, curves
) -> dict[str, Any]:
    from phasecast.online.sgd import simulate

    runs = simulate(
        students, teachers, spectrum, lr, grid, inputs=inputs, sigma=sigma, seeds=range(seed, seed + seeds),
        activation=activation,
    )  # fmt: skip
    mean = mean_curve(runs)
    pairs = [(run.eps, one.eps) for run, one in zip(runs, curves, strict=False)]
    off = float(np.max([np.max(abs(run / one - 1)) for run, one in pairs]))
    return {"seeds": seeds, "eps": mean.eps, "error": np.asarray(mean.error), "largest_relative_gap": off}
