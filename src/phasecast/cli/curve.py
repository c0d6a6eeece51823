"""``phasecast curve``: a learning curve from the order-parameter equations, with plateau, escape and slope."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from phasecast.cli.options import Drawn
from phasecast.cli.output import emit_result

if TYPE_CHECKING:
    import numpy as np

    from phasecast.online import LabelledCurve


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Setting:
    """The networks, the data and the training."""

    students: Annotated[int, Parameter(help="hidden units K of the student")] = 2
    teachers: Annotated[int, Parameter(help="hidden units M of the teacher")] = 2
    modes: Annotated[
        int | None, Parameter(help="distinct eigenvalues L of the input covariance; needed without data")
    ] = None
    exponent: Annotated[float | None, Parameter(help="β: eigenvalues fall like l^−(1+β); needed without data")] = None
    lr: Annotated[float, Parameter(help="learning rate η")]
    sigma: Annotated[float, Parameter(help="standard deviation σ_J of the student's initial weights")] = 0.01
    inputs: Annotated[int | None, Parameter(help="inputs N, a multiple of the modes; defaults to the modes")] = None
    draws: Annotated[int, Parameter(help="random students and teachers")] = 5
    seed: Annotated[int, Parameter(help="seed of the first draw")] = 0
    order: Annotated[int, Parameter(help="2 is exact for N → ∞; 1 keeps O(η) only")] = 2
    activation: Annotated[Literal["erf", "linear"], Parameter(help="activation of the hidden units")] = "erf"
    simulate: Annotated[int, Parameter(help="seeds of one-pass SGD to run for comparison")] = 0


def curve(
    *,
    setting: Setting,
    alphas: Annotated[str, Parameter(help="start:stop:count of the examples per input α")],
    spectrum_of: Annotated[
        Path | None,
        Parameter(
            help="a .npy or .npz matrix, one example per row: its spectrum instead of a power law, and nothing else of "
            "it; inputs are Gaussian and the teacher is random"
        ),
    ] = None,
    data: Annotated[
        Path | None,
        Parameter(help="a .npz file with rows (n, d) and labels (n,): a linear student on your data and your labels"),
    ] = None,
    trained: Annotated[
        int | None, Parameter(help="with --data: only the first N_l principal directions learn; defaults to all")
    ] = None,
    committee: Annotated[
        bool,
        Parameter(
            help="with --data: a committee of erf units and a teacher with the linear part of your labels, instead of "
            "the linear student",
            negative=(),
        ),
    ] = False,
    options: Drawn = Drawn(),
) -> int:
    from phasecast import online
    from phasecast.core.errors import BadInput
    from phasecast.core.results import Status
    from phasecast.figures.style import check_target

    grid = _grid(alphas)
    check_target(options.plot)
    if data is not None:
        measured = _on_data(data, setting, grid, committee=committee, trained=trained, spectrum_of=spectrum_of)
        return emit_result(measured, options, figure=None if measured.status is Status.REFUSED else measured.figure)
    if committee or trained is not None:
        raise BadInput(f"--{'committee' if committee else 'trained'} needs --data", "give --data FILE.npz")
    spectrum = None if spectrum_of is None else online.Spectrum.from_data(online.load_data(spectrum_of))
    prediction = online.curve(**dataclasses.asdict(setting), alphas=grid, spectrum=spectrum)
    refused = prediction.status is Status.REFUSED
    return emit_result(prediction, options, figure=None if refused else prediction.figure)


WITH_DATA = ("lr", "sigma", "simulate", "seed")
WITH_COMMITTEE = (*WITH_DATA, "students", "teachers", "draws")
"""The options that apply to a linear student, and to a committee, on the user's data."""


def _on_data(
    data: Path, setting: Setting, grid: np.ndarray, *, committee: bool, trained: int | None, spectrum_of: Path | None
) -> LabelledCurve:
    """The curve of a linear student, or of a committee with a stated teacher, on the user's rows and labels."""
    from phasecast import online

    _refuse_with_data(setting, committee, trained, spectrum_of)
    rows, labels = online.load_labelled(data)
    lr, simulate, seed = setting.lr, setting.simulate, setting.seed
    if not committee:
        return online.curve_of(
            rows, labels, lr=lr, alphas=grid, sigma=setting.sigma, trained=trained, simulate=simulate, seed=seed
        )
    units = online.Committee(setting.students, setting.teachers, setting.sigma, setting.draws)
    return online.committee_curve_of(rows, labels, units, lr=lr, alphas=grid, simulate=simulate, seed=seed)


def _refuse_with_data(setting: Setting, committee: bool, trained: int | None, spectrum_of: Path | None) -> None:
    """Options that say nothing about the student on given rows are bad input, not ignored."""
    from phasecast.core.errors import BadInput

    used = WITH_COMMITTEE if committee else WITH_DATA
    given = [field.name for field in dataclasses.fields(setting) if getattr(setting, field.name) != field.default]
    other = [name for name in given if name not in used] + ["spectrum-of"] * (spectrum_of is not None)
    if other:
        student = "a committee on your data" if committee else "--data, whose student is linear without --committee"
        raise BadInput(
            f"--{other[0]} does not apply to {student}", f"use {', '.join('--' + name for name in used)} and --alphas"
        )
    if committee and trained is not None:
        raise BadInput("--trained applies to the linear student", "leave out --trained or --committee")


def _grid(text: str) -> np.ndarray:
    import numpy as np

    from phasecast.core.bounds import check_bounds
    from phasecast.core.errors import BadInput

    expected = "write start:stop:count, like 1:3500:50, with start < stop"
    try:
        start, stop, count = text.split(":")
        first, last, number = float(start), float(stop), int(count)
    except ValueError:
        raise BadInput(f"invalid --alphas '{text}'", expected) from None
    check_bounds(points=number, alpha=last)
    if number < 1 or not 0 <= first <= last < np.inf or (number > 1) != (first < last):
        raise BadInput(f"--alphas '{text}' does not increase", expected)
    return np.linspace(first, last, number)
