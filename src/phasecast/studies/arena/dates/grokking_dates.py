"""When will it grok? Random small trainings inside the range of the shipped bank, forecast when a share of the wait is
over.

A training that does not pass 50% within the window of the bank has its end as outcome: an interval that ends before is
a miss, a lower bound holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from phasecast.studies.arena.dates.held import judged
from phasecast.studies.arena.family import Family, Outcome, log_uniform

WIDTH = 5  # hidden units per p, as in the bank
STEPS = 8000  # the window of the bank: what comes later no forecast from it can date
EVERY = 20  # steps between rows of the log, as in the bank
RATIOS = (2.6, 3.7)  # N/(p ln p): from late to soon; below, the bank knows hardly any training that generalises


@dataclass(frozen=True)
class GrokkingTraining:
    """A training of a quadratic network on addition modulo p, and the share of the wait when it is forecast."""

    p: int
    n: int
    lr: float
    weight_decay: float
    share: float

    def __str__(self) -> str:
        return (
            f"ln of the step of val50, p = {self.p}, N = {self.n}, lr = {self.lr:g}, weight decay {self.weight_decay:g}"
            f", forecast at {self.share:.0%} of the wait"
        )


def grokking_training(rng: np.random.Generator) -> GrokkingTraining:
    """Odd moduli from 13 to 29, rates and weight decays of the bank, and rows about the critical number."""
    p = int(rng.choice(np.arange(13, 30, 2)))
    n = round(rng.uniform(*RATIOS) * p * math.log(p))
    return GrokkingTraining(
        p, n, log_uniform(rng, 1e-3, 5e-3), log_uniform(rng, 5e-5, 2e-4), round(rng.uniform(0.1, 0.75), 2)
    )


def judge_grokking(problem: GrokkingTraining, seed: int) -> Outcome:
    """The forecast from log, settings and bank, against the rest of the same training."""
    from phasecast import grokking
    from phasecast.forecasting.forecast import forecast
    from phasecast.forecasting.log import TrainingLog
    from phasecast.forecasting.lone_log import Landmarks
    from phasecast.forecasting.settings import Settings

    table, width = grokking.task("addition", problem.p), WIDTH * problem.p
    settings = Settings("addition", problem.p, problem.n, problem.lr, problem.weight_decay, width)
    logged = []
    for piece in grokking.train(
        table,
        grokking.quadratic(table, width),
        steps=STEPS,
        count=problem.n,
        lr=problem.lr,
        weight_decay=problem.weight_decay,
        seeds=seed,
        log_every=EVERY,
    ):
        names = ("step", "train_accuracy", "validation_accuracy", "validation_loss")
        logged.append(np.stack([piece.curves[name].ravel() for name in names]))
        if np.any(logged[-1][2] >= 0.5):
            break
    step, trained, accuracy, loss = np.concatenate(logged, axis=1)
    log = TrainingLog(step, trained, accuracy, loss)
    marks = Landmarks.of(log)
    end = log.last if marks.val50 is None else float(marks.val50)
    start = end if marks.train99 is None else float(marks.train99)
    seen = log.until(min(start + problem.share * (end - start), end - EVERY))
    return judged(forecast(seen, settings), end, str(problem), math.log)


FAMILIES = (
    Family("forecast-grokking", "forecast of val50", "the training goes on", grokking_training, judge_grokking, 40, 3),
)
