"""Some entries move and the others stay: restricted λ̂ is a closed form, gradients are those of the chosen entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.patches import Rectangle

import phasecast as pc
from phasecast.core.errors import BadInput
from phasecast.sampling.backends.jax import jax_backend
from phasecast.sampling.backends.selection import entries_that_move

RNG = np.random.default_rng(0)
CURVATURES = RNG.uniform(0.5, 2.0, (3, 4))
PARAMS = {"a": RNG.normal(size=(3, 4)), "b": RNG.normal(size=5)}
QUIETLY = {"seconds": None, "progress": False}  # a busy machine must not decide
MASK = np.zeros((3, 4), dtype=bool)
MASK[1] = MASK[2, 2] = True


def uneven_bowl(w):
    """A quadratic minimum at PARAMS, with another curvature for each entry of a."""
    return (CURVATURES * (w["a"] - PARAMS["a"]) ** 2).sum() / 2 + ((w["b"] - PARAMS["b"]) ** 2).sum() / 2


def exact(curvatures, nbeta, gamma):
    return float(np.sum(nbeta * curvatures / (nbeta * curvatures + gamma)) / 2)


def test_the_restricted_coefficient_of_a_bowl_counts_the_chosen_entries():
    found = pc.llc(uneven_bowl, PARAMS, nbeta=50.0, gamma=20.0, only={"a": MASK}, **QUIETLY)
    assert abs(found.value - exact(CURVATURES[MASK], 50.0, 20.0)) < 4 * found.error
    assert abs(found.value - exact(CURVATURES, 50.0, 20.0)) > 6 * found.error  # all entries would be told apart


@pytest.mark.parametrize(
    ("only", "size"),
    [(None, 17), ("a", 12), (["a", "b"], 17), ({"a": MASK}, 5), ({"a": MASK, "b": True}, 10), ({"*": True}, 17)],
)
def test_gradients_are_those_of_the_chosen_entries(only, size):
    backend = jax_backend(uneven_bowl, PARAMS, only=only)
    assert backend.size == size == len(backend.centre_as_numpy)
    offsets = RNG.normal(size=(3, size))
    chosen = entries_that_move(only, {name: value.shape for name, value in PARAMS.items()})
    flat = {"a": CURVATURES.ravel(), "b": np.ones(5)}
    curvatures = np.concatenate([flat[name] if at is None else flat[name][at] for name, at in chosen.items()])
    loss, slope = backend.evaluate(offsets)
    np.testing.assert_allclose(loss, (curvatures * offsets**2).sum(-1) / 2)
    np.testing.assert_allclose(slope, curvatures * offsets)


def test_another_checkpoint_has_its_own_values_in_the_entries_that_stay():
    elsewhere = {name: value + 0.5 for name, value in PARAMS.items()}
    moved = jax_backend(uneven_bowl, PARAMS, only={"a": MASK}).moved_to(elsewhere)
    fresh = jax_backend(uneven_bowl, elsewhere, only={"a": MASK})
    offsets = RNG.normal(size=(2, 5))
    for one, other in zip(moved.evaluate(offsets), fresh.evaluate(offsets), strict=True):
        np.testing.assert_array_equal(one, other)
    assert moved.loss_at_centre == fresh.loss_at_centre
    assert np.array_equal(moved.centre_as_numpy, elsewhere["a"][MASK])


@pytest.mark.parametrize(
    ("only", "words"),
    [
        ({"a": MASK[:2]}, r"the mask of 'a' has shape \(2, 4\); the parameter has \(3, 4\)"),
        ({"a": np.zeros((3, 4), dtype=bool)}, "the mask of 'a' chooses nothing"),
        ({"c": True}, "no parameter is called like 'c'; use a pattern for one of a, b"),
        (["a", "c*"], r"no parameter is called like 'c\*'"),
        ([], "only chooses nothing"),
        ({}, "only chooses nothing"),
        ({"a": MASK.astype(float)}, "give {name: boolean mask or True}"),
        ({"a": False}, r"the mask of 'a' has shape \(\)"),
    ],
)
def test_a_choice_that_fits_no_parameter_is_bad_input_of_one_line(only, words):
    with pytest.raises(BadInput, match=words) as caught:
        pc.llc(uneven_bowl, PARAMS, nbeta=50.0, gamma=20.0, only=only)
    assert "\n" not in str(caught.value)


def test_masks_are_refused_where_they_cannot_be_written_down():
    from phasecast.cli.llc import CommandOptions
    from phasecast.lab.spec import make_spec
    from phasecast.studies.coefficients.llc import LocalCoefficient

    for make in (CommandOptions, lambda **values: make_spec(LocalCoefficient, {"problem": "a:b", **values})):
        with pytest.raises(BadInput, match="a mask can neither be stored nor given on a command line"):
            make(only={"a": MASK})  # pyright: ignore[reportArgumentType] - what is refused
    spec = make_spec(LocalCoefficient, {"problem": "a:b", "only": ["a.*", "b"]})
    assert LocalCoefficient.model_validate_json(spec.model_dump_json()).only == ("a.*", "b")


ONLY = {"0.weight": np.arange(12).reshape(4, 3) % 3 == 0, "3.bias": True}


@pytest.fixture
def on_torch():
    """A back-end of a small network with these initial weights and this choice of entries."""
    torch = pytest.importorskip("torch")
    from phasecast.sampling.backends.torch import torch_backend

    rng = np.random.default_rng(1)
    data = tuple(torch.as_tensor(rng.normal(size=(30, width))) for width in (3, 2))

    def network(seed):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            nn = torch.nn
            return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4), nn.Linear(4, 2)).double().eval()

    def loss(outputs, targets):
        return ((outputs - targets) ** 2).mean()

    return lambda seed, only: (network(seed), torch_backend(network(seed), loss, data, only=only))


def test_gradients_of_a_mask_are_entries_of_the_whole_gradient_in_torch(on_torch):
    some, every = on_torch(0, ONLY)[1], on_torch(0, [*ONLY])[1]
    place = np.flatnonzero(np.concatenate([ONLY["0.weight"].ravel(), [True, True]]))
    assert some.size == len(place) == 6
    offsets = np.random.default_rng(2).normal(size=(2, 6))
    wide = np.zeros((2, every.size))
    wide[:, place] = offsets
    (loss_some, slope_some), (loss_every, slope_every) = some.evaluate(offsets), every.evaluate(wide)
    np.testing.assert_allclose(loss_some, loss_every, rtol=1e-12)
    np.testing.assert_allclose(slope_some, slope_every[:, place], rtol=1e-9, atol=1e-12)
    rows = some.of_rows(lambda outputs, targets: ((outputs - targets) ** 2).mean(-1), offsets)
    np.testing.assert_allclose(rows.mean(1) - some.loss_at_centre, loss_some)


def test_another_checkpoint_has_its_own_values_in_the_entries_that_stay_in_torch(on_torch):
    (module, before), (other, fresh) = on_torch(0, ONLY), on_torch(1, ONLY)
    moved = before.moved_to(other.state_dict())
    again = moved.moved_to(module)
    offsets = np.random.default_rng(2).normal(size=(2, 6))
    for pair in ((moved, fresh), (again, before)):
        (one, one_slope), (two, two_slope) = (backend.evaluate(offsets) for backend in pair)
        np.testing.assert_allclose(one, two, rtol=1e-12)
        np.testing.assert_allclose(one_slope, two_slope, rtol=1e-9, atol=1e-12)
    assert not np.allclose(fresh.evaluate(offsets)[0], before.evaluate(offsets)[0])


def test_components_are_restricted_coefficients_and_print_as_a_table():
    found = pc.llc_components(uneven_bowl, PARAMS, nbeta=50.0, gamma=20.0, target=0.1, **QUIETLY)
    assert found.labels == ("a", "b")
    assert found.sizes == (12, 5)
    for label, curvatures in (("a", CURVATURES), ("b", np.ones(5))):
        assert abs(found[label].value - exact(curvatures, 50.0, 20.0)) < 4 * found[label].error
    assert "12 parameters" in str(found)
    assert [bar.get_width() for bar in found.figure().axes[0].patches if isinstance(bar, Rectangle)] == [
        one.estimate for one in found.results
    ]
    for components, words in (
        ({}, "no components"),
        ({"x": "c.*"}, "no parameter is called like"),
        (None, "no option"),
    ):
        options: Any = {"only": "a"} if components is None else {}
        with pytest.raises(BadInput, match=words):
            pc.llc_components(uneven_bowl, PARAMS, None, components, nbeta=50.0, **options)
    with pytest.raises(BadInput, match="no component is called 'c'; use one of a, b"):
        found["c"]


def test_columns_of_a_linear_module_have_the_coefficient_of_their_own_regression():
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(3).standard_normal((100, 4))
    module = torch.nn.Linear(4, 1, bias=False).double()
    target = module(torch.as_tensor(x)).detach()
    first = np.array([[True, True, True, False]])
    found = pc.torch.llc_components(
        module,
        (torch.as_tensor(x), target),
        lambda outputs, targets: ((outputs - targets) ** 2).mean() / 2,
        {"first three": {"weight": first}, "last": {"weight": ~first}},
        gamma=5.0,
        target=0.1,
        chains=4,
        sampler="langevin",
        **QUIETLY,
    )
    assert found.sizes == (3, 1)
    for mask, result in zip((first[0], ~first[0]), found.results, strict=True):
        curvatures = np.linalg.eigvalsh(x[:, mask].T @ x[:, mask] / 100)
        assert abs(result.value - exact(curvatures, 100 / np.log(100), 5.0)) < 4 * result.error


@pytest.mark.parametrize("own", [True, False], ids=["nn.MultiheadAttention", "nn.Linear"])
def test_the_masks_of_heads_move_one_head_each(own):
    """Weights in the mask of a head change what this head attends to and returns, and no other head."""
    torch = pytest.importorskip("torch")
    d, count = 6, 3
    module = torch.nn.Module()
    module.attention = torch.nn.MultiheadAttention(d, count) if own else torch.nn.Linear(d, 3 * d)
    module.out = torch.nn.Linear(d, d)
    masks = pc.torch.heads(module, "attention", count, output="out")
    assert [*masks] == [f"attention[{head}]" for head in range(count)]
    parameters = dict(module.named_parameters())
    weight = "attention.in_proj_weight" if own else "attention.weight"
    x = torch.randn(5, d, generator=torch.Generator().manual_seed(0))

    def outputs():
        q, k, v = (x @ parameters[weight].T + parameters[weight.replace("weight", "bias")]).split(d, dim=-1)
        q, k, v = (part.view(5, count, d // count).transpose(0, 1) for part in (q, k, v))
        return torch.softmax(q @ k.transpose(1, 2), dim=-1) @ v

    with torch.no_grad():
        before = outputs()
        for head, chosen in enumerate(masks.values()):
            kept = {name: parameters[name].clone() for name in chosen}
            for name, mask in chosen.items():
                parameters[name] += torch.as_tensor(mask.copy())
            changed = (outputs() - before).abs().amax(dim=(1, 2)) > 1e-3
            assert changed.tolist() == [other == head for other in range(count)]
            for name, value in kept.items():
                parameters[name].copy_(value)
    for name in (weight, weight.replace("weight", "bias"), "out.weight"):
        assert np.all(sum(chosen[name].astype(int) for chosen in masks.values()) == 1)  # each entry has one head
    with pytest.raises(BadInput, match="18 rows cannot be q, k and v of 4 heads"):
        pc.torch.heads(module, "attention", 4)
    with pytest.raises(BadInput, match="no layer is called 'qkv'"):
        pc.torch.heads(module, "qkv", 3)
    with pytest.raises(BadInput, match="is not a layer of 6 inputs"):
        pc.torch.heads(module, "attention", 3, output="attention" if own else "nothing")
