"""When ``rlct`` has enough: at its target, at its time limit, at Ctrl-C; what it drew until then is not lost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.posterior import linear, linear_data, rlct
from phasecast.posterior.tempered import _Walkers

MOST = 6000
MODEL, DATA = linear(2), linear_data([[[1.0, -1.0]]], 400, seed=1)


def estimate(**options):
    return rlct(MODEL, DATA, draws=MOST, warmup=100, progress=False, **options)


def losses(found) -> np.ndarray:
    return found.draws["sample_stats"]["nL"].values


@pytest.fixture(scope="module")
def whole():
    """All the draws, with no reason to stop before."""
    return estimate()


def test_a_target_ends_sampling_when_the_chains_reach_it_and_a_smaller_one_later(whole):
    rough, fine = estimate(target=0.08), estimate(target=0.03)
    counts = [losses(one).shape[-1] for one in (rough, fine, whole)]
    assert counts[0] < counts[1] < counts[2] == MOST
    assert rough.variance_error <= 0.08 * rough.variance
    assert fine.variance_error <= 0.03 * fine.variance
    assert abs(fine.value - 1) < 3 * fine.error


def test_what_is_drawn_does_not_depend_on_when_it_ends(whole):
    rough = losses(estimate(target=0.08))
    np.testing.assert_array_equal(rough, losses(whole)[..., : rough.shape[-1]])


def test_a_time_limit_ends_sampling_with_what_there_is(whole):
    late = estimate(seconds=1e-6)
    assert 0 < losses(late).shape[-1] < MOST / 2
    assert math.isfinite(float(late))
    assert math.isfinite(late.error)
    assert late.error > whole.error
    assert losses(estimate(seconds=1e6)).shape[-1] == MOST


@pytest.mark.parametrize("options", [{"target": 1e-4}, {"seconds": 1e6}, {}])
def test_ctrl_c_returns_what_there_is_where_the_length_was_left_open(options, monkeypatch):
    move, moves = _Walkers._move, []

    def interrupted(self, *arguments):
        moves.append(1)
        if len(moves) > blocks // 2:
            raise KeyboardInterrupt
        return move(self, *arguments)

    monkeypatch.setattr(_Walkers, "_move", lambda *given: (moves.append(1), move(*given))[1])
    estimate()
    blocks = len(moves)
    moves.clear()
    monkeypatch.setattr(_Walkers, "_move", interrupted)
    if not options:  # nobody asked for less than all draws
        with pytest.raises(KeyboardInterrupt):
            estimate()
        return
    found = estimate(**options)
    assert 0.2 * MOST < losses(found).shape[-1] < 0.6 * MOST
    assert abs(found.value - 1) < 3 * found.error


@pytest.mark.parametrize(("options", "word"), [({"target": 0}, "target is 0"), ({"seconds": -1}, "seconds is -1")])
def test_bad_limits_are_bad_input(options, word):
    with pytest.raises(BadInput, match=word):
        estimate(**options)
