"""Figures of Worschech & Rosenow 2024 about students with erf units: 1, 4 to 6 and 17 to 20."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from phasecast import online
from phasecast.studies.online.paper_figures.linear import ALPHA, EPS
from phasecast.studies.online.paper_figures.lines import (
    MARK,
    NUMBERS,
    PREDICTED,
    PRINTED,
    SGD,
    SOLVED,
    Line,
    Panel,
    Plan,
    number,
)

LATE = np.log(2) / 3  # of τ: growth that slows like a logistic one takes τ ln 2 longer to half of its end; 3 errors
LEVEL = 1e-3  # the error whose first crossing tells how long Figure 1's plateau lasted


def figure_1(spec: Any) -> Plan:
    """ε over α for several L: medians of draws, and of SGD from the same weights."""
    paper = spec.scale == "paper"
    inputs, draws, sizes = (1024, 10, (1, 4, 16, 64)) if paper else (256, 4, (1, 4, 16, 64))
    grid, few = np.linspace(10, 3500, 200), np.linspace(100, 3500, 18)

    def piece(group: int) -> Callable[[], list[Line]]:
        def compute() -> list[Line]:
            spectrum = online.Spectrum.power_law(sizes[group], 1.0)
            seeds = range(spec.seed, spec.seed + draws)
            starts = [online.OrderParameters.draw(2, 2, spectrum, inputs=inputs, sigma=0.01, seed=at) for at in seeds]
            curves = online.solve_many(starts, spectrum, 0.1, grid, order=2)
            runs = online.simulate(2, 2, spectrum, 0.1, few, inputs=inputs, sigma=0.01, seeds=seeds)
            reached = np.minimum([curve.first_below(LEVEL) for curve in curves], grid[-1])
            walked = np.minimum([run.first_below(LEVEL) for run in runs], grid[-1])
            error = float(np.std(walked - reached, ddof=1) / np.sqrt(draws))  # same weights, other examples
            return [
                Line(0, group, SOLVED, grid, np.median([curve.eps for curve in curves], axis=0)),
                Line(0, group, SGD, few, np.median([np.asarray(run.estimate) for run in runs], axis=0)),
                *number(
                    group,
                    float(np.mean(reached)),
                    float(np.mean(walked)),
                    error=error,
                    systematic=0.02 * float(np.mean(reached)),  # N is finite
                ),
            ]

        return compute

    panel = Panel(f"K = M = 2, N = {inputs}, η = 0.1, β = 1", ALPHA, EPS, tuple(f"L = {n}" for n in sizes), "y")
    names = tuple(f"L = {n}: mean α at ε < {LEVEL:g}, equations and SGD" for n in sizes)
    return Plan((panel,), [piece(group) for group in range(len(sizes))], grid.size, names)


def _start(units: int, modes: int, inputs: int, seed: int) -> tuple[online.Spectrum, online.OrderParameters]:
    spectrum = online.Spectrum.power_law(modes, 0.25)
    return spectrum, online.OrderParameters.draw(units, units, spectrum, inputs=inputs, sigma=0.01, seed=seed)


def figure_4(spec: Any) -> Plan:
    """R^(1), Q^(1) and ε of four students: heights of the plateau, and its length."""
    grid, begin = np.linspace(20, 6000, 200), 300.0

    def compute() -> list[Line]:
        spectrum, start = _start(4, 10, 7000, spec.seed)
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
        for n in range(4):
            drawn += number(n, float(at.R[n]), float(curve.R1[on, :, n].mean()), systematic=0.005 * float(at.R[n]))
        drawn += number(4, at.Q, float(curve.Q1[on].mean()), systematic=0.005 * at.Q)
        drawn += number(5, at.eps, float(curve.eps[on]), systematic=0.005 * at.eps)
        drawn += number(6, length.ours, measured, systematic=LATE * length.tau)
        return [*drawn, *_printed_length(6, length), _short(7, length, measured)]

    panels = (
        Panel("student and teacher", ALPHA, "R^(1)", tuple(f"teacher {n + 1}" for n in range(4)), ""),
        Panel("students", ALPHA, "Q^(1)", ("two of them", "one of them"), ""),
        Panel("error", ALPHA, EPS, ("ε", "end, ours", "end, eq. 12"), "y"),
    )
    names = (
        *(f"R on the plateau, teacher {n + 1}" for n in range(4)), "Q on the plateau", "ε on the plateau",
        "length of the plateau from α = 300", "plateau of 4 longer than ours, in τ",
    )  # fmt: skip
    return Plan(panels, (compute,), grid.size, names)


def _printed_length(name: int, length: online.PlateauLength) -> list[Line]:
    """The printed length beside the measured one, where both mean the same end."""
    if length.reach < length.printed_reach:
        return []
    return [Line(NUMBERS, name, PRINTED, [0.0], [length.printed], systematic=LATE * length.tau, compared=True)]


def _short(name: int, length: online.PlateauLength, measured: float) -> Line:
    """By how much our length is short."""
    return Line(NUMBERS, name, SOLVED, [0.0], [(measured - length.ours) / length.tau])


def figure_5(spec: Any) -> Plan:
    """The plateau by the number of units, and by the number of modes; the escape rate is measured on the way."""
    paper = spec.scale == "paper"
    units, inputs = ((6, 8, 10, 32, 40), 512) if paper else ((2, 4, 6), 128)
    sizes, rest, few = ((25, 50, 100, 250, 500), 500, 6) if paper else ((10, 20, 40, 80), 80, 3)
    lr, ends = (0.01, (16_000.0, 70_000.0)) if paper else (0.05, (4000.0, 6000.0))
    settings = [(0, group, count, inputs, inputs) for group, count in enumerate(units)]
    settings += [(1, group, few, modes, rest) for group, modes in enumerate(sizes)]

    def piece(at: int) -> Callable[[], list[Line]]:
        def compute() -> list[Line]:
            panel, group, count, modes, size = settings[at]
            spectrum = online.Spectrum.power_law(modes, 0.25)
            grid = np.linspace(ends[panel] / 15, ends[panel], 300)
            start = online.OrderParameters.draw(count, count, spectrum, inputs=size, sigma=1e-6, seed=spec.seed)
            curve = online.solve(start, spectrum, lr, grid)
            T1, T2 = start.moment(1, spectrum).T, start.moment(2, spectrum).T
            tau = float(online.escape_time(T1, T2, lr).value)
            found, error = _escape(curve)
            return [
                Line(panel, group, SOLVED, grid, curve.eps),
                Line(panel, group, PREDICTED, grid[:100], np.full(100, online.plateau(T1).eps)),
                # the M − 1 rates are near each other, so the fastest alone is seen late
                *number(at, tau, found, error=error, systematic=0.1 * tau),
            ]

        return compute

    panels = (
        Panel(f"L = N = {inputs}", ALPHA, EPS, tuple(f"M = {n}" for n in units), ""),
        Panel(f"K = M = {few}, N = {rest}", ALPHA, EPS, tuple(f"L = {n}" for n in sizes), ""),
    )
    names = (*(f"M = {n}: escape time τ" for n in units), *(f"L = {n}: escape time τ" for n in sizes))
    return Plan(panels, [piece(at) for at in range(len(settings))], 300, names)


def _escape(curve: online.Curve) -> tuple[float, float]:
    """The e-folding time of the differences between students while they are small; and by how much it drifts."""
    apart = np.linalg.norm(curve.R1 - curve.R1.mean(axis=1, keepdims=True), axis=(1, 2))
    growing = np.flatnonzero((apart > 1e-5) & (apart < 0.03 * np.max(apart)) & (np.gradient(apart) > 0))
    if growing.size < 6:
        return float("nan"), 0.0
    alpha, logs = curve.alpha[growing], np.log(apart[growing])
    half = growing.size // 2
    whole, early, late = (
        1 / np.polyfit(alpha[part], logs[part], 1)[0] for part in (slice(None), slice(half), slice(half, None))
    )
    return float(late), float(abs(whole - late) + abs(early - late) / 4)


def figure_6(spec: Any) -> Plan:
    """The end of learning: from random students, and from students that have specialised where L is large for K.

    ε is a sum of two groups of rates, slow and fast, each of which falls like α^{−β/(1+β)} in a window of its own:
    between 1/(rate λ₊) and α_L = 1/(rate λ_L). Even inside both the exponent is only approached, like
    (α/α_L)^{β/(1+β)}: slowly where β is small. So the sum itself is put beside the slope at every β,
    and the exponent too.
    """
    paper = spec.scale == "paper"
    units, modes, lr, stop = (40, 512, 0.01, 5e4) if paper else (6, 128, 0.05, 1e4)
    many, few = 1024, 2
    betas = (0.5, 0.75, 1.0, 1.25, 1.5) if paper else (0.5, 1.0, 1.5)
    grids = np.geomspace(stop / 100, stop, 120), np.geomspace(0.5, 50, 60)

    def piece(group: int, panel: int) -> Callable[[], list[Line]]:
        def compute() -> list[Line]:
            law, count, size = online.scaling_exponent(betas[group]), (units, few)[panel], (modes, many)[panel]
            spectrum, grid = online.Spectrum.power_law(size, betas[group]), grids[panel]
            start = (
                online.OrderParameters.draw(count, count, spectrum, inputs=size, sigma=1e-6, seed=spec.seed)
                if panel == 0
                else specialised(online.OrderParameters.infinite(count, count, spectrum, sigma=0.0))
            )
            rate, late = (lr, 0.1)[panel], grid > grid[-1] / (4 if panel == 0 else 10)
            eps, name = online.solve(start, spectrum, rate, grid).eps, 2 * group + panel
            found = [
                Line(panel, group, SOLVED, grid, eps),
                Line(panel, group, PRINTED, grid[late], eps[-1] * (grid[late] / grid[-1]) ** law),
                Line(NUMBERS, name, SOLVED, [0.0], [_slope(grid[late], eps[late])], compared=True),
                Line(NUMBERS, name, PRINTED, [0.0], [law], systematic=0.03, compared=True),
            ]
            if panel:
                sums = np.asarray(online.asymptotic_curve(start, spectrum, rate, grid).value)
                slope = _slope(grid[late], sums[late])
                found.append(Line(NUMBERS, name, PREDICTED, [0.0], [slope], systematic=0.01, compared=True))
                found.append(Line(panel, group, PREDICTED, grid, sums))
            return found

        return compute

    def explicit() -> list[Line]:
        return _decay(2, 0, 9, spec.seed, 2 * len(betas))

    law = tuple(f"β = {beta:g}" for beta in betas)
    panels = (
        Panel(f"random, K = M = {units}, L = {modes}", ALPHA, EPS, law),
        Panel(f"specialised, K = M = {few}, L = {many}", ALPHA, EPS, law),
        Panel("K = M = 2, L = 9", "α since 1000", EPS, ("",), "y"),
    )
    which = (f"random start, K = M = {units}", f"specialised start, K = M = {few}")
    names = (*(f"β = {beta:g}: slope, {one}" for beta in betas for one in which), *_decay_names("L = 9"))
    pieces = [*(piece(group, panel) for panel in (0, 1) for group in range(len(betas))), explicit]
    return Plan(panels, pieces, 120, names)


def _slope(alpha: np.ndarray, eps: np.ndarray) -> float:
    return float(np.polyfit(np.log(alpha), np.log(eps), 1)[0])


def specialised(start: online.OrderParameters, away: float = 0.05) -> online.OrderParameters:
    """Students that are their teachers plus noise of size ``away``: a specialised phase without a past.

    The size is where :func:`phasecast.online.asymptotic_curve` applies; slopes hardly depend on it, as ε is ∝ away².
    """
    noise = away**2 * np.eye(start.shape[1])
    return online.OrderParameters(start.T, start.T + noise, start.T)


def _decay(panel: int, group: int, modes: int, seed: int, name: int) -> list[Line]:
    """ε after α = 1000 from the equations and explicitly, for K = M = 2, η = 0.25, N = 9000, β = 1.

    What is left out is of third order in J − B if it halves, relative to ε, where J − B is halved.
    """
    spectrum, after = online.Spectrum.power_law(modes, 1.0), np.linspace(20, 2000, 60)
    start = online.OrderParameters.draw(2, 2, spectrum, inputs=9000, sigma=0.01, seed=seed)
    late = online.solve(start, spectrum, 0.25, [1000.0]).final
    assert late is not None
    states = late, halved(late, spectrum)
    curves = [curve.eps for curve in online.solve_many(states, spectrum, 0.25, after)]
    explicit = [online.asymptotic_curve(state, spectrum, 0.25, after) for state in states]
    off, less = (np.max(np.abs(np.asarray(b.value) / a - 1)) for a, b in zip(curves, explicit, strict=True))
    return [
        Line(panel, group, SOLVED, after, curves[0]),
        Line(panel, group, PREDICTED, after, explicit[0].value, systematic=np.asarray(explicit[0].systematic) / 3),
        Line(NUMBERS, name, SOLVED, [0.0], [float(off)]),
        *number(name + 1, 2.0, float(off / less), systematic=2 * float(off)),  # the next order is as large again
    ]


def _decay_names(which: str) -> tuple[str, str]:
    return f"{which}: explicit decay off, relative", f"{which}: off over what is left from half as far"


def halved(state: online.OrderParameters, spectrum: online.Spectrum) -> online.OrderParameters:
    """Students half as far from their teachers: (J + B)/2."""
    _, order = linear_sum_assignment(-state.moment(1, spectrum).R.T)
    R, Q = state.R[:, order], state.Q[:, order][:, :, order]
    return online.OrderParameters((R + state.T) / 2, (Q + R + R.swapaxes(1, 2) + state.T) / 4, state.T)


def printed_height(T1: np.ndarray) -> float:
    """ε at the approximate fixed point of eq. 95, R different for each teacher and Q their mean."""
    M, T = len(T1), np.diagonal(T1)
    base = T1.sum(axis=1)  # T_nn + d_n
    ratio = M * T / base * (1 + 1 / T) - 1
    R, Q = 1 / np.sqrt(M / base * ratio), float(np.mean(1 / ratio))
    t = np.sqrt(1 + T)
    sums = np.arcsin(T1 / np.outer(t, t)).sum() + M**2 * np.arcsin(Q / (1 + Q))
    return float((sums - 2 * M * np.arcsin(R / (t * np.sqrt(1 + Q))).sum()) / (np.pi * M))


def figure_17(spec: Any) -> Plan:
    """The height of the plateau: exact for any teachers, and by eq. 95."""
    sizes, grid = (2, 8, 10, 12), np.linspace(250, 1750, 60)

    def piece(group: int) -> Callable[[], list[Line]]:
        def compute() -> list[Line]:
            spectrum, start = _start(4, sizes[group], _inputs(sizes[group]), spec.seed)
            curve = online.solve(start, spectrum, 0.1, grid)
            exact, printed = online.plateau(curve.T1).eps, printed_height(curve.T1)
            flattest = float(curve.eps[np.argmin(np.abs(np.gradient(curve.eps)))])
            return [
                Line(0, group, SOLVED, grid, curve.eps),
                Line(0, group, PREDICTED, grid, np.full(grid.size, exact)),
                Line(0, group, PRINTED, grid, np.full(grid.size, printed)),
                *number(group, exact, flattest, systematic=1e-3 * exact),
                Line(NUMBERS, group, PRINTED, [0.0], [printed], systematic=1e-3 * exact, compared=True),
            ]

        return compute

    panel = Panel("K = M = 4, β = 0.25, η = 0.1, N ≈ 7000", ALPHA, EPS, tuple(f"L = {n}" for n in sizes), "")
    names = tuple(f"L = {n}: height of the plateau" for n in sizes)
    return Plan((panel,), [piece(group) for group in range(4)], grid.size, names)


def _inputs(modes: int) -> int:
    """The multiple of L nearest to the paper's 7000."""
    return round(7000 / modes) * modes


