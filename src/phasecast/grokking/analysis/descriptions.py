"""Which descriptions of a curve do the data leave standing: a step between two levels, or something smooth?

Each description is a family of curves f with noise that remembers its past (a first-order autoregression, so that a
random walk is noise around a constant). Its deviance is −2 log of the largest likelihood,

.. math:: D = m \\log(S_\\rho / m) - \\log(1 - \\rho^2), \\qquad S_\\rho = (y - f)^T P_\\rho\\, (y - f)

with P the inverse correlation matrix for neighbours correlated by ρ. Descriptions with k parameters compete by
D + k log m (the BIC), which weighs them by exp(−BIC/2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

MEMORIES = np.array([0.0, 0.3, 0.55, 0.75, 0.88, 0.95, 0.98, 0.998])  # ρ; the last is a random walk for ≤ 500 points
ROUNDING = 1e-10  # share of the variation that counts as an exact fit
NARROWEST = 100  # widths start at this part of the window, or at the spacing of the points if that is longer
WIDEST = 2.0  # windows: a logistic that is wider is a straight line
PER_WIDTH = 2  # places tried in each width before refining
PLACES, WIDTHS = 21, 7  # of the grids that refine a fit
STEP = 4  # parameters: level, jump, place, width


class Shape(NamedTuple):
    """What a step must look like: see the fields of the same meaning in ``TransitionPolicy``."""

    longest: float
    factor: float
    level_length: float
    level_points: int


@dataclass(frozen=True)
class Window:
    """The times of a curve with the standard errors of its values: what all descriptions of it share."""

    t: np.ndarray
    spread: np.ndarray

    @cached_property
    def x(self) -> np.ndarray:
        """Log time."""
        return np.log(self.t)

    @cached_property
    def axes(self) -> dict[str, np.ndarray]:
        """Log time and time, from 0 to 1 over the window."""
        return {name: (u - u[0]) / (u[-1] - u[0]) for name, u in (("log time", self.x), ("time", self.t))}

    def log_time(self, axis: str, share: np.ndarray) -> np.ndarray:
        """The log time of a place on an axis."""
        if axis == "log time":
            return self.x[0] + share * (self.x[-1] - self.x[0])
        return np.log(np.maximum(self.t[0] + share * (self.t[-1] - self.t[0]), self.t[0] * 1e-3))


class Fit(NamedTuple):
    """Deviances (n, ρ) of n descriptions and their coefficients (n, ρ) for the shape above the level."""

    deviance: np.ndarray
    jump: np.ndarray


@dataclass(frozen=True)
class Likelihood:
    """Deviances of curves against one set of values, for all :data:`MEMORIES` at once."""

    window: Window
    y: np.ndarray
    memories: np.ndarray
    smallest: float

    @staticmethod
    def of(window: Window, y: np.ndarray, memories: np.ndarray = MEMORIES) -> Likelihood:
        level = 1 / window.spread
        scaled = y * level
        above = scaled - (scaled @ level) / (level @ level) * level
        return Likelihood(window, scaled, memories, ROUNDING * float(above @ above) / len(y))

    def applied(self, v: np.ndarray) -> np.ndarray:
        """P v for each ρ, as columns (m, ρ)."""
        inner, both = v.copy(), np.zeros_like(v)
        inner[0] = inner[-1] = 0
        both[1:] += v[:-1]
        both[:-1] += v[1:]
        return v[:, None] + np.outer(inner, self.memories**2) - np.outer(both, self.memories)

    def squares(self, rows: np.ndarray) -> np.ndarray:
        """gᵀ P g for each row g and each ρ."""
        whole = np.einsum("nm,nm->n", rows, rows)
        beside = np.einsum("nm,nm->n", rows[:, 1:], rows[:, :-1])
        inner = whole - rows[:, 0] ** 2 - rows[:, -1] ** 2
        return whole[:, None] + np.outer(inner, self.memories**2) - 2 * np.outer(beside, self.memories)

    def deviances(self, rest: np.ndarray) -> np.ndarray:
        """From sums of squares (…, ρ)."""
        m = len(self.y)
        return m * np.log(np.maximum(rest / m, self.smallest)) - np.log1p(-(self.memories**2))

    def shapes(self, rows: np.ndarray) -> Fit:
        """Level + jump × shape, for each row of shapes."""
        e, y = 1 / self.window.spread, self.y
        rows = rows * e
        pe, py = self.applied(e), self.applied(y)
        ee, ey, yy = e @ pe, e @ py, y @ py
        products = rows @ np.concatenate([pe, py], axis=1)
        ge, gy = products[:, : len(ee)], products[:, len(ee) :]
        gg = self.squares(rows)
        apart = gg - ge**2 / ee
        along = gy - ge * ey / ee
        jump = np.where(apart > 1e-9 * gg, along / np.where(apart > 0, apart, 1), 0)
        return Fit(self.deviances((yy - ey**2 / ee) - jump * along), jump)

    def subspaces(self, designs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Deviance (n,) and fitted values (n, m) of the best member of each space spanned by k rows, (n, k, m)."""
        scaled = designs / self.window.spread
        first, last = scaled[:, :, :1], scaled[:, :, -1:]
        whole = scaled @ scaled.transpose(0, 2, 1)
        inner = whole - first * first.transpose(0, 2, 1) - last * last.transpose(0, 2, 1)
        beside = scaled[:, :, 1:] @ scaled[:, :, :-1].transpose(0, 2, 1)
        rho = self.memories[:, None, None, None]
        matrix = whole + rho**2 * inner - rho * (beside + beside.transpose(0, 2, 1))
        ridge = 1e-12 * np.trace(matrix, axis1=2, axis2=3)[..., None, None] * np.eye(matrix.shape[-1])
        py = self.applied(self.y)
        right = np.moveaxis(scaled @ py, 2, 0)
        solved = np.linalg.solve(matrix + ridge, right[..., None])[..., 0]
        deviance = self.deviances((self.y @ py)[None] - np.sum(solved * right, axis=2).T)
        memory = deviance.argmin(axis=1)
        every = np.arange(len(designs))
        return deviance[every, memory], np.einsum("nk,nkm->nm", solved[memory, every], designs)


