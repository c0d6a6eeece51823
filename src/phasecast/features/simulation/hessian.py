"""What does the Hessian of a real run look like beside its forecast? Gradient descent in d dimensions, then Lanczos."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from phasecast.core.results import Status
from phasecast.core.statistics import standard_error
from phasecast.features.policy import SIMULATION
from phasecast.features.simulation.descent import descend, draw_data, lowest_curvatures

if TYPE_CHECKING:
    from phasecast.features.threshold_result import SimulationTable
    from phasecast.features.threshold_search import ThresholdQuestion

LOWEST = 4  # eigenvalues that Lanczos computes: an outlier, one along the weights, and the edge of the bulk
END = 400  # steps that stand for t = ∞


def measured_spectrum(question: ThresholdQuestion, delta: float, dimension: int) -> SimulationTable:
    """The lowest eigenvalue whose vector is nearest to the hard directions, and the lowest of the others, over draws.

    In d dimensions every vector has some overlap: below 0.05 it does not count as an outlier. ``edge`` is the lowest
    eigenvalue whose vector points neither there nor along the weights themselves; it lies above the bulk's edge by an
    amount of order d^{−2/3}.
    """
    steps = END if math.isinf(question.time) else int(question.time)
    hard = question.target.hard
    table: dict[str, Any] = {"dimension": dimension, "steps": steps, "seeds": question.seeds}
    edges, outliers, overlaps, cosines = [], [], [], []
    for seed in range(question.seeds):
        data = draw_data(question.network, question.target, delta, dimension, seed=seed)
        run = descend(data, question.lr, steps, record=[steps])
        if run.status is Status.REFUSED:
            diverged = {"edge": None, "outlier": None, "overlap2": None, "diverged": list(run.reasons)}
            return cast("SimulationTable", {**table, **diverged})
        lowest = lowest_curvatures(data, run.theta, LOWEST)
        best = int(np.argmax(lowest.overlap2))
        points = lowest.overlap2[best] > SIMULATION.pointing
        bulk = (lowest.overlap2 <= SIMULATION.pointing) & (lowest.weights2 <= SIMULATION.along_weights)
        edges.append(lowest.values[bulk].min(initial=math.inf))
        outliers.append(lowest.values[best] if points else math.nan)
        overlaps.append(lowest.overlap2[best])
        cosines.append(float(run.cosine(hard)[-1]))
    most = 2 * int(np.isfinite(outliers).sum()) > question.seeds
    for name, values in (("edge", edges), ("outlier", outliers), ("overlap2", overlaps), ("cosine", cosines)):
        finite = np.asarray(values)[np.isfinite(values)]
        shown = finite.size > 1 and (most or name != "outlier")
        table[name] = float(finite.mean()) if shown else None
        table[f"{name}_error"] = float(standard_error(finite)) if shown else None
    return cast("SimulationTable", table)
