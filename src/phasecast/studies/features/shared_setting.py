"""What do the recipes about feature learning share? A network, a target, a learning rate, and work piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from phasecast.lab.spec import Spec

if TYPE_CHECKING:
    from phasecast.features.setting.network import Network
    from phasecast.features.setting.target import Target


State = Mapping[str, int] | None
"""How many pieces of work are done; None at the start."""


class Setting(Spec):
    """What is learned, by which unit, how fast; with ``scale = "paper"`` in the dimensions of the slides."""

    PAPER: ClassVar[Mapping[str, Any]] = {}
    """The defaults of ``scale = "paper"``."""

    scale: Literal["laptop", "paper"] = Field(
        default="laptop", description="defaults: laptop takes minutes; paper uses large dimensions and takes hours"
    )
    target: str = Field(default="z**2", description="the labels as an expression in z, or z1, z2, z3")
    noise: float = Field(default=0.0, ge=0, description="standard deviation of noise on the labels")
    activation: str = Field(default="gelu", description="of the unit")
    loss: str = Field(default="pseudo-huber", description="of a prediction and a label")
    a: float = Field(default=1.0, description="the unit's weight in the second layer")
    b: float = Field(default=0.0, description="the unit's bias")
    lr: float = Field(default=0.5, gt=0, description="learning rate η")

    @model_validator(mode="before")
    @classmethod
    def _to_scale(cls, values: object) -> object:
        if isinstance(values, Mapping) and values.get("scale") == "paper":
            return {**cls.PAPER, **values}
        return values

    @model_validator(mode="after")
    def _known(self) -> Self:
        self.network()
        self.aim()
        return self

    def network(self, **changes: str | float) -> Network:
        """One unit of this setting, with some of activation, loss, a and b changed."""
        from phasecast.features.setting.network import Network

        chosen: dict[str, Any] = {"activation": self.activation, "loss": self.loss, "a": self.a, "b": self.b, **changes}
        return Network(**chosen)

    def aim(self, expression: str | None = None) -> Target:
        """The target, or another one with the same noise."""
        from phasecast.features.setting.target import target

        return target(expression or self.target, noise=self.noise)


def rising(name: str, values: tuple[float, ...]) -> None:
    """Bad input unless the values are strictly increasing."""
    if list(values) != sorted(set(values)):
        raise ValueError(f"{name} must rise; give each once, the smallest first")


def check_hard(target: Target) -> None:
    """Bad input unless the target has a direction that the first steps do not find."""
    if not target.hard.shape[1]:
        raise ValueError(f"'{target.name}' has no hard direction; use an even one, like z**2 or z1*z2")


def log_times(steps: int, count: int) -> tuple[int, ...]:
    """0 and about ``count`` steps, evenly spaced in log time, up to ``steps``."""
    return tuple(sorted({0, *np.unique(np.rint(np.geomspace(1, steps, count)).astype(int)).tolist()}))


def remaining(state: State, total: int) -> range:
    """The numbers of the pieces of work that are left."""
    return range(0 if state is None else int(state["done"]), total)


def one_row(**values: ArrayLike) -> dict[str, np.ndarray]:
    """One row of a table."""
    return {name: np.asarray(value)[None] for name, value in values.items()}
