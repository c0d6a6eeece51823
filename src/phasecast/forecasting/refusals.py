"""When is a forecast refused? Each rule returns a reason with what to do, or None.

Outside the range of its bank a forecaster is confidently wrong, so what it refuses matters as much as what it says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from phasecast.core.policy import Policy, rule
from phasecast.forecasting.log import TrainingLog
from phasecast.forecasting.lone_log import Landmarks, OutOfSight
from phasecast.forecasting.settings import Settings

COMMUTATIVE = ("addition", "multiplication")
"""Rules with a∘b = b∘a: a network can answer a held-out pair because its mirror image is a training pair."""


@dataclass(frozen=True)
class RefusalPolicy(Policy):
    """The numbers behind the refusals."""

    no_delay: float = rule(200.0, "steps between memorising and 50%: a shorter wait is not a delay (10 rows of a log)")
    fewest_runs: int = rule(25, "below 25 runs of a bank its settings law is better than a fit to logs")
    flat: float = rule(0.03, "largest change of an accuracy that counts as flat; half the noise of 100 validation rows")
    flat_share: float = rule(0.5, "of the time since memorisation for which it must be flat")
    same_rate: float = rule(1.01, "ratio of learning rates in one log up to which they are rounding, not a schedule")
    near: float = rule(0.04, "distance from the mirror share that counts as near: its spread over splits at p = 13")


POLICY = RefusalPolicy()


def outcome_known(log: TrainingLog) -> str | None:
    """The accuracy is above 50% already."""
    marks = Landmarks.of(log)
    if marks.val50 is None:
        return None
    happened = f"validation accuracy passed 50% at step {marks.val50:g}"
    if marks.train99 is None or marks.val50 - marks.train99 < POLICY.no_delay:
        when = (
            "before"
            if marks.train99 is None or marks.val50 < marks.train99
            else f"within {POLICY.no_delay:.0f} steps of"
        )
        return f"{happened}, {when} memorising: there is no delay to forecast; use fewer training rows to see one"
    return f"{happened}: nothing is left to forecast; cut the log before that step to test a forecast"


def not_memorised(log: TrainingLog) -> str | None:
    """The wait begins when the training rows are memorised."""
    if Landmarks.of(log).train99 is not None:
        return None
    return (
        f"training accuracy is {log.train_accuracy.max():.2f} at most; forecast again when it has passed 99%, or train "
        "with a larger learning rate"
    )


def mirror_share(p: int, n: int) -> float:
    """The expected share of held-out pairs (a, b) whose mirror image (b, a) is among n training pairs of p².

    >>> round(mirror_share(17, 200), 3)
    0.654
    """
    return (p - 1) / p * n / (p * p - 1)


def stuck_at_mirror(log: TrainingLog, settings: Settings | None) -> str | None:
    """A network that learned commutativity and not the rule sits at the share of mirrored pairs."""
    train99 = Landmarks.of(log).train99
    if train99 is None or settings is None or settings.task not in COMMUTATIVE:
        return None
    late = log.validation_accuracy[log.step >= log.last - POLICY.flat_share * (log.last - train99)]
    share = mirror_share(settings.p, settings.n)
    if len(late) < 3 or np.ptp(late) > POLICY.flat or abs(float(np.mean(late)) - share) > POLICY.near:
        return None
    return (
        f"validation accuracy is flat at {np.mean(late):.2f}, near {share:.2f}, the share of pairs (a, b) with (b, a) "
        "among the training rows: the network learned a∘b = b∘a, not the rule; use more weight decay, or put mirror "
        "images into the same part"
    )


def not_in_sight(median: float) -> OutOfSight:
    """The date of the line moves away as fast as time passes."""
    return OutOfSight(
        f"50% is not in sight: the line of the loss says step {median:.0f}, and that date moves away as fast as time "
        "passes; use more training rows, a wider network or more weight decay"
    )


def disagreement(bank: tuple[float, float], line: tuple[float, float]) -> str | None:
    """The settings and the loss of the log say different dates."""
    if bank[0] <= line[1] and line[0] <= bank[1]:
        return None
    return (
        f"the bank says step {bank[0]:.0f} to {_words(bank[1])} and the loss of this log {line[0]:.0f} to "
        f"{_words(line[1])}: check the settings, or leave them out to use the log alone"
    )


def other_rates(log: TrainingLog, settings: Settings | None) -> str | None:
    """A schedule or a warm-up, of which no bank has runs, or another learning rate than the settings say."""
    if log.rates is None:
        return None
    least, most = log.rates
    if most > POLICY.same_rate * least:
        return (
            f"the learning rate of this log goes from {least:.3g} to {most:.3g}: warm-up and schedules are not in the "
            "bank; train with a constant rate to use it"
        )
    if settings is not None and not 1 / POLICY.same_rate <= most / settings.lr <= POLICY.same_rate:
        return f"the learning rate of this log is {most:.3g}, of the settings {settings.lr:.3g}; check the settings"
    return None


def other_network(network: str) -> str:
    """The log alone was calibrated on the networks of the bank, and a quarter of its intervals miss for an MLP."""
    return (
        f"the network {network} is not in the bank, and the loss of its log falls in another way; add three finished "
        "runs of yours (--bank store), or leave the settings out to use the log alone"
    )


def too_few_runs(runs: int) -> str | None:
    """A bank that is too small to compare logs with."""
    if runs >= POLICY.fewest_runs:
        return None
    return f"the bank has {runs} runs, fewer than {POLICY.fewest_runs}; give a larger one"


def _words(step: float) -> str:
    return f"{step:.0f}" if math.isfinite(step) else "never"
