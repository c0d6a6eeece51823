"""``phasecast curve``: a learning curve from the order-parameter equations, with plateau, escape and slope."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter


def curve(
    *,
    students: Annotated[int, Parameter(help="hidden units K of the student")] = 2,
    teachers: Annotated[int, Parameter(help="hidden units M of the teacher")] = 2,
    modes: Annotated[int | None, Parameter(help="distinct eigenvalues L of the input covariance")] = None,
    exponent: Annotated[float | None, Parameter(help="β: eigenvalues fall like l^−(1+β)")] = None,
    lr: Annotated[float, Parameter(help="learning rate η")],
    sigma: Annotated[float, Parameter(help="standard deviation σ_J of the student's first weights")] = 0.01,
    inputs: Annotated[
        int | None, Parameter(help="inputs N, a multiple of the modes; as many as modes if not given")
    ] = None,
    draws: Annotated[int, Parameter(help="random students and teachers")] = 5,
    seed: Annotated[int, Parameter(help="of the first draw")] = 0,
    alphas: Annotated[str, Parameter(help="start:stop:count of the examples per input α")],
    order: Annotated[int, Parameter(help="1 for O(η), 2 for O(η²) too")] = 1,
    activation: Annotated[Literal["erf", "linear"], Parameter(help="of the hidden units")] = "erf",
    simulate: Annotated[int, Parameter(help="seeds of one-pass SGD to run beside it")] = 0,
    spectrum_of: Annotated[
        Path | None, Parameter(help="a .npy or .npz matrix, an example a row, instead of a power law")
    ] = None,
    plot: Annotated[Path | None, Parameter(help="write the figure to this file (.svg, .png or .pdf)")] = None,
    json: Annotated[bool, Parameter(negative=(), help="one JSON object on stdout and nothing else there")] = False,
    debug: Annotated[bool, Parameter(negative=(), help="show tracebacks")] = False,
) -> int:
    from phasecast import online
    from phasecast.cli.output import show_result
    from phasecast.core.results import Status
    from phasecast.figures.style import check_target

    grid = _grid(alphas)
    if plot is not None:
        check_target(plot)
    spectrum = None if spectrum_of is None else online.Spectrum.from_data(online.load_data(spectrum_of))
    found = online.curve(
        students, teachers, modes=modes, exponent=exponent, spectrum=spectrum, lr=lr, sigma=sigma, inputs=inputs,
        draws=draws, seed=seed, alphas=grid, order=order, activation=activation, simulate=simulate,
    )  # fmt: skip
    return show_result(found, json=json, figure=None if found.status is Status.REFUSED else found.figure, plot=plot)


def _grid(text: str):
    import numpy as np

    from phasecast.core.errors import BadInput

    wanted = "write start:stop:count, like 1:3500:50, with start < stop"
    try:
        start, stop, count = text.split(":")
        first, last, number = float(start), float(stop), int(count)
    except ValueError:
        raise BadInput(f"'{text}' is no grid of α", wanted) from None
    if number < 1 or not 0 <= first <= last < np.inf or (number > 1) != (first < last):
        raise BadInput(f"'{text}' does not increase", wanted)
    return np.linspace(first, last, number)
