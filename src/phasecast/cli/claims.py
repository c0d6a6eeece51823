"""``phasecast claims``: what the papers claim, what we found, and the checks run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import App

from phasecast.cli.options import Common, Stored
from phasecast.cli.output import emit, table

if TYPE_CHECKING:
    from phasecast.core.claim import Claim

app = App(name="claims", help_format="plaintext", version_flags=[])


@app.default
def claims(claim: str | None = None, /, *, options: Common = Common()) -> int:
    """List the claims, or show one.

    Parameters
    ----------
    claim
        the id of a claim
    """
    return ls(options=options) if claim is None else show(claim, options=options)


@app.command
def ls(*, options: Common = Common()) -> int:
    """List the claims."""
    from phasecast import claims

    every = list(claims.all_claims().values())
    text = table(("claim", "verdict", "statement"), [(c.id, str(c.verdict), c.statement) for c in every])
    emit({"claims": [claim.plain() for claim in every]}, text, options)
    return 0


@app.command
def show(claim: str, /, *, options: Common = Common()) -> int:
    """Show one claim with its reason, and the counterexample if there is one.

    Parameters
    ----------
    claim
        the id of a claim
    """
    from phasecast import claims

    shown = claims.find(claim)
    emit(shown.plain(), "\n".join(_lines(shown)), options)
    return 0


@app.command
def verify(claim: str, /, *, options: Stored = Stored()) -> int:
    """Run the check of a claim again; exit code 3 if it does not confirm our verdict.

    Parameters
    ----------
    claim
        the id of a claim
    """
    from phasecast import claims

    verification = claims.verify(claim, store=options.store)
    lines = _lines(verification.claim)
    for comparison in verification.finding.comparisons:
        lines += ["", str(comparison)]
    outcome = "confirmed" if verification.confirmed else "NOT confirmed"
    lines += ["", f"{outcome}: {verification.finding.verdict} ({verification.finding.words})"]
    emit(verification.plain(), "\n".join(lines), options)
    return 0 if verification.confirmed else 3


def _lines(claim: Claim) -> list[str]:
    lines = [
        f"{claim.id}: {claim.verdict}",
        f"  source     {claim.source}",
        f"  statement  {claim.statement}",
        f"  why        {claim.why}",
    ]
    lines += [f"  ours       {claim.ours}"] if claim.ours else []
    if claim.counterexample:
        lines += ["", "counterexample:", *(f"  {line}" for line in claim.counterexample.splitlines())]
    return lines
