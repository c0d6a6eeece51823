"""``phasecast llc``: the sampled learning coefficient of a model at its parameters."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter


def llc(
    problem: str,
    /,
    *,
    nbeta: Annotated[float | None, Parameter(help="inverse temperature nβ; n/log n if not given")] = None,
    gamma: Annotated[float | None, Parameter(help="pull towards w*; a ladder to zero if not given")] = None,
    prior: Annotated[float | None, Parameter(help="coefficient of the L2 term of the training")] = None,
    only: Annotated[str | None, Parameter(help="pattern for the names of the parameters that move")] = None,
    sampler: Annotated[str, Parameter(help="auto, or the name of a kernel")] = "auto",
    chains: Annotated[int, Parameter(help="how many, at most")] = 8,
    target: Annotated[float, Parameter(help="standard error to reach, relative to λ̂")] = 0.02,
    max_grads: Annotated[float | None, Parameter(help="gradients that may be spent")] = None,
    seed: int = 0,
    json: Annotated[bool, Parameter(negative=(), help="one JSON object on stdout and nothing else there")] = False,
    debug: Annotated[bool, Parameter(negative=(), help="show tracebacks")] = False,
) -> int:
    """Sample λ̂ of your model.

    Parameters
    ----------
    problem
        package.module:factory of a phasecast.Problem(loss, params, data, n)
    """
    from phasecast.cli.output import show_result
    from phasecast.coefficients.llc.estimate import llc as sample
    from phasecast.core.user_code import load_problem

    found = sample(
        load_problem(problem), nbeta=nbeta, gamma=gamma, prior=prior, only=only, sampler=sampler, chains=chains,
        target=target, max_grads=max_grads, seed=seed,
    )  # fmt: skip
    return show_result(found, json=json)
