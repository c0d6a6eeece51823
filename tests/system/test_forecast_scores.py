"""The benchmark of forecasts prints every table, and its quick forecasts are near."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "forecast_scores.py"


def test_the_quick_scores_hold_every_table():
    printed = subprocess.run([sys.executable, SCRIPT, "--quick"], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^log \+ settings \+ bank +((?:[\d.]+ +){4})", printed, flags=re.MULTILINE)
    assert len(rows) == 2  # a held-out modulus, and fresh ones
    assert all(float(error) < 0.5 for row in rows for error in row.split())
    for table in ("as long again", "clock law", "by modulus", "remaining time", "B = 2000", "fresh moduli"):
        assert table in printed
