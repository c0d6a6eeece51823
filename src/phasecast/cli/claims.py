"""``phasecast claims``: what the papers claim, what we found, and the checks run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

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
def verify(
    claim: Annotated[str | None, Parameter(help="the id of a claim; with --all, the beginning of ids")] = None,
    /,
    *,
    every: Annotated[
        bool, Parameter(name="--all", negative=(), help="verify all claims; stored and resumable")
    ] = False,
    again: Annotated[bool, Parameter(negative=(), help="with --all, compute the stored checks again")] = False,
    seed: Annotated[
        int, Parameter(help="with --all, other random numbers than those our verdicts were found with; 0 for those")
    ] = 0,
    workers: Annotated[int | None, Parameter(help="with --all, processes; defaults to one per core")] = None,
    options: Stored = Stored(),
) -> int:
    """Run the check of a claim, or all checks, again.

    Exit code 0 if they confirm our verdicts, 3 if one does not, 1 if a check failed to run.
    """
    from phasecast.core.errors import BadInput

    if every:
        return _verify_all(claim or "", again, seed, workers, options)
    if claim is None:
        raise BadInput("no claim is given", "give the id of a claim, or --all")
    if again or seed or workers is not None:
        raise BadInput("--again, --seed and --workers need --all", "leave them out: a single check is always computed")
    return _verify_one(claim, options)


def _verify_all(beginning: str, again: bool, seed: int, workers: int | None, options: Stored) -> int:
    from phasecast import claims
    from phasecast.lab import LocalEngine

    rows = claims.verify_all(beginning, again=again, seed=seed, engine=LocalEngine(workers), store=options.store)
    confirmed, failed = sum(row.confirmed for row in rows), sum(row.finding is None for row in rows)
    lines = [
        table(
            ("claim", "our verdict", "the check says", "", "criterion", "seconds"),
            [
                (
                    row.claim.id,
                    str(row.claim.verdict),
                    "failed" if row.finding is None else str(row.finding.verdict),
                    "confirmed" if row.confirmed else "NOT confirmed",
                    "exploratory" if row.claim.exploratory else "",
                    "" if row.seconds is None else f"{row.seconds:.1f}",
                )
                for row in rows
            ],
        ),
        "",
        f"{confirmed} of {len(rows)} claims confirmed"
        + (f" with seed {seed}" if seed else "")
        + (f", {failed} checks failed" if failed else ""),
    ]
    lines += [f"{row.claim.id}: {row.error}" for row in rows if row.error]
    if stale := sum(not row.current for row in rows):
        lines.append(f"{stale} were verified by another version of the code; --again computes them again")
    content = {
        "confirmed": confirmed,
        "total": len(rows),
        "failed": failed,
        "seed": seed,
        "claims": [row.plain() for row in rows],
    }
    emit(content, "\n".join(lines), options)
    return 1 if failed else 0 if confirmed == len(rows) else 3


def _verify_one(claim: str, options: Stored) -> int:
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
    chosen = " (chosen when results were known)" if claim.exploratory else ""
    lines += [f"  criterion  {claim.criterion}{chosen}"] if claim.criterion else []
    if claim.counterexample:
        lines += ["", "counterexample:", *(f"  {line}" for line in claim.counterexample.splitlines())]
    return lines
