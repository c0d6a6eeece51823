"""Longer checks of the error bars, over many seeds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from phasecast.coefficients import of_landscape, volume_scaling
from phasecast.core import Status
from phasecast.models import LANDSCAPES

SEEDS = range(100, 220)
SAMPLES = 25_000  # a quarter of the default: whether an error holds does not depend on its size


@pytest.mark.slow
@pytest.mark.parametrize("name", LANDSCAPES)
def test_error_bars_hold_over_120_seeds(name):
    exact = of_landscape(LANDSCAPES[name])
    known = exact.multiplicity
    problem = LANDSCAPES[name].problem()
    measured = [volume_scaling(problem, multiplicity=known, samples=SAMPLES, seed=seed) for seed in SEEDS]
    defended = [m for m in measured if m.status is Status.OK]
    z = np.array([(m.estimate - float(exact.value)) / m.error for m in defended])
    assert len(defended) > 0.9 * len(measured)
    assert np.sum(z**2) < chi2.ppf(1 - 1e-4, len(z))
    assert z.std() > 0.3  # an error bar that covers everything would say nothing
    assert abs(z.mean()) < 4 / np.sqrt(len(z))
