"""A forecast of the log alone is the line it says it is, and its score is the score of the textbook."""

from __future__ import annotations

import dataclasses
import math
from statistics import NormalDist

import numpy as np
import pytest

from phasecast.core import Status
from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement, Result, Verdict
from phasecast.forecasting import Forecast, TrainingLog, forecast, lone_log, read_log, refusals
from phasecast.forecasting.settings import Settings

STEP = np.arange(0.0, 2001.0, 20.0)
MEMORISED, PEAK, OUTCOME = 100.0, 200.0, 3200.0


def made_up(first: float = 0.48, top: float = 0.9, end: float = 0.48, *, logarithmic: bool = False, last=STEP[-1]):
    """A log whose loss rises to ``top`` at step 200 and then falls straight to ``end`` at step 3200."""
    line = np.log if logarithmic else np.asarray
    back = np.exp if logarithmic else np.asarray
    falling = back(line(top) + (line(end) - line(top)) * (STEP - PEAK) / (OUTCOME - PEAK))
    loss = np.where(STEP < PEAK, first + (top - first) * STEP / PEAK, falling)
    rows = last >= STEP
    train = np.minimum(STEP / MEMORISED, 1.0)
    return TrainingLog(STEP[rows], train[rows], np.full(rows.sum(), 0.05), loss[rows])


@pytest.mark.parametrize(
    ("log", "target"),
    [
        (made_up(), lone_log.LossTarget(0.48, False, "")),
        (made_up(math.log(23), 9.0, 1.83, logarithmic=True), lone_log.LossTarget(1.83, True, "")),
        (made_up(0.48, 0.9, 0.4), lone_log.LossTarget(0.4, False, "")),
    ],
    ids=["squared", "cross-entropy", "given"],
)
def test_the_line_arrives_where_the_loss_does(log, target):
    line = lone_log.extrapolate_loss(log, target, 0.8)
    assert isinstance(line, lone_log.LineForecast)
    shift = np.interp(line.progress, lone_log.POLICY.progress, lone_log.POLICY.median)
    assert line.median * math.exp(-shift) == pytest.approx(OUTCOME, rel=1e-6)
    assert line.low < line.median < line.high


def test_the_loss_at_half_is_read_from_the_loss_before_training():
    for p in (13, 23, 29):  # the centred squared loss before training is ½(1 − 1/p)
        first = 0.5 * (1 - 1 / p)
        squared, told = (lone_log.loss_target(made_up(first, 0.9, first), classes) for classes in (None, p))
        assert isinstance(squared, lone_log.LossTarget)
        assert isinstance(told, lone_log.LossTarget)
        assert squared.level == pytest.approx(told.level)
        assert 0.85 < squared.level / first < 1.05
    cross_entropy = lone_log.loss_target(made_up(math.log(23), 9.0, 1.83, logarithmic=True))
    assert isinstance(cross_entropy, lone_log.LossTarget)
    assert (cross_entropy.level, cross_entropy.logarithmic) == (1.83, True)
    unknown = lone_log.loss_target(made_up(1.3, 2.0, 1.3))
    assert isinstance(unknown, str)
    assert "--loss-at-50" in unknown


def test_a_forecast_sees_nothing_that_comes_later():
    whole = made_up()
    changed = TrainingLog(
        whole.step,
        whole.train_accuracy,
        whole.validation_accuracy,
        np.where(whole.step > 1200, 7.0, whole.validation_loss),
    )
    assert forecast(whole.until(1200)).plain() | {"made_on": ""} == forecast(changed.until(1200)).plain() | {
        "made_on": ""
    }


def test_before_the_turn_and_before_memorising_nothing_is_said():
    assert "not turned" in forecast(made_up(last=260)).reasons[0]
    assert "99%" in forecast(made_up(last=80)).reasons[0]
    for refused in (forecast(made_up(last=260)), forecast(made_up(last=80))):
        assert refused.status is Status.REFUSED
        assert refused.interval is None
        assert refused.plain()["value"] is None


