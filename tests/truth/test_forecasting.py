"""Forecasts from a bank: the clock against quadrature, censored fits against known constants, nothing of the future."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from phasecast.core.errors import BadInput
from phasecast.forecasting.bank import CURVE_NAMES, Bank, BankRun, shipped_bank
from phasecast.forecasting.clock import adam_clock, adam_clock_inverse, log_adam_clock
from phasecast.forecasting.law import ClockLaw, law_terms
from phasecast.forecasting.model import forecast_before_start, forecast_with_bank
from phasecast.forecasting.regression import fit_correction
from phasecast.forecasting.settings import Settings
from phasecast.forecasting.signals import read_signals
from phasecast.forecasting.survival import censored_quantile, fit_logistic

EXAMPLE = Settings("addition", p=23, n=224, lr=1e-3, weight_decay=1e-4, width=115)


def until(run: BankRun, step: float) -> BankRun:
    rows = run.step <= step
    return BankRun(run.settings, *(getattr(run, name)[rows] for name in CURVE_NAMES))


def part_of_the_way(share: float, every: int = 1, least: int = 1000) -> list[tuple[BankRun, float]]:
    """Runs of the shipped bank that wait long, each with the step at a share of its wait."""
    late = [run for run in shipped_bank() if run.val50 and run.train99 is not None and run.val50 - run.train99 >= least]
    return [(run, run.train99 + share * (run.val50 - run.train99)) for run in late[::every]]  # type: ignore[operator]


@pytest.mark.parametrize("beta2", [0.95, 0.99, 0.999, 0.9999])
@pytest.mark.parametrize("step", [1e-2, 1.0, 37.0, 500.0, 8000.0])
def test_the_clock_is_the_integral_of_one_over_the_root_of_v(beta2, step):
    def speed(s):  # 1/√v̂ with v̂ = (1−β₂) β₂ˢ/(1−β₂ˢ)
        return math.sqrt((1 - beta2**s) / (beta2**s * (1 - beta2)))

    expected, error = quad(speed, 0, step, epsabs=0, epsrel=1e-10, limit=500)
    assert adam_clock(step, beta2) == pytest.approx(expected, rel=max(1e-9, 3 * error / expected))
    assert adam_clock_inverse(adam_clock(step, beta2), beta2) == pytest.approx(step, rel=1e-9)


def test_the_clock_is_what_adam_does_after_a_burst_of_gradients():
    """One gradient at step 1, none after: √v̂ of Adam's own recursion, and the sum of its inverse."""
    beta2, second, total = 0.99, 0.0, 0.0
    for t in range(1, 601):
        second = beta2 * second + (1 - beta2) * (1.0 if t == 1 else 0.0)
        total += 1 / math.sqrt(second / (1 - beta2**t))
    ours = float(adam_clock(600, beta2)) * beta2**0.5  # the burst is one step old already
    assert total == pytest.approx(ours, rel=1 / (2 * 100) + 1e-3)  # sum against integral: half a step of τ/2… is 1%


def test_the_clock_has_the_stated_limits_and_never_overflows():
    assert adam_clock(1.0, 1 - 1e-9) == pytest.approx(2 / 3, rel=1e-6)
    slope = np.diff(log_adam_clock(np.array([50_000.0, 60_000.0]), 0.99))[0]
    assert slope == pytest.approx(-10_000 * math.log(0.99) / 2, rel=1e-9)
    assert np.isfinite(log_adam_clock(1e7, 0.9))
    assert np.all(np.diff(log_adam_clock(np.geomspace(1e-3, 1e5, 4000), 0.999)) > 0)


def test_a_clock_needs_a_beta_between_0_and_1():
    with pytest.raises(BadInput, match="beta2"):
        adam_clock(10, 1.0)


def _censored(seed: int, count: int = 4000):
    draw = np.random.default_rng(seed)
    terms = np.column_stack([np.ones(count), draw.normal(2.0, 1.0, count), draw.uniform(-1, 1, count)])
    y = terms @ np.array([1.0, -0.7, 0.4]) + 0.3 * draw.logistic(size=count)
    limit = draw.uniform(-1.0, 0.8, count)
    return terms, np.minimum(y, limit), y <= limit


def test_a_censored_fit_recovers_the_constants_that_made_the_data():
    terms, y, observed = _censored(0)
    assert 0.3 < np.mean(~observed) < 0.7
    fit = fit_logistic(terms, y, observed)
    assert fit.constants == pytest.approx([1.0, -0.7, 0.4], abs=0.05)  # the standard errors are below 0.02
    assert fit.scale == pytest.approx(0.3, abs=0.02)


def test_a_fit_that_ignores_the_censoring_does_not():
    terms, y, observed = _censored(0)
    fit = fit_logistic(terms, y, np.ones_like(observed))
    assert abs(fit.constants[0] - 1.0) > 0.2


def test_the_median_after_a_time_halves_the_survival():
    fit = fit_logistic(*_censored(1))
    terms = np.array([[1.0, 2.0, 0.1]])
    now = np.array([0.2])
    later = fit.median_after(terms, now)
    assert 1 - fit.below(terms, later) == pytest.approx((1 - fit.below(terms, now)) / 2)


