"""When does SGD leave the symmetric plateau? From the overlaps so far, the settings, and the noise still to come.

On the plateau the differences between students, r_in = R_in − mean over students, grow as dr/dα = Gr with the matrix G
of :func:`phasecast.online.escape_rates`; ε leaves as r², with τ/2. How long it takes from a size |r| to the end is a
function of |r| (students that differ more have less time to go), and one solution of the order-parameter equations
gives it at any learning rate: the *face* of the clock. What a run with N inputs adds is noise: a step changes R_in by
(η√M/K) g'(x_i)(ζ − σ) z_n/N, z = ξᵀΣB/√N, so that per unit of α

.. math:: dr = \\tfrac{r}{\\tau}\\,d\\alpha + \\sqrt{D/N}\\,dW, \\qquad
          r\\,e^{-\\alpha/\\tau} \\to r_{now} + \\mathcal N\\bigl(0,\\, D\\tau/2N\\bigr)

for what lies ahead, if D stays. D is the covariance of those increments for Gaussian fields with the overlaps of now;
it is proportional to the squared distance between students, so the part of it that comes from r grows like r² and
adds D·(time left) instead of Dτ/2. The forecast is read off the face for draws of that sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import erf

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.policy import Policy, rule
from phasecast.forecasting.result import Forecast
from phasecast.online.curve_result import Curve
from phasecast.online.dynamics import solve
from phasecast.online.order_parameters import OrderParameters
from phasecast.online.plateau import Plateau, escape_rates, plateau, response
from phasecast.online.spectrum import Spectrum

TIER = "overlaps + settings"


@dataclass(frozen=True)
class EscapeClockPolicy(Policy):
    """How the clock is read."""

    left_below: float = rule(0.5, "of the plateau's height ε*: ε falls fast there, so its noise moves the date little")
    lengths: tuple[float, ...] = rule((15.0, 45.0, 135.0), "in τ: how far the equations are solved before giving up")
    points: int = rule(600, "of the solution: 40 per τ of the shortest length")
    fields: int = rule(4000, "Gaussian fields for D: its relative error is then about 3%")
    draws: int = rule(2000, "of the noise ahead: the ends of an 80% interval are then within 3% of its width")
    near: float = rule(1.5, "ε over ε* above which the plateau is not reached; second order in η is within 1 + η/2")


POLICY = EscapeClockPolicy()


@dataclass(frozen=True, eq=False)
class EscapeClock:
    """The clock of one training: solved once, read as often as its overlaps are looked at."""

    setting: _Setting
    face: ClockFace | None

    @classmethod
    def of(cls, start: OrderParameters, spectrum: Spectrum, lr: float, *, inputs: int) -> EscapeClock:
        """From the overlaps before training; ``inputs`` is N, which sets the noise."""
        whole_number("inputs", inputs, 2)
        if start.shape[1] < 2:
            raise BadInput("a single student has no plateau to leave", "use two or more students")
        setting = _Setting.of(start, spectrum, lr, inputs)
        return cls(setting, ClockFace.of(start, spectrum, lr, setting))

    def forecast(self, observed: Curve | None = None, *, coverage: float = 0.8, seed: int = 0) -> Forecast:
        """The α at which ε falls below half of its plateau, with an interval.

        ``observed`` is the run so far with its overlaps R1 and Q1, as :func:`phasecast.online.simulate` returns it;
        without it the forecast is made where the equations reach the plateau. ``seed`` draws the noise ahead.
        """
        setting, face = self.setting, self.face
        height = setting.at.eps
        common = {"quantity": "escape", "coverage": coverage, "tier": TIER}
        if setting.directions > 1:
            return Forecast.refused(
                f"differences grow in {setting.directions} directions at different rates, and the clock holds too few "
                "outcomes then; use two teachers, or solve the equations from here (phasecast.online.solve)",
                **common,
            )
        if face is None:
            longest = POLICY.lengths[-1] * setting.tau
            reason = f"the equations do not leave the plateau within α = {longest:.4g}; use students that differ more"
            return Forecast.refused(reason, **common)
        if observed is None:
            at, R, Q, waited = face.entry, face.R, face.Q, face.entry
        else:
            at, R, Q, waited = float(observed.alpha[-1]), observed.R1[-1], observed.Q1[-1], 0.0
            eps = float(np.asarray(observed.estimate)[-1])
            if eps > POLICY.near * height:
                reason = f"ε is {eps:.3g}, the plateau is at {height:.3g}: it is not reached; forecast again later"
                return Forecast.refused(reason, made_at=at, **common)
            if eps < POLICY.left_below * height:
                reason = f"ε is {eps:.3g}, below half of the plateau at {height:.3g}: it has left already"
                return Forecast.refused(reason, made_at=at, **common)
        rng = np.random.default_rng(seed)
        apart = R - R.mean(axis=0)
        now = setting.growing(apart).ravel()
        ahead = float(face.remaining(np.array([np.linalg.norm(now)]))[0])
        grown = setting.grown_share(apart, Q)
        scatter = setting.scatter(R, Q, rng) * ((1 - grown) * setting.tau / 2 + grown * ahead + waited)
        values, vectors = np.linalg.eigh(scatter)
        noise = rng.standard_normal((POLICY.draws, len(now))) * np.sqrt(np.clip(values, 0, None)) @ vectors.T
        left = face.remaining(np.linalg.norm(now + noise, axis=1))
        tail = (1 - coverage) / 2
        low, middle, high = (at + float(np.quantile(left, share)) for share in (tail, 0.5, 1 - tail))
        regime = f"students on the symmetric plateau, τ = {setting.tau:.4g}"
        return Forecast(middle, regime, low=low, high=high, made_at=at, **common)


@dataclass(frozen=True, eq=False)
class _Setting:
    """The plateau of these teachers: how differences between students grow on it, and how steps scatter them."""

    T1: np.ndarray
    T2: np.ndarray
    T3: np.ndarray
    lr: float
    inputs: int
    students: int
    at: Plateau
    tau: float
    projection: np.ndarray
    """(M, M): keeps the growing part of a row of differences."""
    directions: int
    """In how many directions differences grow: one less than the teachers."""

    @classmethod
    def of(cls, start: OrderParameters, spectrum: Spectrum, lr: float, inputs: int) -> _Setting:
        T1, T2, T3 = (start.moment(order, spectrum).T for order in (1, 2, 3))
        students, at = start.shape[1], plateau(T1)
        rates, vectors = np.linalg.eig(lr / students * T2 @ response(T1, at))
        grows = np.real(rates) > 0
        if not grows.any():
            raise BadInput("nothing grows on this plateau", "use teachers that differ")
        projection = np.real((vectors * grows) @ np.linalg.inv(vectors))
        tau = float(1 / escape_rates(T1, T2, lr, students)[0])
        return cls(T1, T2, T3, lr, inputs, students, at, tau, projection, int(grows.sum()))

    def growing(self, apart: np.ndarray) -> np.ndarray:
        """The growing part of differences (…, K, M)."""
        return apart @ self.projection.T

    def grown_share(self, apart: np.ndarray, Q: np.ndarray) -> float:
        """The share of the distance between students that lies along the teachers, where it grows."""
        centred = Q - Q.mean(axis=0) - Q.mean(axis=1, keepdims=True) + Q.mean()
        whole, along = float(np.trace(centred)), float(np.trace(apart @ np.linalg.solve(self.T1, apart.T)))
        return min(max(along / whole, 0.0), 1.0) if whole > 0 else 1.0

    def scatter(self, R: np.ndarray, Q: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """D/N: the covariance per unit of α of the growing differences, flattened."""
        K, M = R.shape
        ahead = np.tile(self.at.moment(self.T2)[0], (K, 1))  # R^(2) on the plateau
        gram = np.block([[Q, R, ahead], [R.T, self.T1, self.T2], [ahead.T, self.T2, self.T3]])
        values, vectors = np.linalg.eigh((gram + gram.T) / 2)
        root = vectors * np.sqrt(np.clip(values, 0, None))
        x, y, z = np.split(rng.standard_normal((POLICY.fields, len(gram))) @ root.T, [K, K + M], axis=1)
        half = math.sqrt(0.5)
        gap = erf(y * half).sum(axis=1) / math.sqrt(M) - math.sqrt(M) / K * erf(x * half).sum(axis=1)
        slope = math.sqrt(2 / math.pi) * np.exp(-(x**2) / 2)
        moved = self.lr * math.sqrt(M) / K * (slope - slope.mean(axis=1, keepdims=True)) * gap[:, None]
        change = self.growing(moved[:, :, None] * z[:, None, :]).reshape(len(x), -1)
        return change.T @ change / len(x) / self.inputs


@dataclass(frozen=True, eq=False)
class ClockFace:
    """How much longer it takes from a size of the differences on; and the state where the plateau is reached."""

    sizes: np.ndarray
    """ln|r|, increasing."""
    times: np.ndarray
    """α from there to the end."""
    tau: float
    entry: float
    R: np.ndarray
    Q: np.ndarray

    @classmethod
    def of(cls, start: OrderParameters, spectrum: Spectrum, lr: float, setting: _Setting) -> ClockFace | None:
        """From one solution of second order; None if it never leaves."""
        for length in POLICY.lengths:
            grid = np.linspace(0, length * setting.tau, POLICY.points)
            solved = solve(start, spectrum, lr, grid, order=2)
            eps = np.asarray(solved.estimate)
            reached = np.flatnonzero(eps <= POLICY.near * setting.at.eps)
            below = np.flatnonzero(eps < POLICY.left_below * setting.at.eps)
            if below.size and reached.size:
                return cls._from(solved, int(reached[0]), int(below[0]), setting)
        return None

    @classmethod
    def _from(cls, solved: Curve, first: int, last: int, setting: _Setting) -> ClockFace:
        apart = setting.growing(solved.R1 - solved.R1.mean(axis=1, keepdims=True))
        sizes = np.log(np.linalg.norm(apart.reshape(len(apart), -1), axis=1) + 1e-300)
        end = solved.first_below(POLICY.left_below * setting.at.eps)
        shown = sizes[first : last + 1]
        rising = np.maximum.accumulate(shown)
        kept = np.append(True, np.diff(rising) > 0)
        begin = first + int(np.argmin(shown))  # before it the start is forgotten, not the plateau left
        times = np.maximum(end - solved.alpha[first : last + 1], 0.0)
        kept &= np.arange(first, last + 1) >= begin
        return cls(
            shown[kept], times[kept], setting.tau, float(solved.alpha[begin]), solved.R1[begin], solved.Q1[begin]
        )

    def remaining(self, size: np.ndarray) -> np.ndarray:
        """α still to go for differences of a size; smaller ones than any on the face grow with τ first."""
        level = np.log(size + 1e-300)
        inside = np.interp(level, self.sizes, self.times)
        return inside + self.tau * np.maximum(self.sizes[0] - level, 0.0)
