"""How does λ̂ move during training? λ̂ at each of a list of checkpoints, with one compilation for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from phasecast.coefficients.llc.estimate import Estimator
from phasecast.coefficients.llc.options import LLCKeywords, LLCOptions
from phasecast.coefficients.llc.problems import Sampled, as_problem, on_backend
from phasecast.coefficients.llc.result import LLC
from phasecast.coefficients.llc.sweep import drawable, not_ok
from phasecast.core.errors import BadInput
from phasecast.core.types import PyTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def llc_trajectory(
    checkpoints: Mapping[float, PyTree],
    loss: Callable[..., Any],
    data: PyTree = None,
    **options: Unpack[LLCKeywords],
) -> LLCTrajectory:
    """λ̂ at each checkpoint, a mapping from training step to parameters; the options are those of :func:`phasecast.llc`.

    Early checkpoints are not minima, so refusals there are normal: each result says what it is.
    """
    asked = LLCOptions(**options)
    check_checkpoints(checkpoints)
    first = next(iter(checkpoints.values()))
    return along(on_backend(as_problem(loss, first, data, asked.n), asked), checkpoints, asked)


def along(sampled: Sampled, checkpoints: Mapping[float, PyTree], options: LLCOptions) -> LLCTrajectory:
    """λ̂ of a problem at each checkpoint."""
    results = [
        Estimator(replace(sampled, backend=sampled.backend.moved_to(params)), options).run()
        for params in checkpoints.values()
    ]
    return LLCTrajectory(tuple(checkpoints), tuple(results))


def check_checkpoints(checkpoints: Mapping[float, PyTree]) -> None:
    """Refuse an empty trajectory."""
    if not checkpoints:
        raise BadInput("there are no checkpoints", "give {step: params, …}")


@dataclass(frozen=True)
class LLCTrajectory:
    """λ̂ along a training run: ``results[i]`` at ``steps[i]``."""

    steps: tuple[float, ...]
    results: tuple[LLC, ...]

    def figure(self) -> Figure:
        """λ̂ over training; hollow points are not ok, as early ones often are: they are not minima yet."""
        from phasecast.figures.drawing import blank, points

        figure, ((axes,),) = blank(width=6.4, height=3.6)
        points(axes, self.steps, *drawable(self.results), number=0, hollow=not_ok(self.results))
        axes.set_xlabel("training step")
        axes.set_ylabel("λ̂")
        return figure

    plot = figure