def test_censored_quantiles_are_those_of_the_uncensored_distribution():
    draw = np.random.default_rng(2)
    values, limit = draw.normal(size=20_000), draw.normal(1.0, 1.0, 20_000)
    for share, expected in ((0.1, -1.2816), (0.5, 0.0), (0.8, 0.8416)):
        estimate = censored_quantile(np.minimum(values, limit), values <= limit, share)
        assert estimate == pytest.approx(expected, abs=0.05)  # five standard errors
    assert censored_quantile(np.zeros(5), np.zeros(5, bool), 0.5) == math.inf


def test_the_correction_learns_a_curve_and_takes_censored_targets_as_lower_bounds():
    draw = np.random.default_rng(3)
    x = draw.uniform(-2, 2, (400, 1))
    y = np.sin(2 * x[:, 0]) + 0.1 * draw.normal(size=400)
    limit = 0.5
    seen = y <= limit
    places = np.linspace(-1.8, 1.8, 50)[:, None]
    curve = np.sin(2 * places[:, 0])
    fit = fit_correction(x, np.minimum(y, limit), seen, np.ones(400))(places)
    low = curve < 0.3
    assert np.abs(fit - curve)[low].mean() < 0.1
    ignorant = fit_correction(x, np.minimum(y, limit), np.ones(400, bool), np.ones(400))(places)
    assert np.abs(fit - curve)[~low].mean() < 0.7 * np.abs(ignorant - curve)[~low].mean()


def _true_level(settings: Settings) -> float:
    """ln A of the synthetic bank."""
    x = 1 / settings.ratio - 1 / 3
    return -3.2 + 9 * x + 0.4 * math.log(settings.p / 20)


def _synthetic_bank(seed: int, moduli=(13, 17, 19, 23, 29), runs: int = 30) -> Bank:
    """Runs whose val50 obeys the clock law with known scatter; their loss is a straight line to its start."""
    draw = np.random.default_rng(seed)
    made = []
    for p in moduli:
        for _ in range(runs):
            n = round(draw.uniform(2.5, 3.8) * p * math.log(p))
            lr, decay = math.exp(draw.uniform(-6.9, -5.3)), math.exp(draw.uniform(-9.9, -8.5))
            settings = Settings("addition", p, n, lr, decay, 5 * p)
            level = _true_level(settings) + 0.25 * draw.logistic()
            val50 = float(adam_clock_inverse(math.exp(level) / (lr * decay)))
            made.append(_synthetic_run(settings, val50, draw))
    return Bank(tuple(made))


def _synthetic_run(settings: Settings, val50: float, draw: np.random.Generator) -> BankRun:
    step = np.arange(0, 8001, 20)
    start, peak = 0.5 - 0.5 / settings.p, 0.05 * val50
    rise = np.minimum(step / peak, 1.0)
    fall = np.clip((step - peak) / (val50 - peak), 0, 2)
    bend = 1 + 0.1 * draw.normal() * fall * (1 - fall)
    loss = start * (1 + 0.3 * rise - 0.3 * np.minimum(fall * bend, 1.2))
    train = np.where(step >= 60, 1.0, step / 100)
    return BankRun(settings, step, train, np.where(step >= val50, 0.9, 0.05), loss)


def test_the_law_recovers_the_constants_that_made_a_bank():
    bank = _synthetic_bank(0, runs=150)
    law = ClockLaw.of(bank)
    settings = [run.settings for run in bank]
    level = law.fit.location(law_terms(settings))
    truth = np.array([_true_level(one) for one in settings])
    assert math.sqrt(np.mean((level - truth) ** 2)) < 3 * 0.25 * math.sqrt(3 * 5 / len(bank))  # five constants
    assert law.fit.scale == pytest.approx(0.25, abs=0.03)


def test_intervals_cover_moduli_they_were_not_fitted_to():
    """Groups are exchangeable here: 80% intervals hold 80% of new outcomes, within three standard errors."""
    bank, new = _synthetic_bank(1), _synthetic_bank(2, moduli=(15, 21, 27), runs=40)
    inside = []
    for run in new:
        if run.val50 is not None and run.val50 > 700:
            answer = forecast_with_bank(until(run, 300), run.settings, bank)
            inside.append(answer.low <= run.val50 <= (answer.high or math.inf))
    assert len(inside) > 60
    error = math.sqrt(0.8 * 0.2 / len(inside) + 0.8 * 0.2 / 150)  # of the new runs, and of the bank's residuals
    assert abs(np.mean(inside) - 0.8) < 3 * error


def test_erasing_the_future_changes_no_signal_and_no_forecast():
    for run, now in part_of_the_way(0.4, every=12):
        future = run.step > now
        noise = np.random.default_rng(0).uniform(0.1, 0.9, len(run.step))
        changed = replace(run, **{name: np.where(future, noise, getattr(run, name)) for name in CURVE_NAMES[1:]})
        first, again = read_signals(run, now), read_signals(changed, now)
        assert first is not None
        assert again is not None
        assert np.array_equal(first.values, again.values)
        cut = read_signals(until(run, now))
        assert cut is not None
        assert np.array_equal(first.values, cut.values)


