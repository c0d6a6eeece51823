"""A result can be sent to another process. For those of torch, see test_torch_inputs.py."""

from __future__ import annotations

import pickle

import jax.numpy as jnp
import numpy as np
import pytest

import phasecast as pc

X = np.random.default_rng(0).normal(size=(50, 3))
SETTINGS = {"gamma": 50.0, "target": 0.5, "sampler": "langevin", "chains": 2, "max_grads": 1000, "nbeta": 20.0}


def rows(params, data):
    return (data @ params["w"]) ** 2 / 2


def loss(params, data):
    return jnp.mean(rows(params, data))


def test_a_result_of_jax_is_pickled_without_its_chains():
    result = pc.llc(lambda params, data: loss(params, data), {"w": np.zeros(3)}, X, **SETTINGS)
    loaded = pickle.loads(pickle.dumps(result))
    assert (loaded.estimate, str(loaded.status)) == (result.estimate, str(result.status))
    np.testing.assert_array_equal(loaded.curve, result.curve)
    with pytest.raises(pc.BadInput, match="cannot go on, because its model or loss was not pickled"):
        loaded.sample_losses(rows, 3, 2)
