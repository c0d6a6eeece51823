"""Change-points of curves with known ones, and rank correlations of curves with known lags."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kstest, spearmanr

from phasecast.core.errors import BadInput
from phasecast.core.results import Result, Status
from phasecast.core.statistics import rank_interval
from phasecast.grokking.analysis.mirroring import joint_mirror, mirror_correlation
from phasecast.grokking.analysis.ordering import in_order
from phasecast.grokking.analysis.timeline import narrate, timeline
from phasecast.grokking.analysis.transition import Transition, TransitionPolicy, fall_after_peak, transition
from phasecast.studies.arena.transitions import KINDS, with_transition, without_transition


def sigmoid(x: np.ndarray, place: float, width: float) -> np.ndarray:
    return 0.5 * (1 + np.tanh((x - place) / (2 * width)))


def sticky_noise(seed: int, size: int, sticky: float = 0.0) -> np.ndarray:
    noise = np.random.default_rng(seed).standard_normal(size)
    for i in range(1, size):
        noise[i] = sticky * noise[i - 1] + math.sqrt(1 - sticky**2) * noise[i]
    return noise


TIMES = np.geomspace(1, 1e4, 30)
LOG = np.log(TIMES)


@pytest.mark.parametrize(
    ("width", "noise", "sticky", "least"), [(0.3, 0.1, 0.0, 0.5), (0.02, 0.1, 0.0, 0.95), (0.3, 0.05, 0.5, 0.85)]
)
def test_the_interval_holds_the_change_as_often_as_it_says(width, noise, sticky, least):
    """The shares accepted at least were read off these seeds, not derived: where four of 30 points show a change of
    width 0.3 in noise of an eighth of it, relaxation at a constant rate describes half of the curves as well."""
    held, accepted, distances, seeds = 0, 0, [], 60
    for seed in range(seeds):
        place = 5 + np.random.default_rng(seed).uniform(-0.5, 0.5)
        found = transition(TIMES, 0.1 + 0.8 * sigmoid(LOG, place, width) + noise * sticky_noise(seed, 30, sticky))
        accepted += found.status is Status.OK
        held += found.low <= math.exp(place) <= found.high
        distances.append((math.log(found.estimate) - place) / (float(found.error) / found.estimate))
    spread = math.sqrt(0.95 * 0.05 / seeds)
    assert accepted / seeds >= least
    assert held / seeds > 0.95 - 3 * spread
    assert 0.45 < np.mean(np.abs(distances) < 1) < 0.95  # one standard error holds about two thirds


@pytest.mark.parametrize(("sticky", "most"), [(0.0, 0.01), (0.5, 0.06)])
def test_flat_noise_has_no_transition(sticky, most):
    seeds = 60
    found = sum(transition(TIMES, sticky_noise(seed, 30, sticky)).status is Status.OK for seed in range(seeds))
    assert found / seeds <= most + 3 * math.sqrt(most / seeds)


def test_a_steady_drift_is_no_transition():
    for seed in range(20):
        found = transition(TIMES, LOG / 9 + 0.1 * sticky_noise(seed, 30))
        assert found.status is Status.REFUSED
        assert "drifts" in found.reasons[0]


@pytest.mark.parametrize("seed", range(10))
def test_a_power_law_is_no_transition(seed):
    steps = np.arange(20.0, 6001, 20)
    cubic = 0.08 * (steps / 3000) ** 3
    found = transition(steps, cubic + 0.005 * sticky_noise(seed, len(steps)))
    assert found.status is Status.REFUSED
    assert math.isnan(found.not_before) or found.not_before < 4500


@pytest.mark.parametrize("place", [5, 8.9])
def test_a_step_that_the_window_cuts_off_has_a_lower_bound(place):
    """The negative control is the same step in the middle of the window."""
    found = transition(TIMES, sigmoid(LOG, place, 0.15) + 0.02 * sticky_noise(0, 30))
    cut = place > 8
    assert (found.status is Status.REFUSED) == cut
    assert math.isfinite(found.not_before) == cut
    if cut:
        assert "not before step" in found.reasons[0]
        assert found.not_before < math.exp(place)


def test_the_error_follows_from_the_interval_and_both_are_printed():
    found = transition(TIMES, sigmoid(LOG, 5, 0.3) + 0.05 * sticky_noise(0, 30))
    assert float(found.error) * 2 * 1.96 == pytest.approx(found.high - found.low, rel=1e-4)
    assert "95% interval" in str(found)


def test_a_long_curve_is_averaged_and_its_step_is_still_held():
    steps = np.arange(1.0, 5001)
    found = transition(steps, 1.0 * (steps > 2000.5) + 0.2 * sticky_noise(0, len(steps)))
    assert found.diagnostics["points"] == 5000
    assert found.low <= 2000.5 <= found.high
    assert found.high - found.low < 60


def test_random_curves_are_judged_as_they_were_made():
    """A small version of benchmarks/transition_detection.py, on seeds of its own."""
    without = [without_transition(np.random.default_rng([77, 0, n]), kind) for kind in KINDS for n in range(4)]
    real = [with_transition(np.random.default_rng([77, 1, n])) for n in range(40)]
    false = [curve.kind for curve in without if transition(curve.steps, curve.values).status is Status.OK]
    found = [(curve.truth, transition(curve.steps, curve.values)) for curve in real]
    located = [(truth, one) for truth, one in found if one.status is Status.OK]
    assert len(false) <= 2  # of 48; 2% of them is one
    assert len(located) >= 36
    held = sum(one.low <= truth <= one.high for truth, one in located)
    late = sum(one.low <= 1.5 * truth <= one.high for truth, one in located)  # the wrong target
    assert held >= 0.85 * len(located)
    assert late < 0.2 * len(located)


def test_a_constant_curve_is_refused_and_not_an_error():
    assert "does not change" in transition(TIMES, np.ones(30)).reasons[0]


def test_a_change_at_the_last_point_is_refused():
    assert transition(TIMES, np.arange(30) == 29).status is Status.REFUSED


def test_levels_and_direction_are_those_of_the_curve():
    curve = 3 - 2 * sigmoid(LOG, 5, 0.3) + 0.02 * sticky_noise(1, 30)
    found = transition(TIMES, curve, np.full(30, 0.02), direction="down")
    assert found.before == pytest.approx(3, abs=0.05)
    assert found.after == pytest.approx(1, abs=0.05)
    assert transition(TIMES, curve, direction="up").status is Status.REFUSED


def test_a_large_error_takes_away_the_weight_of_a_point():
    curve = sigmoid(LOG, 6, 0.3) + 0.02 * sticky_noise(2, 30)
    errors = np.full(30, 0.02)
    curve[3], errors[3] = 40.0, 1e4
    found = transition(TIMES, curve, errors)
    assert found.low < math.exp(6) < found.high


def test_the_fall_of_a_hump_is_found_after_its_peak():
    hits = 0
    for seed in range(20):
        hump = 500 + 70 * sigmoid(LOG, 3, 0.2) - 40 * sigmoid(LOG, 7, 0.1) + 3 * sticky_noise(seed, 30)
        found = fall_after_peak(TIMES, hump)
        hits += found.status is Status.OK and found.low <= math.exp(7) <= found.high
    assert hits >= 17
    flat = [fall_after_peak(TIMES, sticky_noise(seed, 30)).status for seed in range(60)]
    assert sum(status is Status.OK for status in flat) <= 3


def test_transitions_are_put_in_order_and_overlaps_are_named():
    def curve(place: float, seed: int) -> Transition:
        return transition(TIMES, sigmoid(LOG, place, 0.2) + 0.1 * sticky_noise(seed, 30))

    found = in_order(
        {"late": curve(7, 1), "early": curve(3, 2), "also late": curve(7.02, 3), "none": transition(TIMES, np.ones(30))}
    )
    assert found.names[0] == "early"
    assert found.pairs == ("before", "overlap")
    assert found.refused == ("none",)
    assert found.words().startswith("early < ")


def test_a_wide_interval_takes_the_order_away_from_its_neighbours():
    def at(low: float, time: float, high: float) -> Transition:
        return Transition(time, 1.0, error_kind="bootstrap", low=low, high=high)

    found = in_order({"a": at(1, 2, 30), "b": at(9, 10, 11), "c": at(19, 20, 21), "d": at(99, 100, 101)})
    assert found.pairs == ("overlap", "overlap", "before")  # b ends before c begins, but a may be later than c
    assert found.words() == "a ≈ b ≈ c < d"


def test_a_transition_survives_its_trip_through_json():
    found = transition(TIMES, sigmoid(LOG, 5, 0.3) + 0.05 * sticky_noise(0, 30))
    assert Result.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("times", "values", "words"),
    [
        (TIMES[:5], TIMES[:5], "at least 8"),
        (TIMES - 1, TIMES, "step 0"),
        (TIMES, np.full(30, np.nan), "leave those"),
        (TIMES, TIMES[:-1], "equal"),
    ],
)
def test_bad_curves_are_named(times, values, words):
    with pytest.raises(BadInput, match=words):
        transition(times, values)
    with pytest.raises(BadInput):
        mirror_correlation(times, values, TIMES, TIMES)


def hump(x: np.ndarray) -> np.ndarray:
    return sigmoid(x, 3, 0.3) - sigmoid(x, 6, 0.2)


def test_curves_that_are_one_correlate_fully_and_opposite_ones_negatively():
    assert float(mirror_correlation(TIMES, hump(LOG), TIMES, hump(LOG)).value) == pytest.approx(1)
    assert float(mirror_correlation(TIMES, -hump(LOG), TIMES, np.exp(hump(LOG))).value) == pytest.approx(-1)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_interval_of_a_rank_correlation_stays_within_one_where_its_error_does_not(sign):
    rng = np.random.default_rng(0)
    first, second = (hump(LOG) + 0.05 * rng.normal(size=LOG.size) for _ in range(2))
    rho = mirror_correlation(TIMES, first, TIMES, sign * second)
    low, high = rho.diagnostics["low"], rho.diagnostics["high"]
    assert -1 <= low <= float(rho) <= high <= 1
    assert high - low < 0.8
    assert abs(float(rho)) + 2 * float(rho.error) > 1  # what ± two errors would claim
    perfect = mirror_correlation(TIMES, hump(LOG), TIMES, sign * hump(LOG)).diagnostics
    assert -1 <= perfect["low"] <= perfect["high"] <= 1


@pytest.mark.parametrize("count", [6, 12, 40])
@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.9])
def test_intervals_by_fishers_transform_hold_the_correlation(count, correlation):
    """Of normal pairs, whose ρ of ranks is (6/π) arcsin(r/2); six pairs at r = 0.9 are often perfect."""
    rng, truth = np.random.default_rng(count), 6 / np.pi * np.arcsin(correlation / 2)
    inside = []
    for _ in range(400):
        x, noise = rng.normal(size=(2, count))
        y = correlation * x + math.sqrt(1 - correlation**2) * noise
        low, high = rank_interval(float(np.asarray(spearmanr(x, y))[0]), count)
        assert -1 <= low < high <= 1
        inside.append(low <= truth <= high)
    assert 0.9 < np.mean(inside) <= 1


def test_the_lag_of_a_delayed_curve_is_found():
    step = LOG[1] - LOG[0]
    found = mirror_correlation(TIMES, hump(LOG - 4 * step), TIMES, hump(LOG))
    assert found.diagnostics["lag"] == pytest.approx(math.exp(4 * step))
    assert found.diagnostics["at_lag"] > float(found.value) + 0.05


def test_unrelated_noise_does_not_correlate():
    found = [mirror_correlation(TIMES, sticky_noise(s, 30), TIMES, sticky_noise(s + 500, 30)) for s in range(30)]
    distances = [float(one.value) / float(one.error) for one in found]
    assert abs(np.mean(distances)) < 4 * np.std(distances) / math.sqrt(30)
    assert 0.6 < np.std(distances) < 1.6
    assert np.mean([one.diagnostics["chance"] < 0.1 for one in found]) < 0.3


def humps(seed: int, delays: np.ndarray, noise: float = 0.1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.array([hump(LOG - delay) for delay in delays]) + noise * rng.normal(size=(len(delays), LOG.size))


DELAYS = np.linspace(-1.5, 1.5, 10)


def test_pairs_that_turn_together_at_times_of_their_own_beat_both_nulls():
    found = joint_mirror(humps(0, DELAYS), humps(1, DELAYS), draws=1000)
    assert found.low > 0.7
    assert found.low <= found.rho <= found.high <= 1
    assert found.each == pytest.approx(
        [float(np.asarray(spearmanr(*pair))[0]) for pair in zip(humps(0, DELAYS), humps(1, DELAYS), strict=True)]
    )
    assert max(found.shifted, found.exchanged) < 0.005


def test_pairs_of_other_trainings_do_not_beat_an_exchange():
    found = joint_mirror(humps(0, DELAYS), humps(1, np.roll(DELAYS, 3)), draws=1000)
    assert found.exchanged > 0.1


def test_a_trend_that_all_share_passes_the_shifts_but_not_the_exchange():
    """Why there are two nulls: shifted around its end a trend has a step, so that any two trends seem related."""
    rng = np.random.default_rng(0)
    one, two = (LOG + 0.5 * rng.normal(size=(10, LOG.size)) for _ in range(2))
    found = joint_mirror(one, two, draws=1000)
    assert found.rho > 0.7
    assert found.shifted < 0.005
    assert found.exchanged > 0.05


def test_chances_of_unrelated_noise_are_uniform():
    chances = [
        joint_mirror(
            *([sticky_noise(1000 * s + 100 * part + k, 30, 0.7) for k in range(6)] for part in (0, 1)),
            draws=200,
            seed=s,
        )
        for s in range(100)
    ]
    assert kstest([one.exchanged for one in chances], "uniform").pvalue > 0.01
    assert np.mean([one.shifted < 0.1 for one in chances]) < 0.2  # 10% within three binomial errors


@pytest.mark.parametrize("bad", [np.ones((4, 30)), np.zeros((4, 5)), np.full((4, 30), np.nan), LOG])
def test_curves_that_have_no_ranks_are_named(bad):
    with pytest.raises(BadInput):
        joint_mirror(bad, bad)


def test_noise_of_the_first_curve_enters_the_error():
    curve = hump(LOG)
    clean = mirror_correlation(TIMES, curve, TIMES, curve)
    noisy = mirror_correlation(TIMES, curve, TIMES, curve, errors=np.full(30, 0.5))
    assert float(noisy.error) > 2 * float(clean.error)


def test_a_constant_curve_cannot_be_mirrored():
    assert mirror_correlation(TIMES, np.ones(30), TIMES, hump(LOG)).status is Status.REFUSED


def test_errors_say_what_they_are_over_and_results_record_what_judged_them():
    change = transition(TIMES, sigmoid(LOG, 5, 0.3) + 0.05 * sticky_noise(0, 30))
    rho = mirror_correlation(TIMES, hump(LOG), TIMES, hump(LOG))
    assert change.error_kind == rho.error_kind == "bootstrap"
    assert change.policy["name"] == "TransitionPolicy"
    assert rho.policy["fewest_points"] == 8


def test_a_stricter_policy_refuses_what_the_usual_one_finds():
    curve = sigmoid(LOG, 5, 0.3) + 0.1 * sticky_noise(0, 30)
    assert transition(TIMES, curve).status is Status.OK
    strict = transition(TIMES, curve, policy=TransitionPolicy(widest_interval=1e-3))
    assert "may be anywhere" in strict.reasons[0]
    assert strict.policy["widest_interval"] == 1e-3
    with pytest.raises(BadInput, match="at least 40"):
        transition(TIMES, curve, policy=TransitionPolicy(fewest_points=40))


def training_that_groks(seed: int = 0) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Curves of a training that memorises at e³ and generalises at e⁷, where λ̂ and the number of units fall."""
    rise = {place: sigmoid(LOG, place, 0.2) for place in (3, 7)}
    noise = [0.01 * sticky_noise(seed + number, 30) for number in range(4)]
    curves = {
        "step": TIMES,
        "train_accuracy": np.clip(rise[3] + noise[0], 0, 1),
        "validation_accuracy": np.clip(rise[7] + noise[1], 0, 1),
        "validation_loss": rise[3] - rise[7],
    }
    llc = {"step": TIMES, "value": 100 * (1 + rise[3] - 0.8 * rise[7] + noise[2]), "error": np.ones(30)}
    return curves, {"step": TIMES, "k_eff": 128 - 84 * rise[7] + 100 * noise[3]}, {**llc, "usable": np.ones(30)}


