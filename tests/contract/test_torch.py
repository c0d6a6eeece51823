"""Torch modules: read and never changed, evaluated at once or in turns, refused with a reason."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import phasecast as pc
from phasecast.core.errors import MissingExtra
from phasecast.sampling import KERNELS, Tuning

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset, TensorDataset  # noqa: E402

from phasecast.sampling.backends.protocol import Minibatch  # noqa: E402
from phasecast.sampling.backends.torch import SequentialChains, torch_backend  # noqa: E402
from phasecast.sampling.backends.torch_ops import TorchOps, fold  # noqa: E402
from torch_problems import _one_thread, half_square, seeded  # noqa: E402, F401

TUNING = Tuning(0.01, 3.0, 1.0, 100.0, 1.0)


def small(width=4):
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))


def some_data(rows=40, inputs=3, outputs=2):
    return seeded(lambda: (torch.randn(rows, inputs), torch.randn(rows, outputs)), 1)


def plainly(module, data, loss, offset):
    """L and ∇L by ordinary torch, with the parameters of a copy moved by a flat offset."""
    moved = copy.deepcopy(module).eval().double()
    data = [part.double() if part.is_floating_point() else part for part in data]
    base = loss(moved(data[0]), data[1]).item()
    with torch.no_grad():
        flat = nn.utils.parameters_to_vector(moved.parameters()) + torch.as_tensor(offset)
        nn.utils.vector_to_parameters(flat, moved.parameters())
    value = loss(moved(data[0]), data[1])
    slopes = torch.autograd.grad(value, list(moved.parameters()))
    return value.item() - base, torch.cat([slope.reshape(-1) for slope in slopes]).numpy()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.lstm(x[:, None, :])[0][:, -1])


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(3, 2, bias=False), nn.Linear(3, 2, bias=False)
        self.out.weight = self.into.weight

    def forward(self, x):
        return self.into(x) * self.out(x)


class InPlace(nn.Module):
    """Writes into a tensor of its own, which vmap cannot do for many chains."""

    def __init__(self):
        super().__init__()
        self.inner = small()

    def forward(self, x):
        outputs = torch.zeros(len(x), 2, dtype=x.dtype)
        outputs[:] = self.inner(x)
        return outputs


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = small()

    def forward(self, x):
        found = self.inner(x)
        return found if found.sum() > -1e9 else 0 * found


MODULES = {
    "mlp": small,
    "batch norm": lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True), nn.Linear(4, 2)),
    "dropout": lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2)),
    "layer norm": lambda: nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2)),
    "convolution": lambda: nn.Sequential(nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 2, 2), nn.Flatten(), nn.Linear(4, 2)),
    "attention": lambda: nn.Sequential(
        nn.Unflatten(1, (3, 1)),
        nn.Linear(1, 4),
        nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
        nn.Flatten(),
        nn.Linear(12, 2),
    ),
    "weight norm": lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), nn.Linear(4, 2)),
    "tied": Tied,
    "recurrent": Recurrent,
    "in place": InPlace,
    "branching": Branching,
}


@pytest.mark.parametrize("name", MODULES)
def test_loss_and_gradient_are_those_of_ordinary_torch(name):
    module, data = seeded(MODULES[name]), some_data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SequentialChains)
        engine = torch_backend(module, half_square, data, precision="float64")
    offsets = 0.1 * np.random.default_rng(0).standard_normal((3, engine.size))
    losses, slopes = engine.evaluate(offsets)
    for offset, loss, slope in zip(offsets, losses, slopes, strict=True):
        expected, gradient = plainly(module, data, half_square, offset)
        assert loss == pytest.approx(expected, rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(slope, gradient, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", ["in place", "branching"])
def test_where_vmap_fails_chains_take_turns_and_say_why(name):
    with pytest.warns(SequentialChains, match="chains take turns, because vmap fails: .+"):
        engine = torch_backend(seeded(MODULES[name]), half_square, some_data(), precision="float64")
    assert engine.sequential
    at_once = torch_backend(seeded(small), half_square, some_data(), precision="float64")
    assert not at_once.sequential
    position = at_once.array(0.01 * np.random.default_rng(0).standard_normal((4, at_once.size)))
    for kernel in (KERNELS["hmc"](), KERNELS["sgld"]()):
        seen = []
        for each in (engine, at_once):
            state = each.init(kernel, position, TUNING, each.key(3))
            seen.append(each.run(kernel, state, TUNING, each.key(4), 5)[1]["loss"])
        np.testing.assert_allclose(*seen, rtol=1e-9, atol=1e-12)


def test_attention_of_torch_itself_runs_all_chains_at_once():
    fast = torch.backends.mha.get_fastpath_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not torch_backend(seeded(MODULES["attention"]), half_square, some_data()).sequential
    assert torch.backends.mha.get_fastpath_enabled() == fast


def test_chains_take_turns_where_memory_is_short(monkeypatch):
    wide = torch_backend(seeded(small), half_square, some_data(), precision="float64")
    offsets = np.random.default_rng(0).standard_normal((5, wide.size))
    expected = wide.evaluate(offsets)
    assert wide._gradients._turn_and_block(5, 40) == (5, 40)
    monkeypatch.setattr("phasecast.sampling.backends.torch_gradients.MOST_MEMORY", 1)
    narrow = torch_backend(seeded(small), half_square, some_data(), precision="float64")
    assert narrow._gradients._turn_and_block(5, 40) == (1, 1)
    for one, other in zip(expected, narrow.evaluate(offsets), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_the_module_and_everything_global_stay_as_they_were():
    module, (x, y) = seeded(MODULES["batch norm"]), some_data()
    module.train()
    module[3].eval()
    module[0].bias.requires_grad_(False)
    held = {name: (value, value.clone()) for name, value in [*module.state_dict(keep_vars=True).items()]}
    flags = [part.training for part in module.modules()]
    frozen = [parameter.requires_grad for parameter in module.parameters()]
    inputs, generator = x.clone(), torch.get_rng_state()
    found = pc.torch.llc(module, TensorDataset(x, y), half_square, gamma=100.0, target=0.2, max_grads=2000)
    assert np.isfinite(float(found.estimate))
    for name, value in module.state_dict(keep_vars=True).items():
        assert value is held[name][0]
        assert torch.equal(value, held[name][1])
        assert value.dtype == held[name][1].dtype
    assert [part.training for part in module.modules()] == flags
    assert [parameter.requires_grad for parameter in module.parameters()] == frozen
    assert all(parameter.grad is None for parameter in module.parameters())
    assert torch.equal(torch.get_rng_state(), generator)
    assert torch.equal(x, inputs)
    assert torch.get_default_dtype() == torch.float32


def test_frozen_parameters_and_those_not_asked_for_do_not_move():
    module, data = seeded(small), some_data()
    whole = torch_backend(module, half_square, data)
    last = torch_backend(module, half_square, data, only="2.*")
    assert (whole.size, last.size) == (26, 10)
    offset = np.random.default_rng(0).standard_normal((1, 10))
    padded = np.concatenate([np.zeros((1, 16)), offset], axis=1)
    assert last.evaluate(offset)[0] == pytest.approx(whole.evaluate(padded)[0])
    np.testing.assert_allclose(last.evaluate(offset)[1], whole.evaluate(padded)[1][:, 16:])
    module[0].requires_grad_(False)
    assert torch_backend(module, half_square, data).size == 10


@pytest.mark.parametrize("name", [name for name in KERNELS if not KERNELS[name]().only_jax])
def test_a_chunk_is_a_function_of_its_key(name):
    kernel, engine = KERNELS[name](), torch_backend(seeded(small), half_square, some_data(), batch=Minibatch(10))
    position = engine.array(np.zeros((4, engine.size)))
    state = engine.init(kernel, position, TUNING, engine.key(1))
    once, again, other = (engine.run(kernel, state, TUNING, engine.key(key), 6) for key in (2, 2, 3))
    assert set(once[1]) == {"loss", "radius", "pull", "acceptance", "divergent"}
    for field, values in once[1].items():
        assert isinstance(values, np.ndarray)
        assert values.shape == (6, 4)
        np.testing.assert_array_equal(values, again[1][field])
    assert not np.array_equal(once[1]["loss"], other[1]["loss"])
    assert not any(value.requires_grad for value in once[0].values())


def test_minibatches_are_unbiased_and_anchored_ones_vanish_at_the_centre():
    data = some_data(200)
    full = torch_backend(seeded(small), half_square, data)
    position = full.array(np.full((500, full.size), 0.3))
    exact, slope = full.evaluate(position[:1])
    for anchored in (True, False):
        engine = torch_backend(seeded(small), half_square, data, batch=Minibatch(20, anchored))
        found = engine.target(position, TUNING, engine.key(0))
        errors = found["loss"].std() / 500**0.5
        assert abs(found["loss"].mean() - exact[0]) < 4 * errors
        mean = (found["gradient"] - TUNING.gamma * position).mean(0).numpy() / TUNING.nbeta
        spread = found["gradient"].std(0).numpy() / TUNING.nbeta / 500**0.5
        assert np.all(np.abs(mean - slope[0]) < 5 * spread + 1e-12)
    engine = torch_backend(seeded(small), half_square, data, batch=Minibatch(20))
    still = engine.target(0 * position, TUNING, engine.key(0))
    assert torch.equal(still["loss"], torch.zeros(500, dtype=torch.float64))


def test_keys_are_apart():
    keys = [fold(seed, number) for seed in range(50) for number in range(50)]
    keys += [key for seed in range(50) for key in TorchOps().split(seed, 50)]
    assert len(set(keys)) == len(keys)
    draws = torch.cat([TorchOps().normal(fold(7, number), torch.empty(50)) for number in range(200)])
    assert abs(float(draws.mean())) < 4 / 100
    assert abs(float(draws.var()) - 1) < 4 * (2 / 10_000) ** 0.5
    uniform = np.array([TorchOps().same_for_all(fold(8, number)) for number in range(2000)])
    assert abs(uniform.mean() - 0.5) < 4 * (1 / 12 / 2000) ** 0.5


def test_precision_follows_size_and_what_the_module_insists_on():
    def double(module, **options):
        return torch_backend(module, half_square, some_data(), **options).double

    assert double(seeded(small).double())
    assert not double(seeded(small))
    assert double(seeded(small), precision="float64")
    assert not double(seeded(small).double(), precision="float32")
    loss = torch_backend(seeded(small), half_square, some_data()).loss_at_centre
    for digits, needed in ((0.1, False), (10, True)):  # rounding of nβL, as a multiple of what λ̂ may be off by
        assert double(seeded(small), precision=lambda n, digits=digits: digits * 1e-3 * 2**23 / loss) is needed
    big = nn.Linear(400, 300)
    assert not torch_backend(big, half_square, some_data(4, 400, 300), precision=lambda n: 1e9).double

    class Single(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = small()

        def forward(self, x):
            return self.inner(x) @ torch.ones(2, 2)

    assert not double(seeded(Single).double())
    assert not double(seeded(Single), precision=lambda n: 1e9)


@pytest.mark.slow
def test_tensors_a_dataset_and_a_loader_give_the_same():
    x, y = some_data()
    labels = (y[:, 0] > 0).long()
    forms = [
        (x, labels),
        [x.numpy(), labels.numpy()],
        TensorDataset(x, labels),
        DataLoader(TensorDataset(x, labels), batch_size=7),
    ]
    found = [
        pc.torch.llc(
            seeded(small), form, nn.functional.cross_entropy, only="2.*", gamma=50.0, target=0.3, max_grads=20_000
        )
        for form in forms
    ]
    assert len({float(each.estimate) for each in found}) == 1
    assert found[0].nbeta == pytest.approx(40 / np.log(40))


class Endless(IterableDataset):
    def __iter__(self):
        return iter([])


class Nothing(nn.Module):
    def forward(self, x):
        return x[:, :2]


class Random(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = small()

    def forward(self, x):
        return nn.functional.dropout(self.inner(x), 0.5, training=True)


def nan_net():
    net = small()
    nn.init.constant_(next(net.parameters()), float("nan"))
    return net


X, Y = some_data()
BAD = {
    "no module": (lambda: (lambda x: x, (X, Y), half_square, {}), "module is a function"),
    "no parameters": (lambda: (Nothing(), (X, Y), half_square, {}), "no real parameters"),
    "frozen": (lambda: (small().requires_grad_(False), (X, Y), half_square, {}), "every parameter of the module is"),
    "pattern": (lambda: (small(), (X, Y), half_square, {"only": "layer.*"}), "called like 'layer.*'; use a pattern"),
    "random": (lambda: (Random(), (X, Y), half_square, {}), "two evaluations of the module"),
    "not finite": (lambda: (nan_net(), (X, Y), half_square, {}), "the loss at the module's parameters is nan"),
    "not scalar": (lambda: (small(), (X, Y), lambda o, t: (o - t) ** 2, {}), r"the loss has shape \(40, 2\)"),
    "not a tensor": (lambda: (small(), (X, Y), lambda o, t: 1.0, {}), "the loss has shape"),
    "no gradient": (lambda: (small(), (X, Y), lambda o, t: half_square(o.detach(), t), {}), "no gradient"),
    "no loss": (lambda: (small(), (X, Y), None, {}), "loss is a NoneType"),
    "rows": (lambda: (small(), (X, Y[:5]), half_square, {}), r"shapes \(40, 3\) and \(5, 2\)"),
    "one tensor": (lambda: (small(), X, half_square, {}), "data holds a Tensor"),
    "triples": (lambda: (small(), TensorDataset(X, Y, Y), half_square, {}), "data holds Tensor, Tensor, Tensor"),
    "empty": (lambda: (small(), Endless(), half_square, {}), "no rows"),
    "wrong width": (lambda: (small(), (Y, Y), half_square, {}), "the loss cannot be computed: mat1 and mat2"),
    "device": (lambda: (small(), (X, Y), half_square, {"device": "toaster"}), "no device 'toaster'"),
    "prior": (lambda: (small(), (X, Y), half_square, {"prior": -1}), "prior is -1"),
    "n": (lambda: (small(), (X, Y), half_square, {"n": 0}), "n is 0"),
    "blackjax": (lambda: (small(), (X, Y), half_square, {"sampler": "nuts"}), "nuts runs on JAX only"),
    "sampler": (lambda: (small(), (X, Y), half_square, {"sampler": "hcm"}), "did you mean 'hmc'"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_refused_in_one_line(name):
    build, words = BAD[name]
    module, data, loss, more = seeded(build)
    with pytest.raises(pc.BadInput, match=words) as caught:
        pc.torch.llc(module, data, loss, **more)
    assert "\n" not in str(caught.value)


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit('the bomb went off')",)


def test_weights_come_from_files_that_cannot_run_code(tmp_path):
    from safetensors.torch import save_file

    trained = seeded(small, 5)
    torch.save(trained.state_dict(), tmp_path / "plain.pt")
    torch.save({"model": trained.state_dict(), "epoch": 3}, tmp_path / "nested.pt")
    save_file(trained.state_dict(), tmp_path / "safe.safetensors")
    fresh = seeded(small, 6)
    for name in ("plain.pt", "nested.pt", "safe.safetensors"):
        found = pc.torch.load(fresh, tmp_path / name)
        assert found is not fresh
        assert all(torch.equal(a, b) for a, b in zip(found.parameters(), trained.parameters(), strict=True))

    (tmp_path / "bomb.pkl").write_bytes(pickle.dumps(Bomb()))
    torch.save({"weight": Bomb()}, tmp_path / "bomb.pt")
    torch.save(trained, tmp_path / "module.pt")
    (tmp_path / "bomb.safetensors").write_bytes(pickle.dumps(Bomb()))
    (tmp_path / "torn.pt").write_bytes((tmp_path / "plain.pt").read_bytes()[:100])
    for name in ("bomb.pkl", "bomb.pt", "module.pt", "bomb.safetensors", "torn.pt"):
        with pytest.raises(pc.BadInput, match=f"{name} holds more than weights, or is damaged") as caught:
            pc.torch.load(fresh, tmp_path / name)
        assert "\n" not in str(caught.value)
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(pc.BadInput, match=r"list.pt holds no state_dict"):
        pc.torch.load(fresh, tmp_path / "list.pt")
    torch.save(small(7).state_dict(), tmp_path / "wider.pt")
    with pytest.raises(pc.BadInput, match=r"wider.pt does not fit the module"):
        pc.torch.load(fresh, tmp_path / "wider.pt")
    with pytest.raises(pc.BadInput, match="there is no file"):
        pc.torch.load(fresh, tmp_path / "nowhere.pt")


def test_torch_is_imported_only_when_it_is_used():
    program = "import sys, phasecast as pc; pc.torch.llc; import phasecast.cli; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "False\n"


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    nothing: Any = None
    with pytest.raises(MissingExtra, match=r"torch is not installed; pip install 'phasecast\[torch\]'"):
        pc.torch.llc(nothing, None, nothing)
    with pytest.raises(MissingExtra):
        pc.torch.load(nothing, "x")
