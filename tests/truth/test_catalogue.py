"""Catalogue entries, rules and free energies against other exact forms and against integrals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from phasecast import coefficients as c
from phasecast.coefficients.free_energy import Basin
from phasecast.core import Status
from phasecast.core.errors import BadInput


@pytest.mark.parametrize(
    ("found", "value", "multiplicity"),
    [
        (c.tanh(1), Fraction(1, 2), 2),
        (c.tanh(2), Fraction(2, 3), 1),
        (c.factor_analysis(6, 2, 1), Fraction(29, 4), 1),
        (c.mixture(2, 1, 1), Fraction(3, 4), 1),
        (c.symmetric_factorisation(3, 2, 1), 2, 1),
    ],
)
def test_reference_values(found, value, multiplicity):
    """tanh by tests/reference/coefficients.py; the others are worked out by hand from the formulas of their sources."""
    assert (found.value, found.multiplicity, found.kind) == (value, multiplicity, "exact")


def test_one_tanh_unit_is_the_monomial_of_its_two_weights():
    one = c.monomial([2, 2])
    assert (c.tanh(1).value, c.tanh(1).multiplicity) == (one.value, one.multiplicity)


def test_tanh_grows_with_the_root_of_the_width_and_never_falls():
    values = [c.tanh(h).value for h in range(1, 200)]
    assert values == sorted(values)
    assert float(values[-1]) == pytest.approx(math.sqrt(199) / 2, rel=0.1)


@pytest.mark.parametrize("observed", [3, 4, 5, 6])
def test_no_true_factor_is_the_ideal_of_products_of_loadings(observed):
    """Σ − Ψ off the diagonal is l_i l_j; the diagonal is free and adds p/2."""
    pairs = [f"x{i}*x{j}" for i in range(observed) for j in range(i)]
    by_ideal = c.ideal(*pairs).value + Fraction(observed, 2)
    assert c.factor_analysis(observed, 1, 0).value == by_ideal


@pytest.mark.parametrize(("observed", "factors"), [(4, 1), (5, 1), (6, 2), (6, 3)])
def test_as_many_factors_as_are_true_is_half_the_generic_rank(observed, factors):
    rng = np.random.default_rng(0)

    def covariance(w, x):
        return (w["L"] @ w["L"].T + np.eye(observed) * w["psi"]).reshape(1, -1)

    weights = {"L": rng.integers(1, 30, (observed, factors)), "psi": rng.integers(1, 30, observed)}
    rank = c.jacobian_rank(covariance, weights, np.zeros((1, 1)), exact=True).rank
    assert c.factor_analysis(observed, factors, factors).value == Fraction(rank, 2)


def test_symmetric_factorisations_at_full_rank_and_at_zero():
    rng = np.random.default_rng(0)
    for n, k in ((2, 1), (3, 2), (4, 2), (4, 4)):
        rank = c.jacobian_rank(lambda u, x: (u @ u.T).reshape(1, -1), rng.integers(1, 30, (n, k)), np.zeros((1, 1)),
                               exact=True).rank  # fmt: skip
        assert c.symmetric_factorisation(n, k, k).value == Fraction(rank, 2)
    assert c.symmetric_factorisation(3, 1, 0).value == c.newton("(x**2 + y**2 + z**2)**2").value


def test_nonnegative_factors_of_zero_are_a_monomial_ideal():
    """Without negative numbers nothing cancels: every product x_ih y_hj must vanish."""
    for m, n, h in ((2, 2, 1), (2, 3, 1), (2, 2, 2), (2, 3, 2)):
        products = [f"x{i}{k}*y{j}{k}" for k in range(h) for i in range(m) for j in range(n)]
        found = c.nmf(m, n, rank=h, true_rank=0)
        exact = c.ideal(*products)
        assert (found.value, found.multiplicity) == (exact.value, exact.multiplicity)


def test_a_spare_component_of_a_mixture_is_a_monomial_beside_a_square():
    """One spare component in one dimension: K ~ c² + (a b²)², with the weight a and the offset b."""
    assert c.mixture(2, 1, 1).value == c.newton("c**2 + a**2*b**4").value
    three = c.newton("c**2 + d**2 + a**2*b**4 + a**2*b**2*e**2 + a**2*e**4")  # two dimensions: b and e
    assert (c.mixture(2, 1, 2).value, c.mixture(2, 1, 2).multiplicity) == (three.value, three.multiplicity)


def test_relu_units_that_are_always_on_are_a_linear_network():
    assert c.relu([(2, 3, 1, 1, "active")]).value == c.deep_linear((3, 3, 1), 1).value
    assert c.relu([(1, 1, 1, 1, "hinge"), (1, 1, 1, 1, "hinge")]).value == 2
    assert c.relu([(1, 3, 1, 0, "hinge")]).kind == "lower-bound"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: c.tanh(0), "width is 0"),
        (lambda: c.mixture(2, 3, 1), "true ≤ 2"),
        (lambda: c.factor_analysis(3, 1, 2), "true_factors ≤ factors"),
        (lambda: c.symmetric_factorisation(3, 1, 2), "rank ≤ 1"),
        (lambda: c.nmf(2, 2, 1, 2), "true_rank ≤ 1"),
        (lambda: c.relu([]), "distinct hinges"),
        (lambda: c.relu([(1, 1, 1, 0, "corner")]), "active or hinge"),
        (lambda: c.generalisation_error(c.tanh(1), 1), "n ≥ 3"),
    ],
)
def test_models_that_cannot_be_are_bad_input(call, words):
    with pytest.raises(BadInput, match=words):
        call()


def test_rules_are_those_of_newton_polyhedra():
    x2, x4, pair = c.newton("x**2"), c.newton("x**4"), c.newton("x**2*y**2")
    assert c.add(x2, x4).value == c.newton("x**2 + y**4").value
    assert c.add(pair, x2).multiplicity == c.newton("x**2*y**2 + z**2").multiplicity
    assert c.product(x2, x4).value == c.newton("x**2*y**4").value
    assert c.product(x2, pair).multiplicity == c.newton("x**2*y**2*z**2").multiplicity
    assert (c.union(x2, pair, x4).value, c.union(x2, pair).multiplicity) == (Fraction(1, 4), 2)
    with pytest.raises(BadInput, match="one side"):
        c.add(c.nmf(3, 3, 2, 1), c.relu([(1, 3, 1, 0, "hinge")]))


def test_the_free_energy_is_that_of_the_integral():
    """−log∫exp(−n x²y²) over a box, at n and 10⁶ n: the constant cancels, λ log n and log log n remain."""
    y = np.exp(np.linspace(math.log(1e-22), 0, 400_001))

    def exact(n: float) -> float:
        from scipy.special import erf

        inner = math.sqrt(math.pi / n) / y * erf(math.sqrt(n) * y)
        return -math.log(np.trapezoid(inner * y, np.log(y)))

    pair = c.monomial([2, 2])
    low, high = 1e9, 1e15
    predicted = float(c.free_energy(high, 0.0, pair).value) - float(c.free_energy(low, 0.0, pair).value)
    assert exact(high) - exact(low) == pytest.approx(predicted, abs=0.05)
    without = c.monomial([2])
    wrong = float(c.free_energy(high, 0.0, without).value) - float(c.free_energy(low, 0.0, without).value)
    assert abs(exact(high) - exact(low) - wrong) > 0.3


def test_the_simple_basin_wins_below_the_critical_sample_size():
    simple, complicated = Basin(0.01, c.Coefficient(5)), Basin(0.0, c.Coefficient(20))
    found = c.critical_sample_size(simple, complicated)
    n = float(found.value)
    assert n * 0.01 == pytest.approx(15 * math.log(n))
    assert found.diagnostics["winners"][-2:] == ["a", "b"]
    assert simple.free_energy(n / 2) < complicated.free_energy(n / 2)


def test_equal_losses_need_their_constants_and_a_crossing_may_not_be_there():
    one, other = c.Coefficient(5), c.Coefficient(20)
    assert c.critical_sample_size(Basin(0.0, one), Basin(0.0, other)).status is Status.REFUSED
    found = c.critical_sample_size(Basin(0.0, one, constant=100.0), Basin(0.0, other, constant=0.0))
    assert float(found.value) == pytest.approx(math.exp(100 / 15))
    never = c.critical_sample_size(Basin(0.0, one), Basin(1.0, other))
    assert "basin a wins at every n" in never.reasons[0]


def test_the_catalogue_lists_every_form():
    assert {"deep-linear", "newton", "tanh", "nmf", "relu"} <= set(c.catalogue())
