"""The first five minutes: run the main recipe and open what it found."""

from __future__ import annotations

from pathlib import Path

from phasecast import lab, report

RECIPE = "grokking"


def demo(*, store: str | Path | None = None, quiet: bool = False) -> Path:
    """Train a network that learns by heart first and by rule later, with λ̂ on the way; the path of the HTML report."""
    run = lab.run(RECIPE, store=store, quiet=quiet)
    return report.write(run)
