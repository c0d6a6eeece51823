"""Every claim by its id, and its check run again."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phasecast import lab
from phasecast.core.claim import Claim, Finding, RecipeCheck
from phasecast.core.errors import unknown

PAPERS = {
    "grokking_cullen2026": ("landscapes", "networks", "theorems", "sgd", "training", "studies"),
    "survey_seyoum2025": ("errors", "learning"),
    "features_wang2026": ("theory", "studies"),
    "scaling_worschech2024": ("equations", "linear", "plateau", "figures"),
    "singular_iclr2021": ("rlct", "singularity", "generalisation"),
}
"""The folder of each paper, and its modules, each with a tuple ``CLAIMS``."""


@dataclass(frozen=True)
class Verification:
    """A claim, what its check found just now, and whether that is what we say."""

    claim: Claim
    finding: Finding

    @property
    def confirmed(self) -> bool:
        return self.finding.verdict is self.claim.verdict

    def plain(self) -> dict[str, Any]:
        return {**self.claim.plain(), "finding": self.finding.plain(), "confirmed": self.confirmed}


def all_claims() -> dict[str, Claim]:
    """Every claim by its id."""
    claims: dict[str, Claim] = {}
    for module in (f"phasecast.claims.{paper}.{part}" for paper, parts in PAPERS.items() for part in parts):
        for claim in importlib.import_module(module).CLAIMS:
            if claim.id in claims:
                raise ValueError(f"two claims are called {claim.id}")
            claims[claim.id] = claim
    return claims


def find(identity: str) -> Claim:
    """One claim."""
    claims = all_claims()
    if identity not in claims:
        raise unknown("claim", identity, claims)
    return claims[identity]


def verify(identity: str, *, store: str | Path | None = None, quiet: bool = False) -> Verification:
    """Run the check of a claim again; a check that is an experiment is a run of the store like any other."""
    claim = find(identity)
    if isinstance(claim.check, RecipeCheck):
        run = lab.run(claim.check.recipe, claim.check.spec, store=store, quiet=quiet)
        return Verification(claim, claim.check.judge(run.conclusion().answers))
    return Verification(claim, claim.check())
