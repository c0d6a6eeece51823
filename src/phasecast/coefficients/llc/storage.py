"""Levels as plain arrays, numbers and strings, so that a run can be stored between any two chunks."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np

from phasecast.coefficients.llc.level import Curvature, Level, LevelPhase, WarmUp
from phasecast.sampling.backends.protocol import Backend
from phasecast.sampling.kernels.kernel import Tuning
from phasecast.sampling.traces import OBSERVED, Record, Trace


def to_plain(level: Level) -> dict[str, Any]:
    """A level as arrays, numbers and strings."""
    warm_up = _fields(level.warm_up)
    warm_up["windows"] = np.array(level.warm_up.windows, dtype=float).reshape(-1, 4)
    warm_up["longest_step"] = level.warm_up.longest_step if math.isfinite(level.warm_up.longest_step) else 0.0
    return {
        **_fields(level),
        "tuning": [float(number) for number in level.tuning],
        "state": {name: np.asarray(array) for name, array in level.state.items()},
        "record": {**_fields(level.record), **{name: _fields(getattr(level.record, name)) for name in OBSERVED}},
        "phase": str(level.phase),
        "curvature": {"largest": level.curvature.largest, "direction": np.asarray(level.curvature.direction)},
        "warm_up": warm_up,
    }


def from_plain(plain: dict[str, Any], backend: Backend) -> Level:
    """The level that :func:`to_plain` took apart."""
    record, warm_up = dict(plain["record"]), dict(plain["warm_up"])
    record |= {name: Trace(**record[name]) for name in OBSERVED}
    record["acceptance"] = [float(share) for share in record["acceptance"]]
    warm_up["windows"] = [tuple(row) for row in warm_up["windows"].tolist()]
    warm_up["longest_step"] = warm_up["longest_step"] or math.inf
    parts = {
        "tuning": Tuning(*plain["tuning"]),
        "state": {name: backend.array(array) for name, array in plain["state"].items()},
        "record": Record(**record),
        "phase": LevelPhase(plain["phase"]),
        "curvature": Curvature(**plain["curvature"]),
        "warm_up": WarmUp(**warm_up),
    }
    return Level(**{**plain, **parts})


def _fields(thing: Any) -> dict[str, Any]:
    return {entry.name: getattr(thing, entry.name) for entry in fields(thing)}
