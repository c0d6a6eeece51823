"""Where does λ̂ = 4.474 ± 0.016 of reduced rank regression at n = 1000 come from? From these lines, not from phasecast.

    python tests/reference/reduced_rank_slope.py

y = BAx + N(0, I) with 3 × 3 factors, x ~ N(0, I) and independent N(0, 1) priors; truths are products of two normal
matrices. HMC with its gradients written out samples exp(−β nL) at five β around 1/log n, on many data sets at once, and
λ̂ is the slope of E[nL] over 1/β, by least squares. The limit for n → ∞ is 9/2. The library samples with Gibbs updates.
"""

from __future__ import annotations

import math

import numpy as np

N, SETS, SIZE = 1000, 200, 3
WARMUP, DRAWS, LEAPS = 500, 4000, 12
MIDDLE, WIDTH = 1 / math.log(N), 1 / math.sqrt(2 * math.log(N))
BETAS = MIDDLE * np.linspace(1 - WIDTH, 1 + WIDTH, 5)


def data(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """XᵀX and the least-squares map of every data set, and factors (2, set, 3, 3) of its truth."""
    factors = rng.normal(size=(2, SETS, SIZE, SIZE))
    x, noise = rng.normal(size=(2, SETS, N, SIZE))
    xx = x.transpose(0, 2, 1) @ x
    return xx, factors[1] @ factors[0] + noise.transpose(0, 2, 1) @ x @ np.linalg.inv(xx), factors


def energies(seed: int = 0) -> np.ndarray:
    """E[nL] above its minimum by set and β, from one walker each."""
    rng = np.random.default_rng(seed)
    xx, best, factors = data(rng)
    xx, best, beta = xx[:, None], best[:, None], BETAS[:, None, None]
    A, B = (np.repeat(one[:, None], len(BETAS), axis=1) for one in factors)
    step = np.full((SETS, len(BETAS), 1, 1), 0.01)

    def slopes(A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """nL, and the gradients of β nL + (|A|² + |B|²)/2."""
        off = B @ A - best
        pull = off @ xx
        return (off * pull).sum((2, 3)) / 2, beta * B.mT @ pull + A, beta * pull @ A.mT + B

    def total(loss: np.ndarray, *squared: np.ndarray) -> np.ndarray:
        return BETAS * loss + sum((one**2).sum((2, 3)) for one in squared) / 2

    mean = np.zeros((SETS, len(BETAS)))
    loss, a, b = slopes(A, B)
    for draw in range(WARMUP + DRAWS):
        p, q = rng.normal(size=(2, *A.shape))
        before = total(loss, A, B, p, q)
        length = step * rng.uniform(0.7, 1.3, size=step.shape)  # no trajectory is a whole period
        moved_loss, moved_A, moved_B, c, d = loss, A, B, a, b
        for _ in range(LEAPS):
            p, q = p - length / 2 * c, q - length / 2 * d
            moved_A, moved_B = moved_A + length * p, moved_B + length * q
            moved_loss, c, d = slopes(moved_A, moved_B)
            p, q = p - length / 2 * c, q - length / 2 * d
        odds = np.nan_to_num(np.exp(np.minimum(before - total(moved_loss, moved_A, moved_B, p, q), 0)))
        taken = rng.random(odds.shape) < odds
        loss = np.where(taken, moved_loss, loss)
        A, B, a, b = (np.where(taken[..., None, None], *pair) for pair in ((moved_A, A), (moved_B, B), (c, a), (d, b)))
        if draw < WARMUP:
            step *= np.exp((odds - 0.8)[..., None, None] / math.sqrt(draw + 1))
        else:
            mean += loss / DRAWS
    return mean


if __name__ == "__main__":
    with np.errstate(over="ignore", invalid="ignore"):  # too long a step of the warm-up diverges and is rejected
        slope = np.polyfit(1 / BETAS, energies().T, 1)[0]
    print(f"slope of E[nL] over 1/β: {slope.mean():.4f} ± {slope.std(ddof=1) / math.sqrt(SETS):.4f}, {SETS} data sets")
