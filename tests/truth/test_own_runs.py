"""What a log gives away about its table, runs of another kind than the bank's, and learning rates that change."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from phasecast.core.results import Status
from phasecast.forecasting import TrainingLog, forecast, read_log
from phasecast.forecasting.bank import Bank, BankRun, shipped_bank
from phasecast.forecasting.forecast import OWN_RUNS
from phasecast.forecasting.law import FAMILY, ClockLaw, FamilyLaw
from phasecast.forecasting.settings import Settings
from phasecast.forecasting.signals import TableSize, table_in_log

MLP = Settings("addition", p=17, n=159, lr=2e-3, weight_decay=1e-4, width=85, network="mlp")


def log_of(run: BankRun, share: float) -> TrainingLog:
    """A run of the bank when a share of its wait is over."""
    start = float(run.train99 or 0)
    rows = run.step <= start + share * (float(run.val50 or 0) - start)
    return TrainingLog(
        run.step[rows], run.train_accuracy[rows], run.validation_accuracy[rows], run.validation_loss[rows]
    )


def waiting(count: int) -> list[BankRun]:
    late = [run for run in shipped_bank() if run.val50 and run.val50 - float(run.train99 or 0) > 1500]
    return late[:: len(late) // count][:count]


def test_a_log_gives_away_its_modulus_and_its_rows():
    guesses = [(run.settings, table_in_log(log_of(run, 0.2))) for run in waiting(30)]
    known = [(settings, guess) for settings, guess in guesses if guess is not None]
    assert len(known) >= 24
    assert all((guess.p, guess.n) == (settings.p, settings.n) for settings, guess in known)
    assert TableSize(17, 115).ratio == pytest.approx(115 / (17 * math.log(17)))


def test_rounded_accuracies_give_nothing_away():
    log = log_of(waiting(1)[0], 0.5)
    rounded = dataclasses.replace(
        log, train_accuracy=log.train_accuracy.round(2), validation_accuracy=log.validation_accuracy.round(2)
    )
    assert table_in_log(rounded) is None


@pytest.mark.parametrize(("p", "fewest", "words"), [(13, 0.0, "modulus"), (17, 2.8, "N/(p ln p)")])
def test_a_log_that_shows_a_table_outside_the_bank_is_not_compared_with_it(p, fewest, words):
    """The same logs inside their bank: the bank speaks."""
    run = next(one for one in waiting(90) if one.settings.p == p and 2.4 < one.settings.ratio < 2.8)
    log = log_of(run, 0.3)
    assert table_in_log(log) == TableSize(p, run.settings.n)
    assert forecast(log, bank=shipped_bank()).tier == "log + bank"
    far = Bank(tuple(one for one in shipped_bank() if one.settings.ratio > fewest and (fewest or one.settings.p != p)))
    made = forecast(log, bank=far)
    assert made.tier == "lone log"
    assert any(words in reason for reason in made.reasons)


def test_the_moved_law_is_student_t_with_the_stated_spread():
    """Families with a known shift and spread: the quantiles hold the next run as often as they say."""
    law, rng, hits, asked = ClockLaw.of(shipped_bank()), np.random.default_rng(0), 0, 0
    base = law.quantile(MLP, 0.5)
    step = np.arange(0, 8001, 20)
    for _ in range(400):
        variance = FAMILY.weight * FAMILY.spread**2 / rng.chisquare(FAMILY.weight)
        times = base * np.exp(rng.normal() + math.sqrt(variance) * rng.normal(size=4))
        runs = [BankRun(MLP, step, step / 8000, step / 8000, step / 1.0, outcome=time) for time in times[:3]]
        low, high = FamilyLaw.of(law, runs).quantiles_after(MLP, 1.0, (0.1, 0.9))
        hits += low <= times[3] <= high
        asked += 1
    assert abs(hits / asked - 0.8) < 3 * math.sqrt(0.16 / asked)
    later = FamilyLaw.of(law, runs).quantiles_after(MLP, 5000.0, (0.1, 0.5, 0.9))
    assert later == sorted(later)
    assert later[0] > 5000


def test_three_finished_runs_of_another_kind_give_a_date_and_two_do_not():
    source = [run for run in waiting(60) if run.settings.p == 17][:4]
    kind = {"network": "mlp", "lr": 2e-3, "weight_decay": 1e-4, "n": 159}
    others = [dataclasses.replace(run, settings=dataclasses.replace(run.settings, **kind)) for run in source]
    bank, log = shipped_bank(), log_of(source[3], 0.3)
    two, three = bank.extended(others[:2]), bank.extended(others[:3])
    assert len(three) == len(bank)
    assert len(three.family(MLP)) == 3
    assert forecast(log, MLP, bank=two).tier != OWN_RUNS
    made = forecast(log, MLP, bank=three)
    assert made.tier == OWN_RUNS
    assert made.status is not Status.REFUSED
    assert made.low > log.last
    narrow = dataclasses.replace(MLP, width=40)
    assert not three.family(narrow)


def test_runs_inside_the_range_join_the_bank():
    bank = shipped_bank()
    more = bank.extended([bank.runs[0]])
    assert len(more) == len(bank) + 1
    assert not more.others


@pytest.mark.parametrize(("rates", "words"), [((1e-4, 2e-3), "schedules"), ((5e-3, 5e-3), "of the settings")])
def test_a_changing_or_another_learning_rate_is_not_compared_with_the_bank(rates, words):
    run = waiting(1)[0]
    log = dataclasses.replace(log_of(run, 0.6), rates=rates)
    settings = dataclasses.replace(run.settings, lr=2e-3)
    made = forecast(log, settings)
    assert made.tier == "lone log"
    assert any(words in reason for reason in made.reasons)


def test_the_learning_rate_of_a_file_is_read(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("step,train_acc,val_acc,val_loss,lr-Adam\n0,0.1,0.1,0.5,0.001\n20,0.2,0.1,0.5,0.002\n")
    assert read_log(path).rates == (0.001, 0.002)
