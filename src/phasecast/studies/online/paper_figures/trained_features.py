"""Which figures about N_l trained features hold? Figures 3 and 14 to 16 of Worschech & Rosenow 2024."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasecast import online
from phasecast.core.policy import Policy, rule
from phasecast.core.statistics import standard_error
from phasecast.studies.online.paper_figures.linear_curves import simulated
from phasecast.studies.online.paper_figures.lines import (
    ALPHA,
    EPS,
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

LR, SIGMA = 0.05, 0.01  # the paper's learning rate and σ_J in all of these figures
SEEDS = 50  # runs of SGD per curve, as in the paper


@dataclass(frozen=True)
class TrainedFeaturePolicy(Policy):
    """How far a figure may be from its prediction."""

    other_moments: float = rule(
        0.02, "chosen, not derived: relative change of ε, as the noise of steps has other fourth moments on real data"
    )
    slope_between_bases: float = rule(0.03, "chosen, not derived: slopes of the floor in and outside the eigenbasis")
    floor_slope: float = rule(0.02, "chosen, not derived: slope of the floor compared with its integral's and −β")


POLICY = TrainedFeaturePolicy()


def step_noise(lr: float) -> float:
    """The noise of the steps, which the first order in η leaves out, relative to ε: 2/(2−η) − 1."""
    return lr / (2 - lr)


def figure_3(settings: Settings) -> Plan:
    """Trained features in the eigenbasis; on a data matrix if one is given."""
    modes, trained = (256, (50, 100, 150, 200)) if settings.paper else (64, (12, 25, 37, 50))
    grid = np.geomspace(1, 1e4 if settings.paper else 1000, 12)
    seeds = range(settings.seed, settings.seed + SEEDS)
    spectrum = online.Spectrum.power_law(modes, 1.0)

    def gaussian(group: int) -> Piece:
        def compute() -> list[Line]:
            learn = trained[group]
            runs = online.simulate(
                1, 1, spectrum, LR, grid, inputs=modes, sigma=SIGMA, seeds=seeds, activation="linear", trained=learn
            )
            exact = online.small_rate_curve(spectrum, LR, SIGMA, grid, learn).eps
            ours = online.integral_curve(modes, 1.0, LR, SIGMA, grid, learn)
            whole = np.asarray(online.integral_curve(modes, 1.0, LR, SIGMA, grid).value)
            floor = 1.0001 * spectrum.largest / (2 * modes) * (1 / learn - 1 / modes)
            left_out = step_noise(LR) * exact + online.general_curve(spectrum, LR, SIGMA, grid, learn).eps - exact
            return [
                Line(0, group, PREDICTED, grid, exact, systematic=left_out, compared=True),
                Line(0, group, PRINTED, grid, floor + whole, systematic=width_of_bound(ours.systematic)),
                simulated(0, group, runs),
            ]

        return compute

    labels, where = _trained_groups(trained)
    panels = [Panel(f"Gaussian inputs, N = L = {modes}", ALPHA, EPS, labels, id="curve", where=where)]
    pieces = [gaussian(group) for group in range(len(trained))]
    if settings.data is not None:
        panels.append(data_panel(settings.features))
        pieces += [data_piece(1, group, settings) for group in range(3)]
    setting = (
        f"one linear unit, L = N = {modes}, β = 1, η = {LR:g}, σ_J = {SIGMA:g}, N_l = {listed(trained)}; {SEEDS} "
        "runs of SGD per curve; with data also the rows of the file"
    )
    return Plan(tuple(panels), pieces, 12, setting=setting)


def _trained_groups(trained: tuple[int, ...], inputs: str = "gaussian") -> tuple[tuple[str, ...], tuple[dict, ...]]:
    """Labels and parameters of groups of lines, one per number of trained features."""
    return tuple(f"N_l = {n}" for n in trained), tuple({"inputs": inputs, "trained": n} for n in trained)


def data_panel(features: int) -> Panel:
    """The panel of SGD on a data matrix."""
    labels, where = _trained_groups(trained_of(features), "data")
    return Panel(f"data, N = {features}", ALPHA, EPS, labels, id="curve", where=where)


def trained_of(features: int) -> tuple[int, int, int]:
    """5, 10 and 20% of the features, as in the paper, and three different numbers at least."""
    few = max(features // 20, 1)
    return few, max(features // 10, few + 1), max(features // 5, few + 2)


def data_piece(panel: int, group: int, settings: Settings) -> Piece:
    """SGD on the rows of a matrix, and eq. 10 with the spectrum of these rows."""

    def compute() -> list[Line]:
        rows = _data(settings)
        learn, last = trained_of(rows.shape[1])[group], len(rows) / rows.shape[1]
        grid = np.geomspace(min(1.0, last / 10), last, 8)
        seeds = range(settings.seed, settings.seed + SEEDS)
        runs = online.simulate_data(rows, 1, 1, LR, grid, sigma=SIGMA, seeds=seeds, trained=learn)
        spectrum = online.Spectrum.from_data(rows)
        exact = online.small_rate_curve(spectrum, LR, SIGMA, grid, learn).eps
        noise = np.abs(online.general_curve(spectrum, LR, SIGMA, grid, learn).eps - exact)
        return [
            Line(panel, group, PREDICTED, grid, exact, systematic=noise + POLICY.other_moments * exact, compared=True),
            simulated(panel, group, runs),
        ]

    return compute


def _data(settings: Settings) -> np.ndarray:
    assert settings.data is not None, "the spec requires data for this figure"
    return online.load_data(settings.data)


def figure_14(settings: Settings) -> Plan:
    """The spectrum of the data and eq. 1 with the fitted exponent; and the curves of Figure 3 on these data."""

    def spectrum() -> list[Line]:
        measured = online.Spectrum.from_data(_data(settings))
        fitted = measured.fit()
        ranks = np.arange(1, measured.modes + 1)
        law = online.Spectrum.power_law(measured.modes, fitted.exponent).eigenvalues
        return [
            Line(0, 0, SOLVED, ranks, measured.eigenvalues),
            Line(0, 1, PREDICTED, ranks, law),
            single(0, fitted.exponent, fitted.spread),
        ]

    panel = Panel(f"spectrum, N = {settings.features}", "rank l", "eigenvalue λ", ("data", "eq. 1, fitted β"))
    pieces = [spectrum, *(data_piece(1, group, settings) for group in range(3))]
    panels = (panel, data_panel(settings.features))
    setting = (
        f"one linear unit on the rows of the file, N = {settings.features}, η = {LR:g}, σ_J = {SIGMA:g}; {SEEDS} "
        "runs of SGD per curve"
    )
    return Plan(
        panels,
        pieces,
        max(settings.features, 8),
        (Quantity("fitted-exponent", "fitted β", {}, "jackknife"),),
        setting=setting,
    )


def figure_15(settings: Settings) -> Plan:
    """Trained features outside the eigenbasis: eq. 84, its floor, eq. 88, and SGD."""
    modes, trained, draws = (256, (50, 100, 150, 200), 300) if settings.paper else (64, (12, 25, 37, 50), 60)
    grid = np.geomspace(1, 1e4 if settings.paper else 1000, 10)
    values = online.Spectrum.power_law(modes, 1.0).eigenvalues

    def piece(group: int) -> Piece:
        def compute() -> list[Line]:
            covariance = turned(values, np.random.default_rng([settings.seed, 15]))
            spectrum = online.Spectrum.from_covariance(covariance, normalise=False)
            learn = trained[group]
            runs = online.simulate(
                1, 1, spectrum, LR, grid, inputs=modes, sigma=SIGMA, activation="linear", trained=learn, rotated=True,
                seeds=range(settings.seed, settings.seed + draws),
            )  # fmt: skip
            exact = online.rotated_curve(covariance, learn, LR, SIGMA, grid).eps
            floor = float(online.rotated_floor(covariance, learn, SIGMA))
            return [
                Line(0, group, PREDICTED, grid, exact, systematic=step_noise(LR) * exact, compared=True),
                Line(0, group, PRINTED, grid, np.full(grid.size, floor)),
                simulated(0, group, runs),
            ]

        return compute

    labels, where = _trained_groups(trained)
    panel = Panel(f"turned covariance, N = L = {modes}", ALPHA, EPS, labels, id="curve", where=where)
    setting = (
        f"one linear unit, L = N = {modes}, β = 1, a random rotation, η = {LR:g}, σ_J = {SIGMA:g}, N_l = "
        f"{listed(trained)}; {draws} runs of SGD per curve"
    )
    return Plan((panel,), [piece(group) for group in range(len(trained))], 10, setting=setting)


def turned(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A covariance with these eigenvalues and random eigenvectors."""
    turn, upper = np.linalg.qr(rng.normal(size=(values.size, values.size)))
    turn = turn * np.sign(np.diagonal(upper))  # so that every rotation is equally likely
    return (turn * values) @ turn.T


