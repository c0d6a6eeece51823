"""How many examples per dimension does gradient descent need? δ*(t) or δ_NN with its error, and the spectrum at one δ.

>>> threshold("z**2", "gelu", "pseudo-huber").value  # doctest: +ELLIPSIS
1.69275...
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from phasecast.core.bounds import check_bounds, check_memory
from phasecast.core.results import Status
from phasecast.features.curvature.lower_bound import curvature_floor
from phasecast.features.curvature.methods import Draw, Route, check_time, route_for
from phasecast.features.outliers import LARGEST, SMALLEST
from phasecast.features.setting.functions import Activation, Loss, Scalar
from phasecast.features.setting.network import Network, Width, blocks
from phasecast.features.setting.target import Target
from phasecast.features.setting.target import target as make_target
from phasecast.features.spectrum_tables import bulk_density, laws_at, margin_curve, spectrum_table
from phasecast.features.threshold_result import Threshold
from phasecast.features.threshold_search import (
    COARSE,
    ThresholdQuestion,
    threshold_along,
    threshold_at_end,
    threshold_at_start,
)
from phasecast.features.unbounded import side_by_side
from phasecast.progress import shows_progress

LAST = 64.0  # default end of the search; chosen above every threshold of the slides, of order ten
SHOWN = 1.5  # times δ*: where the spectrum is shown by default, far enough above to have an outlier

FEW_UNITS = "only the diagonal blocks of the Hessian are used, as in a wide network; with few neurons the whole differs"
ALL_EASY = (
    "all directions of this target are easy: the gradient itself shows them, at any n of order d; no δ* is needed"
)


@shows_progress("threshold")
def threshold(  # wide signature: the documented keywords of the headline function, each one option of the command
    target: str | Target | Callable[[Any], Any],
    activation: str | Activation | Scalar = "gelu",
    loss: str | Loss | Scalar = "pseudo-huber",
    *,
    lr: float = 0.5,
    time: float = 0,
    width: Width = 1,
    a: float | tuple[float, ...] = 1.0,
    b: float | tuple[float, ...] = 0.0,
    initial_norm: float = 1.0,
    noise: float = 0.0,
    latents: int | None = None,
    delta: float | None = None,
    simulate: int | None = None,
    seeds: int = 8,
    samples: int = 20_000,
    up_to: float = LAST,
    curves: bool = False,
    progress: bool = True,
) -> Threshold:
    """δ*(t) for a target, an activation and a loss; at ``time=math.inf`` it is δ_NN.

    Parameters
    ----------
    target: an expression in z or z1, z2, z3, a preset, or a JAX function of (..., k) with ``latents`` = k.
    lr: η; does not matter at t = 0, nor at t = ∞ where the fixed point exists.
    time: t in steps, or ``math.inf``.
    width, a, b, initial_norm: see :class:`~phasecast.features.setting.network.Network`.
    delta: also compute the spectrum at this n/d: edge, outliers, overlaps, margin.
    simulate: also measure it by gradient descent in this many dimensions, at ``delta``, which defaults to 1.5 δ*.
    seeds, samples: of the random routes; the error is the standard error over seeds.
    up_to: the largest δ of the search where the law depends on δ.
    curves: also compute what :meth:`Threshold.figure` draws.
    progress: show a line on stderr where it takes longer than two seconds.
    """
    check_bounds(lr=lr, a=a, b=b, initial_norm=initial_norm, noise=noise, delta=delta, simulate=simulate)
    check_bounds(seeds=seeds, samples=samples, up_to=up_to, time=None if time == math.inf else time)
    if isinstance(simulate, int):
        rows = simulate * (float(delta) if delta is not None else up_to)
        check_memory(8.0 * simulate * (simulate + rows), f"a simulation in {simulate} dimensions", "use fewer")
    chosen = make_target(target, latents=latents, noise=noise)
    network = Network(activation, loss, width, a, b, initial_norm)
    time = check_time(time)
    question = ThresholdQuestion(network, chosen, lr, time, delta, simulate, seeds, samples, up_to, curves)
    route = route_for(network, chosen, lr, time, samples)
    answer = _answer(question, route)
    if network.width != "wide" and network.size > 1 and answer.status is not Status.REFUSED:
        answer = replace(answer, status=Status.WARNING, reasons=(*answer.reasons, FEW_UNITS))
    return _with_spectrum(question, route, answer)


def _answer(question: ThresholdQuestion, route: Route) -> Threshold:
    """δ* by the search that fits the time, or the reason why there is no single one."""
    network, target = question.network, question.target
    if not target.hard.shape[1]:
        return question.refused(route, (SMALLEST, LARGEST), ALL_EASY)
    if any(curvature_floor(network, target, b, moved=question.time > 0) == -math.inf for b in blocks(network)):
        return side_by_side(question, route)
    if route.constant:
        return threshold_at_start(question, route)
    if math.isinf(question.time):
        return threshold_at_end(question, route)
    return threshold_along(question, route)


def _with_spectrum(question: ThresholdQuestion, route: Route, answer: Threshold) -> Threshold:
    """The answer with the spectrum, the curves and the simulation that were asked for."""
    estimate = float(np.asarray(answer.estimate))
    delta = question.delta
    if delta is None and (question.simulate is not None or question.curves) and math.isfinite(estimate):
        delta = SHOWN * estimate
    if delta is not None and not answer.unbounded:
        laws = laws_at(question, route, delta)
        answer = replace(answer, spectrum=spectrum_table(laws, delta))
        if question.curves:
            density = bulk_density(laws[0], answer.spectrum)
            answer = replace(answer, curves={**answer.curves, "density": density})
    if question.curves and route.constant and not answer.unbounded:
        margins = margin_curve(route.laws(1.0, Draw(effort=COARSE)), answer.intervals)
        answer = replace(answer, curves={**answer.curves, "margins": {"margin": margins}})
    if question.simulate is not None and delta is not None:
        from phasecast.features.simulation.hessian import measured_spectrum

        answer = replace(answer, simulation=measured_spectrum(question, delta, question.simulate))
    return answer
