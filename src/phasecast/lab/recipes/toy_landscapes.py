"""How fast do the good parameters become rare? λ of small landscapes, predicted and measured in two ways.

The landscapes of Figure 5 of Cullen et al. 2026 and x²y²: the exact λ and multiplicity beside the λ measured by
volume scaling and by a ladder of temperatures; and, if you like, a two-parameter problem of your own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from phasecast.core.errors import unknown
from phasecast.core.problem import Problem
from phasecast.core.results import Comparison, Measurement, Result, Verdict
from phasecast.lab import fingerprint
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.results import Table
from phasecast.lab.spec import Factory, Spec
from phasecast.models.landscapes import LANDSCAPES

if TYPE_CHECKING:
    import xarray as xr

OWN = "own"


def _typed(name: str) -> str:
    """A landscape's name as one would type it: x2y4, or x2y4@(1,0)."""
    return name.translate(str.maketrans("²⁴", "24", " ^*")).replace("at", "@")


_TYPED = {_typed(name): name for name in LANDSCAPES}


class ToyLandscapes(Spec):
    """Which landscapes to measure, and how finely."""

    landscapes: tuple[str, ...] = Field(tuple(LANDSCAPES), description="which landscapes; x2y4 or x²y⁴, x2y4@(1,0) …")
    problem: Factory | None = Field(
        None, description="package.module:factory of a two-parameter phasecast.Problem of your own"
    )
    radius: float = Field(0.5, gt=0, le=0.5, description="half-width of the box around the point")
    samples: int = Field(100_000, ge=100, le=10_000_000, description="draws in a block of volume scaling")
    blocks: int = Field(64, ge=8, le=100_000, description="independent blocks, for the error bar")
    nodes: int = Field(512, ge=64, le=4096, description="quadrature nodes per side and axis")

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
        return self


def work(spec: ToyLandscapes, state: Any) -> Iterator[Chunk]:
    """First the ladder, a landscape a chunk; then volume scaling, a block of draws on every landscape a chunk."""
    from phasecast.coefficients.ladder import NBETAS, ladder
    from phasecast.coefficients.volume import EPSILONS, volume_sampler

    problems = list(_problems(spec).values())
    total = len(problems) + spec.blocks
    done = 0 if state is None else int(state["done"])
    for problem in problems[done:]:
        values, errors = ladder(problem, radius=spec.radius, nbetas=NBETAS, nodes=spec.nodes)
        done += 1
        yield Chunk({"done": done}, {"ladder": {"llc": values[None], "error": errors[None]}}, done, total)
    samplers = [
        volume_sampler(p, radius=spec.radius, epsilons=EPSILONS, samples=spec.samples, seed=spec.seed) for p in problems
    ]
    for block in range(done - len(problems), spec.blocks):
        volumes = np.stack([sample(block) for sample in samplers])
        done += 1
        yield Chunk({"done": done}, {"volume": {"V": volumes[None]}}, done, total)


def layout(spec: ToyLandscapes) -> Mapping[str, Table]:
    from phasecast.coefficients.ladder import NBETAS
    from phasecast.coefficients.volume import EPSILONS

    names = list(_names(spec))
    return {
        "ladder": Table(
            "landscape",
            {"llc": ("nbeta",), "error": ("nbeta",)},
            {"landscape": names, "nbeta": NBETAS},
            {"llc": "nβ E[L − L*]", "error": "quadrature error of llc"},
        ),
        "volume": Table(
            "block",
            {"V": ("landscape", "epsilon")},
            {"landscape": names, "epsilon": EPSILONS},
            {"V": "share of the box with L − L* < ε"},
        ),
    }


def conclude(spec: ToyLandscapes, results: xr.DataTree) -> Conclusion:
    answers: dict[str, Result] = {}
    for name, by_volume, by_ladder in _measurements(results):
        predicted = _prediction(name)
        for label, measured in (("volume", by_volume), ("ladder", by_ladder)):
            title = f"λ of {name}, by {label}"
            answers[title] = Comparison(predicted, measured, name=title) if predicted else measured
    comparisons = [answer for answer in answers.values() if isinstance(answer, Comparison)]
    agreeing = sum(comparison.verdict is Verdict.AGREES for comparison in comparisons)
    sentence = f"{agreeing} of {len(comparisons)} measurements agree with the exact λ."
    return Conclusion(answers, sentence)


def figures(spec: ToyLandscapes, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.lab.recipes import toy_landscapes_figures as draw

    return {
        "coefficients": draw.coefficients(
            [(name, _prediction(name), volume, ladder) for name, volume, ladder in _measurements(results)]
        ),
        "volumes": draw.volumes(results["volume"].to_dataset()),
        "ladder": draw.ladder(results["ladder"].to_dataset(), {name: _prediction(name) for name in _names(spec)}),
    }


def _names(spec: ToyLandscapes) -> tuple[str, ...]:
    return spec.landscapes + ((OWN,) if spec.problem else ())


def _problems(spec: ToyLandscapes) -> dict[str, Problem]:
    problems: dict[str, Problem] = {name: LANDSCAPES[name].problem() for name in spec.landscapes}
    if spec.problem:
        problems[OWN] = fingerprint.load_problem(spec.problem)
    return {name: problems[name] for name in _names(spec)}


def _prediction(name: str) -> Any:
    from phasecast.coefficients.theory import of_landscape

    return of_landscape(LANDSCAPES[name]) if name in LANDSCAPES else None


def _measurements(results: xr.DataTree) -> Iterator[tuple[str, Measurement, Measurement]]:
    from phasecast.coefficients.ladder import fit_ladder
    from phasecast.coefficients.volume import fit_volume

    volume, rungs = results["volume"].to_dataset(), results["ladder"].to_dataset()
    for index, name in enumerate(volume["landscape"].values):
        yield (
            str(name),
            fit_volume(volume["V"].values[:, index], volume["epsilon"].values, parameters=2),
            fit_ladder(rungs["llc"].values[index], rungs["error"].values[index], rungs["nbeta"].values),
        )


RECIPE = Recipe(
    name="toy-landscapes",
    version=1,
    question="How fast do good parameters become rare near a minimum, and is it the λ that theory predicts?",
    spec=ToyLandscapes,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"landscapes": ("x²+y²", "x²y²"), "samples": 1000, "blocks": 10, "nodes": 256},
)
