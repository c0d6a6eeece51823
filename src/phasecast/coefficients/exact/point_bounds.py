"""Between which bounds is λ of a polynomial network at a point? Both are exact rationals.

With w = w* + u the loss is Σ g² over the polynomials g(u) = f(w* + u, x) − f(w*, x). Rows of them that begin with
linear terms, r of them, are solved for r of the coordinates, as power series in the others; that is a change of
coordinates, so λ = r/2 + λ of the rest, a sum of squares of series that begin at order two. The rest is bounded
above by its Newton polyhedron (Varchenko 1976: a bound in any coordinates), in which every power beyond the order of
the series is taken to be there; and it is not negative. If the rank r is also the generic one, it is constant around
w*, nothing is left, and λ = r/2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.coefficients.exact.newton_polyhedra import entry
from phasecast.core.errors import BadInput
from phasecast.core.types import Array

MOST_PARAMETERS = 24  # chosen, not derived: the number of terms to order 4 grows like d⁴
ORDER = 4  # of the series; order 2 is the least that bounds anything, each more narrows the bounds and costs time
SOURCE = "elimination of the quadratic directions; Newton polyhedron of the rest (Varchenko 1976)"
Terms = dict[tuple[int, ...], Fraction]
Scalar = int | float | Fraction
PolynomialNetwork = Callable[[dict[str, Any], Any], Any]
"""f(params, inputs), written so that it also works on object arrays of :class:`Series`."""


@dataclass(frozen=True)
class Bounds:
    """λ is at least ``lower`` and at most ``upper``; both are exact if they meet."""

    lower: Coefficient
    upper: Coefficient

    @property
    def exact(self) -> bool:
        """Whether the bounds meet."""
        return self.lower.value == self.upper.value


def bounds(f: PolynomialNetwork, params: Mapping[str, Array], inputs: ArrayLike, *, order: int = ORDER) -> Bounds:
    """Two bounds on λ of the mean squared difference of ``f(w, inputs)`` from ``f(params, inputs)``, at ``params``.

    ``f`` is polynomial in the parameters and written with ``+ - * @ **`` alone, so that it also works on arrays of
    polynomials; ``params`` is a dictionary of arrays of rational numbers, ``inputs`` an array of them. A higher
    ``order`` of the series narrows the bounds and costs time.

    >>> two = bounds(lambda w, x: (w["a"] * w["b"]) * x, {"a": np.zeros(1), "b": np.zeros(1)}, np.ones((1, 1)))
    >>> two.lower.value, two.upper.value
    (Fraction(0, 1), Fraction(1, 2))
    """
    if order < 2:
        raise BadInput(f"order must be at least 2, got {order}", "use order=4")
    generators, size = _differences(f, params, inputs, order)
    rows = _echelon(generators)
    linear = [row for row in rows if sum(min(row, key=_graded)) == 1]
    rank = len(linear)
    lower = Fraction(rank, 2)
    if rank == _generic_rank(f, params, inputs):
        exact = Coefficient(lower, "at this point; the rank is constant around it", SOURCE, name="point")
        return Bounds(exact, exact)
    rest, free = _eliminate(rows, linear, size, order)
    upper = lower
    if free:
        beyond = [tuple((order + 1) * int(i == j) for j in free) for i in free]
        exponents = [tuple(power[i] for i in free) for row in rest for power in row] + beyond
        upper += 1 / entry([tuple(2 * e for e in power) for power in exponents])[0]
    return Bounds(
        Coefficient(lower, "at this point", SOURCE, kind="lower-bound", name="point"),
        Coefficient(upper, "at this point", SOURCE, kind="upper-bound", name="point"),
    )


@dataclass(frozen=True)
class Series:
    """A polynomial truncated beyond an order, which NumPy can add and multiply in object arrays."""

    terms: Terms
    size: int
    order: int

    def __add__(self, other: Series | Scalar) -> Series:
        total = dict(self.terms)
        for power, value in self._of(other).items():
            total[power] = total.get(power, Fraction(0)) + value
        return Series({power: value for power, value in total.items() if value}, self.size, self.order)

    def __mul__(self, other: Series | Scalar) -> Series:
        product: Terms = {}
        right = self._of(other)
        for power, value in self.terms.items():
            room = self.order - sum(power)
            for more, factor in right.items():
                if sum(more) <= room:
                    key = tuple(a + b for a, b in zip(power, more, strict=True))
                    product[key] = product.get(key, Fraction(0)) + value * factor
        return Series({power: value for power, value in product.items() if value}, self.size, self.order)

    def __pow__(self, exponent: int) -> Series:
        if int(exponent) != exponent or exponent < 0:
            raise BadInput(f"power {exponent} does not give a polynomial", "use whole powers ≥ 0")
        result = Series({(0,) * self.size: Fraction(1)}, self.size, self.order)
        for _ in range(int(exponent)):
            result = result * self
        return result

    def __neg__(self) -> Series:
        return self * -1

    def __sub__(self, other: Series | Scalar) -> Series:
        return self + -1 * (other if isinstance(other, Series) else Fraction(other))

    def __rsub__(self, other: Series | Scalar) -> Series:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def _of(self, other: Series | Scalar) -> Terms:
        return other.terms if isinstance(other, Series) else {(0,) * self.size: Fraction(other)} if other else {}


def _differences(
    f: PolynomialNetwork, params: Mapping[str, Array], inputs: ArrayLike, order: int
) -> tuple[list[Terms], int]:
    """The polynomials f(w* + u, x) − f(w*, x) in u, up to an order, and the number of parameters."""
    arrays = {name: np.asarray(value) for name, value in params.items()}
    size = sum(array.size for array in arrays.values())
    if size > MOST_PARAMETERS:
        raise BadInput(
            f"bounds by elimination are for at most {MOST_PARAMETERS} parameters, not {size}",
            "use jacobian_rank for the lower bound alone",
        )
    moved, place = {}, 0
    for name, array in arrays.items():
        entries = np.empty(array.size, dtype=object)
        for index, value in enumerate(array.ravel().tolist()):
            unit = tuple(int(i == place) for i in range(size))
            entries[index] = Series({unit: Fraction(1), (0,) * size: Fraction(value)}, size, order)
            place += 1
        moved[name] = entries.reshape(array.shape)
    exact_inputs = np.vectorize(Fraction, otypes=[object])(np.asarray(inputs).astype(object))
    try:
        outputs = np.ravel(np.asarray(f(moved, exact_inputs), dtype=object))
    except (TypeError, ValueError, AttributeError) as error:
        raise BadInput(
            f"the network does not work on polynomials ({error})", "write it with + - * @ ** on its parameters only"
        ) from None
    return [{power: v for power, v in output.terms.items() if any(power)} for output in outputs], size


def _generic_rank(f: PolynomialNetwork, params: Mapping[str, Array], inputs: ArrayLike) -> int:
    rng = np.random.default_rng(0)
    elsewhere = {name: rng.integers(-999, 1000, np.shape(value)) for name, value in params.items()}
    return len(_echelon(_differences(f, elsewhere, inputs, order=1)[0]))


def _graded(power: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    return sum(power), tuple(-e for e in power)


def _echelon(rows: list[Terms]) -> list[Terms]:
    """A basis of the span of polynomials, each with a lowest term that is 1 and in no other."""
    basis: list[tuple[tuple[int, ...], Terms]] = []
    for row in rows:
        left = dict(row)
        for lead, other in basis:
            left = _less(left, left.get(lead, Fraction(0)), other)
        if not left:
            continue
        lead = min(left, key=_graded)
        left = {power: value / left[lead] for power, value in left.items()}
        basis = [(place, _less(other, other.get(lead, Fraction(0)), left)) for place, other in basis]
        basis.append((lead, left))
    return [row for _, row in sorted(basis, key=lambda item: _graded(item[0]))]


def _less(row: Terms, factor: Fraction, other: Terms) -> Terms:
    if not factor:
        return row
    result = dict(row)
    for power, value in other.items():
        result[power] = result.get(power, Fraction(0)) - factor * value
    return {power: value for power, value in result.items() if value}


def _eliminate(rows: list[Terms], linear: list[Terms], size: int, order: int) -> tuple[list[Terms], list[int]]:
    """The other rows after the linear ones are solved for their first coordinate; and the free coordinates."""
    pivots = {min(row, key=_graded).index(1): row for row in linear}
    free = [i for i in range(size) if i not in pivots]
    values = {i: Series({tuple(int(i == j) for j in range(size)): Fraction(1)}, size, order) for i in free}
    zero = Series({}, size, order)
    for place in pivots:
        values[place] = zero
    for _ in range(order):  # each pass is right to one more order
        solved = {
            place: -1 * _substitute({p: c for p, c in row.items() if not (sum(p) == 1 and p[place] == 1)}, values, zero)
            for place, row in pivots.items()
        }
        values |= solved
    rest = [_substitute(row, values, zero).terms for row in rows if row not in linear]
    return _echelon([row for row in rest if row]), free


def _substitute(row: Terms, values: dict[int, Series], zero: Series) -> Series:
    total = zero
    for power, coefficient in row.items():
        term = Series({(0,) * zero.size: coefficient}, zero.size, zero.order)
        for place, exponent in enumerate(power):
            if exponent:
                term = term * values[place] ** exponent
        total = total + term
    return total
