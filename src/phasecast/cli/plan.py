"""``phasecast plan``: how much data or time a network needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from phasecast.cli.options import Common
from phasecast.cli.output import emit

if TYPE_CHECKING:
    from phasecast.forecasting.planning import NeedTable

app = App(name="plan", help_format="plaintext", version_flags=[])

Numbers = Annotated[list[float] | None, Parameter(consume_multiple=True, negative=())]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Training:
    """The training."""

    task: Annotated[str, Parameter(help="addition, subtraction, multiplication or division")] = "addition"
    p: Annotated[int, Parameter(help="modulus")]
    width: Annotated[int | None, Parameter(help="hidden units; defaults to 5p")] = None
    lr: Annotated[float, Parameter(help="learning rate")] = 1e-3
    weight_decay: Annotated[float, Parameter(help="coefficient of the L2 term")] = 1e-4
    fraction: Annotated[float, Parameter(help="fraction of the table to train on that you have in mind")] = 0.4


@app.command
def grokking(
    *,
    training: Training,
    steps: Annotated[
        float | None, Parameter(help="steps you can train; defaults to the longest run of the bank")
    ] = None,
    chance: Annotated[float, Parameter(help="share of the seeds that should generalise")] = 0.9,
    options: Common = Common(),
) -> int:
    """Training rows and steps that a network needs to learn a rule modulo p."""
    from phasecast.core.errors import BadInput
    from phasecast.forecasting.planning import plan_grokking
    from phasecast.forecasting.settings import Settings

    if not 0 < training.fraction <= 1:
        raise BadInput(f"--fraction is {training.fraction:g}", "use a number above 0, up to 1")
    rows = training.p * (training.p - 1) if training.task == "division" else training.p**2
    settings = Settings(
        training.task,
        training.p,
        int(training.fraction * rows + 1e-9),
        training.lr,
        training.weight_decay,
        training.width or 5 * training.p,
    )
    return _show(plan_grokking(settings, steps=steps, chance=chance), options)


@app.command
def feature(
    *,
    target: Annotated[str, Parameter(help="expression in z or z1, z2, z3, like z**2, or a preset")],
    dimension: Annotated[int, Parameter(name=["--dimension", "-d"], help="inputs d")],
    activation: Annotated[str, Parameter(help="activation of the network")] = "gelu",
    loss: Annotated[str, Parameter(help="loss of the network")] = "pseudo-huber",
    lr: Annotated[float, Parameter(help="learning rate η")] = 0.5,
    time: Annotated[float | None, Parameter(help="also after this many steps; inf for δ_NN, a minute or more")] = None,
    simulate: Annotated[int, Parameter(help="seeds of gradient descent, for the numbers at this d")] = 0,
    options: Common = Common(),
    # wide signature: the options of a command
) -> int:
    """Examples that a network needs to find the hidden directions of a target."""
    from phasecast.forecasting.planning import plan_feature

    plan = plan_feature(
        target, dimension=dimension, activation=activation, loss=loss, lr=lr, time=time, simulate=simulate
    )
    return _show(plan, options)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Networks:
    """The networks, the data and the training."""

    students: Annotated[int, Parameter(help="hidden units K of the student")] = 2
    teachers: Annotated[int, Parameter(help="hidden units M of the teacher")] = 2
    modes: Annotated[int, Parameter(help="distinct eigenvalues L of the input covariance")] = 1
    exponent: Annotated[float, Parameter(help="β: eigenvalues fall like l^−(1+β)")] = 0.0
    lr: Annotated[float, Parameter(help="learning rate η")]
    inputs: Annotated[int | None, Parameter(help="inputs N, a multiple of the modes; defaults to the modes")] = None
    sigma: Annotated[float, Parameter(help="standard deviation of the student's initial weights")] = 0.01
    draws: Annotated[int, Parameter(help="random students and teachers")] = 5
    seed: Annotated[int, Parameter(help="seed of the first draw")] = 0


@app.command
def curve(
    *,
    networks: Networks,
    eps: Annotated[Numbers, Parameter(help="generalisation errors to reach")],
    up_to: Annotated[float, Parameter(help="largest number of examples per input α")] = 1000.0,
    options: Common = Common(),
) -> int:
    """Examples until a two-layer network has a wanted generalisation error."""
    from phasecast.forecasting.planning.theory import CurveSetting, plan_curve

    return _show(plan_curve(CurveSetting(**vars(networks)), eps or [], up_to=up_to), options)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Models:
    """One Bayesian model, and another to compare with."""

    coefficient: Annotated[float, Parameter(help="λ̂ of the model, as `phasecast rlct` prints it")]
    error: Annotated[float, Parameter(help="its standard error")] = 0.0
    fluctuation: Annotated[float | None, Parameter(help="ν̂ of the model at this β, for training and Gibbs errors")] = (
        None
    )
    fluctuation_error: Annotated[float, Parameter(help="standard error of ν̂")] = 0.0
    beta: Annotated[float, Parameter(help="inverse temperature β of the posterior; other than 1 needs ν̂")] = 1.0
    loss: Annotated[float, Parameter(help="its loss per example")] = 0.0
    other: Annotated[float | None, Parameter(help="λ̂ of another model")] = None
    other_loss: Annotated[float, Parameter(help="the loss per example of that model")] = 0.0


@app.command
def posterior(
    *,
    models: Models,
    sizes: Annotated[Numbers, Parameter(help="numbers of examples n′ to predict the error at")] = None,
    errors: Annotated[Numbers, Parameter(help="errors to reach")] = None,
    options: Common = Common(),
) -> int:
    """Generalisation errors at other numbers of examples, and the number at which two models cross."""
    from phasecast.forecasting.planning.theory import Measured, plan_posterior

    other = None if models.other is None else Measured(models.other, loss=models.other_loss)
    model = Measured(
        models.coefficient, models.error, models.loss, models.fluctuation, models.fluctuation_error, models.beta
    )
    return _show(plan_posterior(model, sizes=sizes or (), errors=errors or (), other=other), options)


def _show(plan: NeedTable, options: Common) -> int:
    emit(plan.plain(), str(plan), options)
    return 0
