"""How will this student learn? The learning curve with its spread over draws, plateau, escape, and final slope."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core import codec
from phasecast.core.bounds import check_bounds, check_memory
from phasecast.core.errors import BadInput, whole_number
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Status, show
from phasecast.figures.style import styled
from phasecast.online.asymptotic_decay import asymptotic_rates, max_learning_rate, scaling_exponent
from phasecast.online.curve_parts import POLICY as PARTS_POLICY
from phasecast.online.curve_parts import Stretch, flat_stretch, left_at, straight_stretch
from phasecast.online.curve_result import Curve, check_alphas, mean_curve
from phasecast.online.dynamics import ACTIVATIONS, Activation, solve_many
from phasecast.online.dynamics import POLICY as SOLVER_POLICY
from phasecast.online.linear import sgd_stability_limit, stability_limit
from phasecast.online.order_parameters import OrderParameters
from phasecast.online.plateau import escape_time, plateau
from phasecast.online.spectrum import Spectrum
from phasecast.progress import report_step, shows_progress

if TYPE_CHECKING:
    import pandas as pd

    from phasecast.figures.drawing import Drawing


@dataclass(frozen=True)
class ForecastPolicy(Policy):
    """What counts as the end of a curve, and whose plateau is that of the mean."""

    end_share: int = rule(3, "chosen: the slope at the end is fitted to the last third of the grid")
    fewest_points: int = rule(3, "a straight line through two points has no residual")
    most_draws: float = rule(0.5, "a median over draws needs half of them: share of draws that must rest on a plateau")


POLICY = ForecastPolicy()


class PlateauSummary(TypedDict):
    """Height ε* of the symmetric plateau: mean and standard deviation over draws."""

    eps: float
    spread: float


class EscapeSummary(TypedDict):
    """Escape time τ of the differences between students, that of ε, and what the curves show of a plateau.

    ``on_plateau`` is the range of α in which ε rests, ``left_at`` the α at which it leaves (∞ if not within the grid):
    medians over the draws that have a plateau, and None, with the ``reason``, if fewer than half of them have one.
    """

    tau: float
    spread: float
    tau_of_eps: float
    draws_with_plateau: int
    on_plateau: tuple[float, float] | None
    left_at: float | None
    reason: str


class SlopeSummary(TypedDict):
    """d log ε / d log α at the end of the grid and, for a power-law spectrum, −β/(1+β).

    ``window`` is the range of α in which the curve shows that exponent, None with the ``reason`` if it does not;
    ``expected_window`` is between the inverse rates of the first and the last mode.
    """

    measured: float
    predicted: float | None
    window: tuple[float, float] | None
    expected_window: tuple[float, float]
    reason: str


class SimulationSummary(TypedDict):
    """Mean and standard error of SGD over seeds, and its largest relative distance from the solved curves."""

    seeds: int
    eps: np.ndarray
    error: np.ndarray
    largest_relative_gap: float


class _Setting(NamedTuple):
    """One experiment: network, data, learning rate and starts."""

    students: int
    teachers: int
    spectrum: Spectrum
    lr: float
    grid: np.ndarray
    inputs: int
    sigma: float
    seed: int
    activation: Activation


@dataclass(frozen=True, eq=False, kw_only=True)
class CurveForecast(Curve):
    """ε(α) averaged over draws of student and teacher, with what theory predicts about its parts.

    ``error`` is the standard error of the mean over draws, ``spread`` the standard deviation between them.
    ``plateau``, ``escape``, ``slope_at_end`` and ``simulation`` are small tables; None if they do not apply.
    """

    spread: np.ndarray = field(default_factory=lambda: np.empty(0))
    spectrum: dict[str, Any] = field(default_factory=dict)
    plateau: PlateauSummary | None = None
    escape: EscapeSummary | None = None
    slope_at_end: SlopeSummary | None = None
    simulation: SimulationSummary | None = None

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
            escape = self.escape
            rows.append(("escape time τ of r", f"{escape['tau']:.6g}, of ε {escape['tau_of_eps']:.6g}"))
            rows.append(("plateau seen", _seen(escape)))
        if self.slope_at_end:
            rows.append(("slope at the end", f"{self.slope_at_end['measured']:.4g}"))
            if self.slope_at_end["predicted"] is not None:
                rows.append((f"power law α^{self.slope_at_end['predicted']:.4g}", _law(self.slope_at_end)))
        if self.simulation:
            rows.append(("SGD at the last α", show(self.simulation["eps"][-1], self.simulation["error"][-1])))
        return [*rows, ("status", str(self.status)), *(("reason", reason) for reason in self.reasons)]

    def table(self) -> pd.DataFrame:
        """One line per α: mean, error and spread over draws, and SGD with its error if it was run."""
        frame = super().table().assign(spread=self.spread)
        if self.simulation:
            frame = frame.assign(sgd=self.simulation["eps"], sgd_error=self.simulation["error"])
        return frame

    @styled
    def figure(self) -> Drawing:
        """The curve with its spread, SGD as points if it was run, plateau and power law where the curve shows them."""
        from phasecast.figures.drawing import COLOURS, EXACT, blank, legend

        figure, ((axes,),) = blank(width=6.0, height=4.0)
        eps = np.asarray(self.estimate)
        axes.plot(self.alpha, eps, color=COLOURS[0], label="ε, mean over draws")
        low, high = np.maximum(eps - self.spread, eps / 10), eps + self.spread
        axes.fill_between(self.alpha, low, high, color=COLOURS[0], alpha=0.2, lw=0, label="spread over draws")
        if self.plateau and self.escape and self.escape["on_plateau"]:
            axes.axhline(self.plateau["eps"], **EXACT, label="plateau ε*")
            if math.isfinite(left := self.escape["left_at"] or math.inf):
                axes.axvline(left, color=COLOURS[2], lw=0.8, ls=":", label=f"left at α = {left:.4g}")
        if self.slope_at_end and self.slope_at_end["window"] and (power := self.slope_at_end["predicted"]):
            ends = np.asarray(self.slope_at_end["window"])
            line = np.interp(ends[0], self.alpha, eps) * (ends / ends[0]) ** power
            axes.plot(ends, 1.3 * line, color=COLOURS[3], lw=1.2, ls="--", label=f"slope −β/(1+β) = {power:.3g}")
            axes.set_xscale("log")
        if self.simulation:
            error = self.simulation["error"]
            axes.errorbar(self.alpha, self.simulation["eps"], yerr=error, fmt="o", ms=3, color=COLOURS[1], label="SGD")
        axes.set_yscale("log")
        axes.set_xlabel("examples per input α")
        axes.set_ylabel("generalisation error ε")
        legend(axes)
        return figure


@shows_progress("learning curve")
def curve(
    students: int = 2,
    teachers: int = 2,
    *,  # wide signature: documented API, the same keywords as the options of ``phasecast curve``
    modes: int | None = None,
    exponent: float | None = None,
    spectrum: Spectrum | None = None,
    lr: float,
    sigma: float = 0.01,
    inputs: int | None = None,
    draws: int = 5,
    seed: int = 0,
    alphas: ArrayLike,
    order: int = 2,
    activation: Activation = "erf",
    simulate: int = 0,
    progress: bool = True,
) -> CurveForecast:
    """Forecast a learning curve: ε over α from the order-parameter equations, and theory for its parts.

    Give ``modes`` and ``exponent`` (β), or a ``spectrum``. ``sigma`` is the standard deviation of the student's
    weights; ``inputs`` is N, a multiple of the modes, and defaults to one per mode; ``order=2`` is exact for N → ∞,
    ``order=1`` keeps O(η) only; ``simulate`` is the number of seeds of SGD to run as well. ``progress`` shows a line on
    stderr where it takes longer than two seconds.

    >>> forecast = curve(modes=4, exponent=1.0, lr=0.5, inputs=400, draws=2, alphas=[1, 30])
    >>> str(forecast.status), forecast.plateau["eps"] > 0.005
    ('ok', True)
    """
    grid = check_alphas(alphas)
    check_bounds(students=students, teachers=teachers, modes=modes, exponent=exponent, lr=lr, sigma=sigma)
    check_bounds(inputs=inputs, draws=draws, seed=seed, simulate=simulate, points=grid.size, alpha=float(grid[-1]))
    chosen = _spectrum(modes, exponent, spectrum)
    count = chosen.modes if inputs is None else inputs
    unknowns = students * (students + teachers) * chosen.modes
    kept = draws * (count * (students + teachers) + unknowns + grid.size) + unknowns * min(unknowns, grid.size)
    check_memory(8.0 * kept, "this curve", "use fewer units, modes, inputs, draws or points")
    whole_number("draws", draws, 1)
    whole_number("students", students, 1)
    whole_number("teachers", teachers, 1)
    whole_number("simulate", simulate, 0)
    if activation not in ACTIVATIONS:
        raise BadInput(f"unknown activation '{activation}'", f"choose one of: {', '.join(ACTIVATIONS)}")
    setting = _Setting(students, teachers, chosen, lr, grid, count, sigma, seed, activation)
    warnings = _stability(setting)
    starts = [
        OrderParameters.draw(students, teachers, chosen, inputs=count, sigma=sigma, seed=seed + number)
        for number in range(draws)
    ]
    report_step(f"solving the equations of {draws} draws")
    curves = solve_many(starts, chosen, lr, grid, activation, order)
    policy = {**POLICY.plain(), "parts": PARTS_POLICY.plain(), "solver": SOLVER_POLICY.plain()}
    common: dict[str, Any] = {"alpha": grid, "spectrum": chosen.plain(), "name": "learning curve", "policy": policy}
    refused = [one for one in curves if one.status is Status.REFUSED]
    if refused:
        reasons = [f"{len(refused)} of {len(curves)} draws: {refused[0].reasons[0]}"]
        estimate, none = np.mean([np.asarray(one.estimate) for one in curves], axis=0), np.zeros(grid.size)
        return CurveForecast(
            estimate, none, Status.REFUSED, {"draws": draws}, error_kind="seeds", reasons=reasons, spread=none, **common
        )
    mean = mean_curve(curves)
    reasons = list(dict.fromkeys([*warnings, *mean.reasons, *(reason for one in curves for reason in one.reasons)]))
    height, escape = _plateau(starts, curves, setting) if activation == "erf" and students > 1 else (None, None)
    return CurveForecast(
        mean.eps,
        mean.error,
        Status.WARNING if reasons else Status.OK,
        {"draws": draws},
        error_kind=mean.error_kind,
        reasons=reasons,
        spread=np.std([one.eps for one in curves], axis=0, ddof=1) if draws > 1 else np.zeros(grid.size),
        plateau=height,
        escape=escape,
        slope_at_end=_slope(mean, setting),
        simulation=_simulation(simulate, setting, curves) if simulate else None,
        **common,
    )


def _spectrum(modes: int | None, exponent: float | None, spectrum: Spectrum | None) -> Spectrum:
    if spectrum is not None:
        if modes is not None or exponent is not None:
            raise BadInput("both a spectrum and modes or an exponent are given", "give one of them")
        return spectrum
    if modes is None or exponent is None:
        raise BadInput("the spectrum is not given", "give modes and exponent, or data")
    return Spectrum.power_law(modes, exponent)


def _stability(setting: _Setting) -> list[str]:
    """Bad input above the limit for N → ∞; a warning above that of N inputs, which is known for linear students.

    The error of linear students is ΣB − (M/K)ΣJ, which learns like a single one with the rate ηM/K.
    """
    students, teachers, spectrum, lr = setting[:4]
    if not (math.isfinite(lr) and lr > 0):
        raise BadInput(f"the learning rate is {lr:g}", "use η > 0")
    if setting.activation == "linear":
        limit = float(stability_limit(spectrum)) * students / teachers
    elif students == teachers:
        limit = float(max_learning_rate(teachers, spectrum))
    else:
        limit = math.inf
    if lr >= limit * (1 - 1e-12):
        raise BadInput(f"the learning rate {lr:g} is above the stability limit", f"use η < {limit:.6g}")
    if setting.activation == "linear":
        finite = float(sgd_stability_limit(spectrum, setting.inputs)) * students / teachers
        if lr >= finite:
            return [f"SGD with {setting.inputs} inputs diverges from η = {finite:.4g} on; this curve is for N → ∞"]
    return []


def _plateau(
    starts: list[OrderParameters], curves: list[Curve], setting: _Setting
) -> tuple[PlateauSummary, EscapeSummary]:
    heights, times, rests, left = [], [], [], []
    for start, one in zip(starts, curves, strict=True):
        T1, T2 = start.moment(1, setting.spectrum).T, start.moment(2, setting.spectrum).T
        heights.append(plateau(T1).eps)
        times.append(float(escape_time(T1, T2, setting.lr, start.shape[1])))
        rests.append(flat_stretch(one, heights[-1], times[-1]))
        left.append(left_at(one, rests[-1]) if rests[-1].present else math.nan)
    several = len(starts) > 1
    tau, between = float(np.mean(times)), float(np.std(times, ddof=1)) if several else 0.0
    height: PlateauSummary = {
        "eps": float(np.mean(heights)),
        "spread": float(np.std(heights, ddof=1)) if several else 0.0,
    }
    resting = [rest for rest in rests if rest.present]
    shown = len(resting) >= POLICY.most_draws * len(rests)
    escape: EscapeSummary = {
        "tau": tau,
        "spread": between,
        "tau_of_eps": tau / 2,
        "draws_with_plateau": len(resting),
        "on_plateau": (_median([rest.first for rest in resting]), _median([rest.last for rest in resting]))
        if shown
        else None,
        "left_at": float(np.nanmedian(left)) if shown else None,
        "reason": "" if shown else next(rest.missing for rest in rests if not rest.present),
    }
    return height, escape


def _median(numbers: list[float]) -> float:
    return float(np.median(numbers))


def _seen(escape: EscapeSummary) -> str:
    if escape["on_plateau"] is None or escape["left_at"] is None:
        return f"no: {escape['reason']}"
    first, last = escape["on_plateau"]
    left = escape["left_at"]
    when = f"left at α = {left:.4g}" if math.isfinite(left) else "not left within α"
    return f"for α from {first:.4g} to {last:.4g}; {when}"


def _law(slope: SlopeSummary) -> str:
    if slope["window"] is None:
        return f"not seen: {slope['reason']}"
    first, last = slope["window"]
    return f"−β/(1+β), seen for α from {first:.3g} to {last:.3g}"


def _slope(mean: Curve, setting: _Setting) -> SlopeSummary | None:
    """The slope of log ε over log α in the last third of the grid, and where the curve has the slope −β/(1+β)."""
    students, teachers, spectrum, lr = setting[:4]
    last = mean.alpha.size - max(mean.alpha.size // POLICY.end_share, POLICY.fewest_points)
    alpha, eps = mean.alpha[max(last, 0) :], mean.eps[max(last, 0) :]
    positive = (alpha > 0) & (eps > 0)
    if np.sum(positive) < POLICY.fewest_points:
        return None
    rates = 2 * lr * teachers / students * spectrum.eigenvalues
    if setting.activation == "erf":
        rates = asymptotic_rates(teachers, spectrum, lr)[0] if students == teachers else np.array([math.nan])
    expected = (float(1 / rates.max()), float(1 / rates.min()))
    predicted = None if spectrum.exponent is None else scaling_exponent(spectrum.exponent)
    straight = (
        Stretch(missing="the spectrum has no exponent")
        if predicted is None
        else straight_stretch(mean, predicted, expected)
    )
    return {
        "measured": float(np.polyfit(np.log(alpha[positive]), np.log(eps[positive]), 1)[0]),
        "predicted": predicted,
        "window": (straight.first, straight.last) if straight.present else None,
        "expected_window": expected,
        "reason": straight.missing,
    }


def _simulation(seeds: int, setting: _Setting, curves: list[Curve]) -> SimulationSummary:
    """SGD from the weights of the draws, and how far it is from their solved curves."""
    from phasecast.online.sgd import simulate

    runs = simulate(
        setting.students,
        setting.teachers,
        setting.spectrum,
        setting.lr,
        setting.grid,
        inputs=setting.inputs,
        sigma=setting.sigma,
        seeds=range(setting.seed, setting.seed + seeds),
        activation=setting.activation,
    )
    mean = mean_curve(runs)
    pairs = [(run.eps, one.eps) for run, one in zip(runs, curves, strict=False)]
    gap = float(np.max([np.max(abs(run / one - 1)) for run, one in pairs]))
    return {"seeds": seeds, "eps": mean.eps, "error": np.asarray(mean.error), "largest_relative_gap": gap}