def _error(bank: Bank, cases: list[tuple[BankRun, float]]) -> float:
    answers = [forecast_with_bank(until(run, now), run.settings, bank).median for run, now in cases]
    return float(np.median([abs(math.log(a / (run.val50 or 0))) for a, (run, _) in zip(answers, cases, strict=True)]))


def test_the_skill_comes_from_the_outcomes_of_the_bank():
    """A modulus held out is forecast to a tenth; with the outcomes of the bank shuffled among its runs it is not."""
    cases = [(run, now) for run, now in part_of_the_way(0.3) if run.settings.p == 23][:12]
    bank = shipped_bank().without(23)
    happened = [run for run in bank if run.val50 is not None]
    order = np.random.default_rng(1).permutation(len(happened))
    shuffled = [replace(run, outcome=happened[other].val50) for run, other in zip(happened, order, strict=True)]
    honest = _error(bank, cases)
    assert honest < 0.12
    assert _error(Bank(tuple(shuffled)), cases) > 2 * honest


def test_a_forecast_is_never_before_now_and_has_no_upper_end_the_bank_has_not_seen():
    bank = shipped_bank()
    for run, now in part_of_the_way(0.8, every=25):
        answer = forecast_with_bank(until(run, now), None, bank)
        assert now <= answer.low <= answer.median
        assert answer.high is None or answer.median <= answer.high <= bank.window
    never = next(run for run in bank if run.val50 is None)
    assert forecast_with_bank(until(never, 7000), never.settings, bank).high is None


def test_before_the_start_less_data_is_less_likely_and_later():
    bank = shipped_bank()
    answers = [forecast_before_start(replace(EXAMPLE, n=n), bank, 8000) for n in (170, 200, 230, 260)]
    assert np.all(np.diff(np.asarray([answer.chance for answer in answers], dtype=float)) > 0)
    assert np.all(np.diff([answer.median for answer in answers]) < 0)
    for settings in (Settings("addition", 13, 67, 1e-3, 1e-4, 65), Settings("addition", 17, 115, 1e-3, 1e-4, 85)):
        hopeless = forecast_before_start(settings, bank, 20_000)
        assert hopeless.chance is not None
        assert hopeless.chance < 0.5
        assert hopeless.high is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"n": 120}, "train on at least"),
        ({"lr": 0.1}, "learning rate"),
        ({"weight_decay": 1e-2}, "weight decay"),
        ({"width": 230}, "width/p"),
        ({"beta2": 0.99}, "β₂"),
        ({"batch": 64}, "minibatches"),
        ({"network": "mlp"}, "network"),
        ({"optimiser": "adamw"}, "optimiser"),
        ({"p": 47, "n": 600, "width": 235}, "modulus"),
    ],
)
def test_settings_outside_the_bank_are_named(changed, said):
    bank = shipped_bank()
    assert bank.range_problems(EXAMPLE) == []
    (problem,) = bank.range_problems(replace(EXAMPLE, **changed))
    assert said in problem


def test_a_log_of_another_loss_is_named():
    bank = shipped_bank()
    run = bank.runs[0]
    assert bank.log_problems(run) == []
    (problem,) = bank.log_problems(replace(run, validation_loss=run.validation_loss + math.log(13)))
    assert "another loss" in problem


@pytest.mark.parametrize(
    "changed", [{"lr": 0.0}, {"n": 529}, {"task": "adition"}, {"batch": 500}, {"beta2": 1.0}, {"p": 2.5}]
)
def test_impossible_settings_are_refused_in_one_line(changed):
    with pytest.raises(BadInput) as refusal:
        replace(EXAMPLE, **changed)
    assert "\n" not in str(refusal.value)


def test_a_bank_survives_its_file_and_a_file_with_code_is_refused(tmp_path):
    bank = Bank(shipped_bank().runs[:5])
    bank.save(tmp_path / "bank.npz")
    again = Bank.load(tmp_path / "bank.npz")
    assert [run.settings for run in again] == [run.settings for run in bank]
    assert [run.val50 for run in again] == [run.val50 for run in bank]
    assert np.array_equal(again.runs[2].validation_loss, bank.runs[2].validation_loss)
    np.savez(tmp_path / "code.npz", format=np.array([print], dtype=object))
    with pytest.raises(BadInput, match="not a bank"):
        Bank.load(tmp_path / "code.npz")


def test_a_thinned_bank_keeps_its_outcomes():
    bank = shipped_bank()
    thin = bank.thinned(100)
    assert thin.spacing == 100
    assert [run.val50 for run in thin] == [run.val50 for run in bank]
    run, now = part_of_the_way(0.5)[0]
    sparse = until(run, now).thinned(100)
    answer = forecast_with_bank(sparse, run.settings, bank.without(run.settings.p))
    assert abs(math.log(answer.median / (run.val50 or 0))) < 0.3