def test_a_loss_that_relaxes_to_a_level_above_its_end_is_not_in_sight():
    level = 0.48 + 0.15  # the exponential never reaches 0.48
    log = made_up()
    loss = np.where(log.step < PEAK, log.validation_loss, level + (0.9 - level) * np.exp(-(log.step - PEAK) / 400))
    relaxing = TrainingLog(log.step, log.train_accuracy, log.validation_accuracy, loss)
    made = forecast(relaxing)
    assert made.status is Status.REFUSED
    assert "not in sight" in made.reasons[0]
    assert forecast(log).status is Status.OK


def test_a_fall_that_slows_down_waits_and_noise_on_a_straight_one_does_not():
    rng, straight = np.random.default_rng(0), made_up(last=2000)
    falling = straight.step >= PEAK
    slower = 0.9 - 0.6 * (1 - np.exp(-(straight.step - PEAK) / 1600))
    bent = np.where(falling, slower, straight.validation_loss)
    made = forecast(TrainingLog(straight.step, straight.train_accuracy, straight.validation_accuracy, bent))
    assert made.status is Status.REFUSED
    assert "more slowly" in made.reasons[0]
    noisy = straight.validation_loss + 0.02 * falling * rng.normal(size=len(straight.step))
    assert forecast(TrainingLog(straight.step, straight.train_accuracy, straight.validation_accuracy, noisy)).value > 0


def test_an_outcome_in_the_log_is_not_forecast():
    log = made_up()
    late = TrainingLog(log.step, log.train_accuracy, np.where(log.step > 1500, 0.6, 0.1), log.validation_loss)
    assert "at step 1520" in forecast(late).reasons[0]
    soon = TrainingLog(log.step, log.train_accuracy, np.where(log.step > 200, 0.6, 0.1), log.validation_loss)
    assert "no delay" in forecast(soon).reasons[0]


def test_the_mirror_share_is_what_random_splits_have():
    rng, p, n = np.random.default_rng(0), 17, 200
    shares = []
    for _ in range(200):
        trained = np.zeros((p, p), dtype=bool)
        trained.ravel()[rng.permutation(p * p)[:n]] = True
        mirrored = trained.T & ~np.eye(p, dtype=bool)
        shares.append(mirrored[~trained].mean())
    assert refusals.mirror_share(p, n) == pytest.approx(np.mean(shares), abs=4 * float(np.std(shares)) / math.sqrt(200))


def test_a_network_stuck_at_the_mirror_share_is_told_apart():
    log = made_up()
    share = refusals.mirror_share(17, 120)
    stuck = TrainingLog(log.step, log.train_accuracy, np.full(len(log), share), log.validation_loss)
    settings = Settings("addition", p=17, n=120, lr=1e-3, weight_decay=1e-4, width=85)
    assert "mirror" in (refusals.stuck_at_mirror(stuck, settings) or "")
    assert refusals.stuck_at_mirror(log, settings) is None
    assert refusals.stuck_at_mirror(stuck, dataclasses.replace(settings, task="subtraction")) is None


def test_the_crps_is_that_of_a_normal_variable_in_log_time():
    """Gneiting and Raftery 2007, eq. 21: σ(z(2Φ(z) − 1) + 2φ(z) − 1/√π)."""
    sigma, normal = 0.3, NormalDist()
    half = sigma * normal.inv_cdf(0.9)
    made = Forecast(1000.0, low=1000 * math.exp(-half), high=1000 * math.exp(half), made_at=100.0)
    for outcome in (600.0, 1000.0, 1500.0):
        z = math.log(outcome / 1000) / sigma
        exact = sigma * (z * (2 * normal.cdf(z) - 1) + 2 * normal.pdf(z) - 1 / math.sqrt(math.pi))
        assert made.score(outcome).crps == pytest.approx(exact, rel=0.01)


def test_scores_know_hits_misses_and_trainings_that_ended_before():
    made = Forecast(1000.0, low=800.0, high=1300.0, made_at=500.0)
    assert made.score(1100.0).hit
    assert not made.score(1400.0).hit
    assert made.score(2000.0).log_error == pytest.approx(math.log(2))
    assert made.score(1500.0).remaining_error == pytest.approx(math.log(2))
    assert made.score(None, until=1200.0).hit
    assert not made.score(None, until=1400.0).hit
    assert Forecast(1000.0, low=800.0, made_at=500.0).score(9e9).hit
    with pytest.raises(BadInput, match="until"):
        made.score(None)


