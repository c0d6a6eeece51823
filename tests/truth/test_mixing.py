"""Effective draws, errors of means and R-hat, against arviz-stats and against chains that are solved."""

from __future__ import annotations

import numpy as np
import pytest

from phasecast.sampling import mixing


def autoregressive(rng: np.random.Generator, memory: float, shape: tuple[int, int]) -> np.ndarray:
    """Chains in equilibrium whose correlation falls by ``memory`` a draw; their time is (1 + memory)/(1 − memory)."""
    series = rng.normal(size=shape)
    for step in range(1, shape[0]):
        series[step] = memory * series[step - 1] + np.sqrt(1 - memory**2) * series[step]
    return series


def cases():
    rng = np.random.default_rng(7)
    for draws, chains in [(8, 1), (9, 2), (11, 4), (64, 1), (101, 3), (1000, 4), (1001, 1)]:
        for memory in (-0.7, 0.0, 0.5, 0.95):
            yield f"{draws}x{chains}, memory {memory}", autoregressive(rng, memory, (draws, chains))
    yield "chains apart", rng.normal(size=(200, 4)) + np.arange(4)
    yield "of another width", rng.normal(size=(200, 4)) * [1, 1, 1, 5]
    yield "a drift", rng.normal(size=(300, 2)) + np.linspace(0, 4, 300)[:, None]
    yield "few values", rng.integers(0, 3, size=(150, 2)).astype(float)
    yield "alternating", np.tile([[1.0], [-1.0]], (40, 2)) + 1e-3 * rng.normal(size=(80, 2))
    yield "large numbers", 1e9 + rng.normal(size=(120, 3))


CASES = dict(cases())


@pytest.mark.parametrize("name", CASES)
def test_they_are_those_of_arviz(name):
    series = CASES[name]
    near = 1e-6 if "large" in name else 1e-9
    assert mixing.effective_draws(series) == pytest.approx(theirs("ess", series, method="mean"), rel=near)
    assert mixing.mean_error(series) == pytest.approx(theirs("mcse", series, method="mean"), rel=near)
    if series.shape[1] > 1:  # of a single chain they give none
        assert mixing.rank_rhat(series) == pytest.approx(theirs("rhat", series), rel=near)


def theirs(name: str, series: np.ndarray, **options: str) -> float:
    from arviz_stats import base

    return float(getattr(base.array_stats, name)(series.T, **options))  # pyright: ignore[reportPrivateImportUsage]


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9])
def test_effective_draws_are_the_draws_over_the_time_of_a_solved_chain(memory):
    series = autoregressive(np.random.default_rng(3), memory, (20_000, 4))
    exact = series.size * (1 - memory) / (1 + memory)
    assert mixing.effective_draws(series) == pytest.approx(exact, rel=0.1)
    errors = [mixing.mean_error(autoregressive(np.random.default_rng(k), memory, (400, 2))) for k in range(40)]
    means = [autoregressive(np.random.default_rng(k), memory, (400, 2)).mean() for k in range(40)]
    assert np.mean(np.abs(means) < 2 * np.array(errors)) > 0.85


def test_chains_that_do_not_agree_are_told_from_those_that_do():
    rng = np.random.default_rng(5)
    together = rng.normal(size=(500, 4))
    assert mixing.rank_rhat(together) < 1.01
    assert mixing.rank_rhat(together + np.array([0, 0, 0, 1.5])) > 1.1
    assert mixing.rank_rhat(together * np.array([1, 1, 1, 4])) > 1.1
    assert mixing.effective_draws(np.ones((20, 2))) == 40


def test_what_stands_still_or_is_no_number_has_no_rhat():
    apart, signs = np.tile([0.0, 1.0], (20, 1)), np.tile([[1.0], [-1.0]], (20, 2))
    assert mixing.rank_rhat(apart) == np.inf
    assert mixing.rank_rhat(signs) == pytest.approx(1, abs=0.05)  # their distance from the middle is always the same
    for number in (np.nan, np.inf):
        broken = np.random.default_rng(0).normal(size=(20, 2))
        broken[3, 1] = number
        assert np.isnan(mixing.rank_rhat(broken))
        assert np.isnan(mixing.effective_draws(broken))
