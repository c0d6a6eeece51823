"""``phasecast rlct``: the learning coefficient of a Bayesian model from its tempered posteriors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter


def rlct(
    model: str,
    /,
    *,
    betas: Annotated[
        str,
        Parameter(
            help="inverse temperatures like 0.1,0.15,0.2; auto takes five around 1/log n and a decade",
            allow_leading_hyphen=True,  # so that −1 is told what is wrong with it
        ),
    ] = "auto",
    method: Annotated[Literal["variance", "slope"], Parameter(help="how λ̂ is read off")] = "variance",
    sampler: Annotated[
        Literal["auto", "gibbs", "nuts"], Parameter(help="auto takes Gibbs where there is one")
    ] = "auto",
    chains: Annotated[int, Parameter(help="half from the prior, half from the truth")] = 4,
    draws: Annotated[int, Parameter(help="steps kept of each chain")] = 2000,
    warmup: Annotated[int, Parameter(help="steps before them")] = 1000,
    seed: int = 0,
    plot: Annotated[Path | None, Parameter(help="write the figure to this file (.svg, .png or .pdf)")] = None,
    json: Annotated[bool, Parameter(negative=(), help="one JSON object on stdout and nothing else there")] = False,
    debug: Annotated[bool, Parameter(negative=(), help="show tracebacks")] = False,
) -> int:
    """Sample λ̂ of your Bayesian model.

    Parameters
    ----------
    model
        package.module:factory that returns (phasecast.posterior.Model, data)
    """
    from phasecast import posterior
    from phasecast.cli.output import show_result
    from phasecast.core.errors import BadInput
    from phasecast.core.user_code import make
    from phasecast.figures.style import check_target

    if plot is not None:
        check_target(plot)
    grid = _numbers(betas)
    made = make(model)
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], posterior.Model)):
        raise BadInput(
            f"the factory '{model}' returned a {type(made).__name__}", "return (phasecast.posterior.Model, data)"
        )
    found = posterior.rlct(
        *made, grid, method=method, sampler=sampler, chains=chains, draws=draws, warmup=warmup, seed=seed
    )
    return show_result(found, json=json, figure=found.plot, plot=plot)


def _numbers(text: str):
    from phasecast.core.errors import BadInput

    if text == "auto":
        return text
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"'{text}' are no inverse temperatures", "write auto, or numbers like 0.1,0.15,0.2") from None
