"""How fast do the good parameters become rare? λ of small landscapes, predicted and measured in two ways.

The landscapes of Figure 5 of Cullen et al. 2026 and x²y²: the exact λ and multiplicity beside the λ measured by
volume scaling and by temperature quadrature; and, optionally, a problem of your own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.coefficients.small_problems.neighbourhood import RADIUS
from phasecast.core import user_code
from phasecast.core.answers import Answer
from phasecast.core.errors import unknown
from phasecast.core.problem import Problem
from phasecast.core.results import Comparison, Measurement, Status, Verdict, show
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.spec import Factory, Spec
from phasecast.lab.tables import Table
from phasecast.models.landscapes import LANDSCAPES

if TYPE_CHECKING:
    import xarray as xr


THRESHOLDS = 17  # of V(ε), between the smallest and the largest; by default a decade apart
Method = Literal["volume", "quadrature"]
FORMER_NAMES = {"ladder": "quadrature"}  # of methods, in specs and stored runs of earlier releases


def _typed(name: str) -> str:
    """A landscape's name as one would type it: x2y4, or x2y4@(1,0)."""
    return name.translate(str.maketrans("²⁴", "24", " ^*")).replace("at", "@")


_TYPED = {_typed(name): name for name in LANDSCAPES}


class ToyLandscapes(Spec):
    """Which landscapes to measure, and how finely."""

    landscapes: tuple[str, ...] = Field(
        default=tuple(LANDSCAPES), description="known landscapes to measure: x2y4 or x²y⁴, x2y4@(1,0), …; [] for none"
    )
    problem: Factory | None = Field(
        default=None, description="package.module:factory of a phasecast.Problem of your own, with few parameters"
    )
    methods: tuple[Method, ...] = Field(
        default=("volume", "quadrature"),
        min_length=1,
        description="volume scaling, temperature quadrature (two parameters), or both",
    )
    radius: float = Field(default=RADIUS, gt=0, le=RADIUS, description="half-width of the box around the point")
    samples: int = Field(default=100_000, ge=100, le=10_000_000, description="draws per block of volume scaling")
    blocks: int = Field(default=64, ge=20, le=100_000, description="independent blocks, for the error bar")
    epsilon_min: float = Field(default=1e-28, gt=0, lt=1, description="smallest loss threshold of volume scaling")
    epsilon_max: float = Field(default=1e-12, gt=0, lt=1, description="largest loss threshold of volume scaling")
    nodes: int = Field(default=512, ge=64, le=4096, description="quadrature nodes per side and axis")

    @field_validator("methods", mode="before")
    @classmethod
    def _renamed(cls, methods: object) -> object:
        if isinstance(methods, str):
            return FORMER_NAMES.get(methods, methods)
        return tuple(FORMER_NAMES.get(one, one) for one in methods) if isinstance(methods, list | tuple) else methods

    @field_validator("landscapes")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if _typed(name) not in _TYPED:
                raise ValueError(str(unknown("landscape", name, _TYPED)))
        if len({_typed(name) for name in names}) != len(names):
            raise ValueError("a landscape is named twice; name each once")
        return tuple(_TYPED[_typed(name)] for name in names)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.landscapes and self.problem is None:
            raise ValueError("no landscape to measure; name one, or give a problem of your own")
        if self.epsilon_min >= self.epsilon_max:
            raise ValueError("epsilon_min must be below epsilon_max; use a range of some decades")
        return self

    @property
    def epsilons(self) -> np.ndarray:
        return np.geomspace(self.epsilon_min, self.epsilon_max, THRESHOLDS)


def work(spec: ToyLandscapes, state: dict[str, Any] | None) -> Iterator[Chunk]:
    """First the quadrature, one landscape per chunk; then volume scaling, one block of all landscapes per chunk."""
    from phasecast.coefficients.small_problems.temperature_quadrature import NBETAS, scaled_losses
    from phasecast.coefficients.small_problems.volume_scaling import volume_sampler

    problems = list(_problems(spec).values())
    integrals = problems if "quadrature" in spec.methods else []
    draws = spec.blocks if "volume" in spec.methods else 0
    total = len(integrals) + draws
    done = 0 if state is None else int(state["done"])
    sums = np.zeros((2, len(problems))) if state is None else state["sums"]
    for problem in integrals[done:]:
        values, errors = scaled_losses(problem, radius=spec.radius, nbetas=NBETAS, nodes=spec.nodes)
        done += 1
        rows = {"quadrature": {"llc": values[None], "error": errors[None]}}
        yield Chunk({"done": done, "sums": sums}, rows, done, total, ("nβE[L]", float(values[-1])))
    samplers = [
        volume_sampler(p, radius=spec.radius, epsilons=spec.epsilons, samples=spec.samples, seed=spec.seed)
        for p in problems
    ]
    for block in range(done - len(integrals), draws):
        volumes = np.stack([sample(block) for sample in samplers])
        done += 1
        sums = sums + np.stack([volumes[:, 0], volumes[:, 0] ** 2])
        metric = ("error of V", _relative_error(sums, block + 1))
        yield Chunk({"done": done, "sums": sums}, {"volume": {"V": volumes[None]}}, done, total, metric)


def _relative_error(sums: np.ndarray, blocks: int) -> float:
    """The largest relative standard error of V at the smallest ε so far."""
    mean = sums[0] / blocks
    spread = np.sqrt(np.clip(sums[1] / blocks - mean**2, 0, None) / max(blocks - 1, 1))
    return float(np.max(spread / np.where(mean > 0, mean, np.inf)))


