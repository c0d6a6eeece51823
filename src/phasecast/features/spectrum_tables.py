"""What does a threshold show of the spectrum at one δ? Edge, margin and outliers over draws, as plain tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from phasecast.core.errors import PhasecastError, Refused
from phasecast.core.statistics import standard_error
from phasecast.features.curvature.methods import Draw, Laws, Route, fixed_point_laws
from phasecast.features.hessian_spectrum import Outlier, density, hessian_spectrum
from phasecast.features.outliers import Interval, least_margin
from phasecast.features.threshold_result import Curve, OutlierTable, SpectrumTable
from phasecast.features.threshold_search import ThresholdQuestion


def laws_at(question: ThresholdQuestion, route: Route, delta: float) -> list[Laws]:
    """The laws of all blocks at one δ, for every seed where that matters."""
    try:
        if math.isinf(question.time):
            laws = fixed_point_laws(question.network, question.target, delta)
            if laws is not None:
                return [laws]
        return [route.laws(delta, Draw(seed)) for seed in range(question.seeds if route.random else 1)]
    except PhasecastError as error:
        raise Refused(f"there is no spectrum at δ = {delta:g} ({error.cause})", error.fix) from error


def spectrum_table(draws: Sequence[Laws], delta: float) -> SpectrumTable:
    """Edge, margin and outliers at δ of the block with the least margin, averaged over draws with standard errors."""
    spectra = [min((hessian_spectrum(law, delta) for law in laws), key=lambda one: one.margin) for laws in draws]
    with_outlier = [one for one in spectra if one.outliers]
    numbers = {
        "edge": [one.edge for one in spectra],
        "margin": [one.margin for one in spectra],
        "outlier": [one.outliers[0].value for one in with_outlier],
        "overlap2": [one.outliers[0].overlap2 for one in with_outlier],
    }
    most = 2 * len(with_outlier) > len(spectra)  # an outlier if most draws have one
    table: dict[str, Any] = {"delta": delta}
    for name, values in numbers.items():
        if not values or not (most or name in ("edge", "margin")):
            table[name] = table[f"{name}_error"] = None
        else:
            table[name] = float(np.mean(values))
            table[f"{name}_error"] = float(standard_error(values)) if len(values) > 1 else 0.0
    table["outliers"] = [_plain(one) for one in spectra[0].outliers] if most else []
    table["rest"] = [_plain(one) for one in spectra[0].rest]
    return cast(SpectrumTable, table)


def _plain(one: Outlier) -> OutlierTable:
    return {
        "value": one.value,
        "overlap2": one.overlap2,
        "direction": one.direction.tolist(),
        "informative": one.informative,
    }


def bulk_density(laws: Laws, table: SpectrumTable) -> tuple[np.ndarray, np.ndarray]:
    """Points and the bulk's density there, from a little below everything to where it thins out."""
    delta, edge = table.get("delta", math.nan), table.get("edge")
    law = min(laws, key=lambda one: hessian_spectrum(one, delta).margin)
    outliers = [*table.get("outliers", []), *table.get("rest", [])]
    lowest = min([math.inf if edge is None else edge, *(one["value"] for one in outliers)])
    centre, spread = float(law.mean(law.G)), math.sqrt(float(law.mean(law.G**2)) / delta)
    points = np.linspace(lowest - 0.1 * spread, max(centre + 4 * spread, lowest + spread), 240)
    return points, density(law, delta, points)


def margin_curve(laws: Laws, intervals: Sequence[Interval]) -> Curve:
    """The least margin over δ around the first threshold, for laws that do not depend on δ."""
    centre = intervals[0][0] if intervals else 4.0
    deltas = list(np.geomspace(centre / 5, centre * 20, 25))
    return deltas, [least_margin(laws, float(delta)) for delta in deltas]
