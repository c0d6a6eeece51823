"""How fast do the good parameters become rare? λ of small landscapes, predicted and measured in two ways.

The landscapes of Figure 5 of Cullen et al. 2026 and x²y²: the exact λ and multiplicity beside the λ measured by
volume scaling and by a ladder of temperatures; and, if you like, a two-parameter problem of your own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.coefficients.small_problems.neighbourhood import RADIUS
from phasecast.core import user_code
from phasecast.core.errors import unknown
from phasecast.core.problem import Problem
from phasecast.core.results import Comparison, Measurement, Result, Status, Verdict, show
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.spec import Factory, Spec
from phasecast.lab.tables import Table
from phasecast.models.landscapes import LANDSCAPES

if TYPE_CHECKING:
    import xarray as xr


RUNGS = 17  # loss thresholds between the smallest and the largest


def _typed(name: str) -> str:
    """A landscape's name as one would type it: x2y4, or x2y4@(1,0)."""
    return name.translate(str.maketrans("²⁴", "24", " ^*")).replace("at", "@")


_TYPED = {_typed(name): name for name in LANDSCAPES}


class ToyLandscapes(Spec):
    """Which landscapes to measure, and how finely."""

    landscapes: tuple[str, ...] = Field(
        tuple(LANDSCAPES), description="which of the known landscapes; x2y4 or x²y⁴, x2y4@(1,0), …; [] for none"
    )
    problem: Factory | None = Field(
        None, description="package.module:factory of a phasecast.Problem of your own, with few parameters"
    )
    methods: tuple[Literal["volume", "ladder"], ...] = Field(
        ("volume", "ladder"), min_length=1, description="volume scaling, temperature ladder (two parameters), or both"
    )
    radius: float = Field(RADIUS, gt=0, le=RADIUS, description="half-width of the box around the point")
    samples: int = Field(100_000, ge=100, le=10_000_000, description="draws in a block of volume scaling")
    blocks: int = Field(64, ge=20, le=100_000, description="independent blocks, for the error bar")
    epsilon_min: float = Field(1e-28, gt=0, lt=1, description="smallest loss threshold of volume scaling")
    epsilon_max: float = Field(1e-12, gt=0, lt=1, description="largest loss threshold of volume scaling")
    nodes: int = Field(512, ge=64, le=4096, description="quadrature nodes per side and axis of the ladder")

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
            raise ValueError("there is no landscape to measure; name one, or give a problem of your own")
        if self.epsilon_min >= self.epsilon_max:
            raise ValueError("epsilon_min is not below epsilon_max; give them some decades apart")
        return self

    @property
    def epsilons(self) -> np.ndarray:
        return np.geomspace(self.epsilon_min, self.epsilon_max, RUNGS)


def work(spec: ToyLandscapes, state: Any) -> Iterator[Chunk]:
    """First the ladder, a landscape a chunk; then volume scaling, a block of draws on every landscape a chunk."""
    from phasecast.coefficients.small_problems.temperature_quadrature import NBETAS, ladder
    from phasecast.coefficients.small_problems.volume_scaling import volume_sampler

    problems = list(_problems(spec).values())
    climbs = problems if "ladder" in spec.methods else []
    draws = spec.blocks if "volume" in spec.methods else 0
    total = len(climbs) + draws
    done = 0 if state is None else int(state["done"])
    sums = np.zeros((2, len(problems))) if state is None else state["sums"]
    for problem in climbs[done:]:
        values, errors = ladder(problem, radius=spec.radius, nbetas=NBETAS, nodes=spec.nodes)
        done += 1
        rows = {"ladder": {"llc": values[None], "error": errors[None]}}
        yield Chunk({"done": done, "sums": sums}, rows, done, total, ("nβE[L]", float(values[-1])))
    samplers = [
        volume_sampler(p, radius=spec.radius, epsilons=spec.epsilons, samples=spec.samples, seed=spec.seed)
        for p in problems
    ]
    for block in range(done - len(climbs), draws):
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
        "ladder": Table(
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


def conclude(spec: ToyLandscapes, results: xr.DataTree) -> Conclusion:
    answers: dict[str, Result] = {}
    for name, method, measured in _measurements(results):
        predicted = _prediction(name)
        title = f"λ of {name}, by {method}"
        answers[title] = Comparison(predicted, measured, name=title) if predicted else measured
    verdicts = [str(answer.verdict) for answer in answers.values() if isinstance(answer, Comparison)]
    agreeing, others = verdicts.count(Verdict.AGREES), sorted(set(verdicts) - {Verdict.AGREES})
    sentences = [f"{agreeing} of {len(verdicts)} measurements agree with the exact λ"] if verdicts else []
    sentences += [f"{verdicts.count(verdict)} {verdict}" for verdict in others]
    sentences += [
        f"{name} is {answer.status}: {show(answer.estimate, answer.error)}"
        for name, answer in answers.items()
        if isinstance(answer, Measurement)
    ]
    return Conclusion(answers, "; ".join(sentences) + ".")


def figures(spec: ToyLandscapes, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.studies.coefficients import toy_landscapes_figures as draw

    found = list(_measurements(results))
    drawn = {"coefficients": draw.coefficients([(name, _prediction(name), method, m) for name, method, m in found])}
    refused = {(name, method) for name, method, m in found if m.status is Status.REFUSED}
    if "volume" in results:
        hollow = {name for name, method in refused if method == "volume"}
        drawn["volumes"] = draw.volumes(results["volume"].to_dataset(), hollow)
    if "ladder" in results:
        hollow = {name for name, method in refused if method == "ladder"}
        rungs = results["ladder"].to_dataset()
        predictions = [_prediction(str(name)) for name in rungs["landscape"].values]
        drawn["ladder"] = draw.ladder(rungs, predictions, hollow)
    return drawn


def _problems(spec: ToyLandscapes) -> dict[str, Problem]:
    problems: dict[str, Problem] = {name: LANDSCAPES[name].problem() for name in spec.landscapes}
    if spec.problem:
        own = user_code.load_problem(spec.problem)
        problems["own" if own.name in LANDSCAPES else own.name] = own
    return problems


def _prediction(name: str) -> Coefficient | None:
    from phasecast.coefficients.exact.monomials import of_landscape

    return of_landscape(LANDSCAPES[name]) if name in LANDSCAPES else None


def _measurements(results: xr.DataTree) -> Iterator[tuple[str, str, Measurement]]:
    """Name, method and λ of every landscape; the multiplicity is theory's where theory knows it."""
    from phasecast.coefficients.small_problems.temperature_quadrature import fit_ladder
    from phasecast.coefficients.small_problems.volume_scaling import fit_volume

    nodes = {name: node.to_dataset() for name, node in results.children.items()}
    for index, name in enumerate(map(str, next(iter(nodes.values()))["landscape"].values)):
        predicted = _prediction(name)
        if (volume := nodes.get("volume")) is not None:
            multiplicity = predicted.multiplicity if predicted else None
            yield name, "volume", fit_volume(volume["V"].values[:, index], volume["epsilon"].values, multiplicity)
        if (rungs := nodes.get("ladder")) is not None:
            values, errors = rungs["llc"].values[index], rungs["error"].values[index]
            yield name, "ladder", fit_ladder(values, errors, rungs["nbeta"].values)


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