def layout(spec: ToyLandscapes) -> Mapping[str, Table]:
    from phasecast.coefficients.small_problems.temperature_quadrature import NBETAS

    names = list(_problems(spec))
    tables = {
        "quadrature": Table(
            "landscape",
            {"llc": ("nbeta",), "error": ("nbeta",)},
            {"landscape": names, "nbeta": NBETAS},
            {"llc": "nβ E[L − L*]", "error": "quadrature error of llc"},
        ),
        "volume": Table(
            "block",
            {"V": ("landscape", "epsilon")},
            {"landscape": names, "epsilon": spec.epsilons},
            {"V": "share of the box with L − L* < ε"},
        ),
    }
    return {name: table for name, table in tables.items() if name in spec.methods}


class Estimate(NamedTuple):
    """One λ: of which landscape, by which method, and what theory predicts, if it knows the landscape."""

    landscape: str
    method: str
    measured: Measurement
    predicted: Coefficient | None

    @property
    def refused(self) -> bool:
        return self.measured.status is Status.REFUSED

    def answer(self) -> Answer:
        label = f"λ of {self.landscape}, by {self.method}"
        result = Comparison(self.predicted, self.measured, name=label) if self.predicted else self.measured
        return Answer("coefficient", result, label, {"landscape": self.landscape, "method": self.method})


def conclude(spec: ToyLandscapes, results: xr.DataTree) -> Conclusion:
    answers = [estimate.answer() for estimate in _estimates(results)]
    verdicts = [str(answer.result.verdict) for answer in answers if isinstance(answer.result, Comparison)]
    agreeing, others = verdicts.count(Verdict.AGREES), sorted(set(verdicts) - {Verdict.AGREES})
    sentences = [f"{agreeing} of {len(verdicts)} measurements agree with the exact λ"] if verdicts else []
    sentences += [f"{verdicts.count(verdict)} {verdict}" for verdict in others]
    sentences += [
        f"{answer.label} is {answer.result.status}: {show(answer.result.estimate, answer.result.error)}"
        for answer in answers
        if isinstance(answer.result, Measurement)
    ]
    return Conclusion(answers, "; ".join(sentences) + ".")


def figures(spec: ToyLandscapes, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.studies.coefficients import toy_landscapes_figures as draw

    estimates, tables = list(_estimates(results)), _tables(results)
    drawn = {"coefficients": draw.coefficients(estimates)}

    def hollow(method: str) -> set[str]:
        return {estimate.landscape for estimate in estimates if estimate.method == method and estimate.refused}

    if "volume" in tables:
        drawn["volumes"] = draw.volumes(tables["volume"], hollow("volume"))
    if "quadrature" in tables:
        node = tables["quadrature"]
        predictions = [_prediction(str(name)) for name in node["landscape"].values]
        drawn["quadrature"] = draw.scaled_losses(node, predictions, hollow("quadrature"))
    return drawn


def _tables(results: xr.DataTree) -> dict[str, xr.Dataset]:
    return {FORMER_NAMES.get(name, name): node.to_dataset() for name, node in results.children.items()}


def _problems(spec: ToyLandscapes) -> dict[str, Problem]:
    problems: dict[str, Problem] = {name: LANDSCAPES[name].problem() for name in spec.landscapes}
    if spec.problem:
        own = user_code.load_problem(spec.problem)
        problems["own" if own.name in LANDSCAPES else own.name] = own
    return problems


def _prediction(name: str) -> Coefficient | None:
    from phasecast.coefficients.exact.monomials import of_landscape

    return of_landscape(LANDSCAPES[name]) if name in LANDSCAPES else None


def _estimates(results: xr.DataTree) -> Iterator[Estimate]:
    """λ of every landscape by every method; the multiplicity is given to volume scaling if theory knows it."""
    from phasecast.coefficients.small_problems.temperature_quadrature import extrapolate

    tables = _tables(results)
    for index, name in enumerate(map(str, next(iter(tables.values()))["landscape"].values)):
        predicted = _prediction(name)
        if (volume := tables.get("volume")) is not None:
            multiplicity = predicted.multiplicity if predicted else None
            blocks, epsilons = volume["V"].values[:, index], volume["epsilon"].values
            measured = _fitted(blocks.tobytes(), len(blocks), epsilons.tobytes(), multiplicity)
            yield Estimate(name, "volume", measured, predicted)
        if (scaled := tables.get("quadrature")) is not None:
            values, errors = scaled["llc"].values[index], scaled["error"].values[index]
            yield Estimate(name, "quadrature", extrapolate(values, errors, scaled["nbeta"].values), predicted)


@functools.lru_cache(maxsize=64)
def _fitted(volumes: bytes, blocks: int, epsilons: bytes, multiplicity: int | None) -> Measurement:
    """The fit of V in float64, kept: a page needs it for table and figures, and it is most of their time."""
    from phasecast.coefficients.small_problems.volume_scaling import fit_volume

    return fit_volume(np.frombuffer(volumes).reshape(blocks, -1), np.frombuffer(epsilons), multiplicity)


RECIPE = Recipe(
    name="toy-landscapes",
    version=1,
    question="How fast do good parameters become rare near a minimum, and is it the λ that theory predicts?",
    spec=ToyLandscapes,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"landscapes": ("x²+y²", "x²y²"), "samples": 1000, "blocks": 20, "nodes": 256},
)
