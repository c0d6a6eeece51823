"""What does the Hessian of a real run look like beside its forecast? Gradient descent in d dimensions, then Lanczos."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phasecast.core.results import Status
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import Target
from phasecast.features.simulation.descent import descend, draw_data, lowest_curvatures

LOOKED_AT = 4  # lowest eigenvalues
END = 400  # steps that stand for t = ∞
ALONG = 0.2  # squared overlap with the weights from which a vector is the other block's
POINTS = 0.05  # overlap² from which an eigenvector of finite d counts as pointing to the hard directions


def measured_spectrum(
    network: Network, target: Target, delta: float, lr: float, time: float, dimension: int, seeds: int
) -> dict[str, Any]:
    """The lowest eigenvalue whose vector is nearest to the hard directions, and the lowest of the others, over draws.

    In d dimensions every vector has some overlap: below 0.05 there is no outlier to speak of. ``edge`` is the lowest
    eigenvalue whose vector points neither there nor along the weights themselves; it lies above the bulk's edge by an
    amount of order d^{−2/3}.
    """
    steps = END if math.isinf(time) else int(time)
    edges, outliers, overlaps, cosines = [], [], [], []
    for seed in range(seeds):
        data = draw_data(network, target, delta, dimension, seed=seed)
        run = descend(data, lr, steps, record=[steps])
        if run.status is Status.REFUSED:
            return {"dimension": dimension, "steps": steps, "seeds": seeds, "edge": None, "outlier": None,
                    "overlap2": None, "diverged": list(run.reasons)}  # fmt: skip
        found = lowest_curvatures(data, run.theta, LOOKED_AT)
        best = int(np.argmax(found.overlap2))
        seen = found.overlap2[best] > POINTS
        bulk = (found.overlap2 <= POINTS) & (found.weights2 <= ALONG)
        edges.append(found.values[bulk].min(initial=math.inf))
        outliers.append(found.values[best] if seen else math.nan)
        overlaps.append(found.overlap2[best])
        cosines.append(float(run.cosine(target.hard)[-1]))
    table: dict[str, Any] = {"dimension": dimension, "steps": steps, "seeds": seeds}
    most = 2 * int(np.isfinite(outliers).sum()) > seeds
    for name, values in (("edge", edges), ("outlier", outliers), ("overlap2", overlaps), ("cosine", cosines)):
        kept = np.asarray(values)[np.isfinite(values)]
        shown = kept.size > 1 and (most or name not in ("outlier",))
        table[name] = float(kept.mean()) if shown else None
        table[f"{name}_error"] = float(kept.std(ddof=1) / math.sqrt(kept.size)) if shown else None
    return table
