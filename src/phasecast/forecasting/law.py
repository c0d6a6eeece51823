"""When will a network grok, from its settings alone? The clock law lr·wd·I(t; β₂) = A(p, N), with scatter.

ln A is a cubic in 1/r, r = N/(p ln p), plus a multiple of ln p; what seeds add to it is logistic. The constants are
those of greatest likelihood on a bank, in which runs that never generalised count as "not within the window".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phasecast.core.policy import Policy, rule
from phasecast.forecasting.bank import Bank, BankRun
from phasecast.forecasting.clock import inverse_log_adam_clock, log_adam_clock
from phasecast.forecasting.settings import Settings, TableSize
from phasecast.forecasting.survival import Logistic, fit_logistic

MIDDLE_RATIO, MIDDLE_P = 3.0, 20.0  # where the polynomials are centred: the middle of the shipped bank
RARE = 2.5  # the ratio where the log-odds are centred: about there, as many networks generalise as never do
WEAK = 0.02  # ridge on the log-odds: keeps them finite where a bank has no networks of both kinds at one ratio
LATE = 4.2  # the ratio above which networks generalise while they memorise: no wait is left for the law


def law_terms(settings: Sequence[Settings] | Sequence[TableSize]) -> np.ndarray:
    """(runs, terms) of ln A."""
    x = 1 / np.minimum([one.ratio for one in settings], LATE) - 1 / MIDDLE_RATIO
    return np.stack([np.ones_like(x), x, x**2, x**3, np.log([one.p / MIDDLE_P for one in settings])], axis=1)


def log_drive(settings: Sequence[Settings]) -> np.ndarray:
    """ln(lr·wd)."""
    return np.array([math.log(one.lr * one.weight_decay) for one in settings])


@dataclass(frozen=True, eq=False)
class ClockLaw:
    """The law fitted to a bank."""

    fit: Logistic
    ever: np.ndarray
    """Constants of the log-odds to generalise at all, in 1 and r − RARE."""

    @classmethod
    def of(cls, bank: Bank) -> ClockLaw:
        """The law of a bank's runs."""
        runs = [run for run in bank if run.settings.ratio <= LATE]
        settings = [run.settings for run in runs]
        last = [run.window if run.val50 is None else max(run.val50, 1.0) for run in runs]
        clock = np.array([float(log_adam_clock(t, one.beta2)) for t, one in zip(last, settings, strict=True)])
        observed = np.array([run.val50 is not None for run in runs])
        terms, level = law_terms(settings), log_drive(settings) + clock
        fit = fit_logistic(terms, level, observed)
        ratios = np.array([one.ratio for one in settings])
        return cls(fit, _ever(ratios, observed))

    def chance(self, settings: Settings, window: float) -> float:
        """The probability to pass 50% validation accuracy within a number of steps."""
        level = log_drive([settings]) + log_adam_clock(window, settings.beta2)
        return self.chance_ever(settings) * float(self.fit.below(law_terms([settings]), level)[0])

    def chance_ever(self, settings: Settings) -> float:
        """The probability to generalise at all: with too little data no time is enough."""
        return float(_share(self.ever, np.array([settings.ratio]))[0])

    def quantile(self, settings: Settings, share: float) -> float:
        """The step by which a share of the networks with these settings that generalise at all has done so."""
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


@dataclass(frozen=True)
class FamilyPolicy(Policy):
    """How far the law of a bank is trusted for trainings of another kind, after a few finished runs of that kind."""

    fewest: int = rule(3, "finished runs: a mean and a spread, and one to check them by")
    spread: float = rule(
        0.3, "sd of ln val50 around the moved law, before runs say more: twice that of the law on moduli left out"
    )
    weight: float = rule(3.0, "runs that the spread above counts for: as many as are needed to speak at all")


FAMILY = FamilyPolicy()


@dataclass(frozen=True, eq=False)
class FamilyLaw:
    """The law of a bank moved by runs of another kind of training: ln val50 is Student-t around law + shift.

    With a flat prior of the shift and an inverse-χ² prior of the spread, the next run of the family is Student-t with
    weight + k − 1 degrees of freedom and the squared scale s²(1 + 1/k).
    """

    law: ClockLaw
    shift: float
    scale: float
    degrees: float
    runs: int

    @classmethod
    def of(cls, law: ClockLaw, runs: Sequence[BankRun]) -> FamilyLaw:
        """From the runs of a family that generalised, at least ``FAMILY.fewest``."""
        done = [run for run in runs if run.val50 is not None]
        apart = np.array([math.log(float(run.val50 or 1.0) / law.quantile(run.settings, 0.5)) for run in done])
        count = len(apart)
        degrees = FAMILY.weight + count - 1
        squares = FAMILY.weight * FAMILY.spread**2 + float(np.sum((apart - apart.mean()) ** 2))
        return cls(law, float(apart.mean()), math.sqrt(squares / degrees * (1 + 1 / count)), degrees, count)

    def quantiles_after(self, settings: Settings, now: float, shares: Sequence[float]) -> list[float]:
        """Steps by which shares of the trainings that had not generalised at ``now`` have done so."""
        from scipy.special import stdtr, stdtrit

        centre = math.log(self.law.quantile(settings, 0.5)) + self.shift
        over = float(stdtr(self.degrees, (math.log(max(now, 1.0)) - centre) / self.scale))
        levels = over + np.asarray(shares) * (1 - over)
        return np.exp(centre + self.scale * stdtrit(self.degrees, levels)).tolist()


def _ever(ratios: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Log-odds to generalise at all, of greatest likelihood.

    A run that did not within its window counts as one that never does. This errs on the side of "no": the law lets
    every network generalise at some time, and the bank cannot tell "later" from "never".
    """
    from scipy.optimize import minimize

    def objective(x: np.ndarray) -> float:
        share = _share(x, ratios)
        likelihood = np.where(observed, share, 1 - share)
        return float(-np.sum(np.log(np.maximum(likelihood, 1e-12))) + WEAK * np.sum(x**2))

    return minimize(objective, np.array([1.0, 5.0]), method="L-BFGS-B").x


def _share(constants: np.ndarray, ratios: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(constants[0] + constants[1] * (ratios - RARE), -50, 50)))
