"""``phasecast threshold``: how much data a network needs to see the hidden directions of a target."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter


def threshold(
    *,
    target: Annotated[str, Parameter(help="expression in z or z1, z2, z3, like z**2, or a preset like halfspaces")],
    activation: Annotated[str, Parameter(help="gelu, softplus, tanh, tanh2, swish, erf or quadratic")] = "gelu",
    loss: Annotated[str, Parameter(help="square, pseudo-huber, logcosh, huber or logistic")] = "pseudo-huber",
    lr: Annotated[float, Parameter(help="learning rate η")] = 0.5,
    time: Annotated[str, Parameter(help="steps of gradient descent, or inf for δ_NN")] = "0",
    width: Annotated[str, Parameter(help="neurons, 1 to 4, or wide")] = "1",
    a: Annotated[float, Parameter(help="second-layer weight of the neurons")] = 1.0,
    b: Annotated[float, Parameter(help="bias of the neurons")] = 0.0,
    initial_norm: Annotated[float, Parameter(help="norm of the first weights")] = 1.0,
    noise: Annotated[float, Parameter(help="standard deviation of the labels' noise")] = 0.0,
    delta: Annotated[float | None, Parameter(help="n/d at which to show edge, outlier, overlap² and margin")] = None,
    simulate: Annotated[int | None, Parameter(help="dimension d in which to measure them too")] = None,
    seeds: Annotated[int, Parameter(help="of the routes that draw, and of the simulation")] = 8,
    samples: Annotated[int, Parameter(help="of the mean-field route")] = 20_000,
    up_to: Annotated[float, Parameter(help="largest δ to look at for times above 0")] = 64.0,
    plot: Annotated[Path | None, Parameter(help="write the figure to this file (.svg, .png or .pdf)")] = None,
    json: Annotated[bool, Parameter(negative=(), help="one JSON object on stdout and nothing else there")] = False,
    debug: Annotated[bool, Parameter(negative=(), help="show tracebacks")] = False,
) -> int:
    from phasecast.cli.output import show_result
    from phasecast.figures.style import check_target

    steps = _number("time", time, {"inf": math.inf}, "a number of steps, 0, 1, 2, …, or inf")
    neurons = _number("width", width, {"wide": "wide"}, "1 to 4, or wide")
    if plot is not None:
        check_target(plot)
    from phasecast import features

    found = features.threshold(
        target, activation, loss, lr=lr, time=steps, width=neurons, a=a, b=b, initial_norm=initial_norm,
        noise=noise, delta=delta, simulate=simulate, seeds=seeds, samples=samples, up_to=up_to, curves=plot is not None,
    )  # fmt: skip
    return show_result(found, json=json, figure=found.figure if found.curves else None, plot=plot)


def _number(name: str, text: str, words: dict[str, Any], right: str) -> Any:
    """A whole number from the command line, or what one of the words means."""
    from phasecast.core.errors import BadInput

    if text in words:
        return words[text]
    if not text.isdecimal():
        raise BadInput(f"the {name} is '{text}'", f"use {right}")
    return int(text)
