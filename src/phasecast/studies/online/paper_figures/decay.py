"""Which figures about the end of learning hold? Figures 6 and 20 of Worschech & Rosenow 2024, with erf units."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from phasecast import online
from phasecast.core.errors import OutsideRegime
from phasecast.core.policy import Policy, rule
from phasecast.studies.online.paper_figures.lines import (
    ALPHA,
    EPS,
    NUMBERS,
    PREDICTED,
    PRINTED,
    SOLVED,
    Line,
    Panel,
    Piece,
    Plan,
    Quantity,
    Settings,
    listed,
    number,
    printed_number,
    single,
    width_of_bound,
)


@dataclass(frozen=True)
class DecayFigurePolicy(Policy):
    """How far a slope may be from its prediction."""

    exponent: float = rule(0.03, "chosen, not derived: width of −β/(1+β), a tenth of its smallest size 1/3")
    explicit_slope: float = rule(0.01, "chosen, not derived: width of the slope of the explicit sum")


POLICY = DecayFigurePolicy()
BEGINNINGS = (1000.0, 1500.0, 2000.0, 3000.0)  # α of the figure, and later ones for draws that are slower to learn
SINCE = "α since 1000, or the first of 1500, 2000 and 3000 where ε is small enough"


def figure_6(settings: Settings) -> Plan:
    """The end of learning: from random students, and from specialised students with L large relative to K.

    ε is a sum of two groups of rates, slow and fast, each of which falls like α^{−β/(1+β)} in a window of its own:
    between 1/(rate λ₊) and α_L = 1/(rate λ_L). Even inside both the exponent is only approached, like
    (α/α_L)^{β/(1+β)}: slowly if β is small. So the slope is compared with that of the sum itself at every β, and with
    the exponent too.
    """
    units, modes, lr, stop = (40, 512, 0.01, 5e4) if settings.paper else (6, 128, 0.05, 1e4)
    many, few = 1024, 2
    betas = (0.5, 0.75, 1.0, 1.25, 1.5) if settings.paper else (0.5, 1.0, 1.5)
    grids = np.geomspace(stop / 100, stop, 120), np.geomspace(0.5, 50, 60)

    def piece(group: int, panel: int) -> Piece:
        def compute() -> list[Line]:
            law, count, size = online.scaling_exponent(betas[group]), (units, few)[panel], (modes, many)[panel]
            spectrum, grid = online.Spectrum.power_law(size, betas[group]), grids[panel]
            start = (
                online.OrderParameters.draw(count, count, spectrum, inputs=size, sigma=1e-6, seed=settings.seed)
                if panel == 0
                else specialised(online.OrderParameters.infinite(count, count, spectrum, sigma=0.0))
            )
            rate, late = (lr, 0.1)[panel], grid > grid[-1] / (4 if panel == 0 else 10)
            eps, place = online.solve(start, spectrum, rate, grid).eps, 2 * group + panel
            drawn = [
                Line(panel, group, SOLVED, grid, eps),
                Line(panel, group, PRINTED, grid[late], eps[-1] * (grid[late] / grid[-1]) ** law),
                Line(NUMBERS, place, SOLVED, [0.0], [_slope(grid[late], eps[late])], compared=True),
                printed_number(place, law, POLICY.exponent),
            ]
            if panel:
                sums = np.asarray(online.asymptotic_curve(start, spectrum, rate, grid).value)
                slope = _slope(grid[late], sums[late])
                width = POLICY.explicit_slope
                drawn.append(Line(NUMBERS, place, PREDICTED, [0.0], [slope], systematic=width, compared=True))
                drawn.append(Line(panel, group, PREDICTED, grid, sums))
            return drawn

        return compute

    def explicit() -> list[Line]:
        return _decay(2, 0, 9, settings.seed, 2 * len(betas))

    groups = tuple(f"β = {beta:g}" for beta in betas)
    panels = (
        Panel(f"random, K = M = {units}, L = {modes}", ALPHA, EPS, groups),
        Panel(f"specialised, K = M = {few}, L = {many}", ALPHA, EPS, groups),
        Panel("K = M = 2, L = 9", SINCE, EPS, ("",), "y"),
    )
    starts = (("random", units), ("specialised", few))
    slopes = (
        Quantity("decay-slope", f"β = {beta:g}: slope, {start} start, K = M = {count}", {"beta": beta, "start": start})
        for beta in betas
        for start, count in starts
    )
    pieces = [*(piece(group, panel) for panel in (0, 1) for group in range(len(betas))), explicit]
    setting = (
        f"erf, first order in η, no SGD; left K = M = {units}, L = N = {modes}, η = {lr:g}, σ_J = 1e-6, one draw, "
        f"up to α = {stop:g}; middle K = M = {few}, L = {many}, N → ∞, η = 0.1, students 0.05 from their "
        f"teachers; β = {listed(betas)}; right K = M = 2, L = 9, N = 9000, η = 0.25, σ_J = 0.01, β = 1"
    )
    return Plan(panels, pieces, 120, (*slopes, *_decay_numbers(9)), setting=setting)


def _slope(alpha: np.ndarray, eps: np.ndarray) -> float:
    return float(np.polyfit(np.log(alpha), np.log(eps), 1)[0])


def specialised(start: online.OrderParameters, away: float = 0.05) -> online.OrderParameters:
    """Students that are their teachers plus noise of size ``away``: a specialised phase without a history.

    The size is one at which :func:`phasecast.online.asymptotic_curve` applies; slopes hardly depend on it, as ε is
    ∝ away².
    """
    noise = away**2 * np.eye(start.shape[1])
    return online.OrderParameters(start.T, start.T + noise, start.T)


def _decay(panel: int, group: int, modes: int, seed: int, place: int) -> list[Line]:
    """ε after the first of :data:`BEGINNINGS`, from the equations and explicitly; K = M = 2, η = 0.25, N = 9000, β = 1.

    What is left out is of third order in J − B if it halves, relative to ε, when J − B is halved.
    """
    spectrum, after = online.Spectrum.power_law(modes, 1.0), np.linspace(20, 2000, 60)
    start = online.OrderParameters.draw(2, 2, spectrum, inputs=9000, sigma=0.01, seed=seed)
    late = _near_perfect(start, spectrum, 0.25)
    states = late, halved(late, spectrum)
    curves = [curve.eps for curve in online.solve_many(states, spectrum, 0.25, after)]
    explicit = [online.asymptotic_curve(state, spectrum, 0.25, after) for state in states]
    whole, half = (np.max(np.abs(np.asarray(b.value) / a - 1)) for a, b in zip(curves, explicit, strict=True))
    width = width_of_bound(explicit[0].systematic)
    return [
        Line(panel, group, SOLVED, after, curves[0]),
        Line(panel, group, PREDICTED, after, np.asarray(explicit[0].value), systematic=width),
        single(place, float(whole)),
        *number(place + 1, 2.0, float(whole / half), systematic=2 * float(whole)),  # the next order is as large again
    ]


def _near_perfect(start: online.OrderParameters, spectrum: online.Spectrum, lr: float) -> online.OrderParameters:
    """The state at the first of :data:`BEGINNINGS` from which the explicit decay applies; at the last if at none."""
    late = start
    for alpha in BEGINNINGS:
        final = online.solve(start, spectrum, lr, [alpha]).final
        assert final is not None
        late = final
        with suppress(OutsideRegime):
            online.asymptotic_curve(late, spectrum, lr, [1.0])
            break
    return late


def _decay_numbers(modes: int) -> tuple[Quantity, Quantity]:
    where = {"modes": modes}
    return (
        Quantity("explicit-decay-error", f"L = {modes}: largest relative error of the explicit decay", where),
        Quantity("error-ratio-when-halved", f"L = {modes}: that error over the one from half the distance", where),
    )


def halved(state: online.OrderParameters, spectrum: online.Spectrum) -> online.OrderParameters:
    """Students half as far from their teachers: (J + B)/2."""
    _, order = linear_sum_assignment(-state.moment(1, spectrum).R.T)
    R, Q = state.R[:, order], state.Q[:, order][:, :, order]
    return online.OrderParameters((R + state.T) / 2, (Q + R + R.swapaxes(1, 2) + state.T) / 4, state.T)


def figure_20(settings: Settings) -> Plan:
    """The end of learning for K = M = 2: explicit and from the equations."""
    sizes, grid = (3, 9), np.linspace(10, 3000, 100)

    def piece(at: int) -> Piece:
        def compute() -> list[Line]:
            spectrum = online.Spectrum.power_law(sizes[at], 1.0)
            start = online.OrderParameters.draw(2, 2, spectrum, inputs=9000, sigma=0.01, seed=settings.seed)
            curve = online.solve(start, spectrum, 0.25, grid)
            return [Line(0, at, SOLVED, grid, curve.eps), *_decay(1 + at, at, sizes[at], settings.seed, 2 * at)]

        return compute

    groups = tuple(f"L = {n}" for n in sizes)
    panels = (
        Panel("K = M = 2, η = 0.25, β = 1", ALPHA, EPS, groups, "y"),
        *(Panel(f"L = {n}", SINCE, EPS, groups, "y") for n in sizes),
    )
    numbers = tuple(quantity for n in sizes for quantity in _decay_numbers(n))
    setting = (
        f"K = M = 2, erf, β = 1, L = {listed(sizes)}, N = 9000, η = 0.25, σ_J = 0.01, first order in η; one draw, "
        "no SGD; the same at both scales"
    )
    return Plan(panels, (piece(0), piece(1)), grid.size, numbers, setting=setting)


FIGURES = {6: figure_6, 20: figure_20}
