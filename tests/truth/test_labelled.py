"""A linear student on rows and labels: the recursion of the moments against averages over all sequences, and SGD."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.core.results import Status
from phasecast.online import Spectrum, curve_of, sgd_curve
from phasecast.online.linear import gaussian_errors
from phasecast.online.own_data.labelled import LabelModel, _Student, prepare


def plain_model(rows, y):
    """Least squares without the corrections for fresh rows: the rows are the whole population."""
    inputs = rows.shape[1]
    weights = np.linalg.lstsq(rows / np.sqrt(inputs), y, rcond=None)[0]
    residuals = y - rows @ weights / np.sqrt(inputs)
    return LabelModel(rows, np.mean(rows**2, axis=0), weights, np.outer(weights, weights), residuals)


@pytest.mark.parametrize("learn", [1, 2])
def test_the_moments_are_the_average_over_every_sequence_of_rows(learn):
    rng = np.random.default_rng(3)
    rows, y, _ = prepare(rng.exponential(size=(5, 2)) @ [[1.0, 0.3], [0.0, 2.0]], rng.normal(size=5))
    lr, steps = 0.7, 4
    found = _Student(lr, 0.0, learn, np.arange(steps + 1)).exact(plain_model(rows, y))
    moving = np.arange(2) < learn
    for length in range(steps + 1):
        errors = []
        for sequence in itertools.product(range(5), repeat=length):
            J = np.zeros(2)
            for at in sequence:
                J = J + lr * (y[at] - J @ rows[at] / np.sqrt(2)) * rows[at] * moving / np.sqrt(2)
            errors.append(np.mean((y - rows @ J / np.sqrt(2)) ** 2) / 2)
        assert found[length] == pytest.approx(np.mean(errors), rel=1e-12)


def test_gaussian_rows_without_noise_and_with_a_random_teacher_are_the_known_curve():
    spectrum = Spectrum.power_law(8, 0.5)
    alphas = np.array([0.0, 1.0, 5.0])
    known = sgd_curve(spectrum, 8, 0.6, 0.5, alphas).eps
    start = np.full(8, 1.25)
    steps = np.rint(alphas * 8).astype(int)
    np.testing.assert_allclose(gaussian_errors(spectrum.eigenvalues, start, 0.0, 0.6, steps, 8), known, rtol=1e-10)


@pytest.mark.parametrize("trained", [3, 6])
def test_the_gaussian_curve_is_its_recursion(trained):
    rng = np.random.default_rng(0)
    values, start, noise, lr = np.sort(rng.exponential(size=6))[::-1], rng.exponential(size=6), 0.3, 0.8
    D, rate, errors = start.copy(), lr / 6, []
    moving = np.arange(6) < trained
    for _ in range(40):
        errors.append((values @ D / 6 + noise) / 2)
        gain = rate**2 * (2 * values**2 * D + values * (values @ D)) + rate * lr * values * noise
        D = D + moving * (gain - 2 * rate * values * D)
    np.testing.assert_allclose(gaussian_errors(values, start, noise, lr, np.arange(40), trained), errors, rtol=1e-10)


def test_gaussian_rows_follow_the_gaussian_curve_of_their_population():
    rng = np.random.default_rng(1)
    scale, teacher = np.array([2.0, 1.0, 0.5, 0.25]), np.array([1.0, -0.5, 2.0, 0.0])
    rows = rng.normal(size=(4000, 4)) * scale
    y = rows @ teacher + 0.7 * rng.normal(size=4000)
    alphas = [0, 1, 4, 20]
    found = curve_of(rows, y, lr=0.4, alphas=alphas)
    values = scale**2 / np.mean(scale**2)
    start = teacher**2 * scale**2 * 4 / values
    truth = gaussian_errors(values, start, 0.49, 0.4, np.array(alphas) * 4, 4)
    assert np.all(np.abs(found.eps - truth) < 3 * np.asarray(found.error) + 1e-3 * truth)
    assert found.noise == pytest.approx(0.49, rel=0.05)
    sampling = 3 * np.sqrt(2 / 4000) * (teacher * scale) ** 2 + 0.02  # of a variance from 4000 rows
    assert np.all(np.abs(found.power - (teacher * scale) ** 2) < sampling)
    np.testing.assert_allclose(found.gaussian, found.eps, rtol=0.05)


@pytest.mark.parametrize(("name", "lr"), [("load_diabetes", 0.3), ("load_breast_cancer", 0.1), ("load_wine", 0.3)])
def test_real_rows_with_real_labels_follow_the_prediction_until_they_run_out(name, lr):
    datasets = pytest.importorskip("sklearn.datasets")
    loaded = getattr(datasets, name)()
    rows, y = loaded.data / loaded.data.std(axis=0), loaded.target / loaded.target.std()
    count, inputs = rows.shape
    found = curve_of(rows, y, lr=lr, alphas=np.linspace(0.5, 0.79 * count / inputs, 6), simulate=60)
    assert found.status is Status.OK
    assert found.simulation is not None
    gap = np.abs(found.eps - found.simulation["eps"]) / np.hypot(found.error, found.simulation["error"])
    assert np.all(gap < 2)
    shuffled = curve_of(rows, np.random.default_rng(0).permutation(y), lr=lr, alphas=found.alpha)
    wrong = np.abs(shuffled.eps - found.simulation["eps"]) / np.hypot(shuffled.error, found.simulation["error"])
    assert np.all(wrong[1:] > 2)  # labels of other rows are told apart


def test_rows_that_run_out_are_not_simulated_and_divergence_is_refused():
    rng = np.random.default_rng(2)
    rows, y = rng.normal(size=(60, 5)), rng.normal(size=60)
    found = curve_of(rows, y, lr=0.2, alphas=[1, 9, 30], simulate=3)
    assert found.simulation is not None
    assert np.isnan(found.simulation["eps"]).tolist() == [False, False, True]
    assert "run out" in found.reasons[0]
    assert curve_of(rows, y, lr=4.0, alphas=[1, 100]).status is Status.REFUSED


@pytest.mark.parametrize(
    ("rows", "labels", "words"),
    [
        (np.eye(3), [1, 2, 3], "rows in"),
        (np.zeros((9, 2)), np.arange(9), "rows are equal"),
        (np.ones((9, 2)), np.ones(9), "labels are equal"),
        (np.ones((9, 2)), np.arange(8), "shape"),
        (np.full((9, 2), np.nan), np.arange(9), "not finite"),
        (np.ones((9, 2)), ["a"] * 9, "not numbers"),
    ],
)
def test_what_is_not_data_is_bad_input(rows, labels, words):
    with pytest.raises(BadInput, match=words):
        curve_of(rows, labels, lr=0.1, alphas=[1])
