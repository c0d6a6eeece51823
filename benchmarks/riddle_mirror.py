"""Does λ̂ mirror the validation loss along training? Twelve trainings, two nulls, a criterion written before the run.

python benchmarks/riddle_mirror.py --store riddles          some 25 minutes of one core; resumable, then judged
python benchmarks/riddle_mirror.py --store riddles --judge   what the finished runs of the store say

The question is section 6.3 of Cullen et al. 2026, "λ̂ closely mirrors the validation loss" (claim grokking/section-6.3).

Trainings: recipe grokking-mirror at p = 11, 13, 17 (fractions 0.65, 0.6, 0.55), K = 128, η = 5e-3, weight decay 3e-4 or
3e-5, seeds 6101 and 6102, 6000 steps, λ̂ at 70 checkpoints or more, calibrated and by SGLD as printed. Fractions, weight
decays and steps were chosen on the seeds 90001 and 90002, by losses and accuracies alone (all generalise, at times that
differ by a factor of six); one λ̂ series of seed 90001 was run for its cost, and its values were not looked at.

Measure: Spearman's ρ of λ̂ and the validation loss of each training, both read at 64 points even in log time. Its mean
over trainings has a 95% interval by Student's t of atanh ρ. The first span is the whole run, from the first logged step
(5); the second begins where the last of the trainings has memorised its rows.

Criterion, for each span and sampler; the answer to the riddle is that of the calibrated sampler over the whole run:

- "mirrors": the interval of the mean ρ is above 0.7 (the size that the claim's check has called mirroring since it was
  written), and fewer than 2.5% of time-shifted pairs and of exchanged pairs correlate as well on average. 2.5% is the
  usual 5% shared by the two spans. Shifts alone would accept any two trends, exchanges alone any two curves of a shape
  that depends on the setting, so both are asked.
- "does not mirror": the interval is below 0.7.
- "open": anything else.

Beside it, not part of the criterion: 1 − validation accuracy in place of λ̂ (a control that must pass where the nulls
have power), the training loss in place of λ̂ (what is free), and by how much each curve varies.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from phasecast import lab
from phasecast.claims.grokking_cullen2026.studies import POLICY
from phasecast.core.errors import BadInput
from phasecast.grokking.analysis.curves import POLICY as CURVES
from phasecast.grokking.analysis.curves import first_step_at
from phasecast.grokking.analysis.mirroring import JointMirror, joint_mirror
from phasecast.lab.runs import identify
from phasecast.studies.grokking.mirror import GrokkingMirror
from phasecast.studies.grokking.trainings import StoredStudy

TABLES = ((11, 0.65), (13, 0.6), (17, 0.55))
DECAYS = (3e-4, 3e-5)
SEEDS = (6101, 6102)
SAMPLERS = ("calibrated", "printed")
SETTINGS = {"width": 128, "lr": 5e-3, "values": DECAYS, "steps": 6000, "checkpoints": 76, "samplers": SAMPLERS}
POINTS = 64
CHANCE = POLICY.chance / 2  # two spans

Curve = Callable[["Training"], tuple[np.ndarray, np.ndarray]]


class Training:
    """The stored curves of one training."""

    def __init__(self, study: StoredStudy, number: int, name: str):
        self.name, self.logged = name, study.curves(number, 0)
        self.llc = [study.llc(number, 0, way) for way in range(len(SAMPLERS))]
        memorised = first_step_at(self.logged["step"], self.logged["train_accuracy"], CURVES.memorised)
        if memorised is None:
            raise SystemExit(f"{name} has not memorised its rows")
        self.memorised = float(memorised)

    def sampled(self, way: int) -> tuple[np.ndarray, np.ndarray]:
        rows = self.llc[way]
        good = np.isfinite(rows["value"]) & (rows["step"] > 0)
        return rows["step"][good], rows["value"][good]

    def curve(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        good = self.logged["step"] > 0
        return self.logged["step"][good], self.logged[name][good]


def trainings(store: str | None, run: bool) -> list[Training]:
    found = []
    for p, fraction in TABLES:
        for seed in SEEDS:
            spec = GrokkingMirror.model_validate({**SETTINGS, "p": p, "fraction": fraction, "seed": seed})
            if run:
                lab.run("grokking-mirror", spec, store=store)
            try:
                results = lab.load(identify(lab.find_recipe("grokking-mirror"), spec), store=store).results()
            except BadInput as missing:
                print(f"p = {p}, seed {seed}: {missing}")
                continue
            study = StoredStudy(results)
            found += [Training(study, i, f"p = {p}, decay {decay:g}, seed {seed}") for i, decay in enumerate(DECAYS)]
    return found


def read(curve: tuple[np.ndarray, np.ndarray], grid: np.ndarray) -> np.ndarray:
    return np.interp(np.log(grid), np.log(curve[0]), curve[1])


def verdict(one: JointMirror) -> str:
    if one.low > POLICY.close and max(one.shifted, one.exchanged) < CHANCE:
        return "mirrors"
    return "does not mirror" if one.high < POLICY.close else "open"


def judge(all_of: list[Training]) -> None:
    first = max(one.curve("validation_loss")[0][0] for one in all_of)
    last = min(one.logged["step"][-1] for one in all_of)
    measures: dict[str, Curve] = {
        "λ̂, calibrated": lambda one: one.sampled(0),
        "λ̂, SGLD as printed": lambda one: one.sampled(1),
        "1 − validation accuracy": lambda one: (one.curve("train_loss")[0], 1 - one.curve("validation_accuracy")[1]),
        "training loss": lambda one: one.curve("train_loss"),
    }
    for way, sampler in enumerate(SAMPLERS):
        counts = [int(np.sum(one.sampled(way)[0] >= first)) for one in all_of]
        refused = np.concatenate([one.llc[way]["status"] == 2 for one in all_of])
        print(
            f"{sampler}: {min(counts)} to {max(counts)} checkpoints from step {first:g}, {refused.mean():.0%} refused"
        )
    for span, start in (("whole run", first), ("memorised", max(one.memorised for one in all_of))):
        grid = np.geomspace(start, last, POINTS)
        losses = [read(one.curve("validation_loss"), grid) for one in all_of]
        print(f"\n{span}, steps {start:g} to {last:g}, {len(all_of)} trainings")
        print(f"{'':26}{'mean ρ':>8}  {'95% interval':18}{'shifted':>9}{'exchanged':>11}  verdict")
        rows = {}
        for name, curve in measures.items():
            rows[name] = one = joint_mirror([read(curve(part), grid) for part in all_of], losses)
            interval = f"{one.low:+.2f} to {one.high:+.2f}"
            print(f"{name:26}{one.rho:+8.2f}  {interval:18}{one.shifted:9.4f}{one.exchanged:11.4f}  {verdict(one)}")
        print(f"\n{'ρ of each training':32}{'calibrated':>12}{'printed':>10}{'accuracy':>10}{'train loss':>12}")
        for i, one in enumerate(all_of):
            print(f"{one.name:32}" + "".join(f"{row.each[i]:+11.2f}" for row in rows.values()))
    print(f"\n{'largest over last value':32}{'calibrated':>12}{'printed':>10}{'validation loss':>17}{'learnt at':>11}")
    for one in all_of:
        kept = [values[steps >= first] for steps, values in (one.sampled(0), one.sampled(1))]
        kept.append(one.curve("validation_loss")[1])
        learnt = first_step_at(one.logged["step"], one.logged["validation_accuracy"], 0.5)
        shown = [f"{part.max() / part[-1]:11.3g}" for part in kept]
        print(f"{one.name:32}{shown[0]}{shown[1]}{shown[2]:>17}{learnt or float('nan'):11g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", default=None, help="folder of the runs")
    parser.add_argument("--judge", action="store_true", help="only what is stored and finished")
    options = parser.parse_args()
    judge(trainings(options.store, run=not options.judge))


if __name__ == "__main__":
    main()
