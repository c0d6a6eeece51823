"""When will a network grok, from its settings alone? The clock law lr·wd·I(t; β₂) = A(p, N), with scatter.

ln A is a polynomial in the ratio r = N/(p ln p) and ln p; what seeds add is logistic. The constants are those of
greatest likelihood on a bank, in which runs that never generalised count as "not within the window".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phasecast.forecasting.bank import Bank
from phasecast.forecasting.clock import inverse_log_adam_clock, log_adam_clock
from phasecast.forecasting.settings import Settings
from phasecast.forecasting.survival import Logistic, fit_logistic

MIDDLE_RATIO, MIDDLE_P = 3.0, 20.0  # where the polynomial is centred: the middle of the shipped bank


def law_terms(settings: Sequence[Settings]) -> np.ndarray:
    """(runs, terms) of ln A."""
    r = np.array([one.ratio for one in settings]) - MIDDLE_RATIO
    p = np.log(np.array([one.p for one in settings]) / MIDDLE_P)
    return np.stack([np.ones_like(r), r, r**2, r**3, p, p * r], axis=1)


def log_drive(settings: Sequence[Settings]) -> np.ndarray:
    """ln(lr·wd)."""
    return np.array([math.log(one.lr * one.weight_decay) for one in settings])


@dataclass(frozen=True, eq=False)
class ClockLaw:
    """The law fitted to a bank."""

    fit: Logistic

    @classmethod
    def of(cls, bank: Bank) -> ClockLaw:
        """The law of a bank's runs."""
        settings = [run.settings for run in bank]
        last = [run.window if run.val50 is None else max(run.val50, 1.0) for run in bank]
        clock = np.array([float(log_adam_clock(t, one.beta2)) for t, one in zip(last, settings, strict=True)])
        observed = np.array([run.val50 is not None for run in bank])
        return cls(fit_logistic(law_terms(settings), log_drive(settings) + clock, observed))

    def chance(self, settings: Settings, window: float) -> float:
        """The probability to pass 50% validation accuracy within a number of steps."""
        level = log_drive([settings]) + log_adam_clock(window, settings.beta2)
        return float(self.fit.below(law_terms([settings]), level)[0])

    def quantile(self, settings: Settings, share: float) -> float:
        """The step by which a share of networks with these settings has generalised."""
        level = self.fit.location(law_terms([settings]))[0] + self.fit.scale * math.log(share / (1 - share))
        return float(inverse_log_adam_clock(level - log_drive([settings])[0], settings.beta2))

    def medians_after(self, settings: Sequence[Settings], steps: np.ndarray) -> np.ndarray:
        """ln of the median step of val50 of each, given that it is after ``steps``."""
        drive = log_drive(settings)
        betas = np.array([one.beta2 for one in settings])
        medians = np.empty(len(drive))
        for beta in np.unique(betas):
            rows = betas == beta
            now = drive[rows] + log_adam_clock(np.asarray(steps)[rows], float(beta))
            terms = law_terms([one for one, chosen in zip(settings, rows, strict=True) if chosen])
            level = self.fit.median_after(terms, now) - drive[rows]
            medians[rows] = np.log(inverse_log_adam_clock(level, float(beta)))
        return medians
