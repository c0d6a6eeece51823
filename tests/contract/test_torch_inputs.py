"""What people pass to pc.torch.llc: batches and outputs of any form, tokens, masks, losses of any reduction."""

from __future__ import annotations

import copy
import pickle
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import phasecast as pc
from phasecast.coefficients.llc.options import LLCOptions
from phasecast.coefficients.llc.problems import TorchProblem, on_backend
from phasecast.sampling import KERNELS, Tuning
from phasecast.sampling.backends.protocol import Minibatch

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402
from torch.utils.data import DataLoader, Dataset, TensorDataset  # noqa: E402

from phasecast.sampling.backends.torch import torch_backend  # noqa: E402
from phasecast.sampling.backends.torch_data import read_examples  # noqa: E402
from phasecast.sampling.backends.torch_probe import Kind  # noqa: E402
from torch_problems import _one_thread, half_square, seeded  # noqa: E402, F401

ROWS, LENGTH, WORDS = 40, 6, 5


class Sum(nn.Module):
    """Two inputs."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(3, 2), nn.Linear(2, 2)

    def forward(self, a, b):
        return torch.tanh(self.left(a)) + self.right(b)


class Reader(nn.Module):
    """A language model as Hugging Face writes them: named inputs, an attention mask, and its own shifted loss."""

    def __init__(self, tied=False):
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, 4), nn.Linear(4, WORDS, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, input_ids, attention_mask=None, labels=None):
        hidden = self.words(input_ids)
        if attention_mask is not None:
            hidden = hidden * attention_mask[..., None]
        logits = self.head(torch.tanh(hidden.cumsum(1)))
        loss = None
        if labels is not None:
            loss = cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return SimpleNamespace(logits=logits, loss=loss)


class AsDictionary(Reader):
    def forward(self, input_ids, attention_mask=None, labels=None) -> Any:
        outputs = super().forward(input_ids, attention_mask, labels)
        return {"logits": outputs.logits, "loss": outputs.loss}


class Logits(Reader):
    def forward(self, input_ids, attention_mask=None, labels=None) -> Any:
        return super().forward(input_ids).logits


def per_token(logits, labels):
    return cross_entropy(logits.flatten(0, 1), labels.flatten())


def pairs(rows=ROWS):
    return seeded(lambda: (torch.randn(rows, 3), torch.randn(rows, 2)), 1)


def tokens(rows=ROWS):
    return seeded(lambda: torch.randint(WORDS, (rows, LENGTH)), 2)


def padded(rows=ROWS):
    """Sequences of different lengths: ids, a mask, and labels that are -100 beyond the end."""
    ids = tokens(rows)
    lengths = seeded(lambda: torch.randint(2, LENGTH + 1, (rows,)), 3)
    mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    return {"input_ids": ids * mask, "attention_mask": mask, "labels": torch.where(mask == 1, ids, -100)}


class Items(Dataset):
    """Dictionaries, one for each row."""

    def __init__(self, batch):
        self.batch = batch

    def __len__(self):
        return len(self.batch["input_ids"])

    def __getitem__(self, row):
        return {name: part[row] for name, part in self.batch.items()}


def loss_and_slope(module, data, loss, **options):
    backend = torch_backend(module, loss, data, precision="float64", **options)
    _, slope = backend.evaluate(np.zeros((1, backend.size)))
    return backend.loss_at_centre, slope[0]


def plainly(module, value_of):
    """L and ∇L of ordinary torch in float64."""
    module = copy.deepcopy(module).double().eval()
    value = value_of(module)
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return value.item(), torch.cat([slope.reshape(-1) for slope in torch.autograd.grad(value, parameters)]).numpy()


def same(one, other):
    assert one[0] == pytest.approx(other[0], rel=1e-10)
    np.testing.assert_allclose(one[1], other[1], rtol=1e-9, atol=1e-12)


def test_several_inputs_by_place_or_by_name_give_what_the_module_gives():
    module, (a, y) = seeded(Sum), pairs()
    b = seeded(lambda: torch.randn(ROWS, 2), 4)
    expected = plainly(module, lambda net: half_square(net(a.double(), b.double()), y.double()))
    forms = [
        ((a, b), y),
        ([a.numpy(), b.numpy()], y.numpy()),
        ({"a": a, "b": b}, y),
        {"b": b, "a": a, "labels": y, "unused": y},
        DataLoader(TensorDataset(a, b, y), batch_size=7, collate_fn=_two_and_one),
    ]
    for form in forms:
        same(loss_and_slope(module, form, half_square), expected)


def _two_and_one(rows):
    a, b, y = (torch.stack(parts) for parts in zip(*rows, strict=True))
    return (a, b), y


@pytest.mark.parametrize("model", [Reader, AsDictionary])
def test_outputs_with_a_loss_or_logits_are_read_as_the_rule_says(model):
    module, batch = seeded(model), padded()
    own = plainly(module, lambda net: _field(net(**batch), "loss"))
    shifted = plainly(
        module, lambda net: per_token(_field(net(**batch), "logits")[:, :-1].contiguous(), batch["labels"][:, 1:])
    )
    same(own, shifted)
    same(loss_and_slope(module, batch, None), own)  # without a loss, the module's own
    for form in (Items(batch), DataLoader(Items(batch), batch_size=9), [batch]):
        same(loss_and_slope(module, form, None), own)
    plain = plainly(module, lambda net: per_token(_field(net(**batch), "logits"), batch["labels"]))
    same(loss_and_slope(module, batch, per_token), plain)  # it fails on the outputs, so it receives their logits
    same(loss_and_slope(module, batch, lambda outputs, labels: per_token(_field(outputs, "logits"), labels)), plain)
    same(loss_and_slope(module, batch, lambda outputs, _: _field(outputs, "loss")), own)


def _field(outputs, name):
    return outputs[name] if isinstance(outputs, dict) else getattr(outputs, name)


def test_batches_padded_to_different_lengths_are_padded_to_the_longest():
    module, batch = seeded(Reader), padded()
    order = torch.argsort(batch["attention_mask"].sum(1))
    ragged = []
    for rows in order.split(8):
        longest = int(batch["attention_mask"][rows].sum(1).max())
        ragged.append({name: part[rows, :longest] for name, part in batch.items()})
    same(loss_and_slope(module, ragged, None), plainly(module, lambda net: net(**batch).loss))
    with pytest.raises(pc.BadInput, match="rows of different batches have shapes"):
        read_examples([{name: batch[name] for name in ("input_ids", "labels")} for batch in ragged])


def test_a_shuffling_loader_is_read_in_order_and_nothing_global_is_drawn():
    x, y = pairs()
    own = torch.Generator().manual_seed(5)
    kept = [
        [x[:30], y[:30]],
        read_examples(DataLoader(TensorDataset(x, y), 8, sampler=torch.utils.data.SubsetRandomSampler(range(30)))),
    ]
    assert sorted(kept[0][0][:, 0].tolist()) == sorted(kept[1].tensors[0][:, 0].tolist())
    before = (
        torch.get_rng_state(),
        random.getstate(),
        np.random.get_state(legacy=False)["state"]["key"].copy(),  # noqa: NPY002
        own.get_state(),
    )
    loaders = [
        DataLoader(TensorDataset(x, y), 7, shuffle=True, drop_last=drop, generator=own) for drop in (False, True)
    ]
    for loader in loaders:
        for _ in range(2):
            read = read_examples(loader)
            assert read is not None
            assert torch.equal(read.tensors[0], x)
            assert torch.equal(read.tensors[1], y)
    drawn = [
        read_examples(DataLoader(TensorDataset(x, y), 7, sampler=torch.utils.data.RandomSampler(x, True, 20)))
        for _ in range(2)
    ]
    assert drawn[0] is not None
    assert drawn[1] is not None
    assert torch.equal(drawn[0].tensors[0], drawn[1].tensors[0])
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.array_equal(np.random.get_state(legacy=False)["state"]["key"], before[2])  # noqa: NPY002
    assert torch.equal(own.get_state(), before[3])


LOSSES = {
    "torch": (lambda logits, labels: per_token(logits, labels), lambda labels: labels != -100),
    "pad 0": (
        lambda logits, labels: cross_entropy(logits.flatten(0, 1), labels.clamp(min=0).flatten(), ignore_index=0),
        lambda labels: labels > 0,
    ),
    "row means": (
        lambda logits, labels: (_tokens(logits, labels).sum(1) / (labels != -100).sum(1)).mean(),
        None,
    ),
    "row sums": (lambda logits, labels: _tokens(logits, labels).sum(1).mean(), None),
}


def _tokens(logits, labels):
    return cross_entropy(logits.movedim(-1, 1), labels, reduction="none")


@pytest.mark.parametrize("name", LOSSES)
def test_blocks_of_rows_make_up_the_loss_whatever_it_counts(name, monkeypatch):
    loss, counted = LOSSES[name]
    module, batch = seeded(Reader), padded()
    expected = plainly(module, lambda net: loss(net(**batch).logits, batch["labels"]))
    same(loss_and_slope(module, batch, loss), expected)
    monkeypatch.setattr("phasecast.sampling.backends.torch_gradients.MOST_MEMORY", 30_000)
    backend = torch_backend(module, loss, batch, precision="float64")
    _, block = backend._gradients._turn_and_block(1, ROWS)
    assert 1 < block < ROWS
    same((backend.loss_at_centre, backend.evaluate(np.zeros((3, backend.size)))[1][1]), expected)
    rows = torch.arange(ROWS)[:, None].repeat(1, 1)  # each row once as a minibatch: their mean is the loss
    value, slope = backend._gradients.of_rows(backend._centre, torch.zeros(ROWS, backend.size).double(), rows)
    same((float(value.mean()), slope.mean(0).numpy()), expected)
    terms = ROWS if counted is None else int(counted(batch["labels"]).sum())
    assert backend.probe.terms == terms
    assert f"n = {terms:,}" in backend.probe.note


def test_n_is_the_tokens_of_a_loss_per_token_and_the_result_says_so():
    ids = tokens(rows=50)
    for module, data, loss, n, words in (
        (Logits(), (ids, ids), per_token, 300, "n = 300 tokens (50 rows × 6)"),
        (Reader(), {"input_ids": ids, "labels": ids}, None, 250, "n = 250 tokens (50 rows × 5)"),
        (Logits(), (ids, ids), lambda logits, labels: 6 * per_token(logits, labels), 50, "n = 50 rows: the loss is"),
        (nn.Linear(3, 2), pairs(), half_square, 40, "n = 40 rows"),
    ):
        sampled = on_backend(TorchProblem(module, data, loss), LLCOptions())
        assert sampled.n == n
        assert sampled.note.startswith(words)
        assert sampled.notes == ()
    sampled = on_backend(TorchProblem(Logits(), (ids, ids), per_token, n=50), LLCOptions())
    assert (sampled.n, sampled.note) == (50, "n = 50, as given; by default n = 300 tokens (50 rows × 6)")


def test_rows_without_counted_targets_are_left_out_with_a_word():
    module, batch = seeded(Reader), padded()
    batch["labels"][5] = -100
    backend = torch_backend(module, per_token, batch, precision="float64", batch=Minibatch(1))
    assert backend.rows == ROWS - 1
    assert backend.probe.notes == ("1 rows have no counted targets and are left out",)
    assert backend.loss_at_centre == pytest.approx(
        plainly(module, lambda net: per_token(net(**batch).logits, batch["labels"]))[0]
    )


def test_a_sum_or_a_multiple_is_noticed_and_a_mean_is_not():
    x, y = pairs()
    labels = (y[:, 0] > 0).long()
    module = seeded(lambda: nn.Linear(3, 2))

    def notes(loss, targets):
        return on_backend(TorchProblem(module, (x, targets), loss), LLCOptions()).notes

    assert notes(half_square, y) == notes(cross_entropy, labels) == ()
    assert "doubles when every row is given twice" in notes(lambda o, t: ROWS * half_square(o, t) * len(o) / ROWS, y)[0]
    assert "doubles" in notes(nn.CrossEntropyLoss(reduction="sum"), labels)[0]
    assert "0.5 times the mean cross-entropy" in notes(lambda o, t: cross_entropy(o, t) / 2, labels)[0]


def test_a_summed_loss_is_the_same_in_blocks(monkeypatch):
    x, y = pairs()
    module = seeded(lambda: nn.Linear(3, 2))
    total = plainly(module, lambda net: ((net(x.double()) - y.double()) ** 2).sum())
    monkeypatch.setattr("phasecast.sampling.backends.torch_gradients.MOST_MEMORY", 300)
    backend = torch_backend(module, lambda o, t: ((o - t) ** 2).sum(), (x, y), precision="float64")
    assert backend._gradients._turn_and_block(1, ROWS)[1] < ROWS
    same((backend.loss_at_centre, backend.evaluate(np.zeros((1, backend.size)))[1][0]), total)


def test_a_loss_that_compares_rows_is_evaluated_on_all_of_them(monkeypatch):
    x, y = pairs()
    module = seeded(lambda: nn.Linear(3, 2))

    def contrast(outputs, targets):
        return cross_entropy(outputs @ targets.T, torch.arange(len(outputs)))

    monkeypatch.setattr("phasecast.sampling.backends.torch_gradients.MOST_MEMORY", 300)
    backend = torch_backend(module, contrast, (x, y), precision="float64")
    assert backend.probe.kind is Kind.WHOLE
    expected = plainly(module, lambda net: contrast(net(x.double()), y.double()))
    same((backend.loss_at_centre, backend.evaluate(np.zeros((1, backend.size)))[1][0]), expected)


def dropping():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))


def test_train_mode_is_left_for_eval_mode_with_a_word():
    module, data = seeded(dropping).train(), pairs()
    sampled = on_backend(TorchProblem(module, data, half_square), LLCOptions())
    assert any("was in train mode" in note for note in sampled.notes)
    assert sampled.backend.loss_at_centre == pytest.approx(
        half_square(copy.deepcopy(module).eval()(data[0]), data[1]).item(), rel=1e-5
    )
    assert on_backend(TorchProblem(module.eval(), data, half_square), LLCOptions()).notes == ()
    assert on_backend(TorchProblem(nn.Linear(3, 2).train(), data, half_square), LLCOptions()).notes == ()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_short_weights_are_sampled_in_float32(dtype):
    module, (x, y) = seeded(lambda: nn.Linear(3, 2)).to(getattr(torch, dtype)), pairs()
    backend = torch_backend(module, half_square, (x.to(getattr(torch, dtype)), y))
    assert backend.array(np.zeros(1)).dtype == (torch.float64 if dtype == "float64" else torch.float32)
    expected = half_square(module.double()(x.to(getattr(torch, dtype)).double()), y.double()).item()
    assert backend.loss_at_centre == pytest.approx(expected, rel=1e-5)


def test_tied_and_frozen_weights_move_as_one_and_not_at_all():
    batch, tied = padded(), seeded(lambda: Reader(tied=True))
    assert torch_backend(tied, None, batch).size == WORDS * 4
    same(loss_and_slope(tied, batch, None), plainly(tied, lambda net: net(**batch).loss))
    frozen = seeded(Reader)
    frozen.words.requires_grad_(False)
    assert torch_backend(frozen, None, batch).size == WORDS * 4
    same(loss_and_slope(frozen, batch, None), plainly(frozen, lambda net: net(**batch).loss))


def test_compiled_modules_and_parts_are_those_they_wrap():
    module, data = seeded(dropping).eval(), pairs()
    expected = loss_and_slope(module, data, half_square)
    same(loss_and_slope(torch.compile(module, backend="eager"), data, half_square), expected)
    partly = copy.deepcopy(module)
    partly[0] = torch.compile(partly[0], backend="eager")
    same(loss_and_slope(partly, data, half_square), expected)
    backend = torch_backend(partly, half_square, data, precision="float64")
    assert backend.names[0] == "0.weight"
    assert backend.moved_to(partly).loss_at_centre == expected[0]
    assert isinstance(partly[0], torch._dynamo.OptimizedModule)


def test_the_answer_is_the_same_in_every_form_of_the_data():
    x, y = pairs()
    labels = (y[:, 0] > 0).long()
    module = seeded(lambda: nn.Linear(3, 2))
    forms = [(x, labels), DataLoader(TensorDataset(x, labels), 7, shuffle=True), {"input": x, "labels": labels}]
    settings = {"gamma": 50.0, "target": 0.3, "sampler": "langevin", "chains": 2, "max_grads": 2000}
    answers = [pc.torch.llc(module, form, cross_entropy, **settings).estimate for form in forms]
    assert len(set(answers)) == 1


def test_set_up_is_counted_and_looks_at_few_rows():
    x, y = pairs(rows=20_000)
    module = seeded(lambda: nn.Linear(3, 2))
    seen = []
    module.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    backend = torch_backend(module, half_square, (x, y))
    evaluated = sum(seen) / len(x)
    assert evaluated / 3 < backend.setup_gradients < 1
    assert sorted(set(seen))[-2] <= 256  # only L(w*) needs all rows
    counted = backend.setup_gradients
    backend.evaluate(np.zeros((2, backend.size)))  # records a graph, which is compilation
    assert backend.setup_gradients == counted
    assert backend.moved_to(module).setup_gradients == pytest.approx(1 / 3)


def test_set_up_looks_at_fewer_rows_where_they_are_large(monkeypatch):
    monkeypatch.setattr("phasecast.sampling.backends.torch_probe.MOST_MEMORY", 50_000)
    probe = torch_backend(seeded(Reader), per_token, padded(200)).probe
    assert 2 < probe.few < 200
    assert probe.few * probe.bytes_per_row <= 50_000


def test_an_anchored_minibatch_costs_the_same_whatever_the_number_of_rows():
    tuning = Tuning(0.01, 3.0, 1.0, 100.0, 1.0)
    seen = []
    for rows in (100, 10_000):
        module = seeded(lambda: nn.Linear(3, 2))
        backend = torch_backend(module, half_square, pairs(rows), batch=Minibatch(16))
        kernel = KERNELS["sgld"]()
        state = backend.init(kernel, backend.normal(1, 2), tuning, 0)
        calls = []
        record = backend._gradients._evaluate
        backend._gradients._evaluate = lambda *given, record=record, calls=calls, **more: (
            calls.append((len(given[1]), tuple(given[2][0].shape))) or record(*given, **more)
        )
        backend.run(kernel, state, tuning, 1, 3)
        seen.append(calls)
    assert seen[0] == seen[1] == [(4, (4, 16, 3))] * 3  # w and w* of two chains in one call for each step


def module_level_loss(outputs, targets):
    return half_square(outputs, targets)


def test_results_pickle_and_their_chains_go_on_where_the_loss_can_be_pickled():
    module, data = seeded(lambda: nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2))), pairs()
    settings = {"gamma": 50.0, "target": 0.5, "sampler": "langevin", "chains": 2, "max_grads": 1000}

    def rows(outputs, targets):
        return ((outputs - targets) ** 2).sum(-1) / 2

    result = pc.torch.llc(module, data, module_level_loss, **settings)
    loaded = pickle.loads(pickle.dumps(result))
    assert (loaded.estimate, str(loaded.status)) == (result.estimate, str(result.status))
    np.testing.assert_array_equal(loaded.sample_losses(rows, 3, 2), result.sample_losses(rows, 3, 2))
    lost = pickle.loads(pickle.dumps(pc.torch.llc(module, data, lambda o, t: half_square(o, t), **settings)))
    assert lost.estimate == result.estimate
    with pytest.raises(pc.BadInput, match="cannot go on, because its model or loss was not pickled"):
        lost.sample_losses(rows, 3, 2)


def test_losses_of_rows_and_of_tokens_at_any_offset(monkeypatch):
    monkeypatch.setattr("phasecast.sampling.backends.torch_gradients.MOST_MEMORY", 30_000)
    module, batch = seeded(Reader), padded()
    backend = torch_backend(module, per_token, batch, precision="float64")
    labels, offsets = batch["labels"], np.zeros((2, backend.size))
    each = backend.of_rows(_tokens, offsets)
    assert each.shape == (2, ROWS, LENGTH)
    assert each.sum() / 2 / int((labels != -100).sum()) == pytest.approx(backend.loss_at_centre)
    flat = backend.of_rows(lambda o, t: cross_entropy(o.flatten(0, 1), t.flatten(), reduction="none"), offsets)
    np.testing.assert_allclose(flat, each, rtol=1e-12)
    by_row = backend.of_rows(lambda o, t: _tokens(o, t).sum(1), offsets)
    np.testing.assert_allclose(by_row, each.sum(2))
    with pytest.raises(pc.BadInput, match="row_losses has shape"):
        backend.of_rows(per_token, offsets)


BAD = {
    "words": ({"input_ids": tokens(), "text": ["a"] * ROWS}, r"data holds a dictionary whose 'text' \(list\)"),
    "other names": ({"pixels": tokens(), "labels": tokens()}, "loss cannot be computed|the module takes input_ids"),
    "no loss": ({"input_ids": tokens()}, "without a loss"),
    "uneven": ({"input_ids": tokens(), "labels": tokens(7)}, r"shapes \(40, 6\) and \(7, 6\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_batches_that_do_not_fit_are_refused_in_one_line(name):
    data, words = BAD[name]
    with pytest.raises(pc.BadInput, match=words) as caught:
        pc.torch.llc(Reader(), data)
    assert "\n" not in str(caught.value)
