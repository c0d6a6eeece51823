"""What the theorems behind λ say (Cullen et al.; the survey), and what ranks, volumes and exact posteriors say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from phasecast.coefficients.coefficient import Coefficient
from phasecast.coefficients.ladder import fit_ladder, temperature_ladder
from phasecast.coefficients.linear_networks import deep_linear
from phasecast.coefficients.network_claims import GROKKING, SURVEY
from phasecast.coefficients.rank import feature_span, float_rank, jacobian_rank, ntk_coefficient, rank_mod_prime
from phasecast.coefficients.volume import volume_scaling
from phasecast.core.claim import Claim, ClaimVerdict, Finding
from phasecast.core.problem import Problem
from phasecast.core.results import Comparison, Measurement, Prediction, Verdict
from phasecast.models.landscapes import LANDSCAPES
from phasecast.models.modular import modular_table, quadratic_network

CHUNK = 250_000  # draws that are held in memory at once
LADDER_REMAINDER = 5e-4  # a ladder's approach to λ is a pure power, or 1/(log n + c), only to leading order


def volume_slope(
    excess: Callable[[np.ndarray], np.ndarray],
    box: Sequence[tuple[float, float]],
    epsilons: tuple[float, float],
    draws: int,
    name: str,
) -> Measurement:
    """λ as the slope of log V(ε) between two ε, from uniform draws in a box; the error is the binomial one.

    .. math:: \\hat\\lambda = \\frac{\\log V(\\varepsilon_2) - \\log V(\\varepsilon_1)}
                                 {\\log\\varepsilon_2 - \\log\\varepsilon_1}

    ``excess`` maps parameters of shape (size, draws) to K. Valleys may run in any direction.
    """
    rng = np.random.default_rng(0)
    low, high = np.transpose(box)
    inner = outer = 0
    for _ in range(draws // CHUNK):
        found = excess(rng.uniform(low[:, None], high[:, None], (len(box), CHUNK)))
        inner, outer = inner + int(np.sum(found < epsilons[0])), outer + int(np.sum(found < epsilons[1]))
    span = math.log(epsilons[1] / epsilons[0])
    return Measurement(math.log(outer / inner) / span, math.sqrt(1 / inner - 1 / outer) / span, name=name)


class BayesErrors(NamedTuple):
    """What :func:`bayes_errors` finds for one sample."""

    generalisation: float
    training: float
    gibbs_training: float
    cross_validation: float
    variance: float


def bayes_errors(means: np.ndarray, prior: np.ndarray, sample: np.ndarray, beta: float = 1.0) -> BayesErrors:
    """Bg, Bt, Gt, Cv and V of the model N(m(w), 1) where N(0, 1) is true, for a prior on a grid of w.

    With r(x, w) = log p(x|w)/q(x) and E over the posterior at inverse temperature β,

    .. math:: B_g = -E_x \\log E\\,e^{r(x)}, \\quad B_t = -\\tfrac1n \\sum_i \\log E\\,e^{r(x_i)}, \\quad
              G_t = -\\tfrac1n \\sum_i E\\,r(x_i),

    .. math:: C_v = -\\tfrac1n \\sum_i \\log \\frac{E\\,e^{(1-\\beta) r(x_i)}}{E\\,e^{-\\beta r(x_i)}}, \\quad
              V = \\sum_i \\mathrm{Var}\\,r(x_i)

    All but V are errors: losses minus the entropy, or its empirical value on the sample.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    at_sample = np.outer(sample, means) - means**2 / 2
    at_nodes = np.outer(nodes, means) - means**2 / 2
    tempered = beta * at_sample.sum(axis=0)
    posterior = prior * np.exp(tempered - tempered.max())
    posterior = posterior / posterior.sum()
    generalisation = -(weights @ np.log(np.exp(at_nodes) @ posterior)) / weights.sum()
    training = -np.mean(np.log(np.exp(at_sample) @ posterior))
    left_out = np.log(np.exp((1 - beta) * at_sample) @ posterior) - np.log(np.exp(-beta * at_sample) @ posterior)
    variance = np.sum(at_sample**2 @ posterior - (at_sample @ posterior) ** 2)
    gibbs = -np.mean(at_sample @ posterior)
    return BayesErrors(*map(float, (generalisation, training, gibbs, -np.mean(left_out), variance)))


def hinge_evidence(units: int, n: np.ndarray, panels: int = 24) -> np.ndarray:
    """log Z(n) of f(x) = Σ c_j max(x − t_j, 0) on [−1, 1] where f = 0 is true and all t_j are near 0.

    With c ~ N(0, 1) and K = ∫ f² dx = cᵀG(t)c the integral over c is Gaussian,

    .. math:: Z(n) = \\int \\det(1 + 2nG(t))^{-1/2}\\,dt, \\qquad
              G_{ij} = \\tfrac13 m^3 + \\tfrac12 |t_i - t_j|\\,m^2, \\quad m = 1 - \\max(t_i, t_j)

    and the one over t is done in the logarithm of the gaps between neighbours, from t_1 = 0 on; G is smooth in t_1.
    """
    nodes, weights = _log_panels(panels)
    gaps = np.array(list(itertools.product(nodes / 3, repeat=units - 1)))
    area = np.prod(list(itertools.product(weights, repeat=units - 1)), axis=1)
    hinges = np.concatenate([np.zeros((len(gaps), 1)), np.cumsum(gaps, axis=1)], axis=1)
    left, right = hinges[:, :, None], hinges[:, None, :]
    m = 1 - np.maximum(left, right)
    gram = m**3 / 3 + abs(left - right) * m**2 / 2
    return np.array([np.log(np.sum(area / np.sqrt(np.linalg.det(np.eye(units) + 2 * k * gram)))) for k in n])


