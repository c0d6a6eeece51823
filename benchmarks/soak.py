"""Does a store survive four processes that start, resume, list, check, report and remove runs while being killed?

Claimed: no run is lost, computed twice or torn, and memory and descriptors of a process that lives all the time stay
flat. Run ``python benchmarks/soak.py``; ``--seconds`` sets the length (five minutes), ``--seed`` another order.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

GROWTH = 1.1  # chosen: of the peak memory after a third of the time; figures and compiled code come before that


def main() -> None:
    from soaking import soak

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        found = soak(Path(folder), arguments.seconds, seed=arguments.seed)
    print(f"{time.monotonic() - began:.0f} s: {found}")
    for words in found.findings():
        print(words)
    assert not found.findings()
    assert found.memory[1] < GROWTH * found.memory[0]
    assert found.descriptors[1] <= found.descriptors[0] + 2


if __name__ == "__main__":
    main()