@dataclass(frozen=True)
class Stages:
    """The parts of curves (n, m) before a tenth and after nine tenths of their change, in log time and in time.

    ``begin``, ``length`` and ``end`` (axes, n) are parts of the window; ``leaves`` and ``stays`` are the numbers of
    points before and after the change; ``tenth`` and ``nine_tenths`` are log times.
    """

    begin: np.ndarray
    length: np.ndarray
    end: np.ndarray
    leaves: np.ndarray
    stays: np.ndarray
    tenth: np.ndarray
    nine_tenths: np.ndarray

    @staticmethod
    def of(curves: np.ndarray, window: Window) -> Stages:
        m = curves.shape[1]
        first, last = curves.min(axis=1), curves.max(axis=1)
        falls = curves[:, -1] < curves[:, 0]
        first, last = np.where(falls, last, first), np.where(falls, first, last)
        change = np.where(last == first, 1.0, last - first)
        rises = np.where(change > 0, 1.0, -1.0)[:, None]
        upwards = curves * rises
        heights = {part: (first + part * change)[:, None] * rises for part in (0.1, 0.9)}
        leaves = (upwards > heights[0.1]).argmax(axis=1)
        arrives = m - 1 - (upwards < heights[0.9])[:, ::-1].argmax(axis=1)
        row = np.arange(len(curves))

        def crossing(before: np.ndarray, part: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            after = np.minimum(before + 1, m - 1)
            rise = upwards[row, after] - upwards[row, before]
            share = (heights[part][:, 0] - upwards[row, before]) / np.where(rise > 0, rise, 1.0)
            return before, after, np.clip(share, 0, 1)

        tenth, nine = crossing(np.maximum(leaves - 1, 0), 0.1), crossing(arrives, 0.9)
        axes = list(window.axes.values())
        begin, end = ([u[one] + part * (u[two] - u[one]) for u in axes] for one, two, part in (tenth, nine))
        span = window.x[-1] - window.x[0]
        return Stages(
            np.array(begin),
            np.array(end) - np.array(begin),
            1 - np.array(end),
            leaves,
            m - 1 - arrives,
            window.x[0] + span * begin[0],
            window.x[0] + span * end[0],
        )

    def begins(self, shape: Shape) -> np.ndarray:
        """Whether the level before the change is seen, on each axis."""
        return (self.leaves >= shape.level_points) & (self.begin >= shape.level_length * self.length)

    def ends(self, shape: Shape) -> np.ndarray:
        """Whether the level after it is seen."""
        return (self.stays >= shape.level_points) & (self.end >= shape.level_length * self.length)

    def steps(self, shape: Shape) -> np.ndarray:
        """Which curves lead from one level to another, both seen, in a short time, on one of the axes."""
        short = self.length <= shape.longest
        sharp = self.nine_tenths - self.tenth <= math.log(shape.factor)
        return np.any(self.begins(shape) & self.ends(shape) & short, axis=0) & sharp


def logistic(z: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(z * math.log(9)))


def early(z: np.ndarray) -> np.ndarray:
    """Gompertz's curve, which begins at once and settles slowly."""
    return np.exp(-math.log(2) * np.exp(-3.0844 * np.clip(z, -20, 20)))  # log(log 10 / log(10/9))


def late(z: np.ndarray) -> np.ndarray:
    return 1 - early(-z)


def ramp(z: np.ndarray) -> np.ndarray:
    return np.clip(0.5 + 0.8 * z, 0, 1)


RISES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "logistic": logistic,
    "early": early,
    "late": late,
    "ramp": ramp,
}
"""Rises from 0 to 1, half at 0, from a tenth to nine tenths over a length of one."""


