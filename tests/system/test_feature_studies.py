"""The studies of feature learning: what their specs refuse, and how their numbers are read off."""

from __future__ import annotations

import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.core.results import Status
from phasecast.features.curvature.curvature_law import CurvatureLaw
from phasecast.features.simulation.margins import bounded, first_crossing, margin
from phasecast.lab import find_recipe
from phasecast.lab.spec import make_spec
from phasecast.studies.features.late_generalisation import early_share
from phasecast.studies.features.overlap import decay
from phasecast.studies.features.scan import open_settings

pytestmark = pytest.mark.bare


@pytest.mark.parametrize(
    ("recipe", "values", "words"),
    [
        ("feature-success", {"activation": "gelo"}, "gelu"),
        ("feature-success", {"activations": ("gelu", "relu")}, "second derivative"),
        ("feature-success", {"deltas": (3.0, 2.0)}, "rise"),
        ("feature-grokking", {"target": "x**2"}, "x"),
        ("feature-grokking", {"loss": "absolute"}, "second derivative"),
        ("feature-overlap", {"target": "z"}, "hard direction"),
        ("feature-scan", {"targets": ("z**2", "z")}, "hard direction"),
        ("feature-spectrum", {"deltas": ()}, "deltas"),
    ],
)
def test_a_spec_that_cannot_be_is_refused_in_one_line(recipe, values, words):
    with pytest.raises(BadInput, match=words) as caught:
        make_spec(find_recipe(recipe).spec, values)
    assert "\n" not in str(caught.value)


def test_paper_scale_is_large_and_gives_way_to_what_is_given():
    kind = find_recipe("feature-grokking").spec
    assert make_spec(kind, {"scale": "paper"}).dimension == 5000
    assert make_spec(kind, {"scale": "paper", "dimension": 100}).dimension == 100
    scan = find_recipe("feature-scan").spec
    assert len(open_settings(make_spec(scan, {"scale": "paper"}))) == 2 * 4 * 4 * 2 * 2 * 2
    assert len(open_settings(make_spec(scan, {}))) == 16


def test_the_early_share_of_a_late_and_of_a_prompt_fall():
    cosine = np.array([0.0, 0.1, 0.2, 0.9, 0.99])
    train, test = np.array([1.0, 0.8, 0.6, 0.2, 0.2]), np.array([1.0, 1.02, 1.05, 0.3, 0.2])
    assert early_share(train, test, cosine) == pytest.approx(1.0)  # looked at first when the fall was over
    slow = np.array([1.0, 1.0, 0.85, 0.3, 0.2])
    assert early_share(train, slow, cosine) == pytest.approx(0.5)
    assert early_share(train, test, np.minimum(cosine, 0.3)) is None


def test_the_exponent_of_a_decay():
    rng = np.random.default_rng(0)
    d = np.array([100, 200, 400, 800])
    found = decay(d, rng.normal(size=(4, 400)) * d[:, None] ** -0.5)
    assert abs(found.value + 0.5) < 3 * found.error
    assert abs(decay(d, rng.normal(size=(4, 400))).value + 0.5) > 3 * found.error


def test_a_crossing_has_the_error_of_its_margins():
    rng = np.random.default_rng(0)
    deltas = np.geomspace(2, 20, 9)
    off = []
    for _ in range(300):
        noise = 0.05 * rng.normal(size=(6, 9))
        found = first_crossing(deltas, 0.3 * np.log(7.0 / deltas) + noise)
        off.append((found.value - 7.0) / found.error)
    assert 0.5 < np.std(off) < 1.3
    assert abs(np.mean(off)) < 0.3
    assert first_crossing(deltas, np.ones((2, 9))).status is Status.REFUSED
    assert first_crossing(deltas, -np.ones((2, 9))).status is Status.REFUSED


def test_an_unbounded_law_is_clipped():
    rng = np.random.default_rng(0)
    G, hard = 1 - rng.exponential(size=5000), rng.normal(size=(5000, 1))
    law = CurvatureLaw(G, hard, lowest=-np.inf)
    assert bounded(law).lowest == law.quantile(1e-3)
    assert np.isfinite(margin(law, 5.0))
    assert bounded(CurvatureLaw(G, hard)).lowest == G.min()
