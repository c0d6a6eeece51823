"""Where is δ*, given a route to the laws? A scan over δ, then the first crossing with full effort and its error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasecast.core.errors import BadInput, Refused, whole_number
from phasecast.core.results import Status
from phasecast.core.statistics import jackknife
from phasecast.features.curvature.compiled import evaluate_batched
from phasecast.features.curvature.methods import (
    LONG,
    DecoupledRoute,
    Draw,
    FixedPointRoute,
    Laws,
    Route,
    fixed_point_laws,
)
from phasecast.features.hessian_spectrum import check_delta, zero_between
from phasecast.features.outliers import (
    LARGEST,
    SMALLEST,
    Interval,
    Scan,
    crossing_delta,
    least_margin,
    outlier_set,
    scan,
)
from phasecast.features.policy import POLICY
from phasecast.features.setting.functions import LOSSES
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import Target
from phasecast.features.threshold_result import Curve, Curves, Threshold
from phasecast.progress import report_step

ROUNDING = 1e-9  # relative, of a quadrature and its root
COARSE = 0.7  # fineness of the grid whose distance is a quadrature's error; chosen
FIRST, RATIO = 0.5, math.sqrt(2)  # first δ of a scan, and from one to the next; chosen, below all known thresholds
QUICK = 0.25  # effort of a scan of random routes, which only brackets
HALF = 0.5  # effort of a scan at t = ∞, where a margin is closer to zero
ASIDE = 0.12  # margins are taken at δ·e^{±this} around a crossing, far enough apart for a slope above the noise


@dataclass(frozen=True)
class ThresholdQuestion:
    """What :func:`~phasecast.features.threshold.threshold` is asked; see there for the fields. Checked when made."""

    network: Network
    target: Target
    lr: float
    time: float
    delta: float | None
    simulate: int | None
    seeds: int
    samples: int
    up_to: float
    curves: bool

    def __post_init__(self) -> None:
        if not (isinstance(self.lr, int | float) and math.isfinite(self.lr) and self.lr > 0):
            raise BadInput(f"invalid learning rate {self.lr}", "use η > 0")
        if self.delta is not None:
            check_delta(self.delta)
        if self.simulate is not None:
            whole_number("the dimension to simulate", self.simulate, 20)
        if not (math.isfinite(self.up_to) and self.up_to > 2 * FIRST):
            raise BadInput(f"invalid end of the search δ = {self.up_to}", f"use a number above {2 * FIRST:g}")
        self._check_labels()
        whole_number("seeds", self.seeds, 2)
        whole_number("samples", self.samples, 100)

    def _check_labels(self) -> None:
        """The logistic loss has no minimum for a label outside [0, 1]."""
        if self.network.loss.function is not LOSSES["logistic"]:
            return
        z = np.random.default_rng(0).normal(size=(4096, self.target.latents))
        values = evaluate_batched(self.target.link, "", z)
        if self.target.noise > 0 or values.min() < 0 or values.max() > 1:
            raise BadInput(
                "the logistic loss needs labels in [0, 1]", "use a target like z1 > 0 without noise, or another loss"
            )

    def refused(self, route: Route, searched: Interval, *reasons: str, curves: Curves | None = None) -> Threshold:
        """No threshold, and why."""
        return Threshold.refused(
            *reasons, error_kind="quadrature", name=f"δ*({self.time:g})", policy=POLICY.plain(), method=route.name,
            time=self.time, searched=searched, curves=curves or Curves(),
        )  # fmt: skip


_WATCHER: ContextVar[Callable[[str], None] | None] = ContextVar("watcher", default=None)


@contextmanager
def watched_search(watcher: Callable[[str], None] | None) -> Iterator[None]:
    """Searches inside call ``watcher`` with a line about every δ and seed that they compute."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def _tell(line: str) -> None:
    report_step(line)
    watcher = _WATCHER.get()
    if watcher is not None:
        watcher(line)


def scan_deltas(up_to: float) -> list[float]:
    """The grid of δ of a scan."""
    count = math.ceil(math.log(up_to / FIRST) / math.log(RATIO))
    return np.geomspace(FIRST, up_to, count + 1).tolist()


