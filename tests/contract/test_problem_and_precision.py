"""A user's problem, and float64 beside a user's float32 code in one process."""

from __future__ import annotations

import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from phasecast.core import Problem, float64
from phasecast.core.errors import BadInput

pytestmark = pytest.mark.bare


def test_n_is_the_number_of_rows_unless_given():
    data = {"x": np.zeros((7, 2)), "y": np.zeros(7)}
    assert Problem(lambda w, batch: 0.0, np.zeros(2), data).n == 7
    assert Problem(lambda w, batch: 0.0, np.zeros(2), data, n=100).n == 100
    assert Problem(lambda w: 0.0, np.zeros(2)).n is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"loss": 3, "params": 0.0}, "loss is a int, not a function"),
        ({"loss": abs, "params": 0.0, "n": 0}, "positive integer"),
        ({"loss": abs, "params": 0.0, "n": 2.5}, "positive integer"),
        ({"loss": abs, "params": 0.0, "data": (np.zeros(3), np.zeros(4))}, r"\[3, 4\] rows"),
    ],
)
def test_a_problem_that_cannot_be_is_bad_input(arguments, words):
    with pytest.raises(BadInput, match=words):
        Problem(**arguments)


def test_float64_leaves_compiled_float32_code_as_it_was():
    traces = []

    @jax.jit
    def users(x):
        traces.append(x.dtype)
        return x * 2

    assert users(jnp.ones(3)).dtype == jnp.float32
    with float64():
        assert jnp.linspace(0, 1, 3).dtype == jnp.float64
        inside = users(jnp.ones(3))
    assert inside.dtype == jnp.float64
    assert users(jnp.ones(3)).dtype == jnp.float32
    assert jnp.ones(3).dtype == jnp.float32
    assert traces == [jnp.float32, jnp.float64]


def test_float64_in_one_thread_does_not_reach_another():
    seen, inside, done = [], threading.Event(), threading.Event()

    def other():
        inside.wait(10)
        seen.append(jnp.ones(1).dtype)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with float64():
        inside.set()
        done.wait(10)
    thread.join()
    assert seen == [jnp.float32]


def test_float64_ends_with_the_block_also_after_an_error():
    with pytest.raises(ZeroDivisionError), float64():
        raise ZeroDivisionError
    assert jnp.ones(1).dtype == jnp.float32


def test_float64_inside_jit_is_refused():
    @jax.jit
    def wrong(x):
        with float64():
            return x

    with pytest.raises(BadInput, match="around the outermost call"):
        wrong(1.0)


def test_importing_and_using_phasecast_changes_no_setting_of_jax():
    script = """
import jax
before = dict(jax.config.values)
import phasecast as pc
for name in dir(pc):
    getattr(pc, name)
pc.coefficients.temperature_quadrature(pc.models.LANDSCAPES["x²y²"].problem())
assert dict(jax.config.values) == before
"""
    subprocess.run([sys.executable, "-c", script], check=True)
