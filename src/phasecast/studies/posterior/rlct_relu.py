"""Is the RLCT of a ReLU network that of Table 2? Its setting, with a check of the phase; and the network's own λ.

Section 6 of "Deep learning is singular, and that's good": five hidden units, truths with m = 3, 4, 5 of them, a prior
of standard deviation 50, n = 1000. At nβ ≈ 100 all units are dead and λ̂ ≈ ½ is that of a constant. With noise-free
labels and nβ ≥ 10⁵ the posterior is around the truth, and λ̂ is near (3m + 1)/2.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.answers import Answer
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Comparison, Measurement, Prediction, Status
from phasecast.core.statistics import standard_error
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.spec import Spec
from phasecast.lab.tables import Table

if TYPE_CHECKING:
    import xarray as xr

DRAWS_OF_PAPER = 20_000  # the paper sets its β by this number in place of the number of data
TABLE_2 = {
    ("relu", 3): (0.526301, 0.027181), ("silu", 3): (0.522393, 0.026342),
    ("relu", 4): (0.539590, 0.024774), ("silu", 4): (0.539387, 0.020769),
    ("relu", 5): (0.555303, 0.002344), ("silu", 5): (0.555630, 0.021184),
}  # fmt: skip
"""The printed RLCT and its standard deviation, by activation and m."""
COLD = (1e5, 3e5)  # nβ with noise-free labels: where the posterior is around the truth
COLUMNS = ("slope", "variance", "error", "excess", "live", "r2", "rhat", "ess", "apart", "divergences")


@dataclasses.dataclass(frozen=True)
class RlctReluPolicy(Policy):
    """How far λ̂ of the network may be from (3m + 1)/2."""

    width_per_unit: float = rule(
        0.05, "chosen, not derived: at nβ from 10⁵ to 3·10⁵ each unit is allowed to be 3% from its three halves"
    )


POLICY = RlctReluPolicy()


class RlctRelu(Spec):
    """Which truths, which labels, how long."""

    true_units: tuple[int, ...] = Field(default=(3, 4, 5), min_length=1, description="units m of the truths")
    hidden: int = Field(default=5, ge=3, description="units H of the model")
    activation: Literal["relu", "silu"] = Field(default="relu", description="of the hidden units")
    labels: Literal["noisy", "clean"] = Field(
        default="noisy", description="noisy: Table 2, nβ ≈ 100; clean: labels without noise, nβ from 10⁵ to 3·10⁵"
    )
    n: int = Field(default=1000, ge=8, description="observations per data set")
    prior_sd: float = Field(default=50.0, gt=0, description="standard deviation of the normal prior")
    datasets: int = Field(default=4, ge=1, description="data sets per m")
    chains: int = Field(default=4, ge=2, description="chains at each inverse temperature")
    draws: int = Field(default=1000, ge=200, description="steps stored per chain")
    warmup: int = Field(default=300, ge=0, description="steps before them")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if min(self.true_units) < 3 or max(self.true_units) > self.hidden:
            raise ValueError(f"true_units must be between 3 and {self.hidden}, the hidden units of the model")
        if len(set(self.true_units)) != len(self.true_units):
            raise ValueError("true_units contains a value twice; give each once")
        return self

    @property
    def betas(self) -> np.ndarray:
        from phasecast.posterior.rlct import around

        return around(DRAWS_OF_PAPER) if self.labels == "noisy" else np.geomspace(*COLD, 5) / self.n


def work(spec: RlctRelu, state: Mapping[str, Any] | None) -> Iterator[Chunk]:
    """One data set for one m per chunk."""
    from phasecast import posterior
    from phasecast.posterior.zoo.two_layer import network_data, polygon_network, two_layer

    model = two_layer(spec.hidden, 2, spec.activation, prior_sd=spec.prior_sd)
    total = len(spec.true_units) * spec.datasets
    for done in range(0 if state is None else int(state["done"]), total):
        m, number = spec.true_units[done // spec.datasets], done % spec.datasets
        truth = polygon_network(m, spec.hidden)
        seed = int(np.random.default_rng([spec.seed, m, number]).integers(2**31))
        noise = 1.0 if spec.labels == "noisy" else 0.0
        data = network_data(truth, spec.n, seed, activation=spec.activation, noise=noise)
        estimate = posterior.rlct(
            dataclasses.replace(model, truth=truth),
            data,
            spec.betas,
            chains=spec.chains,
            draws=spec.draws,
            warmup=spec.warmup,
            seed=seed,
        )
        values = (
            estimate.slope,
            estimate.variance,
            estimate.variance_error,
            estimate.excess,
            estimate.live_units,
            estimate.predictive_r2,
            estimate.rhat,
            estimate.ess,
            estimate.starts_apart,
            estimate.divergences,
        )
        row = {
            "units": m,
            **dict(zip(COLUMNS, values, strict=True)),
            "local": estimate.curve[:, 1],
            "energy": estimate.curve[:, 3],
        }
        rows = {"sets": {name: np.asarray(value)[None] for name, value in row.items()}}
        yield Chunk({"done": done + 1}, rows, done + 1, total, ("λ̂", estimate.variance))


def layout(spec: RlctRelu) -> Mapping[str, Table]:
    meanings = {
        "units": "units m of the truth",
        "slope": "λ̂ by the slope of E[nL] over 1/β",
        "variance": "λ̂ by β²Var[nL]",
        "error": "standard error of the latter",
        "excess": "β(E[nL] − nL at the truth)",
        "live": "hidden units that affect the outputs",
        "r2": "share of the outputs' variance that the mean prediction explains",
        "rhat": "worst R-hat",
        "ess": "least effective number of draws",
        "apart": "difference of chains from the prior and from the truth, in standard errors",
        "divergences": "share of divergent steps",
        "local": "β²Var[nL] at each β",
        "energy": "E[nL] at each β",
    }
    variables = {name: ("beta",) if name in ("local", "energy") else () for name in meanings}
    return {"sets": Table("run", variables, {"beta": spec.betas}, meanings)}


def conclude(spec: RlctRelu, results: xr.DataTree) -> Conclusion:
    answers, numbers, estimates = [], {}, []
    for m in spec.true_units:
        node = _of(results, m)
        method = "slope" if spec.labels == "noisy" else "variance"
        measured = _measured(spec, node, method)
        if spec.labels == "noisy":
            printed, spread = (
                TABLE_2.get((spec.activation, m), (math.nan, 0.0)) if spec.hidden == 5 else (math.nan, 0.0)
            )
            if math.isfinite(printed):
                source = Prediction(printed, "as printed", "Table 2", systematic=spread)
                label, result = f"λ̂ and Table 2, m = {m}", Comparison(source, measured)
            else:
                label, result = f"λ̂, m = {m}", measured
        else:
            theory = Prediction(
                Fraction(3 * m + 1, 2),
                "spare units dead, live ones up to scale",
                "section 6",
                systematic=POLICY.width_per_unit * m,
            )
            label, result = f"λ of the network, m = {m}", Comparison(theory, measured)
        answers.append(Answer("lambda", result, label, {"true_units": m}))
        for name in ("live", "r2", "excess"):
            numbers[f"{name}, m = {m}"] = float(node[name].values.mean())
        estimates.append(f"m = {m}: {float(measured.estimate):.3g} ± {float(measured.error):.1g}")
    live = results["sets"].to_dataset()["live"].values.mean()
    return Conclusion(answers, f"λ̂ by m: {'; '.join(estimates)}. Mean live units {live:.2g} of {spec.hidden}.", numbers)


def _measured(spec: RlctRelu, node: xr.Dataset, method: str) -> Measurement:
    """The mean over data sets, refused if chains have not converged, with a warning about the phase."""
    from phasecast.posterior.phase import PosteriorPhase, phase_warnings
    from phasecast.posterior.rlct_policy import POLICY as RLCT_POLICY

    values = node[method].values
    error = float(standard_error(values)) if values.size > 1 else 0.0
    error = max(error, float(np.sqrt(np.sum(node["error"].values ** 2)) / values.size))
    phase = PosteriorPhase(*(float(node[name].values.mean()) for name in ("excess", "live", "r2")))
    warned = phase_warnings(phase, float(values.mean()), spec.betas, spec.n)
    refused = []
    if node["rhat"].values.max() > RLCT_POLICY.largest_rhat:
        refused.append(f"chains disagree (R-hat {node['rhat'].values.max():.3f}): use more draws")
    if node["ess"].values.min() < RLCT_POLICY.fewest_effective:
        refused.append(f"only {node['ess'].values.min():.0f} effective draws: use more draws")
    return Measurement(
        float(values.mean()),
        error,
        Status.REFUSED if refused else Status.WARNING if warned else Status.OK,
        phase._asdict(),
        error_kind="datasets" if values.size > 1 else "mcse",
        reasons=refused + warned,
        policy=RLCT_POLICY.plain(),
    )


def figures(spec: RlctRelu, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import COLOURS, EXACT, blank

    figure, axes = blank(columns=2, width=8.0, height=3.6)
    left, right = axes[0]
    for number, m in enumerate(spec.true_units):
        node, colour = _of(results, m), COLOURS[number % len(COLOURS)]
        local, energy = node["local"].values, node["energy"].values
        error = standard_error(local) if len(local) > 1 else np.zeros(local.shape[1])
        rise = (energy - energy[:, -1:]).mean(axis=0)
        left.plot(1 / spec.betas, rise, "o-", ms=3, lw=1, color=colour, label=f"m = {m}")
        right.errorbar(spec.n * spec.betas, local.mean(axis=0), yerr=error, fmt="o-", ms=3, lw=1, color=colour)
        if spec.labels == "clean":
            right.axhline((3 * m + 1) / 2, ls="--", lw=0.8, color=colour)
    if spec.labels == "noisy":
        right.axhline(0.5, **EXACT)
    left.set_xlabel("temperature 1/β")
    left.set_ylabel("mean loss E[nL] above its minimum")
    left.legend()
    right.set_xlabel("inverse temperature nβ")
    right.set_ylabel("local λ = β² Var[nL]")
    right.set_ylim(bottom=0)
    dashed = "(3m + 1)/2" if spec.labels == "clean" else "½, that of a constant"
    return {"lambda": Captioned(figure, f"Means over data sets with one standard error; dashed: {dashed}.")}


def _of(results: xr.DataTree, m: int) -> xr.Dataset:
    node = results["sets"].to_dataset()
    return node.isel(run=np.flatnonzero(node["units"].values == m))


RECIPE = Recipe(
    name="rlct-relu",
    version=1,
    question="Is the learning coefficient of a small ReLU network what the paper's Table 2 says, and of which phase?",
    spec=RlctRelu,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"true_units": (3,), "hidden": 3, "n": 40, "datasets": 2, "chains": 2, "draws": 200, "warmup": 20},
)
