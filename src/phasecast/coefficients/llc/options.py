"""What can be asked of λ̂? Every option once, for the library, the command line, the recipe and PyTorch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from phasecast.core.bounds import check_bounds
from phasecast.core.errors import BadInput, unknown, whole_number
from phasecast.sampling import KERNELS, Fixed, Kernel
from phasecast.sampling.backends.protocol import Minibatch
from phasecast.sampling.backends.selection import Only, check_only
from phasecast.sampling.kernels.fixed_settings import FIXED_KERNELS

StorableSampler = Literal["auto", "hmc", "mala", "langevin", "sgld", "rmsprop-sgld", "sgnht"]
"""Kernels whose state is plain arrays, so that a run can be stored; those of blackjax have states of their own."""

Patterns: TypeAlias = str | tuple[str, ...] | None
"""What ``only`` can be where it is stored or given on a command line: patterns, without masks."""


class LLCOptions(BaseModel):
    """How λ̂ is sampled. A new option is a field here, a line in :class:`LLCKeywords`, and a keyword of ``llc``."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)

    n: int | None = Field(
        default=None, description="number of terms in the mean loss; defaults to the rows of the data"
    )
    nbeta: float | None = Field(default=None, description="inverse temperature nβ; defaults to n / log n")
    gamma: float | Literal["limit"] | None = Field(
        default=None,
        description='strength γ of the localisation at w*; defaults to what radius says; "limit" extrapolates to γ → 0',
    )
    radius: float = Field(
        default=0.3, description="radius of the neighbourhood over |w*|: without gamma, γ = d / (radius² |w*|²)"
    )
    prior: float | None = Field(
        default=None,
        description="coefficient s of the L2 term s/2 |w|² of the training; sampled with the loss, not counted",
    )
    only: Only = Field(
        default=None,
        description='patterns for the names of the parameters that move, "layers.0.*"; in Python, masks too',
    )
    sampler: str | Kernel | Fixed = Field(
        default="auto", description="auto, the name of a kernel, a kernel, or Fixed(…)"
    )
    chains: int | None = Field(
        default=None, description="number of chains; defaults to 1 to 8 by the size of the model"
    )
    target: float = Field(default=0.05, description="standard error to reach, relative to λ̂")
    max_grads: float | None = Field(default=None, description="gradients that may be spent, over all chains")
    seconds: float | None = Field(
        default=60.0, description="time after which the estimate so far is returned; None for no limit"
    )
    seed: int = Field(default=0, description="the source of all randomness")

    if not TYPE_CHECKING:  # type checkers read the fields

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise _bad_input(error) from None

    @field_validator("n", "chains", "seed", mode="before")
    @classmethod
    def _whole(cls, value: Any, info: Any) -> Any:
        if isinstance(value, str):  # a word of a command line
            try:
                value = int(value)
            except ValueError:  # also thousands of digits
                return value
        if value is None:
            return value
        value = value.item() if isinstance(value, np.generic) else value
        number = whole_number(info.field_name, value, 0 if info.field_name == "seed" else 1)
        if info.field_name != "n":
            check_bounds(**{info.field_name: number})
        return number

    @field_validator("nbeta", "gamma", "radius", "target", "max_grads", "seconds", mode="before")
    @classmethod
    def _positive(cls, value: Any, info: Any) -> Any:
        if info.field_name == "gamma" and value == "limit":
            return value
        number = _number(value)
        if number is not None and not (isinstance(number, int | float) and 0 < number < math.inf):
            also = ", or 'limit'" if info.field_name == "gamma" else ""
            raise BadInput(f"{info.field_name} is {value!r}", f"give a positive number{also}")
        return number

    @field_validator("prior", mode="before")
    @classmethod
    def _not_negative(cls, value: Any) -> Any:
        number = _number(value)
        if number is not None and not (isinstance(number, int | float) and 0 <= number < math.inf):
            raise BadInput(f"prior is {value!r}", "give the coefficient of the L2 term, a number ≥ 0")
        return number

    @field_validator("only", mode="before")
    @classmethod
    def _patterns_or_masks(cls, value: Any) -> Any:
        check_only(value)
        if isinstance(value, Mapping) and cls.model_fields["only"].annotation != Only:
            raise BadInput("a mask can neither be stored nor given on a command line", "use patterns for names")
        return value

    @field_validator("sampler", mode="after")
    @classmethod
    def _known(cls, value: str | Kernel | Fixed) -> str | Kernel | Fixed:
        if isinstance(value, str) and value != "auto" and value not in KERNELS:
            raise unknown("sampler", value, ["auto", *KERNELS])
        return value

    @property
    def method(self) -> Kernel | Fixed | None:
        """The sampler: a kernel that is tuned, fixed settings, or None where the size of the model decides."""
        if not isinstance(self.sampler, str):
            return self.sampler
        if self.sampler == "auto":
            return None
        fixed = self.sampler in FIXED_KERNELS and self.sampler != "langevin"
        return Fixed(self.sampler) if fixed else KERNELS[self.sampler]()

    @property
    def minibatch(self) -> Minibatch | None:
        """The minibatches that fixed settings ask for."""
        fixed = self.sampler
        return Minibatch(fixed.batch, fixed.anchored) if isinstance(fixed, Fixed) and fixed.batch else None

    @property
    def decay(self) -> float:
        """The coefficient of the L2 term, zero without one."""
        return self.prior or 0.0

    def temperature(self, n: int | None) -> float:
        """nβ for a loss that is the mean of ``n`` terms, unless the options say otherwise."""
        n = n if self.n is None else self.n
        if self.nbeta is not None:
            return float(self.nbeta)
        if n is None:
            raise BadInput("a population loss has no n", "give nbeta, the inverse temperature")
        if n < 3:
            raise BadInput(f"n = {n} is too small for nβ = n / log n", "give nbeta")
        return n / math.log(n)


class LLCKeywords(TypedDict, total=False):
    """:class:`LLCOptions` as keywords of a function."""

    n: int | None
    nbeta: float | None
    gamma: float | Literal["limit"] | None
    radius: float
    prior: float | None
    only: Only
    sampler: str | Kernel | Fixed
    chains: int | None
    target: float
    max_grads: float | None
    seconds: float | None
    seed: int


def _bad_input(error: ValidationError) -> Exception:
    """The first thing that is wrong with some values, in one line; a derived class explains its own fields."""
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, BadInput):
        return cause
    name = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        return unknown("option", name, LLCOptions.model_fields)
    if name not in LLCOptions.model_fields:
        return error
    message = first["msg"].removeprefix("Input ")
    return BadInput(f"{name}: {message[:1].lower()}{message[1:]}, got {first['input']!r}")


def _number(value: Any) -> Any:
    """A number as Python has it; words from a command line are read as numbers."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value
