"""λ of small landscapes against volumes and integrals known in closed form."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import curve_fit  # pyright: ignore[reportAttributeAccessIssue]
from scipy.special import erf, gamma, gammainc

from phasecast.coefficients import (
    Coefficient,
    monomial,
    of_landscape,
    sum_of_powers,
    temperature_quadrature,
    volume_scaling,
)
from phasecast.coefficients.small_problems.temperature_quadrature import (
    NBETAS,
    TemperaturePolicy,
    extrapolate,
    scaled_losses,
)
from phasecast.coefficients.small_problems.volume_scaling import EPSILONS, fit_volume, volume_sampler
from phasecast.core import Comparison, Problem, Status, Verdict
from phasecast.core.errors import BadInput, OutsideRegime
from phasecast.models import LANDSCAPES, Landscape

RADIUS = 0.5


def exact_volume(name: str, epsilons: np.ndarray) -> np.ndarray:
    """V(ε), the share of the box |x|, |y| < 1/2, worked out by hand.

    Sums: ε^λ times the volume of the body Σ|u|^a < 1, by Dirichlet's integral. Products: with s = 2x, t = 2y
    uniform on (0, 1), P(s^a t^b < e) with e = 2^(a+b) ε is the integral of min(1, (e/t^b)^(1/a)) over t.
    """
    if name == "x²+y²":
        return math.pi * epsilons
    if name == "x⁴+y⁴":
        return 4 * gamma(5 / 4) ** 2 / gamma(3 / 2) * np.sqrt(epsilons)
    if name == "x²y⁴":
        e = 64 * epsilons
        return 2 * e**0.25 - e**0.5
    if name == "x²y²":
        s = 4 * np.sqrt(epsilons)
        return s * (1 - np.log(s))
    x = 1 + np.linspace(-RADIUS, RADIUS, 200_001)  # the coordinate in which the point is 1
    power, other = (0.25, 2) if name.endswith("(1,0)") else (0.5, 4)
    return np.array([np.trapezoid(2 * (e / x**other) ** power, x) for e in epsilons])


@pytest.mark.parametrize("name", LANDSCAPES)
def test_volumes_are_the_exact_ones(name):
    sample = volume_sampler(LANDSCAPES[name].problem(), radius=RADIUS, epsilons=EPSILONS, samples=10_000, seed=3)
    volumes = np.stack([sample(block) for block in range(24)])
    error = volumes.std(axis=0, ddof=1) / math.sqrt(len(volumes))
    distance = (volumes.mean(axis=0) - exact_volume(name, EPSILONS)) / error
    assert np.all(abs(distance) < 4), distance


@pytest.mark.parametrize("name", LANDSCAPES)
def test_the_predicted_lambda_and_multiplicity_are_those_of_the_exact_volume(name):
    """V ε^(−λ) log(1/ε)^(1−m) must go to a constant, and for no other small multiplicity."""
    predicted = of_landscape(LANDSCAPES[name])
    tiny = np.array([1e-200, 1e-290])
    exponent = float(predicted.value)

    def change(multiplicity: int) -> float:
        scaled = np.log(exact_volume(name, tiny)) - exponent * np.log(tiny)
        scaled -= (multiplicity - 1) * np.log(-np.log(tiny))
        return abs(float(scaled[1] - scaled[0]))

    assert change(predicted.multiplicity) < 0.01
    assert change(3 - predicted.multiplicity) > 0.1


def mean_power(power: int, nbetas: np.ndarray) -> np.ndarray:
    """nβ E[u^a] for density exp(−nβ u^a) on (−1/2, 1/2): a ratio of incomplete gamma functions."""
    z = nbetas * RADIUS**power
    return gammainc(1 + 1 / power, z) / gammainc(1 / power, z) / power


def test_the_scaled_losses_of_a_sum_are_ratios_of_incomplete_gamma_functions():
    for name, power in (("x²+y²", 2), ("x⁴+y⁴", 4)):
        values, errors = scaled_losses(LANDSCAPES[name].problem(), radius=RADIUS, nbetas=NBETAS, nodes=512)
        np.testing.assert_allclose(values, 2 * mean_power(power, NBETAS), atol=float(errors.max()))


def test_the_scaled_losses_of_x2y2_are_the_one_dimensional_integral():
    """∫exp(−nβ x²y²)dx is an error function of y; what is left is done by trapezoids in log y."""
    values, errors = scaled_losses(LANDSCAPES["x²y²"].problem(), radius=RADIUS, nbetas=NBETAS, nodes=512)
    y = np.exp(np.linspace(math.log(1e-22), math.log(RADIUS), 400_001))

    def log_partition(nbeta: float) -> float:
        inner = math.sqrt(math.pi / nbeta) / y * erf(math.sqrt(nbeta) * y * RADIUS)
        return math.log(np.trapezoid(inner * y, np.log(y)))

    step = 1e-4
    slopes = [
        -(log_partition(nbeta * math.exp(step)) - log_partition(nbeta * math.exp(-step))) / (2 * step)
        for nbeta in NBETAS
    ]
    np.testing.assert_allclose(values, slopes, atol=2e-6 + float(errors.max()))


@pytest.mark.parametrize("name", LANDSCAPES)
def test_temperature_quadrature_finds_lambda_and_multiplicity(name):
    measured = temperature_quadrature(LANDSCAPES[name].problem())
    predicted = of_landscape(LANDSCAPES[name])
    assert Comparison(predicted, measured).verdict is Verdict.AGREES
    assert measured.diagnostics["multiplicity"] == predicted.multiplicity
    assert measured.error < 1e-3


def test_the_exact_volumes_are_fitted_with_the_right_lambda():
    """Noise of one part in 10⁴ on the exact volume, so that only the fit can be wrong."""
    rng = np.random.default_rng(0)
    for name in LANDSCAPES:
        predicted = of_landscape(LANDSCAPES[name])
        noise = 1 + 1e-4 * rng.normal(size=(32, len(EPSILONS)))
        measured = fit_volume(exact_volume(name, EPSILONS) * noise, EPSILONS, predicted.multiplicity)
        assert Comparison(predicted, measured).verdict is Verdict.AGREES, name
        assert measured.error < 1e-3


@pytest.mark.parametrize("amount", [-0.3, 0.3, 1.0])
def test_precise_volumes_with_a_second_pole_nearby_are_refused(amount):
    """V = ε^0.3 (1 + c ε^(1/30)), whose slope is 0.3 at no ε that is reached; without the pole λ is ok."""
    rng = np.random.default_rng(1)
    for noise in (1e-3, 3e-3, 1e-2):
        blocks = 1 + noise * rng.normal(size=(32, len(EPSILONS)))
        alone = EPSILONS**0.3 / 10
        assert fit_volume(alone * blocks, EPSILONS, 1).status is Status.OK
        slow = fit_volume(alone * (1 + amount * EPSILONS ** (1 / 30)) * blocks, EPSILONS, 1)
        assert slow.status is Status.REFUSED


@pytest.mark.parametrize("multiplicity", [1, 2, 3])
def test_the_fit_is_the_nonlinear_least_squares_of_the_law_itself(multiplicity):
    """V = ε^λ p(log 1/ε) with the errors of V, solved for λ and all coefficients at once, on the smaller half of ε."""
    rng = np.random.default_rng(multiplicity)
    logs = -np.log(EPSILONS)
    exact = np.exp(-0.4 * logs) * logs ** (multiplicity - 1) / 100**multiplicity
    volumes = exact * (1 + 0.02 * rng.normal(size=(32, len(EPSILONS))))
    use = logs >= np.median(logs)

    def law(at: np.ndarray, exponent: float, *coefficients: float) -> np.ndarray:
        powers = (at[:, None] / logs.max()) ** np.arange(multiplicity)
        return np.exp(-exponent * (at - logs.max())) * (powers @ np.array(coefficients))

    mean, spread = volumes.mean(axis=0)[use], volumes.std(axis=0, ddof=1)[use] / math.sqrt(32)
    start = [0.4, *[0.0] * (multiplicity - 1), exact[use].min()]
    solved, _ = curve_fit(law, logs[use], mean, start, spread, absolute_sigma=True, xtol=1e-12, ftol=1e-12, gtol=1e-12)
    measured = fit_volume(volumes, EPSILONS, multiplicity)
    assert float(measured.estimate) == pytest.approx(solved[0], abs=1e-6)


def test_volumes_that_one_block_alone_reaches_have_no_error_bar():
    rng = np.random.default_rng(0)
    volumes = EPSILONS**0.5 * (1 + 0.1 * rng.normal(size=(20, len(EPSILONS))))
    volumes[1:, 0] = 0.0
    measured = fit_volume(volumes, EPSILONS, 1)
    assert measured.status is Status.REFUSED
    assert "draws of one block alone fell below the smallest" in measured.reasons[0]


def test_lambda_of_a_monomial_is_the_smallest_ratio():
    assert monomial([2, 4]).value == Fraction(1, 4)
    assert monomial([2, 4], prior=[0, 2]).value == Fraction(1, 2)
    assert monomial([2, 4], prior=[0, 1]).multiplicity == 2
    assert monomial([0, 6]).value == Fraction(1, 6)
    assert monomial([2, 2, 2]).multiplicity == 3


def test_lambda_of_a_sum_adds_up():
    assert sum_of_powers([2] * 10).value == 5
    assert sum_of_powers([2, 4, 6]).value == Fraction(11, 12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: monomial([]), "constant"),
        (lambda: monomial([0, 0]), "constant"),
        (lambda: monomial([-2]), "a power is -2"),
        (lambda: monomial([2.5]), "use an integer"),  # pyright: ignore[reportArgumentType] - what is tested
        (lambda: monomial([2], prior=[0, 0]), "one for each"),
        (lambda: sum_of_powers([3]), "even powers"),
        (lambda: Landscape("odd", "product", (3, 2), (0.0, 0.0)), "even powers"),
        (lambda: Landscape("off", "sum", (2, 2), (1.0, 0.0)), "not a minimum"),
        (lambda: Landscape("few", "sum", (2, 2), (0.0,)), "as many of each"),
    ],
)
def test_what_has_no_coefficient_is_bad_input(call, words):
    with pytest.raises(BadInput, match=words):
        call()


def test_two_laws_that_fit_alike_are_a_warning_whose_error_has_both_limits():
    """x⁶y⁸ + x⁸y²: λ = 2/13 by its Newton polyhedron, approached by a slow power that looks like 1/log nβ."""
    problem = Problem(lambda w: 4 * w[0] ** 6 * w[1] ** 8 + 5 * w[0] ** 8 * w[1] ** 2, np.zeros(2))
    measured = temperature_quadrature(problem)
    assert measured.status is Status.WARNING
    assert "multiplicity is not determined" in measured.reasons[0]
    assert abs(float(measured) - 2 / 13) < 2 * float(measured.error)


def test_limits_that_turn_while_several_powers_are_slow_are_within_their_error():
    """λ = 5/18 by the Newton polyhedron; the last two limits are both 2.3·10⁻⁵ too small, and 10⁻⁷ apart."""
    problem = Problem(
        lambda w: (
            w[0] ** 2 * w[1] ** 6 + 4 * w[0] ** 2 * w[1] ** 8 + 5 * w[0] ** 4 * w[1] ** 4 + 2 * w[0] ** 6
            + 5 * w[0] ** 6 * w[1] ** 6
        ),
        np.zeros(2),
    )  # fmt: skip
    measured = temperature_quadrature(problem)
    assert measured.status is Status.OK
    assert 1e-5 < abs(float(measured) - 5 / 18) < 2 * float(measured.error) < 1e-4


def test_an_error_is_finite_where_one_temperature_less_has_no_limit():
    """λ(nβ) falls and then rises: 1/log nβ describes the last two values and none of the earlier ones."""
    values = np.array([0.4425, 0.4375, 0.4325, 0.4485, 0.4584])
    measured = extrapolate(values, np.full(5, 1e-6), np.logspace(2, 10, 5))
    assert 0.01 < float(measured.error) < 1


@pytest.mark.parametrize(("first", "second"), [(2, 8), (6, 6), (4, 8)])
def test_high_powers_are_resolved_by_a_finer_grid(first, second):
    """λ of x^a + y^b is 1/a + 1/b; the first two grids differ too much, the error of the finest is far below that."""
    problem = Problem(lambda w: 3 * w[0] ** first + 3 * w[1] ** second, np.zeros(2))
    measured = temperature_quadrature(problem)
    assert measured.status is Status.OK
    assert abs(float(measured) - 1 / first - 1 / second) < max(3 * float(measured.error), 1e-6)
    assert float(measured.error) < 1e-3


def test_the_finite_size_form_brackets_the_quadrature():
    """λ − (m−1)/log nβ with its width holds the exact value at every nβ, and for m = 1 it is λ itself."""
    values, _ = scaled_losses(LANDSCAPES["x²y²"].problem(), radius=RADIUS, nbetas=NBETAS, nodes=512)
    for nbeta, value in zip(NBETAS, values, strict=True):
        at = monomial([2, 2]).at(nbeta=float(nbeta))
        assert abs(value - float(at.value)) <= float(at.systematic)
    assert monomial([2, 4]).at(nbeta=1e6).value == 0.25
    with pytest.raises(OutsideRegime, match="alone"):
        monomial([2, 2]).at(nbeta=1e6, gamma=1.0)
    with pytest.raises(BadInput, match="nbeta > e"):
        Coefficient(1).at(nbeta=1.0)


def test_a_valley_across_the_grid_is_refused_not_mismeasured():
    crossed = Problem(lambda w: (w[0] - w[1]) ** 2, np.zeros(2))
    assert temperature_quadrature(crossed).status is Status.REFUSED


def test_a_point_that_is_no_minimum_is_bad_input():
    saddle = Problem(lambda w: w[0] ** 2 - w[1] ** 2, np.zeros(2))
    for measure in (temperature_quadrature, volume_scaling):
        with pytest.raises(BadInput, match="not a minimum"):
            measure(saddle)
        with pytest.raises(BadInput, match="positive half-width"):
            measure(LANDSCAPES["x²y²"].problem(), radius=-1.0)
        with pytest.raises(BadInput, match="rounding noise"):
            measure(Problem(lambda w: w @ w + 0.3, np.zeros(2)))
        with pytest.raises(BadInput, match=r"has shape \(2,\)"):
            measure(Problem(lambda w: w**2, np.zeros(2)))


def test_three_parameters_are_not_for_the_grid():
    with pytest.raises(BadInput, match="two parameters"):
        temperature_quadrature(Problem(lambda w: w @ w, np.zeros(3)))


def test_temperatures_that_are_not_geometric_are_bad_input():
    with pytest.raises(BadInput, match="logspace"):
        extrapolate(np.ones(5), np.zeros(5), np.arange(1.0, 6.0))


def test_a_stricter_policy_refuses_what_the_default_accepts():
    problem = LANDSCAPES["x⁴+y⁴"].problem()
    strict = TemperaturePolicy(largest_grid_difference=1e-9, most_nodes=512)
    assert temperature_quadrature(problem).status is Status.OK
    measured = temperature_quadrature(problem, policy=strict)
    assert measured.status is Status.REFUSED
    assert measured.policy == strict.plain()
    refined = temperature_quadrature(problem, policy=TemperaturePolicy(largest_grid_difference=1e-9))
    assert refined.status is Status.OK
    assert float(refined) == pytest.approx(0.5, abs=1e-8)  # 1/4 + 1/4
