"""Which numbers decide, and why? The thresholds behind ok, warning and refused, each with its reason.

An estimator has one frozen policy; a result records the one that judged it.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class ChainPolicy(Policy):
...     largest_rhat: float = rule(1.01, "Vehtari et al. 2021, section 4")
>>> ChainPolicy().plain()
{'name': 'ChainPolicy', 'largest_rhat': 1.01}
>>> ChainPolicy().reasons()
{'largest_rhat': 'Vehtari et al. 2021, section 4'}
"""

from __future__ import annotations

import dataclasses
from typing import Any

from phasecast.core import codec


def rule(value: Any, why: str) -> Any:
    """The default of a policy's field, with the reason for it: a source, a derivation, or what measured it."""
    return dataclasses.field(default=value, metadata={"why": why})


@dataclasses.dataclass(frozen=True)
class Policy:
    """The numbers that decide how an estimate is judged; derive one class per estimator, each field a :func:`rule`."""

    def plain(self) -> dict[str, Any]:
        """The policy as a result records it."""
        values = {entry.name: codec.plain(getattr(self, entry.name)) for entry in dataclasses.fields(self)}
        return {"name": type(self).__name__, **values}

    def reasons(self) -> dict[str, str]:
        """Why each field has its default."""
        return {entry.name: entry.metadata["why"] for entry in dataclasses.fields(self)}
