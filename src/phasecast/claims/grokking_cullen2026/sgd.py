"""What Cullen et al. say about the temperature of SGD, and what SGD does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phasecast.claims.grokking_cullen2026.networks import GROKKING
from phasecast.coefficients.sgd_temperature import sgd_temperature
from phasecast.core.claim import Claim, ClaimVerdict, Finding
from phasecast.core.results import Comparison, Measurement, Prediction, Verdict

ROWS, INPUTS, BATCH, LR = 64, 4, 16, 0.02
STEPS, BURN_IN, CHAINS = 1200, 400, 400


def regression(scales: Any, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs whose second moments are exactly ``scales``², noisy outputs, and the least-squares weights."""
    rng = np.random.default_rng(seed)
    x = np.linalg.qr(rng.standard_normal((ROWS, INPUTS)))[0] * math.sqrt(ROWS) * np.asarray(scales)
    y = x.sum(1) + rng.standard_normal(ROWS)
    return x, y, np.linalg.lstsq(x, y, rcond=None)[0]


def half_square(w: Any, data: Any) -> Any:
    x, y = data
    return ((x @ w - y) ** 2).mean() / 2


def run_sgd(x: np.ndarray, y: np.ndarray, w: np.ndarray, lr: float, batch: int) -> np.ndarray:
    """Mean squares of w − w* along each input, of many independent chains of SGD on a linear model (chains, inputs)."""
    rng = np.random.default_rng(1)
    offsets, squares = np.zeros((CHAINS, len(w))), np.zeros((CHAINS, len(w)))
    residuals = y - x @ w
    for step in range(STEPS):
        rows = np.argpartition(rng.random((CHAINS, len(x))), batch - 1, axis=1)[:, :batch]
        errors = np.einsum("cbi,ci->cb", x[rows], offsets) - residuals[rows]
        offsets = offsets - lr / batch * np.einsum("cb,cbi->ci", errors, x[rows])
        if step >= BURN_IN:
            squares += offsets**2 / (STEPS - BURN_IN)
    return squares


def _over_chains(values: np.ndarray, name: str) -> Measurement:
    return Measurement(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values)), name=name)


def _check_sgd_temperature() -> Finding:
    """SGD on regression with white inputs, and with inputs of different sizes, where C = σ²H to leading order."""
    comparisons = []
    for scales in ([1.0, 1.0, 1.0, 1.0], [0.5, 0.5, 1.0, 1.5]):
        x, y, w = regression(scales)
        h = np.square(scales)
        T = sgd_temperature(half_square, w, (x, y), LR, BATCH)
        value, error = float(np.asarray(T.value)), float(T.error)
        squares = run_sgd(x, y, w, LR, BATCH)
        loss = _over_chains(squares @ h / 2, "E[L] − L* of SGD")
        kind = "white inputs" if min(scales) == max(scales) else "unequal inputs"
        ours = Prediction(INPUTS / 2 * value, systematic=INPUTS / 2 * error, source="corrected")
        # the printed 2TΣ = η(n−B)/(2B)·C is (n−1)/2 times ηV
        printed = Prediction((ROWS - 1) / 2 * INPUTS / 2 * value, source="as printed")
        soft = _over_chains(squares[:, 0] * h[0], "h E[(w − w*)²] along the softest direction")
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
        f"{c.name}: {float(np.asarray(c.measurement.estimate)):.3g} ± {float(c.measurement.error):.1g}, "
        f"predicted {c.prediction.words()}"
        for c in comparisons
    )
    return Finding(
        ClaimVerdict.HOLDS_CORRECTED if corrected else ClaimVerdict.NOT_REPRODUCED, words, tuple(comparisons)
    )


CLAIMS = (
    Claim(
        id="grokking/sgd-temperature",
        source=f"{GROKKING}, appendix C",
        statement=(
            "The noise of a minibatch has covariance (n−B)/(B−1)·C, SGD follows dw = −∇L dt + √(2TΣ) dW with "
            "T = η(n−B)/(2B) and Σ = C/2, and samples exp(−L/T) = p(D|w)^(1/T) p(w)."
        ),
        verdict=ClaimVerdict.HOLDS_CORRECTED,
        why=(
            "For a mean loss the covariance without replacement is (n−B)/(B(n−1))·C, so that the printed 2TΣ is "
            "(n−1)/2 times too large. T ∝ η/B at B ≪ n stands. exp(−L/T) needs noise that is equal in all directions; "
            "in regression it is σ²H, and SGD then spreads equally in all directions instead. And L is a mean over n "
            "terms, so that the power of the likelihood is 1/(nT), and that of the prior 1/T."
        ),
        ours=(
            "E[L] − L* = T·d/2 with T = η/2·(n−B)/(B(n−1))·tr C/d, for any Hessian, to first order in η; SGD samples "
            "exp(−L/T), at nβ = 1/T, where C is a multiple of the identity."
        ),
        counterexample="""
import numpy as np
rng = np.random.default_rng(0)
n, B, lr = 50, 10, 0.1
x = rng.standard_normal(n)
x *= np.sqrt(2) / x.std()  # L = mean (w − x)²/2 has C = 2, so that Σ = C/2 = 1
w = np.full(4000, x.mean())  # chains of SGD; where they sample exp(−L/T), T is their variance
for _ in range(100):
    w -= lr * (w - rng.permuted(np.tile(x, (len(w), 1)), axis=1)[:, :B].mean(axis=1))
print(f"T is {w.var():.4f}; printed {lr * (n - B) / (2 * B):.4f}, corrected {lr * (n - B) / (B * (n - 1)):.4f}")
assert abs(w.var() / (lr * (n - B) / (B * (n - 1))) - 1) < 0.15
""".strip(),
        check=_check_sgd_temperature,
    ),
)
