"""How many training rows and steps does a network need to grok? From the law of a bank of finished runs."""

from __future__ import annotations

import dataclasses
import math

from phasecast.core.errors import BadInput
from phasecast.forecasting.bank import Bank, shipped_bank
from phasecast.forecasting.forecast import rows_for, table_rows, with_enough_rows
from phasecast.forecasting.model import forecast_before_start
from phasecast.forecasting.planning.plan import NeedTable, PlanRow
from phasecast.forecasting.settings import Settings

SHOWN = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Fractions of the table for which a plan lists chance and steps."""


def plan_grokking(
    settings: Settings, *, steps: float | None = None, chance: float = 0.9, bank: Bank | None = None
) -> NeedTable:
    """The fewest training rows with which a share of the seeds groks within a window, and what other numbers give.

    ``settings.n`` is the number of rows one has in mind; the other settings must be in the range of the bank.
    """
    bank = shipped_bank() if bank is None else bank
    window = bank.window if steps is None else min(float(steps), bank.window)
    rows = table_rows(settings)
    if not 0 < chance < 1:
        raise BadInput(f"chance is {chance:g}", "use a number between 0 and 1, like 0.9")
    if problems := bank.range_problems(with_enough_rows(settings, bank)):
        raise BadInput(problems[0], "plan inside the range of the bank")
    least = rows_for(settings, window, bank, chance)
    lines = [
        PlanRow(
            "training rows",
            None if least is None else float(least),
            math.nan,
            f"fewest for which {chance:.0%} of the seeds pass 50% within {window:.0f} steps"
            + (
                "; none: use a larger learning rate or weight decay"
                if least is None
                else f", fraction {least / rows:.2f}"
            ),
        )
    ]
    for n in sorted({settings.n, *(round(share * rows) for share in SHOWN)}):
        asked = dataclasses.replace(settings, n=n)
        made = forecast_before_start(asked, bank, window)
        when = (
            f"median step {made.median:.0f}" if made.median <= bank.window else f"median after {bank.window:.0f} steps"
        )
        end = f" to {made.high:.0f}" if made.high is not None else " or later"
        sparse = "; fewer rows than the bank has seen" if with_enough_rows(asked, bank).n > n else ""
        lines.append(
            PlanRow(
                f"chance with {n} rows",
                round(float(made.chance or 0.0), 3),
                math.nan,
                f"fraction {n / rows:.2f}: {when}, 80% between {made.low:.0f}{end}{sparse}",
            )
        )
    notes = [f"from {len(bank)} runs ({bank.name}); the longest had {bank.window:.0f} steps"]
    return NeedTable(f"How many rows does {settings.task} modulo {settings.p} need to be learned?", lines, notes)
