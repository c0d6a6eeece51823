"""One-pass SGD against the order-parameter equations, exact linear recursions, and plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import erf

from phasecast.core.errors import BadInput
from phasecast.core.results import Status
from phasecast.online.curve_result import mean_curve
from phasecast.online.dynamics import solve
from phasecast.online.feature_scaling import rotated_floor
from phasecast.online.linear import sgd_curve, small_rate_curve
from phasecast.online.order_parameters import OrderParameters, draw_weights
from phasecast.online.own_data.loading import load_data
from phasecast.online.sgd import simulate, simulate_data
from phasecast.online.spectrum import Spectrum

pytestmark = pytest.mark.usefixtures("full_optimisation")


def deviation(students: int, teachers: int, inputs: int, seeds: int, order: int, runs=None):
    """The largest distance of the equations from SGD: relative, and in three standard errors plus 20/N of ε."""
    spectrum, grid = Spectrum.power_law(4, 1.0), np.linspace(2, 50, 25)
    J, B = draw_weights(students, teachers, inputs, 0.3, 7)
    if runs is None:
        runs = simulate(students, teachers, spectrum, 0.5, grid, inputs=inputs, seeds=seeds, weights=(J, B))
    mean = mean_curve(runs)
    curve = solve(OrderParameters.from_weights(J, B, spectrum), spectrum, 0.5, grid, order=order)
    gap = abs(mean.eps - curve.eps)
    return runs, np.max(gap / curve.eps), np.max(gap / (3 * np.asarray(mean.error) + 20 / inputs * curve.eps))


@pytest.mark.slow
@pytest.mark.parametrize(("students", "teachers"), [(2, 2), (3, 2), (2, 4)])
def test_the_equations_are_the_limit_of_sgd(students, teachers):
    runs, relative, distance = deviation(students, teachers, 2000, 8, 2)
    _, first_order, too_far = deviation(students, teachers, 2000, 8, 1, runs)
    assert distance < 1
    assert too_far > 1
    assert first_order > 3 * relative


def test_the_equations_are_near_sgd_and_the_first_order_is_not():
    runs, relative, distance = deviation(2, 2, 400, 8, 2)
    _, first_order, _ = deviation(2, 2, 400, 8, 1, runs)
    assert distance < 1
    assert first_order > 1.5 * relative


def test_a_linear_student_has_the_mean_of_the_exact_recursion():
    spectrum, inputs = Spectrum.power_law(16, 0.5), 32
    runs = simulate(1, 1, spectrum, 0.8, [0, 1, 4], inputs=inputs, sigma=0.5, seeds=600, activation="linear")
    mean = mean_curve(runs)
    exact = sgd_curve(spectrum, inputs, 0.8, 0.5, [0, 1, 4]).eps
    assert np.all(abs(mean.eps - exact) < 4 * np.asarray(mean.error))


def test_blocks_are_the_steps_one_by_one(monkeypatch):
    """Against a plain loop over the same examples, through data that are used once each."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(200, 6)) * [3, 2, 1, 1, 0.5, 0.5]
    curve = simulate_data(data, 2, 3, 0.7, [0, 5, 20], activation="erf", seeds=[3])[0]
    spectrum = Spectrum.from_data(data)
    rows = (data - data.mean(axis=0)) @ spectrum.basis / np.sqrt(spectrum.scale)
    J, B = draw_weights(2, 3, 6, 0.01, 3)
    for row in rows[np.random.default_rng([3, 1]).permutation(200)][:120] / np.sqrt(6):
        x, y = J @ row, B @ row
        gap = erf(y / np.sqrt(2)).sum() / np.sqrt(3) - np.sqrt(3) / 2 * erf(x / np.sqrt(2)).sum()
        J = J + 0.7 * np.sqrt(3) / 2 * gap * np.outer(np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2), row)
    expected = OrderParameters.from_weights(J, B, spectrum, rotate=False).moment(1, spectrum)
    np.testing.assert_allclose(curve.R1[-1], expected.R, atol=1e-4)
    np.testing.assert_allclose(curve.Q1[-1], expected.Q, atol=1e-4)