def figure_16(settings: Settings) -> Plan:
    """The floor over N_l, in the eigenbasis and outside it: the same power, a higher floor outside."""
    modes, matrices = (1024, 100) if settings.paper else (256, 16)
    betas, trained = (0.3, 0.75, 1.0, 1.5), np.unique(np.geomspace(4, modes * 0.7, 12).astype(int))

    def piece(group: int) -> Piece:
        def compute() -> list[Line]:
            beta = betas[group]
            spectrum = online.Spectrum.power_law(modes, beta)
            inside = np.array([float(online.feature_floor(modes, beta, SIGMA, int(n))) for n in trained])
            integral = 1.0001 * spectrum.largest / (2 * beta * modes) * (trained**-beta - float(modes) ** -beta)
            covariances = (
                turned(spectrum.eigenvalues, np.random.default_rng([settings.seed, group, at]))
                for at in range(matrices)
            )
            floors = np.array(
                [np.asarray(online.rotated_floor(one, trained.tolist(), SIGMA).value) for one in covariances]
            )
            outside = floors.mean(axis=0)
            panel, middle = group // 2, slice(2, 8)
            logs = np.log(trained[middle])
            slopes = [np.polyfit(logs, np.log(one[middle]), 1)[0] for one in (inside, outside, integral)]
            spread = float(standard_error([np.polyfit(logs, np.log(one[middle]), 1)[0] for one in floors]))
            return [
                Line(panel, group % 2, PREDICTED, trained, inside),
                Line(panel, group % 2, PRINTED, trained, integral),
                Line(panel, group % 2, SOLVED, trained, outside, standard_error(floors)),
                *number(3 * group, slopes[0], slopes[1], error=spread, systematic=POLICY.slope_between_bases),
                *number(3 * group + 1, slopes[2], slopes[0], systematic=POLICY.floor_slope),
                printed_number(3 * group + 1, -beta, POLICY.floor_slope),
                single(3 * group + 2, float(np.min(outside / inside))),
            ]

        return compute

    panels = tuple(
        Panel(
            f"N = L = {modes}", "trained features N_l", "ε for α → ∞", tuple(f"β = {b:g}" for b in betas[at : at + 2])
        )
        for at in (0, 2)
    )
    numbers = tuple(
        quantity
        for beta in betas
        for quantity in (
            Quantity(
                "floor-slope",
                f"β = {beta:g}: slope outside the eigenbasis",
                {"beta": beta, "basis": "random"},
                "seeds",
                averaged=True,
            ),
            Quantity(
                "floor-slope", f"β = {beta:g}: slope in the eigenbasis", {"beta": beta, "basis": "eigen"}, "exact"
            ),
            Quantity(
                "smallest-floor-ratio", f"β = {beta:g}: outside over inside, smallest", {"beta": beta}, "seeds", True
            ),
        )
    )
    setting = (
        f"one linear unit, L = N = {modes}, β = {listed(betas)}, σ_J = {SIGMA:g}, small η; {matrices} random "
        "rotations, closed forms, no SGD"
    )
    return Plan(panels, [piece(group) for group in range(4)], trained.size, numbers, setting=setting)


FIGURES = {3: figure_3, 14: figure_14, 15: figure_15, 16: figure_16}
