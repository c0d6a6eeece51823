"""Figures of Worschech & Rosenow 2024 about linear students: 2, 3 and 7 to 16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gamma, gammaincc, zeta

from phasecast import online
from phasecast.studies.online.paper_figures.lines import (
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

ALPHA, EPS = "examples per input α", "generalisation error ε"
RATES = (0.1, 0.5, 1.0)


def simulated(panel: int, group: int, runs: list[online.Curve]) -> Line:
    """The mean of runs of SGD with its standard error."""
    eps = np.stack([np.asarray(run.estimate) for run in runs])
    error = eps.std(axis=0, ddof=1) / np.sqrt(len(eps))
    return Line(panel, group, SGD, runs[0].alpha, eps.mean(axis=0), error, compared=True)


def figure_2(spec: Any) -> Plan:
    """Any learning rate beside a small one; the integral beside SGD."""
    paper = spec.scale == "paper"
    modes, draws, stop = (256, 40, 1000.0) if paper else (128, 24, 100.0)
    grid, few = np.geomspace(0.5, 300, 60), np.geomspace(1, stop, 10)

    def left() -> list[Line]:
        spectrum, drawn = online.Spectrum.power_law(128, 1.0), []
        small = online.small_rate_curve(spectrum, 1.0, 1.0, grid).eps
        any_rate = online.general_curve(spectrum, 1.0, 1.0, grid).eps
        drawn += [Line(0, 0, PREDICTED, grid, small), Line(0, 1, PREDICTED, grid, any_rate)]
        drawn += [Line(0, 2, PREDICTED, grid, online.sgd_curve(spectrum, 128, 1.0, 1.0, grid).eps)]
        window = (grid > 1) & (grid < 30)
        ratio = float(np.median((any_rate / small)[window]))
        finite = float(online.sgd_curve(spectrum, 128, 1.0, 1.0, [10.0]).eps[0])
        limit = float(online.general_curve(spectrum, 1.0, 1.0, [10.0]).eps[0])
        return [*drawn, *number(0, 2.0, ratio, systematic=0.02), *number(1, limit, finite, systematic=limit / 10)]

    def right() -> list[Line]:
        spectrum = online.Spectrum.power_law(modes, 0.75)
        runs = online.simulate(
            1, 1, spectrum, 0.1, few, inputs=modes, sigma=0.01, activation="linear",
            seeds=range(spec.seed, spec.seed + draws),
        )  # fmt: skip
        integral = online.integral_curve(modes, 0.75, 0.1, 0.01, few)
        exact = online.sgd_curve(spectrum, modes, 0.1, 0.01, few).eps
        # beyond the bound of the integral: the noise of the steps, known exactly
        beyond = np.asarray(integral.systematic) + np.abs(exact - online.small_rate_curve(spectrum, 0.1, 0.01, few).eps)
        return [
            Line(1, 0, PREDICTED, few, integral.value, systematic=beyond / 3, compared=True),
            Line(1, 1, PREDICTED, few, exact, compared=True),
            simulated(1, 0, runs),
            simulated(1, 1, runs),
        ]

    panels = (
        Panel("η = 1, N = L = 128", ALPHA, EPS, ("small η (eq. 8)", "any η, N → ∞", "any η, N = 128")),
        Panel(f"η = 0.1, N = L = {modes}", ALPHA, EPS, ("integral (eq. 9)", "discrete steps, exact")),
    )
    names = ("any η over small η in the window, 2/(2−η)", "ε(10) at N = 128 beside N → ∞")
    return Plan(panels, (left, right), 60, names)


def figure_3(spec: Any, features: int = 0) -> Plan:
    """Trained features in the eigenbasis; on a user's data where there are some."""
    paper = spec.scale == "paper"
    modes, trained = (256, (50, 100, 150, 200)) if paper else (64, (12, 25, 37, 50))
    grid = np.geomspace(1, 1e4 if paper else 1000, 12)
    seeds = range(spec.seed, spec.seed + 50)
    spectrum = online.Spectrum.power_law(modes, 1.0)

    def gaussian(group: int) -> Callable[[], list[Line]]:
        def piece() -> list[Line]:
            learn = trained[group]
            runs = online.simulate(
                1, 1, spectrum, 0.05, grid, inputs=modes, sigma=0.01, seeds=seeds, activation="linear", trained=learn
            )
            exact = online.small_rate_curve(spectrum, 0.05, 0.01, grid, learn).eps
            ours = online.integral_curve(modes, 1.0, 0.05, 0.01, grid, learn)
            whole = online.integral_curve(modes, 1.0, 0.05, 0.01, grid)
            floor = 1.0001 * spectrum.largest / (2 * modes) * (1 / learn - 1 / modes)
            left_out = 0.05 / 1.95 * exact + online.general_curve(spectrum, 0.05, 0.01, grid, learn).eps - exact
            return [
                Line(0, group, PREDICTED, grid, exact, systematic=left_out, compared=True),
                Line(0, group, PRINTED, grid, floor + np.asarray(whole.value), systematic=ours.systematic / 3),
                simulated(0, group, runs),
            ]

        return piece

    panels = [Panel(f"Gaussian inputs, N = L = {modes}", ALPHA, EPS, tuple(f"N_l = {n}" for n in trained))]
    pieces = [gaussian(group) for group in range(len(trained))]
    if spec.data is not None:
        panels.append(data_panel(features))
        pieces += [data_piece(1, group, spec) for group in range(3)]
    return Plan(tuple(panels), pieces, 12)


