"""How often are we wrong when we say ok? The arena: random problems of many families, with answers known otherwise.

Every problem is drawn from the seed. Its outcome is stored as soon as it is there, so that a run that was stopped goes
on with the next problem.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from phasecast.core.answers import Answer
from phasecast.core.results import Measurement
from phasecast.core.types import PyTree
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.runs import Run, run
from phasecast.lab.spec import Spec
from phasecast.lab.store import Store
from phasecast.lab.tables import Table
from phasecast.studies.arena.families import FAMILIES, select
from phasecast.studies.arena.family import Outcome
from phasecast.studies.arena.tally import HEAD, Judged, Tally, table_rows

if TYPE_CHECKING:
    import xarray as xr


class Arena(Spec):
    """Which families, and how many problems of each."""

    families: tuple[str, ...] = Field(
        default=tuple(FAMILIES), min_length=1, description="families, or areas such as llc for all of theirs"
    )
    quick: bool = Field(default=False, description="a few problems of each family, the first of the full run")
    problem: int | None = Field(default=None, ge=0, lt=10_000, description="this problem of each family only")

    @field_validator("families")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return select(names)

    def problems(self) -> list[tuple[str, int]]:
        """Every problem: its family and number."""
        if self.problem is not None:
            return [(name, self.problem) for name in self.families]
        counts = {name: FAMILIES[name].quick if self.quick else FAMILIES[name].full for name in self.families}
        return [(name, number) for name, count in counts.items() for number in range(count)]


@dataclass(frozen=True)
class ArenaRecord:
    """What the arena found: the record of every family, and the run that holds it.

    ``wrong`` lists what is wrong and ok; ``str()`` is a table, ``plain()`` the same for other programs.
    """

    seed: int
    tallies: Sequence[Tally]
    run: Run

    @property
    def wrong(self) -> list[Judged]:
        return [one for tally in self.tallies for one in tally.wrong]

    @property
    def failed(self) -> list[Judged]:
        return [one for tally in self.tallies for one in tally.failed]

    def __getitem__(self, family: str) -> Tally:
        return next(tally for tally in self.tallies if tally.family.name == family)

    def plain(self) -> dict[str, Any]:
        return {
            **{key: value for key, value in self.run.plain().items() if key != "summary"},
            "seed": self.seed,
            "sentence": _sentence(self.tallies),
            "families": [tally.plain(self.seed) for tally in self.tallies],
            "wrong_and_ok": [one.plain(self.seed) for one in self.wrong],
        }

    def __str__(self) -> str:
        rows = [HEAD, *table_rows(self.tallies)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        if any(tally.family.refusing for tally in self.tallies):
            lines += ["* a warning or a refusal is the right answer here"]
        for title, chosen in (("wrong and ok", self.wrong), ("failed", self.failed)):
            lines += ["", f"{title}:"] if chosen else []
            lines += [f"  {one.sentence()}\n    {one.command(self.seed)}" for one in chosen]
        missed = [(tally.family.name, reason) for tally in self.tallies for reason in tally.missed()]
        lines += ["", *(f"{name}: {reason}" for name, reason in missed)] if missed else []
        return "\n".join([*lines, "", _sentence(self.tallies)])


def arena(
    families: str | Sequence[str] | None = None,
    *,
    seed: int = 0,
    quick: bool = False,
    problem: int | None = None,
    store: Store | str | Path | None = None,
    quiet: bool = False,
) -> ArenaRecord:
    """Judge the product on random problems whose answers are known otherwise; stored, and resumed if it was stopped.

    Parameters
    ----------
    families: names or areas (``"llc"``); defaults to all.
    seed: draws every problem and seeds every sampler.
    quick: a few problems of each family instead of all.
    problem: this problem of each family only.
    """
    chosen = [families] if isinstance(families, str) else families
    values = {"seed": seed, "quick": quick, "problem": problem, **({} if chosen is None else {"families": chosen})}
    finished = run(RECIPE, values, store=store, quiet=quiet)
    return record(finished)


def record(finished: Run) -> ArenaRecord:
    """The record in a finished run of the arena."""
    spec = finished.spec
    assert isinstance(spec, Arena)
    return ArenaRecord(spec.seed, tallies_of(spec, finished.results()), finished)


def work(spec: Arena, state: PyTree) -> Iterator[Chunk]:
    """One problem per chunk."""
    problems = spec.problems()
    wrong = 0 if state is None else int(state["wrong"])
    for done in range(0 if state is None else int(state["done"]), len(problems)):
        name, number = problems[done]
        begun = time.monotonic()
        outcome = FAMILIES[name].outcome(spec.seed, number)
        seconds = time.monotonic() - begun
        wrong += outcome.wrong
        low, high = outcome.interval or (math.nan, math.nan)
        row = {
            "family": [name],
            "problem": [number],
            "status": [outcome.status],
            "estimate": [outcome.estimate],
            "error": [outcome.error],
            "truth": [outcome.truth],
            "truth_error": [outcome.truth_error],
            "low": [low],
            "high": [high],
            "words": [outcome.words],
            "reasons": [outcome.reasons],
        }
        rows = {"outcomes": row, "clock": {"seconds": [seconds]}}
        yield Chunk({"done": done + 1, "wrong": wrong}, rows, done + 1, len(problems), ("wrong and ok", float(wrong)))
        _forget_programs()


def _forget_programs() -> None:
    """Every problem compiles programs of its own; hundreds of them would fill the memory of the process."""
    if "jax" in sys.modules:
        import jax

        jax.clear_caches()


def layout(spec: Arena) -> Mapping[str, Table]:
    meanings = {
        "family": "name of the family",
        "problem": "number of the problem in its family",
        "status": "ok, warning, refused, failed or skipped",
        "estimate": "the answer that is judged",
        "error": "its standard error",
        "truth": "the answer by another route; NaN where no answer is right",
        "truth_error": "error of that",
        "low": "lower end of the 95% interval, where that is the answer",
        "high": "upper end of it",
        "words": "the problem in words",
        "reasons": "reasons of a warning or refusal, or the exception",
    }
    text = dict.fromkeys(("family", "status", "words", "reasons"), "string")
    outcomes = Table("outcome", dict.fromkeys(meanings, ()), {}, meanings, {**text, "problem": "int64"})
    return {"outcomes": outcomes, "clock": Table("outcome", {"seconds": ()}, {}, {"seconds": "wall seconds"})}


def tallies_of(spec: Arena, results: xr.DataTree) -> list[Tally]:
    """The record of every family, from the stored outcomes."""
    node = results["outcomes"].to_dataset()
    columns = {name: node[name].values for name in node.data_vars}
    seconds = results["clock"].to_dataset()["seconds"].values
    judged: dict[str, list[Judged]] = {name: [] for name in spec.families}
    for at in range(len(seconds)):
        low, high = float(columns["low"][at]), float(columns["high"][at])
        outcome = Outcome(
            str(columns["status"][at]),
            float(columns["estimate"][at]),
            float(columns["error"][at]),
            float(columns["truth"][at]),
            float(columns["truth_error"][at]),
            str(columns["words"][at]),
            str(columns["reasons"][at]),
            None if math.isnan(low) else (low, high),
        )
        name = str(columns["family"][at])
        judged[name].append(Judged(name, int(columns["problem"][at]), outcome, float(seconds[at])))
    return [Tally(FAMILIES[name], judged[name]) for name in spec.families]


def _sentence(tallies: Sequence[Tally]) -> str:
    wrong, ok = sum(len(tally.wrong) for tally in tallies), sum(tally.count("ok") for tally in tallies)
    within = sum(tally.covered("ok")[0] for tally in tallies)
    problems, failed = sum(len(tally.judged) for tally in tallies), sum(len(tally.failed) for tally in tallies)
    covered = f"; ±2 errors hold for {within} of them ({within / ok:.0%})" if ok else ""
    more = f" {failed} failed." if failed else ""
    return f"{problems} problems of {len(tallies)} families: {ok} ok{covered}; {wrong} wrong and ok.{more}"


def conclude(spec: Arena, results: xr.DataTree) -> Conclusion:
    tallies = tallies_of(spec, results)
    answers = []
    for tally in tallies:
        ok, of = tally.count("ok"), len(tally.judged)
        what = "±2 errors hold among ok" if ok else "ok"
        counts = ", ".join(f"{tally.count(s)} {s}" for s in ("ok", "warning", "refused", "failed") if tally.count(s))
        label = f"{tally.family.name} ({of} problems: {counts}; {tally.seconds:.0f} s): {what}"
        answers.append(Answer("coverage", tally.measurement(spec.seed), label, {"family": tally.family.name}))
    wrong = [one for tally in tallies for one in tally.wrong]
    listed = [f"{one.sentence()}. {one.command(spec.seed)}" for one in wrong]
    count = Measurement(len(wrong), 0.0, error_kind="exact", reasons=listed)
    answers.append(Answer("wrong-and-ok", count, "wrong and ok (beyond 4 combined errors), all families"))
    numbers = {
        "problems": sum(len(tally.judged) for tally in tallies),
        "ok": sum(tally.count("ok") for tally in tallies),
        "wrong_and_ok": len(wrong),
        "failed": sum(tally.count("failed") for tally in tallies),
    }
    return Conclusion(answers, _sentence(tallies), numbers)


def figures(spec: Arena, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.studies.arena.drawing import distances, histogram, shares

    tallies = tallies_of(spec, results)
    return {"shares": shares(tallies), "pit": histogram(tallies), "distances": distances(tallies)}


RECIPE = Recipe(
    name="arena",
    version=1,
    question="How often are we wrong when we say ok, on random problems whose answer is known by another route?",
    spec=Arena,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"families": ("exact-monomials", "llc-bowls"), "problem": 0},
)
