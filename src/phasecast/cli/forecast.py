"""``phasecast forecast``: when a training in progress will generalise, from its log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from phasecast.cli.options import Drawn
from phasecast.cli.output import emit, exit_code

if TYPE_CHECKING:
    from phasecast.forecasting import Forecast, TrainingLog

app = App(name="forecast", help_format="plaintext", version_flags=[])


@Parameter(name="*")
@dataclass(frozen=True)
class Basis:
    """What the forecast rests on."""

    loss_at_50: Annotated[
        float | None, Parameter(help="validation loss at 50% accuracy; by default from the loss before training")
    ] = None
    coverage: Annotated[float, Parameter(help="probability with which the interval holds the outcome")] = 0.8


@app.default
def one(
    source: Annotated[str, Parameter(help="CSV file with step, train and validation accuracy, validation loss")],
    /,
    *,
    basis: Basis = Basis(),
    options: Drawn = Drawn(),
) -> int:
    """Forecast the step at which validation accuracy passes 50%."""
    from phasecast.figures.style import check_target, draw
    from phasecast.forecasting.forecast import forecast, landmarks, with_earlier
    from phasecast.forecasting.log import read_log

    check_target(options.plot)
    log = read_log(Path(source))

    def make(part: TrainingLog) -> Forecast:
        return forecast(part, loss_at_50=basis.loss_at_50, coverage=basis.coverage)

    made = make(log)
    content, text = made.plain(), str(made)
    if options.plot is not None:
        *before, _ = landmarks(log)
        whole = with_earlier(made, list(map(make, before)))
        draw(whole.figure, options.plot, "forecast")
        content["plot"] = str(options.plot)
        text += f"\nfigure: {options.plot}"
    emit(content, text, options)
    return exit_code(str(made.status))
