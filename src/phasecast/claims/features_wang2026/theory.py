"""Claims about targets, the Hessian's spectrum and its thresholds, and what we found."""

from __future__ import annotations

import numpy as np

from phasecast.core.claim import ClaimVerdict, Finding
from phasecast.core.precision import float64
from phasecast.core.results import Comparison, Measurement, Prediction, Verdict
from phasecast.features.algorithmic import algorithmic_threshold
from phasecast.features.curvature.quadrature import initial_laws
from phasecast.features.hessian_spectrum import hessian_spectrum, stieltjes
from phasecast.features.outliers import outlier_set
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import target

FEATURES = "Wang & Montanari 2026, slides (arXiv 2602.01434)"
GELU = Network("gelu", "pseudo-huber")  # pyright: ignore[reportArgumentType]


def holds(yes: bool, words: str, *comparisons: Comparison) -> Finding:
    """The finding of a check that a claim passes or not."""
    return Finding(ClaimVerdict.HOLDS if yes else ClaimVerdict.DOES_NOT_HOLD, words, comparisons)


def hessians(delta: float, dimension: int, draws: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Eigenvalues and squared overlaps with Θ* of Hessians at random weights: GeLU, y = z², pseudo-Huber."""
    found = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(round(delta * dimension), dimension))
        theta = rng.normal(size=dimension)
        V = X @ (theta / np.linalg.norm(theta))
        with float64():
            G = np.asarray(GELU.curvature(V[:, None], X[:, 0] ** 2))[:, 0]
        values, vectors = np.linalg.eigh(X.T @ (X * G[:, None]) / len(X))
        found.append((values, vectors[0] ** 2))
    return found


def _measured(values: list[float], name: str) -> Measurement:
    return Measurement(
        float(np.mean(values)), np.std(values, ddof=1) / np.sqrt(len(values)), error_kind="seeds", name=name
    )


def _check_bulk() -> Finding:
    delta, z = 8.0, -0.5
    law = initial_laws(GELU, target("z**2"))[0]
    traces = [float(np.mean(1 / (values - z))) for values, _ in hessians(delta, 300, 8)]
    # one outlier of d eigenvalues is not in the bulk
    expected = Prediction(stieltjes(law, delta, z), source=FEATURES, systematic=2 / 300, name="α(−0.5)")
    comparison = Comparison(expected, _measured(traces, "trace of the resolvent"))
    return holds(comparison.verdict is Verdict.AGREES, "the resolvent of 8 Hessians at d = 300", comparison)


def _check_outlier() -> Finding:
    delta, size = 8.0, 400
    spectrum = hessian_spectrum(initial_laws(GELU, target("z**2"))[0], delta)
    drawn = hessians(delta, size, 8)
    lowest = _measured([values[0] for values, _ in drawn], "lowest eigenvalue")
    overlap = _measured([overlap2[0] for _, overlap2 in drawn], "its overlap²")
    one = spectrum.outliers[0]
    comparisons = (
        Comparison(Prediction(one.value, source=FEATURES, systematic=1 / size, name="outlier"), lowest),
        Comparison(Prediction(one.overlap2, source=FEATURES, systematic=2 / size, name="overlap²"), overlap),
    )
    agree = all(comparison.verdict is Verdict.AGREES for comparison in comparisons)
    return holds(agree, "outlier and overlap² of 8 Hessians at d = 400, δ = 8, t = 0", *comparisons)


def _check_structure() -> Finding:
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    x, y, theta = rng.normal(size=(40, 5)), rng.normal(size=40), rng.normal(size=5)
    network = Network("gelu", "pseudo-huber", a=-0.7, b=0.3)  # pyright: ignore[reportArgumentType]

    def risk(weights):
        return network.loss(network.predict((x @ weights)[:, None]), y).mean()

    with float64():
        whole = np.asarray(jax.jit(jax.hessian(risk))(jnp.asarray(theta)))
        G = np.asarray(network.curvature((x @ theta)[:, None], y))[:, 0]
    off = float(abs(whole - (x.T * G) @ x / 40).max())
    return holds(off < 1e-12, f"second derivatives of the risk differ from X^T G X/n by {off:.0e}")


def _check_symmetric() -> Finding:
    one, both = target("z1 + z2 + z1*z2"), target("z1*z2")
    angle = float(abs(one.hard[:, 0] @ np.array([1, -1])) / np.sqrt(2))
    words = f"hard direction within {1 - angle:.0e} of (1, −1)/√2; z1·z2, where E[z1+z2|y] = 0, is hard altogether"
    return holds(one.hard.shape[1] == 1 and angle > 1 - 1e-9 and both.hard.shape[1] == 2, words)


def _check_even() -> Finding:
    single = [target(text).hard.shape[1] == 1 for text in ("z**2", "abs(z)", "tanh(z)**2", "minimum(z**2, 3)")]
    several = [target(text).hard.shape[1] == 2 for text in ("z1**2 + z2**2", "tanh(z1)**2 - cos(z2)")]
    odd = target("z**3 - 3*z").hard.shape[1] == 0
    return holds(all(single + several) and odd, "even targets of one and two latents; z³ − 3z, odd, is easy")


def _check_algorithmic() -> Finding:
    found = algorithmic_threshold("z**2")
    value = float(found.value)  # pyright: ignore[reportArgumentType]
    return holds(abs(value - 0.5) <= float(found.systematic), f"δ_alg of phase retrieval is {value:.6f}")


def _check_interval() -> Finding:
    low, high = outlier_set(initial_laws(Network("gelu", "square"), target("tanh(z)**2"))[0])[0]  # pyright: ignore[reportArgumentType]
    bounded = high < 1e3
    words = f"GeLU, tanh(z)², square loss, t = 0: outliers for δ from {low:.3f} to {high:.3f} only"
    return Finding(ClaimVerdict.HOLDS_CORRECTED if bounded else ClaimVerdict.HOLDS, words)


def _check_unbounded() -> Finding:
    square = initial_laws(Network("gelu", "square"), target("z**2"))[0]  # pyright: ignore[reportArgumentType]
    bounded = initial_laws(GELU, target("z**2"))[0]
    none, some = outlier_set(square), outlier_set(bounded)
    words = f"square loss: inf G = {square.lowest}, no outlier below the edge; pseudo-Huber: δ*(0) = {some[0][0]:.5f}"
    return Finding(ClaimVerdict.HOLDS_CORRECTED if not none and some else ClaimVerdict.HOLDS, words)


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
