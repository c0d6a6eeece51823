"""Experiments that are stored, survive being killed, and are never computed twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from phasecast.core.answers import Answer, Answers
from phasecast.lab.engines.local import LocalEngine
from phasecast.lab.overview.listed_runs import ListedRun, RunFilter, list_runs
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe, find_recipe, shipped, tabulate
from phasecast.lab.runs import Run, load, resume, run
from phasecast.lab.spec import DataFile, Factory, Spec
from phasecast.lab.store import Store
from phasecast.lab.sweeps import Sweep, Swept, make_sweep, read_sweep, sweep
from phasecast.lab.tables import Table

if TYPE_CHECKING:
    RECIPES: Mapping[str, str]

__all__ = [
    "RECIPES",
    "Answer",
    "Answers",
    "Captioned",
    "Chunk",
    "Conclusion",
    "DataFile",
    "Factory",
    "ListedRun",
    "LocalEngine",
    "Recipe",
    "Run",
    "RunFilter",
    "Spec",
    "Store",
    "Sweep",
    "Swept",
    "Table",
    "find_recipe",
    "list_runs",
    "load",
    "make_sweep",
    "read_sweep",
    "resume",
    "run",
    "sweep",
    "tabulate",
]


def __getattr__(name: str) -> Mapping[str, str]:
    if name == "RECIPES":  # looked up when it is needed: the studies are built on top of this package
        return shipped()
    raise AttributeError(f"module 'phasecast.lab' has no attribute '{name}'")
