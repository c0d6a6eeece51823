"""Experiments that are stored, survive being killed, and are never computed twice."""

from phasecast.lab.engines.local import LocalEngine
from phasecast.lab.recipe import RECIPES, Captioned, Chunk, Conclusion, Recipe, find_recipe
from phasecast.lab.runs import Run, load, resume, run
from phasecast.lab.spec import DataFile, Factory, Spec
from phasecast.lab.store import Store
from phasecast.lab.sweeps import Sweep, Swept, make_sweep, read_sweep, sweep
from phasecast.lab.tables import Table

__all__ = [
    "RECIPES",
    "Captioned",
    "Chunk",
    "Conclusion",
    "DataFile",
    "Factory",
    "LocalEngine",
    "Recipe",
    "Run",
    "Spec",
    "Store",
    "Sweep",
    "Swept",
    "Table",
    "find_recipe",
    "load",
    "make_sweep",
    "read_sweep",
    "resume",
    "run",
    "sweep",
]
