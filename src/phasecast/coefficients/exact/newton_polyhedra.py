"""What is λ of a polynomial at the origin? Read off its Newton polyhedron, in exact rationals.

The polyhedron is the convex hull of the exponents and of everything above them. The diagonal t·(1, …, 1) enters it at
t₀; then λ = 1/t₀, and the multiplicity is the codimension of the face where it enters (Varchenko; Watanabe 2009), if on
no compact face the polynomial vanishes away from the coordinate planes. Without that condition λ ≤ 1/t₀.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from fractions import Fraction

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.coefficients.exact.polynomial import Polynomial, parse
from phasecast.core.errors import BadInput

NEWTON = "Newton polyhedron (Varchenko 1976; Watanabe 2009)"
MOST_OPERATIONS = 16_000_000  # on cells of the tables of the simplex; takes a few seconds
MOST_PAIRS = 1_000_000  # of points that are compared to find those that lie between others
Point = tuple[int, ...]


def newton(polynomial: str) -> Coefficient:
    """λ of K ≥ 0 at the origin, for K written as text.

    Exact if the polynomial is known to be nondegenerate: all its monomials are even with positive coefficients, or it
    has two variables and its edges have no real zeros. A degenerate polynomial gives an upper bound; with three or more
    variables nondegeneracy may be an assumption, and ``regime`` says so.

    >>> newton("x**4 + x**2*y**2 + y**6").value, newton("(x - y)**2").kind
    (Fraction(1, 2), 'upper-bound')
    """
    parsed = parse(polynomial)
    if not parsed.terms:
        raise BadInput("the polynomial is zero", "give a polynomial that is positive somewhere")
    constant = (0,) * len(parsed.variables)
    if constant in parsed.terms:
        raise BadInput("the polynomial has a constant term", "it must vanish at the origin")
    _check_nonnegative(parsed)
    exponents = list(parsed.terms)
    reach, dimension = entry(exponents)
    kind, words = _nondegeneracy(parsed)
    return Coefficient(
        1 / reach,
        regime=f"at the origin; {words}",
        source=NEWTON,
        kind=kind,
        name="newton",
        multiplicity=len(parsed.variables) - dimension,
    )


def ideal(*monomials: str) -> Coefficient:
    """λ of the sum of the squares of monomials, at the origin; always exact.

    >>> ideal("x1*x2", "x1*x3", "x2*x3").value
    Fraction(3, 4)
    """
    if not monomials:
        raise BadInput("an ideal without generators", "give at least one monomial")
    parsed = [parse(text) for text in monomials]
    for text, one in zip(monomials, parsed, strict=True):
        if len(one.terms) != 1 or not any(next(iter(one.terms))):
            raise BadInput(f"'{text}' is not a monomial", "write it like x1*x2**2")
    places = list(dict.fromkeys(name for one in parsed for name in one.variables))
    powers = [dict(zip(one.variables, next(iter(one.terms)), strict=True)) for one in parsed]
    doubled = [tuple(2 * power.get(name, 0) for name in places) for power in powers]
    reach, dimension = entry(doubled)
    return Coefficient(
        1 / reach,
        regime="at the origin; a sum of squares of monomials is nondegenerate",
        source=NEWTON,
        name="ideal",
        multiplicity=len(places) - dimension,
    )


def entry(exponents: Sequence[Point]) -> tuple[Fraction, int]:
    """Where the diagonal enters the polyhedron, and the dimension of the smallest face that holds that point.

    t₀ is the largest value of min_α w·α over weights w ≥ 0 with Σw = 1. A point of the polyhedron lies on the face if
    every best w says so; the best w in the middle of all best ones decides for all at once. For a sum of polynomials
    in different variables 1/t₀ is the sum of theirs, and so is the codimension less one.
    """
    size = len(exponents[0])
    corners = _corners(exponents)
    budget = [MOST_OPERATIONS]
    inverse, codimension = Fraction(0), 1
    for variables, points in _blocks(corners):
        if len(points) == 1 and len(variables) == 1:
            reach, dimension = Fraction(points[0][variables[0]]), 0
        else:
            reach, dimension = _entry_of_block([tuple(point[i] for i in variables) for point in points], budget)
        inverse += 1 / reach
        codimension += len(variables) - dimension - 1
    return 1 / inverse, size - codimension


def _corners(exponents: Sequence[Point]) -> list[Point]:
    """The exponents without those above another one or half-way between two: the polyhedron stays the same."""
    lowest: list[Point] = []
    for point in sorted(set(exponents), key=sum):
        if not any(all(map(int.__le__, other, point)) for other in lowest):
            lowest.append(point)
    if len(lowest) ** 2 > MOST_PAIRS:
        return lowest
    between = {tuple(map(int.__add__, a, b)) for a, b in itertools.combinations(lowest, 2)}
    return [point for point in lowest if tuple(2 * x for x in point) not in between]


def _blocks(points: Sequence[Point]) -> list[tuple[list[int], list[Point]]]:
    """Groups of points that share variables, with these variables; the points of different groups share none."""
    groups: list[tuple[set[int], list[Point]]] = []
    for point in points:
        variables, members = {i for i, power in enumerate(point) if power}, [point]
        apart = []
        for other, theirs in groups:
            if variables & other:
                variables, members = variables | other, theirs + members
            else:
                apart.append((other, theirs))
        groups = [*apart, (variables, members)]
    return [(sorted(variables), members) for variables, members in groups]


def _entry_of_block(exponents: Sequence[Point], budget: list[int]) -> tuple[Fraction, int]:
    reach, weights = _best_weights(exponents, budget)
    middle = _middle(exponents, reach, weights, budget)
    on_face = [alpha for alpha in exponents if _dot(middle, alpha) == reach]
    free = [tuple(int(i == j) for j in range(len(middle))) for i, w in enumerate(middle) if w == 0]
    first = on_face[0]
    edges = [tuple(a - b for a, b in zip(alpha, first, strict=True)) for alpha in on_face[1:]]
    return reach, _rank([*edges, *free])


def _best_weights(exponents: Sequence[Point], budget: list[int]) -> tuple[Fraction, list[Fraction]]:
    """max t over weights w ≥ 0, Σw = 1, w·α ≥ t for all α; and a w that reaches it."""
    size = len(exponents[0])
    rows = [[*(Fraction(-a) for a in alpha), Fraction(1)] for alpha in exponents] + [
        [Fraction(1)] * size + [Fraction(0)]
    ]
    right = [Fraction(0)] * len(exponents) + [Fraction(1)]
    solution = simplex(rows, right, [Fraction(0)] * size + [Fraction(1)], budget)
    total = sum(solution[:size], Fraction(0))
    weights = [w / total for w in solution[:size]] if total else [Fraction(1, size)] * size
    return min(_dot(weights, alpha) for alpha in exponents), weights


def _middle(exponents: Sequence[Point], reach: Fraction, best: list[Fraction], budget: list[int]) -> list[Fraction]:
    """The mean of best weights that are each as large as can be in one inequality: in the middle of all best ones."""
    size = len(best)
    vertices = [best]
    undecided_weights = {i for i in range(size) if best[i] == 0}
    undecided_points = {alpha for alpha in exponents if _dot(best, alpha) == reach}
    for index in sorted(undecided_weights):
        goal = [Fraction(int(i == index)) for i in range(size)]
        vertices.append(_maximise_on_face(exponents, reach, goal, budget))
    for alpha in sorted(undecided_points):
        if all(_dot(w, alpha) == reach for w in vertices):
            vertices.append(_maximise_on_face(exponents, reach, [Fraction(a) for a in alpha], budget))
    return [sum((w[i] for w in vertices), Fraction(0)) / len(vertices) for i in range(size)]


def _maximise_on_face(
    exponents: Sequence[Point], reach: Fraction, goal: list[Fraction], budget: list[int]
) -> list[Fraction]:
    """max goal·w over the best weights: w ≥ 0, Σw = 1, w·α ≥ reach."""
    size = len(goal)
    # Σw ≤ 1 and w·(reach − α) ≤ 0 hold at w = 0, where the simplex starts; the 1 in the objective drives Σw up to 1
    rows = [[reach - a for a in alpha] for alpha in exponents] + [[Fraction(1)] * size]
    right = [Fraction(0)] * len(exponents) + [Fraction(1)]
    solution = simplex(rows, right, [g + 1 for g in goal], budget)
    total = sum(solution, Fraction(0))
    return [w / total for w in solution]


def simplex(
    rows: list[list[Fraction]], right: list[Fraction], objective: list[Fraction], budget: list[int] | None = None
) -> list[Fraction]:
    """Maximise objective·x with rows·x ≤ right, x ≥ 0, right ≥ 0, in exact rationals, by Bland's rule.

    Written here because the libraries work in floats, and a multiplicity is decided by equalities. ``budget[0]`` is the
    number of operations that are left.
    """
    count, size = len(rows), len(objective)
    budget = [MOST_OPERATIONS] if budget is None else budget
    _spend(budget, count * (count + size))
    slack = [[Fraction(int(i == j)) for j in range(count)] for i in range(count)]
    table = [[*row, *unit, b] for row, unit, b in zip(rows, slack, right, strict=True)]
    costs = [-c for c in objective] + [Fraction(0)] * (count + 1)
    basis = list(range(size, size + count))
    while True:
        column = next((j for j in range(size + count) if costs[j] < 0), None)
        if column is None:
            break
        ratios = [(table[i][-1] / table[i][column], basis[i], i) for i in range(count) if table[i][column] > 0]
        _spend(budget, count * (count + size))
        if not ratios:
            raise BadInput("the polyhedron is unbounded", "give a polynomial that vanishes at the origin")
        row = min(ratios)[2]
        pivot = table[row][column]
        table[row] = [value / pivot for value in table[row]]
        for other in range(count):
            if other != row and table[other][column]:
                factor = table[other][column]
                table[other] = [a - factor * b if b else a for a, b in zip(table[other], table[row], strict=True)]
        factor = costs[column]
        costs = [a - factor * b if b else a for a, b in zip(costs, table[row], strict=True)]
        basis[row] = column
    solution = [Fraction(0)] * size
    for row, column in enumerate(basis):
        if column < size:
            solution[column] = table[row][-1]
    return solution


def _spend(budget: list[int], operations: int) -> None:
    budget[0] -= operations
    if budget[0] < 0:
        raise BadInput("this Newton polyhedron takes too long", "give fewer variables or fewer monomials")


def _nondegeneracy(polynomial: Polynomial) -> tuple[str, str]:
    """The kind of the coefficient, and words on why."""
    even = all(c > 0 and all(e % 2 == 0 for e in exponents) for exponents, c in polynomial.terms.items())
    if even or len(polynomial.terms) == 1:
        return "exact", "nondegenerate: all monomials are even with positive coefficients"
    if len(polynomial.variables) == 1:
        return "exact", "one variable"
    if len(polynomial.variables) == 2:
        if any(_has_real_zero(edge) for edge in _edges(polynomial)):
            return "upper-bound", "degenerate: an edge of the Newton polygon has a real zero, so this is a bound"
        return "exact", "nondegenerate: no edge of the Newton polygon has a real zero"
    return "exact", "nondegeneracy of the faces is assumed, not checked"


def _edges(polynomial: Polynomial) -> list[list[Fraction]]:
    """The polynomials on the compact edges of a Newton polygon, in one variable along the edge, ends nonzero."""
    points = sorted(polynomial.terms)
    hull: list[Point] = []  # from the lowest of the leftmost points down to the leftmost of the lowest
    for c in points:
        if hull and c[1] >= hull[-1][1]:
            continue
        while len(hull) > 1 and _turn(hull[-2], hull[-1], c) <= 0:
            hull.pop()
        hull.append(c)
    edges = []
    for a, b in itertools.pairwise(hull):
        normal = (a[1] - b[1], b[0] - a[0])
        level = _dot(normal, a)
        on_edge = [c for c in points if _dot(normal, c) == level]
        start, length = on_edge[0][0], on_edge[-1][0] - on_edge[0][0]
        coefficients = [Fraction(0)] * (length + 1)
        for c in on_edge:
            coefficients[c[0] - start] = polynomial.terms[c]
        edges.append(coefficients)
    return edges


def _turn(a: Point, b: Point, c: Point) -> int:
    """Positive if the way from a over b to c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _has_real_zero(coefficients: list[Fraction]) -> bool:
    """Whether a polynomial with nonzero ends has a real zero, by Sturm's theorem; ends nonzero, so zero is none."""

    def signs(chain: list[list[Fraction]], at_plus: bool) -> int:
        values = [poly[-1] * (1 if at_plus or (len(poly) - 1) % 2 == 0 else -1) for poly in chain]
        return sum((x > 0) != (y > 0) for x, y in itertools.pairwise(values))

    chain = [coefficients, [i * c for i, c in enumerate(coefficients)][1:]]
    while len(chain[-1]) > 1 or chain[-1][0]:
        remainder = _remainder(chain[-2], chain[-1])
        if not remainder:
            break
        chain.append([-c for c in remainder])
    return signs(chain, False) != signs(chain, True)


