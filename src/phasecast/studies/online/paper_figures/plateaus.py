"""Which figures about the plateau hold? Figures 1, 4, 5 and 17 to 19 of Worschech & Rosenow 2024, with erf units."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from phasecast import online
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Comparison
from phasecast.core.statistics import standard_error
from phasecast.studies.online.paper_figures.lines import (
    ALPHA,
    EPS,
    MARK,
    PREDICTED,
    PRINTED,
    SGD,
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
)


@dataclass(frozen=True)
class PlateauFigurePolicy(Policy):
    """How far a figure may be from its prediction, and where on a curve a plateau is read off."""

    level: float = rule(1e-3, "chosen: Figure 1's plateau is left when ε is below this, a sixth of its height 0.0058")
    finite_size: float = rule(0.02, "chosen, not derived: relative delay of SGD, whose N is finite, Figure 1")
    flattest_point: float = rule(
        0.005, "chosen, not derived: a curve's flattest point is near the fixed point, not on it; Figures 4 and 18"
    )
    height: float = rule(1e-3, "chosen, not derived: relative width of the height, Figure 17")
    logistic_delay: float = rule(
        math.log(2) / Comparison.tolerance,
        "in τ: growth that slows like a logistic takes τ ln 2 longer to half of its end, compared as a bound",
    )
    escape_time: float = rule(
        0.1, "chosen, not derived: the M − 1 rates are close to each other, so the fastest alone shows late; Figure 5"
    )
    growth_from: float = rule(1e-5, "chosen: above the tolerance of the solver, where differences are signal")
    growth_to: float = rule(0.03, "chosen, not derived: share of the largest difference up to which growth is linear")
    fewest_points: int = rule(6, "three points per half of the growth, so that each half has a slope with a residual")


POLICY = PlateauFigurePolicy()


def figure_1(settings: Settings) -> Plan:
    """ε over α for several L: medians of draws, and of SGD from the same weights."""
    inputs, draws, sizes = (1024, 10, (1, 4, 16, 64)) if settings.paper else (256, 4, (1, 4, 16, 64))
    grid, few = np.linspace(10, 3500, 200), np.linspace(100, 3500, 18)

    def piece(group: int) -> Piece:
        def compute() -> list[Line]:
            spectrum = online.Spectrum.power_law(sizes[group], 1.0)
            seeds = range(settings.seed, settings.seed + draws)
            starts = [online.OrderParameters.draw(2, 2, spectrum, inputs=inputs, sigma=0.01, seed=at) for at in seeds]
            curves = online.solve_many(starts, spectrum, 0.1, grid, order=2)
            runs = online.simulate(2, 2, spectrum, 0.1, few, inputs=inputs, sigma=0.01, seeds=seeds)
            solved = np.minimum([curve.first_below(POLICY.level) for curve in curves], grid[-1])
            simulated = np.minimum([run.first_below(POLICY.level) for run in runs], grid[-1])
            error = float(standard_error(simulated - solved))  # same weights, other examples
            mean = float(np.mean(solved))
            return [
                Line(0, group, SOLVED, grid, np.median([curve.eps for curve in curves], axis=0)),
                Line(0, group, SGD, few, np.median([np.asarray(run.estimate) for run in runs], axis=0)),
                *number(group, mean, float(np.mean(simulated)), error=error, systematic=POLICY.finite_size * mean),
            ]

        return compute

    panel = Panel(f"K = M = 2, N = {inputs}, η = 0.1, β = 1", ALPHA, EPS, tuple(f"L = {n}" for n in sizes), "y")
    numbers = tuple(
        Quantity("alpha-at-level", f"L = {n}: mean α at ε < {POLICY.level:g}, equations and SGD", {"modes": n}, "seeds")
        for n in sizes
    )
    setting = (
        f"K = M = 2, erf, β = 1, L = {listed(sizes)}, N = {inputs}, η = 0.1, σ_J = 0.01, second order in η; "
        f"{draws} draws of student and teacher, one run of SGD from each"
    )
    return Plan((panel,), [piece(group) for group in range(len(sizes))], grid.size, numbers, setting=setting)


def _start(units: int, modes: int, inputs: int, seed: int) -> tuple[online.Spectrum, online.OrderParameters]:
    spectrum = online.Spectrum.power_law(modes, 0.25)
    return spectrum, online.OrderParameters.draw(units, units, spectrum, inputs=inputs, sigma=0.01, seed=seed)


def figure_4(settings: Settings) -> Plan:
    """R^(1), Q^(1) and ε of four students: heights of the plateau, and its length."""
    grid, begin = np.linspace(20, 6000, 200), 300.0

    def compute() -> list[Line]:
        spectrum, start = _start(4, 10, 7000, settings.seed)
        curve = online.solve(start, spectrum, 0.1, grid)
        at = online.plateau(curve.T1)
        length = online.plateau_length(start, spectrum, 0.1, start=begin, inputs=7000)
        measured = online.measured_length(curve, begin, length.reach)
        on = int(np.argmin(np.abs(np.gradient(np.log(curve.eps), np.log(grid)))[: grid.size // 2]))
        drawn = [Line(0, n, SOLVED, grid, curve.R1[:, i, n]) for n in range(4) for i in range(4)]
        drawn += [Line(0, n, PREDICTED, grid[:60], np.full(60, at.R[n])) for n in range(4)]
        drawn += [Line(1, int(i == j), SOLVED, grid, curve.Q1[:, i, j]) for i in range(4) for j in range(i, 4)]
        drawn += [Line(1, 0, PREDICTED, grid[:60], np.full(60, at.Q))]
        drawn += [Line(2, 0, SOLVED, grid, curve.eps), Line(2, 0, PREDICTED, grid[:100], np.full(100, at.eps))]
        drawn += [Line(2, 1, MARK, [begin + length.ours], [0.0]), Line(2, 2, MARK, [begin + length.printed], [0.0])]
        heights = [(float(at.R[n]), float(curve.R1[on, :, n].mean())) for n in range(4)]
        heights += [(at.Q, float(curve.Q1[on].mean())), (at.eps, float(curve.eps[on]))]
        for place, (predicted, height) in enumerate(heights):
            drawn += number(place, predicted, height, systematic=POLICY.flattest_point * predicted)
        return [*drawn, *_lengths(6, 7, length, measured)]

    panels = (
        Panel("student and teacher", ALPHA, "R^(1)", tuple(f"teacher {n + 1}" for n in range(4)), ""),
        Panel("students", ALPHA, "Q^(1)", ("two different ones", "one with itself"), ""),
        Panel("error", ALPHA, EPS, ("ε", "end, ours", "end, eq. 12"), "y"),
    )
    numbers = (
        *(_overlap(1, n + 1, "R") for n in range(4)),
        _self_overlap(1, "Q"),
        Quantity("plateau-height", "ε on the plateau"),
        Quantity("plateau-length", "length of the plateau from α = 300"),
        Quantity("length-shortfall", "measured length less ours, in τ"),
    )
    setting = (
        "K = M = 4, erf, β = 0.25, L = 10, N = 7000, η = 0.1, σ_J = 0.01, first order in η; one draw, no SGD; "
        f"the length is counted from α = {begin:g}; the same at both scales"
    )
    return Plan(panels, (compute,), grid.size, numbers, setting=setting)


def _overlap(order: int, teacher: int, name: str) -> Quantity:
    return Quantity(
        "plateau-overlap", f"{name} on the plateau, teacher {teacher}", {"order": order, "teacher": teacher}
    )


def _self_overlap(order: int, name: str) -> Quantity:
    return Quantity("plateau-self-overlap", f"{name} on the plateau", {"order": order})


def _lengths(at: int, shortfall: int, length: online.PlateauLength, measured: float) -> list[Line]:
    """Our length and the measured one, the printed one if both ends mean the same, and by how much ours is short."""
    width = POLICY.logistic_delay * length.tau
    lines = number(at, length.ours, measured, systematic=width)
    if length.reach >= length.printed_reach:
        lines.append(printed_number(at, length.printed, width))
    return [*lines, single(shortfall, (measured - length.ours) / length.tau)]


def figure_5(settings: Settings) -> Plan:
    """The plateau by the number of units, and by the number of modes; the escape rate is measured as well."""
    units, inputs = ((6, 8, 10, 32, 40), 512) if settings.paper else ((2, 4, 6), 128)
    sizes, rest, few = ((25, 50, 100, 250, 500), 500, 6) if settings.paper else ((10, 20, 40, 80), 80, 3)
    lr, ends = (0.01, (16_000.0, 70_000.0)) if settings.paper else (0.05, (4000.0, 6000.0))
    cases = [(0, group, count, inputs, inputs) for group, count in enumerate(units)]
    cases += [(1, group, few, modes, rest) for group, modes in enumerate(sizes)]

    def piece(at: int) -> Piece:
        def compute() -> list[Line]:
            panel, group, count, modes, size = cases[at]
            spectrum = online.Spectrum.power_law(modes, 0.25)
            grid = np.linspace(ends[panel] / 15, ends[panel], 300)
            start = online.OrderParameters.draw(count, count, spectrum, inputs=size, sigma=1e-6, seed=settings.seed)
            curve = online.solve(start, spectrum, lr, grid)
            T1, T2 = start.moment(1, spectrum).T, start.moment(2, spectrum).T
            tau = float(online.escape_time(T1, T2, lr))
            measured, error = _escape(curve)
            return [
                Line(panel, group, SOLVED, grid, curve.eps),
                Line(panel, group, PREDICTED, grid[:100], np.full(100, online.plateau(T1).eps)),
                *number(at, tau, measured, error=error, systematic=POLICY.escape_time * tau),
            ]

        return compute

    panels = (
        Panel(f"L = N = {inputs}", ALPHA, EPS, tuple(f"M = {n}" for n in units), ""),
        Panel(f"K = M = {few}, N = {rest}", ALPHA, EPS, tuple(f"L = {n}" for n in sizes), ""),
    )
    labels = (*(f"M = {n}" for n in units), *(f"L = {n}" for n in sizes))
    numbers = tuple(
        Quantity(
            "escape-time",
            f"{label}: escape time τ",
            {"varied": ("units", "modes")[panel], "units": count, "modes": modes},
        )
        for label, (panel, _, count, modes, _) in zip(labels, cases, strict=True)
    )
    setting = (
        f"erf, β = 0.25, η = {lr:g}, σ_J = 1e-6, first order in η; one draw, no SGD; left K = M = {listed(units)} "
        f"with L = N = {inputs} up to α = {ends[0]:g}, right K = M = {few}, L = {listed(sizes)}, N = {rest} up to "
        f"α = {ends[1]:g}"
    )
    return Plan(panels, [piece(at) for at in range(len(cases))], 300, numbers, setting=setting)


def _escape(curve: online.Curve) -> tuple[float, float]:
    """The e-folding time of the differences between students while they are small; and by how much it drifts."""
    apart = np.linalg.norm(curve.R1 - curve.R1.mean(axis=1, keepdims=True), axis=(1, 2))
    small = (apart > POLICY.growth_from) & (apart < POLICY.growth_to * np.max(apart))
    growing = np.flatnonzero(small & (np.gradient(apart) > 0))
    if growing.size < POLICY.fewest_points:
        return float("nan"), 0.0
    alpha, logs = curve.alpha[growing], np.log(apart[growing])
    half = growing.size // 2
    whole, early, late = (
        1 / np.polyfit(alpha[part], logs[part], 1)[0] for part in (slice(None), slice(half), slice(half, None))
    )
    return float(late), float(abs(whole - late) + abs(early - late) / 4)


def printed_height(T1: np.ndarray) -> float:
    """ε at the approximate fixed point of eq. 95, R different for each teacher and Q their mean."""
    M, T = len(T1), np.diagonal(T1)
    base = T1.sum(axis=1)  # T_nn + d_n
    ratio = M * T / base * (1 + 1 / T) - 1
    R, Q = 1 / np.sqrt(M / base * ratio), float(np.mean(1 / ratio))
    t = np.sqrt(1 + T)
    sums = np.arcsin(T1 / np.outer(t, t)).sum() + M**2 * np.arcsin(Q / (1 + Q))
    return float((sums - 2 * M * np.arcsin(R / (t * np.sqrt(1 + Q))).sum()) / (np.pi * M))


def figure_17(settings: Settings) -> Plan:
    """The height of the plateau: exact for any teachers, and by eq. 95."""
    sizes, grid = (2, 8, 10, 12), np.linspace(250, 1750, 60)

    def piece(group: int) -> Piece:
        def compute() -> list[Line]:
            spectrum, start = _start(4, sizes[group], _inputs(sizes[group]), settings.seed)
            curve = online.solve(start, spectrum, 0.1, grid)
            exact, printed = online.plateau(curve.T1).eps, printed_height(curve.T1)
            flattest = float(curve.eps[np.argmin(np.abs(np.gradient(curve.eps)))])
            return [
                Line(0, group, SOLVED, grid, curve.eps),
                Line(0, group, PREDICTED, grid, np.full(grid.size, exact)),
                Line(0, group, PRINTED, grid, np.full(grid.size, printed)),
                *number(group, exact, flattest, systematic=POLICY.height * exact),
                printed_number(group, printed, POLICY.height * exact),
            ]

        return compute

    panel = Panel("K = M = 4, β = 0.25, η = 0.1, N ≈ 7000", ALPHA, EPS, tuple(f"L = {n}" for n in sizes), "")
    numbers = tuple(Quantity("plateau-height", f"L = {n}: height of the plateau", {"modes": n}) for n in sizes)
    setting = (
        f"K = M = 4, erf, β = 0.25, L = {listed(sizes)}, N the multiple of L nearest to 7000, η = 0.1, σ_J = "
        "0.01, first order in η; one draw, no SGD; the same at both scales"
    )
    return Plan((panel,), [piece(group) for group in range(4)], grid.size, numbers, setting=setting)


def _inputs(modes: int) -> int:
    """The multiple of L nearest to the paper's 7000."""
    return round(7000 / modes) * modes


