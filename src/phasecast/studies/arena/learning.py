"""Are learning curves, and the time to leave a plateau, those of SGD? Random spectra, sizes and learning rates."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from phasecast.core.statistics import student_error
from phasecast.studies.arena.family import Family, Outcome, log_uniform

INPUTS = 150  # and twice as many
SEEDS = 24
LINEAR_SEEDS = 1600  # ε of one run is skewed, its mean over many is not


@dataclass(frozen=True)
class Curve:
    """A student and a teacher on power-law data, and the α at which they are compared."""

    students: int
    teachers: int
    modes: int
    exponent: float
    lr: float
    sigma: float
    alpha: float
    draw: int

    def __str__(self) -> str:
        return (
            f"ε at α = {self.alpha:g}, K = {self.students}, M = {self.teachers}, {self.modes} eigenvalues with β = "
            f"{self.exponent:g}, η = {self.lr:g}, σ = {self.sigma:g}, drawn with {self.draw}"
        )


def erf_curve(rng: np.random.Generator) -> Curve:
    """One to three erf units; fast enough for the noise of SGD to be seen."""
    students, teachers = (int(count) for count in rng.integers(1, 4, 2))
    modes = int(rng.choice([1, 2, 3, 5, 6, 10]))  # divisors of the numbers of inputs
    return Curve(
        students, teachers, modes, log_uniform(rng, 0.2, 1.5), log_uniform(rng, 0.1, 1), log_uniform(rng, 0.05, 0.5),
        log_uniform(rng, 0.5, 30), int(rng.integers(2**31)),
    )  # fmt: skip


def judge_erf(problem: Curve, seed: int) -> Outcome:
    """The second-order equations from the same overlaps, against SGD extrapolated to infinitely many inputs.

    Twice as many inputs have each weight twice, so that overlaps are the same and what is of order 1/N cancels: it
    depends on them.
    """
    from phasecast import online

    spectrum = online.Spectrum.power_law(problem.modes, problem.exponent)
    weights = online.draw_weights(problem.students, problem.teachers, INPUTS, problem.sigma, problem.draw)
    start = online.OrderParameters.from_weights(*weights, spectrum)
    curve = online.solve(start, spectrum, problem.lr, [problem.alpha], order=2)
    seeds = [seed % 2**20 + number for number in range(SEEDS)]
    means, errors = [], []
    for copies in (1, 2):
        J, B = (np.repeat(part, copies, axis=1) for part in weights)
        runs = online.simulate(
            problem.students, problem.teachers, spectrum, problem.lr, [problem.alpha], inputs=copies * INPUTS,
            seeds=seeds, weights=(J, B),
        )  # fmt: skip
        each = np.array([run.eps[0] for run in runs])
        means.append(float(each.mean()))
        errors.append(student_error(each))
    estimate = float(np.asarray(curve.estimate)[0])
    truth = 2 * means[1] - means[0]
    return Outcome(
        str(curve.status),
        estimate,
        float(np.max(np.asarray(curve.error))),
        truth,
        math.hypot(2 * errors[1], errors[0]),
        str(problem),
        "; ".join(curve.reasons),
    )


def linear_curve(rng: np.random.Generator) -> Curve:
    """One linear unit on 16 to 64 inputs, below the rate at which SGD diverges."""
    modes = int(rng.choice([16, 32, 64]))
    return Curve(
        1, 1, modes, log_uniform(rng, 0.2, 2), log_uniform(rng, 0.02, 0.6), log_uniform(rng, 0.01, 1),
        log_uniform(rng, 0.5, 20), int(rng.integers(2**20)),
    )  # fmt: skip


def judge_linear(problem: Curve, seed: int) -> Outcome:
    """The exact mean of discrete SGD, against the mean of many simulations."""
    from phasecast import online

    spectrum = online.Spectrum.power_law(problem.modes, problem.exponent)
    answer = online.sgd_curve(spectrum, problem.modes, problem.lr, problem.sigma, [problem.alpha])
    runs = online.simulate(
        1, 1, spectrum, problem.lr, [problem.alpha], inputs=problem.modes, sigma=problem.sigma,
        seeds=range(problem.draw, problem.draw + LINEAR_SEEDS), activation="linear",
    )  # fmt: skip
    mean = online.mean_curve(runs)
    return Outcome(
        str(answer.status),
        float(np.asarray(answer.estimate)[0]),
        float(np.max(np.asarray(answer.error))),
        float(mean.eps[0]),
        float(np.asarray(mean.error)[0]),
        str(problem),
        "; ".join(answer.reasons),
    )


@dataclass(frozen=True)
class Escape:
    """Teachers in several modes of a power law; students that start almost alike."""

    teachers: int
    modes: int
    exponent: float
    lr: float
    draw: int

    def __str__(self) -> str:
        return (
            f"escape time of K = M = {self.teachers}, {self.modes} eigenvalues with β = {self.exponent:g}, η = "
            f"{self.lr:g}, teachers drawn with {self.draw}"
        )


def escape(rng: np.random.Generator) -> Escape:
    """Two or three teachers at random."""
    teachers, modes = int(rng.integers(2, 4)), int(rng.choice([1, 2, 5, 10]))
    return Escape(teachers, modes, log_uniform(rng, 0.2, 1), log_uniform(rng, 0.02, 0.3), int(rng.integers(2**31)))


APART = 1e-10  # standard deviation of the students' differences at the start
SMALL = (1e-7, 1e-4)  # share of R*: below, students are still on their way to the plateau; above, growth is not linear
PARTS = 3  # of the window


def judge_escape(problem: Escape, seed: int) -> Outcome:
    """τ from the matrix at the plateau, against the growth of the differences in the solved equations.

    With three teachers two modes grow, at rates that may be a few percent apart, so one slope would mix them. The
    differences X of all students but one at two times give X(t₁) = X(t₀) B, and the largest eigenvalue of B is the
    growth of the faster mode. The error is the widest gap between its rate in the thirds of the window and in all of
    it: the way to the plateau bends the first third, the end of linear growth the last, and in halves the two can
    cancel.
    """
    from phasecast import online

    spectrum = online.Spectrum.power_law(problem.modes, problem.exponent)
    count = problem.teachers
    state = online.OrderParameters.draw(count, count, spectrum, inputs=400, sigma=APART, seed=problem.draw)
    T1, T2 = state.moment(1, spectrum).T, state.moment(2, spectrum).T
    answer = online.escape_time(T1, T2, problem.lr)
    tau, reach = float(answer.value), float(np.mean(online.plateau(T1).R))
    grid = np.linspace(0, 30 * tau, 1800)[1:]
    curve = online.solve(state, spectrum, problem.lr, grid, order=1)
    apart = curve.R1 - curve.R1.mean(axis=1, keepdims=True)
    size = np.abs(apart).max(axis=(1, 2))
    inside = np.flatnonzero((size > SMALL[0] * reach) & (size < SMALL[1] * reach))
    if len(inside) < 20:
        return Outcome("refused", tau, 0.0, math.nan, words=str(problem), reasons="no exponential growth was seen")
    ends = inside[np.linspace(0, len(inside) - 1, PARTS + 1).astype(int)]

    def rate_between(begin: int, end: int) -> float:
        one, other = (apart[time, : count - 1].T for time in (begin, end))
        growth = np.linalg.eigvals(np.linalg.pinv(one) @ other)
        return float(np.log(np.abs(growth).max()) / (grid[end] - grid[begin]))

    rate = rate_between(ends[0], ends[-1])
    gap = max(abs(rate_between(begin, end) - rate) for begin, end in itertools.pairwise(ends))
    return Outcome("ok", tau, 0.0, 1 / rate, gap / rate**2, str(problem))


@dataclass(frozen=True)
class Height:
    """Students that start alike stay alike, so that SGD ends on the symmetric plateau and never leaves it."""

    students: int
    teachers: int
    modes: int
    exponent: float
    lr: float
    draw: int

    def __str__(self) -> str:
        return (
            f"plateau of K = {self.students}, M = {self.teachers}, {self.modes} eigenvalues with β = "
            f"{self.exponent:g}, overlapping teachers drawn with {self.draw}, η ≤ {self.lr:g}"
        )


PLATEAU_INPUTS = 30  # few, so that teachers overlap; the plateau of given weights does not depend on N
PLATEAU_SEEDS = 8
SETTLED = np.linspace(150, 300, 40)  # ηα at which ε is averaged


def height(rng: np.random.Generator) -> Height:
    """Two to four teachers of random lengths and overlaps."""
    students, teachers = int(rng.integers(1, 5)), int(rng.integers(2, 5))
    modes = int(rng.choice([1, 2, 3]))
    return Height(
        students, teachers, modes, log_uniform(rng, 0.2, 1), log_uniform(rng, 0.05, 0.15), int(rng.integers(2**31))
    )


def judge_height(problem: Height, seed: int) -> Outcome:
    """ε of the fixed point, against SGD at η, η/2 and η/4, extrapolated to η = 0.

    The error holds the noise of SGD and half of what the largest rate changes: the difference between the parabola
    through all three and the line through the other two.
    """
    from phasecast import online

    rng = np.random.default_rng(problem.draw)
    mixing = np.eye(problem.teachers) + 0.4 * rng.normal(size=(problem.teachers,) * 2)
    B = mixing @ rng.normal(size=(problem.teachers, PLATEAU_INPUTS))
    J = np.repeat(0.1 * rng.normal(size=(1, PLATEAU_INPUTS)), problem.students, axis=0)
    spectrum = online.Spectrum.power_law(problem.modes, problem.exponent)
    estimate = online.plateau(online.OrderParameters.from_weights(J, B, spectrum).moment(1, spectrum).T).eps
    means, errors = [], []
    for lr in (problem.lr, problem.lr / 2, problem.lr / 4):
        seeds = [seed % 2**20 + number for number in range(PLATEAU_SEEDS)]
        runs = online.simulate(
            problem.students, problem.teachers, spectrum, lr, SETTLED / lr, inputs=PLATEAU_INPUTS, seeds=seeds,
            weights=(J, B),
        )  # fmt: skip
        each = np.array([np.mean(run.eps) for run in runs])
        means.append(each.mean())
        errors.append(student_error(each))
    parabola, line = np.array([1 / 3, -2, 8 / 3]), np.array([0, -1, 2])
    noise = float(np.linalg.norm(parabola * errors))
    truth = float(parabola @ means)
    width = abs(truth - float(line @ means)) / 2
    return Outcome("ok", estimate, 0.0, truth, math.hypot(noise, width), str(problem))


FAMILIES = (
    Family("online-curves", "online.solve, order 2", "SGD, extrapolated in N", erf_curve, judge_erf, 20, 1),
    Family("online-linear", "online.sgd_curve", "mean of 1600 simulations", linear_curve, judge_linear, 100, 2),
    Family("online-plateau", "online.plateau", "SGD, extrapolated in η", height, judge_height, 20, 1),
    Family("online-escape", "online.escape_time", "growth in the solved equations", escape, judge_escape, 30, 1),
)
