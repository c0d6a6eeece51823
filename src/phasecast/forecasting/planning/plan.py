"""How much data or time do I need? One table per question: numbers, their errors, and what each means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from phasecast.core import codec
from phasecast.core.display import Displayed, grid_html
from phasecast.core.results import Measurement, Prediction, Status, show

if TYPE_CHECKING:
    import pandas as pd

SMALLEST = 1e-6  # relative error below which a number is printed without it: six digits are shown


@dataclass(frozen=True)
class PlanRow:
    """One number of a plan; ``value`` is None where it is refused, and then ``meaning`` says why."""

    name: str
    value: float | None
    error: float
    meaning: str

    @classmethod
    def of(cls, name: str, result: Measurement | Prediction, meaning: str, factor: float = 1.0) -> PlanRow:
        """A measured or predicted number, times a factor."""
        if isinstance(result, Measurement):
            if result.status is Status.REFUSED:
                return cls(name, None, math.nan, "; ".join(result.reasons))
            return cls(name, factor * float(result.estimate), factor * float(result.error), meaning)
        return cls(name, factor * float(result.value), factor * float(result.systematic), meaning)

    @property
    def words(self) -> str:
        if self.value is None:
            return "–"
        return show(self.value, self.error if self.error > SMALLEST * abs(self.value) else 0.0)


@dataclass(frozen=True)
class NeedTable(Displayed):
    """The answer to one question of planning."""

    question: str
    lines: Sequence[PlanRow]
    notes: Sequence[str] = ()

    def plain(self) -> dict[str, Any]:
        lines = [codec.plain({**vars(line), "error": line.error}) for line in self.lines]
        return {"question": self.question, "lines": lines, "notes": list(self.notes)}

    def table(self) -> pd.DataFrame:
        """One line per number of the plan: value (NaN where it is refused), error, meaning."""
        import pandas as pd

        rows = [(math.nan if line.value is None else line.value, line.error, line.meaning) for line in self.lines]
        names = pd.Index([line.name for line in self.lines], name="quantity")
        return pd.DataFrame(rows, columns=["value", "error", "meaning"], index=names)

    def _html_table(self) -> str:
        rows = [(line.name, line.words, line.meaning) for line in self.lines]
        return grid_html(self.question, ("quantity", "value", "meaning"), rows, self.notes)

    def __str__(self) -> str:
        names = max((len(line.name) for line in self.lines), default=0)
        numbers = max((len(line.words) for line in self.lines), default=0)
        rows = [f"  {line.name:<{names}}  {line.words:<{numbers}}  {line.meaning}".rstrip() for line in self.lines]
        return "\n".join([self.question, *rows, *(f"  {note}" for note in self.notes)])
