"""Do all checks still find what we say? Every claim verified, with what was computed kept in a store.

A check that is an experiment is a run of its recipe; claims that share an experiment share the run. A check that is a
function is a run of the recipe ``claim-check``, whose result is the :class:`Finding`. So an interrupted verification
goes on where it stopped, and a second one computes nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from phasecast.claims.registry import all_claims, check_of, find
from phasecast.claims.seeds import APART, LARGEST, fresh_seeds
from phasecast.core.claim import Claim, ClaimVerdict, Finding, RecipeCheck
from phasecast.core.errors import BadInput, PhasecastError, unknown
from phasecast.core.results import Comparison, Result, Verdict
from phasecast.core.types import PyTree
from phasecast.lab import (
    Answer,
    Captioned,
    Chunk,
    Conclusion,
    Recipe,
    Run,
    Spec,
    Store,
    Table,
    find_recipe,
)
from phasecast.lab.engines import Engine, RunTask
from phasecast.lab.provenance import provenance
from phasecast.lab.runs import identify
from phasecast.lab.spec import make_spec
from phasecast.lab.sweeps import compute_tasks

if TYPE_CHECKING:
    import xarray as xr

NAME = "claim-check"


@dataclass(frozen=True)
class StoredVerification:
    """One claim: what its check found, or the error that stopped it."""

    claim: Claim
    finding: Finding | None
    run: str
    seconds: float | None
    """Wall time of the run, which other claims may share."""
    current: bool
    """Whether the run was made by the code as it is now (the same commit or release)."""
    error: str = ""
    seed: int = 0
    """Of a blind verification; 0 for the seeds with which the claim was judged first."""

    @property
    def confirmed(self) -> bool:
        """Whether the check found what we say."""
        return self.finding is not None and self.claim.confirmed_by(self.finding.verdict)

    def plain(self) -> dict[str, Any]:
        """For other programs."""
        return {
            "id": self.claim.id,
            "verdict": str(self.claim.verdict),
            "finding": None if self.finding is None else self.finding.plain(),
            "confirmed": self.confirmed,
            "seconds": self.seconds,
            "run": self.run,
            "current": self.current,
            "seed": self.seed,
            "error": self.error or None,
        }


def verify_all(
    beginning: str = "",
    *,
    again: bool = False,
    seed: int = 0,
    engine: Engine | None = None,
    store: Store | str | Path | None = None,
    quiet: bool = False,
) -> list[StoredVerification]:
    """Verify every claim whose id starts with ``beginning``; what the store has is not computed again.

    Parameters
    ----------
    again: remove the stored runs of these checks first.
    seed: of a blind verification: every check draws random numbers that no other verification has used. 0 stands for
        the numbers with which our verdicts were found. What is exact does not depend on it.
    engine: where the checks are computed; defaults to one process per core.
    """
    if not (isinstance(seed, int) and 0 <= seed <= LARGEST):
        raise BadInput(f"invalid seed {seed}", f"use a whole number from 0 to {LARGEST}")
    claims = {name: claim for name, claim in all_claims().items() if name.startswith(beginning)}
    if not claims:
        raise unknown("claim", beginning, all_claims())
    place = Store.of(store)
    experiments = {name: _experiment(claim, seed) for name, claim in claims.items()}
    runs = {name: identify(recipe, spec) for name, (recipe, spec) in experiments.items()}
    if again:
        for run in {run for run in runs.values() if Run(run, place).exists}:
            place.remove(run)
    unique = {runs[name]: experiment for name, experiment in experiments.items()}
    tasks = [
        RunTask(index, recipe.name, spec.model_dump(mode="json"), str(place.path))
        for index, (recipe, spec) in enumerate(unique.values())
    ]
    identities = list(unique)
    outcomes = compute_tasks(tasks, identities, f"claims ({len(claims)})", engine=engine, quiet=quiet)
    errors = {identities[outcome.task.index]: outcome.error for outcome in outcomes if outcome.run is None}
    rows = [_stored(claim, Run(runs[name], place), errors.get(runs[name], "")) for name, claim in claims.items()]
    return [replace(row, seed=seed) for row in rows]


def run_of(identity: str) -> str:
    """The id of the run that checks a claim, in whatever store it is computed."""
    return identify(*_experiment(find(identity), 0))


def _experiment(claim: Claim, seed: int) -> tuple[Recipe, Spec]:
    """The run that checks a claim; an experiment counts its seeds from where a blind verification starts."""
    check = check_of(claim.id)
    if isinstance(check, RecipeCheck):
        recipe = find_recipe(check.recipe)
        own = int(check.spec.get("seed", 0))
        return recipe, make_spec(recipe.spec, {**check.spec, "seed": own + APART * seed} if seed else check.spec)
    return RECIPE, make_spec(ClaimCheck, {"claim": claim.id, "seed": seed})


def _stored(claim: Claim, run: Run, error: str) -> StoredVerification:
    if error:
        return StoredVerification(claim, None, run.id, None, True, error)
    try:
        status = run.folder.status()
    except PhasecastError as problem:
        return StoredVerification(claim, None, run.id, None, True, str(problem))
    facts, now = status["provenance"], provenance(0)
    current = (facts["commit"], facts["versions"]["phasecast"]) == (now["commit"], now["versions"]["phasecast"])
    try:
        check = check_of(claim.id)
        if isinstance(check, RecipeCheck):
            finding = check.judge(run.conclusion().answers)
        else:
            finding = _stored_finding(run.results())
    except PhasecastError as problem:  # a judge that misses an answer is this claim's failure, not that of the others
        return StoredVerification(claim, None, run.id, status["wall_seconds"], current, str(problem))
    return StoredVerification(claim, finding, run.id, status["wall_seconds"], current)


class ClaimCheck(Spec):
    claim: str = Field(description="the id of a claim whose check is a function; see `phasecast claims`")

    @field_validator("claim")
    @classmethod
    def _is_a_function(cls, name: str) -> str:
        if isinstance(check := check_of(name), RecipeCheck):
            raise BadInput(f"the check of '{name}' is the recipe '{check.recipe}'", "use `phasecast claims verify`")
        return name


def work(spec: ClaimCheck, state: PyTree) -> Iterator[Chunk]:
    if state is not None:
        return
    check = check_of(spec.claim)
    if isinstance(check, RecipeCheck):
        raise BadInput(f"the check of '{spec.claim}' is a recipe", "use `phasecast claims verify`")
    with fresh_seeds(spec.seed):
        finding = check()
    row = {
        "verdict": [str(finding.verdict)],
        "words": [finding.words],
        "comparisons": [json.dumps([comparison.to_json() for comparison in finding.comparisons])],
    }
    yield Chunk({"done": 1}, {"finding": row}, 1, 1)


def layout(spec: ClaimCheck) -> Mapping[str, Table]:
    columns = ("verdict", "words", "comparisons")
    return {"finding": Table("check", dict.fromkeys(columns, ()), dtypes=dict.fromkeys(columns, "string"))}


def conclude(spec: ClaimCheck, results: xr.DataTree) -> Conclusion:
    finding = _stored_finding(results)
    answers = [
        Answer("comparison", comparison, comparison.name or f"comparison {number}", {"number": number})
        for number, comparison in enumerate(finding.comparisons, 1)
    ]
    confirmed = find(spec.claim).confirmed_by(finding.verdict)
    return Conclusion(
        answers, f"{spec.claim} {finding.verdict}: {finding.words}", numbers={"confirmed": int(confirmed)}
    )


def figures(spec: ClaimCheck, results: xr.DataTree) -> Mapping[str, Captioned]:
    """The distance of every comparison from its prediction, beside the band that counts as agreement."""
    from phasecast.figures.drawing import COLOURS, blank

    comparisons = [one for one in _stored_finding(results).comparisons if math.isfinite(one.largest_distance)]
    if not comparisons:
        return {}
    figure, axes = blank(height=0.9 + 0.3 * len(comparisons))
    panel = axes[0, 0]
    for row, comparison in enumerate(comparisons):
        colour = COLOURS[1 if comparison.verdict is Verdict.DIFFERS else 0]
        panel.plot(comparison.largest_distance, -row, "o", color=colour)
    panel.axvspan(-comparisons[0].tolerance, comparisons[0].tolerance, color="#999999", alpha=0.2, lw=0)
    panel.axvline(0, color="#666666", ls="--", lw=1)
    panel.set_xscale("symlog", linthresh=10)
    panel.set_yticks([-row for row in range(len(comparisons))], [one.name or "comparison" for one in comparisons])
    panel.set_ylim(0.5 - len(comparisons), 0.5)
    panel.margins(x=0.08)
    panel.set_xlabel("measured − predicted, in combined errors")
    caption = "Every comparison of the check; grey: within the tolerance; orange: differs."
    return {"comparisons": Captioned(figure, caption)}


def _stored_finding(results: xr.DataTree) -> Finding:
    table = results["finding"].to_dataset()
    texts: Sequence[str] = json.loads(str(table["comparisons"].values[0]))
    comparisons = [Result.from_json(text) for text in texts]
    return Finding(
        ClaimVerdict(str(table["verdict"].values[0])),
        str(table["words"].values[0]),
        tuple(comparison for comparison in comparisons if isinstance(comparison, Comparison)),
    )


RECIPE = Recipe(
    name=NAME,
    version=1,
    question="Does the check of a claim find what we say about it?",
    spec=ClaimCheck,
    work=work,
    layout=layout,
    conclude=conclude,
    figures=figures,
    tiny={"claim": "survey/lambda-is-min"},
)
