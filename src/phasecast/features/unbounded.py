"""What to say where the curvature has no lower bound, as for y = z² with the square loss?

The formula's edge is then at −∞ and no outlier can be below it: δ* = ∞ as written, at every t. In d dimensions there
are n = δd examples and a lowest one, so a finite edge, which falls as d grows. No single number is right; three are
shown: the formula's own (``raw``), that of the law with its lowest tail raised to a quantile (``clipped``), and that of
n draws from the law (``finite_d``).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from phasecast.core.errors import Refused
from phasecast.core.results import Status
from phasecast.features.curvature.methods import Laws, Route, drawn
from phasecast.features.hessian_spectrum import hessian_spectrum
from phasecast.features.outliers import least_margin, scan
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import Target
from phasecast.features.threshold_result import Threshold

LEVELS = (1e-2, 1e-3, 1e-4)  # quantiles of G to which its lowest values are raised
DIMENSIONS = (300, 1000, 3000)
RATIO = math.sqrt(2)
FIRST = 0.5


def side_by_side(
    network: Network, target: Target, route: Route, time: float, delta: float | None, seeds: int, up_to: float
) -> Threshold:
    """A warning with raw, clipped and finite-d values of δ*, and of the spectrum at δ where one is given."""
    deltas = np.geomspace(FIRST, up_to, math.ceil(math.log(up_to / FIRST) / math.log(RATIO)) + 1)
    known: dict[float, Laws | None] = {}

    def laws(at: float) -> Laws | None:
        key = deltas[0] if route.fixed else at
        if key not in known:
            try:
                known[key] = tuple(_bare(law) for law in route.laws(key, 0, 1.0))
            except Refused:
                known[key] = None
        return known[key]

    margins: dict[str, tuple[list[float], list[float]]] = {}

    def star(name: str, make: Any) -> float | None:
        looked = scan(lambda at: math.nan if (found := laws(at)) is None else make(found, at), deltas.tolist())
        margins[name] = (list(looked.deltas), list(looked.margins))
        if looked.margins[0] < 0:
            return float(deltas[0])
        bracket = looked.first
        if bracket is None:
            return None
        low, high = (dict(zip(looked.deltas, looked.margins, strict=True))[end] for end in bracket)
        return float(bracket[0] * (bracket[1] / bracket[0]) ** (low / (low - high)))

    table: dict[str, Any] = {
        "raw": {"delta_star": None},
        "clipped": {
            f"{level:g}": star(f"clipped at {level:g}", lambda found, at, level=level: _clipped(found, at, level))
            for level in LEVELS
        },
        "finite_d": {str(d): star(f"d = {d}", lambda found, at, d=d: _finite(found, at, d, seeds)) for d in DIMENSIONS},
    }
    spectrum: dict[str, Any] = {}
    here = None if delta is None else laws(delta)
    if delta is not None and here is not None:
        spectrum = {"delta": delta, "edge": None, "outlier": None, "overlap2": None, "margin": None, "outliers": [],
                    "rest": []}  # fmt: skip
        table["clipped_spectrum"] = {f"{level:g}": _row(_raised(here, level), delta) for level in LEVELS}
        table["finite_d_spectrum"] = {
            str(d): _mean([_row(_sampled(here, delta, d, seed), delta) for seed in range(seeds)]) for d in DIMENSIONS
        }
    reasons = [
        "G is unbounded below, so the edge is at −∞ and the formula gives no threshold; clipped at a quantile of G and "
        "at finite d it gives those shown, which depend on the quantile and on d; use a loss with a bounded slope, "
        "like pseudo-huber, for one number"
    ]
    return Threshold(
        math.nan, math.nan, Status.WARNING, error_kind="quadrature", reasons=reasons, name=f"δ*({time:g})",
        method=route.name, time=time, searched=(float(deltas[0]), float(deltas[-1])), spectrum=spectrum,
        unbounded=table, curves={"margins": margins},
    )  # fmt: skip


def _bare(law: Any) -> Any:
    """The law as its points are, without the infimum that lies below them all."""
    return replace(law, lowest=float(law.G.min()))


def _raised(laws: Laws, level: float) -> Laws:
    return tuple(law.clipped(law.quantile(level)) for law in laws)


def _clipped(laws: Laws, delta: float, level: float) -> float:
    return least_margin(_raised(laws, level), delta)


def _sampled(laws: Laws, delta: float, dimension: int, seed: int) -> Laws:
    return tuple(drawn(law, max(round(delta * dimension), 2), seed) for law in laws)


def _finite(laws: Laws, delta: float, dimension: int, seeds: int) -> float:
    """The median over draws: the margin of one draw hangs on its lowest example."""
    return float(np.median([least_margin(_sampled(laws, delta, dimension, seed), delta) for seed in range(seeds)]))


def _row(laws: Laws, delta: float) -> dict[str, float | None]:
    one = min((hessian_spectrum(law, delta) for law in laws), key=lambda found: found.margin)
    first = one.outliers[0] if one.outliers else None
    return {
        "edge": one.edge,
        "outlier": None if first is None else first.value,
        "overlap2": None if first is None else first.overlap2,
        "margin": one.margin,
    }


def _mean(rows: list[dict[str, float | None]]) -> dict[str, float | None]:
    """Medians over draws; an outlier where most draws have one."""
    shown: dict[str, float | None] = {}
    for name in rows[0]:
        values = [value for row in rows if (value := row[name]) is not None]
        shown[name] = float(np.median(values)) if 2 * len(values) > len(rows) else None
    return shown