def threshold_at_start(question: ThresholdQuestion, route: Route) -> Threshold:
    """All of it by quadrature, for laws that do not depend on δ."""
    fine, coarse = (_outlier_sets(route.laws(1.0, Draw(effort=effort))) for effort in (1.0, COARSE))
    searched = (SMALLEST, LARGEST)
    if not fine:
        return question.refused(
            route,
            searched,
            f"no outlier for any δ from {SMALLEST:g} to {LARGEST:g}: the Hessian of this network does not show the "
            "target at t = 0; use a later time or another activation",
        )
    star = fine[0][0]
    error = abs(star - coarse[0][0]) + ROUNDING * star if len(coarse) == len(fine) else math.inf
    certain = error < POLICY.largest_quadrature_error * star
    reasons = [] if certain else [f"the quadrature is uncertain by {error:.2g}; see intervals"]
    return Threshold(
        star, error, Status.WARNING if reasons else Status.OK, error_kind="quadrature", reasons=reasons, name="δ*(0)",
        policy=POLICY.plain(), method=route.name, time=question.time, intervals=fine, searched=searched,
    )  # fmt: skip


def threshold_along(question: ThresholdQuestion, route: Route) -> Threshold:
    """At a finite t > 0: a scan over δ with little effort, then the first crossing with all of it, for every seed."""
    rough = scan(_margin_or_nan(route, QUICK if route.random else COARSE), scan_deltas(question.up_to))
    return _refined(question, route, rough, rough.first, f"δ*({question.time:g})")


def threshold_at_end(question: ThresholdQuestion, route: Route) -> Threshold:
    """At t = ∞: by the fixed point where it exists on both sides of the crossing, else by decoupled descent."""
    rough = scan(_margin_or_nan(route, HALF), scan_deltas(question.up_to))
    settled = None if rough.first is None else _settled_bracket(question, rough.first)
    if settled is not None:
        return _refined(question, FixedPointRoute(question.network, question.target), rough, settled, "δ_NN")
    return _refined(question, route, rough, rough.first, "δ_NN")


@dataclass(frozen=True)
class _Crossing:
    """δ* with its error; ``curve`` holds the margins around it, ``drift`` how much it still moves with t."""

    delta: float
    error: float
    diagnostics: dict[str, Any] = field(default_factory=dict)
    drift: float = 0.0
    curve: Curve | None = None


def _refined(question: ThresholdQuestion, route: Route, rough: Scan, bracket: Interval | None, name: str) -> Threshold:
    """δ* within a bracket that a scan gave, or the reason why there is none."""
    searched = (rough.deltas[0], rough.deltas[-1])
    margins: dict[str, Curve] = {"scan": (list(rough.deltas), list(rough.margins))}
    curves: Curves = {"margins": margins}
    if bracket is None:
        below = rough.margins[0] < 0
        problem = f"at δ = {searched[0]:g} there already is an outlier" if below else "no outlier appears"
        further = "the margin does not approach zero there, so a longer search would not find one"
        open_end = further if _hopeless(rough) else "extend the search with up_to"
        remedy = "δ* is below, where the limit is of little use" if below else open_end
        reason = f"{problem} in the search from {searched[0]:g} to {searched[1]:.4g}; {remedy}"
        return question.refused(route, searched, reason, curves=curves)
    crossing = _over_seeds(route, bracket, question.seeds) if route.random else _exact(route, bracket)
    if crossing.curve is not None:
        margins["seeds"] = crossing.curve
    if not (math.isfinite(crossing.delta) and math.isfinite(crossing.error)):
        low, high = bracket
        reason = f"the seeds disagree about a crossing between {low:.4g} and {high:.4g}; use more samples or seeds"
        return question.refused(route, searched, reason, curves=curves)
    reasons = []
    if abs(crossing.drift) > POLICY.largest_drift * crossing.delta:
        reasons.append(f"δ* still moves by {crossing.drift:+.2g} between {LONG[-2]} and {LONG[-1]} steps")
    if any(math.isnan(margin) for margin in rough.margins):
        lost = [f"{d:.3g}" for d, margin in zip(rough.deltas, rough.margins, strict=True) if math.isnan(margin)]
        reasons.append(f"the route fails at δ = {', '.join(lost)}; lower the learning rate to include those")
    return Threshold(
        crossing.delta, crossing.error, Status.WARNING if reasons else Status.OK, crossing.diagnostics,
        error_kind="seeds" if route.random else "quadrature", reasons=reasons, name=name, policy=POLICY.plain(),
        method=route.name, time=question.time, intervals=rough.intervals(crossing.delta), searched=searched,
        curves=curves,
    )  # fmt: skip


