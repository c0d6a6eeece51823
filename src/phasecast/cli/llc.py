"""``phasecast llc``: the sampled learning coefficient λ̂ of the user's model."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from pydantic import Field

from phasecast.cli.options import Common
from phasecast.cli.output import emit_result
from phasecast.coefficients.llc.options import LLCOptions


class CommandOptions(LLCOptions):
    """:class:`LLCOptions` as flags: a sampler can only be named here, and there are no masks."""

    only: Annotated[tuple[str, ...] | None, Parameter(negative="")] = Field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default=None, description='patterns for the names of the parameters that move, "layers.0.*"'
    )
    sampler: str = Field(default="auto", description="auto, or the name of a kernel")  # pyright: ignore[reportIncompatibleVariableOverride]


def llc(
    problem: str,
    /,
    *,
    sampling: Annotated[CommandOptions, Parameter(name="*")] = CommandOptions(),
    options: Common = Common(),
) -> int:
    """Sample λ̂ of your model.

    Parameters
    ----------
    problem
        package.module:factory that returns phasecast.Problem(loss, params, data, n) for JAX, or (module, data, loss)
        for PyTorch
    """
    from phasecast.coefficients.llc.estimate import measure
    from phasecast.coefficients.llc.problems import load_sampled_problem

    return emit_result(measure(load_sampled_problem(problem), sampling), options)
