"""λ of linear networks against other forms of the same mathematics."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from phasecast.coefficients import deep_linear, jacobian_rank, reduced_rank
from phasecast.core.errors import BadInput


def aoyagi_watanabe(m: int, h: int, n: int, r: int) -> tuple[Fraction, int]:
    """The four cases of Aoyagi & Watanabe 2005, for inputs m, hidden h, outputs n and rank r."""
    if n + r <= m + h and m + r <= n + h and h + r <= m + n:
        top = -((h + r) ** 2) - m * m - n * n + 2 * (h + r) * (m + n) + 2 * m * n
        odd = (m + h + n + r) % 2
        return Fraction(top + odd, 8), 1 + odd
    if m + h < n + r:
        return Fraction(h * m - h * r + n * r, 2), 1
    if n + h < m + r:
        return Fraction(h * n - h * r + m * r, 2), 1
    return Fraction(m * n, 2), 1


SIZES = [(m, h, n, r) for m, h, n in itertools.product(range(1, 9), repeat=3) for r in range(min(m, h, n) + 1)]


def test_three_layers_are_the_four_cases_of_reduced_rank_regression():
    assert len(SIZES) == 1808
    for m, h, n, r in SIZES:
        found = deep_linear((m, h, n), rank=r)
        assert (found.value, found.multiplicity) == aoyagi_watanabe(m, h, n, r), (m, h, n, r)


def codimension_of_zero_products(widths: tuple[int, ...]) -> int:
    """The codimension of {A₁⋯A_L = 0}, from its strata: representations of a quiver in a row, by rank patterns.

    A representation is a sum of intervals [i, j]; the product vanishes when no interval spans all. The codimension of a
    stratum is the sum over pairs of intervals of dim Ext¹, which is 1 for [i, j], [k, l] with i < k ≤ j+1 ≤ l (and 0
    otherwise); the least over all ways to write the widths as intervals.
    """
    length = len(widths)
    intervals = [(i, j) for i in range(length) for j in range(i, length) if (i, j) != (0, length - 1)]
    best = [10**9]

    def extend(place: int, left: tuple[int, ...], chosen: dict[tuple[int, int], int], cost: int) -> None:
        if cost >= best[0]:
            return
        if place == len(intervals):
            if not any(left):
                best[0] = cost
            return
        i, j = intervals[place]
        most = min(left[i : j + 1])
        for count in range(most + 1):
            extra = count * sum(
                other * ((i < k <= j + 1 <= end) + (k < i <= end + 1 <= j)) for (k, end), other in chosen.items()
            )
            rest = tuple(w - count if i <= s <= j else w for s, w in enumerate(left))
            extend(place + 1, rest, {**chosen, (i, j): count}, cost + extra)

    extend(0, widths, {}, 0)
    return best[0]


@pytest.mark.parametrize(("length", "top"), [(3, 6), (4, 3), (5, 2)])
def test_twice_lambda_is_the_codimension_of_the_zero_products(length, top):
    """329 width vectors."""
    for widths in itertools.product(range(1, top + 1), repeat=length):
        assert 2 * deep_linear(widths, rank=0).value == codimension_of_zero_products(widths), widths


def test_two_layers_are_ordinary_regression():
    for m, n in itertools.product(range(1, 7), repeat=2):
        for rank in range(min(m, n) + 1):
            assert deep_linear((m, n), rank).value == Fraction(m * n, 2)


def test_adding_a_layer_never_raises_lambda():
    rng = np.random.default_rng(0)
    for _ in range(500):
        widths = tuple(int(w) for w in rng.integers(1, 12, size=rng.integers(2, 7)))
        rank = int(rng.integers(0, min(widths) + 1))
        place = int(rng.integers(1, len(widths)))
        wide = int(rng.integers(max(rank, 1), 15))
        deeper = (*widths[:place], wide, *widths[place:])
        assert deep_linear(deeper, rank).value <= deep_linear(widths, rank).value


def test_the_order_of_the_hidden_layers_does_not_matter():
    for middle in itertools.permutations((2, 5, 3)):
        assert deep_linear((4, *middle, 6), 1) == deep_linear((4, 2, 3, 5, 6), 1)


def local_points():
    for m, h, n, r in SIZES[::7]:
        for a in range(r, min(m, h) + 1):
            for b in range(r, min(h, n) + 1):
                if a + b - h <= r:
                    yield m, h, n, r, a, b


def test_the_worst_point_has_the_global_value():
    found: dict[tuple[int, ...], list] = {}
    for m, h, n, r, a, b in local_points():
        found.setdefault((m, h, n, r), []).append(reduced_rank(m, h, n, r, a, b).value)
    for size, values in found.items():
        assert min(values) == reduced_rank(*size).value, size


@pytest.mark.slow
def test_where_nothing_is_left_the_local_value_is_half_the_jacobian_rank():
    """With a + b = h + r, or a or b full, the product has constant rank around the point."""
    rng = np.random.default_rng(1)
    checked = 0
    for m, h, n, r, a, b in local_points():
        if m > 3 or n > 3 or h > 3 or (m - a) * (h - a - b + r) * (n - b) > 0:
            continue
        first, second = _factors(rng, m, h, n, r, a, b)
        rank = jacobian_rank(
            lambda w, x: x @ w["A"].T @ w["B"].T, {"A": first, "B": second}, np.eye(m), exact=True
        ).rank
        assert reduced_rank(m, h, n, r, a, b).value == Fraction(rank, 2), (m, h, n, r, a, b)
        checked += 1
    assert checked > 5


def _factors(rng, m, h, n, r, a, b):
    """Integer factors A (h × m) and B (n × h) of ranks a and b whose product has rank r, in a random basis."""
    inner = np.zeros((h, m), dtype=int)
    inner[:a, :a] = np.eye(a)  # the hidden units 0…a−1 carry A
    outer = np.zeros((n, h), dtype=int)
    carried = [*range(r), *range(a, a + b - r)]  # B shares r of them
    outer[range(b), carried] = 1
    left, right = (np.tril(rng.integers(-2, 3, (k, k)), -1) + np.eye(k, dtype=int) for k in (n, m))
    return inner @ right, left @ outer


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: deep_linear((3,), 0), "at least an input and an output"),
        (lambda: deep_linear((5, 3, 4), 9), r"rank 9 exceeds the narrowest layer \(3\); choose rank ≤ 3"),
        (lambda: deep_linear((5, -3), 0), "width is -3"),
        (lambda: deep_linear((5, 3.5), 0), "width is 3.5"),  # pyright: ignore[reportArgumentType] - what is tested
        (lambda: reduced_rank(2, 2, 2, 0, rank_a=1), "give both"),
        (lambda: reduced_rank(2, 2, 2, 0, 2, 1), "no factors of ranks 2 and 1"),
        (lambda: reduced_rank(2, 2, 2, 1, 0, 1), "no factors"),
    ],
)
def test_networks_that_cannot_be_are_bad_input(call, words):
    with pytest.raises(BadInput, match=words):
        call()


@pytest.mark.parametrize(
    ("found", "value", "multiplicity"),
    [
        (deep_linear((3, 4, 1), 1), Fraction(3, 2), 1),
        (deep_linear((3, 4, 1), 1, bias=True), 2, 1),
        (deep_linear((2, 2, 2), 0), Fraction(3, 2), 1),
        (reduced_rank(2, 2, 2, 0, 2, 0), 2, 1),
        (deep_linear((3, 3, 3), 0), Fraction(7, 2), 2),
        (deep_linear((2, 2, 2, 2, 2), 0), Fraction(3, 2), 5),
        (deep_linear((10, 10, 10, 10), 5), 46, 3),
        (deep_linear((5, 3, 4), 1), 7, 2),
    ],
)
def test_reference_values(found, value, multiplicity):
    """Those of tests/reference/coefficients.py; with a bias one more direction, with given ranks the smooth point."""
    assert (found.value, found.multiplicity) == (value, multiplicity)