def data_panel(features: int) -> Panel:
    return Panel(f"data, N = {features}", ALPHA, EPS, tuple(f"N_l = {n}" for n in trained_of(features)))


def trained_of(features: int) -> tuple[int, int, int]:
    """5, 10 and 20% of the features, as in the paper, and three different numbers at least."""
    few = max(features // 20, 1)
    return few, max(features // 10, few + 1), max(features // 5, few + 2)


def data_piece(panel: int, group: int, spec: Any) -> Callable[[], list[Line]]:
    """SGD on the rows of a matrix beside eq. 10 with its own spectrum."""

    def piece() -> list[Line]:
        rows = online.load_data(spec.data)
        learn, last = trained_of(rows.shape[1])[group], len(rows) / rows.shape[1]
        grid = np.geomspace(min(1.0, last / 10), last, 8)
        runs = online.simulate_data(
            rows, 1, 1, 0.05, grid, sigma=0.01, seeds=range(spec.seed, spec.seed + 50), trained=learn
        )
        spectrum = online.Spectrum.from_data(rows)
        exact = online.small_rate_curve(spectrum, 0.05, 0.01, grid, learn).eps
        noise = np.abs(online.general_curve(spectrum, 0.05, 0.01, grid, learn).eps - exact)
        return [
            # the noise of the steps is that of Gaussian inputs; other inputs have other fourth moments
            Line(panel, group, PREDICTED, grid, exact, systematic=noise + 0.02 * exact, compared=True),
            simulated(panel, group, runs),
        ]

    return piece


def _sum_and_integrals(panel: int, lr: float, beta: float, grid: np.ndarray, *, worst: bool, first: bool) -> list[Line]:
    """The sum of eq. 47, its integral, and the corrections of Figures 7 to 9, for 128 modes and σ_J = 1."""
    spectrum = online.Spectrum.power_law(128, beta)
    exact = online.small_rate_curve(spectrum, lr, 1.0, grid).eps
    integral = online.integral_curve(128, beta, lr, 1.0, grid)
    scale, z, s = 2 * spectrum.largest / 256, 2 * lr * spectrum.largest * grid, beta / (1 + beta)
    ends = (np.exp(-z) + 128.0 ** -(1 + beta) * np.exp(-z * 128.0 ** -(1 + beta))) / 2
    drawn = [
        Line(panel, 0, SOLVED, grid, exact, compared=True),
        Line(panel, 0, PREDICTED, grid, integral.value, systematic=np.asarray(integral.systematic) / 3, compared=True),
    ]
    if first:  # eq. 52 leaves out the second gamma function
        only = scale * z**-s / (1 + beta) * gamma(s) * gammaincc(s, z * 128.0 ** -(1 + beta))
        drawn.append(Line(panel, 2, PRINTED, grid, only))
    else:
        drawn.append(Line(panel, 1, PREDICTED, grid, integral.value + scale * ends))
    if worst:
        bound = scale * (128.0 ** -(1 + beta) + float(zeta(1 + beta)) - 1 / beta)
        drawn.append(Line(panel, 3, PRINTED, grid, integral.value + bound))
    return drawn


SUMS = ("sum, and its integral", "integral + zeroth order", "first Γ only (eq. 52)", "integral + worst case")


def figure_7(_: Any) -> Plan:
    largest = online.Spectrum.power_law(128, 0.5).largest
    grids, rates = (np.geomspace(1, 30, 50), np.geomspace(1, 3000, 50)), (1 / (2 * largest), 1e-5)

    def piece(at: int) -> Callable[[], list[Line]]:
        def compute() -> list[Line]:
            found = _sum_and_integrals(at, rates[at], 0.5, grids[at], worst=at == 1, first=False)
            exact, zeroth = found[0].y, found[2].y
            beyond = float(np.max((exact - zeroth) / exact))  # after 1/(2ηλ₊) the zeroth order should bound the sum
            late = grids[at] >= 1 / (2 * rates[at] * largest)
            after = float(np.max(((exact - zeroth) / exact)[late]))
            found += number(2 * at, 0.0, max(after, 0.0), systematic=1e-3)
            return [*found, *number(2 * at + 1, 0.0, max(beyond, 0.0), systematic=1e-3)]

        return compute

    panels = tuple(Panel(f"β = 0.5, η = {rate:.2g}", ALPHA, EPS, SUMS) for rate in rates)
    names = tuple(
        f"η = {rate:.2g}: sum above the zeroth order{when}" for rate in rates for when in (", α > 1/(2ηλ₊)", ", any α")
    )
    return Plan(panels, (piece(0), piece(1)), 50, names)


def figure_8(_: Any) -> Plan:
    return _two_exponents((0.5, 0.01), first=False)


def figure_9(_: Any) -> Plan:
    return _two_exponents((1.0, 0.01), first=True)


def _two_exponents(exponents: tuple[float, float], *, first: bool) -> Plan:
    grid = np.geomspace(0.5, 100, 50)

    def piece(at: int) -> Callable[[], list[Line]]:
        def compute() -> list[Line]:
            found = _sum_and_integrals(at, 0.01, exponents[at], grid, worst=False, first=first)
            exact, other = found[0].y, found[2].y
            late = grid > 1 / (0.02 * online.Spectrum.power_law(128, exponents[at]).largest)
            return [*found, *number(at, 0.0, float(np.max(np.abs(other / exact - 1)[late])), systematic=0.05)]

        return compute

    panels = tuple(Panel(f"β = {beta:g}, η = 0.01", ALPHA, EPS, SUMS) for beta in exponents)
    what = "eq. 52" if first else "the zeroth order"
    names = tuple(f"β = {beta:g}: {what} from the sum, relative, α > 1/(2ηλ₊)" for beta in exponents)
    return Plan(panels, (piece(0), piece(1)), 50, names)


RANK = "number k of the mode"


def figure_10(spec: Any) -> Plan:
    """Weights b_kλ̃_k of the exact solution beside the eigenvalues, by the number of modes, at η = 1."""
    sizes = (10, 20, 30, 40, 50, 75, 100, 125) if spec.scale == "paper" else (10, 40, 125)
    settings = [(panel, group, beta) for panel, beta in enumerate((0.1, 1.0)) for group in range(len(sizes))]

    def piece(panel: int, group: int, beta: float) -> Callable[[], list[Line]]:
        def compute() -> list[Line]:
            spectrum = online.Spectrum.power_law(sizes[group], beta)
            drawn = _weights(panel, group, spectrum, 1.0, first=False)
            half = slice(1, sizes[group] // 2)
            slope = float(np.polyfit(np.log(drawn[0].x[half]), np.log(drawn[0].y[half]), 1)[0])
            rising = float(np.max(np.diff(np.log(drawn[0].y))))
            at = 2 * (panel * len(sizes) + group)
            return [
                *drawn,
                *number(at, -1 - beta, slope, systematic=0.05),
                Line(NUMBERS, at + 1, SOLVED, [0.0], [rising]),
            ]

        return compute

    panels = tuple(
        Panel(f"β = {beta:g}, η = 1", RANK, "weight b λ̃", tuple(f"L = {n}" for n in sizes)) for beta in (0.1, 1.0)
    )
    names = tuple(
        f"β = {beta:g}, L = {sizes[group]}: {what}"
        for _, group, beta in settings
        for what in ("slope of the weights, modes 2 to L/2", "largest rise of a log weight to the next")
    )
    return Plan(panels, [piece(*setting) for setting in settings], max(sizes), names)


def figure_11(_: Any) -> Plan:
    """The same by the exponent, beside the eigenvalues themselves, which are the first order in η."""
    betas = (1.0, 0.5, 0.1, 0.01)

    def piece(panel: int) -> Callable[[], list[Line]]:
        def compute() -> list[Line]:
            spectra = [online.Spectrum.power_law(40, beta) for beta in betas]
            drawn = [line for group, one in enumerate(spectra) for line in _weights(panel, group, one, RATES[panel])]
            far = [
                abs(online.secular_weights(one, RATES[panel])[1] * 40 / one.eigenvalues - 1).max() for one in spectra
            ]
            return [*drawn, *number(panel, 0.0, max(far), systematic=RATES[panel])]

        return compute

    panels = tuple(
        Panel(f"η = {lr:g}, L = 40", RANK, "weight b λ̃ (solid), λ (dashed)", tuple(f"β = {b:g}" for b in betas))
        for lr in RATES
    )
    names = tuple(f"largest change of a weight at η = {lr:g}, relative" for lr in RATES)
    return Plan(panels, [piece(panel) for panel in range(3)], 40, names)


def _weights(panel: int, group: int, spectrum: Any, lr: float, *, first: bool = True) -> list[Line]:
    ranks = np.arange(1, spectrum.modes + 1)
    weights = online.secular_weights(spectrum, lr)[1] * spectrum.modes
    drawn = [Line(panel, group, SOLVED, ranks, weights)]
    return [*drawn, Line(panel, group, PREDICTED, ranks, spectrum.eigenvalues)] if first else drawn


def figure_12(spec: Any) -> Plan:
    """Rates of the exact solution, and their distance from the eigenvalues: between two of them, so never large."""
    sizes = (10, 15, 20, 25, 50, 75, 100, 125, 150) if spec.scale == "paper" else (10, 50, 150)
    settings = ((1.0, 0.1), (0.5, 1.0))

    def piece(at: int, group: int) -> Callable[[], list[Line]]:
        def compute() -> list[Line]:
            lr, beta = settings[at]
            spectrum = online.Spectrum.power_law(sizes[group], beta)
            rates, ranks = online.secular_weights(spectrum, lr)[0], np.arange(1, sizes[group] + 1)
            lower = np.append(spectrum.eigenvalues[1:], 0.0)
            between = float(np.mean((rates < spectrum.eigenvalues) & (rates > lower)))
            return [
                Line(at, group, SOLVED, ranks, rates),
                Line(at, group, PREDICTED, ranks, spectrum.eigenvalues),
                Line(2 + at, group, SOLVED, ranks, spectrum.eigenvalues - rates),
                *number(at * len(sizes) + group, 1.0, between, systematic=1e-9),
            ]

        return compute

    groups = tuple(f"L = {n}" for n in sizes)
    titles = tuple(f"η = {lr:g}, β = {beta:g}" for lr, beta in settings)
    panels = (
        *(Panel(title, RANK, "rate λ̃ (solid), λ (dashed)", groups) for title in titles),
        *(Panel("", RANK, "λ − λ̃", groups) for _ in titles),
    )
    names = tuple(f"{title}, {group}: share of rates between two eigenvalues" for title in titles for group in groups)
    return Plan(panels, [piece(at, group) for at in range(2) for group in range(len(sizes))], max(sizes), names)


def figure_13(_: Any) -> Plan:
    """Eq. 8 beside eq. 6 at three rates: the second is 2/(2−η) times the first inside the window."""
    grid, spectrum = np.geomspace(0.3, 300, 60), online.Spectrum.power_law(128, 1.0)

    def piece(panel: int) -> Callable[[], list[Line]]:
        def compute() -> list[Line]:
            lr = RATES[panel]
            small = online.small_rate_curve(spectrum, lr, 0.0, grid).eps
            any_rate = online.general_curve(spectrum, lr, 0.0, grid).eps
            first, last = online.power_law_window(128, 1.0, lr)
            inside = (grid > 10 * first) & (grid < last)
            slopes = [np.polyfit(np.log(grid[inside]), np.log(one[inside]), 1)[0] for one in (small, any_rate)]
            above = float(np.min(any_rate / small))
            return [
                Line(panel, 0, PREDICTED, grid, small),
                Line(panel, 1, SOLVED, grid, any_rate),
                *number(3 * panel, 2 / (2 - lr), float(np.median((any_rate / small)[inside])), systematic=0.01),
                *number(3 * panel + 1, slopes[0], slopes[1], systematic=0.005),
                Line(NUMBERS, 3 * panel + 2, SOLVED, [0.0], [above]),
            ]

        return compute

    panels = tuple(Panel(f"η = {lr:g}", ALPHA, EPS, ("small η (eq. 8)", "any η")) for lr in RATES)
    names = tuple(
        f"η = {lr:g}: {what}"
        for lr in RATES
        for what in ("any η over small η in the window", "slope in the window, any η", "least ratio")
    )
    return Plan(panels, [piece(panel) for panel in range(3)], 60, names)


def figure_14(spec: Any, features: int) -> Plan:
    """The spectrum of the user's data beside eq. 1 with the fitted exponent; and Figure 3's curves on it."""

    def spectrum() -> list[Line]:
        found = online.Spectrum.from_data(online.load_data(spec.data))
        fitted = found.fit()
        ranks = np.arange(1, found.modes + 1)
        law = online.Spectrum.power_law(found.modes, fitted.exponent).eigenvalues
        return [
            Line(0, 0, SOLVED, ranks, found.eigenvalues),
            Line(0, 1, PREDICTED, ranks, law),
            Line(NUMBERS, 0, SOLVED, [0.0], [fitted.exponent], [fitted.spread]),
        ]

    panel = Panel(f"spectrum, N = {features}", "rank l", "eigenvalue λ", ("data", "eq. 1, fitted β"))
    pieces = [spectrum, *(data_piece(1, group, spec) for group in range(3))]
    return Plan((panel, data_panel(features)), pieces, max(features, 8), ("fitted β",))


def figure_15(spec: Any) -> Plan:
    """Trained features outside the eigenbasis: eq. 84 and its floor, eq. 88, beside SGD."""
    paper = spec.scale == "paper"
    modes, trained, draws = (256, (50, 100, 150, 200), 300) if paper else (64, (12, 25, 37, 50), 60)
    grid = np.geomspace(1, 1e4 if paper else 1000, 10)
    values = online.Spectrum.power_law(modes, 1.0).eigenvalues

    def piece(group: int) -> Callable[[], list[Line]]:
        def compute() -> list[Line]:
            covariance = turned(values, np.random.default_rng([spec.seed, 15]))
            spectrum = online.Spectrum.from_covariance(covariance, normalise=False)
            learn = trained[group]
            runs = online.simulate(
                1, 1, spectrum, 0.05, grid, inputs=modes, sigma=0.01, activation="linear", trained=learn, rotated=True,
                seeds=range(spec.seed, spec.seed + draws),
            )  # fmt: skip
            exact = online.rotated_curve(covariance, learn, 0.05, 0.01, grid).eps
            floor = float(online.rotated_floor(covariance, learn, 0.01).value)
            return [
                Line(0, group, PREDICTED, grid, exact, systematic=0.05 / 1.95 * exact, compared=True),
                Line(0, group, PRINTED, grid, np.full(grid.size, floor)),
                simulated(0, group, runs),
            ]

        return compute

    panel = Panel(f"turned covariance, N = L = {modes}", ALPHA, EPS, tuple(f"N_l = {n}" for n in trained))
    return Plan((panel,), [piece(group) for group in range(len(trained))], 10)


def turned(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A covariance with these eigenvalues and random eigenvectors."""
    turn, upper = np.linalg.qr(rng.normal(size=(values.size, values.size)))
    turn = turn * np.sign(np.diagonal(upper))  # so that every turn is as likely
    return (turn * values) @ turn.T


def figure_16(spec: Any) -> Plan:
    """The floor over N_l, in the eigenbasis and outside it: the same power, a higher floor outside."""
    paper = spec.scale == "paper"
    modes, matrices = (1024, 100) if paper else (256, 16)
    betas, trained = (0.3, 0.75, 1.0, 1.5), np.unique(np.geomspace(4, modes * 0.7, 12).astype(int))

    def piece(group: int) -> Callable[[], list[Line]]:
        def compute() -> list[Line]:
            beta = betas[group]
            spectrum = online.Spectrum.power_law(modes, beta)
            inside = np.array([float(online.feature_floor(modes, beta, 0.01, int(n)).value) for n in trained])
            integral = 1.0001 * spectrum.largest / (2 * beta * modes) * (trained**-beta - float(modes) ** -beta)
            covariances = (
                turned(spectrum.eigenvalues, np.random.default_rng([spec.seed, group, at])) for at in range(matrices)
            )
            found = np.array(
                [np.asarray(online.rotated_floor(one, trained.tolist(), 0.01).value) for one in covariances]
            )
            outside, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(matrices)
            panel, middle = group // 2, slice(2, 8)
            logs = np.log(trained[middle])
            slopes = [np.polyfit(logs, np.log(one[middle]), 1)[0] for one in (inside, outside, integral)]
            each = [np.polyfit(logs, np.log(one[middle]), 1)[0] for one in found]
            spread = float(np.std(each, ddof=1) / np.sqrt(matrices))
            return [
                Line(panel, group % 2, PREDICTED, trained, inside),
                Line(panel, group % 2, PRINTED, trained, integral),
                Line(panel, group % 2, SOLVED, trained, outside, error),
                *number(3 * group, slopes[0], slopes[1], error=spread, systematic=0.03),
                *number(3 * group + 1, slopes[2], slopes[0], systematic=0.02),
                Line(NUMBERS, 3 * group + 1, PRINTED, [0.0], [-beta], systematic=0.02, compared=True),
                Line(NUMBERS, 3 * group + 2, SOLVED, [0.0], [float(np.min(outside / inside))]),
            ]

        return compute

    panels = tuple(
        Panel(
            f"N = L = {modes}", "trained features N_l", "ε for α → ∞", tuple(f"β = {b:g}" for b in betas[at : at + 2])
        )
        for at in (0, 2)
    )
    names = tuple(
        f"β = {beta:g}: {what}"
        for beta in betas
        for what in ("slope outside the eigenbasis", "slope in the eigenbasis", "outside over inside, least")
    )
    return Plan(panels, [piece(group) for group in range(4)], trained.size, names)