def _hopeless(rough: Scan) -> bool:
    """Does the margin, continued as a line in log δ from the upper half of the scan, stay positive up to LARGEST?"""
    half = len(rough.deltas) // 2
    logs, margins = np.log(rough.deltas[half:]), np.asarray(rough.margins[half:])
    known = np.isfinite(margins)
    if known.sum() < POLICY.fewest_margins:
        return False
    slope, at_zero = np.polyfit(logs[known], margins[known], 1)
    return bool(slope * math.log(LARGEST) + at_zero > 0)


def _exact(route: Route, bracket: Interval) -> _Crossing:
    """δ* of a route without randomness, and its distance to that on a coarser grid."""
    star = zero_between(lambda delta: least_margin(route.laws(delta), delta), *bracket, accuracy=1e-5)
    around = (star * math.exp(-ASIDE / 4), star * math.exp(ASIDE / 4))
    rough = crossing_delta(
        lambda delta: least_margin(route.laws(delta, Draw(effort=COARSE)), delta), around, 1e-4, tries=2
    )
    return _Crossing(star, abs(star - rough) + 1e-5 * star)


def _over_seeds(route: Route, bracket: Interval, seeds: int) -> _Crossing:
    """δ* where the mean margin over seeds vanishes, at the last of the times; the error by leaving out one seed each.

    The drift between the last two times is added to the error.
    """
    centre = crossing_delta(lambda delta: _margins(route, delta, 0)[-1], bracket, accuracy=0.05, tries=3)
    if not math.isfinite(centre):
        return _Crossing(math.nan, math.nan)
    deltas = centre * np.exp([-ASIDE, 0.0, ASIDE])
    table = np.array([[_margins(route, float(delta), seed) for delta in deltas] for seed in range(seeds)])
    stars = [_root(deltas, table[:, :, when].mean(axis=0)) for when in range(table.shape[2])]
    _, spread = jackknife(lambda margins: _root(deltas, margins.mean(axis=0)), table[:, :, -1])
    drift = stars[-1] - stars[-2] if len(stars) > 1 else 0.0
    curve = (list(deltas), list(table[:, :, -1].mean(axis=0)))
    diagnostics = {"seeds": seeds, "over_seeds": spread, "still_moving": drift}
    return _Crossing(stars[-1], math.hypot(spread, drift), diagnostics, drift, curve)


def _margins(route: Route, delta: float, seed: int) -> list[float]:
    """The least margin at one δ for one seed, at each of the times of the route."""
    _tell(f"{route.name}, δ = {delta:.3g}, seed {seed}")
    if isinstance(route, DecoupledRoute):
        return [least_margin(laws, delta) for laws in route.laws_over_time(delta, Draw(seed))]
    return [least_margin(route.laws(delta, Draw(seed)), delta)]


def _margin_or_nan(route: Route, effort: float) -> Callable[[float], float]:
    """The least margin at δ; NaN where a route fails there: it may work at the others."""

    def margin(delta: float) -> float:
        _tell(f"{route.name}, δ = {delta:.3g}")
        try:
            return least_margin(route.laws(delta, Draw(effort=effort)), delta)
        except (Refused, np.linalg.LinAlgError):
            return math.nan

    return margin


def _settled_bracket(question: ThresholdQuestion, rough: Interval) -> Interval | None:
    """A bracket of the crossing at whose ends training settles at a fixed point; the rough one may be a step off."""
    for wider in (1.0, RATIO):
        ends = (rough[0] / wider, rough[1] * wider)
        laws = [fixed_point_laws(question.network, question.target, end) for end in ends]
        if None in laws:
            return None
        low, high = (least_margin(one, end) for one, end in zip(laws, ends, strict=True) if one is not None)
        if low >= 0 > high:
            return ends
    return None


def _root(deltas: np.ndarray, margins: np.ndarray) -> float:
    """δ at which the parabola through three margins over log δ vanishes, the root nearest to the middle."""
    roots = np.roots(np.polyfit(np.log(deltas / deltas[1]), margins, 2))
    real = roots[abs(roots.imag) < 1e-9].real
    near = real[abs(real) < 4 * ASIDE]
    return float(deltas[1] * np.exp(near[np.argmin(abs(near))])) if near.size else math.nan


def _outlier_sets(laws: Laws) -> tuple[Interval, ...]:
    """The union over the blocks of the δ with an outlier."""
    pairs: Sequence[Interval] = sorted(pair for law in laws for pair in outlier_set(law))
    merged: list[Interval] = []
    for low, high in pairs:
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)
