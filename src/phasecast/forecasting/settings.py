"""With which settings is a network trained? What a forecast from a bank of earlier trainings needs to know."""

from __future__ import annotations

import math
from dataclasses import dataclass

from phasecast.core.errors import BadInput, unknown, whole_number
from phasecast.grokking.optimisers import BETA2, OPTIMISERS
from phasecast.grokking.tasks import MODULAR, TASKS

NETWORKS = ("quadratic", "mlp", "transformer")


@dataclass(frozen=True)
class Settings:
    """A training of one network.

    Parameters
    ----------
    task: the rule.
    p: modulus.
    n: training rows, N.
    lr, weight_decay: learning rate, and coefficient of the L2 term.
    width: hidden units.
    beta2: decay of Adam's second moment.
    batch: rows of a minibatch; None for all.
    network, optimiser: as in :mod:`phasecast.grokking`.

    >>> round(Settings("addition", p=17, n=115, lr=1e-3, weight_decay=1e-4, width=85).ratio, 2)
    2.39
    """

    task: str
    p: int
    n: int
    lr: float
    weight_decay: float
    width: int
    beta2: float = BETA2
    batch: int | None = None
    network: str = "quadratic"
    optimiser: str = "adam"

    def __post_init__(self) -> None:
        for name, choices in (("task", TASKS), ("network", NETWORKS), ("optimiser", OPTIMISERS)):
            if getattr(self, name) not in choices:
                raise unknown(name, str(getattr(self, name)), choices)
        for name, least in (("p", 3), ("n", 2), ("width", 1)):
            whole_number(name, getattr(self, name), least)
        if self.batch is not None and whole_number("batch", self.batch, 2) > self.n:
            raise BadInput(f"batch = {self.batch} is larger than the {self.n} training rows", f"use at most {self.n}")
        if self.task in MODULAR and self.n >= self.p**2:
            raise BadInput(f"n = {self.n} leaves none of the {self.p**2} pairs to validate on", "use a smaller n")
        for name in ("lr", "weight_decay"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise BadInput(f"{name} is {value!r}", "use a positive, finite number")
        if isinstance(self.beta2, bool) or not isinstance(self.beta2, int | float) or not 0 < self.beta2 < 1:
            raise BadInput(f"beta2 is {self.beta2!r}", "use a number between 0 and 1")

    @property
    def ratio(self) -> float:
        """N/(p ln p): near 2.5 to 3 is the border between never and late."""
        return self.n / (self.p * math.log(self.p))

    @property
    def width_per_class(self) -> float:
        """Hidden units per class."""
        return self.width / self.p

    @property
    def full_batch(self) -> bool:
        return self.batch is None or self.batch == self.n


@dataclass(frozen=True)
class TableSize:
    """Modulus and training rows of a rule modulo p."""

    p: int
    n: int

    @property
    def ratio(self) -> float:
        """N/(p ln p)."""
        return self.n / (self.p * math.log(self.p))
