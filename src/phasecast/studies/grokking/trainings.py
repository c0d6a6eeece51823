"""What the studies of grokking share: groups of trainings, λ̂ at their checkpoints, and the tables of both.

A study is a list of groups, each of networks of one shape that are trained side by side. Every piece of training is a
chunk, and so is every λ̂ sampled at a checkpoint. The state is that of the training and the number of λ̂ finished at its
step, so that a study resumes from any chunk bit for bit.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from phasecast.coefficients.llc.options import LLCOptions
from phasecast.core.answers import Answer
from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement, Status
from phasecast.grokking.analysis.curves import effective_width, grokking_severity
from phasecast.grokking.networks import quadratic
from phasecast.grokking.tasks import Task, split, task
from phasecast.grokking.training import CURVES, Piece, State, train
from phasecast.lab.recipe import Chunk
from phasecast.lab.spec import Spec
from phasecast.lab.tables import Rows, Table
from phasecast.sampling import Fixed
from phasecast.studies.grokking.checkpoint_llc import PAPER_CHAINS, PAPER_GAMMA, PAPER_NBETA, PAPER_SGLD, CheckpointLLC

if TYPE_CHECKING:
    import xarray as xr

NBETA, GAMMA = PAPER_NBETA, PAPER_GAMMA
SGLD_STEP, SGLD_DRAWS, SGLD_BURN_IN = PAPER_SGLD.step_size or 0.0, PAPER_SGLD.draws, PAPER_SGLD.burn_in
SGLD_CHAINS = PAPER_CHAINS
STATUSES = tuple(Status)
REFUSED = STATUSES.index(Status.REFUSED)
TRACE = 128  # points kept of the chains' mean excess loss, as many as a figure shows
WHERE = ("group", "member", "step")
Metric = tuple[str, float] | None


class Study(Spec):
    """The base of the studies' specs: small sizes, and with ``scale = "paper"`` those of Cullen et al. 2026."""

    PAPER: ClassVar[Mapping[str, Any]] = {}
    """Defaults that ``scale = "paper"`` sets instead."""

    scale: Literal["laptop", "paper"] = Field(
        default="laptop", description="defaults of the other settings: laptop (minutes) or the paper's sizes (hours)"
    )

    @model_validator(mode="before")
    @classmethod
    def _to_scale(cls, values: object) -> object:
        if isinstance(values, Mapping) and values.get("scale") == "paper":
            return {**cls.PAPER, **values}
        return values


@dataclass(frozen=True)
class Sampling:
    """One way to sample λ̂; ``name`` is its label in figures."""

    name: str
    gamma: float = GAMMA
    sampler: str | Fixed = "langevin"
    chains: int = 4  # Vehtari et al. 2021 recommend at least four for R-hat
    target: float = 0.03  # relative error: small beside the differences between networks that the studies compare


CALIBRATED = Sampling("calibrated sampler")
AS_PRINTED = Sampling("SGLD as printed", sampler=PAPER_SGLD, chains=PAPER_CHAINS)

WAYS = {"calibrated": CALIBRATED, "printed": AS_PRINTED}
Way = Literal["calibrated", "printed"]


@dataclass(frozen=True)
class Group:
    """Quadratic networks of one shape, trained side by side on modular addition; members differ in the tuples."""

    p: int
    width: int
    steps: int
    seeds: tuple[int, ...]
    lr: tuple[float, ...]
    weight_decay: tuple[float, ...]
    fraction: float = 0.4
    count: int | None = None
    batch: int | None = None
    log_every: int = 50
    checkpoints: tuple[int, ...] = ()
    sampled: tuple[int, ...] = ()
    """Checkpoints at which λ̂ is sampled."""
    members: tuple[int, ...] | None = None
    """Members of which λ̂ is sampled; None for all."""

    @property
    def table(self) -> Task:
        return task("addition", self.p)

    @property
    def pairs(self) -> int:
        """Training pairs, n."""
        return len(split(self.table, self.fraction, 0, count=self.count)[0])


def check_groups(groups: Sequence[Group]) -> None:
    """Raise for groups that cannot be trained, before anything runs."""
    for group in groups:
        rows = group.pairs
        if group.batch is not None and group.batch > rows:
            raise BadInput(
                f"batch = {group.batch} is larger than the {rows} training rows of p = {group.p}",
                f"use at most {rows}",
            )


