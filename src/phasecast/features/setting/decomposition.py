"""Which directions of the latent space are visible to first-order information?

The easy subspace is built up: what E[z | y] spans, then what E[z | y, z along that] spans, until nothing is added. The
rest is the maximal hard subspace: a hard U is orthogonal to every stage, because each conditions on less than
:math:`(y, P_U^\\perp z)`, and the rest is hard itself when nothing is added. Gaussian noise on y changes neither:
smoothing a signed measure with a Gaussian does not make it vanish.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from phasecast.features.curvature.compiled import evaluate_batched
from phasecast.features.setting.expressions import Link

REACH = 6.0  # standard deviations that a grid covers; beyond lies a mass of 2e-9
GRIDS = {1: (4001, 2801), 2: (401, 283), 3: (81, 57)}  # points per axis, for the result and for its check
BINS = {0: (64, 1), 1: (32, 24), 2: (16, 12)}  # of y and of each known direction
FLOOR = 1e-6  # share of variance treated as zero; chosen above the rounding of the bins, not derived


@dataclass(frozen=True, eq=False)
class Split:
    """Orthonormal bases of the easy and the hard latents, as columns.

    ``signals`` are the shares of variance of the easy directions that (y, those before) explain, in that order;
    ``left`` is the largest share in the hard ones; a share below ``resolution`` cannot be distinguished from zero.
    """

    easy: np.ndarray
    hard: np.ndarray
    signals: tuple[float, ...]
    left: float
    resolution: float


def split_latents(link: Link, latents: int) -> Split:
    """The maximal hard subspace of y = h(z), and the easy rest."""
    easy, hard = np.zeros((latents, 0)), np.eye(latents)
    signals: list[float] = []
    left, resolution = 0.0, FLOOR
    while hard.shape[1]:
        fine, coarse = (_explained(link, easy, hard, points) for points in GRIDS[latents])
        resolution = max(FLOOR, 5 * float(abs(fine - coarse).max()))
        shares, axes = np.linalg.eigh(fine)
        visible = shares > resolution
        left = float(abs(shares[~visible]).max(initial=0.0))
        if not visible.any():
            break
        signals += [float(share) for share in shares[visible]]
        turned = hard @ axes
        easy = np.linalg.qr(np.hstack([easy, turned[:, visible]]))[0]
        hard = turned[:, ~visible]
    return Split(_upright(easy), _upright(hard), tuple(signals), left, resolution)


def _explained(link: Link, easy: np.ndarray, hard: np.ndarray, points: int) -> np.ndarray:
    """E[m mᵀ] with m = E[z_H | bin of (y, z_E)] on a grid along the present easy and hard axes, shape (r, r).

    The grid is symmetric under a change of sign along each axis, so that a symmetry along one gives zero exactly.
    """
    line = np.linspace(-REACH, REACH, points)
    density = np.exp(-(line**2) / 2)
    size = len(easy)
    grids = np.meshgrid(*[line] * size, indexing="ij")
    along = np.stack([grid.ravel() for grid in grids], -1)
    weight = np.prod([density[index.ravel()] for index in np.indices((points,) * size)], axis=0)
    weight /= weight.sum()
    heavy = weight > 1e-12 * weight.max()
    along, weight = along[heavy], weight[heavy]
    y = evaluate_batched(link, "", along @ np.hstack([easy, hard]).T)
    known = easy.shape[1]
    of_y, of_easy = BINS[known]
    place = _bins(y, weight, of_y)
    for axis in range(known):
        place = place * of_easy + _bins(along[:, axis], weight, of_easy)
    mass = np.bincount(place, weight)
    means = np.stack([np.bincount(place, weight * along[:, axis]) for axis in range(known, size)], -1)
    full = mass > 0
    return (means[full].T / mass[full]) @ means[full]


def _bins(values: np.ndarray, weight: np.ndarray, count: int) -> np.ndarray:
    """Bins of about equal weight; values equal but for rounding share one."""
    rounded = np.round(values, 9)
    order = np.argsort(rounded, kind="stable")
    levels = np.cumsum(weight[order])
    edges = np.unique(rounded[order][np.searchsorted(levels, np.arange(1, count) / count)])
    return np.searchsorted(edges, rounded, side="right")


def _upright(basis: np.ndarray) -> np.ndarray:
    """Another basis of the same subspace, along the latents where it contains them, largest entries positive."""
    import scipy.linalg

    if not basis.size:
        return basis
    factors: Any = scipy.linalg.qr(np.round(basis @ basis.T, 9), pivoting=True)
    pivoted = factors[0][:, : basis.shape[1]]
    largest = np.argmax(np.round(abs(pivoted), 9), axis=0)
    upright = pivoted * np.where(pivoted[largest, np.arange(basis.shape[1])] < 0, -1.0, 1.0)
    return upright[:, np.argsort(largest, kind="stable")]
