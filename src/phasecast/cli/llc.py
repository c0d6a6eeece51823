"""``phasecast llc``: the sampled learning coefficient λ̂ of the user's model."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from phasecast.cli.options import Common
from phasecast.cli.output import emit_result


def llc(
    problem: str,
    /,
    *,
    nbeta: Annotated[float | None, Parameter(help="inverse temperature nβ; defaults to n/log n")] = None,
    gamma: Annotated[float | None, Parameter(help="strength of the pull towards w*; default: extrapolate to 0")] = None,
    prior: Annotated[float | None, Parameter(help="coefficient of the L2 term of the training")] = None,
    only: Annotated[str | None, Parameter(help="pattern for the names of the parameters that move")] = None,
    sampler: Annotated[str, Parameter(help="auto, or the name of a kernel")] = "auto",
    chains: Annotated[int, Parameter(help="maximum number of chains")] = 8,
    target: Annotated[float, Parameter(help="standard error to reach, relative to λ̂")] = 0.02,
    max_grads: Annotated[float | None, Parameter(help="gradients that may be spent")] = None,
    seed: int = 0,
    options: Common = Common(),
) -> int:
    """Sample λ̂ of your model.

    Parameters
    ----------
    problem
        package.module:factory of a phasecast.Problem(loss, params, data, n)
    """
    from phasecast.coefficients.llc.estimate import llc as sample
    from phasecast.core.user_code import load_problem

    estimate = sample(
        load_problem(problem), nbeta=nbeta, gamma=gamma, prior=prior, only=only, sampler=sampler, chains=chains,
        target=target, max_grads=max_grads, seed=seed,
    )  # fmt: skip
    return emit_result(estimate, options)