def _remainder(dividend: list[Fraction], divisor: list[Fraction]) -> list[Fraction]:
    rest = list(dividend)
    while len(rest) >= len(divisor):
        factor, shift = rest[-1] / divisor[-1], len(rest) - len(divisor)
        for index, c in enumerate(divisor):
            rest[shift + index] -= factor * c
        rest.pop()
        while rest and not rest[-1]:
            rest.pop()
    return rest


def _check_nonnegative(polynomial: Polynomial) -> None:
    """Refuse a polynomial that is negative near the origin, as far as vertices and small points show."""
    points = list(polynomial.terms)
    size = len(polynomial.variables)
    rng = random.Random(0)
    weights = [tuple(1 for _ in range(size))] + [tuple(rng.randint(1, 6) for _ in range(size)) for _ in range(24)]
    for weight in weights:
        heights = [sum(map(int.__mul__, weight, alpha)) for alpha in points]
        level = min(heights)
        lowest = {alpha: polynomial.terms[alpha] for alpha, h in zip(points, heights, strict=True) if h == level}
        face = Polynomial(polynomial.variables, lowest)  # what decides the sign along x_i = c_i s^(w_i), s → 0
        for _ in range(24):
            point = tuple(Fraction(rng.choice((-1, 1)) * rng.randint(1, 12), rng.randint(1, 12)) for _ in range(size))
            if face.at(point) < 0:
                raise BadInput("the polynomial is negative near the origin", "K must have its minimum, zero, there")


def _dot(left: Sequence[Fraction | int], right: Sequence[int]) -> Fraction:
    return sum((Fraction(a) * b for a, b in zip(left, right, strict=True)), Fraction(0))


def _rank(vectors: list[tuple[int, ...]]) -> int:
    rows = [[Fraction(x) for x in vector] for vector in vectors]
    rank = 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for i in range(rank + 1, len(rows)):
            factor = rows[i][column] / rows[rank][column]
            if factor:
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[rank], strict=True)]
        rank += 1
    return rank