def work_through(
    groups: Sequence[Group], samplings: Sequence[Sampling], state: dict[str, Any] | None
) -> Iterator[Chunk]:
    """Train group after group, and sample λ̂ with every sampling at each sampled checkpoint."""
    start = state or {"group": 0, "done": 0, "measured": 0, "training": None}
    done, training, measured = int(start["done"]), start["training"], int(start["measured"])
    for number in range(int(start["group"]), len(groups)):
        worker, left = _GroupWorker(number, groups[number], samplings), len(groups) - number - 1
        if training is not None:  # λ̂ that were not sampled yet when the run was stopped
            for nth, rows, metric in worker.measure(training, measured):
                done += 1
                at = {"group": number, "done": done, "measured": nth, "training": training}
                yield Chunk(at, rows, done, done + worker.due(training) - nth + left, metric)
        for piece in worker.train(training):
            done += 1
            ahead = worker.ahead(piece, left)
            at = {"group": number, "done": done, "measured": 0, "training": piece.state}
            yield Chunk(at, worker.rows(piece), done, done + ahead, worker.metric(piece))
            for nth, rows, metric in worker.measure(piece.state, 0):
                done += 1
                at = {"group": number, "done": done, "measured": nth, "training": piece.state}
                yield Chunk(at, rows, done, done + ahead - nth, metric)
        training, measured = None, 0


