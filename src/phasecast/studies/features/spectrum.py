"""What does the Hessian look like below and above the threshold? All its eigenvalues in d dimensions beside the limit.

The figure "Spectrum of the Hessian" of the slides of Wang & Montanari 2026: below δ*(t) a bulk alone, above it an
eigenvalue below the bulk whose eigenvector points to the hard subspace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.answers import Answer, Answers
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Comparison, Measurement, Prediction, Status, Verdict
from phasecast.core.statistics import standard_error
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.tables import Table
from phasecast.studies.features.shared_setting import Setting, State, check_hard, one_row, remaining, rising

if TYPE_CHECKING:
    import xarray as xr

POINTS = 240  # at which the density is computed, enough for a smooth curve


@dataclass(frozen=True)
class SpectrumPolicy(Policy):
    """How far a finite dimension may be from the limit."""

    edge_scale: float = rule(
        2.0, "chosen: the lowest eigenvalue of a bulk lies about this times |edge| d^(-2/3) above its edge"
    )  # fmt: skip
    edge_exponent: float = rule(-2 / 3, "fluctuations of an extreme eigenvalue, Tracy & Widom")
    outlier_exponent: float = rule(-0.5, "fluctuations of an outlier and of its overlap are Gaussian")


POLICY = SpectrumPolicy()


class FeatureSpectrum(Setting):
    """At which δ and step, in how many dimensions."""

    PAPER: ClassVar[Mapping[str, Any]] = {"dimension": 3000, "runs": 4, "samples": 50_000}

    deltas: tuple[float, ...] = Field(default=(3.0, 10.0), min_length=1, description="examples per dimension δ, rising")
    step: int = Field(default=20, ge=0, le=60, description="after how many steps")
    dimension: int = Field(default=800, ge=20, le=6000, description="dimension d")
    runs: int = Field(default=4, ge=2, description="draws of examples and weights")
    samples: int = Field(default=20_000, ge=500, description="samples of the limit")
    theory_seeds: int = Field(default=4, ge=2, description="draws of the limit")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        rising("deltas", self.deltas)
        check_hard(self.aim())
        return self


def work(spec: FeatureSpectrum, state: State) -> Iterator[Chunk]:
    """One chunk per run, and one per limit at one δ."""
    per = spec.runs + 1
    total = len(spec.deltas) * per
    for done in remaining(state, total):
        delta, number = spec.deltas[done // per], done % per
        row = _run(spec, delta, number) if number < spec.runs else _limit(spec, delta)
        rows = {"runs" if number < spec.runs else "limit": one_row(**row)}
        yield Chunk({"done": done + 1}, rows, done + 1, total)


def _run(spec: FeatureSpectrum, delta: float, number: int) -> dict[str, Any]:
    """All eigenvalues, dense, and the overlap of the lowest, by Lanczos."""
    from phasecast.features.curvature.per_example import loss_hessian
    from phasecast.features.simulation.descent import descend, draw_data, lowest_curvatures

    data = draw_data(spec.network(), spec.aim(), delta, spec.dimension, seed=spec.seed + number)
    run = descend(data, spec.lr, spec.step, record=[spec.step])
    if run.status is Status.REFUSED:
        return {"delta": delta, "values": np.full(spec.dimension, np.nan), "overlap2": np.nan}
    G = loss_hessian(data.network, (data.X @ run.theta).astype(float), data.y)[:, 0, 0]
    values = np.linalg.eigvalsh((data.X.T * G.astype(np.float32)) @ data.X / len(G))
    return {"delta": delta, "values": values, "overlap2": lowest_curvatures(data, run.theta, 2).overlap2[0]}


def _limit(spec: FeatureSpectrum, delta: float) -> dict[str, Any]:
    from phasecast.features.curvature.dmft import dmft
    from phasecast.features.hessian_spectrum import density, hessian_spectrum
    from phasecast.features.simulation.margins import bounded

    spectra, law = [], None
    for seed in range(spec.theory_seeds):
        run = dmft(spec.network(), spec.aim(), delta, spec.lr, spec.step, samples=spec.samples, seed=spec.seed + seed)
        if run.status is Status.REFUSED:
            nothing = np.full(spec.theory_seeds, np.nan)
            empty = np.full(POINTS, np.nan)
            return {"delta": delta, "edge": nothing, "outlier": nothing, "overlap2": nothing, "at": empty,
                    "density": empty}  # fmt: skip
        law = bounded(run.law(spec.step))
        spectra.append(hessian_spectrum(law, delta))
    assert law is not None
    first = [one.outliers[0] if one.outliers else None for one in spectra]
    edges = np.array([one.edge for one in spectra])
    high = float(law.mean(law.G) + 4 * np.sqrt(law.mean(law.G**2) / delta))  # four standard deviations of the bulk
    at = np.linspace(edges.min() - 0.2 * (high - edges.min()), high, POINTS)
    return {
        "delta": delta,
        "edge": edges,
        "outlier": np.array([np.nan if one is None else one.value for one in first]),
        "overlap2": np.array([np.nan if one is None else one.overlap2 for one in first]),
        "at": at,
        "density": density(law, delta, at, width=(at[1] - at[0]) / 2),
    }


def layout(spec: FeatureSpectrum) -> Mapping[str, Table]:
    runs = {"delta": "δ = n/d", "values": "eigenvalues, rising", "overlap2": "overlap² of the lowest with θ_*"}
    limit = {"delta": "δ", "edge": "left edge of the bulk", "outlier": "informative outlier; NaN if none",
             "overlap2": "its overlap²", "at": "where the density is", "density": "of the bulk"}  # fmt: skip
    shapes = {"delta": (), "values": ("order",), "overlap2": ()}
    theory = {"delta": (), "edge": ("draw",), "outlier": ("draw",), "overlap2": ("draw",), "at": ("point",),
              "density": ("point",)}  # fmt: skip
    return {
        "runs": Table("run", shapes, {"order": np.arange(spec.dimension)}, runs),
        "limit": Table(
            "setting", theory, {"draw": np.arange(spec.theory_seeds), "point": np.arange(POINTS)}, limit
        ),
    }  # fmt: skip


def conclude(spec: FeatureSpectrum, results: xr.DataTree) -> Conclusion:
    from phasecast.features.simulation.descent import over_draws

    answers: list[Answer] = []
    numbers: dict[str, float | int | None] = {}
    parts = []
    node, limit = results["runs"].to_dataset(), results["limit"].to_dataset()
    d = spec.dimension
    for number, delta in enumerate(spec.deltas):
        chosen = np.flatnonzero(node["delta"].values == delta)
        values, overlap2 = node["values"].values[chosen], node["overlap2"].values[chosen]
        edges, outliers, overlaps = (limit[name].values[number] for name in ("edge", "outlier", "overlap2"))
        if not (np.isfinite(values).all() and np.isfinite(edges).all()):
            refused = Measurement.refused("descent diverges; lower the learning rate", error_kind="seeds")
            answers.append(Answer("lowest-eigenvalue", refused, f"lowest eigenvalue, δ = {delta:g}", {"delta": delta}))
            continue
        outside = np.isfinite(outliers).mean() > 0.5
        lowest = over_draws(values[:, 0])
        edge_width = POLICY.edge_scale * abs(edges.mean()) * d**POLICY.edge_exponent
        outlier_width = d**POLICY.outlier_exponent
        if outside:
            there, spread = outliers[np.isfinite(outliers)], overlaps[np.isfinite(overlaps)]
            beside = _beside(there, max(edge_width, abs(there.mean()) * outlier_width), lowest)
            answers.append(Answer("outlier", beside, f"outlier, δ = {delta:g}", {"delta": delta}))
            beside = _beside(spread, outlier_width, over_draws(overlap2))
            answers.append(Answer("overlap2", beside, f"overlap², δ = {delta:g}", {"delta": delta}))
        bulk = over_draws(values[:, 1 if outside else 0])
        beside = _beside(edges, edge_width, bulk)
        answers.append(Answer("edge", beside, f"edge, δ = {delta:g}", {"delta": delta}))
        numbers[f"overlap² of the lowest, δ = {delta:g}"] = float(overlap2.mean())
        outcome = "an outlier" if outside else "no outlier"
        parts.append(
            f"δ = {delta:g}: {outcome} is predicted, the lowest eigenvector has overlap² {overlap2.mean():.2f}"
        )
    agree = sum(one.verdict is Verdict.AGREES for one in Answers(answers).comparisons())
    return Conclusion(answers, f"{'; '.join(parts)}. {agree} of {len(answers)} numbers agree with the limit.", numbers)


def _beside(draws: np.ndarray, finite: float, measured: Measurement) -> Comparison:
    """A measurement beside the limit, known up to its spread over draws and the effect of a finite d."""
    spread = standard_error(draws) if len(draws) > 1 else 0.0
    return Comparison(Prediction(draws.mean(), "d → ∞", "DMFT", float(np.hypot(spread, finite))), measured)


def figures(spec: FeatureSpectrum, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import COLOURS, EXACT, blank, legend

    count = len(spec.deltas)
    figure, axes = blank(1, count, width=3.9 * max(2, count), height=3.2)
    node, limit = results["runs"].to_dataset(), results["limit"].to_dataset()
    for number, delta in enumerate(spec.deltas):
        one = axes[0, number]
        values = node["values"].values[node["delta"].values == delta]
        at, shape = limit["at"].values[number], limit["density"].values[number]
        edge, outlier = limit["edge"].values[number].mean(), limit["outlier"].values[number]
        if np.isfinite(values).all() and np.isfinite(at).all():
            one.hist(values.ravel(), bins=80, range=(at[0], at[-1]), density=True, color=COLOURS[5], alpha=0.5)
            one.plot(at, shape, color=COLOURS[0], lw=1.2, label="bulk, d → ∞")
            one.axvline(edge, **EXACT, label="edge")
            one.plot(values[:, 0], np.full(len(values), shape.max() / 40), "v", color=COLOURS[1], ms=5, label="lowest")
            if np.isfinite(outlier).mean() > 0.5:
                one.axvline(np.nanmean(outlier), color=COLOURS[1], ls=":", lw=1.5, label="outlier, d → ∞")
        mean = node["overlap2"].values[node["delta"].values == delta].mean()
        one.set_title(f"δ = {delta:g}; overlap² of the lowest: {mean:.2f}", fontsize=10)
        one.set_xlabel("eigenvalue λ of the Hessian")
        legend(one)
    axes[0, 0].set_ylabel("density")
    caption = (
        f"All eigenvalues of {spec.runs} runs in d = {spec.dimension} after {spec.step} steps, the lowest of each run "
        "marked, beside the limit."
    )
    return {"spectrum": Captioned(figure, caption)}


RECIPE = Recipe(
    name="feature-spectrum",
    version=1,
    question="Does an eigenvector of the Hessian below its bulk point to the hard direction, above the threshold only?",
    spec=FeatureSpectrum,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"deltas": (2.0, 10.0), "dimension": 60, "runs": 2, "step": 2, "samples": 1000, "theory_seeds": 2},
)
