"""phasecast forecasts and measures phase transitions in learning.

>>> import phasecast as pc
>>> pc.coefficients.monomial([2, 4]).value
Fraction(1, 4)

Nothing heavy is imported until it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phasecast import (
        claims,
        coefficients,
        core,
        features,
        forecasting,
        grokking,
        lab,
        models,
        online,
        posterior,
        report,
        sampling,
        torch,
    )
    from phasecast.coefficients.llc.estimate import llc
    from phasecast.coefficients.llc.result import LLC
    from phasecast.coefficients.llc.studies.components import llc_components
    from phasecast.coefficients.llc.studies.local_free_energy import local_free_energy
    from phasecast.coefficients.llc.studies.sweep import llc_sweep
    from phasecast.coefficients.llc.studies.trajectory import llc_trajectory
    from phasecast.core import Comparison, Measurement, Prediction, Problem, Status, Verdict
    from phasecast.core.errors import BadInput, PhasecastError, Refused
    from phasecast.demonstration import demo
    from phasecast.forecasting.forecast import forecast
    from phasecast.forecasting.result import Forecast
    from phasecast.studies.arena.study import arena

__version__ = "0.1.0"

_WHERE = {
    "LLC": "phasecast.coefficients.llc.result",
    "llc": "phasecast.coefficients.llc.estimate",
    "llc_components": "phasecast.coefficients.llc.studies.components",
    "llc_sweep": "phasecast.coefficients.llc.studies.sweep",
    "llc_trajectory": "phasecast.coefficients.llc.studies.trajectory",
    "local_free_energy": "phasecast.coefficients.llc.studies.local_free_energy",
    "Comparison": "phasecast.core",
    "Forecast": "phasecast.forecasting.result",
    "Measurement": "phasecast.core",
    "Prediction": "phasecast.core",
    "Problem": "phasecast.core",
    "Status": "phasecast.core",
    "Verdict": "phasecast.core",
    "BadInput": "phasecast.core.errors",
    "PhasecastError": "phasecast.core.errors",
    "Refused": "phasecast.core.errors",
    "arena": "phasecast.studies.arena.study",
    "demo": "phasecast.demonstration",
    "forecast": "phasecast.forecasting.forecast",
}

__all__ = [
    "LLC",
    "BadInput",
    "Comparison",
    "Forecast",
    "Measurement",
    "PhasecastError",
    "Prediction",
    "Problem",
    "Refused",
    "Status",
    "Verdict",
    "arena",
    "claims",
    "coefficients",
    "core",
    "demo",
    "features",
    "forecast",
    "forecasting",
    "grokking",
    "lab",
    "llc",
    "llc_components",
    "llc_sweep",
    "llc_trajectory",
    "local_free_energy",
    "models",
    "online",
    "posterior",
    "report",
    "sampling",
    "torch",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    if name in __all__:
        return importlib.import_module(f"phasecast.{name}")
    raise AttributeError(f"module 'phasecast' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
