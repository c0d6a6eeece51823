"""``phasecast llc`` and ``phasecast rlct``: the learning coefficient of the user's model, local or Bayesian."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import Field

from phasecast.cli.options import Common, Drawn
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


@Parameter(name="*")
@dataclass(frozen=True)
class Sampling:
    """How the tempered posteriors are sampled."""

    method: Annotated[Literal["variance", "slope"], Parameter(help="how λ̂ is computed from them")] = "variance"
    sampler: Annotated[
        Literal["auto", "gibbs", "nuts"], Parameter(help="auto uses Gibbs if the model has it, else NUTS")
    ] = "auto"
    chains: Annotated[int, Parameter(help="chains; half start from the prior, half from the truth")] = 4
    draws: Annotated[int, Parameter(help="steps kept per chain")] = 2000
    warmup: Annotated[int, Parameter(help="steps discarded before them")] = 1000
    seed: Annotated[int, Parameter(help="seed of the chains")] = 0
    target: Annotated[
        float | None, Parameter(help="stop at this standard error of the chains relative to λ̂; --draws is the most")
    ] = None
    seconds: Annotated[float | None, Parameter(help="draw no more after this time, and judge what there is")] = None


def rlct(
    model: Annotated[str, Parameter(help="package.module:factory that returns (phasecast.posterior.Model, data)")],
    /,
    *,
    betas: Annotated[
        str,
        Parameter(
            help="inverse temperatures like 0.1,0.15,0.2; auto takes five around 1/log n and a decade",
            allow_leading_hyphen=True,  # so that −1 gets our error message
        ),
    ] = "auto",
    sampling: Sampling = Sampling(),
    options: Drawn = Drawn(),
) -> int:
    from phasecast import posterior
    from phasecast.core.errors import BadInput
    from phasecast.core.user_code import make
    from phasecast.figures.style import check_target

    check_target(options.plot)
    grid = _numbers(betas)
    pair = make(model)
    if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], posterior.Model)):
        raise BadInput(
            f"the factory '{model}' returned a {type(pair).__name__}", "return (phasecast.posterior.Model, data)"
        )
    estimate = posterior.rlct(*pair, grid, **dataclasses.asdict(sampling))
    return emit_result(estimate, options, figure=estimate.figure)


def _numbers(text: str) -> list[float] | str:
    from phasecast.core.errors import BadInput

    if text == "auto":
        return text
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"invalid --betas '{text}'", "write auto, or numbers like 0.1,0.15,0.2") from None
