"""What a call for λ̂ promises: a local γ, a time limit, progress, and an answer at Ctrl-C."""

from __future__ import annotations

import functools
import time

import jax.numpy as jnp
import numpy as np
import pytest

import phasecast as pc
from phasecast.coefficients.llc.report import LLCProgress
from phasecast.coefficients.llc.studies.transitions import transitions
from phasecast.core.results import Status

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 12))
Y = X @ RNG.normal(size=12) + RNG.normal(size=300)
BEST = np.linalg.lstsq(X, Y, rcond=None)[0]


def loss(w, data):
    return jnp.mean((data[0] @ w - data[1]) ** 2) / 2


def exact(nbeta: float, gamma: float) -> float:
    curvatures = nbeta * np.linalg.eigvalsh(X.T @ X / len(X))
    return float(np.sum(curvatures / (curvatures + gamma)) / 2)


def sample(**options) -> pc.LLC:
    return pc.llc(loss, BEST, (X, Y), **{"sampler": "langevin", "progress": False, **options})


@functools.cache
def with_defaults() -> pc.LLC:
    return sample()


def test_by_default_gamma_follows_from_the_neighbourhood():
    small, large = sample(radius=0.1), sample(radius=1.0)
    assert small.gamma == pytest.approx(12 / (0.01 * BEST @ BEST))
    assert small.gamma == pytest.approx(100 * large.gamma)
    for measured in (small, large):
        assert measured.status is Status.OK
        assert abs(measured.value - exact(measured.nbeta, measured.gamma)) < 3.5 * measured.error
    assert small.radius < 0.1
    assert {round(gamma / small.gamma, 3) for gamma in small.curve[:, 0]} == {3.162, 1.0, 0.316}
    assert "|w − w*|" in str(small)


def test_a_scale_of_the_weights_does_not_change_a_local_coefficient():
    """w → 10 w with the loss of w/10 is the same model: the same γ in its own units, the same λ̂."""
    scaled = pc.llc(lambda w, data: loss(w / 10, data), 10 * BEST, (X, Y), sampler="langevin", progress=False)
    own = with_defaults()
    assert scaled.gamma == pytest.approx(own.gamma / 100)
    assert abs(float(scaled.value) - float(own.value)) < 3.5 * np.hypot(scaled.error, own.error)


def test_at_zero_the_default_is_the_limit():
    measured = pc.llc(lambda w: (w**2).sum() / 2, np.zeros(4), nbeta=1000.0, progress=False)
    assert measured.gamma == 0
    assert abs(float(measured.value) - 2) < 3.5 * measured.error


def test_four_chains_are_four():
    assert sample(chains=3, gamma=5.0, target=0.2).traces["excess"].shape[1] == 3


def test_a_tighter_target_is_not_a_worse_answer():
    for target in (0.2, 0.05, 0.02):
        measured = sample(target=target, gamma=5.0)
        assert measured.error <= target * measured.value
        assert abs(measured.value - exact(measured.nbeta, 5.0)) < 3.5 * measured.error


def test_ctrl_c_returns_what_there_is():
    def press(progress: LLCProgress) -> None:
        if np.isfinite(progress.error):
            raise KeyboardInterrupt

    measured = sample(gamma=5.0, target=1e-4, seconds=None, progress=press)
    assert any("Ctrl-C" in reason for reason in measured.reasons)
    assert abs(measured.estimate - exact(measured.nbeta, 5.0)) < 5 * measured.error


def test_ctrl_c_before_anything_was_sampled_is_ctrl_c():
    def at_once(w, data):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pc.llc(at_once, BEST, (X, Y))


def test_a_time_limit_ends_in_time_with_a_result():
    begun = time.monotonic()
    measured = sample(gamma=5.0, target=1e-6, seconds=1.0)
    assert time.monotonic() - begun < 30  # what a slow machine compiles before the first chunk is not limited
    assert any("the time limit of 1 s" in reason for reason in measured.reasons)
    nothing = sample(gamma=5.0, seconds=1e-9)
    assert nothing.status is Status.REFUSED


def test_progress_is_shown_to_whoever_asks(capfd):
    told: list[LLCProgress] = []
    sample(gamma=5.0, progress=told.append)
    assert {"warm-up", "sampling"} <= {progress.stage for progress in told}
    assert told[-1].gradients > told[0].gradients
    assert "λ̂ =" in str(told[-1])
    sample(gamma=5.0)
    assert capfd.readouterr() == ("", "")


def test_slow_calls_show_a_line_on_stderr(capfd, monkeypatch):
    monkeypatch.setattr("phasecast.progress.QUIET_AT_FIRST", 0.0)
    sample(gamma=5.0, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("λ̂")


def test_a_trajectory_has_one_gamma_and_survives_ctrl_c():
    checkpoints: dict[float, np.ndarray] = {0: 0.5 * BEST, 10: 0.9 * BEST, 20: BEST}
    path = pc.llc_trajectory(checkpoints, loss, (X, Y), sampler="langevin", progress=False)
    assert len({result.gamma for result in path.results}) == 1
    assert path.results[-1].gamma == with_defaults().gamma
    assert [result.status for result in path.results] == [Status.WARNING, Status.WARNING, Status.OK]
    assert path.results[0].value < 0 < path.results[0].value_min
    assert path.losses[0] > path.losses[1] > path.losses[2]
    last = path.results[-1]
    assert abs(last.value - exact(last.nbeta, last.gamma)) < 3.5 * last.error
    assert path.transitions()[0].begin == 0
    assert len(path.figure(accuracy=[0.1, 0.5, 0.9]).axes) == 3
    with pytest.raises(pc.BadInput, match="accuracy has 1 values"):
        path.figure(accuracy=[0.5])

    def press(progress: LLCProgress) -> None:
        if not np.isfinite(progress.estimate):
            return
        seen.append(progress)
        if len(seen) > 9:
            raise KeyboardInterrupt

    seen: list[LLCProgress] = []
    cut = pc.llc_trajectory(checkpoints, loss, (X, Y), sampler="langevin", progress=press)
    assert 0 < len(cut.steps) < 3


def test_transitions_are_changes_that_errors_do_not_explain():
    steps = range(8)
    noisy = [(1.0 + 0.05 * (-1) ** step, 0.1) for step in steps]
    assert transitions(steps, noisy) == []
    jump = [(1.0, 0.05)] * 3 + [(4.0, 0.1), (8.0, 0.1)] + [(8.1, 0.1)] * 3
    (change,) = transitions(steps, jump)
    assert (change.begin, change.end) == (2, 4)
    assert 2 < change.middle < 4
    assert change.change == pytest.approx(7.0)
    assert transitions([0], [(1.0, 0.1)]) == []
    assert transitions([0, 1, 2], [(1.0, 0.1), (float("nan"), 1.0), (9.0, 0.1)])[0].end == 2