def test_the_grid_and_the_number_of_seeds_do_not_matter():
    spectrum = Spectrum.power_law(8, 1.0)
    few = simulate(2, 2, spectrum, 0.5, [1.3, 4.7], inputs=16, seeds=3)
    many = simulate(2, 2, spectrum, 0.5, [0.2, 1.3, 2.9, 4.7], inputs=16, seeds=5)
    for one, other in zip(few, many, strict=False):
        np.testing.assert_allclose(one.eps, other.eps[[1, 3]], rtol=1e-4)


def test_frozen_features_leave_their_floor():
    spectrum = Spectrum.power_law(32, 1.0)
    runs = simulate(1, 1, spectrum, 0.02, [300], inputs=32, sigma=0.01, seeds=150, activation="linear", trained=8)
    mean = mean_curve(runs)
    predicted = small_rate_curve(spectrum, 0.02, 0.01, [300], 8).eps
    assert abs(mean.eps - predicted)[0] < 4 * np.asarray(mean.error)[0] + 0.03 * predicted[0]


@pytest.mark.slow
def test_a_rotated_covariance_leaves_the_floor_of_eq_88():
    covariance = 0.6 ** abs(np.subtract.outer(np.arange(12), np.arange(12)))
    spectrum = Spectrum.from_covariance(covariance, normalise=False)
    runs = simulate(1, 1, spectrum, 0.03, [400], inputs=12, sigma=0.1, seeds=800, activation="linear", trained=5,
                    rotated=True)  # fmt: skip
    mean, floor = mean_curve(runs), float(rotated_floor(covariance, 5, 0.1).value)
    assert abs(mean.eps[0] - floor) < 4 * np.asarray(mean.error)[0] + 0.03 * floor


def test_data_from_a_file(tmp_path):
    rng = np.random.default_rng(0)
    spectrum = Spectrum.power_law(20, 0.5)
    images = (rng.normal(size=(4000, 20)) * np.sqrt(spectrum.eigenvalues)).reshape(4000, 4, 5)
    np.save(tmp_path / "images.npy", images)
    data = load_data(tmp_path / "images.npy")
    assert data.shape == (4000, 20)
    mean = mean_curve(simulate_data(data, 1, 1, 0.1, [0, 50, 200], seeds=30))
    exact = small_rate_curve(Spectrum.from_data(data), 0.1, 0.01, [0, 50, 200]).eps
    assert np.all(abs(mean.eps - exact) < 4 * np.asarray(mean.error) + 0.1 * exact)
    np.savez(tmp_path / "one.npz", data=data)
    assert load_data(tmp_path / "one.npz").shape == (4000, 20)


def test_what_cannot_be_read_is_bad_input(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "two.npz", a=np.ones(2), b=np.ones(2))
    np.save(tmp_path / "words.npy", np.array(["a", "b"]))
    (tmp_path / "text.npy").write_text("hello")
    for name, words in (("objects.npy", "safely"), ("two.npz", "2 arrays"), ("words.npy", "not numbers"),
                        ("text.npy", "safely"), ("none.npy", "no file")):  # fmt: skip
        with pytest.raises(BadInput, match=words):
            load_data(tmp_path / name)


def test_what_cannot_be_simulated():
    spectrum = Spectrum.power_law(8, 1.0)
    with pytest.raises(BadInput, match="multiple of 8"):
        simulate(1, 1, spectrum, 0.1, [1], inputs=12)
    with pytest.raises(BadInput, match="no basis"):
        simulate(1, 1, spectrum, 0.1, [1], inputs=8, rotated=True)
    with pytest.raises(BadInput, match="each is used once"):
        simulate_data(np.random.default_rng(0).normal(size=(20, 4)), 1, 1, 0.1, [10])
    diverged = simulate(1, 1, spectrum, 4.0, [0, 100], inputs=8, activation="linear", sigma=1.0)[0]
    assert diverged.status is Status.REFUSED