def test_a_forecast_beside_its_outcome_agrees_where_the_interval_holds_it():
    made = Forecast(1000.0, low=800.0, high=1500.0, made_at=500.0)
    verdicts = {
        step: made.beside(Measurement(step, 10.0, error_kind="resolution")).verdict
        for step in (700.0, 850.0, 1450.0, 1700.0)
    }
    assert verdicts == {700.0: Verdict.DIFFERS, 850.0: Verdict.AGREES, 1450.0: Verdict.AGREES, 1700.0: Verdict.DIFFERS}
    bound = Forecast(math.nan, low=800.0, made_at=500.0)
    assert bound.beside(Measurement(9000.0, 10.0)).verdict is Verdict.BOUND_RESPECTED
    assert bound.beside(Measurement(500.0, 10.0)).verdict is Verdict.DIFFERS


def test_json_keeps_a_forecast():
    made = forecast(made_up())
    assert Result.from_json(made.to_json()) == made
    refused = forecast(made_up(last=80))
    assert Result.from_json(refused.to_json()) == refused


def test_a_date_without_an_interval_cannot_be_made():
    with pytest.raises(BadInput, match="without an interval"):
        Forecast(1000.0)
    with pytest.raises(BadInput, match="does not hold"):
        Forecast(1000.0, low=1100.0, high=1200.0)


HEADERS = {
    "ours": "step,train_loss,validation_loss,train_accuracy,validation_accuracy",
    "wandb": '"Step","run-7 - train/loss","run-7 - val/loss","run-7 - train/acc","run-7 - val/acc"',
    "lightning": "step,train_loss_epoch,val_loss,train_acc_epoch,val_acc",
    "keras": "epoch,loss,val_loss,accuracy,val_accuracy",
    "tensorboard": "Step;Loss/train;Loss/test;Accuracy/train;Accuracy/test",
    "plain": "global_step\ttraining loss\tTest Loss\tTrain Accuracy\tTest Accuracy",
}


@pytest.mark.parametrize("style", HEADERS)
@pytest.mark.parametrize("percent", [False, True])
def test_exports_of_common_loggers_are_recognised(style, percent, tmp_path):
    log, header = made_up(), HEADERS[style]
    mark = max(",;\t", key=header.count)
    factor = 100 if percent else 1
    columns = (
        log.step,
        log.validation_loss / 2,
        log.validation_loss,
        factor * log.train_accuracy,
        factor * log.validation_accuracy,
    )
    lines = [header, *(mark.join(repr(float(value)) for value in row) for row in zip(*columns, strict=True))]
    path = tmp_path / "log.csv"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    read = read_log(path)
    for name in ("step", "train_accuracy", "validation_accuracy", "validation_loss"):
        np.testing.assert_allclose(getattr(read, name), getattr(log, name), rtol=1e-12, err_msg=name)
    assert read.train_loss is not None
    np.testing.assert_allclose(read.train_loss, log.validation_loss / 2)


def test_rows_with_empty_cells_are_joined_by_step(tmp_path):
    """Lightning writes training and validation metrics of one step on rows of their own."""
    log, path = made_up(), tmp_path / "metrics.csv"
    lines = ["epoch,step,train_acc,val_acc,val_loss,lr-Adam"]
    for step, train, accuracy, loss in zip(
        log.step, log.train_accuracy, log.validation_accuracy, log.validation_loss, strict=True
    ):
        lines += [f"0,{step:g},{train:.12g},,,", f"0,{step:g},,{accuracy:.12g},{loss:.12g},", f"0,{step:g},,,,0.001"]
    path.write_text("\n".join(lines))
    read = read_log(path)
    np.testing.assert_array_equal(read.step, log.step)
    np.testing.assert_allclose(read.train_accuracy, log.train_accuracy)
    np.testing.assert_allclose(read.validation_loss, log.validation_loss)


def test_a_long_log_is_thinned_evenly_and_keeps_its_ends(tmp_path):
    path, rows = tmp_path / "long.csv", 50_000
    with open(path, "w") as file:
        file.write("step,train_acc,val_acc,val_loss\n")
        file.writelines(f"{step},1.0,0.1,0.5\n" for step in range(rows))
    read = read_log(path)
    assert 1000 <= len(read) <= 2001
    assert (read.step[0], read.last) == (0, rows - 1)
    assert len(set(np.diff(read.step)[:-1])) == 1
