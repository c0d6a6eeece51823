"""A committee on labelled rows: the stated teacher, noise in the order-parameter equations, and real SGD."""

from __future__ import annotations

import math

import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.core.results import Status
from phasecast.online import Committee, OrderParameters, Spectrum, committee_curve_of, solve
from phasecast.online.linear import gaussian_errors
from phasecast.online.own_data.committee import StatedTeacher, simulated_committee
from phasecast.online.own_data.labelled import LabelModel, prepare


def labelled(units: int, count: int = 4000, inputs: int = 20, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian rows with a power-law spectrum, and labels of a committee of orthogonal erf units with noise."""
    rng = np.random.default_rng(units)
    scales = np.sqrt(Spectrum.power_law(inputs, 0.5).eigenvalues)
    rows = rng.standard_normal((count, inputs)) * scales
    B = np.linalg.qr(rng.standard_normal((inputs, units)))[0].T * math.sqrt(inputs) / scales
    fields = rows @ B.T / math.sqrt(inputs)
    return rows, 3 * np.vectorize(math.erf)(fields / math.sqrt(2)).sum(axis=1) / math.sqrt(units) + noise * (
        rng.standard_normal(count)
    )


@pytest.mark.parametrize("units", [1, 2, 3])
def test_the_stated_teacher_has_the_linear_part_of_the_labels_and_units_of_unit_size(units):
    rows, y, _ = prepare(*labelled(units))
    model = LabelModel.of(rows, y)
    teacher = StatedTeacher.of(model, units, np.random.default_rng(0))
    T = (teacher.weights * model.values) @ teacher.weights.T / len(model.values)
    assert np.mean(np.diagonal(T)) == pytest.approx(1)
    outputs = teacher.scale * np.vectorize(math.erf)(rows @ teacher.weights.T / math.sqrt(2 * len(model.values)))
    again = LabelModel.of(rows, outputs.sum(axis=1) / math.sqrt(units))
    close = again.weights @ (model.values * model.weights)
    size = np.sqrt([one.weights @ (model.values * one.weights) for one in (again, model)])
    assert close / size.prod() > 0.99  # one direction, but for the error of the rows
    assert size[0] == pytest.approx(size[1], rel=0.03)
    assert teacher.noise == pytest.approx(0.09, abs=0.05)  # labels were made with s = 3, T = 1 and noise 0.3²
    assert teacher.scale == pytest.approx(3, rel=0.05)


def test_noise_in_the_equations_is_that_of_a_linear_student():
    """The closed diagonal of C, for which N and steps are finite: the two differ by O(1/N)."""
    spectrum, lr, noise, inputs = Spectrum.power_law(4, 0.5), 0.5, 0.4, 4000
    start = OrderParameters.draw(1, 1, spectrum, inputs=inputs, sigma=0.5, seed=0)
    alphas = np.array([0.5, 2, 8, 30])
    found = solve(start, spectrum, lr, alphas, "linear", 2, noise=noise)
    values = np.repeat(spectrum.eigenvalues, inputs // 4)
    apart = np.repeat(
        np.array([(Q - 2 * R + T)[0, 0] for Q, R, T in zip(start.Q, start.R, start.T, strict=True)]), 1000
    )
    exact = gaussian_errors(values, apart, noise, lr, np.rint(alphas * inputs).astype(int), inputs)
    assert found.eps + noise / 2 == pytest.approx(exact, rel=5e-3)
    quiet = solve(start, spectrum, lr, alphas, "linear", 2)
    assert np.all(quiet.eps[1:] + noise / 2 < 0.97 * exact[1:])


def test_a_committee_with_noisy_labels_learns_as_predicted():
    rows, y = labelled(1)
    setting = Committee(2, 1, sigma=0.3)
    found = committee_curve_of(rows, y, setting, lr=0.6, alphas=[0, 3, 10, 40, 120], simulate=40)
    assert found.simulation is not None
    combined = np.hypot(np.broadcast_to(found.error, 5), found.simulation["error"])
    assert np.all(np.abs(found.eps - found.simulation["eps"]) < 4 * combined + 0.02 * found.eps)
    assert found.eps[-1] < 0.2 * found.eps[0]
    rng = np.random.default_rng(0)
    shuffled = simulated_committee(rows, rng.permutation(y) / 3, setting, 0.6, np.array([0, 2400]), range(4))
    assert 9 * shuffled["eps"][-1] > 3 * found.eps[-1]


def test_what_is_drawn_is_said_and_labels_without_a_line_are_refused():
    rows, y = labelled(2, count=600)
    found = committee_curve_of(rows, y, lr=0.3, alphas=[1, 10])
    assert found.status is Status.WARNING
    assert any("is drawn, not read from the labels" in reason for reason in found.reasons)
    one = committee_curve_of(rows, y, Committee(1, 1), lr=0.3, alphas=[1, 10])
    assert not any("is drawn" in reason for reason in one.reasons)
    with pytest.raises(BadInput, match="no teacher to fit"):
        committee_curve_of(rows, np.random.default_rng(1).permutation(y), lr=0.3, alphas=[1, 10])