def figure_18(spec: Any) -> Plan:
    """R and Q of orders 4 and 6 on the plateau: T^(l) a, and as printed."""
    grid, orders = np.linspace(20, 3000, 60), (4, 6)

    def compute() -> list[Line]:
        spectrum, state = _start(4, 10, 7000, spec.seed)
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
                name, width = 5 * panel + n, 0.005 * abs(float(ours_R[n]))
                drawn += number(name, float(ours_R[n]), float(R[on, :, n].mean()), systematic=width)
                drawn += [Line(NUMBERS, name, PRINTED, [0.0], [printed[n]], systematic=width, compared=True)]
            drawn += number(5 * panel + 4, ours_Q, float(Q[on].mean()), systematic=0.005 * ours_Q)
        return drawn

    teachers = tuple(f"teacher {n + 1}" for n in range(4))
    panels = (
        *(Panel("", ALPHA, f"R^({order})", teachers, "") for order in orders),
        *(Panel("", ALPHA, f"Q^({order})", ("",), "") for order in orders),
    )
    names = tuple(
        what
        for order in orders
        for what in (*(f"R^({order}) on the plateau, {one}" for one in teachers), f"Q^({order}) on the plateau")
    )
    return Plan(panels, (compute,), grid.size, names)


def figure_19(spec: Any) -> Plan:
    """Lengths of plateaus for several L, and for several M: measured, ours, and as printed."""
    sizes, units = (2, 4, 6, 8), ((2, 3, 4, 6, 8) if spec.scale == "paper" else (2, 3, 4))
    settings = [(0, group, 4, modes) for group, modes in enumerate(sizes)]
    settings += [(1, group, count, 4) for group, count in enumerate(units)]
    ends, begin = (9000.0, 20_000.0 if spec.scale == "paper" else 9000.0), 500.0

    def piece(at: int) -> Callable[[], list[Line]]:
        def compute() -> list[Line]:
            panel, group, count, modes = settings[at]
            spectrum, start = _start(count, modes, _inputs(modes), spec.seed)
            curve = online.solve(start, spectrum, 0.1, np.linspace(50, ends[panel], 250))
            found = online.plateau_length(start, spectrum, 0.1, start=begin, inputs=_inputs(modes))
            measured = online.measured_length(curve, begin, found.reach)
            return [
                Line(panel, group, SOLVED, curve.alpha, curve.eps),
                Line(panel, group, MARK, [begin + found.ours], [0.0]),
                *number(at, found.ours, measured, systematic=LATE * found.tau),
                *_printed_length(at, found),
                _short(len(settings) + at, found, measured),
            ]

        return compute

    panels = (
        Panel("K = M = 4", ALPHA, EPS, tuple(f"L = {n}" for n in sizes), ""),
        Panel("L = 4", ALPHA, EPS, tuple(f"K = M = {n}" for n in units), ""),
    )
    which = (*(f"L = {n}" for n in sizes), *(f"K = M = {n}" for n in units))
    names = (*(f"length, {one}" for one in which), *(f"{one}: longer than ours, in τ" for one in which))
    return Plan(panels, [piece(at) for at in range(len(settings))], 250, names)


def figure_20(spec: Any) -> Plan:
    """The end of learning for K = M = 2: explicit and from the equations."""
    sizes, grid = (3, 9), np.linspace(10, 3000, 100)

    def piece(at: int) -> Callable[[], list[Line]]:
        def compute() -> list[Line]:
            spectrum = online.Spectrum.power_law(sizes[at], 1.0)
            start = online.OrderParameters.draw(2, 2, spectrum, inputs=9000, sigma=0.01, seed=spec.seed)
            curve = online.solve(start, spectrum, 0.25, grid)
            return [Line(0, at, SOLVED, grid, curve.eps), *_decay(1 + at, at, sizes[at], spec.seed, 2 * at)]

        return compute

    groups = tuple(f"L = {n}" for n in sizes)
    panels = (
        Panel("K = M = 2, η = 0.25, β = 1", ALPHA, EPS, groups, "y"),
        *(Panel(f"L = {n}", "α since 1000", EPS, groups, "y") for n in sizes),
    )
    names = tuple(name for n in sizes for name in _decay_names(f"L = {n}"))
    return Plan(panels, (piece(0), piece(1)), grid.size, names)
