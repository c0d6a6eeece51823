"""λ̂ on minibatches: the noise of their gradients heats the chains, by as much as is taken off again."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import phasecast as pc
from phasecast.coefficients.llc import estimate
from phasecast.coefficients.llc.estimate import Estimator
from phasecast.coefficients.llc.judge import judge_levels
from phasecast.coefficients.llc.options import LLCOptions
from phasecast.coefficients.llc.policy import POLICY
from phasecast.coefficients.llc.problems import on_backend
from phasecast.core.results import Status
from phasecast.sampling.backends.protocol import batches

pytestmark = pytest.mark.usefixtures("full_optimisation")

ROWS, SIZE = 2000, 20
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, SIZE))
Y = X @ RNG.normal(size=SIZE) + RNG.normal(size=ROWS)
BEST = np.linalg.lstsq(X, Y, rcond=None)[0]
PROBLEM = pc.Problem(lambda w, data: jnp.mean((data[0] @ w - data[1]) ** 2) / 2, BEST, (X, Y))
MINIBATCHES = replace(POLICY, largest_full_work=1, cheap_gradient=20 * SIZE)
HOT = replace(MINIBATCHES, heated_targets=20)


def estimator(policy, **options) -> Estimator:
    chosen = LLCOptions(seconds=None, **options)
    return Estimator(on_backend(PROBLEM, chosen), chosen, policy=policy)


def exact(nbeta: float, gamma: float) -> float:
    curvatures = nbeta * np.linalg.eigvalsh(X.T @ X / ROWS)
    return float(np.sum(curvatures / (curvatures + gamma)) / 2)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_minibatches_give_the_exact_value_within_the_error(seed):
    sampler = estimator(MINIBATCHES, chains=4, target=0.1, seed=seed)
    assert sampler.plan.batch == 20
    measured = sampler.run()
    assert measured.status is not Status.REFUSED
    assert measured.error < 0.1 * measured.value
    assert abs(measured.value - exact(measured.nbeta, measured.gamma)) < 3 * measured.error


@pytest.mark.slow
def test_the_noise_of_gradients_heats_by_about_what_its_bound_says():
    sampler = estimator(HOT, chains=8, target=0.05, seed=3)
    sampler.run()
    level = sampler.levels[0]
    raw = level.tuning.nbeta * level.record.loss.mean
    heated = raw - exact(level.tuning.nbeta, level.tuning.gamma)
    noise = level.tuning.nbeta * level.record.loss.error
    assert heated > 5 * noise  # the negative control: without the correction λ̂ is wrong
    assert 0.5 * level.heating - 3 * noise < heated < 1.05 * level.heating + 3 * noise


def test_chains_that_go_on_at_another_checkpoint_keep_their_tuning():
    first = estimator(MINIBATCHES, chains=4, target=0.1, seed=4)
    first.run()
    options = LLCOptions(seconds=None, chains=4, target=0.1, seed=5)
    second = Estimator(on_backend(PROBLEM, options), options, policy=MINIBATCHES, start=first.last_state)
    measured = second.run()
    assert abs(measured.value - exact(measured.nbeta, measured.gamma)) < 3 * measured.error
    assert measured.diagnostics["gap"] < 0.1  # it is a minimum
    warm_up = [one.levels[0].gradients - one.levels[0].steps * one.levels[0].chains for one in (first, second)]
    assert warm_up[1] < 0.75 * warm_up[0]


@pytest.mark.parametrize("policy", [MINIBATCHES, POLICY])
def test_chains_that_flew_away_begin_again_at_the_centre(policy):
    """A position from which any step leads to a loss that is not finite; going on from there was refused."""
    sampler = estimator(policy, chains=4, target=0.1, seed=8, sampler="auto" if policy is MINIBATCHES else "langevin")
    for _ in range(5):
        sampler.advance()
    level = sampler.levels[-1]
    level.state = level.state | {name: 1e200 * np.asarray(level.state[name]) for name in ("position", "momentum")}
    measured = sampler.run()
    assert level.warm_up.halved > 0
    assert measured.status is not Status.REFUSED
    assert abs(measured.value - exact(measured.nbeta, measured.gamma)) < 3 * measured.error


@pytest.mark.parametrize("again", [True, False])
def test_where_chains_are_lower_than_the_descent_another_begins_at_a_chain(again, monkeypatch):
    """The first descent ends early; the negative control has no other."""
    descend, starts = estimate.fall_below_centre, []

    def ends_early(backend, plan, level, start, *more):
        starts.append(start)
        return descend(backend, plan, level, start, *more) if again and len(starts) > 1 else (1.0, 0.0)

    monkeypatch.setattr(estimate, "fall_below_centre", ends_early)
    beside = replace(PROBLEM, params=BEST + 0.5)
    options = LLCOptions(seconds=None, chains=4, target=0.1, seed=9)
    measured = Estimator(on_backend(beside, options), options, policy=MINIBATCHES).run()
    assert len(starts) == 2
    assert not np.any(starts[0])
    assert np.all(starts[1])
    assert (measured.status is Status.REFUSED) is not again
    if again:
        assert abs(measured.value_min - exact(measured.nbeta, measured.gamma)) < 3 * measured.error


@pytest.mark.parametrize(
    ("gap", "status", "words"),
    [
        (8.0, Status.WARNING, "not a minimum"),
        (4.0, Status.WARNING, "value_min is too low"),
        (1.0, Status.REFUSED, "lost"),
    ],
)
def test_chains_below_the_descent_are_named_within_three_errors_and_refused_beyond(gap, status, words):
    sampler = estimator(MINIBATCHES, chains=4, target=0.3, seed=11)
    sampler.run()
    verdict = judge_levels(sampler.plan, sampler.levels, value=-5.0, error=1.0, gap=gap)
    assert verdict.status is status
    assert words in verdict.reasons[0]


def test_time_that_ends_between_two_windows_of_warm_up_leaves_the_last_one():
    """It was refused, because nothing had been sampled since the window."""
    sampler = estimator(MINIBATCHES, chains=4, target=0.5, seed=10)
    while not (level := next(iter(sampler.levels), None)) or level.provisional is None:
        sampler.advance()
    level.restart(MINIBATCHES)
    sampler.stop("the time limit of 1 s")
    measured = sampler.conclude()
    assert (measured.value, measured.error) == level.provisional
    assert measured.status is Status.WARNING
    assert any("still warming up" in reason for reason in measured.reasons)


def test_the_step_is_as_long_as_the_noise_allows():
    """At three times the target, noise may add three times as much, which for short steps is a step as much longer."""
    steps = []
    for target in (0.1, 0.3):
        sampler = estimator(MINIBATCHES, chains=4, target=target, seed=6)
        sampler.run()
        level = sampler.levels[0]
        allowed = MINIBATCHES.heated_targets * target * level.scale
        assert 0.2 * allowed < level.heating < 1.5 * allowed or level.warm_up.shrink == 1
        steps.append(level.tuning.step_size)
    assert 1.5 < steps[1] / steps[0] < 6


def test_a_table_holds_every_row_and_its_batches_are_alike():
    for rows, batch in ((100, 7), (64, 64), (10, 3), (5, 100)):
        table = batches(rows, batch)
        assert set(table.ravel()) == set(range(rows))
        assert table.size - rows < len(table)
