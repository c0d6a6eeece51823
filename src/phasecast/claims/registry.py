"""Every claim by its id, and its check run again.

A paper is a folder: ``claims.toml`` holds the statements and what we found, ``counterexamples/`` short programs that
show a contradiction, and the modules it names hold the checks, each in a dictionary ``CHECKS``.
"""

from __future__ import annotations

import functools
import importlib
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phasecast.core.claim import Claim, ClaimVerdict, Finding, RecipeCheck
from phasecast.core.errors import BadInput, unknown
from phasecast.progress import working

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Verification:
    """A claim, what its check found just now, and whether that is what we say."""

    claim: Claim
    finding: Finding

    @property
    def confirmed(self) -> bool:
        return self.claim.confirmed_by(self.finding.verdict)

    def plain(self) -> dict[str, Any]:
        return {**self.claim.plain(), "finding": self.finding.plain(), "confirmed": self.confirmed}


@functools.cache
def all_claims() -> dict[str, Claim]:
    """Every claim by its id."""
    claims: dict[str, Claim] = {}
    for folder, content in _papers():
        for claim in read_claims(folder, content):
            if claim.id in claims:
                raise BadInput(f"two claims have the id '{claim.id}'", f"rename one in {folder.name}/claims.toml")
            claims[claim.id] = claim
    return claims


def find(identity: str) -> Claim:
    """One claim."""
    claims = all_claims()
    if identity not in claims:
        raise unknown("claim", identity, claims)
    return claims[identity]


def check_of(identity: str) -> Callable[[], Finding] | RecipeCheck:
    """How a claim is checked: a function that returns a finding, or a recipe with a judge."""
    find(identity)
    for folder, content in _papers():
        if content["paper"]["name"] == identity.partition("/")[0]:
            for module in content["paper"]["checks"]:
                checks = importlib.import_module(f"phasecast.claims.{folder.name}.{module}").CHECKS
                if identity in checks:
                    return checks[identity]
    raise BadInput(f"claim '{identity}' has no check", "add one to CHECKS in a module of its paper's folder")


def verify(identity: str, *, store: str | Path | None = None, quiet: bool = False) -> Verification:
    """Run the check of a claim again; a check that is an experiment is a run of the store like any other."""
    claim, check = find(identity), check_of(identity)
    if isinstance(check, RecipeCheck):
        from phasecast import lab

        run = lab.run(check.recipe, check.spec, store=store, quiet=quiet)
        return Verification(claim, check.judge(run.conclusion().answers))
    with working(f"check of {claim.id}", not quiet):
        return Verification(claim, check())


def read_claims(folder: Path, content: dict[str, Any]) -> Iterator[Claim]:
    """The claims of one paper, from the content of its ``claims.toml``."""
    for entry in content["claim"]:
        program = entry.get("counterexample")
        yield Claim(
            id=entry["id"],
            source=f"{content['paper']['cite']}, {entry['place']}",
            statement=entry["statement"],
            verdict=ClaimVerdict(entry["verdict"]),
            why=entry["why"],
            ours=entry.get("ours", ""),
            counterexample=(folder / "counterexamples" / program).read_text().strip() if program else "",
            criterion=entry.get("criterion", ""),
            exploratory=entry.get("exploratory", False),
            seen=tuple(map(ClaimVerdict, entry.get("seen", ()))),
        )


@functools.cache
def _papers() -> tuple[tuple[Path, dict[str, Any]], ...]:
    files = sorted(FOLDER.glob("*/claims.toml"))
    return tuple((file.parent, tomllib.loads(file.read_text(encoding="utf-8"))) for file in files)