def test_the_changes_of_a_training_are_found_in_their_order():
    changes = timeline(*training_that_groks())
    assert changes.order.names[0] == "training accuracy"
    assert changes.order.pairs[0] == "before"
    for name, place in (("train_accuracy", 3), ("validation_accuracy", 7), ("k_eff", 7), ("llc", 7)):
        change = changes.when(name)
        assert change is not None
        assert change.low < math.exp(place) < change.high
    assert changes.mirrored is not None
    assert float(changes.mirrored) > 0.8


def test_a_curve_without_a_change_is_left_out_and_named():
    curves, checkpoints, llc = training_that_groks()
    changes = timeline(curves, {**checkpoints, "flat": sticky_noise(9, 30)}, llc)
    assert changes.when("flat") is None
    assert "flat" in changes.order.refused
    assert timeline(curves).mirrored is None


def test_a_training_that_never_groks_has_no_transition_of_its_validation_accuracy():
    curves, _, _ = training_that_groks()
    slow = 0.03 + 0.05 * (TIMES / TIMES[-1]) ** 0.5 + 0.005 * sticky_noise(3, 30)
    small = 0.02 + 0.06 * sigmoid(LOG, 7, 0.2) + 0.002 * sticky_noise(4, 30)
    assert timeline({**curves, "validation_accuracy": slow}).when("validation_accuracy") is None
    change = timeline({**curves, "validation_accuracy": small}).transitions["validation_accuracy"]
    assert change.status is Status.REFUSED
    assert "only" in change.reasons[0]


def test_the_paragraph_about_a_training_has_its_numbers():
    numbers = {"train99": 60, "val95": 1500, "gsm": 0.2, "train_accuracy": 1.0, "val_accuracy": 1.0, "steps": 6000}
    numbers |= {"diverged": None, "k_eff": 44, "width": 128, "llc_peak": 580.0, "llc_last": 530.0}
    words = narrate(numbers, timeline(*training_that_groks()))
    for part in ("memorised its training rows by step 60", "by step 1500, 25 times later", "44 of 128 hidden units"):
        assert part in words
    assert "the rule needs fewer than memorising the answers did" in words
    assert "needs fewer" not in narrate({**numbers, "llc_last": 600.0}, timeline(*training_that_groks()))
    assert "diverged" in narrate({**numbers, "diverged": 20})
    assert "had not learned the rule by step 6000" in narrate({**numbers, "val95": None, "val_accuracy": 0.1})
