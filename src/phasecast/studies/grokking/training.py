"""When does a network generalise? A small network first memorises part of the table of a rule, then learns the rule.

One training: losses and accuracies along the way, the weights at checkpoints, when each accuracy was reached, the
grokking severity and the effective width; at each checkpoint λ̂ on the training rows, calibrated and with the paper's
settings, and other measures of the network; when each curve changed, and in which order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from phasecast.coefficients.llc.options import LLCOptions
from phasecast.core.answers import Answer
from phasecast.core.errors import BadInput
from phasecast.core.results import Comparison, Measurement, Prediction, Status
from phasecast.grokking.analysis.checkpoint_measures import OBSERVED, observe
from phasecast.grokking.analysis.curves import POLICY, crossings, effective_width, grokking_severity
from phasecast.grokking.analysis.timeline import Timeline, narrate, timeline
from phasecast.grokking.networks import Architecture, Params, mlp, quadratic, transformer
from phasecast.grokking.tasks import MODULAR, Task, split, task
from phasecast.grokking.theory.predictions import exact_lines
from phasecast.grokking.theory.ridge import ridge_solution
from phasecast.grokking.training import CURVES, Piece, State, checkpoint_steps, train
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.spec import Spec
from phasecast.lab.tables import Rows, Table
from phasecast.studies.grokking.checkpoint_llc import PAPER_CHAINS, PAPER_SGLD, CheckpointLLC
from phasecast.studies.grokking.forecasts import LOGGED, Forecaster, foresee
from phasecast.studies.grokking.trainings import REFUSED, STATUSES

if TYPE_CHECKING:
    import xarray as xr

REACHED = {
    "train99": f"step of training accuracy {POLICY.memorised:g}",
    "val50": f"step of validation accuracy {POLICY.half:g}",
    "val95": f"step of validation accuracy {POLICY.generalised:g}",
}
SMALLEST_RIDGE = 1e-9  # per training row, if the weight decay is smaller: the ridge solution needs a positive one
WEIGHT_MEASURES = "weight-measures"  # the table of what the weights show at each checkpoint, and its figure
MEASURED = ("value", "error", "status", "paper_value", "paper_error")
CHAINS, TARGET = 4, 0.02  # of λ̂ at a checkpoint: 2% is small beside its changes during training


class Grokking(Spec):
    """The task, the network and how it is trained."""

    task: Literal["addition", "subtraction", "multiplication", "division", "permutations", "sparse_parity"] = Field(
        default="addition", description="the rule"
    )
    p: int = Field(default=23, ge=3, le=200, description="modulus of the modular rules")
    degree: int = Field(default=5, ge=2, le=5, description="elements that the permutations permute")
    bits: int = Field(default=10, ge=2, le=16, description="bits of sparse parity")
    relevant: int = Field(default=3, ge=1, le=16, description="bits that enter the parity")
    network: Literal["quadratic", "mlp", "transformer"] = Field(default="quadratic", description="the network")
    width: int = Field(
        default=128, ge=1, le=65536, description="hidden units; for a transformer, the width of its residual stream"
    )
    activation: str | None = Field(default=None, description="of the hidden units; defaults to that of the network")
    fraction: float = Field(default=0.4, description="fraction of the rows to train on")
    lr: float = Field(default=1e-3, gt=0, description="learning rate")
    weight_decay: float = Field(default=1e-4, ge=0, description="coefficient of the L2 term, or of AdamW's decay")
    batch: int | None = Field(default=None, ge=2, description="rows of a minibatch; null for all")
    steps: int = Field(default=6000, ge=1, le=10_000_000, description="steps of training")
    optimiser: Literal["adam", "adamw", "sgd"] = Field(
        default="adam", description="adam has the L2 term in the gradient"
    )
    log_every: int = Field(default=20, ge=1, description="steps between logged losses and accuracies")
    checkpoints: int = Field(default=20, ge=2, le=1000, description="approximate number of checkpoints")
    llc: bool = Field(default=True, description="whether to sample λ̂ and measure the weights at each checkpoint")
    nbeta: float = Field(default=30.0, gt=0, description="inverse temperature nβ of λ̂; 30 is the paper's")
    gamma: float = Field(default=5.0, gt=0, description="localisation γ of λ̂ around the checkpoint; 5 is the paper's")
    sampler: Literal["langevin", "hmc"] = Field(default="langevin", description="sampler of λ̂; hmc is exact and slower")
    paper_mode: bool = Field(
        default=True, description="whether to sample λ̂ also with the paper's settings, SGLD with ε = 1e-4"
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        table = table_of(self)
        network_of(self, table)
        rows = len(split(table, self.fraction, self.seed)[0])
        if self.batch is not None and self.batch > rows:
            raise BadInput(f"batch = {self.batch} is larger than the {rows} training rows", f"use at most {rows}")
        if observable(self) and self.p % 2 == 0:
            raise BadInput(
                f"the frequencies of the weights are measured modulo an odd p, not {self.p}",
                "use an odd p, or llc=false",
            )
        return self


def table_of(spec: Grokking) -> Task:
    """The task of a spec."""
    return task(spec.task, spec.p, degree=spec.degree, bits=spec.bits, relevant=spec.relevant)


def network_of(spec: Grokking, table: Task) -> Architecture:
    """The network of a spec."""
    if spec.network == "transformer":
        if spec.activation is not None:
            raise BadInput("the transformer has fixed activations", "leave activation at null")
        return transformer(table, spec.width)
    if spec.network == "mlp":
        return mlp(table, spec.width, activation=spec.activation or "relu")
    return quadratic(table, spec.width, spec.activation or "square")


def observable(spec: Grokking) -> bool:
    """Whether the theory applies: the quadratic network on pairs modulo p."""
    square = spec.network == "quadratic" and spec.activation in (None, "square")
    return spec.llc and square and spec.task in MODULAR


def work(spec: Grokking, state: State | None) -> Iterator[Chunk]:
    """One chunk per piece of the training; a checkpoint adds its weights and, with ``llc``, λ̂ and other measures."""
    table = table_of(spec)
    network = network_of(spec, table)
    measures = CheckpointMeasures(spec, table, network) if spec.llc else None
    state = dict(state) if state is not None else None
    forecaster = Forecaster(
        spec.model_dump(), len(split(table, spec.fraction, spec.seed)[0]), (state or {}).pop(LOGGED, {})
    )
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
            if measures is not None:
                rows |= measures.rows(piece)
        made = forecaster.add(curves)
        kept = {**piece.state, LOGGED: forecaster.logged}
        yield Chunk(kept, rows, piece.number, piece.total, _metric(curves, rows), made)


def _metric(curves: Mapping[str, np.ndarray], rows: Mapping[str, Any]) -> tuple[str, float] | None:
    """The number for the progress bar: the newest λ̂, or else the validation accuracy."""
    if "llc" in rows and np.isfinite(rows["llc"]["value"][0]):
        return "λ̂", float(rows["llc"]["value"][0])
    accuracy = curves["validation_accuracy"]
    return ("validation accuracy", float(accuracy[-1])) if len(accuracy) else None


def _checkpoint_row(network: Architecture, piece: Piece) -> dict[str, Any]:
    params = piece.params()
    alive = effective_width(params[network.readout]) if network.readout else -1
    weights = {f"weights.{name}": leaf[None] for name, leaf in params.items()}
    return {"step": np.array([piece.step]), "k_eff": np.array([alive]), **weights}


class CheckpointMeasures:
    """λ̂ and the other numbers at checkpoints, on the training rows; compiled once."""

    def __init__(self, spec: Grokking, table: Task, network: Architecture):
        rows = split(table, spec.fraction, spec.seed)[0]
        self.spec, self.network = spec, network
        self.tokens, self.labels = table.tokens[rows].astype(np.int32), table.labels[rows].astype(np.int32)
        self.first = network.init(spec.seed)
        self.sampled = CheckpointLLC(network, self.tokens, self.labels, precision="float32")

    def rows(self, piece: Piece) -> Rows:
        """The rows of the tables ``llc`` and ``along`` for a checkpoint."""
        params = {name: np.asarray(leaf) for name, leaf in piece.params().items()}
        if not all(np.isfinite(leaf).all() for leaf in params.values()):  # diverged: nothing to measure
            sampled = dict.fromkeys(MEASURED, np.nan) | {"status": REFUSED}
            observed = {str(name): np.nan for name in OBSERVED}
        else:
            sampled = self._llc(params)
            observed = self._observed(params) if observable(self.spec) else {}
        tables = {"llc": _row(piece.step, sampled)}
        if observable(self.spec):
            tables[WEIGHT_MEASURES] = _row(piece.step, observed)
        return tables

    def _llc(self, params: Params) -> dict[str, float]:
        """λ̂ on the training rows, and as the paper samples it; not ok where the checkpoint is not a minimum yet."""
        spec = self.spec
        options = LLCOptions(
            nbeta=spec.nbeta,
            gamma=spec.gamma,
            sampler=spec.sampler,
            chains=CHAINS,
            target=TARGET,
            seconds=None,
            seed=spec.seed,
        )
        measured = self.sampled.sample(params, options)
        row = {"value": measured.estimate, "error": measured.error, "status": STATUSES.index(measured.status)}
        if spec.paper_mode:
            as_printed = options.model_copy(update={"sampler": PAPER_SGLD, "chains": PAPER_CHAINS})
            paper = self.sampled.sample(params, as_printed)
            row |= {"paper_value": paper.estimate, "paper_error": paper.error}
        return {name: float(np.asarray(row.get(name, np.nan))) for name in MEASURED}

    def _observed(self, params: Params) -> dict[str, float]:
        spec = self.spec
        return observe(params, self.first, self.tokens, self.labels, spec.p, nbeta=spec.nbeta, gamma=spec.gamma)


def _row(step: int, numbers: Mapping[str, float]) -> dict[str, np.ndarray]:
    return {"step": np.array([step]), **{name: np.array([float(number)]) for name, number in numbers.items()}}


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
            meanings={"k_eff": "hidden units in use; −1 if the network has no read-out of units"},
            dtypes={"step": "int64", "k_eff": "int64", **{f"weights.{name}": "float32" for name in weights}},
            rows_per_chunk=1,
        ),
    }
    if spec.llc:
        meanings = {"value": "λ̂ on the training rows", "status": "0 ok, 1 warning, 2 refused", "paper_value": "by SGLD"}
        kinds = {"step": "int64"}
        tables["llc"] = Table("checkpoint", dict.fromkeys(("step", *MEASURED), ()), {}, meanings, kinds, 1)
    if observable(spec):
        columns: dict[str, tuple[str, ...]] = dict.fromkeys(("step", *OBSERVED), ())
        tables[WEIGHT_MEASURES] = Table("checkpoint", columns, {}, {}, {"step": "int64"}, 1)
    return tables


def conclude(spec: Grokking, results: xr.DataTree) -> Conclusion:
    curves, finite = _curves(results)
    step, diverged = curves["step"], None if finite.all() else int(curves["step"][~finite][0])
    train_accuracy, validation_accuracy = (curves[name][finite] for name in CURVES[2:])
    times = crossings(step[finite], train_accuracy, validation_accuracy)
    severity = grokking_severity(step[finite], train_accuracy, validation_accuracy)
    alive = int(results["checkpoints"].to_dataset()["k_eff"].values[-1])
    answers: list[Answer] = []
    if diverged is not None:
        reason = (
            f"the loss is NaN at step {diverged}, earlier results are kept; "
            f"try a smaller learning rate than {spec.lr:g}"
        )
        loss = Measurement.refused(reason, error_kind="exact", name="final training loss")
        answers.append(Answer("training-loss", loss, "final training loss"))
    for name, time in times.items():
        if time is not None:
            first = Measurement(time, spec.log_every / 2, error_kind="resolution", name=f"step of {name}")
            answers.append(Answer(name, first, REACHED[name]))
    answers.append(Answer("gsm", severity, "grokking severity GSM"))
    if times["val95"] is not None and diverged is None:
        answers += _units_in_use(spec, results["checkpoints"].to_dataset()["k_eff"].values)
    numbers: dict[str, float | int | None] = {
        **times,
        "gsm": float(severity) if severity.status is Status.OK else None,
        "k_eff": alive if alive >= 0 and diverged is None else None,
        "train_rows": len(split(table_of(spec), spec.fraction, spec.seed)[0]),
        "train_accuracy": float(train_accuracy[-1]),
        "val_accuracy": float(validation_accuracy[-1]),
        "train_loss": float(curves["train_loss"][finite][-1]),
        "val_loss": float(curves["validation_loss"][finite][-1]),
        "steps": int(step[-1]),
        "width": spec.width,
        "diverged": diverged,
    }
    changes = timeline_of(results) if spec.llc and diverged is None else None
    if changes is not None:
        for name in changes.transitions:
            if (change := changes.when(name)) is not None:
                answers.append(Answer("transition", change, f"step at which {change.name} changed", {"curve": name}))
        numbers |= _numbers_of(results["llc"].to_dataset())
        answers += _beside_theory(spec, results, alive)
        if changes.mirrored is not None and changes.mirrored.status is not Status.REFUSED:
            answers.append(
                Answer("mirror-correlation", changes.mirrored, "rank correlation ρ of λ̂ and validation loss")
            )
    return Conclusion(answers, narrate(numbers, changes, f"the rule ({spec.task})"), numbers, key="val95")


def _units_in_use(spec: Grokking, alive: np.ndarray) -> list[Answer]:
    """K_eff at the end beside 2(p−1), four units for each frequency; while units still die that is a lower bound."""
    square = spec.network == "quadratic" and spec.activation in (None, "square")
    enough = 2 * (spec.p - 1)
    if not square or spec.task != "addition" or spec.width < enough or not spec.weight_decay > 0:
        return []
    settled = len(alive) > 1 and alive[-1] == alive[-2]
    prediction = Prediction(
        enough,
        regime="a network that generalised, after its other units have died",
        source="four units for each of (p−1)/2 frequencies; our correction of claim grokking/section-6.2",
        kind="exact" if settled else "lower-bound",
    )
    measured = Measurement(int(alive[-1]), 0.5, error_kind="resolution", name="K_eff at the end")
    return [Answer("k-eff", Comparison(prediction, measured), "hidden units in use at the end, K_eff")]


def _curves(results: xr.DataTree) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The logged curves, and where they are finite."""
    logged = results["curves"].to_dataset()
    curves = {name: logged[name].values for name in ("step", *CURVES)}
    return curves, np.isfinite(curves["train_loss"])