def figure_18(settings: Settings) -> Plan:
    """R and Q of orders 4 and 6 on the plateau: T^(l) a, and as printed."""
    grid, orders = np.linspace(20, 3000, 60), (4, 6)

    def compute() -> list[Line]:
        spectrum, state = _start(4, 10, 7000, settings.seed)
        at, moments = online.plateau(state.moment(1, spectrum).T), {order: [] for order in orders}
        for step in np.diff(grid, prepend=0.0):
            final = online.solve(state, spectrum, 0.1, [step]).final
            assert final is not None
            state = final
            for order in orders:
                moments[order].append(state.moment(order, spectrum))
        drawn: list[Line] = []
        on = int(np.searchsorted(grid, 700))
        first = state.moment(1, spectrum).T
        for panel, order in enumerate(orders):
            R, Q = (np.stack([getattr(one, part) for one in moments[order]]) for part in ("R", "Q"))
            T = state.moment(order, spectrum).T
            ours_R, ours_Q = at.moment(T)
            printed = at.R * np.diagonal(T) / np.diagonal(first)
            for n in range(4):
                drawn += [Line(panel, n, SOLVED, grid, R[:, i, n]) for i in range(4)]
                drawn += [Line(panel, n, PREDICTED, grid[:30], np.full(30, ours_R[n]))]
                drawn += [Line(panel, n, PRINTED, grid[:30], np.full(30, printed[n]))]
            drawn += [Line(2 + panel, 0, SOLVED, grid, Q[:, i, j]) for i in range(4) for j in range(i, 4)]
            drawn += [Line(2 + panel, 0, PREDICTED, grid[:30], np.full(30, ours_Q))]
            for n in range(4):
                place, width = 5 * panel + n, POLICY.flattest_point * abs(float(ours_R[n]))
                drawn += number(place, float(ours_R[n]), float(R[on, :, n].mean()), systematic=width)
                drawn.append(printed_number(place, printed[n], width))
            drawn += number(5 * panel + 4, ours_Q, float(Q[on].mean()), systematic=POLICY.flattest_point * ours_Q)
        return drawn

    teachers = tuple(f"teacher {n + 1}" for n in range(4))
    panels = (
        *(Panel("", ALPHA, f"R^({order})", teachers, "") for order in orders),
        *(Panel("", ALPHA, f"Q^({order})", ("",), "") for order in orders),
    )
    numbers = tuple(
        quantity
        for order in orders
        for quantity in (
            *(_overlap(order, n + 1, f"R^({order})") for n in range(4)),
            _self_overlap(order, f"Q^({order})"),
        )
    )
    setting = (
        "K = M = 4, erf, β = 0.25, L = 10, N = 7000, η = 0.1, σ_J = 0.01, first order in η; one draw, no SGD; "
        "read off at α = 700; the same at both scales"
    )
    return Plan(panels, (compute,), grid.size, numbers, setting=setting)


