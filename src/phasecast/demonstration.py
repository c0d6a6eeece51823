"""The first five minutes: run the main recipe and open what it found."""

from __future__ import annotations

from pathlib import Path

from phasecast import lab, report

RECIPE = "toy-landscapes"


def demo(*, store: str | Path | None = None, quiet: bool = False) -> Path:
    """Measure λ of the small landscapes beside its exact value; the path of the HTML report."""
    run = lab.run(RECIPE, store=store, quiet=quiet)
    return report.write(run)