@dataclass(frozen=True)
class Sigmoids:
    """Rises of one kind on one axis at many places and widths, both as parts of the window."""

    kind: str
    axis: str
    place: np.ndarray
    width: np.ndarray

    def rows(self, window: Window) -> np.ndarray:
        return RISES[self.kind]((window.axes[self.axis] - self.place[:, None]) / self.width[:, None])

    def half(self, window: Window) -> np.ndarray:
        """The log times of half the change."""
        return window.log_time(self.axis, self.place)


def sigmoids(window: Window) -> Iterator[Sigmoids]:
    """All kinds on all axes, on a grid that is coarse for short rises and covers those that the window cuts off."""
    for axis, u in window.axes.items():
        narrowest = min(max(1 / NARROWEST, float(np.median(np.diff(u)))), 0.2)
        count = math.ceil(math.log(WIDEST / narrowest) / math.log(1.6)) + 1
        places, widths = [], []
        for width in np.geomspace(narrowest, WIDEST, count):
            number = math.ceil(PER_WIDTH * (1 + width) / width) + (12 if width > 0.2 else 2)
            places.append(np.linspace(-width / 2, 1 + width / 2, number))
            widths.append(np.full(number, width))
        for kind in RISES:
            yield Sigmoids(kind, axis, np.concatenate(places), np.concatenate(widths))