def timeline_of(results: xr.DataTree) -> Timeline:
    """When each curve of a run changed; remembered, because conclusion, figures and page each need it."""
    checkpoints, sampled = results["checkpoints"].to_dataset(), results["llc"].to_dataset()
    others = {"step": checkpoints["step"].values}
    if checkpoints["k_eff"].values[-1] >= 0:
        others["k_eff"] = checkpoints["k_eff"].values
    if (measures := _weight_measures(results)) is not None:
        others["fourier_share"] = measures["fourier_share"].values
    llc = {name: sampled[name].values for name in ("step", "value", "error")}
    llc["usable"] = sampled["status"].values < REFUSED
    return _timeline(_frozen(_curves(results)[0]), _frozen(others), _frozen(llc))


FrozenColumns = tuple[tuple[str, str, bytes], ...]


def _frozen(columns: Mapping[str, np.ndarray]) -> FrozenColumns:
    """Columns as a key of a cache: name, dtype and bytes of each."""
    return tuple((name, column.dtype.str, column.tobytes()) for name, column in columns.items())


@lru_cache(maxsize=8)
def _timeline(*tables: FrozenColumns) -> Timeline:
    return timeline(*({name: np.frombuffer(data, dtype) for name, dtype, data in columns} for columns in tables))


def _numbers_of(sampled: xr.Dataset) -> dict[str, float | None]:
    usable = sampled["value"].values[sampled["status"].values < REFUSED]
    return {
        "llc_peak": float(usable.max()) if len(usable) else None,
        "llc_last": float(usable[-1]) if len(usable) else None,
    }


