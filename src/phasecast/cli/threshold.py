"""``phasecast threshold``: how much data a network needs to detect the hidden directions of a target."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from phasecast.cli.options import Drawn
from phasecast.cli.output import emit_result

LONGEST_INTEGER = 30  # digits; Python refuses to read thousands of them


@Parameter(name="*")
@dataclass(frozen=True)
class Network:
    """The network and its training."""

    activation: Annotated[str, Parameter(help="gelu, softplus, tanh, tanh2, swish, erf or quadratic")] = "gelu"
    loss: Annotated[str, Parameter(help="square, pseudo-huber, logcosh, huber or logistic")] = "pseudo-huber"
    lr: Annotated[float, Parameter(help="learning rate η")] = 0.5
    a: Annotated[float, Parameter(help="second-layer weight of the neurons")] = 1.0
    b: Annotated[float, Parameter(help="bias of the neurons")] = 0.0
    initial_norm: Annotated[float, Parameter(help="norm of the initial weights")] = 1.0
    noise: Annotated[float, Parameter(help="standard deviation of the label noise")] = 0.0


@Parameter(name="*")
@dataclass(frozen=True)
class Evaluation:
    """What is computed besides the threshold, and how precisely."""

    delta: Annotated[float | None, Parameter(help="n/d at which to show edge, outlier, overlap² and margin")] = None
    simulate: Annotated[int | None, Parameter(help="dimension d in which to measure them too")] = None
    seeds: Annotated[int, Parameter(help="seeds of the random methods and of the simulation")] = 8
    samples: Annotated[int, Parameter(help="samples of the mean-field method")] = 20_000
    up_to: Annotated[float, Parameter(help="largest δ to search for times above 0")] = 64.0


def threshold(
    *,
    target: Annotated[str, Parameter(help="expression in z or z1, z2, z3, like z**2, or a preset like halfspaces")],
    time: Annotated[
        str | None,
        Parameter(help="steps of gradient descent, or inf for δ_NN; by default a table of 0, 20 and inf, and δ_alg"),
    ] = None,
    width: Annotated[str, Parameter(help="neurons, 1 to 4, or wide")] = "1",
    network: Network = Network(),
    evaluation: Evaluation = Evaluation(),
    options: Drawn = Drawn(),
) -> int:
    from phasecast.figures.style import check_target

    right = "a number of steps, 0, 1, 2, …, or inf"
    steps = None if time is None else _number("--time", time, {"inf": math.inf}, right)
    neurons = _number("--width", width, {"wide": "wide"}, "1 to 4, or wide")
    check_target(options.plot)
    from phasecast import features

    settings = {"width": neurons, **dataclasses.asdict(network), **dataclasses.asdict(evaluation)}
    if steps is None:
        return _table(target, settings, options)
    result = features.threshold(target, time=steps, **settings, curves=options.plot is not None)
    return emit_result(result, options, figure=result.figure if result.curves else None)


def _table(target: str, settings: dict[str, Any], options: Drawn) -> int:
    """Every row as soon as it is there, what is being computed on stderr, and the status at the end."""
    from phasecast.features.threshold_table import ThresholdRow, row_words, threshold_table
    from phasecast.progress import show_progress

    done = 0
    with show_progress("threshold", unit="steps") as progress:

        def watch(event: ThresholdRow | str) -> None:
            nonlocal done
            if isinstance(event, str):
                done += 1
                progress.update(done, None, event)
            elif not options.json:
                name, words = row_words(event)
                print(f"{name:<7} {words}", flush=True)

        result = threshold_table(target, settings.pop("activation"), settings.pop("loss"), watch=watch, **settings)
    ending = [f"{name:<7} {words}" for name, words in result.closing_rows()]
    return emit_result(result, options, text="\n".join(ending), figure=result.figure if result.table else None)


def _number(flag: str, text: str, words: dict[str, Any], right: str) -> Any:
    """An integer from the command line, or the meaning of one of the words."""
    from phasecast.core.errors import BadInput

    if text in words:
        return words[text]
    if not text.isdecimal() or len(text) > LONGEST_INTEGER:
        raise BadInput(f"invalid {flag} '{text[:40]}'", f"use {right}")
    return int(text)
