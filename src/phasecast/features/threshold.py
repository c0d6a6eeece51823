"""The whole answer for one setting: δ*(t) or δ_NN with its error, and the Hessian's spectrum at one δ.

>>> threshold("z**2", "gelu", "pseudo-huber").value  # doctest: +ELLIPSIS
1.69275...
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phasecast.core.errors import BadInput, PhasecastError, Refused, whole_number
from phasecast.core.results import Status
from phasecast.features.curvature.compiled import evaluate_batched
from phasecast.features.curvature.methods import (
    LONG,
    Laws,
    Route,
    check_time,
    decoupled_laws,
    fixed_point_laws,
    route_for,
)
from phasecast.features.curvature.quadrature import blocks, curvature_floor
from phasecast.features.hessian_spectrum import (
    HessianSpectrum,
    Outlier,
    check_delta,
    density,
    hessian_spectrum,
    zero_between,
)
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
from phasecast.features.setting.functions import LOSSES, Activation, Loss, Scalar
from phasecast.features.setting.network import Network, Width
from phasecast.features.setting.target import Target
from phasecast.features.setting.target import target as make_target
from phasecast.features.threshold_result import Threshold
from phasecast.features.unbounded import side_by_side

ROUNDING = 1e-9  # relative, of a quadrature and its root
CHECK = 0.7  # fineness of the grid that gives a quadrature's error
FIRST, LAST, RATIO = 0.5, 64.0, math.sqrt(2)  # δ of a scan
QUICK = 0.25  # effort of a scan
ASIDE = 0.12  # margins are taken at δ·e^{±this} around a crossing
STILL = 0.05  # of δ*: a drift that is worth a warning
SHOWN = 1.5  # times δ*: where the spectrum is shown if no δ is given

Margins = Callable[[float, int], list[float]]
"""The least margin at a δ for a seed, at each of one or more times."""


def threshold(
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
) -> Threshold:
    """δ*(t) for a target, an activation and a loss; at ``time=math.inf`` it is δ_NN.

    Parameters
    ----------
    target: an expression in z or z1, z2, z3, a preset, or a JAX function of (..., k) with ``latents`` = k.
    lr: η; does not matter at t = 0, nor at t = ∞ where the fixed point exists.
    time: t in steps, or ``math.inf``.
    width, a, b, initial_norm: see :class:`~phasecast.features.setting.network.Network`.
    delta: also the spectrum at this n/d: edge, outliers, overlaps, margin.
    simulate: also measure it by gradient descent in this many dimensions, at ``delta`` or at 1.5 δ*.
    seeds, samples: of the routes that draw; the error is the standard error over seeds.
    up_to: the largest δ looked at where the law depends on δ.
    curves: also what :meth:`Threshold.figure` draws.
    """
    chosen = make_target(target, latents=latents, noise=noise)
    network = Network(activation, loss, width, a, b, initial_norm)  # pyright: ignore[reportArgumentType]
    time = check_time(time)
    _check(chosen, lr, delta, simulate, up_to)
    _check_labels(network, chosen)
    whole_number("seeds", seeds, 2)
    whole_number("samples", samples, 100)
    route = route_for(network, chosen, lr, time, samples)
    floors = [curvature_floor(network, chosen, block, moved=time > 0) for block in blocks(network)]
    if -math.inf in floors:
        found = side_by_side(network, chosen, route, time, delta, seeds, up_to)
    elif not chosen.hard.shape[1]:
        reasons = ["all directions of this target are easy: the gradient itself sees them, at any n of order d"]
        found = _refused(reasons, route, time, (SMALLEST, LARGEST), {})
    elif route.fixed:
        found = _at_start(route, time)
    elif math.isinf(time):
        found = _at_the_end(network, chosen, lr, route, seeds, up_to)
    else:
        found = _along(route, time, seeds, up_to)
    if network.width != "wide" and network.size > 1 and found.status is not Status.REFUSED:
        words = (
            "only the diagonal blocks of the Hessian are used, as in a wide network; with few neurons the whole differs"
        )
        found = _with(found, status=Status.WARNING, reasons=(*found.reasons, words))
    parts: dict[str, Any] = {}
    place = delta
    if place is None and (simulate is not None or curves) and math.isfinite(float(found.estimate)):  # pyright: ignore[reportArgumentType]
        place = SHOWN * float(found.estimate)  # pyright: ignore[reportArgumentType]
    if place is not None and not found.unbounded:
        laws = _laws_at(network, chosen, route, time, place, seeds)
        parts["spectrum"] = spectrum_table(laws, place)
        if curves:
            parts["curves"] = {**found.curves, "density": _bulk(laws[0], parts["spectrum"])}
    if curves and route.fixed and not found.unbounded:
        over = {"margin": _margin_curve(route.laws(1.0, 0, CHECK), found.intervals)}
        parts["curves"] = {**parts.get("curves", {}), "margins": over}
    if simulate is not None and place is not None:
        from phasecast.features.simulation.hessian import measured_spectrum

        parts["simulation"] = measured_spectrum(network, chosen, place, lr, time, simulate, seeds)
    return found if not parts else _with(found, **parts)


def _check(chosen: Target, lr: float, delta: float | None, simulate: int | None, up_to: float) -> None:
    if not (isinstance(lr, int | float) and math.isfinite(lr) and lr > 0):
        raise BadInput(f"the learning rate is {lr}", "use η > 0")
    if delta is not None:
        check_delta(delta)
    if simulate is not None:
        whole_number("the dimension to simulate", simulate, 20)
    if not (math.isfinite(up_to) and up_to > 2 * FIRST):
        raise BadInput(f"the search ends at δ = {up_to}", f"use a number above {2 * FIRST:g}")


def _check_labels(network: Network, chosen: Target) -> None:
    """The logistic loss has no minimum for a label outside [0, 1]."""
    if network.loss.function is not LOSSES["logistic"]:
        return
    values = evaluate_batched(chosen.link, "", np.random.default_rng(0).normal(size=(4096, chosen.latents)))
    if chosen.noise > 0 or values.min() < 0 or values.max() > 1:
        raise BadInput(
            "the logistic loss needs labels in [0, 1]", "use a target like z1 > 0 without noise, or another loss"
        )


def _at_start(route: Route, time: float) -> Threshold:
    """All of it by quadrature, for a law that does not depend on δ."""
    fine, coarse = (_sets(route.laws(1.0, 0, effort)) for effort in (1.0, CHECK))
    searched = (SMALLEST, LARGEST)
    if not fine:
        reasons = [
            f"no outlier for any δ from {SMALLEST:g} to {LARGEST:g}: this network does not see the target at t = 0"
        ]
        return _refused(reasons, route, time, searched, {})
    star = fine[0][0]
    error = abs(star - coarse[0][0]) + ROUNDING * star if len(coarse) == len(fine) else math.inf
    reasons = [] if error < 0.01 * star else [f"the quadrature is uncertain by {error:.2g}; see intervals"]
    return Threshold(
        star, error, Status.WARNING if reasons else Status.OK, error_kind="quadrature", reasons=reasons, name="δ*(0)",
        method=route.name, time=time, intervals=fine, searched=searched,
    )  # fmt: skip


def _sets(laws: Laws) -> tuple[Interval, ...]:
    """The union over the blocks of the δ with an outlier."""
    pairs = sorted(pair for law in laws for pair in outlier_set(law))
    merged: list[Interval] = []
    for low, high in pairs:
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _margin_curve(laws: Laws, intervals: Sequence[Interval]) -> tuple[list[float], list[float]]:
    centre = intervals[0][0] if intervals else 4.0
    deltas = list(np.geomspace(centre / 5, centre * 20, 25))
    return deltas, [least_margin(laws, float(delta)) for delta in deltas]


def _along(route: Route, time: float, seeds: int, up_to: float) -> Threshold:
    """A scan over δ with little effort, then the first crossing with all of it, for every seed."""
    name = f"δ*({time:g})"
    looked = scan(_safe(lambda delta: least_margin(route.laws(delta, 0, QUICK if route.random else CHECK), delta)),
                  _grid(up_to))  # fmt: skip
    margins: Margins = lambda delta, seed: [least_margin(route.laws(delta, seed, 1.0), delta)]  # noqa: E731
    return _refine(route, time, looked, name, margins, seeds, looked.first)


def _at_the_end(network: Network, chosen: Target, lr: float, route: Route, seeds: int, up_to: float) -> Threshold:
    """t = ∞: by the fixed point where it exists on both sides of the crossing, else by decoupled descent."""
    looked = scan(_safe(lambda delta: least_margin(route.laws(delta, 0, 0.5), delta)), _grid(up_to))
    settled = None if looked.first is None else _settled_bracket(network, chosen, looked.first)
    if settled is not None:
        ends = Route("fixed-point", lambda delta, seed, effort: _end(network, chosen, delta, effort), random=False)
        exact: Margins = lambda delta, seed: [least_margin(ends.laws(delta, 0, 1.0), delta)]  # noqa: E731
        return _refine(ends, math.inf, looked, "δ_NN", exact, seeds, settled)

    def later(delta: float, seed: int) -> list[float]:
        return [least_margin(laws, delta) for laws in decoupled_laws(network, chosen, lr, LONG, delta, seed)]

    return _refine(route, math.inf, looked, "δ_NN", later, seeds, looked.first)


def _settled_bracket(network: Network, chosen: Target, rough: Interval) -> Interval | None:
    """A bracket of the crossing at whose ends training settles at a fixed point; the rough one may be a step off."""
    for wider in (1.0, RATIO):
        ends = (rough[0] / wider, rough[1] * wider)
        laws = [fixed_point_laws(network, chosen, end) for end in ends]
        if None in laws:
            return None
        low, high = (least_margin(one, end) for one, end in zip(laws, ends, strict=True) if one is not None)
        if low >= 0 > high:
            return ends
    return None


def _end(network: Network, chosen: Target, delta: float, effort: float) -> Laws:
    laws = fixed_point_laws(network, chosen, delta, effort)
    if laws is None:
        raise Refused(f"there is no fixed point at δ = {delta:g}", "use decoupled descent")
    return laws


def _refine(
    route: Route, time: float, looked: Scan, name: str, margins: Margins, seeds: int, bracket: Interval | None
) -> Threshold:
    """δ* within the bracket that a scan found, with the words for where there is none."""
    searched = (looked.deltas[0], looked.deltas[-1])
    curves = {"margins": {"scan": (list(looked.deltas), list(looked.margins))}}
    if bracket is None:
        below = looked.margins[0] < 0
        words = f"at δ = {searched[0]:g} there is an outlier already" if below else "no outlier appears"
        way = "δ* is below, where the limit is of little use" if below else "look further with up_to"
        reasons = [f"{words} in the search from {searched[0]:g} to {searched[1]:.4g}; {way}"]
        return _refused(reasons, route, time, searched, curves)
    found, error, more = (_exact if not route.random else _over_seeds)(route, bracket, margins, seeds)
    if "margins" in more:
        curves["margins"]["seeds"] = more.pop("margins")
    if not (math.isfinite(found) and math.isfinite(error)):
        low, high = bracket
        reasons = [f"the seeds disagree about a crossing between {low:.4g} and {high:.4g}; use more samples or seeds"]
        return _refused(reasons, route, time, searched, curves)
    reasons = []
    if abs(more.get("still_moving", 0.0)) > STILL * found:
        reasons.append(f"δ* still moves by {more['still_moving']:+.2g} between {LONG[-2]} and {LONG[-1]} steps")
    if any(math.isnan(margin) for margin in looked.margins):
        lost = [f"{d:.3g}" for d, margin in zip(looked.deltas, looked.margins, strict=True) if math.isnan(margin)]
        reasons.append(f"the route fails at δ = {', '.join(lost)}; lower the learning rate to see those")
    kind = "seeds" if route.random else "quadrature"
    return Threshold(
        found, error, Status.WARNING if reasons else Status.OK, more, error_kind=kind, reasons=reasons, name=name,
        method=route.name, time=time, intervals=looked.intervals(found), searched=searched, curves=curves,
    )  # fmt: skip


def _exact(route: Route, bracket: Interval, margins: Margins, seeds: int) -> tuple[float, float, dict[str, Any]]:
    """δ* of a route without randomness, and its distance to that on a coarser grid."""
    star = zero_between(lambda delta: margins(delta, 0)[0], *bracket, accuracy=1e-5)
    around = (star * math.exp(-ASIDE / 4), star * math.exp(ASIDE / 4))
    rough = crossing_delta(lambda delta: least_margin(route.laws(delta, 0, CHECK), delta), around, 1e-4, tries=2)
    return star, abs(star - rough) + 1e-5 * star, {}


def _over_seeds(route: Route, bracket: Interval, margins: Margins, seeds: int) -> tuple[float, float, dict[str, Any]]:
    """δ* where the mean margin over seeds vanishes, at the last of the times; the error by leaving out one seed each.

    The drift between the last two times is added to the error.
    """
    centre = crossing_delta(lambda delta: margins(delta, 0)[-1], bracket, accuracy=0.05, tries=3)
    if not math.isfinite(centre):
        return math.nan, math.nan, {}
    deltas = centre * np.exp([-ASIDE, 0.0, ASIDE])
    table = np.array([[margins(float(delta), seed) for delta in deltas] for seed in range(seeds)])
    stars = [_root(deltas, table[:, :, when].mean(axis=0)) for when in range(table.shape[2])]
    left_out = np.array([_root(deltas, np.delete(table[:, :, -1], seed, axis=0).mean(axis=0)) for seed in range(seeds)])
    spread = math.sqrt((seeds - 1) / seeds * float(((left_out - left_out.mean()) ** 2).sum()))
    drift = stars[-1] - stars[-2] if len(stars) > 1 else 0.0
    shown = (list(deltas), list(table[:, :, -1].mean(axis=0)))
    more = {"seeds": seeds, "over_seeds": spread, "still_moving": drift, "margins": shown}
    return stars[-1], math.hypot(spread, drift), more


def _root(deltas: np.ndarray, margins: np.ndarray) -> float:
    """δ at which the parabola through three margins over log δ vanishes, the root nearest to the middle."""
    roots = np.roots(np.polyfit(np.log(deltas / deltas[1]), margins, 2))
    real = roots[abs(roots.imag) < 1e-9].real
    near = real[abs(real) < 4 * ASIDE]
    return float(deltas[1] * np.exp(near[np.argmin(abs(near))])) if near.size else math.nan


def _grid(up_to: float) -> list[float]:
    count = math.ceil(math.log(up_to / FIRST) / math.log(RATIO))
    return np.geomspace(FIRST, up_to, count + 1).tolist()


def _safe(margin: Callable[[float], float]) -> Callable[[float], float]:
    """NaN where a route fails at one δ: the others may still answer."""

    def guarded(delta: float) -> float:
        try:
            return margin(delta)
        except (Refused, np.linalg.LinAlgError):
            return math.nan

    return guarded


def _refused(reasons: list[str], route: Route, time: float, searched: Interval, curves: dict[str, Any]) -> Threshold:
    return Threshold(
        math.nan, math.nan, Status.REFUSED, error_kind="quadrature", reasons=reasons, name=f"δ*({time:g})",
        method=route.name, time=time, searched=searched, curves=curves,
    )  # fmt: skip


def _laws_at(network: Network, chosen: Target, route: Route, time: float, delta: float, seeds: int) -> list[Laws]:
    """The laws of all blocks at one δ, for every seed where that matters."""
    try:
        if math.isinf(time):
            laws = fixed_point_laws(network, chosen, delta)
            if laws is not None:
                return [laws]
        return [route.laws(delta, seed, 1.0) for seed in range(seeds if route.random else 1)]
    except PhasecastError as error:
        raise Refused(f"there is no spectrum at δ = {delta:g} ({error.cause})", error.fix) from error


def spectrum_table(draws: Sequence[Laws], delta: float) -> dict[str, Any]:
    """Edge, margin and outliers at δ of the block with the least margin, averaged over draws with standard errors."""
    found = [min((hessian_spectrum(law, delta) for law in laws), key=lambda one: one.margin) for laws in draws]
    first = found[0]
    numbers = {
        "edge": [one.edge for one in found],
        "margin": [one.margin for one in found],
        "outlier": [_lowest(one).value for one in found if one.outliers],
        "overlap2": [_lowest(one).overlap2 for one in found if one.outliers],
    }
    most = 2 * len(numbers["outlier"]) > len(found)  # an outlier if most draws have one
    table: dict[str, Any] = {"delta": delta}
    for name, values in numbers.items():
        shown = values and (most or name in ("edge", "margin"))
        table[name] = float(np.mean(values)) if shown else None
        several = shown and len(values) > 1
        table[f"{name}_error"] = (
            float(np.std(values, ddof=1) / math.sqrt(len(values))) if several else (0.0 if shown else None)
        )
    table["outliers"] = [_plain(one) for one in first.outliers] if most else []
    table["rest"] = [_plain(one) for one in first.rest]
    return table


def _lowest(one: HessianSpectrum) -> Outlier:
    return one.outliers[0]


def _plain(one: Outlier) -> dict[str, Any]:
    return {
        "value": one.value,
        "overlap2": one.overlap2,
        "direction": one.direction.tolist(),
        "informative": one.informative,
    }


def _bulk(laws: Laws, table: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The bulk's density from a little below everything to where it thins out."""
    law = min(laws, key=lambda one: hessian_spectrum(one, table["delta"]).margin)
    lowest = min([table["edge"], *(one["value"] for one in table["outliers"] + table["rest"])])
    centre, spread = float(law.mean(law.G)), math.sqrt(float(law.mean(law.G**2)) / table["delta"])
    points = np.linspace(lowest - 0.1 * spread, max(centre + 4 * spread, lowest + spread), 240)
    return points, density(law, table["delta"], points)


def _with(found: Threshold, **parts: Any) -> Threshold:
    kept = {entry.name: getattr(found, entry.name) for entry in dataclasses.fields(found)}
    return Threshold(kept.pop("estimate"), **{**kept, **parts})