def _log_panels(panels: int, reach: float = 46.0) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for ∫₀¹ f(u) du, by Gauss-Legendre panels in log u down to e^(−reach)."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = reach / panels / 2
    s = (2 * half * np.arange(panels)[:, None] + half + half * nodes).ravel()
    return np.exp(-s), np.tile(half * weights, panels) * np.exp(-s)


def _integers(seed: int, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(1, 12, shape) * rng.choice([-1, 1], shape)


def _verdict(printed: bool, corrected: bool = False) -> ClaimVerdict:
    if printed:
        return ClaimVerdict.HOLDS
    return ClaimVerdict.HOLDS_CORRECTED if corrected else ClaimVerdict.DOES_NOT_HOLD


def _value(coefficient: Coefficient) -> Fraction:
    return Fraction(coefficient.value)  # pyright: ignore[reportArgumentType, reportCallIssue]


def _all_agree(comparisons: Sequence[Comparison]) -> bool:
    return all(comparison.verdict is Verdict.AGREES for comparison in comparisons)


def _shown(comparisons: Sequence[Comparison]) -> str:
    return "; ".join(
        f"{c.name}: {float(np.asarray(c.measurement.estimate)):.4g} ± {float(np.max(c.measurement.error)):.1g}, "
        f"predicted {c.prediction.value}"
        for c in comparisons
    )


def _check_5_1() -> Finding:
    """A network of two sines under logistic loss, linearised where its gradient has rank 1, 2 and 3 of 4.

    λ is measured in coordinates turned so that the valley of K runs along them.
    """
    import jax.numpy as jnp

    inputs = np.linspace(-math.pi, math.pi, 13)[:, None]

    def network(w, x):
        return jnp.sin(x * w["b"]) @ w["a"][:, None]

    def logistic(output, target):
        return jnp.logaddexp(0.0, output[0]) - target * output[0]

    comparisons = []
    for start in ((0.0, 1.0, 0.0, 1.0), (1.0, 1.0, 0.5, 1.0), (1.0, 1.0, 0.0, 2.0)):
        weights = {"a": np.array(start[::2]), "b": np.array(start[1::2])}
        predicted = ntk_coefficient(network, weights, inputs, logistic, np.zeros(len(inputs)))
        sines, slopes = np.sin(inputs * weights["b"]), inputs * weights["a"] * np.cos(inputs * weights["b"])
        gradient = np.concatenate([sines, slopes], axis=1)
        truth = sines @ weights["a"] + gradient @ np.array([0.3, -0.2, 0.1, 0.4])
        turned = gradient @ np.linalg.svd(gradient)[2].T
        problem = Problem(_logistic_divergence(turned, 1 / (1 + np.exp(-truth))), np.zeros(4))
        measured = volume_scaling(problem, samples=30_000, multiplicity=1)
        comparisons.append(Comparison(predicted, measured, name=f"gradient of rank {2 * _value(predicted)}"))
    return Finding(_verdict(_all_agree(comparisons)), _shown(comparisons), tuple(comparisons))


def _logistic_divergence(features: np.ndarray, chance: np.ndarray) -> Callable[[Any], Any]:
    """The mean divergence of labels of probability ``chance`` from the model whose logits are moved by features · w.

    log(1 + s(eᵗ − 1)) − st, and for small t the first terms of its series, which do not cancel.
    """
    import jax.numpy as jnp

    curvature = chance * (1 - chance)

    def excess(offset):
        change = features @ offset
        series = curvature * change**2 / 2 * (1 + (1 - 2 * chance) * change / 3)
        return jnp.mean(jnp.where(abs(change) < 1e-3, series, jnp.log1p(chance * jnp.expm1(change)) - chance * change))

    return excess


def _check_5_2() -> Finding:
    """Exact ranks of the features of modular addition, as they are and centred; l by floats from other draws."""
    rows = []
    for p, width in ((3, 4), (3, 8), (3, 12), (5, 20), (5, 40)):
        inputs = modular_table(p)[0].astype(np.int64)
        features = (inputs @ _integers(p + width, 2 * p, width)) ** 2
        centred = len(features) * features - features.sum(axis=0)
        span = feature_span(inputs, np.square)
        exact = p * rank_mod_prime(features), p * rank_mod_prime(centred)
        rows.append((p, width, p * min(span, width), p * min(span - 1, width), *exact))
    uncentred = all(printed == plain for _, _, printed, _, plain, _ in rows)
    as_printed = all(printed == centred for _, _, printed, _, _, centred in rows)
    ours = all(mended == centred for _, _, _, mended, _, centred in rows)
    words = "; ".join(f"p, K = {p}, {k}: printed {a}, exact {c} (not centred {b})" for p, k, a, _, b, c in rows)
    return Finding(_verdict(uncentred and as_printed, uncentred and ours), f"twice λ, {words}")


def _kinked(t: np.ndarray) -> np.ndarray:
    """t below 1 and t + (t−1)² above: increasing, once differentiable, with a derivative of at least 1."""
    return t + np.maximum(t - 1, 0) ** 2


def _check_e_1() -> Finding:
    rng = np.random.default_rng(0)
    cases = [(rng.normal(size=(n, d)), k) for n, d, k in ((4, 1, 3), (6, 2, 4), (6, 2, 9), (5, 3, 5))]
    analytic = all(
        float_rank(activation(inputs @ rng.normal(size=(inputs.shape[1], k)))).rank
        == min(feature_span(inputs, activation), k)
        for inputs, k in cases
        for activation in (np.square, np.exp, lambda t: t**3 - t)
    )
    inputs, draws = np.array([[1.0], [2.0]]), 4000
    span = feature_span(inputs, _kinked)
    ranks = np.linalg.matrix_rank(_kinked(inputs @ rng.normal(size=(draws, 1, 2))))
    share = float(np.mean(ranks < min(span, 2)))
    both_below = (0.5 * (1 + math.erf(0.5 / math.sqrt(2)))) ** 2  # both weights below 1/2, where nothing bends
    comparison = Comparison(
        Prediction(both_below, source="P(w < 1/2)² for standard normal w"),
        Measurement(share, math.sqrt(both_below * (1 - both_below) / draws)),
        name="draws whose rank is below min(l, K)",
    )
    corrected = analytic and comparison.verdict is Verdict.AGREES
    words = f"a smooth increasing σ gives rank below min(l, K) = {min(span, 2)} in {share:.0%} of draws; "
    return Finding(
        _verdict(analytic and share == 0, corrected),
        words + f"analytic σ give min(l, K) in {'all' if analytic else 'not all'} cases",
        (comparison,),
    )


def _check_e_7() -> Finding:
    """Exact ranks of (XW)^s at integers, W wider than either bound."""
    rows = []
    for n, d, r, s in ((3, 3, 3, 2), (4, 5, 2, 3), (9, 3, 2, 2), (12, 3, 3, 2), (14, 3, 3, 3), (9, 2, 2, 5)):
        inputs = _integers(n, n, r) @ (np.eye(r, d, dtype=int) + np.eye(r, d, 1, dtype=int))
        span = rank_mod_prime((inputs @ _integers(s, d, n + 6)) ** s)
        most = min(n, math.comb(r + s - 1, s))
        rows.append((rank_mod_prime(inputs), span, most, f"r, s, n = {r}, {s}, {n}"))
    for p in (3, 5):
        inputs = modular_table(p)[0].astype(np.int64)
        span = rank_mod_prime((inputs @ _integers(p, 2 * p, p * p + 6)) ** 2)
        rows.append((rank_mod_prime(inputs), span, min(p * p, p * (2 * p - 1)), f"modular addition, p = {p}"))
    words = "; ".join(f"{case}: {least} ≤ {span} ≤ {most}" for least, span, most, case in rows)
    return Finding(_verdict(all(least <= span <= most for least, span, most, _ in rows)), words)


def _check_f_1() -> Finding:
    """A curved map from three parameters to two that is a submersion at 0, and one map that is not."""

    def submersion(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return w[0] + w[2] ** 2 / 2 + w[0] * w[2] / 2, w[1] + np.sin(w[2])

    box, epsilons, draws = (-0.5, 0.5), (1e-5, 1e-3), 4_000_000
    comparisons = []
    for power, value in ((4, Fraction(3, 4)), (2, Fraction(1))):
        name = f"v₁^{power} + v₂²"

        def below(v, power=power):
            return v[0] ** power + v[1] ** 2

        after = volume_slope(below, [box] * 2, epsilons, draws, "λ after")
        before = volume_slope(lambda w: below(submersion(w)), [box] * 3, epsilons, draws, "λ before")
        comparisons += [
            Comparison(Coefficient(value), after, name=f"{name} in V"),
            Comparison(Coefficient(value), before, name=f"{name} in W"),
        ]
    folded = volume_slope(lambda w: w[0] ** 4, [box], (1e-6, 1e-3), 1_000_000, "λ of v² at v = w²")
    control = Comparison(Coefficient(Fraction(1, 2)), folded, name="v² after v = w², no submersion")
    holds = _all_agree(comparisons) and control.verdict is Verdict.DIFFERS
    return Finding(_verdict(holds), _shown([*comparisons, control]), (*comparisons, control))


def _tangents_that_cancel(d: int, p: int, k: int) -> int:
    """The dimension of {u : u_j ⊥ w_j, Σ_j v_ij (u_j w_jᵀ + w_j u_jᵀ) = 0 for all i} at random integer weights."""
    inner, outer = _integers(1, k, d), _integers(2, p, k)
    rows = [[outer[i, j] * _symmetric(inner[j], a, b, d) for j in range(k)] for i in range(p) for a, b in _pairs(d)]
    turning = [[inner[j] * (j == i) for j in range(k)] for i in range(k)]
    return k * d - rank_mod_prime(np.array([np.concatenate(row) for row in (*rows, *turning)]))


def _symmetric(w: np.ndarray, a: int, b: int, d: int) -> np.ndarray:
    """The entry (a, b) of u wᵀ + w uᵀ as a linear form in u."""
    unit = np.eye(d, dtype=np.int64)
    return w[b] * unit[a] + w[a] * unit[b]


def _pairs(d: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(d) for b in range(a, d)]


def _check_remark_4_3() -> Finding:
    shapes = ((1, 1), (2, 3), (3, 6), (4, 12))
    squares = [np.array([np.outer(w, w)[np.triu_indices(d)] for w in _integers(d, k, d)]) for d, k in shapes]
    spanning = all(rank_mod_prime(s) == d * (d + 1) // 2 for s, (d, _) in zip(squares, shapes, strict=True))

    units, generic = 3, Fraction(1, 2)
    measured = volume_slope(
        lambda w: np.sum(w[units:] * w[:units] ** 2, axis=0) ** 2,
        [(-0.5, 0.5)] * units + [(0.5, 1.5)] * units,
        (1e-6, 1e-3),
        3_000_000,
        "λ at w = 0, v = 1",
    )
    at_most = Comparison(
        Coefficient(generic, kind="upper-bound"), measured, name="d, p, K = 1, 1, 3 at w = 0, λ against the generic one"
    )
    exact = Comparison(Coefficient(Fraction(units, 4)), measured, name="the same against K/4")

    weights = {"W": _integers(1, 4, 3), "V": _integers(2, 2, 3)}
    weights["V"][:, 2] = 0
    with_dead = jacobian_rank(quadratic_network, weights, _integers(3, 16, 4), exact=True).rank
    kernels = {case: _tangents_that_cancel(*case) for case in ((4, 2, 5), (4, 1, 4), (6, 1, 6))}
    injective = all(kernel == 0 for kernel in kernels.values())
    bound = all((kernel > 0) == (k * (d - 1) > p * (d * (d + 1) // 2 - 1)) for (d, p, k), kernel in kernels.items())
    ours = spanning and bound and exact.verdict is Verdict.AGREES and with_dead == 2 * (4 + 2 - 1) + 2
    printed = spanning and injective and at_most.verdict is Verdict.BOUND_RESPECTED and with_dead == 2 * (4 + 2 - 1)
    words = (
        f"spanning {'is' if spanning else 'is not'} generic; λ at w = 0 is {float(np.asarray(measured.estimate)):.3f}, "
        f"the generic one {generic}; a unit with v = 0 raises the rank from 10 to {with_dead}; "
        f"dimension of the tangents that cancel at random weights, by (d, p, K): {kernels}"
    )
    if not (printed or ours):
        return Finding(ClaimVerdict.NOT_REPRODUCED, words, (at_most, exact))
    return Finding(_verdict(printed), words, (at_most, exact))


def _gram_of_monomials(nodes: np.ndarray, weights: np.ndarray, degree: int) -> np.ndarray:
    """∫ C(x) q(x) dx for the monomials up to ``degree`` in two variables, on a product grid with q in the weights."""
    x, y = (axis.ravel() for axis in np.meshgrid(nodes, nodes, indexing="ij"))
    monomials = np.stack([x**a * y**b for a in range(degree + 1) for b in range(degree + 1 - a)])
    return (monomials * np.outer(weights, weights).ravel()) @ monomials.T


def _check_theorem_3() -> Finding:
    """On a square the constants are the extreme eigenvalues of the moments; for Cauchy inputs there is no upper one."""
    rng = np.random.default_rng(0)
    nodes, weights = np.polynomial.legendre.leggauss(24)
    bounded = True
    for degree in (1, 2, 3):
        alphas = np.linalg.eigvalsh(_gram_of_monomials(nodes, weights * (1 + nodes / 2), degree))
        inputs = rng.uniform(-1, 1, (2, 20_000))
        density = np.prod(1 + inputs / 2, axis=0) * 4
        powers = np.stack(
            [inputs[0] ** a * inputs[1] ** b for a in range(degree + 1) for b in range(degree + 1 - a)], axis=1
        )
        coefficients = rng.normal(size=(powers.shape[1], 50))
        values = (powers @ coefficients) ** 2 * density[:, None] / np.sum(coefficients**2, axis=0)
        error = values.std(axis=0) / math.sqrt(len(values))
        bounded = bounded and alphas[0] > 0
        bounded = bounded and bool(np.all(values.mean(axis=0) > alphas[0] - 4 * error))
        bounded = bounded and bool(np.all(values.mean(axis=0) < alphas[-1] + 4 * error))
    reaches = 10.0 ** np.arange(2, 7)
    moments = [_cauchy_second_moment(reach) for reach in reaches]
    growth = float(np.polyfit(np.log(reaches), np.log(moments), 1)[0])
    words = f"between two constants on a square: {bounded}; for Cauchy q ∫ x² q over |x| < R grows like R^{growth:.2f}"
    return Finding(_verdict(bounded and growth < 0.5, bounded and abs(growth - 1) < 0.05), words)


def _cauchy_second_moment(reach: float) -> float:
    """∫ x² q(x) dx over |x| < reach for q(x) = 1/(π(1 + x²)), in panels of log x."""
    nodes, weights = _log_panels(24)
    return 2 * float(np.sum(weights * reach * (reach * nodes) ** 2 / (math.pi * (1 + (reach * nodes) ** 2))))


def _biased_network(w, x):
    """The composition of A x + B over the layers, input first."""
    for weight, bias in zip(w["A"], w["B"], strict=True):
        x = x @ weight.T + bias
    return x


def _check_theorem_4() -> Finding:
    """Exact ranks where the fibre is smooth, and the evidence of h = a₁(a₂x + b₂) + b₁ at zero, where it is not."""
    rows = []
    for widths in ((3, 2, 4), (2, 5, 3), (3, 2, 2, 3)):
        shapes = list(zip(widths[1:], widths[:-1], strict=True))
        weights = {
            "A": [_integers(i, *shape) for i, shape in enumerate(shapes)],
            "B": [_integers(9 + i, shape[0]) for i, shape in enumerate(shapes)],
        }
        rank = jacobian_rank(_biased_network, weights, _integers(3, widths[0] + 3, widths[0]), exact=True).rank
        rows.append(2 * _value(deep_linear(widths, min(widths), bias=True)) == rank)

    # integrating b₁ out of exp(−nK), x ~ N(1/2, 1), leaves (2π/n)^½ ∫ exp(−n(a₁a₂)²/2): λ of the product plus 1/2
    nodes, area = _log_panels(16)
    product, n, rng = 0.25 * np.outer(nodes, nodes), 1000.0, np.random.default_rng(0)
    reduced = math.sqrt(2 * math.pi / n) * float(area @ np.exp(-n * product**2 / 2) @ area)
    a1, a2, b2, b1 = rng.uniform(-0.5, 0.5, (4, 1_000_000))
    slope, offset = a1 * a2, a1 * b2 + b1
    draws = np.exp(-n * (slope**2 + (slope / 2 + offset) ** 2) / 2)
    comparison = Comparison(
        Prediction(reduced, source="the bias integrated out", systematic=1e-4 * reduced),
        Measurement(float(draws.mean()), float(draws.std() / math.sqrt(draws.size))),
        name="evidence of 1-1-1 with biases at n = 1000",
    )
    rest = temperature_ladder(LANDSCAPES["x²y²"].problem())
    predicted = replace(deep_linear((1, 1, 1), 0, bias=True), systematic=LADDER_REMAINDER)
    whole = Comparison(
        predicted,
        Measurement(float(np.asarray(rest.value)) + 0.5, rest.error, error_kind="quadrature"),
        name="λ of 1-1-1 with biases",
    )
    same_order = predicted.multiplicity == rest.diagnostics["multiplicity"]
    holds = all(rows) and _all_agree([comparison, whole]) and same_order
    words = f"{sum(rows)} of {len(rows)} exact ranks are twice λ; {_shown([comparison, whole])}"
    return Finding(_verdict(holds), f"{words}; θ = {rest.diagnostics['multiplicity']}", (comparison, whole))


def _check_theorem_6() -> Finding:
    """One, two and three units on a hinge inside the support, against the sum rule with its linear sub-model."""
    n = np.logspace(3, 13, 11)
    comparisons = []
    for units in (1, 2, 3):
        fine, coarse = (-np.diff(hinge_evidence(units, n, panels)) / np.diff(np.log(n)) for panels in (24, 12))
        measured = fit_ladder(fine, abs(fine - coarse), n[1:])
        printed = replace(deep_linear((2, units, 1), 0), systematic=LADDER_REMAINDER)
        comparisons.append(Comparison(printed, measured, name=f"units on a hinge: {units}"))
    kinked = Comparison(
        Coefficient(Fraction(4, 3), systematic=LADDER_REMAINDER),
        comparisons[-1].measurement,
        name="3 units, with the kink",
    )
    few = _all_agree(comparisons[:2])
    corrected = few and comparisons[-1].verdict is Verdict.DIFFERS and kinked.verdict is Verdict.AGREES
    return Finding(_verdict(_all_agree(comparisons), corrected), _shown(comparisons), (*comparisons, kinked))


def _posteriors(power: int, n: int, datasets: int, beta: float) -> np.ndarray:
    """Bg, Bt, Gt, Cv, V and the empirical entropy of N(w^power, 1), a column for each dataset."""
    grid = np.linspace(-1, 1, 161)
    means = (9 / math.sqrt(n)) * grid**power  # wide enough that nothing is cut off
    rng = np.random.default_rng([power, n])
    rows = []
    for _ in range(datasets):
        sample = rng.normal(size=n)
        entropy = np.mean(sample**2) / 2 + math.log(2 * math.pi) / 2
        rows.append((*bayes_errors(means, np.full(161, 1 / 161), sample, beta), entropy))
    return np.array(rows).T


LAMBDAS = {1: Fraction(1, 2), 2: Fraction(1, 4)}
"""λ of N(w, 1), which is regular, and of N(w², 1), which is not, by the power of w."""


def _check_eq_1() -> Finding:
    sizes = np.array([50, 200, 800])
    falls: dict[tuple[str, int, float], float] = {}
    for power in LAMBDAS:
        for beta in (1.0, 2.0):
            means: dict[str, list[float]] = {"printed": [], "ours": []}
            for n in sizes:
                _, bt, gibbs, cv, v, _ = _posteriors(power, int(n), 60, beta)
                means["printed"].append(float(np.mean(abs(cv - (gibbs - beta * v / n)))))
                means["ours"].append(float(np.mean(abs(cv - (bt + beta * v / n)))))
            for name, values in means.items():
                falls[name, power, beta] = -float(np.polyfit(np.log(sizes), np.log(values), 1)[0])

    def fast(name: str) -> bool:
        return all(fall > (1.9 if beta == 1 else 1.4) for (which, _, beta), fall in falls.items() if which == name)

    words = "; ".join(
        f"β = {beta:g}, N(w^{power}, 1): |CV − WAIC| falls like n^−{falls['printed', power, beta]:.2f} as printed, "
        f"n^−{falls['ours', power, beta]:.2f} corrected"
        for power in LAMBDAS
        for beta in (1.0, 2.0)
    )
    return Finding(_verdict(fast("printed"), fast("ours")), words)


def _check_eq_3() -> Finding:
    n, datasets = 800, 150
    ours, printed, spreads = [], [], []
    for power, value in LAMBDAS.items():
        for beta in (1.0, 2.0):
            bg, _, _, cv, v, entropy = _posteriors(power, n, datasets, beta)
            limit = Prediction(2 * float(value) / beta, source=f"{SURVEY}, eq. (3)", systematic=2 / n)
            error, loss = n * (bg + cv) - (beta - 1) * v, n * (bg + cv + entropy) - (beta - 1) * v
            for found, rows, name in ((error, ours, "Cv"), (loss, printed, "CvL")):
                measured = Measurement(float(found.mean()), float(found.std() / math.sqrt(datasets)))
                name = f"n(Bg + {name}) − (β−1)V of N(w^{power}, 1) at β = {beta:g}"
                rows.append(Comparison(limit, measured, name=name))
        few, many = (_posteriors(power, size, 60, 1.0) for size in (50, n))
        spreads.append(float(np.std(n * (many[0] + many[3])) / np.std(50 * (few[0] + few[3]))))
    narrows = max(spreads) < 0.5
    words = f"{_shown(ours)}; {_shown(printed[:1])}; the spread between datasets shrinks by {max(spreads):.2f}"
    return Finding(_verdict(_all_agree(printed) and narrows, _all_agree(ours) and narrows), words, (*ours, printed[0]))


LAZY = """
import numpy as np
from phasecast.coefficients import feature_span
from phasecast.models import modular_table
p, K = 3, 12
X = modular_table(p)[0]
l, F = feature_span(X, np.square), (X @ np.random.default_rng(0).normal(size=(2 * p, K))) ** 2
rank = np.linalg.matrix_rank(F - F.mean(axis=0))
print(f"printed λ = {p * min(l, K) / 2}; of the centred loss, which is quadratic in V, {p * rank / 2}")
assert rank == min(l, K) - 1
""".strip()

ACTIVATION = """
import numpy as np
rng = np.random.default_rng(0)
X = np.array([[1.0], [2.0]])
sigma = lambda t: t + np.maximum(t - 1, 0) ** 2  # C¹ bijection of the line, derivative ≥ 1
ranks = np.linalg.matrix_rank(sigma(X @ rng.normal(size=(1000, 1, 2))))
print(f"l = {np.linalg.matrix_rank(sigma(X @ rng.normal(size=(1, 99))))}, K = 2, rank 1 in {np.mean(ranks == 1):.0%}")
assert 0.4 < np.mean(ranks == 1) < 0.6 and ranks.max() == 2
""".strip()

DEAD_UNITS = """
import numpy as np
rng = np.random.default_rng(0)  # one input, one output, three units at w = 0 and v = 1; the true function is 0
w, v = rng.uniform(-0.5, 0.5, (3, 10**6)), rng.uniform(0.5, 1.5, (3, 10**6))
loss = np.sum(v * w**2, axis=0) ** 2
low, high = (np.mean(loss < eps) for eps in (1e-5, 1e-3))
slope = np.log(high / low) / np.log(100)
print(f"the squares w² do not span, and λ = {slope:.2f} is above the generic 1/2")
assert slope > 0.65
""".strip()

HEAVY_TAILS = """
import numpy as np
moments = []
for n in (10**3, 10**5):  # quantiles of the Cauchy density 1/(π(1 + x²)), which is positive and continuous
    x = np.tan(np.pi * ((np.arange(n) + 0.5) / n - 0.5))
    moments.append(np.mean(x**2))
print(f"h = wx: ∫ h² q = w² ∫ x² q, which is {moments[0]:.0f}, {moments[1]:.0f}, … w² on finer and finer grids")
assert moments[1] > 50 * moments[0]
""".strip()

HINGE = """
import numpy as np
from phasecast.coefficients import deep_linear
from phasecast.coefficients.theorem_claims import hinge_evidence
n = np.array([1e11, 1e12])
slope = -np.diff(hinge_evidence(3, n))[0] / np.log(10)
printed = deep_linear((2, 3, 1), rank=0).value
print(f"three units on one hinge: log Z falls with {slope:.3f} log n, the sum rule says {printed}")
assert slope > printed + 0.3
""".strip()

WAIC = """
import numpy as np
x, w = np.random.default_rng(0).normal(size=100), np.linspace(-1, 1, 401)
r = np.outer(x, w) - w**2 / 2  # log p(x|w)/q(x) of N(w, 1) against N(0, 1)
posterior = np.exp(r.sum(axis=0)) / np.sum(np.exp(r.sum(axis=0)))
gibbs, bayes = -np.mean(r @ posterior), -np.mean(np.log(np.exp(r) @ posterior))
v = np.sum(r**2 @ posterior - (r @ posterior) ** 2)
cv = np.mean(np.log(np.exp(-r) @ posterior))
print(f"n(CV − WAIC) is {100 * cv - 100 * gibbs + v:.2f} as printed, {100 * cv - 100 * bayes - v:.4f} with Bayes and +")
assert abs(100 * cv - 100 * gibbs + v) > 1 and abs(100 * cv - 100 * bayes - v) < 0.01
""".strip()

ENTROPY = """
import numpy as np
from phasecast.coefficients.theorem_claims import bayes_errors
x, w = np.random.default_rng(0).normal(size=400), np.linspace(-0.5, 0.5, 201)
bg, _, _, cv, _ = bayes_errors(w, np.full(201, 1 / 201), x)
entropy = np.mean(x**2) / 2 + np.log(2 * np.pi) / 2  # −Σ log q(x_i)/n, the loss CvL is the error Cv plus this
print(f"2λ = 1; n(Bg + CvL) = {400 * (bg + cv + entropy):.0f}, n(Bg + Cv) = {400 * (bg + cv):.2f}")
assert abs(400 * (bg + cv) - 1) < 0.2 and 400 * (bg + cv + entropy) > 500
""".strip()

THEOREM_CLAIMS = (
    Claim(
        id="grokking/theorem-5.1",
        source=f"{GROKKING}, Theorem 5.1 and appendix D",
        statement=(
            "A model linearised at its start, whose loss has curvature w(x) between two positive constants, has "
            "λ = r/2 with r the rank of E[w φφᵀ]."
        ),
        verdict=ClaimVerdict.HOLDS,
        why=(
            "Where w > 0 the null space of E[wφφᵀ] is what φ never sees, so K is constant along it and not only to "
            "second order, as the proof has it. K must be twice differentiable under the expectation: the bound on w "
            "alone does not ensure it (Poisson loss and inputs without exponential moments), the standing "
            "assumptions do."
        ),
        check=_check_5_1,
    ),
    Claim(
        id="grokking/theorem-5.2",
        source=f"{GROKKING}, Theorem 5.2 and appendix E",
        statement="With the first layer frozen at random and the last one interpolating, λ = ½ p min{l, K}.",
        verdict=ClaimVerdict.HOLDS_CORRECTED,
        why=(
            "The loss of that section is centred, the proof counts the rank of features that are not: the constant is "
            "lost where they span it. A ridge solution with η > 0 never interpolates; the limit η → 0 is meant."
        ),
        ours=(
            "λ = ½ p min{l − c, K}, with c = 1 if the loss is centred and constants lie in the span of the features, "
            "as for modular addition, else 0; at the interpolating solution without ridge."
        ),
        counterexample=LAZY,
        check=_check_5_2,
    ),
    Claim(
        id="grokking/theorem-E.1",
        source=f"{GROKKING}, Theorem E.1",
        statement=(
            "For a piecewise injective, differentiable σ and independent columns of W with densities, σ(XW) almost "
            "surely has rank min(l, K)."
        ),
        verdict=ClaimVerdict.HOLDS_CORRECTED,
        why=(
            "The proof gives the columns σ(Xw) a density in n dimensions, but they lie on a surface of dimension "
            "rank X. Where σ is linear around 0, part of that surface is flat and is hit with positive probability."
        ),
        ours=(
            "True for real analytic σ, injective or not: a proper subspace of the span is then hit with probability "
            "zero. For other σ that must be assumed."
        ),
        counterexample=ACTIVATION,
        check=_check_e_1,
    ),
    Claim(
        id="grokking/proposition-E.7",
        source=f"{GROKKING}, Proposition E.7",
        statement="For σ(t) = a tˢ and inputs of rank r, r ≤ l ≤ min{n, C(r+s−1, s)}.",
        verdict=ClaimVerdict.HOLDS,
        why=(
            "For s ≥ 1. Only the upper bound is proved there; for the lower one take r independent inputs as "
            "coordinates: their s-th powers are independent. Exact ranks reach both ends."
        ),
        check=_check_e_7,
    ),
    Claim(
        id="grokking/theorem-F.1",
        source=f"{GROKKING}, Theorem F.1 and Corollary F.2",
        statement=(
            "If K = K̃∘φ and the Jacobian of φ has full rank at w₀, λ is the same at w₀ and φ(w₀); it is dim V/2 if the "
            "model on V is regular."
        ),
        verdict=ClaimVerdict.HOLDS,
        why=(
            "With full rank read as onto, as the proof does, and w₀ inside W: locally φ is a projection and only a "
            "positive weight is added. An embedding also has full rank, and there it fails: w ↦ (w, 0) takes 1/2 to 1."
        ),
        check=_check_f_1,
    ),
    Claim(
        id="grokking/remark-4.3",
        source=f"{GROKKING}, Remark 4.3",
        statement=(
            "The conditions of Theorems 4.1 and 4.2 are generic, where they fail λ can only be smaller, and units that "
            "are inactive can be left out of K."
        ),
        verdict=ClaimVerdict.DOES_NOT_HOLD,
        why=(
            "Only the spanning condition is generic. Where it fails the rank falls, but λ can rise: with all w = 0 and "
            "v = 1 it is dK/4 for one output. Condition 3 can never hold for K(d−1) > p(D−1), because every term has "
            "trace zero. A unit with v = 0 and w ≠ 0 adds p/2. The names under- and over-parametrised are exchanged."
        ),
        ours=(
            "Spanning is generic for K ≥ D = d(d+1)/2. Where a condition fails half the Jacobian rank is a lower bound "
            "on λ, which may be above or below the generic value; condition 3 needs K(d−1) ≤ p(D−1)."
        ),
        counterexample=DEAD_UNITS,
        check=_check_remark_4_3,
    ),
    Claim(
        id="survey/eq-1",
        source=f"{SURVEY}, definition of WAIC and eq. (1), Theorem 1",
        statement=(
            "With WAIC = BtL − (β/n)V and BtL the posterior mean of the loss, WAIC and leave-one-out cross-validation "
            "differ by O(n^−3/2), and by O(n^−2) at β = 1."
        ),
        verdict=ClaimVerdict.HOLDS_CORRECTED,
        why=(
            "With the printed sign, or with the Gibbs loss that is printed as BtL, the difference is of order 1/n. The "
            "expansion is right for cumulants of log p, so Y₁ and Y₃ change sign for f = −log p; Y_k is O(n^(−k/2))."
        ),
        ours="WAIC = −(1/n) Σ log E[p(X_i|w)] + (β/n)V, the Bayes training loss plus the variance.",
        counterexample=WAIC,
        check=_check_eq_1,
    ),
    Claim(
        id="survey/eq-3",
        source=f"{SURVEY}, eq. (3): Theorem 2, or Theorem 3 in the heading of its proof",
        statement="Bg + CvL = (β−1)V/n + 2λ/(βn) + o(1/n), for every dataset in probability.",
        verdict=ClaimVerdict.HOLDS_CORRECTED,
        why=(
            "CvL is a loss and contains the entropy of the sample; the law is one of errors. With exact posteriors of "
            "a regular model and of one with λ = 1/4 it holds at β = 1 and 2, and the spread between datasets "
            "vanishes. In the proof E[nBtL] is +∂F/∂β, the Gibbs loss, and the free energy begins with nβ."
        ),
        ours="n(Bg + Cv) → 2λ/β + (β−1)V with the errors Bg = BgL − S and Cv = CvL − S_n, S_n = −(1/n) Σ log q(X_i).",
        counterexample=ENTROPY,
        check=_check_eq_3,
    ),
    Claim(
        id="survey/theorem-3",
        source=f"{SURVEY}, Theorem 3 of Aoyagi",
        statement=(
            "For a polynomial h in x and a positive continuous q on its support, ∫ h² q is between two positive "
            "multiples of the squared norm of the coefficients."
        ),
        verdict=ClaimVerdict.HOLDS_CORRECTED,
        why=(
            "The multiples are the extreme eigenvalues of the matrix of moments. The smallest is positive because no "
            "polynomial vanishes on a set of positive volume; the largest need not be finite on an unbounded support."
        ),
        ours="True if q has finite moments up to twice the degree of h in x, for instance on a compact support.",
        counterexample=HEAVY_TAILS,
        check=_check_theorem_3,
    ),
    Claim(
        id="survey/theorem-4",
        source=f"{SURVEY}, Theorem 4 of Aoyagi",
        statement=(
            "Biases in every layer of a linear network add H⁽¹⁾/2, half the number of outputs, to λ of the product of "
            "its matrices, and leave θ."
        ),
        verdict=ClaimVerdict.HOLDS,
        why=(
            "The last bias shifts all others away, so it integrates out and leaves the product. This is about what the "
            "bias adds; λ of the product is Definition 4 with 4 for 4ℓ, at the most degenerate true parameter, not at "
            "every w*. The covariance of the inputs must have full rank."
        ),
        check=_check_theorem_4,
    ),
    Claim(
        id="survey/theorem-6",
        source=f"{SURVEY}, Theorem 6 of Aoyagi",
        statement="λ of a ReLU network sums λ of the linear sub-models of its groups of units, and so is θ − 1.",
        verdict=ClaimVerdict.HOLDS_CORRECTED,
        why=(
            "Units on one hinge can cancel as linear maps and still differ between their kinks, where the loss sees "
            "the cube of the distance. With one or two units that is a higher order, with three it is not: λ = 4/3."
        ),
        ours=(
            "The sum is a lower bound; it is exact for units that are active on the whole support, and for one unit, "
            "or two of rank 0, on a hinge inside it."
        ),
        counterexample=HINGE,
        check=_check_theorem_6,
    ),
)
