"""How long does `phasecast --help` take, beside `python -c pass`? Claimed: at most 6 times as long."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

REPEATS = 25
LIMIT = 6.0


def shortest(words: list[str]) -> float:
    """The shortest of many runs: what the work itself costs, without what else the machine does."""
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    command = str(Path(sys.executable).with_name("phasecast"))
    nothing = shortest([sys.executable, "-c", "pass"])
    helped = shortest([command, "--help"])
    print(
        f"startup: phasecast --help {1e3 * helped:.1f} ms, python -c pass {1e3 * nothing:.1f} ms, "
        f"ratio {helped / nothing:.2f} (claimed ≤ {LIMIT:g})"
    )
    assert helped / nothing <= LIMIT


if __name__ == "__main__":
    main()
