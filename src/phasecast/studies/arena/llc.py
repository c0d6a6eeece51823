"""Is λ̂ what it should be? Random spectra, widths, ranks and powers, by closed forms, exact sampling and quadrature."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from phasecast.studies.arena.family import Family, Outcome, log_uniform


@dataclass(frozen=True)
class Bowl:
    """½ Σ h v², whose λ̂ is ½ Σ nβh/(nβh + γ)."""

    spectrum: tuple[float, ...]
    nbeta: float
    gamma: float

    def __str__(self) -> str:
        low, high = min(self.spectrum), max(self.spectrum)
        return f"bowl of {len(self.spectrum)} curvatures {low:g} to {high:g}, nβ = {self.nbeta:g}, γ = {self.gamma:g}"

    @property
    def coefficient(self) -> float:
        h = self.nbeta * np.array(self.spectrum)
        return float(np.sum(h / (h + self.gamma)) / 2)


def bowl(rng: np.random.Generator) -> Bowl:
    """Up to 60 directions with curvatures over up to five decades."""
    size = round(log_uniform(rng, 1, 60))
    spread = rng.uniform(0, 5)
    spectrum = [float(f"{10 ** rng.uniform(-spread, 0):.3g}") for _ in range(size)]
    return Bowl(tuple(spectrum), log_uniform(rng, 50, 1e5), log_uniform(rng, 0.1, 100))


def judge_bowl(problem: Bowl, seed: int) -> Outcome:
    import jax.numpy as jnp

    import phasecast as pc

    h = jnp.asarray(problem.spectrum)
    answer = pc.llc(
        lambda w: jnp.sum(h * w**2) / 2,
        np.zeros(len(problem.spectrum)),
        nbeta=problem.nbeta,
        gamma=problem.gamma,
        seconds=None,
        seed=seed,
        progress=False,
    )
    return Outcome.of(answer, problem.coefficient, str(problem))


@dataclass(frozen=True)
class Product:
    """½‖W_1⋯W_L − W*‖² at factors of one rank."""

    widths: tuple[int, ...]
    rank: int
    nbeta: float
    gamma: float | None

    def __str__(self) -> str:
        where = "γ → 0" if self.gamma is None else f"γ = {self.gamma:g}"
        return f"product {'-'.join(map(str, self.widths))} of rank {self.rank}, nβ = {self.nbeta:g}, {where}"


def product(rng: np.random.Generator) -> Product:
    """Two or three factors of widths up to six."""
    widths = tuple(int(w) for w in rng.integers(1, 7, int(rng.integers(3, 5))))
    rank = int(rng.integers(0, min(widths) + 1))
    return Product(widths, rank, log_uniform(rng, 100, 1e4), log_uniform(rng, 1, 50))


def judge_product(problem: Product, seed: int) -> Outcome:
    import phasecast as pc
    from phasecast.models import matrix_product
    from phasecast.sampling import gibbs_coefficient

    assert problem.gamma is not None
    nbeta, gamma = problem.nbeta, problem.gamma
    truth = gibbs_coefficient(problem.widths, problem.rank, nbeta=nbeta, gamma=gamma, sweeps=4000, seed=seed)
    loss = matrix_product(problem.widths, problem.rank)
    answer = pc.llc(loss, nbeta=nbeta, gamma=gamma, seconds=None, seed=seed, progress=False)
    return Outcome.of(answer, truth, str(problem))


def product_limit(rng: np.random.Generator) -> Product:
    """Small products without logarithms in their limit."""
    from phasecast.coefficients import deep_linear

    while True:
        widths = tuple(int(w) for w in rng.integers(1, 5, int(rng.integers(3, 5))))
        rank = int(rng.integers(0, min(widths) + 1))
        if deep_linear(widths, rank).multiplicity == 1:
            return Product(widths, rank, log_uniform(rng, 1e4, 1e5), None)


def judge_product_limit(problem: Product, seed: int) -> Outcome:
    import phasecast as pc
    from phasecast.coefficients import deep_linear
    from phasecast.models import matrix_product

    loss = matrix_product(problem.widths, problem.rank)
    answer = pc.llc(loss, nbeta=problem.nbeta, gamma="limit", seconds=None, max_grads=2e7, seed=seed, progress=False)
    return Outcome.of(answer, deep_linear(problem.widths, problem.rank), str(problem))


@dataclass(frozen=True)
class Crossing:
    """c x^a y^b, with a weight decay that is sampled and not counted."""

    scale: float
    powers: tuple[int, int]
    nbeta: float
    gamma: float
    decay: float

    def __str__(self) -> str:
        a, b = self.powers
        decay = f", prior {self.decay:g}" if self.decay else ""
        return f"{self.scale:g} x^{a} y^{b}, nβ = {self.nbeta:g}, γ = {self.gamma:g}{decay}"

    def coefficient(self) -> tuple[float, float]:
        """nβE[L] by quadrature on two grids of sinh-spaced points; the second number is how far they are apart."""
        pull = self.gamma + self.nbeta * self.decay
        reach = 12 / math.sqrt(pull)  # the density has fallen by e^−72
        fine, coarse = (self._on_grid(points, reach, pull) for points in (2400, 1700))
        return fine, abs(fine - coarse)

    def _on_grid(self, points: int, reach: float, pull: float) -> float:
        x = np.sinh(np.linspace(0, np.arcsinh(reach * 1e5), points)) * 1e-5
        weight = np.gradient(x)
        weight[0] = x[1] / 2
        a, b = self.powers
        energy = self.nbeta * self.scale * np.multiply.outer(x**a, x**b)
        prior = np.exp(-pull / 2 * x**2) * weight
        density = np.exp(-energy) * np.multiply.outer(prior, prior)
        return float(np.sum(energy * density) / np.sum(density))


def crossing(rng: np.random.Generator) -> Crossing:
    """Even powers up to six; half of the problems have a prior."""
    a, b = (int(power) for power in 2 * rng.integers(1, 4, 2))
    decay = log_uniform(rng, 1e-4, 1e-2) if rng.random() < 0.5 else 0.0
    return Crossing(log_uniform(rng, 0.1, 10), (a, b), log_uniform(rng, 100, 1e5), log_uniform(rng, 0.5, 20), decay)


def judge_crossing(problem: Crossing, seed: int) -> Outcome:
    import phasecast as pc

    a, b = problem.powers
    answer = pc.llc(
        lambda w: problem.scale * w[0] ** a * w[1] ** b,
        np.zeros(2),
        nbeta=problem.nbeta,
        gamma=problem.gamma,
        prior=problem.decay or None,
        seconds=None,
        seed=seed,
        progress=False,
    )
    truth, width = problem.coefficient()
    status, reasons = str(answer.status), "; ".join(answer.reasons)
    return Outcome(status, float(answer.estimate), float(answer.error), truth, width, str(problem), reasons)


@dataclass(frozen=True)
class Saddle:
    """(w² − 1)² in several directions, from its top: w* is no minimum, so that there is no λ there."""

    size: int
    height: float
    nbeta: float
    gamma: float

    def __str__(self) -> str:
        return f"top of {self.size} double wells {self.height:g}(w² − 1)², nβ = {self.nbeta:g}, γ = {self.gamma:g}"


def saddle(rng: np.random.Generator) -> Saddle:
    """One to four double wells, from shallow to deep in units of the temperature."""
    return Saddle(
        int(rng.integers(1, 5)), log_uniform(rng, 0.1, 3), log_uniform(rng, 10, 1e4), log_uniform(rng, 0.1, 5)
    )


def judge_saddle(problem: Saddle, seed: int) -> Outcome:
    import phasecast as pc

    answer = pc.llc(
        lambda w: problem.height * ((w**2 - 1) ** 2).sum(),
        np.zeros(problem.size),
        nbeta=problem.nbeta,
        gamma=problem.gamma,
        seconds=None,
        seed=seed,
        progress=False,
    )
    reasons = "; ".join(answer.reasons)
    return Outcome(
        str(answer.status), float(answer.estimate), float(answer.error), math.nan, 0.0, str(problem), reasons
    )


FAMILIES = (
    Family("llc-bowls", "llc", "closed form ½ Σ nβh/(nβh + γ)", bowl, judge_bowl, 40, 2),
    Family("llc-crossings", "llc", "quadrature in two dimensions", crossing, judge_crossing, 40, 2),
    Family("llc-products", "llc", "exact Gibbs sampling", product, judge_product, 20, 2),
    Family("llc-limit", "llc with gamma='limit'", "exact λ of products", product_limit, judge_product_limit, 24, 1),
    Family(
        "llc-saddles",
        "llc",
        "there is no λ at a point that is no minimum",
        saddle,
        judge_saddle,
        8,
        2,
        refusing="w* is a maximum, so that there is no λ at w*",
    ),
)
