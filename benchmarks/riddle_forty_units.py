"""K = M = 40: which exponent does the learning curve have, and when would −β/(1+β) appear? Criterion before the run.

python benchmarks/riddle_forty_units.py --store riddles            the curves, resumable; then judged
python benchmarks/riddle_forty_units.py --store riddles --judge     what the curves of the store say so far
python benchmarks/riddle_forty_units.py --window                    theory alone, seconds: the window in each spectrum
python benchmarks/riddle_forty_units.py --store riddles --last 1e7  ten times further than the criterion; exploratory
python benchmarks/riddle_forty_units.py --modes           theory alone: the window with more modes
python benchmarks/riddle_forty_units.py --check           the curves beside the explicit solver
python benchmarks/riddle_forty_units.py --second-order              how much the second order in η changes

Figure 6 (left) of Worschech & Rosenow 2024: erf, K = M = 40, L = N = 512, η = 0.01, σ_J = 1e-6, ε said to fall like
α^{−β/(1+β)} up to α = 5·10⁴ (claim scaling/forty-units, which is open because seeds disagree).

Curves: the order-parameter equations to first order in η, by `online.numerics.stabilised` at rtol 1e-5, for β = 0.5, 1,
1.5 and the seeds 7101 to 7104, to α = 10⁶. The second order is exact for N → ∞; ηM/K⟨λ⟩ = 0.01 here, and
`--second-order` measures what it changes with 8 units, where it can be afforded.

Criterion. The local slope at α is that of a line through log ε over a decade around it, α/√10 to α·√10. The printed
exponent "appears" in a curve from α on where the local slope stays within 10% of −β/(1+β) for a decade (the policy of
`phasecast.curve` since it was written). For each β the answer is the share of draws in which it does before the end,
the median of those α, and the mean slopes at 10⁴, 3·10⁴, 10⁵ and 3·10⁵ with their standard errors over draws. The
printed statement, −β/(1+β) up to 5·10⁴, counts as shown if the mean slope of a line from 5·10³ to 5·10⁴ is within 10%
of it, as not shown if it is further than that and than two standard errors, and as undecided otherwise.

Theory, without any curve: near perfect learning ε is a sum over modes k and curvatures μ_v of the teachers at hand
(`asymptotic_curve`), here from students at equal small distance of their teachers in every direction. Its window is the
range of α in which its slope, over the same decade, is within 10% of −β/(1+β). That is when the exponent would appear
if all units were specialised from the start; a curve that is not specialised before the window ends cannot show it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

from phasecast.core.statistics import standard_error
from phasecast.online import OrderParameters, Spectrum, asymptotic_curve, asymptotic_rates, scaling_exponent, solve
from phasecast.online.curve_parts import POLICY
from phasecast.online.dynamics import generalisation_error
from phasecast.online.first_order_flow import first_order_flow
from phasecast.online.numerics.stabilised import follow

UNITS, MODES, RATE, SIGMA = 40, 512, 0.01, 1e-6
BETAS = (0.5, 1.0, 1.5)
SEEDS = (7101, 7102, 7103, 7104)
FIRST, LAST, PER_DECADE = 1e2, 1e6, 30
HALF = np.sqrt(10)  # a local slope is over a decade
SHOWN = (1e4, 3e4, 1e5, 3e5)
COSINE = 0.9  # from which a teacher counts as learnt, as in the claim's check
PRINTED = (5e3, 5e4)
FEW, FEW_MODES, FEW_LAST = 8, 64, 1e4  # of the comparison with the second order


class Progress(NamedTuple):
    """A curve so far: ε and learnt teachers at the first of its α, and the weights at the last of those."""

    eps: np.ndarray
    learnt: np.ndarray
    weights: np.ndarray


def grid(last: float = LAST) -> np.ndarray:
    return FIRST * 10 ** (np.arange(round(PER_DECADE * np.log10(last / FIRST)) + 1) / PER_DECADE)


def draw(beta: float, seed: int) -> tuple[OrderParameters, Spectrum]:
    spectrum = Spectrum.power_law(MODES, beta)
    return OrderParameters.draw(UNITS, UNITS, spectrum, inputs=MODES, sigma=SIGMA, seed=seed), spectrum


def compute(store: Path, beta: float, seed: int, last: float) -> None:
    """Continue one curve to its end; what it has is kept after each α."""
    path, alphas = store / f"forty-{beta:g}-{seed}.npz", grid(last)
    start, spectrum = draw(beta, seed)
    flow = first_order_flow(start, spectrum, RATE)
    known = load(path) or Progress(np.empty(0), np.empty(0), flow.J)
    done = len(known.eps)
    if done >= len(alphas):
        return
    before = alphas[done - 1] if done else 0.0
    for J in follow(flow.slope, known.weights, alphas[done:] - before):
        R1, Q1, T1 = flow.moments(J)
        cosines = R1 / np.sqrt(np.outer(np.diagonal(Q1), np.diagonal(T1)))
        learnt = np.sum(cosines.max(axis=0) > COSINE)
        eps = float(generalisation_error(R1, Q1, T1))
        known = Progress(np.append(known.eps, eps), np.append(known.learnt, learnt), J)
        with open(path.with_suffix(".new"), "wb") as file:
            np.savez(file, **known._asdict())
        path.with_suffix(".new").replace(path)
        if len(known.eps) % 10 == 0:
            print(f"β = {beta:g}, seed {seed}: α = {alphas[len(known.eps) - 1]:.3g}, ε = {eps:.3g}", flush=True)


def load(path: Path) -> Progress | None:
    if not path.exists():
        return None
    with np.load(path) as held:
        return Progress(*(held[name] for name in Progress._fields))


def local_slopes(alphas: np.ndarray, eps: np.ndarray) -> np.ndarray:
    """The slope of a line over a decade around each α; NaN where the curve does not reach that far."""
    x, y = np.log(alphas), np.log(eps)
    slopes = np.full(len(x), np.nan)
    for i, at in enumerate(x):
        inside = abs(x - at) <= np.log(HALF) * (1 + 1e-9)
        if at - x[0] >= np.log(HALF) * (1 - 1e-9) and x[-1] - at >= np.log(HALF) * (1 - 1e-9):
            slopes[i] = np.polyfit(x[inside], y[inside], 1)[0]
    return slopes


def appears(alphas: np.ndarray, slopes: np.ndarray, exponent: float) -> tuple[float, float]:
    """The longest range of α in which the local slope is the exponent; NaN where it is shorter than a decade."""
    near = np.abs(slopes - exponent) <= POLICY.same_slope * abs(exponent)
    best, at = (0, 0), 0
    for end, agrees in enumerate(near):
        if not agrees:
            at = end + 1
        elif alphas[end] / alphas[at] > alphas[best[1]] / alphas[best[0]]:
            best = at, end
    low, high = alphas[best[0]], alphas[best[1]]
    return (low, high) if high / low >= POLICY.long_enough * (1 - 1e-9) else (np.nan, np.nan)


def judge(store: Path, last: float) -> None:
    ends = tuple(at for at in (*SHOWN, 1e6, 3e6, 1e7, 3e7) if at <= last / HALF * 1.0001)
    for beta in BETAS:
        exponent, curves = scaling_exponent(beta), []
        print(f"\nβ = {beta:g}, −β/(1+β) = {exponent:.3f}")
        for seed in SEEDS:
            known = load(store / f"forty-{beta:g}-{seed}.npz")
            if known is None:
                continue
            alphas = grid(last)[: len(known.eps)]
            eps = known.eps[: len(alphas)]
            slopes = local_slopes(alphas, eps)
            low, high = appears(alphas, slopes, exponent)
            at = [f"{value:.3g}" for value in np.interp(np.log(ends), np.log(alphas), slopes, right=np.nan)]
            learnt = known.learnt[: len(alphas)]
            counts = [int(learnt[alphas <= limit * 1.0001][-1]) for limit in (*PRINTED, alphas[-1])]
            print(
                f"  seed {seed}: to α = {alphas[-1]:.3g}, slopes {', '.join(at)}; learnt {counts[0]} "
                f"at {PRINTED[0]:g}, {counts[1]} at {PRINTED[1]:g}, {counts[2]} at the end; "
                f"exponent from {low:.3g} to {high:.3g}"
            )
            curves.append((eps, slopes, low))
        summarise(curves, exponent, ends, last)


def summarise(
    curves: list[tuple[np.ndarray, np.ndarray, float]], exponent: float, ends: tuple[float, ...], last: float
) -> None:
    """Mean slopes over the draws that reach that far, with standard errors, and the verdict."""
    if len(curves) < 2:
        print(f"  {len(curves)} draws")
        return
    alphas = grid(last)
    for at in ends:
        i = int(np.argmin(abs(np.log(alphas / at))))
        known = np.array([slopes[i] for _, slopes, _ in curves if len(slopes) > i and np.isfinite(slopes[i])])
        if len(known) > 1:
            print(f"  slope at {at:g}: {known.mean():.3f} ± {standard_error(known):.3f} ({len(known)} draws)")
    inside = (alphas >= PRINTED[0]) & (alphas <= PRINTED[1] * 1.0001)
    rows = inside.nonzero()[0]
    reached = [eps[rows] for eps, _, _ in curves if len(eps) > rows[-1]]
    printed = np.array([np.polyfit(np.log(alphas[rows]), np.log(eps), 1)[0] for eps in reached])
    firsts = np.array([low for _, _, low in curves])
    found = np.isfinite(firsts)
    when = f", median from {np.median(firsts[found]):.3g}" if found.any() else ""
    print(f"  the exponent appears in {found.sum()} of {len(firsts)} draws{when}")
    if len(printed) > 1:
        mean, error, width = printed.mean(), standard_error(printed), POLICY.same_slope * abs(exponent)
        off = abs(mean - exponent)
        verdict = "shown" if off <= width else "not shown" if off > 2 * error else "undecided"
        print(f"  slope of {PRINTED[0]:g} to {PRINTED[1]:g}: {mean:.3f} ± {error:.3f}: {verdict}")


def window() -> None:
    """The window of the explicit sum, for teachers as drawn and for teachers without overlaps."""
    alphas = np.geomspace(1e0, 1e14, 14 * PER_DECADE + 1)
    for beta in BETAS:
        spectrum, exponent = Spectrum.power_law(MODES, beta), scaling_exponent(beta)
        print(f"\nβ = {beta:g}, −β/(1+β) = {exponent:.3f}")
        starts = {f"seed {seed}": draw(beta, seed)[0] for seed in SEEDS}
        starts["T = 1"] = OrderParameters.infinite(UNITS, UNITS, spectrum, sigma=0.0)
        for name, one in starts.items():
            noise = 1e-8 * np.broadcast_to(np.eye(UNITS), one.T.shape)
            eps = np.asarray(
                asymptotic_curve(OrderParameters(one.T, one.T + noise, one.T), spectrum, RATE, alphas).value
            )
            kept = eps > 1e-250
            slopes = local_slopes(alphas[kept], eps[kept])
            low, high = appears(alphas[kept], slopes, exponent)
            later = np.interp(np.log([1e4, 1e5, 1e6, 1e7, 1e8]), np.log(alphas[kept]), slopes, right=np.nan)
            T1 = one.moment(1, spectrum).T
            lengths = np.diagonal(T1)
            m = 2 / np.pi / np.sqrt(np.outer(1 + lengths, 1 + lengths) - T1**2)
            mu = np.linalg.eigvalsh(m)
            print(
                f"  {name}: slope within 10% from α = {low:.3g} to {high:.3g}, slopes at 10⁴ to 10⁸ "
                f"{' '.join(f'{value:.2f}' for value in later)}; curvatures {mu[0]:.2g} to {mu[-1]:.2g}, "
                f"rates from {2 * RATE / UNITS * mu[0] * spectrum.eigenvalues[-1]:.2g} "
                f"to {2 * RATE / UNITS * mu[-1] * spectrum.eigenvalues[0]:.2g}"
            )


def modes() -> None:
    """The window for teachers without overlaps over the number of modes, by the two rates of each mode."""
    alphas = np.geomspace(1e0, 1e12, 12 * PER_DECADE + 1)
    for beta in BETAS:
        exponent = scaling_exponent(beta)
        for count in (512, 2**12, 2**15, 2**18):
            spectrum, eps = Spectrum.power_law(count, beta), np.zeros(alphas.size)
            for rates, units in zip(asymptotic_rates(UNITS, spectrum, RATE), (UNITS - 1, 1), strict=True):
                for part in np.array_split(rates, max(1, count // 4096)):  # ε ∝ Σ λμ e^(−rate α), λμ ∝ the rate
                    eps += units * np.exp(-np.outer(alphas, part)) @ part
            kept = eps > 1e-250
            low, high = appears(alphas[kept], local_slopes(alphas[kept], eps[kept]), exponent)
            print(f"β = {beta:g}, L = {count}: slope within 10% from α = {low:.3g} to {high:.3g}", flush=True)


def check() -> None:
    """The curves of the store beside the explicit solver with its own error control, as far as that is affordable."""
    alphas = grid()[grid() <= 1e4]
    for beta in BETAS:
        start, spectrum = draw(beta, SEEDS[0])
        flow = first_order_flow(start, spectrum, RATE)
        ours = [float(generalisation_error(*flow.moments(J))) for J in follow(flow.slope, flow.J, alphas)]
        ratio = np.array(ours) / solve(start, spectrum, RATE, alphas).eps
        print(f"β = {beta:g}, to α = {alphas[-1]:g}: ε over that of `solve` {ratio.min():.5f} to {ratio.max():.5f}")


def second_order() -> None:
    """ε of both orders for few units, at the same ηM/K⟨λ⟩."""
    for beta in BETAS:
        spectrum = Spectrum.power_law(FEW_MODES, beta)
        start = OrderParameters.draw(FEW, FEW, spectrum, inputs=FEW_MODES, sigma=SIGMA, seed=SEEDS[0])
        alphas = np.geomspace(FIRST, FEW_LAST, 40)
        one, two = (solve(start, spectrum, RATE, alphas, order=order).eps for order in (1, 2))
        ratio = two / one
        slopes = [local_slopes(alphas, eps) for eps in (one, two)]
        apart = np.nanmax(abs(slopes[1] - slopes[0]))
        print(
            f"β = {beta:g}: K = M = {FEW}, L = N = {FEW_MODES}, to α = {FEW_LAST:g}: second over first order "
            f"{ratio.min():.4f} to {ratio.max():.4f}, local slopes apart by at most {apart:.4f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=Path("phasecast-runs/riddles"), help="folder of the curves")
    parser.add_argument("--last", type=float, default=LAST, help="largest α; the criterion is about the default")
    for flag in ("judge", "window", "modes", "check", "second-order"):
        parser.add_argument(f"--{flag}", action="store_true")
    options = parser.parse_args()
    if options.window:
        return window()
    if options.modes:
        return modes()
    if options.check:
        return check()
    if options.second_order:
        return second_order()
    options.store.mkdir(parents=True, exist_ok=True)
    if not options.judge:
        for seed in SEEDS:
            for beta in BETAS:
                compute(options.store, beta, seed, options.last)
    return judge(options.store, options.last)


if __name__ == "__main__":
    main()
