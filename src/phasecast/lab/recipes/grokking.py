"""When does it generalise? A small network learns the table of a rule, first by heart and, if all goes well, by rule.

One training, with its losses and accuracies along the way, the weights at checkpoints, when each accuracy was reached,
the grokking severity and the effective width; with λ̂ at each checkpoint if asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement, Result, Status
from phasecast.grokking.curves import crossings, effective_width, grokking_severity
from phasecast.grokking.networks import Network, mlp, quadratic, transformer
from phasecast.grokking.tasks import Task, split, task
from phasecast.grokking.training import CURVES, Piece, checkpoint_steps, train
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.spec import Spec
from phasecast.lab.tables import Table

if TYPE_CHECKING:
    import xarray as xr

STATUSES = (Status.OK, Status.WARNING, Status.REFUSED)
MEASURED = ("value", "error", "status")
NBETA, GAMMA = 30.0, 5.0  # appendix H.1
TARGET = 0.03


class Grokking(Spec):
    """What is learned, by what, and how."""

    task: Literal["addition", "subtraction", "multiplication", "division", "permutations", "sparse_parity"] = Field(
        "addition", description="the rule"
    )
    p: int = Field(23, ge=3, le=200, description="modulus of the modular rules")
    degree: int = Field(5, ge=2, le=5, description="things that permutations permute")
    bits: int = Field(10, ge=2, le=16, description="bits of sparse parity")
    relevant: int = Field(3, ge=1, le=16, description="bits that the parity is of")
    network: Literal["quadratic", "mlp", "transformer"] = Field("quadratic", description="what learns")
    width: int = Field(128, ge=1, le=65536, description="hidden units; the width of the stream of a transformer")
    activation: str | None = Field(None, description="of the hidden units; null for the network's own")
    fraction: float = Field(0.4, description="share of the rows to train on")
    lr: float = Field(1e-3, gt=0, description="learning rate")
    weight_decay: float = Field(1e-4, ge=0, description="coefficient of the L2 term, or of AdamW's decay")
    batch: int | None = Field(None, ge=2, description="rows of a minibatch; null for all")
    steps: int = Field(6000, ge=1, le=10_000_000, description="steps of training")
    optimiser: Literal["adam", "adamw", "sgd"] = Field("adam", description="adam has the L2 term in the gradient")
    log_every: int = Field(20, ge=1, description="steps between logged losses and accuracies")
    checkpoints: int = Field(20, ge=2, le=1000, description="about how many times weights are kept")
    llc: bool = Field(False, description="whether to sample λ̂ at each checkpoint")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        table = table_of(self)
        network_of(self, table)
        rows = len(split(table, self.fraction, self.seed)[0])
        if self.batch is not None and self.batch > rows:
            raise BadInput(f"a batch of {self.batch} is larger than the {rows} training rows", f"use at most {rows}")
        return self


def table_of(spec: Grokking) -> Task:
    """The task of a spec."""
    return task(spec.task, spec.p, degree=spec.degree, bits=spec.bits, relevant=spec.relevant)


def network_of(spec: Grokking, table: Task) -> Network:
    """The network of a spec."""
    if spec.network == "transformer":
        if spec.activation is not None:
            raise BadInput("the transformer has activations of its own", "leave activation at null")
        return transformer(table, spec.width)
    if spec.network == "mlp":
        return mlp(table, spec.width, activation=spec.activation or "relu")
    return quadratic(table, spec.width, spec.activation or "square")


def work(spec: Grokking, state: Any) -> Iterator[Chunk]:
    """A piece of the training a chunk; at a checkpoint its weights are kept, and λ̂ is sampled if asked for."""
    table = table_of(spec)
    network = network_of(spec, table)
    pieces = train(
        table,
        network,
        steps=spec.steps,
        fraction=spec.fraction,
        lr=spec.lr,
        weight_decay=spec.weight_decay,
        batch=spec.batch,
        optimiser=spec.optimiser,
        seeds=spec.seed,
        log_every=spec.log_every,
        checkpoints=checkpoint_steps(spec.steps, spec.checkpoints),
        state=state,
    )
    for piece in pieces:
        curves = {name: column if name == "step" else column[:, 0] for name, column in piece.curves.items()}
        rows: dict[str, Any] = {"curves": curves}
        if piece.at_checkpoint:
            rows["checkpoints"] = _checkpoint_row(network, piece)
            if spec.llc:
                rows["llc"] = measure_checkpoint(spec, table, network, piece)
        accuracy = curves["validation_accuracy"]
        metric = ("validation accuracy", float(accuracy[-1])) if len(accuracy) else None
        yield Chunk(piece.state, rows, piece.number, piece.total, metric)


def _checkpoint_row(network: Network, piece: Piece) -> dict[str, Any]:
    params = piece.params()
    alive = effective_width(params[network.readout]) if network.readout else -1
    weights = {f"weights.{name}": leaf[None] for name, leaf in params.items()}
    return {"step": np.array([piece.step]), "k_eff": np.array([alive]), **weights}


def measure_checkpoint(spec: Grokking, table: Task, network: Network, piece: Piece) -> dict[str, Any]:
    """λ̂ on the training rows at one checkpoint, as a row of the table ``llc``; refused where it is no minimum yet."""
    from phasecast.coefficients.local import llc
    from phasecast.grokking.training import centred_loss

    rows = split(table, spec.fraction, spec.seed)[0]
    found = llc(
        lambda params, data: centred_loss(network.apply(params, data[0]), data[1]),
        piece.params(),
        (table.tokens[rows].astype(np.int32), table.labels[rows].astype(np.int32)),
        nbeta=NBETA,
        gamma=GAMMA,
        target=TARGET,
        seed=spec.seed,
    )
    row = {"value": float(found.estimate), "error": float(found.error), "status": STATUSES.index(found.status)}  # pyright: ignore[reportArgumentType]
    return {"step": np.array([piece.step]), **{name: np.array([row[name]]) for name in MEASURED}}


def layout(spec: Grokking) -> Mapping[str, Table]:
    shapes = {name: leaf.shape for name, leaf in network_of(spec, table_of(spec)).init(0).items()}
    weights = {name: tuple(f"{name}.{axis}" for axis in range(len(shape))) for name, shape in shapes.items()}
    tables = {
        "curves": Table(
            "logged",
            dict.fromkeys(("step", *CURVES), ()),
            meanings={name: name.replace("_", " ") for name in ("step", *CURVES)},
            dtypes={"step": "int64"},
        ),
        "checkpoints": Table(
            "checkpoint",
            {"step": (), "k_eff": (), **{f"weights.{name}": axes for name, axes in weights.items()}},
            meanings={"k_eff": "hidden units alive; −1 where the network has no read-out of units"},
            dtypes={"step": "int64", "k_eff": "int64", **{f"weights.{name}": "float32" for name in weights}},
            rows_per_chunk=1,
        ),
    }
    if spec.llc:
        meanings = {"value": "λ̂ on the training rows", "status": "0 ok, 1 warning, 2 refused"}
        kinds = {"step": "int64", "status": "int64"}
        tables["llc"] = Table("checkpoint", dict.fromkeys(("step", *MEASURED), ()), {}, meanings, kinds, 1)
    return tables


def conclude(spec: Grokking, results: xr.DataTree) -> Conclusion:
    logged = results["curves"].to_dataset()
    curves = {name: logged[name].values for name in ("step", *CURVES)}
    step, seen = curves["step"], np.isfinite(curves["train_loss"])
    train_accuracy, validation_accuracy = (curves[name][seen] for name in CURVES[2:])
    times = crossings(step[seen], train_accuracy, validation_accuracy)
    severity = grokking_severity(step[seen], train_accuracy, validation_accuracy)
    alive = int(results["checkpoints"].to_dataset()["k_eff"].values[-1])
    answers: dict[str, Result] = {}
    if not seen.all():
        reason = (
            f"the loss is not a number any more at step {int(step[~seen][0])}, what was before it is kept; "
            f"try a smaller learning rate than {spec.lr:g}"
        )
        answers["training"] = Measurement(
            np.nan, np.nan, Status.REFUSED, error_kind="quadrature", reasons=[reason], name="final training loss"
        )
    for name, time in times.items():
        if time is not None:
            answers[name] = Measurement(time, spec.log_every / 2, error_kind="quadrature", name=f"step of {name}")
    answers["gsm"] = severity
    numbers = {
        **times,
        "gsm": float(severity.estimate) if severity.status is Status.OK else None,  # pyright: ignore[reportArgumentType]
        "k_eff": alive if alive >= 0 and seen.all() else None,
        "train_accuracy": float(train_accuracy[-1]),
        "val_accuracy": float(validation_accuracy[-1]),
        "train_loss": float(curves["train_loss"][seen][-1]),
        "val_loss": float(curves["validation_loss"][seen][-1]),
        "steps": int(step[-1]),
        "diverged": None if seen.all() else int(step[~seen][0]),
    }
    return Conclusion(answers, _sentence(numbers), numbers)


def _sentence(numbers: Mapping[str, Any]) -> str:
    if numbers["diverged"] is not None:
        return f"The training broke down: its loss is not a number at step {numbers['diverged']}."
    by_heart = f"It knew the training rows at step {numbers['train99']}" if numbers["train99"] is not None else (
        f"It never learned the training rows (accuracy {numbers['train_accuracy']:.2f})"
    )  # fmt: skip
    if numbers["gsm"] is None:
        return (
            f"{by_heart} and had not generalised at step {numbers['steps']} (accuracy {numbers['val_accuracy']:.2f})."
        )
    alive = "" if numbers["k_eff"] is None else f", with {numbers['k_eff']} hidden units alive at the end"
    severity = f"GSM {numbers['gsm']:.2f} at {numbers['steps']} steps"
    return f"{by_heart} and the rule at step {numbers['val95']}{alive}; {severity}."


def figures(spec: Grokking, results: xr.DataTree) -> Mapping[str, Captioned]:
    from matplotlib.figure import Figure

    curves = results["curves"].to_dataset()
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    for part, colour in (("train", "#0072B2"), ("validation", "#D55E00")):
        upper.plot(curves["step"], curves[f"{part}_accuracy"], color=colour, label=f"{part} rows")
        lower.plot(curves["step"], curves[f"{part}_loss"], color=colour)
    upper.set_ylabel("accuracy")
    upper.legend()
    lower.set_ylabel("centred loss")
    lower.set_yscale("log")
    lower.set_xscale("symlog", linthresh=max(spec.log_every, 1))
    lower.set_xlabel("step")
    drawn = {"training": Captioned(figure, "Accuracy and loss on the rows it was trained on and on the others.")}
    if spec.llc:
        drawn["llc"] = _llc_figure(results)
    return drawn


def _llc_figure(results: xr.DataTree) -> Captioned:
    from matplotlib.figure import Figure

    found = results["llc"].to_dataset()
    figure = Figure(figsize=(7.0, 3.0), layout="constrained")
    axes = figure.add_subplot()
    for place in range(found.sizes["checkpoint"]):
        row = found.isel(checkpoint=place)
        error = float(row["error"]) if np.isfinite(row["error"]) else 0.0
        fill = "#009E73" if int(row["status"]) == 0 else "none"
        axes.errorbar(float(row["step"]), float(row["value"]), yerr=error, fmt="o", ms=4.5, color="#009E73", mfc=fill)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlabel("step")
    axes.set_ylabel("λ̂")
    return Captioned(figure, "λ̂ on the training rows at each checkpoint. Hollow: not ok, as where it is no minimum.")


RECIPE = Recipe(
    name="grokking",
    version=1,
    question="When does a small network that has learned its training data by heart find the rule behind them?",
    spec=Grokking,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"p": 7, "width": 32, "fraction": 0.6, "lr": 1e-2, "steps": 300, "batch": 16, "checkpoints": 6},
)
