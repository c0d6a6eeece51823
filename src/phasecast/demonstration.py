"""What does phasecast do? Run the main recipe and write its report."""

from __future__ import annotations

from pathlib import Path

from phasecast import lab, report

RECIPE = "grokking"
WIDTH = 115  # 5p, as wide as the networks of the shipped bank, so that the forecasts of the demo rest on it


def demo(*, store: str | Path | None = None, quiet: bool = False) -> Path:
    """Train a network that memorises first and generalises later, and track λ̂; the path of the HTML report."""
    run = lab.run(RECIPE, {"width": WIDTH}, store=store, quiet=quiet)
    return report.write(run)
