"""Numbers that an independent program found for the same experiments, and laws of decay with a known answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.core.results import Status, Verdict
from phasecast.grokking.analysis.decay_fits import DecayPolicy, decay_law, straight_line
from phasecast.lab import run

RATES = np.geomspace(1e-3, 2e-2, 8)


@pytest.mark.slow
def test_a_power_law_and_an_exponential_are_told_apart():
    """Never taken for each other, and seldom left undecided."""
    rng = np.random.default_rng(0)
    said = {"power law": [], "exponential": []}
    for _ in range(20):
        noise = np.exp(0.03 * rng.standard_normal(8))
        power = decay_law(RATES, 0.01 * RATES**-0.5 * noise)
        said["power law"].append(power.law)
        said["exponential"].append(decay_law(RATES, 0.5 * np.exp(-150 * RATES) * noise).law)
        assert power.constants is not None
        assert abs(power.constants["power law"][1] - 0.5) < 0.1
    for truth, laws in said.items():
        assert set(laws) <= {truth, "undecided"}
        assert laws.count(truth) >= 14, laws


def test_an_exponential_with_a_floor_is_no_power_law():
    noise = np.exp(0.01 * np.random.default_rng(1).standard_normal(8))
    assert decay_law(RATES, (0.05 + 0.5 * np.exp(-400 * RATES)) * noise).law == "exponential"


def test_points_that_do_not_decide_are_undecided():
    noise = np.exp(0.1 * np.random.default_rng(2).standard_normal(8))
    narrow = np.linspace(1.0e-3, 1.5e-3, 8)
    found = decay_law(narrow, narrow**-0.5 * noise)
    assert found.law == "undecided"
    assert found.status is Status.WARNING


def test_the_error_of_a_decay_law_is_a_jackknife_and_its_policy_is_recorded():
    law = decay_law(RATES, 0.01 * RATES**-0.5 * np.exp(0.03 * np.random.default_rng(5).standard_normal(8)))
    assert law.error_kind == "jackknife"
    assert law.policy["clear_difference"] == 4.0
    stricter = decay_law(RATES, 0.01 * RATES**-0.5, policy=DecayPolicy(fewest_points=9))
    assert stricter.status is Status.REFUSED
    assert "at least 9" in stricter.reasons[0]


def test_few_points_are_refused_and_logarithms_need_positive_numbers():
    assert decay_law([1, 2, 3], [3, 2, 1]).status is Status.REFUSED
    assert straight_line([1, 2], [1, 2]).status is Status.REFUSED
    with pytest.raises(BadInput, match="positive"):
        decay_law([1, 2, 3, 4, 5], [1, 0, 1, 1, 1])


def test_the_slope_of_a_line_is_within_its_error_as_often_as_it_says():
    rng = np.random.default_rng(3)
    x = np.arange(8.0)
    distances = []
    for _ in range(300):
        line = straight_line(x, 2 * x + 1 + rng.standard_normal(8))
        distances.append((float(line.value) - 2) / float(line.error))
    within = np.mean(np.abs(distances) < 2.447)  # the 95% quantile of t with 6 degrees of freedom
    assert abs(within - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 300)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "k_eff"), [(23, 44), (31, 60)])
def test_the_effective_width_settles_when_trained_on(tmp_path, p, k_eff):
    found = run("grokking-width", {"p": (p,), "widths": (128,), "seeds": 3}, store=tmp_path, quiet=True)
    numbers = found.conclusion().numbers
    assert numbers[f"networks at 2(p−1), p = {p}"] == numbers[f"networks, p = {p}"] == 3
    assert numbers[f"k_eff, p = {p}"] == k_eff


@pytest.mark.slow
def test_the_critical_size_of_the_training_set(tmp_path):
    found = run("grokking-data", store=tmp_path, quiet=True)
    from phasecast.studies.grokking.data import GrokkingData, accuracies

    spec = found.spec
    assert isinstance(spec, GrokkingData)
    for p, (ratios, values) in accuracies(spec, found.results()).items():
        mean = values.mean(axis=1)
        assert (mean[ratios < 2.05] < 0.05).all(), p
        assert (mean[ratios > 2.7] > 0.95).all(), p
        critical = found.conclusion().answers.comparison("critical-ratio", p=p)
        assert critical.verdict is Verdict.AGREES
        assert 2.0 < float(critical.measurement) < 2.75


@pytest.mark.slow
def test_sampled_coefficients_along_the_demonstration(tmp_path):
    settings = {"values": (1e-4,), "lr": 1e-3, "samplers": ("calibrated",), "checkpoints": 9}
    found = run("grokking-mirror", settings, store=tmp_path, quiet=True)
    last = found.results()["llc"].to_dataset().isel(sampled=-1)
    assert int(last["step"]) == 6000
    assert int(last["status"]) == 0
    assert abs(float(last["value"]) - 528.9) < 4 * math.hypot(0.7, float(last["error"]))
