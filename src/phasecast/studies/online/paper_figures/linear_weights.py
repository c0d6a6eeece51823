"""Which figures about the weights and rates of the exact linear solution hold? Figures 10 to 12 of the paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasecast import online
from phasecast.core.policy import Policy, rule
from phasecast.studies.online.paper_figures.linear_curves import RATES
from phasecast.studies.online.paper_figures.lines import (
    PREDICTED,
    SOLVED,
    Line,
    Panel,
    Piece,
    Plan,
    Quantity,
    Settings,
    listed,
    number,
    single,
)

RANK = "number k of the mode"


@dataclass(frozen=True)
class LinearWeightPolicy(Policy):
    """How far weights and rates of the exact solution may be from their prediction."""

    weight_slope: float = rule(0.05, "chosen, not derived: width of the slope −(1+β) of the weights, Figure 10")
    share_rounding: float = rule(1e-9, "a share of modes is a ratio of whole numbers, so any other share differs")


POLICY = LinearWeightPolicy()


def figure_10(settings: Settings) -> Plan:
    """Weights b_kλ̃_k of the exact solution and the eigenvalues, by the number of modes, at η = 1."""
    sizes = (10, 20, 30, 40, 50, 75, 100, 125) if settings.paper else (10, 40, 125)
    cases = [(panel, group, beta) for panel, beta in enumerate((0.1, 1.0)) for group in range(len(sizes))]

    def piece(panel: int, group: int, beta: float) -> Piece:
        def compute() -> list[Line]:
            spectrum = online.Spectrum.power_law(sizes[group], beta)
            drawn = _weights(panel, group, spectrum, 1.0, first=False)
            x, y, half = np.asarray(drawn[0].x), np.asarray(drawn[0].y), slice(1, sizes[group] // 2)
            slope = float(np.polyfit(np.log(x[half]), np.log(y[half]), 1)[0])
            at = 2 * (panel * len(sizes) + group)
            return [
                *drawn,
                *number(at, -1 - beta, slope, systematic=POLICY.weight_slope),
                single(at + 1, float(np.max(np.diff(np.log(y))))),
            ]

        return compute

    panels = tuple(
        Panel(f"β = {beta:g}, η = 1", RANK, "weight b λ̃", tuple(f"L = {n}" for n in sizes)) for beta in (0.1, 1.0)
    )
    quantities = (
        ("weight-slope", "slope of the weights, modes 2 to L/2"),
        ("largest-weight-rise", "largest rise of a log weight to the next"),
    )
    numbers = tuple(
        Quantity(id, f"β = {beta:g}, L = {sizes[group]}: {what}", {"beta": beta, "modes": sizes[group]}, "exact")
        for _, group, beta in cases
        for id, what in quantities
    )
    setting = f"one linear unit, L = {listed(sizes)}, β = 0.1 and 1, η = 1; closed forms, no SGD"
    return Plan(panels, [piece(*case) for case in cases], max(sizes), numbers, setting=setting)


def figure_11(_: Settings) -> Plan:
    """The same by the exponent, with the eigenvalues themselves, which are the first order in η."""
    betas = (1.0, 0.5, 0.1, 0.01)

    def piece(panel: int) -> Piece:
        def compute() -> list[Line]:
            spectra = [online.Spectrum.power_law(40, beta) for beta in betas]
            drawn = [line for group, one in enumerate(spectra) for line in _weights(panel, group, one, RATES[panel])]
            changes = [
                abs(online.secular_weights(one, RATES[panel])[1] * 40 / one.eigenvalues - 1).max() for one in spectra
            ]
            # what the first order in η leaves out is of relative size η
            return [*drawn, *number(panel, 0.0, max(changes), systematic=RATES[panel])]

        return compute

    groups = tuple(f"β = {beta:g}" for beta in betas)
    panels = tuple(Panel(f"η = {lr:g}, L = 40", RANK, "weight b λ̃ (solid), λ (dashed)", groups) for lr in RATES)
    numbers = tuple(
        Quantity("largest-weight-change", f"largest relative change of a weight at η = {lr:g}", {"lr": lr}, "exact")
        for lr in RATES
    )
    setting = (
        f"one linear unit, L = 40, β = {listed(betas)}, η = {listed(RATES)}; closed forms, no SGD; the same at "
        "both scales"
    )
    return Plan(panels, [piece(panel) for panel in range(3)], 40, numbers, setting=setting)


def _weights(panel: int, group: int, spectrum: online.Spectrum, lr: float, *, first: bool = True) -> list[Line]:
    ranks = np.arange(1, spectrum.modes + 1)
    weights = online.secular_weights(spectrum, lr)[1] * spectrum.modes
    drawn = [Line(panel, group, SOLVED, ranks, weights)]
    return [*drawn, Line(panel, group, PREDICTED, ranks, spectrum.eigenvalues)] if first else drawn


def figure_12(settings: Settings) -> Plan:
    """Rates of the exact solution, and their distance from the eigenvalues: between two of them, so never large."""
    sizes = (10, 15, 20, 25, 50, 75, 100, 125, 150) if settings.paper else (10, 50, 150)
    cases = ((1.0, 0.1), (0.5, 1.0))

    def piece(at: int, group: int) -> Piece:
        def compute() -> list[Line]:
            lr, beta = cases[at]
            spectrum = online.Spectrum.power_law(sizes[group], beta)
            rates, ranks = online.secular_weights(spectrum, lr)[0], np.arange(1, sizes[group] + 1)
            lower = np.append(spectrum.eigenvalues[1:], 0.0)
            between = float(np.mean((rates < spectrum.eigenvalues) & (rates > lower)))
            return [
                Line(at, group, SOLVED, ranks, rates),
                Line(at, group, PREDICTED, ranks, spectrum.eigenvalues),
                Line(2 + at, group, SOLVED, ranks, spectrum.eigenvalues - rates),
                *number(at * len(sizes) + group, 1.0, between, systematic=POLICY.share_rounding),
            ]

        return compute

    groups = tuple(f"L = {n}" for n in sizes)
    titles = tuple(f"η = {lr:g}, β = {beta:g}" for lr, beta in cases)
    panels = (
        *(Panel(title, RANK, "rate λ̃ (solid), λ (dashed)", groups) for title in titles),
        *(Panel("", RANK, "λ − λ̃", groups) for _ in titles),
    )
    numbers = tuple(
        Quantity(
            "rates-between-eigenvalues",
            f"η = {lr:g}, β = {beta:g}, L = {modes}: share of rates between two eigenvalues",
            {"lr": lr, "beta": beta, "modes": modes},
            "exact",
        )
        for lr, beta in cases
        for modes in sizes
    )
    setting = f"one linear unit, L = {listed(sizes)}; (η, β) = (1, 0.1) and (0.5, 1); closed forms, no SGD"
    return Plan(
        panels,
        [piece(at, group) for at in range(2) for group in range(len(sizes))],
        max(sizes),
        numbers,
        setting=setting,
    )


FIGURES = {10: figure_10, 11: figure_11, 12: figure_12}
