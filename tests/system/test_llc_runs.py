"""λ̂ as a run: stopped anywhere it goes on to the same bits; checkpoints come from files that cannot run code."""

from __future__ import annotations

import copy
import json
import subprocess
import sys

import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.lab import find_recipe, run
from phasecast.lab.spec import make_spec
from phasecast.studies.coefficients.user_weights import load_weights

OWN = """
import jax.numpy as jnp
import numpy as np
import phasecast as pc

def regression():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    y = x @ np.arange(4.0) + rng.normal(size=200)
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    return pc.Problem(lambda w, d: 0.5 * jnp.mean((d[0] @ w["w"] - d[1]) ** 2), {"w": best}, (x, y), name="regression")
"""
SETTINGS = {"problem": "own_llc:regression", "gamma": 1.0, "target": 0.1, "chains": 4}


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_llc.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows_of(chunks) -> list[dict]:
    return [chunk.rows["llc"] for chunk in chunks if chunk.rows]


@pytest.mark.parametrize("sampler", ["hmc", "langevin"])
def test_a_run_stopped_after_any_chunk_goes_on_to_the_same_bits(own, sampler):
    recipe = find_recipe("llc")
    spec = make_spec(recipe.spec, {**SETTINGS, "sampler": sampler, "max_grads": 40_000})
    whole = [copy.deepcopy(chunk) for chunk in recipe.work(spec, None)]
    assert len(whole) > 6
    for stop in (0, len(whole) // 3, len(whole) - 3):
        rest = list(recipe.work(spec, whole[stop].state))
        assert len(rest) == len(whole) - stop - 1
        for name, value in rows_of(whole)[0].items():
            np.testing.assert_array_equal(rows_of(rest)[0][name], value, err_msg=name)


def test_a_training_run_is_sampled_at_each_checkpoint(own):
    best = np.linalg.lstsq(*_data(), rcond=None)[0]
    for step, share in ((0, 0.5), (1, 1.0)):
        np.savez(own / f"step{step}.npz", w=share * best)
    found = run("llc", {**SETTINGS, "checkpoints": ("step0.npz", "step1.npz")}, store=own / "store", quiet=True)
    first, last = (answer.measurement for answer in found.conclusion().answers)
    assert first is not None
    assert last is not None
    assert str(first.status) == "warning"
    assert str(last.status) == "ok"
    assert abs(float(last) - 2) < 4 * float(last.error) + 0.1  # γ = 1 beside nβ = 38 takes 0.05
    assert any("not a minimum" in reason for reason in first.reasons)
    np.savez(own / "step1.npz", w=0.5 * best)
    again = run("llc", {**SETTINGS, "checkpoints": ("step0.npz", "step1.npz")}, store=own / "store", quiet=True)
    assert again.id != found.id  # other weights are another run


def _data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    return x, x @ np.arange(4.0) + rng.normal(size=200)


def test_weights_come_from_files_that_cannot_run_code(tmp_path):
    like = {"w": np.zeros(2), "layers": [np.zeros((2, 1))]}
    np.savez(tmp_path / "good.npz", **{"w": np.ones(2), "layers.0": np.ones((2, 1))})
    assert load_weights(tmp_path / "good.npz", like)["layers"][0].sum() == 2
    np.savez(tmp_path / "objects.npz", w=np.array([print, None], dtype=object))
    np.savez(tmp_path / "other.npz", v=np.ones(2))
    np.savez(tmp_path / "shape.npz", **{"w": np.ones(3), "layers.0": np.ones((2, 1))})
    (tmp_path / "weights.pkl").write_bytes(b"")
    for name, words in (
        ("objects.npz", "cannot be read"),
        ("other.npz", "has no 'layers.0'|has no 'w'"),
        ("shape.npz", r"shape \(3,\)"),
        ("weights.pkl", "not an .npz or .safetensors"),
    ):
        with pytest.raises(BadInput, match=words):
            load_weights(tmp_path / name, like)


def test_the_command_prints_one_object_and_bad_input_one_line(own, command):
    words = ("llc", "own_llc:regression", "--gamma", "1", "--target", "0.1", "--json")
    good = subprocess.run(
        [sys.executable, "-m", "phasecast.cli", *words], capture_output=True, text=True, cwd=own, check=False
    )
    assert good.returncode == 0
    found = json.loads(good.stdout)
    assert found["status"] == "ok"
    assert abs(found["value"] - 1.95) < 4 * found["error"]
    assert {"value_min", "value_var", "rhat", "ess", "stein", "curve", "gradients"} <= set(found)
    code, out, complaint = command("llc", "own_llc:regression", "--sampler", "hcm")
    assert code == 2
    assert out == ""
    assert len(complaint.strip().splitlines()) == 1