def figure_19(settings: Settings) -> Plan:
    """Lengths of plateaus for several L, and for several M: measured, ours, and as printed."""
    sizes, units = (2, 4, 6, 8), ((2, 3, 4, 6, 8) if settings.paper else (2, 3, 4))
    cases = [(0, group, 4, modes) for group, modes in enumerate(sizes)]
    cases += [(1, group, count, 4) for group, count in enumerate(units)]
    ends, begin = (9000.0, 20_000.0 if settings.paper else 9000.0), 500.0

    def piece(at: int) -> Piece:
        def compute() -> list[Line]:
            panel, group, count, modes = cases[at]
            spectrum, start = _start(count, modes, _inputs(modes), settings.seed)
            curve = online.solve(start, spectrum, 0.1, np.linspace(50, ends[panel], 250))
            length = online.plateau_length(start, spectrum, 0.1, start=begin, inputs=_inputs(modes))
            measured = online.measured_length(curve, begin, length.reach)
            return [
                Line(panel, group, SOLVED, curve.alpha, curve.eps),
                Line(panel, group, MARK, [begin + length.ours], [0.0]),
                *_lengths(at, len(cases) + at, length, measured),
            ]

        return compute

    panels = (
        Panel("K = M = 4", ALPHA, EPS, tuple(f"L = {n}" for n in sizes), ""),
        Panel("L = 4", ALPHA, EPS, tuple(f"K = M = {n}" for n in units), ""),
    )
    labels = (*(f"L = {n}" for n in sizes), *(f"K = M = {n}" for n in units))
    where = [{"varied": ("modes", "units")[panel], "units": count, "modes": modes} for panel, _, count, modes in cases]
    pairs = list(zip(labels, where, strict=True))
    numbers = (
        *(Quantity("plateau-length", f"length, {label}", one) for label, one in pairs),
        *(Quantity("length-shortfall", f"{label}: measured length less ours, in τ", one) for label, one in pairs),
    )
    setting = (
        "erf, β = 0.25, N the multiple of L nearest to 7000, η = 0.1, σ_J = 0.01, first order in η; one draw, no "
        f"SGD; left K = M = 4, L = {listed(sizes)}, right L = 4, K = M = {listed(units)}; lengths from α = "
        f"{begin:g}"
    )
    return Plan(panels, [piece(at) for at in range(len(cases))], 250, numbers, setting=setting)


FIGURES = {1: figure_1, 4: figure_4, 5: figure_5, 17: figure_17, 18: figure_18, 19: figure_19}
