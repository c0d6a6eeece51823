"""How does λ̂ move during training? λ̂ at each of a list of checkpoints, with one compilation for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from phasecast.coefficients.llc.estimate import Estimator
from phasecast.coefficients.llc.options import LLCKeywords, LLCOptions
from phasecast.coefficients.llc.plan import localisation
from phasecast.coefficients.llc.problems import Sampled, as_problem, on_backend
from phasecast.coefficients.llc.report import ProgressOption
from phasecast.coefficients.llc.result import LLC
from phasecast.coefficients.llc.studies.sweep import drawable
from phasecast.core.display import Displayed, grid_html
from phasecast.core.errors import BadInput
from phasecast.core.results import Status, show
from phasecast.core.types import PyTree
from phasecast.figures.style import styled

if TYPE_CHECKING:
    import pandas as pd

    from phasecast.coefficients.llc.studies.transitions import LLCTransition
    from phasecast.figures.drawing import Drawing


def llc_trajectory(
    checkpoints: Mapping[float, PyTree],
    loss: Callable[..., Any],
    data: PyTree = None,
    *,
    progress: ProgressOption = True,
    **options: Unpack[LLCKeywords],
) -> LLCTrajectory:
    """λ̂ at each checkpoint, a mapping from training step to parameters; the options are those of :func:`phasecast.llc`.

    All share one compilation and one γ, by default that of the last checkpoint's neighbourhood, and chains begin where
    those of the checkpoint before ended. Early checkpoints are not minima: a warning says so, and ``value_min`` is
    relative to the lowest loss nearby. ``seconds`` is the time for each. Ctrl-C returns the checkpoints done so far.
    """
    chosen = LLCOptions(**options)
    check_checkpoints(checkpoints)
    last = checkpoints[max(checkpoints)]
    return along(on_backend(as_problem(loss, last, data, chosen.n), chosen), checkpoints, chosen, progress)


def along(
    sampled: Sampled, checkpoints: Mapping[float, PyTree], options: LLCOptions, progress: ProgressOption = True
) -> LLCTrajectory:
    """λ̂ of a problem at each checkpoint; ``sampled`` is at the last one."""
    checkpoints = dict(sorted(checkpoints.items()))
    options = with_common_gamma(sampled.backend.centre_as_numpy, options)
    steps, results, losses, start = [], [], [], None
    try:
        for step, params in checkpoints.items():
            backend = sampled.backend.moved_to(params)
            estimator = Estimator(replace(sampled, backend=backend, name=f"step {step:g}"), options, start=start)
            results.append(estimator.run(progress))
            steps.append(step)
            losses.append(estimator.backend.loss_at_centre)
            start = estimator.last_state if results[-1].status is not Status.REFUSED else None
            if estimator.interrupted:
                break
    except KeyboardInterrupt:
        if not results:
            raise
    return LLCTrajectory(tuple(steps), tuple(results), tuple(losses))


def with_common_gamma(last_centre: np.ndarray, options: LLCOptions) -> LLCOptions:
    """Options with the γ of the last checkpoint's neighbourhood, so that all checkpoints are compared at one γ."""
    if options.gamma is not None:
        return options
    gamma = localisation(last_centre, options.radius)
    return options if gamma is None else options.model_copy(update={"gamma": gamma})


def check_checkpoints(checkpoints: Mapping[float, PyTree]) -> None:
    """Refuse an empty trajectory."""
    if not checkpoints:
        raise BadInput("there are no checkpoints", "give {step: params, …}")


@dataclass(frozen=True)
class LLCTrajectory(Displayed):
    """λ̂ along a training run: ``results[i]`` at ``steps[i]``, where the loss over the data is ``losses[i]``."""

    steps: tuple[float, ...]
    results: tuple[LLC, ...]
    losses: tuple[float, ...] = ()

    def __str__(self) -> str:
        rows = [
            f"  {step:<10g} {loss:10.4g}  {show(one.estimate, one.error):>18s}  {one.value_min:10.4g}  {one.status}"
            for step, loss, one in zip(self.steps, self.losses, self.results, strict=True)
        ]
        head = f"  {'step':10s} {'loss':>10s}  {'λ̂':>18s}  {'value_min':>10s}  status"
        return "\n".join(["λ̂ along a training", head, *rows, *(f"  {one}" for one in self.transitions())])

    def _html_table(self) -> str:
        rows = [
            (f"{step:g}", f"{loss:.4g}", show(one.estimate, one.error), f"{one.value_min:.4g}", str(one.status))
            for step, loss, one in zip(self.steps, self.losses, self.results, strict=True)
        ]
        columns = ("step", "loss", "λ̂", "value_min", "status")
        return grid_html("λ̂ along a training", columns, rows, [str(one) for one in self.transitions()])

    def table(self) -> pd.DataFrame:
        """One line per checkpoint: step, loss, λ̂ as ``estimate`` with its error, ``value_min``, status."""
        import pandas as pd

        rows = [
            (loss, float(one.estimate), float(one.error), one.value_min, str(one.status))
            for loss, one in zip(self.losses, self.results, strict=True)
        ]
        columns = ["loss", "estimate", "error", "value_min", "status"]
        return pd.DataFrame(rows, columns=columns, index=pd.Index(self.steps, name="step"))

    def plain(self) -> list[dict[str, Any]]:
        """For other programs: one object per checkpoint."""
        return [
            {"step": step, "loss": loss, **one.plain()}
            for step, loss, one in zip(self.steps, self.losses, self.results, strict=True)
        ]

    def transitions(self) -> list[LLCTransition]:
        """Where λ̂ changes between neighbouring checkpoints by more than its errors: see :class:`LLCTransition`."""
        from phasecast.coefficients.llc.studies.transitions import transitions

        sure = [
            (step, one) for step, one in zip(self.steps, self.results, strict=True) if one.status is not Status.REFUSED
        ]
        values = [(float(one.estimate), float(one.error)) for _, one in sure]
        return transitions([step for step, _ in sure], values)

    @styled
    def figure(self, **curves: Sequence[float]) -> Drawing:
        """λ̂ over training under the loss; hollow points are refused, bands are transitions.

        ``curves`` are drawn above the loss: ``trajectory.figure(accuracy=[…])``, one number per checkpoint.
        """
        from phasecast.figures.drawing import COLOURS, blank, legend, points

        panels = len(curves) + bool(self.losses)
        figure, rows = blank(panels + 1, 1, width=6.4, height=2.4 + 1.3 * panels)
        for number, (name, values) in enumerate([("loss", self.losses)] * bool(self.losses) + list(curves.items())):
            if len(values) != len(self.steps):
                raise BadInput(
                    f"{name} has {len(values)} values", f"give one for each of {len(self.steps)} checkpoints"
                )
            rows[number][0].plot(self.steps, values, ".-", lw=1, ms=4, color=COLOURS[1 + number])
            rows[number][0].set_ylabel(name)
        axes = rows[-1][0]
        refused = [result.status is Status.REFUSED for result in self.results]
        points(axes, self.steps, *drawable(self.results), number=0, hollow=refused, label="λ̂ relative to L(w*)")
        above = [result.value_min for result in self.results]
        axes.plot(self.steps, above, ":", lw=1, color=COLOURS[0], label="relative to the lowest loss nearby")
        for transition in self.transitions():
            axes.axvspan(transition.begin, transition.end, color="#888888", alpha=0.15, lw=0)
        axes.set_xlabel("training step")
        axes.set_ylabel("λ̂")
        legend(axes)
        return figure

    plot = figure
