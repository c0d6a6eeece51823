"""Does SGD have the temperature that Cullen et al. give it? Chains of SGD on regression give the answer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from phasecast.claims.seeds import check_generator
from phasecast.claims.verdicts import finding
from phasecast.coefficients.sgd_temperature import sgd_temperature
from phasecast.core.claim import Finding
from phasecast.core.results import Comparison, Prediction, Verdict
from phasecast.core.statistics import mean_of
from phasecast.core.types import Array

ROWS, INPUTS, BATCH, LR = 64, 4, 16, 0.02  # small enough for many chains, lr far below 2/h
STEPS, BURN_IN, CHAINS = 1200, 400, 400  # the softest direction relaxes in 1/(lr·h) = 200 steps


def regression(scales: Sequence[float], seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs whose second moments are exactly ``scales``², noisy outputs, and the least-squares weights."""
    rng = check_generator(seed)
    x = np.linalg.qr(rng.standard_normal((ROWS, INPUTS)))[0] * math.sqrt(ROWS) * np.asarray(scales)
    y = x.sum(1) + rng.standard_normal(ROWS)
    return x, y, np.linalg.lstsq(x, y, rcond=None)[0]


def half_square(w: Array, data: tuple[Array, Array]) -> Array:
    x, y = data
    return ((x @ w - y) ** 2).mean() / 2


def run_sgd(x: np.ndarray, y: np.ndarray, w: np.ndarray, lr: float, batch: int) -> np.ndarray:
    """Mean squares of w − w* along each input, of many independent chains of SGD on a linear model (chains, inputs)."""
    rng = check_generator(1)
    offsets, squares = np.zeros((CHAINS, len(w))), np.zeros((CHAINS, len(w)))
    residuals = y - x @ w
    for step in range(STEPS):
        rows = np.argpartition(rng.random((CHAINS, len(x))), batch - 1, axis=1)[:, :batch]
        errors = np.einsum("cbi,ci->cb", x[rows], offsets) - residuals[rows]
        offsets = offsets - lr / batch * np.einsum("cb,cbi->ci", errors, x[rows])
        if step >= BURN_IN:
            squares += offsets**2 / (STEPS - BURN_IN)
    return squares


def _check_sgd_temperature() -> Finding:
    """SGD on regression with white inputs, and with inputs of different sizes, where C = σ²H to leading order."""
    comparisons = []
    for scales in ([1.0, 1.0, 1.0, 1.0], [0.5, 0.5, 1.0, 1.5]):
        x, y, w = regression(scales)
        h = np.square(scales)
        T = sgd_temperature(half_square, w, (x, y), LR, BATCH)
        value, error = float(T), float(T.error)
        squares = run_sgd(x, y, w, LR, BATCH)
        loss = mean_of(squares @ h / 2, "mcse", "E[L] − L* of SGD")
        kind = "white inputs" if min(scales) == max(scales) else "unequal inputs"
        ours = Prediction(INPUTS / 2 * value, systematic=INPUTS / 2 * error, source="corrected")
        # the printed 2TΣ = η(n−B)/(2B)·C is (n−1)/2 times ηV
        printed = Prediction((ROWS - 1) / 2 * INPUTS / 2 * value, source="as printed")
        soft = mean_of(squares[:, 0] * h[0], "mcse", "h E[(w − w*)²] along the softest direction")
        one = Prediction(value, systematic=error, source="exp(−L/T)")
        comparisons += [
            Comparison(ours, loss, name=f"E[L] − L*, {kind}, corrected"),
            Comparison(printed, loss, name=f"E[L] − L*, {kind}, as printed"),
        ]
        if kind == "unequal inputs":
            comparisons.append(Comparison(one, soft, name=f"h E[(w − w*)²], softest direction, {kind}, one T"))
    verdicts = [comparison.verdict for comparison in comparisons]
    corrected = verdicts == [Verdict.AGREES, Verdict.DIFFERS] * 2 + [Verdict.DIFFERS]
    words = "; ".join(
        f"{c.name}: {c.measurement.estimate:.3g} ± {float(c.measurement.error):.1g}, predicted {c.prediction.words()}"
        for c in comparisons
    )
    printed = verdicts[1] is verdicts[3] is Verdict.AGREES
    return finding(words, comparisons, printed=printed, corrected=corrected)


CHECKS = {
    "grokking/sgd-temperature": _check_sgd_temperature,
}
"""The check of each claim; ``claims.toml`` has the statements."""
