"""Do the targets, the Hessian's spectrum and its thresholds have the properties that the slides claim?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasecast.claims.seeds import check_generator
from phasecast.claims.verdicts import all_agree, finding
from phasecast.core.claim import Finding
from phasecast.core.policy import Policy, rule
from phasecast.core.precision import float64
from phasecast.core.results import Comparison, Prediction
from phasecast.core.statistics import mean_of
from phasecast.features.algorithmic import algorithmic_threshold
from phasecast.features.curvature.quadrature import initial_laws
from phasecast.features.hessian_spectrum import hessian_spectrum, stieltjes
from phasecast.features.outliers import outlier_set
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import target

FEATURES = "Wang & Montanari 2026, slides (arXiv 2602.01434)"
GELU = Network("gelu", "pseudo-huber")


@dataclass(frozen=True)
class HessianClaimsPolicy(Policy):
    """How far sampled Hessians may be from the limit, and when a set of δ counts as bounded."""

    trace_width: float = rule(2.0, "systematic width times d: an outlier is one of d eigenvalues and not in the bulk")
    outlier_width: float = rule(1.0, "systematic width times d, of a correction of order 1/d; chosen")
    overlap_width: float = rule(2.0, "systematic width times d, of a correction of order 1/d; chosen")
    derivative_error: float = rule(1e-12, "rounding of two derivatives in double precision")
    direction_error: float = rule(1e-9, "rounding of the grid that splits the latents")
    bounded_end: float = rule(1e3, "a set of δ that ends below is bounded; the search goes to 1e4")


POLICY = HessianClaimsPolicy()


def hessians(delta: float, dimension: int, draws: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Eigenvalues and squared overlaps with Θ* of Hessians at random weights: GeLU, y = z², pseudo-Huber."""
    spectra = []
    for seed in range(draws):
        rng = check_generator(seed)
        X = rng.normal(size=(round(delta * dimension), dimension))
        theta = rng.normal(size=dimension)
        V = X @ (theta / np.linalg.norm(theta))
        with float64():
            G = np.asarray(GELU.curvature(V[:, None], X[:, 0] ** 2))[:, 0]
        values, vectors = np.linalg.eigh(X.T @ (X * G[:, None]) / len(X))
        spectra.append((values, vectors[0] ** 2))
    return spectra


def _check_bulk() -> Finding:
    delta, size, z = 8.0, 300, -0.5
    law = initial_laws(GELU, "z**2")[0]
    traces = [float(np.mean(1 / (values - z))) for values, _ in hessians(delta, size, 8)]
    width = POLICY.trace_width / size
    expected = Prediction(stieltjes(law, delta, z), source=FEATURES, systematic=width, name="α(−0.5)")
    comparisons = [Comparison(expected, mean_of(traces, name="trace of the resolvent"))]
    return finding("the resolvent of 8 Hessians at d = 300", comparisons, printed=all_agree(comparisons))


def _check_outlier() -> Finding:
    delta, size = 8.0, 400
    spectrum = hessian_spectrum(initial_laws(GELU, "z**2")[0], delta)
    drawn = hessians(delta, size, 8)
    lowest = mean_of([values[0] for values, _ in drawn], name="lowest eigenvalue")
    overlap = mean_of([overlap2[0] for _, overlap2 in drawn], name="its overlap²")
    one = spectrum.outliers[0]
    widths = POLICY.outlier_width / size, POLICY.overlap_width / size
    comparisons = [
        Comparison(Prediction(one.value, source=FEATURES, systematic=widths[0], name="outlier"), lowest),
        Comparison(Prediction(one.overlap2, source=FEATURES, systematic=widths[1], name="overlap²"), overlap),
    ]
    words = "outlier and overlap² of 8 Hessians at d = 400, δ = 8, t = 0"
    return finding(words, comparisons, printed=all_agree(comparisons))


def _check_structure() -> Finding:
    import jax
    import jax.numpy as jnp

    rng = check_generator(0)
    x, y, theta = rng.normal(size=(40, 5)), rng.normal(size=40), rng.normal(size=5)
    network = Network("gelu", "pseudo-huber", a=-0.7, b=0.3)

    def risk(weights):
        return network.loss(network.predict((x @ weights)[:, None]), y).mean()

    with float64():
        whole = np.asarray(jax.jit(jax.hessian(risk))(jnp.asarray(theta)))
        G = np.asarray(network.curvature((x @ theta)[:, None], y))[:, 0]
    off = float(abs(whole - (x.T * G) @ x / 40).max())
    words = f"second derivatives of the risk differ from X^T G X/n by {off:.0e}"
    return finding(words, printed=off < POLICY.derivative_error)


def _check_symmetric() -> Finding:
    one, both = target("z1 + z2 + z1*z2"), target("z1*z2")
    angle = float(abs(one.hard[:, 0] @ np.array([1, -1])) / np.sqrt(2))
    words = f"hard direction within {1 - angle:.0e} of (1, −1)/√2; z1·z2, where E[z1+z2|y] = 0, is hard altogether"
    aligned = one.hard.shape[1] == 1 and angle > 1 - POLICY.direction_error
    return finding(words, printed=aligned and both.hard.shape[1] == 2)


def _check_even() -> Finding:
    single = [target(text).hard.shape[1] == 1 for text in ("z**2", "abs(z)", "tanh(z)**2", "minimum(z**2, 3)")]
    several = [target(text).hard.shape[1] == 2 for text in ("z1**2 + z2**2", "tanh(z1)**2 - cos(z2)")]
    odd = target("z**3 - 3*z").hard.shape[1] == 0
    words = "even targets of one and two latents; z³ − 3z, odd, is easy"
    return finding(words, printed=all(single + several) and odd)


def _check_algorithmic() -> Finding:
    best = algorithmic_threshold("z**2")
    words = f"δ_alg of phase retrieval is {float(best):.6f}"
    return finding(words, printed=abs(float(best) - 0.5) <= float(best.systematic))


def _check_interval() -> Finding:
    low, high = outlier_set(initial_laws(Network("gelu", "square"), "tanh(z)**2")[0])[0]
    bounded = high < POLICY.bounded_end
    words = f"GeLU, tanh(z)², square loss, t = 0: outliers for δ from {low:.3f} to {high:.3f} only"
    return finding(words, printed=not bounded, corrected=bounded)


def _check_unbounded() -> Finding:
    square = initial_laws(Network("gelu", "square"), "z**2")[0]
    bounded = initial_laws(GELU, "z**2")[0]
    none, some = outlier_set(square), outlier_set(bounded)
    words = f"square loss: inf G = {square.lowest}, no outlier below the edge; pseudo-Huber: δ*(0) = {some[0][0]:.5f}"
    return finding(words, printed=bool(none), corrected=bool(not none and some))


CHECKS = {
    "features/hessian-structure": _check_structure,
    "features/bulk": _check_bulk,
    "features/outlier-equation": _check_outlier,
    "features/symmetric-link": _check_symmetric,
    "features/even-links": _check_even,
    "features/delta-alg": _check_algorithmic,
    "features/above-threshold": _check_interval,
    "features/any-loss": _check_unbounded,
}
"""The check of each claim; ``claims.toml`` has the statements."""