class _GroupWorker:
    """Trains one group and samples λ̂ at its checkpoints."""

    def __init__(self, number: int, group: Group, samplings: Sequence[Sampling]):
        self.number, self.group, self.samplings = number, group, samplings
        self.network = quadratic(group.table, group.width)
        self.members = tuple(range(len(group.seeds))) if group.members is None else group.members
        self.measurements = len(self.members) * len(samplings)
        self.sampled: dict[int, CheckpointLLC] = {}

    def train(self, state: State | None) -> Iterator[Piece]:
        group = self.group
        return train(
            group.table,
            self.network,
            steps=group.steps,
            fraction=group.fraction,
            count=group.count,
            lr=group.lr,
            weight_decay=group.weight_decay,
            batch=group.batch,
            seeds=group.seeds,
            log_every=group.log_every,
            checkpoints=group.checkpoints,
            state=state,
        )

    def due(self, training: State) -> int:
        """How many λ̂ are sampled at the step of a state."""
        return self.measurements if int(training["step"]) in self.group.sampled else 0

    def ahead(self, piece: Piece, left: int) -> int:
        """Chunks after a piece, assuming that the remaining groups are like this one."""
        pieces = piece.total - piece.number
        later = sum(step > piece.step for step in self.group.sampled) if pieces else 0
        each = piece.total + len(self.group.sampled) * self.measurements
        return pieces + self.due(piece.state) + later * self.measurements + left * each

    def rows(self, piece: Piece) -> Rows:
        """Logged curves and, at a checkpoint, widths, of all members as rows."""
        logged, members = piece.curves["step"], len(self.group.seeds)
        rows = {
            "curves": {
                "group": np.full(len(logged) * members, self.number),
                "member": np.tile(np.arange(members), len(logged)),
                "step": np.repeat(logged, members),
                **{name: piece.curves[name].ravel() for name in CURVES},
            }
        }
        if piece.at_checkpoint:
            rows["checkpoints"] = {
                "group": np.full(members, self.number),
                "member": np.arange(members),
                "step": np.full(members, piece.step),
                "k_eff": np.array([effective_width(piece.params(member)["V"]) for member in range(members)]),
            }
        return rows

    def metric(self, piece: Piece) -> Metric:
        accuracy = piece.curves["validation_accuracy"]
        label = f"p = {self.group.p}, K = {self.group.width}, step {piece.step}: validation accuracy"
        return (label, float(np.nanmean(accuracy[-1]))) if len(accuracy) and np.isfinite(accuracy[-1]).any() else None

    def measure(self, training: State, measured: int) -> Iterator[tuple[int, Rows, Metric]]:
        """The λ̂ that remain to be sampled at the step of a state, one after another."""
        for number in range(measured, self.due(training)):
            member = self.members[number // len(self.samplings)]
            way = number % len(self.samplings)
            row = self._llc(training, member, self.samplings[way])
            where = {"group": self.number, "member": member, "step": int(training["step"]), "sampling": way}
            columns = {name: np.array([value]) for name, value in {**where, **row}.items()}
            yield number + 1, {"llc": columns}, ("λ̂", float(row["value"])) if np.isfinite(row["value"]) else None

    def _llc(self, training: State, member: int, way: Sampling) -> dict[str, Any]:
        params = {name: leaf[member] for name, leaf in training["params"].items()}
        if not all(np.isfinite(leaf).all() for leaf in params.values()):
            return {"value": np.nan, "error": np.nan, "status": REFUSED, "trace": np.full(TRACE, np.nan)}
        options = LLCOptions(
            nbeta=NBETA, gamma=way.gamma, sampler=way.sampler, chains=way.chains, target=way.target, seconds=None
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # chains that diverge leave nothing to average: a NaN here
            measured = self._sampled(self.group.seeds[member]).sample(params, options)
        draws = measured.traces["excess"]
        mean = draws.mean(axis=1) if draws.ndim == 2 and len(draws) else np.array([np.nan])
        places = np.linspace(0, len(mean) - 1, TRACE)
        return {
            "value": float(measured.estimate),
            "error": float(measured.error),
            "status": STATUSES.index(measured.status),
            "trace": np.interp(places, np.arange(len(mean)), mean),
        }

    def _sampled(self, seed: int) -> CheckpointLLC:
        """One compilation for all networks with the same training rows."""
        if seed not in self.sampled:
            table = self.group.table
            rows = split(table, self.group.fraction, seed, count=self.group.count)[0]
            self.sampled[seed] = CheckpointLLC(self.network, table.tokens[rows], table.labels[rows])
        return self.sampled[seed]


def defended(answers: Sequence[Answer]) -> list[Answer]:
    """Drop refused answers unless all are refused, so that one bad setting does not refuse the whole study."""
    good = [one for one in answers if one.measurement is not None and one.measurement.status is not Status.REFUSED]
    return good or list(answers)


def tables(samplings: Sequence[Sampling]) -> dict[str, Table]:
    """The tables of a study; ``llc`` if something is sampled."""
    whole: dict[str, str] = dict.fromkeys(WHERE, "int64")
    layout = {
        "curves": Table(
            "logged", dict.fromkeys((*WHERE, *CURVES), ()), {}, {"member": "network of its group"}, whole, 4096
        ),
        "checkpoints": Table(
            "checkpoint",
            dict.fromkeys((*WHERE, "k_eff"), ()),
            meanings={"k_eff": "hidden units alive"},
            dtypes={**whole, "k_eff": "int64"},
        ),
    }
    if samplings:
        layout["llc"] = Table(
            "sampled",
            {**dict.fromkeys((*WHERE, "sampling", "value", "error", "status"), ()), "trace": ("draw",)},
            {"way": [way.name for way in samplings]},
            {"value": "λ̂ on the training rows", "status": "0 ok, 1 warning, 2 refused", "trace": "chains' nβ(L − L*)"},
            {**whole, "sampling": "int64", "status": "int64"},
            16,
        )
    return layout


class StoredStudy:
    """The stored tables of a study, by group and member."""

    def __init__(self, results: xr.DataTree):
        self._tables = {
            name: {key: column.values for key, column in results[name].to_dataset().data_vars.items()}
            for name in ("curves", "checkpoints", "llc")
            if name in results.children
        }

    def _rows(self, table: str, **where: int) -> dict[str, np.ndarray]:
        columns = self._tables[table]
        chosen = np.logical_and.reduce([columns[key] == value for key, value in where.items()])
        return {str(key): column[chosen] for key, column in columns.items()}

    def curves(self, group: int, member: int) -> dict[str, np.ndarray]:
        """Logged curves of one network, as far as they are finite."""
        rows = self._rows("curves", group=group, member=member)
        finite = np.isfinite(rows["train_loss"])
        return {key: column[finite] for key, column in rows.items()}

    def widths(self, group: int, member: int) -> tuple[np.ndarray, np.ndarray]:
        """Steps of the checkpoints and K_eff there."""
        rows = self._rows("checkpoints", group=group, member=member)
        return rows["step"], rows["k_eff"]

    def llc(self, group: int, member: int, sampling: int = 0) -> dict[str, np.ndarray]:
        """λ̂ of one network by one sampling: step, value, error, status, trace."""
        return self._rows("llc", group=group, member=member, sampling=sampling)

    def severity(self, group: int, member: int) -> Measurement:
        """GSM of one network."""
        curves = self.curves(group, member)
        return grokking_severity(curves["step"], curves["train_accuracy"], curves["validation_accuracy"])

    def accuracy(self, group: int, member: int) -> float:
        """The last validation accuracy."""
        return float(self.curves(group, member)["validation_accuracy"][-1])
