"""PyTorch takes the same path: back-ends that move, trajectories, factories for the command and the recipe."""

from __future__ import annotations

import copy
import importlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import phasecast as pc
from phasecast.lab import find_recipe
from phasecast.lab.spec import make_spec

torch = pytest.importorskip("torch")
from phasecast.sampling.backends.torch import torch_backend  # noqa: E402
from torch_problems import _one_thread, half_square  # noqa: E402, F401

OWN = """
import torch, phasecast as pc

def half_square(outputs, targets):
    return ((outputs - targets) ** 2).sum(-1).mean() / 2

def regression():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 4, generator=generator, dtype=torch.float64)
    w = torch.arange(4.0, dtype=torch.float64)[None]
    module = torch.nn.Linear(4, 1, bias=False).double()
    module.load_state_dict({"weight": w})
    return module, (x, x @ w.T), half_square

def named():
    return pc.torch.Problem(*regression(), name="regression")

def wrong():
    return regression()[0]
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_torch.py").write_text(OWN)
    monkeypatch.delitem(sys.modules, "own_torch", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def normed():
    """A network whose buffers matter in eval mode."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


def data():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(30, 3, generator=generator), torch.randn(30, 1, generator=generator)


@pytest.mark.parametrize("buffers", [False, True], ids=["same buffers", "other buffers"])
def test_a_back_end_that_moves_says_what_a_new_one_says(buffers):
    one, other = normed().eval(), normed().eval()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.1)
        if buffers:
            other[1].running_mean += 0.5
    here = torch_backend(one, half_square, data())
    before = here.evaluate(np.full((2, here.size), 0.01))
    for params in (other, other.state_dict(), {name: value.numpy() for name, value in other.state_dict().items()}):
        moved, fresh = here.moved_to(params), torch_backend(other, half_square, data())
        offsets = np.linspace(-0.1, 0.1, 3 * here.size).reshape(3, -1)
        for mine, theirs in zip(moved.evaluate(offsets), fresh.evaluate(offsets), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-14)
        assert moved.loss_at_centre == fresh.loss_at_centre
        np.testing.assert_array_equal(moved.centre_as_numpy, fresh.centre_as_numpy)
        assert (moved._gradients is here._gradients) == (not buffers)  # recorded once for all that differ in w* alone
    for mine, theirs in zip(here.evaluate(np.full((2, here.size), 0.01)), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_weights_of_another_module_do_not_fit():
    here = torch_backend(normed(), half_square, data())
    with pytest.raises(pc.BadInput, match=r"have no '0.weight'"):
        here.moved_to({"weight": torch.zeros(2)})
    with pytest.raises(pc.BadInput, match=r"'0.weight' has shape \(9, 3\)"):
        here.moved_to(torch.nn.Sequential(torch.nn.Linear(3, 9), *list(normed())[1:]))


def test_a_trajectory_is_llc_at_each_checkpoint_whatever_form_it_has(own):
    own_torch = importlib.import_module("own_torch")

    module, rows, loss = own_torch.regression()
    settings = {"gamma": 5.0, "target": 0.2, "chains": 4}
    early = {"weight": 0.9 * module.weight.detach()}
    torch.save(module.state_dict(), own / "end.pt")
    path = pc.torch.llc_trajectory(module, {0: early, 10: own / "end.pt"}, rows, loss, **settings)
    assert path.steps == (0, 10)
    assert [str(result.status) for result in path.results] == ["warning", "ok"]
    alone = pc.torch.llc(module, rows, loss, **settings)
    assert path.results[1].estimate == alone.estimate
    np.testing.assert_array_equal(path.results[1].traces["excess"], alone.traces["excess"])
    assert path.figure().axes
    with pytest.raises(pc.BadInput, match="no checkpoints"):
        pc.torch.llc_trajectory(module, {}, rows, loss)


@pytest.mark.parametrize("sampler", ["hmc", "sgld"])
def test_a_torch_run_stopped_after_any_chunk_goes_on_to_the_same_bits(own, sampler):
    from safetensors.torch import save_file

    save_file({"weight": 0.9 * torch.arange(4.0, dtype=torch.float64)[None]}, own / "early.safetensors")
    np.savez(own / "end.npz", weight=np.arange(4.0)[None])
    recipe = find_recipe("llc")
    settings = {"problem": "own_torch:regression", "checkpoints": ("early.safetensors", "end.npz"), "gamma": 5.0}
    spec = make_spec(recipe.spec, {**settings, "target": 0.3, "chains": 4, "sampler": sampler, "max_grads": 4000})
    whole = [copy.deepcopy(chunk) for chunk in recipe.work(spec, None)]
    rows = [chunk.rows["llc"] for chunk in whole if chunk.rows]
    assert len(rows) == 2
    for stop in (len(whole) // 4, len(whole) - 3):
        rest = [chunk.rows["llc"] for chunk in recipe.work(spec, whole[stop].state) if chunk.rows]
        for name, value in rows[-1].items():
            np.testing.assert_array_equal(rest[-1][name], value, err_msg=name)


def test_other_weights_in_the_module_are_another_run(own):
    recipe = find_recipe("llc")
    spec = make_spec(recipe.spec, {"problem": "own_torch:regression"})
    first = spec.contents()
    assert first == spec.contents()
    (own / "own_torch.py").write_text(OWN.replace("arange(4.0", "arange(1.0, 5.0"))
    assert spec.contents() != first


def test_the_command_takes_a_torch_factory(own, command):
    own_torch = importlib.import_module("own_torch")

    words = ("llc", "own_torch:named", "--gamma", "5", "--target", "0.3", "--chains", "4", "--json")
    good = subprocess.run(
        [sys.executable, "-m", "phasecast.cli", *words],
        capture_output=True,
        text=True,
        cwd=own,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert good.returncode == 0, good.stderr
    measured = json.loads(good.stdout)
    assert measured["name"] == "λ̂ of regression"
    x, nbeta = own_torch.regression()[1][0].numpy(), 200 / np.log(200)
    curvatures = nbeta * np.linalg.eigvalsh(x.T @ x / len(x))
    assert abs(measured["value"] - (0.5 * curvatures / (curvatures + 5)).sum()) < 4 * measured["error"]
    for words in (["own_torch:wrong"], ["own_torch:named", "--sampler", "nuts", "--gamma", "1"]):
        code, _, complaint = command("llc", *words)
        assert code == 2
        assert len(complaint.strip().splitlines()) == 1


def test_a_table_of_batches_knows_the_loss_of_all_rows():
    module = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    inputs, targets = torch.randn(103, 5), torch.randn(103, 1)
    whole = torch_backend(module, half_square, (inputs, targets))
    assert whole.minibatched(10).loss_at_centre == pytest.approx(whole.loss_at_centre, rel=1e-6)


def test_moving_few_parameters_costs_a_gradient_of_the_whole_model():
    module = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    part = torch_backend(module, half_square, (torch.randn(20, 5), torch.randn(20, 1)), only="2.*")
    assert (part.size, part.model_size) == (5, 29)