def _beside_theory(spec: Grokking, results: xr.DataTree, alive: int) -> list[Answer]:
    """What theory predicts for the first and the last weights, compared with the measurements there.

    λ̂ at γ > 0 lies below the exact λ, its limit for γ → 0, which is therefore an upper bound. The memorising basin of
    the first weights is ridge regression on their features; λ over V alone there is the lazy value.
    """
    if not (observable(spec) and spec.task == "addition"):
        return []
    table = table_of(spec)
    rows, others = split(table, spec.fraction, spec.seed)
    lines = exact_lines(spec.p, spec.width, len(rows), max(1, alive))
    checkpoints, sampled = results["checkpoints"].to_dataset(), results["llc"].to_dataset()
    ridge = len(rows) * max(spec.weight_decay, SMALLEST_RIDGE)
    part, held_out = ((table.tokens[chosen], table.labels[chosen]) for chosen in (rows, others))
    fitted = ridge_solution(checkpoints["weights.W"].values[0], *part, spec.p, ridge, held_out)
    rank = Comparison(lines["lazy"], Measurement(float(fitted.coefficient), 0.0, error_kind="exact"))
    accuracy = "accuracy of the ridge solution"
    answers = [
        Answer("ridge-coefficient", rank, "λ of V alone at the ridge solution", theory=True),
        Answer(
            "ridge-accuracy", _share(fitted.train_accuracy, len(rows)), f"{accuracy}, training rows", {"rows": "train"}
        ),
        Answer(
            "ridge-accuracy",
            _share(fitted.val_accuracy, len(others)),
            f"{accuracy}, other rows",
            {"rows": "validation"},
        ),
    ]
    if sampled["status"].values[-1] < REFUSED:
        last = sampled.isel(checkpoint=-1)
        llc = Measurement(float(last["value"]), float(last["error"]), error_kind="mcse", name="λ̂ at the end")
        bound = Prediction(
            float(lines["feature"]),
            regime=f"K_eff = {alive}; limit γ → 0, above λ̂ at γ = {spec.gamma:g}",
            source=lines["feature"].source,
            kind="upper-bound",
        )
        answers.append(Answer("llc-at-end", Comparison(bound, llc), "λ̂ at the end"))
    return answers


