"""What is the threshold where the curvature has no lower bound, as for y = z² with the square loss?

The formula's edge is then at −∞ and no outlier can be below it: δ* = ∞ as written, at every t. In d dimensions there
are n = δd examples and a lowest one, so a finite edge, which falls as d grows. No single number is right; three are
shown: the formula's own (``raw``), that of the law with its lowest tail raised to a quantile (``clipped``), and that of
n draws from the law (``finite_d``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from phasecast.core.errors import Refused
from phasecast.core.results import Status
from phasecast.features.curvature.curvature_law import CurvatureLaw
from phasecast.features.curvature.methods import Laws, Route, drawn
from phasecast.features.hessian_spectrum import hessian_spectrum
from phasecast.features.outliers import least_margin, scan
from phasecast.features.policy import POLICY
from phasecast.features.threshold_result import Curve, SpectrumTable, Threshold, UnboundedTable
from phasecast.features.threshold_search import ThresholdQuestion, scan_deltas

LEVELS = (1e-2, 1e-3, 1e-4)  # quantiles of G to which its lowest values are raised, a decade apart to show the trend
DIMENSIONS = (300, 1000, 3000)  # of the finite draws, as large as one simulates

UNBOUNDED = (
    "G is unbounded below, so the edge is at −∞ and the formula gives no threshold; clipped at a quantile of G and at "
    "finite d it gives the values shown, which depend on the quantile and on d; use a loss with a bounded slope, like "
    "pseudo-huber, for a single number"
)

NOWHERE = (
    "no outlier appears at any δ of the search, neither with G clipped at a quantile nor at finite d, and the edge of "
    "the formula is at −∞: this network does not show the target at this time; use another activation, time or loss"
)

Row = dict[str, float | None]


def side_by_side(question: ThresholdQuestion, route: Route) -> Threshold:
    """A warning with raw, clipped and finite-d values of δ*, and of the spectrum at δ where one is given."""
    search = _Search(route, scan_deltas(question.up_to))
    table: UnboundedTable = {
        "raw": {"delta_star": None},
        "clipped": {f"{level:g}": search.star(f"clipped at {level:g}", _Clipped(level)) for level in LEVELS},
        "finite_d": {str(d): search.star(f"d = {d}", _FiniteDraws(d, question.seeds)) for d in DIMENSIONS},
    }
    if all(star is None for part in (table["clipped"], table["finite_d"]) for star in part.values()):
        refused = question.refused(route, (search.deltas[0], search.deltas[-1]), NOWHERE)
        return replace(refused, unbounded=table, curves={"margins": search.margins})
    spectrum: SpectrumTable = {}
    delta = question.delta
    laws = None if delta is None else search.laws(delta)
    if delta is not None and laws is not None:
        spectrum = {"delta": delta, "edge": None, "outlier": None, "overlap2": None, "margin": None, "outliers": [],
                    "rest": []}  # fmt: skip
        table["clipped_spectrum"] = {f"{level:g}": _Clipped(level).row(laws, delta) for level in LEVELS}
        table["finite_d_spectrum"] = {str(d): _FiniteDraws(d, question.seeds).row(laws, delta) for d in DIMENSIONS}
    return Threshold(
        math.nan, math.nan, Status.WARNING, error_kind="quadrature", reasons=(UNBOUNDED,),
        name=f"δ*({question.time:g})", policy=POLICY.plain(), method=route.name, time=question.time,
        searched=(search.deltas[0], search.deltas[-1]), spectrum=spectrum, unbounded=table,
        curves={"margins": search.margins},
    )  # fmt: skip


@dataclass
class _Search:
    """δ* of several variants of the same laws, which are computed once per δ."""

    route: Route
    deltas: list[float]
    margins: dict[str, Curve] = field(default_factory=dict)
    known: dict[float, Laws | None] = field(default_factory=dict)

    def laws(self, delta: float) -> Laws | None:
        """The laws as their points are, without the infimum that lies below them all; None where the route fails."""
        key = self.deltas[0] if self.route.constant else delta
        if key not in self.known:
            try:
                self.known[key] = tuple(replace(law, lowest=float(law.G.min())) for law in self.route.laws(key))
            except Refused:
                self.known[key] = None
        return self.known[key]

    def star(self, name: str, margin: Callable[[Laws, float], float]) -> float | None:
        """The first δ of the grid with an outlier, by a straight line between its neighbours; None if there is none."""
        line = scan(lambda delta: math.nan if (laws := self.laws(delta)) is None else margin(laws, delta), self.deltas)
        self.margins[name] = (list(line.deltas), list(line.margins))
        if line.margins[0] < 0:
            return self.deltas[0]
        bracket = line.first
        if bracket is None:
            return None
        low, high = (dict(zip(line.deltas, line.margins, strict=True))[end] for end in bracket)
        return float(bracket[0] * (bracket[1] / bracket[0]) ** (low / (low - high)))


@dataclass(frozen=True)
class _Clipped:
    """The laws with G raised to a quantile."""

    level: float

    def __call__(self, laws: Laws, delta: float) -> float:
        return least_margin(self.raised(laws), delta)

    def row(self, laws: Laws, delta: float) -> Row:
        return _row(self.raised(laws), delta)

    def raised(self, laws: Laws) -> Laws:
        return tuple(law.clipped(law.quantile(self.level)) for law in laws)


@dataclass(frozen=True)
class _FiniteDraws:
    """n = δd draws from the laws; medians over seeds, because one draw's margin depends on its lowest example."""

    dimension: int
    seeds: int

    def __call__(self, laws: Laws, delta: float) -> float:
        return float(np.median([least_margin(self.sampled(laws, delta, seed), delta) for seed in range(self.seeds)]))

    def row(self, laws: Laws, delta: float) -> Row:
        """Medians over draws; an outlier where most draws have one."""
        rows = [_row(self.sampled(laws, delta, seed), delta) for seed in range(self.seeds)]
        medians: Row = {}
        for name in rows[0]:
            values = [value for row in rows if (value := row[name]) is not None]
            medians[name] = float(np.median(values)) if 2 * len(values) > len(rows) else None
        return medians

    def sampled(self, laws: Laws, delta: float, seed: int) -> Laws:
        return tuple(drawn(law, max(round(delta * self.dimension), 2), seed) for law in laws)


def _row(laws: tuple[CurvatureLaw, ...], delta: float) -> Row:
    """The spectrum of the block with the least margin."""
    one = min((hessian_spectrum(law, delta) for law in laws), key=lambda spectrum: spectrum.margin)
    first = one.outliers[0] if one.outliers else None
    return {
        "edge": one.edge,
        "outlier": None if first is None else first.value,
        "overlap2": None if first is None else first.overlap2,
        "margin": one.margin,
    }
