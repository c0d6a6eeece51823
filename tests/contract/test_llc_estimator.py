"""One path to λ̂: the same options everywhere, and an estimator that goes on from any chunk to the same bits."""

from __future__ import annotations

import copy
import inspect
import typing
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import phasecast as pc
from phasecast.cli.llc import CommandOptions
from phasecast.coefficients.llc.estimate import Estimator
from phasecast.coefficients.llc.options import LLCKeywords, LLCOptions
from phasecast.coefficients.llc.policy import POLICY
from phasecast.coefficients.llc.problems import on_backend
from phasecast.core.errors import BadInput
from phasecast.sampling import Fixed
from phasecast.studies.coefficients.llc import LocalCoefficient

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4))
Y = X @ np.arange(4.0) + RNG.normal(size=200)
BEST = np.linalg.lstsq(X, Y, rcond=None)[0]
PROBLEM = pc.Problem(lambda w, d: 0.5 * jnp.mean((d[0] @ w - d[1]) ** 2), BEST, (X, Y))
MINIBATCHES = replace(POLICY, largest_full_work=100, cheap_gradient=100)


def test_every_way_to_ask_for_llc_has_the_same_options():
    names = list(LLCOptions.model_fields)
    assert list(typing.get_type_hints(LLCKeywords)) == names
    for function in (pc.llc, pc.torch.llc):
        keywords = {
            p.name: p.default for p in inspect.signature(function).parameters.values() if p.kind == p.KEYWORD_ONLY
        }
        keywords.pop("device", None)
        keywords.pop("progress")  # how it is shown changes nothing
        assert keywords == {name: field.default for name, field in LLCOptions.model_fields.items()}
    for derived in (CommandOptions, LocalCoefficient):
        assert set(names) <= set(derived.model_fields)
        for name in names:
            if (derived, name) == (LocalCoefficient, "seconds"):
                continue  # a stored run has no time limit, so that it gives the same bits on every machine
            assert derived.model_fields[name].default == LLCOptions.model_fields[name].default, name
    assert all(field.description for field in LLCOptions.model_fields.values())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"gama": 1.0}, "did you mean 'gamma'"),
        ({"gamma": 0}, "gamma is 0; give a positive number, or 'limit'"),
        ({"gamma": "none"}, "gamma is 'none'"),
        ({"radius": 0}, "radius is 0"),
        ({"seconds": -1}, "seconds is -1"),
        ({"target": float("nan")}, "target is nan"),
        ({"max_grads": "many"}, "max_grads is 'many'"),
        ({"chains": 2.5}, "chains is 2.5; use an integer"),
        ({"chains": True}, "chains is True"),
        ({"seed": -1}, "seed is -1"),
        ({"n": 0}, "n is 0"),
        ({"prior": -1}, "prior is -1"),
        ({"sampler": "hcm"}, "did you mean 'hmc'"),
        ({"only": 3}, "only is 3; give a pattern, a list of patterns, or {name: mask}"),
        ({"only": ["a.*", 3]}, "give a pattern, a list of patterns"),
        ({"only": {"a": 1.0}}, "only has float for 'a'; give {name: boolean mask or True}"),
    ],
)
def test_an_option_that_makes_no_sense_is_bad_input_of_one_line(wrong, words):
    for kind in (LLCOptions, CommandOptions):
        with pytest.raises(BadInput, match=words) as caught:
            kind(**wrong)
        assert "\n" not in str(caught.value)


def test_numbers_of_numpy_are_numbers():
    given: dict[str, Any] = {"n": np.int64(50), "chains": np.int32(3), "gamma": np.float32(2.0), "nbeta": np.int64(7)}
    options = LLCOptions(**given)
    assert (options.n, options.chains, options.gamma, options.nbeta) == (50, 3, 2.0, 7.0)


def same_bits(one, other) -> bool:
    numbers = ("estimate", "error", "value_min", "value_var", "gradients", "curve")
    return (
        all(np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in numbers)
        and np.array_equal(one.traces["excess"], other.traces["excess"])
        and one.reasons == other.reasons
    )


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ({"gamma": 5.0, "target": 0.2, "chains": 4}, POLICY),
        ({"gamma": 5.0, "target": 0.2, "sampler": "langevin"}, POLICY),
        ({"gamma": 5.0, "chains": 2, "sampler": Fixed("sgld", 1e-3, 250, 50, 20)}, POLICY),
        ({"target": 0.3, "seconds": None}, MINIBATCHES),
    ],
    ids=["hmc", "langevin", "fixed", "minibatches"],
)
def test_an_estimator_goes_on_from_any_chunk_to_the_same_bits(options, policy):
    asked = LLCOptions(**options)
    sampled = on_backend(PROBLEM, asked)
    estimator = Estimator(sampled, asked, policy=policy)
    states = [copy.deepcopy(estimator.state())]
    while estimator.advance():
        states.append(copy.deepcopy(estimator.state()))
    whole = estimator.conclude()
    assert len(states) > 4
    for state in (states[0], states[len(states) // 2], states[-1]):
        resumed = Estimator(sampled, asked, policy=policy, state=state).run()
        assert same_bits(resumed, whole)
    assert not same_bits(Estimator(sampled, LLCOptions(**options, seed=1), policy=policy).run(), whole)
