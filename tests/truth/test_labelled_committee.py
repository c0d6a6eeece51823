"""A committee on labelled rows: the stated teacher, noise in the order-parameter equations, and real SGD."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import erf

from phasecast.core.errors import BadInput
from phasecast.core.results import Status
from phasecast.online import Committee, OrderParameters, Spectrum, committee_curve_of, solve
from phasecast.online.dynamics import solve_with_noise
from phasecast.online.own_data.committee import StatedTeacher, simulated_committee
from phasecast.online.own_data.labelled import LabelModel, prepare


def labelled(units: int, count: int = 4000, inputs: int = 40, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian rows of a moderate spectrum, and labels of a committee of orthogonal erf units with noise."""
    rng = np.random.default_rng(units)
    scales = np.sqrt(np.linspace(1.6, 0.4, inputs))
    rows = rng.standard_normal((count, inputs)) * scales
    B = np.linalg.qr(rng.standard_normal((inputs, units)))[0].T * math.sqrt(inputs) / scales
    outputs = erf(rows @ B.T / math.sqrt(2 * inputs)).sum(axis=1) / math.sqrt(units)
    return rows, 3 * outputs + noise * rng.standard_normal(count)


@pytest.mark.parametrize("units", [1, 2, 3])
def test_the_stated_teacher_has_the_linear_part_of_the_labels_and_units_of_unit_size(units):
    rows, y, _ = prepare(*labelled(units))
    model = LabelModel.of(rows, y)
    teacher = StatedTeacher.of(model, units, np.random.default_rng(0))
    T = (teacher.weights * model.values) @ teacher.weights.T / len(model.values)
    assert np.mean(np.diagonal(T)) == pytest.approx(1)
    outputs = teacher.scale * erf(rows @ teacher.weights.T / math.sqrt(2 * len(model.values)))
    again = LabelModel.of(rows, outputs.sum(axis=1) / math.sqrt(units))
    close = again.weights @ (model.values * model.weights)
    size = np.sqrt([one.weights @ (model.values * one.weights) for one in (again, model)])
    assert close / size.prod() > 0.99  # one direction, but for the error of the rows
    assert size[0] == pytest.approx(size[1], rel=0.03)
    assert teacher.noise == pytest.approx(0.09, abs=0.05)  # labels were made with s = 3, T = 1 and noise 0.3²
    assert teacher.scale == pytest.approx(3, rel=0.05)


@pytest.mark.parametrize("lr", [0.3, 1.5])
def test_noise_in_the_equations_is_that_of_a_linear_student(lr):
    """One mode: D' = −2ηD + η²(D + σ²) for D = (J − B)², in closed form."""
    spectrum, noise, alphas = Spectrum(np.ones(1)), 0.4, np.array([0.5, 2, 8, 40])
    start = OrderParameters.draw(1, 1, spectrum, inputs=500, sigma=0.5, seed=0)
    first = float((start.Q - 2 * start.R + start.T)[0, 0, 0])
    last = lr * noise / (2 - lr)
    exact = last + (first - last) * np.exp(-lr * (2 - lr) * alphas)
    (found,) = solve_with_noise([start], spectrum, lr, alphas, [noise], "linear")
    assert 2 * found.eps == pytest.approx(exact, rel=1e-5)
    quiet = solve(start, spectrum, lr, alphas, "linear", 2)
    assert 2 * quiet.eps[-1] < exact[-1] / 2


def test_a_committee_with_noisy_labels_learns_as_predicted():
    rows, y = labelled(1, noise=1.0)
    alphas, setting = [0, 2, 8, 30, 60], Committee(2, 1, sigma=0.3)
    found = committee_curve_of(rows, y, setting, lr=1.0, alphas=alphas, simulate=40)
    assert found.simulation is not None
    combined = np.hypot(np.broadcast_to(found.error, 5), found.simulation["error"])
    assert np.all(np.abs(found.eps - found.simulation["eps"]) < 4 * combined + found.eps / 40)  # steps are 1/N
    rng = np.random.default_rng(0)
    shuffled = simulated_committee(rows, rng.permutation(y) / 3, setting, 1.0, np.array([2400]), range(4))
    assert 9 * shuffled["eps"][0] > 2 * found.eps[-1]


def test_labels_of_another_teacher_are_said_to_be():
    rows, y = labelled(1, count=1500, inputs=10)
    setting, alphas = Committee(1, 1), [1, 40]
    honest = committee_curve_of(rows, y, setting, lr=0.3, alphas=alphas, simulate=10)
    classes = committee_curve_of(rows, np.sign(y), setting, lr=0.3, alphas=alphas, simulate=10)
    assert not any("not that of your labels" in reason for reason in honest.reasons)
    assert any("not that of your labels" in reason for reason in classes.reasons)


def test_what_is_drawn_is_said_and_labels_without_a_line_are_refused():
    rows, y = labelled(2, count=600, inputs=10)
    found = committee_curve_of(rows, y, lr=0.3, alphas=[1, 10])
    assert found.status is Status.WARNING
    assert any("is drawn, not read from the labels" in reason for reason in found.reasons)
    one = committee_curve_of(rows, y, Committee(1, 1), lr=0.3, alphas=[1, 10])
    assert not any("is drawn" in reason for reason in one.reasons)
    with pytest.raises(BadInput, match="no teacher to fit"):
        committee_curve_of(rows, np.random.default_rng(1).permutation(y), lr=0.3, alphas=[1, 10])