def _share(value: float, rows: int) -> Measurement:
    return Measurement(value, float(np.sqrt(max(value * (1 - value), 0.0) / rows)), error_kind="datasets")


def figures(spec: Grokking, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.studies.grokking import timeline_figures as draw

    curves, finite = _curves(results)
    if not spec.llc or not finite.all():
        return {"training": draw.training(curves, spec.log_every)}
    lines = {}
    if observable(spec) and spec.task == "addition":
        alive = results["checkpoints"].to_dataset()["k_eff"].values
        n = len(split(table_of(spec), spec.fraction, spec.seed)[0])
        lines = {
            "step": results["checkpoints"].to_dataset()["step"].values,
            "half the Jacobian's rank at the start": float(exact_lines(spec.p, spec.width, n)["tangent"]),
            "lazy: only the second layer learns": float(exact_lines(spec.p, spec.width, n)["lazy"]),
            "K_eff(3p−2)/2, at most what the data allow": np.array(
                [float(exact_lines(spec.p, spec.width, n, max(1, int(k)))["feature"]) for k in alive]
            ),
        }
    localisation = f"nβ = {spec.nbeta:g}, γ = {spec.gamma:g}"
    drawn = {
        "timeline": draw.timeline_panels(
            curves, results["llc"].to_dataset(), lines, timeline_of(results), localisation
        ),
        "training": draw.training(curves, spec.log_every),
    }
    if (measures := _weight_measures(results)) is not None:
        checkpoints = results["checkpoints"].to_dataset()
        drawn[WEIGHT_MEASURES] = draw.weight_measures(measures, checkpoints, spec.width)
    return drawn


def _weight_measures(results: xr.DataTree) -> xr.Dataset | None:
    """What was measured on the weights at each checkpoint, if it was; earlier runs call the table ``along``."""
    name = next((name for name in (WEIGHT_MEASURES, "along") if name in results.children), None)
    return None if name is None else results[name].to_dataset()


RECIPE = Recipe(
    name="grokking",
    version=3,
    question="When does a small network that has memorised its training data learn the rule behind them?",
    spec=Grokking,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    foresee=lambda spec: foresee(
        spec.model_dump(), len(split(table_of(spec), spec.fraction, spec.seed)[0]), spec.steps
    ),
    tiny={
        "p": 7,
        "width": 32,
        "fraction": 0.6,
        "lr": 1e-2,
        "steps": 300,
        "batch": 16,
        "checkpoints": 6,
        "llc": False,
    },
)
