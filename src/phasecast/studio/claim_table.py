"""Which claims are there? A table to filter by paper and verdict, and the run that decided one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from phasecast import claims
from phasecast.claims.verification import run_of
from phasecast.core.claim import Claim
from phasecast.lab.store import Store
from phasecast.studio.inert import inert_text


def papers() -> dict[str, str]:
    """The papers by the beginning of their claims' ids, with how they are cited."""
    cited: dict[str, str] = {}
    for identity, claim in claims.all_claims().items():
        cited.setdefault(identity.partition("/")[0], claim.source.rpartition(", ")[0] or claim.source)
    return cited


def chosen_claims(papers: Sequence[str] = (), verdicts: Sequence[str] = (), text: str = "") -> list[Claim]:
    """The claims of some papers with some verdicts and with every word of a text; nothing given means all."""
    words = text.lower().split()
    return [
        claim
        for identity, claim in claims.all_claims().items()
        if (not papers or identity.partition("/")[0] in papers)
        and (not verdicts or str(claim.verdict) in verdicts)
        and all(
            word in f"{identity} {claim.source} {claim.statement} {claim.why} {claim.ours}".lower() for word in words
        )
    ]


def claim_rows(chosen: Sequence[Claim]) -> list[dict[str, str | bool]]:
    """Claims as rows of a table."""
    return [
        {
            "claim": claim.id,
            "verdict": str(claim.verdict),
            "statement": inert_text(claim.statement, 400),
            "why": inert_text(claim.why, 400),
            "counterexample": bool(claim.counterexample),
        }
        for claim in chosen
    ]


def deciding_run(identity: str, store: Store) -> tuple[str, bool]:
    """The id of the run that checks a claim, and whether the store has it."""
    run = run_of(identity)
    return run, store.folder(run).exists


def counterexample_file(claim: Claim) -> Path | None:
    """Where the counterexample of a claim is, if it has one."""
    if not claim.counterexample:
        return None
    for path in sorted(Path(claims.__file__).parent.glob("*/counterexamples/*.py")):
        if path.read_text(encoding="utf-8").strip() == claim.counterexample:
            return path
    return None
