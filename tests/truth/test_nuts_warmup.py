"""How the walkers at several inverse temperatures find variances and step sizes."""

from __future__ import annotations

import numpy as np
import pytest

from phasecast.sampling.tempering import FIRST_STEP, NutsTuning, next_step_size, next_variances


def test_chains_that_hardly_moved_keep_their_variances_and_go_on_with_shorter_steps():
    """Their spread is that of standing still; with it the next trajectories would be a hundred times too long."""
    rng = np.random.default_rng(0)
    rows, chains = 10, 4
    still = np.full((1, rows, 1, chains, 3), 0.5) + 1e-6 * rng.normal(size=(1, rows, 1, chains, 3))
    moving = 0.3 * rng.normal(size=(1, rows, 1, chains, 3))
    places = [np.concatenate([still, moving], axis=2)]
    acceptance = np.broadcast_to(np.array([0.02, 0.9])[:, None], (1, rows, 2, chains))
    tuning = next_step_size(NutsTuning(np.full((1, 2), FIRST_STEP), np.ones((1, 2, 3))), acceptance, 0)
    renewed = next_variances(tuning, places, acceptance)
    np.testing.assert_array_equal(renewed.variances[0, 0], 1.0)
    assert renewed.sizes[0, 0] == tuning.sizes[0, 0] < FIRST_STEP / 10
    np.testing.assert_allclose(renewed.variances[0, 1], 0.09, rtol=0.8)  # 36 degrees of freedom: 3 errors are 0.71
    assert renewed.sizes[0, 1] == FIRST_STEP


@pytest.mark.parametrize("share", [np.nan, 0.0])
def test_a_step_of_which_nothing_is_accepted_gets_shorter(share):
    tuning = NutsTuning(np.ones((1, 1)), np.ones((1, 1, 2)))
    shorter = next_step_size(tuning, np.full((1, 5, 1, 4), share), 0)
    assert shorter.sizes[0, 0] == pytest.approx(np.exp(-3.0 * 0.9))
