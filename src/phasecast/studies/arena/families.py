"""Which families are there? All of them, by name, the cheap ones first."""

from __future__ import annotations

from phasecast.core.errors import unknown
from phasecast.studies.arena import (
    calibration,
    criteria,
    exact,
    learning,
    llc,
    networks,
    posteriors,
    thresholds,
    transitions,
)
from phasecast.studies.arena.dates import escape_dates, grokking_dates
from phasecast.studies.arena.family import Family

MODULES = (
    exact,
    criteria,
    transitions,
    learning,
    thresholds,
    escape_dates,
    grokking_dates,
    llc,
    networks,
    posteriors,
    calibration,
)
FAMILIES: dict[str, Family] = {family.name: family for module in MODULES for family in module.FAMILIES}


def select(names: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """The families that names mean: a family, or an area for all of its families; each once, in our order."""
    areas = {family.area for family in FAMILIES.values()}
    for name in names:
        if name not in FAMILIES and name not in areas:
            raise unknown("family", name, [*FAMILIES, *sorted(areas - set(FAMILIES))])
    return tuple(name for name, family in FAMILIES.items() if name in names or family.area in names)
