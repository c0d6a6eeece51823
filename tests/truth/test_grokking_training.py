"""Tasks are the groups they claim to be, updates are those of the papers, and a training is a function of its seed."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.grokking import (
    checkpoint_steps,
    crossings,
    effective_width,
    grokking_severity,
    mlp,
    quadratic,
    split,
    train,
    transformer,
)
from phasecast.grokking import task as make_task
from phasecast.grokking.optimisers import OPTIMISERS, Step, optimiser
from phasecast.grokking.training import CURVES, centred_loss, compiled_program, minibatches, performance
from phasecast.models.modular import fourier_solution, modular_table, quadratic_network

pytestmark = [pytest.mark.bare, pytest.mark.usefixtures("full_optimisation")]


def cayley(table):
    """The table as a square array of labels."""
    return table.labels.reshape(table.operands, -1)


@pytest.mark.parametrize(
    "table", [make_task("addition", 12), make_task("permutations", degree=4)], ids=lambda t: t.name
)
def test_the_table_is_that_of_a_group(table):
    times = cayley(table)
    everything = np.arange(table.operands)
    assert all((np.sort(line) == everything).all() for line in (*times, *times.T))  # closed, and a Latin square
    neutral = int(np.flatnonzero((times == everything).all(axis=1))[0])
    assert (times[:, neutral] == everything).all()
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(0, table.operands, (3, 500))
    assert (times[times[a, b], c] == times[a, times[b, c]]).all()


def test_permutations_compose_from_the_right_and_do_not_commute():
    table = make_task("permutations", degree=3)
    elements = list(itertools.permutations(range(3)))
    for (a, b), label in zip(table.tokens, table.labels, strict=True):
        assert elements[label] == tuple(elements[a][i] for i in elements[b])
    assert (cayley(table) != cayley(table).T).any()
    assert make_task("permutations", degree=5).rows == 120**2


def test_modular_rules_undo_each_other():
    p = 11
    plus, minus = cayley(make_task("addition", p)), cayley(make_task("subtraction", p))
    times, over = cayley(make_task("multiplication", p)), make_task("division", p)
    a, b = np.divmod(np.arange(p * p), p)
    assert (minus[plus[a, b], b] == a).all()
    assert over.rows == p * (p - 1)
    assert (over.tokens[:, 1] != 0).all()
    assert (times[over.labels, over.tokens[:, 1]] == over.tokens[:, 0]).all()


def test_the_table_of_addition_is_the_one_the_exact_values_are_for():
    inputs, targets = make_task("addition", 7).one_hot()
    for ours, theirs in zip((inputs, targets), modular_table(7), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_parity_flips_with_a_relevant_bit_and_with_no_other():
    table = make_task("sparse_parity", bits=6, relevant=2)
    number = table.tokens @ 2 ** np.arange(6)[::-1]
    assert (number == np.arange(64)).all()
    for bit in range(6):
        flipped = table.labels[np.arange(64) ^ 2 ** (5 - bit)]
        assert (flipped != table.labels).all() if bit < 2 else (flipped == table.labels).all()


def test_the_split_has_the_published_size_and_depends_on_the_seed():
    table = make_task("addition", 23)
    train_rows, others = split(table, 0.4, 0)
    assert len(train_rows) == 211
    assert sorted([*train_rows, *others]) == list(range(529))
    assert (split(table, 0.4, 0)[0] == train_rows).all()
    assert (split(table, 0.4, 1)[0] != train_rows).any()
    assert len(split(table, 0.4, 0, count=144)[0]) == 144
    assert len(split(make_task("addition", 53), 0.4)[0]) == 1123


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda: make_task("division", 24), "24 is not prime"),
        (lambda: make_task("multiplication", 15), "use a prime, e.g. 17"),
        (lambda: make_task("adition"), "did you mean 'addition'"),
        (lambda: make_task("permutations", degree=6), "at most 5"),
        (lambda: make_task("sparse_parity", bits=4, relevant=5), "at most 4"),
        (lambda: split(make_task("addition", 5), 1.0), "between 0 and 1"),
        (lambda: quadratic(make_task("addition", 5), 0), "≥ 1"),
        (lambda: quadratic(make_task("addition", 5), 4, "cube"), "unknown activation"),
        (lambda: small(batch=100), "larger than the 20 training rows"),
        (lambda: small(lr=-1.0), "learning rate"),
        (lambda: small(lr=[]), "lr is empty"),
        (lambda: small(seeds=[]), "seeds is empty"),
        (lambda: small(weight_decay=[]), "weight_decay is empty"),
        (lambda: checkpoint_steps(0), "steps"),
        (lambda: checkpoint_steps(10, 0), "many"),
        (lambda: small(lr=[1e-3, 1e-2], seeds=[0, 1, 2]), "different lengths"),
        (lambda: small(optimiser="adma"), "did you mean 'adam'"),
        (lambda: small(checkpoints=[50]), "from 0 to 40"),
    ],
)
def test_bad_input_says_what_would_be_right(attempt, words):
    with pytest.raises(BadInput, match=words) as caught:
        attempt()
    assert "\n" not in str(caught.value)


def small(**more):
    """A short training on addition mod 5."""
    table = make_task("addition", 5)
    settings = {"steps": 40, "fraction": 0.8, "log_every": 10, **more}
    return list(train(table, settings.pop("network", quadratic(table, 12)), **settings))


@pytest.mark.parametrize("rule", ["addition", "sparse_parity"])
def test_gradients_through_look_ups_are_those_of_the_dense_network(rule):
    table = make_task(rule, 7, bits=5)
    net = quadratic(table, 9)
    params = net.init(3)
    inputs, _ = table.one_hot()
    rows = np.random.default_rng(0).permutation(table.rows)[:20]

    def looked_up(params):
        return centred_loss(net.apply(params, jnp.asarray(table.tokens[rows])), jnp.asarray(table.labels[rows]))

    def dense(params):
        outputs = quadratic_network(params, jnp.asarray(inputs[rows], jnp.float32))
        return centred_loss(jnp.asarray(outputs), jnp.asarray(table.labels[rows]))

    (value, ours), (same, theirs) = (jax.jit(jax.value_and_grad(loss))(params) for loss in (looked_up, dense))
    np.testing.assert_allclose(value, same, rtol=1e-5)
    for name in params:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("block", [10**6, 50, 9])
@pytest.mark.parametrize("rule", ["addition", "sparse_parity"])
def test_the_gradient_by_hand_is_the_automatic_one_however_rows_are_blocked(rule, block, monkeypatch):
    monkeypatch.setattr("phasecast.grokking.networks.BLOCK", block)
    table = make_task(rule, 7, bits=5)
    net = quadratic(table, 9)
    params, tokens, labels = net.init(3), jnp.asarray(table.tokens[3:26]), jnp.asarray(table.labels[3:26])
    automatic = jax.jit(jax.grad(lambda params: centred_loss(net.apply(params, tokens), labels)))(params)
    assert net.gradient is not None
    by_hand = jax.jit(net.gradient)(params, tokens, labels)
    assert by_hand.keys() == automatic.keys()
    for name, leaf in automatic.items():
        np.testing.assert_allclose(by_hand[name], leaf, rtol=1e-4, atol=1e-6)


def test_the_centred_loss_is_the_formula_and_does_not_see_a_shift():
    rng = np.random.default_rng(0)
    outputs, labels = rng.normal(size=(30, 5)), rng.integers(0, 5, 30)
    projection = np.eye(30) - 1 / 30
    expected = 0.5 * np.sum((projection @ (np.eye(5)[labels] - outputs)) ** 2) / 30
    assert float(centred_loss(jnp.asarray(outputs), jnp.asarray(labels))) == pytest.approx(expected, rel=1e-5)
    shifted = outputs + rng.normal(size=5)
    assert float(centred_loss(jnp.asarray(shifted), jnp.asarray(labels))) == pytest.approx(expected, rel=1e-5)


def test_accuracy_is_that_after_centring_by_the_training_rows():
    """The exact solution is right up to a constant of its outputs, which alone would give wrong answers."""
    table = make_task("addition", 7)
    params = fourier_solution(7, phases=4)
    rows, others = split(table, 0.5)
    data = [(jnp.asarray(table.tokens[part]), jnp.asarray(table.labels[part])) for part in (rows, others)]
    net = quadratic(table, params["V"].shape[1])

    def moved(params, tokens):
        return net.apply(params, tokens) + 3.0 * jnp.arange(7)

    found = np.asarray(jax.jit(lambda params: performance(moved, params, *data))(params))
    assert found[0] < 1e-9
    assert (found[2:] == [len(rows), len(others)]).all()


def numpy_adam(w, gradient, steps, lr, decay, decoupled):
    """Algorithm 1 of Kingma & Ba 2015, Algorithm 2 of Loshchilov & Hutter 2019, in float64."""
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t in range(1, steps + 1):
        g = gradient(w) + (0 if decoupled else decay * w)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        step = lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        w = w * (1 - lr * decay if decoupled else 1) - step
    return w


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_updates_are_those_of_the_papers(name):
    rng = np.random.default_rng(1)
    curvature, start = rng.uniform(0.1, 3, 50), rng.normal(size=50)
    rule, w = optimiser(name), jnp.asarray(start, jnp.float32)
    moments = tuple(jnp.zeros(50) for _ in range(rule.moments))
    for t in range(1, 101):
        w, moments = rule.update(w, jnp.asarray(curvature, jnp.float32) * w, moments, Step(float(t), 1e-2, 0.3))
    if name == "sgd":
        expected = start * (1 - 1e-2 * (curvature + 0.3)) ** 100
    else:
        expected = numpy_adam(start, lambda w: curvature * w, 100, 1e-2, 0.3, name == "adamw")
    np.testing.assert_allclose(w, expected, rtol=2e-4, atol=2e-5)


def test_l2_in_the_gradient_and_beside_it_are_not_the_same():
    adam, adamw = (small(optimiser=name, weight_decay=0.1)[-1].params()["W"] for name in ("adam", "adamw"))
    assert np.abs(adam - adamw).max() > 1e-3


def test_a_step_of_training_is_a_step_of_the_optimiser_on_the_whole_training_set():
    table = make_task("addition", 5)
    net = quadratic(table, 12)
    one = small(steps=1, optimiser="sgd", lr=0.1, weight_decay=0.01, seeds=4)[-1].params()
    rows, params = split(table, 0.8, 4)[0], net.init(4)
    tokens, labels = jnp.asarray(table.tokens[rows]), jnp.asarray(table.labels[rows])
    gradient = jax.jit(jax.grad(lambda w: centred_loss(net.apply(w, tokens), labels)))(params)
    for name, leaf in params.items():
        np.testing.assert_allclose(one[name], leaf - 0.1 * (gradient[name] + 0.01 * leaf), rtol=1e-5, atol=1e-6)


def test_minibatches_are_drawn_without_replacement_and_the_same_from_wherever_one_starts():
    whole = minibatches(seed=3, start=0, stop=230, n=40, batch=16)
    assert all(len(set(rows)) == 16 for rows in whole.tolist())
    assert (minibatches(3, 70, 190, 40, 16) == whole[70:190]).all()
    assert (minibatches(4, 0, 230, 40, 16) != whole).any()
    seen = np.bincount(minibatches(3, 0, 4000, 40, 16).ravel(), minlength=40) / 4000
    assert np.abs(seen - 0.4).max() < 4.5 * np.sqrt(0.4 * 0.6 / 4000)  # every row as often as any other


def joined(pieces):
    return {name: np.concatenate([piece.curves[name] for piece in pieces]) for name in ("step", *CURVES)}


@pytest.mark.parametrize("batch", [None, 8])
@pytest.mark.parametrize("rule", OPTIMISERS)
def test_a_training_that_goes_on_from_a_stored_state_has_the_same_bits(rule, batch):
    settings = {"optimiser": rule, "batch": batch, "steps": 130, "checkpoints": [0, 3, 40, 97, 130], "seeds": 2}
    whole = small(**settings)
    assert [piece.step for piece in whole if piece.at_checkpoint] == [0, 3, 40, 97, 130]
    assert (joined(whole)["step"] == np.arange(0, 131, 10)).all()
    for stop in (0, 2, len(whole) - 2):
        rest = small(**settings, state=whole[stop].state)
        assert [piece.number for piece in rest] == [piece.number for piece in whole[stop + 1 :]]
        for name, leaf in whole[-1].state["params"].items():
            np.testing.assert_array_equal(rest[-1].state["params"][name], leaf)
        for name, column in joined(whole[stop + 1 :]).items():
            np.testing.assert_array_equal(joined(rest)[name], column)
    again = small(**settings)
    np.testing.assert_array_equal(again[-1].state["params"]["W"], whole[-1].state["params"]["W"])


def test_checkpoints_do_not_change_the_training():
    plain, watched = small(batch=8), small(batch=8, checkpoints=[1, 2, 33])
    np.testing.assert_array_equal(plain[-1].params()["W"], watched[-1].params()["W"])
    np.testing.assert_array_equal(joined(plain)["train_loss"], joined(watched)["train_loss"])


def test_members_trained_side_by_side_are_those_trained_alone():
    together = small(batch=8, seeds=[0, 1, 1], lr=[1e-3, 1e-3, 1e-2], weight_decay=[0.0, 1e-4, 1e-4])
    for member, (seed, lr, decay) in enumerate([(0, 1e-3, 0.0), (1, 1e-3, 1e-4), (1, 1e-2, 1e-4)]):
        alone = small(batch=8, seeds=seed, lr=lr, weight_decay=decay)
        for name in ("W", "V"):
            np.testing.assert_allclose(
                together[-1].params(member)[name], alone[-1].params()[name], rtol=1e-3, atol=1e-5
            )
        np.testing.assert_allclose(
            joined(together)["train_loss"][:, member], joined(alone)["train_loss"][:, 0], rtol=1e-4
        )


def test_a_member_that_diverges_is_noted_and_the_training_stops_only_when_all_do():
    both = small(lr=[1e-3, 1e12])
    assert both[-1].step == 40
    assert both[-1].diverged[0] == -1
    assert both[-1].diverged[1] == 10
    alone = small(lr=1e12, checkpoints=[20])
    assert alone[-1].step == 20
    assert alone[-1].at_checkpoint
    assert alone[-1].number == alone[-1].total
    assert joined(alone)["step"].tolist() == [0, 10]
    assert small(lr=1e12, state=alone[-1].state) == []


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(mlp, id="mlp"),
        pytest.param(transformer, id="tf", marks=pytest.mark.slow),
        pytest.param(lambda t, k: quadratic(t, k, "relu"), id="relu"),
    ],
)
def test_other_networks_learn_their_training_rows(make):
    table = make_task("addition", 7)
    *_, last = train(table, make(table, 32), steps=300, fraction=0.7, lr=1e-2, log_every=100)
    assert last.curves["train_accuracy"][-1, 0] > 0.95
    assert {leaf.dtype.name for leaf in last.params().values()} == {"float32"}


def test_first_weights_are_uniform_as_torch_draws_them():
    params = quadratic(make_task("addition", 53), 1000).init(0)
    for leaf, inputs in ((params["W"], 106), (params["V"], 1000)):
        scaled = np.sort(leaf.ravel()) * np.sqrt(inputs)
        assert -1 <= scaled[0] < -0.999
        assert 0.999 < scaled[-1] <= 1
        assert np.abs(scaled - np.linspace(-1, 1, len(scaled))).max() < 2 * 1.95 / np.sqrt(len(scaled))  # Kolmogorov


def test_checkpoints_come_early_and_late():
    steps = checkpoint_steps(6000, 20)
    assert steps[0] == 0
    assert steps[-1] == 6000
    assert 18 <= len(steps) <= 22
    assert sum(step <= 100 for step in steps) >= 5
    assert max(np.diff(steps)) <= 700


def test_crossings_severity_and_width_are_their_definitions():
    steps = np.arange(0, 1001)
    train_accuracy, validation = np.where(steps >= 100, 1.0, 0.0), np.where(steps >= 700, 1.0, 0.0)
    assert crossings(steps, train_accuracy, validation) == {"train99": 100, "val50": 700, "val95": 700}
    gsm = grokking_severity(steps, train_accuracy, validation)
    assert gsm.value == pytest.approx(np.abs(train_accuracy - validation)[1:].mean(), abs=2e-3)
    never = grokking_severity(steps, train_accuracy, 0 * validation)
    assert str(never.status) == "refused"
    assert "not generalised" in never.reasons[0]
    assert crossings(steps, train_accuracy, 0 * validation)["val50"] is None
    assert effective_width(np.diag([1.0, 0.5, 0.011, 0.009, 0.0])) == 3


def medians(table, width, settings, **numbers):
    """Median over seeds of functions of (curves of a member, its last weights); see :func:`of_seeds`."""
    return {name: np.median(each) for name, each in of_seeds(table, width, settings, **numbers).items()}


def median_and_error(each):
    """The median with its standard error, that of a mean times √(π/2)."""
    return np.median(each), np.sqrt(np.pi / 2) * np.std(each, ddof=1) / np.sqrt(len(each))


def of_seeds(table, width, settings, **numbers):
    """Functions of (curves of a member, its last weights), for each seed."""
    pieces = list(train(table, quadratic(table, width), **settings))
    curves, members = joined(pieces), len(pieces[-1].diverged)
    found = {}
    for name, of in numbers.items():
        each = [
            of(curves["step"], *(curves[kind][:, member] for kind in CURVES[2:]), pieces[-1].params(member))
            for member in range(members)
        ]
        found[name] = np.array([np.nan if one is None else one for one in each], dtype=float)
    return found


def alive(steps, train_accuracy, validation, params):
    return effective_width(params["V"])


def final(steps, train_accuracy, validation, params):
    return validation[-1]


def passed(level):
    return lambda steps, train_accuracy, validation, params: crossings(steps, train_accuracy, validation)[level]


def severity(steps, train_accuracy, validation, params):
    return grokking_severity(steps, train_accuracy, validation).value


def test_trained_on_a_network_keeps_two_units_for_each_nonzero_residue():
    """K_eff settles at 2(p − 1) for p = 23 and a larger learning rate, not at a number that grows with the width."""
    found = medians(make_task("addition", 23), 128, {"steps": 5000, "lr": 5e-3}, alive=alive, final=final)
    assert found == {"alive": 44, "final": 1}


def test_the_demo_memorises_at_once_and_generalises_after_four_thousand_steps():
    settings = {"steps": 6000, "seeds": range(5)}
    found = of_seeds(make_task("addition", 23), 128, settings, known=passed("train99"), rule=passed("val95"))
    assert np.median(found["known"]) <= 100
    middle, error = median_and_error(found["rule"])
    assert abs(middle - 4150) < 3 * error
    assert error < 0.1 * middle


@pytest.mark.slow
@pytest.mark.parametrize("p", [23, 31])
def test_the_effective_width_settles_at_two_units_a_residue_for_most_seeds(p):
    settings = {"steps": 5000, "lr": 5e-3, "seeds": range(3), "log_every": 100}
    assert medians(make_task("addition", p), 128, settings, alive=alive)["alive"] == 2 * (p - 1)


@pytest.mark.slow
def test_the_baseline_of_the_paper_generalises_when_published():
    settings = {"steps": 5000, "weight_decay": 1e-5, "batch": 128, "log_every": 50, "seeds": range(3)}
    found = medians(make_task("addition", 53), 1000, settings, rule=passed("val50"), severity=severity)
    assert found["rule"] == pytest.approx(3366, rel=0.15)  # chosen: the paper reports one training and no spread
    assert found["severity"] == pytest.approx(0.61, abs=0.03)  # at T = 5000


@pytest.mark.slow
@pytest.mark.parametrize("p", [23, 31])
def test_about_two_and_a_half_times_m_log_m_rows_are_needed(p):
    def accuracy(ratio):
        count = round(ratio * p * np.log(p))
        settings = {"steps": 3000, "lr": 5e-3, "count": count, "seeds": range(3), "log_every": 100}
        return medians(make_task("addition", p), 256, settings, final=final)["final"]

    assert accuracy(2.0) < 0.02
    assert 0.02 < accuracy(2.5) < 1
    assert accuracy(2.75) > 0.99
    assert accuracy(3.0) > 0.99


def test_trainings_that_differ_in_their_numbers_alone_are_compiled_once():
    def go(table, seed, lr):
        *_, last = train(table, quadratic(table, 6), steps=20, fraction=0.8, seeds=seed, lr=lr)
        return last.params()["V"]

    table, other = make_task("addition", 5), make_task("subtraction", 5)
    program = compiled_program(quadratic(table, 6), optimiser("adam"), 20, 5000, 1)
    first = go(table, 1, 1e-3)
    assert program.advance._cache_size() == 1  # pyright: ignore[reportAttributeAccessIssue]
    assert not np.array_equal(first, go(table, 2, 1e-3))
    go(other, 1, 3e-3)
    assert np.array_equal(first, go(table, 1, 1e-3))
    assert program.advance._cache_size() == 1  # pyright: ignore[reportAttributeAccessIssue]
