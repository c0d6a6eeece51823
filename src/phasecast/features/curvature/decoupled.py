"""What is the law of G after many steps? Gradient descent on labels that are independent of X in the hard directions.

No fixed number of gradient steps learns a hard direction, so that for n, d → ∞ the examples' preactivations have the
same law when the hard latents in the labels are drawn independently of X (Wang & Montanari 2026, "Hard directions: not
learned in O(1) time"; their DMFT has no term for them). At any d such a descent cannot learn them either. A step costs
O(nd) and needs no memory of T² response functions, so that thousands of steps are possible. What remains is the effect
of a finite d, of order 1/√(nd) in averages over one draw and 1/d in their mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phasecast.core.errors import Refused
from phasecast.core.results import Status
from phasecast.features.curvature.curvature_law import CurvatureLaw
from phasecast.features.curvature.per_example import Origin, curvature_law
from phasecast.features.setting.network import Network, blocks
from phasecast.features.setting.target import Target
from phasecast.features.simulation.descent import Data, Descent, descend, draw_data


def decoupled(
    network: Network,
    target: str | Target,
    delta: float,
    lr: float,
    times: Sequence[int],
    *,
    dimension: int = 400,
    seed: int = 0,
    project: bool = False,
) -> list[CurvatureLaw]:
    """The law of G and the hard latents at each of the times, in increasing order, from one draw in d dimensions.

    It is that of the first unit's block; :func:`decoupled_blocks` gives all of them. Raises
    :class:`~phasecast.core.errors.Refused` where descent diverges.

    >>> from phasecast.features.setting.network import Network, blocks
    >>> laws = decoupled(Network("gelu", "pseudo-huber"), "z**2", 8.0, 0.5, [0, 20], dimension=100)
    >>> [law.time for law in laws], laws[1].G.shape
    ([0.0, 20.0], (800,))
    """
    options = {"dimension": dimension, "seed": seed, "project": project}
    return [laws[0] for laws in decoupled_blocks(network, target, delta, lr, times, **options)]


def decoupled_blocks(
    network: Network,
    target: str | Target,
    delta: float,
    lr: float,
    times: Sequence[int],
    *,
    dimension: int = 400,
    seed: int = 0,
    project: bool = False,
) -> list[tuple[CurvatureLaw, ...]]:
    """The laws of every different block of the Hessian at each of the times, from the same draw."""
    data = draw_data(network, target, delta, dimension, seed=seed, decoupled=True)
    laws = []
    step = 0
    for time in times:
        run = descend(data, lr, int(time) - step, record=[int(time) - step], project=project)
        if run.status is Status.REFUSED:
            raise Refused(f"descent diverged before step {time}", "lower the learning rate")
        data, step = _moved(data, run), int(time)
        laws.append(tuple(_law(data, time, block) for block in blocks(network)))
    return laws


def _moved(data: Data, run: Descent) -> Data:
    return Data(data.network, data.target, data.X, data.latents, data.y, run.theta, data.decoupled)


def _law(data: Data, time: float, block: int) -> CurvatureLaw:
    V = (data.X @ data.theta.astype(np.float32)).astype(float)
    return curvature_law(
        data.network, data.target, V, data.y, data.latents,
        Origin("decoupled", float(time), data.delta if time else None, block),
    )  # fmt: skip