@dataclass(frozen=True)
class Refinement:
    """The best member of a family so far, and the grid of places and widths around it that is tried next."""

    family: Sigmoids
    step: bool
    place: float
    width: float
    reach: float
    factor: float = 1.7

    @staticmethod
    def around(family: Sigmoids, start: int, step: bool) -> Refinement:
        width = float(family.width[start])
        return Refinement(family, step, float(family.place[start]), width, width / 2)

    def grid(self) -> Sigmoids:
        places = self.place + self.reach * np.linspace(-1, 1, PLACES)
        widths = self.width * self.factor ** np.linspace(-1, 1, WIDTHS)
        grid = [part.ravel() for part in np.meshgrid(places, widths, indexing="ij")]
        return Sigmoids(self.family.kind, self.family.axis, *grid)

    def next(self, grid: Sigmoids, deviance: np.ndarray, wanted: np.ndarray, limit: float) -> Refinement | None:
        """Closer to the best member of the grid; None once the places that fit as well are resolved."""
        if not wanted.any():
            return None
        deviance = np.where(wanted, deviance, np.inf)
        best = int(deviance.argmin())
        inside = np.flatnonzero(deviance.reshape(PLACES, WIDTHS).min(axis=1) <= deviance[best] + limit)
        edge = inside[0] == 0 or inside[-1] == PLACES - 1
        if len(inside) >= PLACES // 3 and not edge and self.factor < 1.4:
            return None
        share = (inside[-1] - inside[0] + 2) / (PLACES - 1)
        return Refinement(
            self.family,
            self.step,
            float(grid.place[best]),
            float(grid.width[best]),
            self.reach * (2.0 if edge else min(1.0, 1.5 * share)),
            1 + (self.factor - 1) * 0.7,
        )


def jumps(window: Window) -> np.ndarray:
    """Steps between neighbouring points, (m − 1, m)."""
    m = len(window.t)
    return 1.0 * (np.arange(m) > np.arange(m - 1)[:, None])


def smooth_shapes(window: Window) -> dict[str, tuple[int, np.ndarray]]:
    """Power laws, exponentials and decays with the number of their parameters."""
    share = window.t / window.t[-1]
    powers = np.concatenate([-np.geomspace(0.1, 6, 16), np.geomspace(0.1, 12, 24)])
    laws = [share**p if p > 0 else (share / share[0]) ** p for p in powers]
    times = np.geomspace(3e-3, 3, 32) * (1 - share[0])
    decays = [(1 + share / first) ** -power for first in np.geomspace(1e-4, 1, 16) for power in (0.5, 1, 1.5, 2, 3)]
    return {
        "a power law": (3, np.array([np.log(share), *laws])),
        "an exponential relaxation": (3, np.exp(-(share - share[0]) / times[:, None])),
        "exponential growth": (3, np.exp((share - 1) / times[:, None])),
        "a power-law decay": (4, np.array(decays)),
    }


def smooth_spaces(window: Window) -> Iterator[tuple[str, int, np.ndarray]]:
    """Name, number of parameters and designs (n, k, m): lines, bends, oscillations, polynomials and splines."""
    from scipy.interpolate import BSpline

    m = len(window.t)
    for axis, u in window.axes.items():
        centred = 2 * u - 1
        powers = np.polynomial.legendre.legvander(centred, 3).T
        yield f"a straight line in {axis}", 2, powers[None, :2]
        yield f"a parabola in {axis}", 3, powers[None, :3]
        yield f"a cubic in {axis}", 4, powers[None]
        inside = np.linspace(0.05, 0.95, 19)
        inside = inside[(inside > u[1]) & (inside < u[-2])]
        hinges = np.maximum(u - inside[:, None], 0)
        if len(inside):
            yield f"two straight lines in {axis}", 4, np.stack([*np.broadcast_arrays(np.ones(m), u, hinges)], axis=1)
        turns = 2 * np.pi * np.geomspace(0.2, 8, 40)[:, None] * u
        for damping, parameters in ((0.0, 4), (1.5, 5)):
            waves = [np.broadcast_to(1.0, turns.shape), *(np.exp(-damping * u) * f(turns) for f in (np.cos, np.sin))]
            yield f"an oscillation in {axis}", parameters, np.stack(waves, axis=1)
        for count in (5, 7, 9):
            if m >= 4 * count:
                knots = np.quantile(u, np.linspace(0, 1, count - 2))
                knots = np.concatenate([np.zeros(3), knots, np.ones(3)])
                yield f"a smooth curve in {axis}", count, BSpline.design_matrix(u, knots, 3).toarray().T[None]
