"""Which figures of Worschech & Rosenow 2024 can be recomputed at the paper's own sizes, and what comes out?

    python benchmarks/paper_scale.py --store runs [--minutes 30] [--only 4 6]

Runs ``phasecast run scaling-figure --set figure=N scale=paper`` for each figure, on one thread and for ``--minutes`` at
most, and prints its time and the verdicts of its comparisons. What did not finish is stored: the same command goes on
with it, and prints the sum of its times. Figure 14 is run on scikit-learn's digits: the data of the paper are not ours.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

FIGURES = range(1, 21)
GRACE = 30.0  # seconds in which a run may store what it has


def digits(store: Path) -> Path:
    """The matrix of Figure 14: pixels of digits that are not constant."""
    from sklearn.datasets import load_digits

    path = store / "digits.npy"
    pixels = np.asarray(load_digits(return_X_y=True)[0])
    np.save(path, pixels[:, pixels.std(axis=0) > 0])
    return path


def run_figure(figure: int, store: Path, minutes: float) -> tuple[float, dict | None]:
    """Seconds, and what the command printed; None if it was stopped."""
    settings = [f"figure={figure}", "scale=paper"]
    if figure == 14:
        settings.append(f"data={digits(store)}")
    command = [sys.executable, "-m", "phasecast.cli", "run", "scaling-figure"]
    command += [part for setting in settings for part in ("--set", setting)]
    command += ["--threads", "1", "--json", "--store", str(store)]
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        printed, complaint = process.communicate(timeout=60 * minutes)
    except subprocess.TimeoutExpired:
        process.terminate()  # it stores what is finished, but only between steps
        try:
            process.communicate(timeout=GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        return time.monotonic() - begun, None
    if process.returncode not in (0, 3):
        raise SystemExit(f"figure {figure}: {complaint.strip()}")
    return time.monotonic() - begun, json.loads(printed)


def verdicts(answer: dict) -> str:
    counts = answer["summary"]["verdicts"]
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) or "nothing compared"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--only", type=int, nargs="+", choices=FIGURES, default=list(FIGURES))
    chosen = parser.parse_args()
    chosen.store.mkdir(parents=True, exist_ok=True)
    times_file = chosen.store / "paper_scale.json"
    times = json.loads(times_file.read_text()) if times_file.exists() else {}
    print("| figure | minutes | status | comparisons |\n| --- | --- | --- | --- |", flush=True)
    for figure in chosen.only:
        seconds, answer = run_figure(figure, chosen.store, chosen.minutes)
        times[str(figure)] = times.get(str(figure), 0.0) + seconds
        times_file.write_text(json.dumps(times))
        status = "not finished" if answer is None else answer["status"]
        words = "" if answer is None else verdicts(answer)
        print(f"| {figure} | {times[str(figure)] / 60:.1f} | {status} | {words} |", flush=True)


if __name__ == "__main__":
    main()
