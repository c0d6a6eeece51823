"""How do papers describe a run? A kernel, a step size, a number of burn-in steps and a number of draws."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from phasecast.core.errors import BadInput, whole_number


@dataclass(frozen=True)
class Fixed:
    """Settings that are not adapted; ``llc(…, sampler=Fixed("sgld", step_size=1e-4))``.

    Parameters
    ----------
    kernel: ``"sgld"``, ``"rmsprop-sgld"``, ``"sgnht"``, ``"mclmc"`` or ``"langevin"``.
    step_size: ε; None for a tenth of what the largest curvature at w* allows.
    draws, burn_in: steps of each chain that count, and steps before them.
    batch: rows in a minibatch, a new one at each step; None for all of them.
    anchored: whether minibatch losses and gradients are taken relative to w* on the same rows, which has less noise.
    """

    kernel: str = "sgld"
    step_size: float | None = None
    draws: int = 600
    burn_in: int = 100
    batch: int | None = None
    anchored: bool = False

    def __post_init__(self) -> None:
        size = self.step_size
        if size is not None and not (isinstance(size, int | float | np.number) and 0 < size < math.inf):
            raise BadInput(f"step_size is {self.step_size!r}", "give a positive number")
        whole_number("draws", self.draws, 20)
        whole_number("burn_in", self.burn_in, 0)
        if self.kernel not in FIXED_KERNELS:
            raise BadInput(f"'{self.kernel}' has no fixed step", f"use one of {', '.join(FIXED_KERNELS)}")


FIXED_KERNELS = ("sgld", "rmsprop-sgld", "sgnht", "mclmc", "langevin")
