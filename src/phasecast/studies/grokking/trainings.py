"""What the studies of grokking share: groups of trainings, λ̂ at their checkpoints, and the tables of both.

A study is a list of groups, each of networks of one shape that are trained side by side. After a piece of training
comes a chunk; at a checkpoint, a chunk for each λ̂ that is sampled there. The state is that of the training and how many
λ̂ are done at its step, so that a study goes on from any chunk to the same bits.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from phasecast.coefficients.llc.options import LLCOptions
from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement, Result, Status
from phasecast.grokking.analysis.curves import effective_width, grokking_severity
from phasecast.grokking.networks import quadratic
from phasecast.grokking.tasks import Task, split, task
from phasecast.grokking.training import CURVES, Piece, train
from phasecast.lab.recipe import Chunk
from phasecast.lab.spec import Spec
from phasecast.lab.tables import Table
from phasecast.sampling import Fixed
from phasecast.studies.grokking.checkpoint_llc import PAPER_CHAINS, PAPER_GAMMA, PAPER_NBETA, PAPER_SGLD, CheckpointLLC

if TYPE_CHECKING:
    import xarray as xr

NBETA, GAMMA = PAPER_NBETA, PAPER_GAMMA
SGLD_STEP, SGLD_DRAWS, SGLD_BURN_IN = PAPER_SGLD.step_size or 0.0, PAPER_SGLD.draws, PAPER_SGLD.burn_in
SGLD_CHAINS = PAPER_CHAINS
STATUSES = (Status.OK, Status.WARNING, Status.REFUSED)
TRACE = 128  # points kept of the chains' mean excess loss
WHERE = ("group", "member", "step")


class Study(Spec):
    """The base of the studies' specs: small sizes, and with ``scale = "paper"`` those of Cullen et al. 2026."""

    PAPER: ClassVar[Mapping[str, Any]] = {}
    """What ``scale = "paper"`` sets, where it is not given."""

    scale: Literal["laptop", "paper"] = Field(
        "laptop", description="laptop: minutes; paper: the sizes of the paper, hours, for what is not given"
    )

    @model_validator(mode="before")
    @classmethod
    def _to_scale(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and values.get("scale") == "paper":
            return {**cls.PAPER, **values}
        return values


@dataclass(frozen=True)
class Sampling:
    """One way to sample λ̂; the names are what figures call it."""

    name: str
    gamma: float = GAMMA
    sampler: str | Fixed = "langevin"
    chains: int = 4
    target: float = 0.03


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


def check(groups: Sequence[Group]) -> None:
    """Refuse groups that cannot be trained, before anything is."""
    for group in groups:
        rows = group.pairs
        if group.batch is not None and group.batch > rows:
            raise BadInput(
                f"a batch of {group.batch} is larger than the {rows} training rows of p = {group.p}",
                f"use at most {rows}",
            )


def work_through(groups: Sequence[Group], samplings: Sequence[Sampling], state: Any) -> Iterator[Chunk]:
    """Train group after group, and sample λ̂ in every way at each sampled checkpoint."""
    place = state or {"group": 0, "done": 0, "measured": 0, "training": None}
    done, training, measured = int(place["done"]), place["training"], int(place["measured"])
    for number in range(int(place["group"]), len(groups)):
        bench, left = _Bench(number, groups[number], samplings), len(groups) - number - 1
        if training is not None:  # λ̂ that were not sampled yet when the run was stopped
            for nth, rows, metric in bench.measure(training, measured):
                done += 1
                yield _chunk(number, done, training, nth, rows, bench.due(training) - nth + left, metric)
        for piece in bench.train(training):
            done += 1
            ahead = bench.ahead(piece, left)
            yield _chunk(number, done, piece.state, 0, bench.rows(piece), ahead, bench.metric(piece))
            for nth, rows, metric in bench.measure(piece.state, 0):
                done += 1
                yield _chunk(number, done, piece.state, nth, rows, ahead - nth, metric)
        training, measured = None, 0


def _chunk(number: int, done: int, training: Any, measured: int, rows: Any, ahead: int, metric: Any) -> Chunk:
    """A chunk; ``ahead`` chunks are expected after it."""
    state = {"group": number, "done": done, "measured": measured, "training": training}
    return Chunk(state, rows, done, done + ahead, metric)


class _Bench:
    """One group at work."""

    def __init__(self, number: int, group: Group, samplings: Sequence[Sampling]):
        self.number, self.group, self.samplings = number, group, samplings
        self.network = quadratic(group.table, group.width)
        self.members = tuple(range(len(group.seeds))) if group.members is None else group.members
        self.measurements = len(self.members) * len(samplings)
        self.sampled: dict[int, CheckpointLLC] = {}

    def train(self, state: Any) -> Iterator[Piece]:
        group = self.group
        return train(
            group.table, self.network, steps=group.steps, fraction=group.fraction, count=group.count, lr=group.lr,
            weight_decay=group.weight_decay, batch=group.batch, seeds=group.seeds, log_every=group.log_every,
            checkpoints=group.checkpoints, state=state,
        )  # fmt: skip

    def due(self, training: Any) -> int:
        """How many λ̂ are sampled at the step of a state."""
        return self.measurements if int(training["step"]) in self.group.sampled else 0

    def ahead(self, piece: Piece, left: int) -> int:
        """Chunks after a piece, if the groups that are left are like this one."""
        pieces = piece.total - piece.number
        later = sum(step > piece.step for step in self.group.sampled) if pieces else 0
        each = piece.total + len(self.group.sampled) * self.measurements
        return pieces + self.due(piece.state) + later * self.measurements + left * each

    def rows(self, piece: Piece) -> dict[str, Any]:
        """Logged curves and, at a checkpoint, widths, of all members as rows."""
        logged, members = piece.curves["step"], len(self.group.seeds)
        rows: dict[str, Any] = {
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

    def metric(self, piece: Piece) -> tuple[str, float] | None:
        accuracy = piece.curves["validation_accuracy"]
        words = f"p = {self.group.p}, K = {self.group.width}, step {piece.step}: validation accuracy"
        return (words, float(np.nanmean(accuracy[-1]))) if len(accuracy) and np.isfinite(accuracy[-1]).any() else None

    def measure(self, training: Any, measured: int) -> Iterator[tuple[int, dict[str, Any], Any]]:
        """The λ̂ that are still to be sampled at the step of a state, one after another."""
        for number in range(measured, self.due(training)):
            member = self.members[number // len(self.samplings)]
            way = number % len(self.samplings)
            row = self._llc(training, member, self.samplings[way])
            where = {"group": self.number, "member": member, "step": int(training["step"]), "sampling": way}
            columns = {name: np.array([value]) for name, value in {**where, **row}.items()}
            yield number + 1, {"llc": columns}, ("λ̂", float(row["value"])) if np.isfinite(row["value"]) else None

    def _llc(self, training: Any, member: int, way: Sampling) -> dict[str, Any]:
        params = {name: leaf[member] for name, leaf in training["params"].items()}
        if not all(np.isfinite(leaf).all() for leaf in params.values()):
            return {"value": np.nan, "error": np.nan, "status": 2, "trace": np.full(TRACE, np.nan)}
        options = LLCOptions(nbeta=NBETA, gamma=way.gamma, sampler=way.sampler, chains=way.chains, target=way.target)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # chains that diverge leave nothing to average: a NaN here
            measured = self._sampled(self.group.seeds[member]).sample(params, options)
        draws = measured.traces["excess"]
        mean = draws.mean(axis=1) if draws.ndim == 2 and len(draws) else np.array([np.nan])
        places = np.linspace(0, len(mean) - 1, TRACE)
        return {
            "value": float(np.asarray(measured.estimate)),
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


def defended(answers: Mapping[str, Measurement]) -> dict[str, Result]:
    """Answers without those refused, if any is left: what cannot be told of one setting does not refuse the others."""
    kept = {name: one for name, one in answers.items() if one.status is not Status.REFUSED}
    return dict(kept or answers)


def tables(samplings: Sequence[Sampling]) -> dict[str, Table]:
    """The tables of a study; ``llc`` where something is sampled."""
    whole: dict[str, str] = dict.fromkeys(WHERE, "int64")
    found = {
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
        found["llc"] = Table(
            "sampled",
            {**dict.fromkeys((*WHERE, "sampling", "value", "error", "status"), ()), "trace": ("draw",)},
            {"way": [way.name for way in samplings]},
            {"value": "λ̂ on the training rows", "status": "0 ok, 1 warning, 2 refused", "trace": "chains' nβ(L − L*)"},
            {**whole, "sampling": "int64", "status": "int64"},
            16,
        )
    return found


class Found:
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
        """Logged curves of one network, as far as they are numbers."""
        rows = self._rows("curves", group=group, member=member)
        seen = np.isfinite(rows["train_loss"])
        return {key: column[seen] for key, column in rows.items()}

    def widths(self, group: int, member: int) -> tuple[np.ndarray, np.ndarray]:
        """Steps of the checkpoints and K_eff there."""
        rows = self._rows("checkpoints", group=group, member=member)
        return rows["step"], rows["k_eff"]

    def llc(self, group: int, member: int, sampling: int = 0) -> dict[str, np.ndarray]:
        """λ̂ of one network in one way: step, value, error, status, trace."""
        return self._rows("llc", group=group, member=member, sampling=sampling)

    def severity(self, group: int, member: int) -> Measurement:
        """GSM of one network."""
        seen = self.curves(group, member)
        return grokking_severity(seen["step"], seen["train_accuracy"], seen["validation_accuracy"])

    def accuracy(self, group: int, member: int) -> float:
        """The last validation accuracy."""
        return float(self.curves(group, member)["validation_accuracy"][-1])
