"""Which options do commands share? Each group is a frozen dataclass that cyclopts spells out as flags."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


@Parameter(name="*")
@dataclass(frozen=True)
class Common:
    """Options of every command."""

    json: Annotated[bool, Parameter(negative=(), help="print one JSON object on stdout and nothing else")] = False
    debug: Annotated[bool, Parameter(negative=(), help="show the traceback of an error")] = False
    quiet: Annotated[bool, Parameter(negative=(), help="show no progress on stderr")] = False


@Parameter(name="*")
@dataclass(frozen=True)
class Drawn(Common):
    """Options of every command whose result has a figure."""

    plot: Annotated[Path | None, Parameter(help="write the figure to this .svg, .png or .pdf file")] = None


@Parameter(name="*")
@dataclass(frozen=True)
class Stored(Common):
    """Options of every command that reads or writes runs."""

    store: Annotated[
        Path | None, Parameter(help="folder of runs; defaults to $PHASECAST_STORE, then phasecast-runs/")
    ] = None


@Parameter(name="*")
@dataclass(frozen=True)
class Computing(Stored):
    """Options of every command that computes runs."""

    checkpoint_every: Annotated[
        float | None,
        Parameter(help="seconds between checkpoints; by default they take less than 1% of the time"),
    ] = None
    threads: Annotated[int | None, Parameter(help="cores per run")] = None


Words = Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())]
"""``--set a=1 b=2``: several words after one flag."""
