"""Spectra and the overlaps of random weights: values from the paper and from elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.core.results import Result
from phasecast.online.order_parameters import OrderParameters, moment_variance
from phasecast.online.spectrum import Spectrum


def test_a_power_law_has_mean_one_and_the_known_largest_value():
    spectrum = Spectrum.power_law(10, 0.25)
    assert spectrum.largest == pytest.approx(4.2135804, abs=5e-8)
    assert spectrum.moment(1) == pytest.approx(1)
    np.testing.assert_allclose(spectrum.eigenvalues, spectrum.largest * np.arange(1, 11) ** -1.25)


@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_the_exponent_is_found_again(beta):
    assert Spectrum.power_law(200, beta).fit().exponent == pytest.approx(beta, abs=1e-10)
    spectrum = Spectrum.power_law(40, beta)
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    data = rng.normal(size=(100_000, 40)) * np.sqrt(3 * spectrum.eigenvalues) @ rotation.T + 7
    found = Spectrum.from_data(data)
    assert found.fit().exponent == pytest.approx(beta, abs=0.02)
    assert found.scale == pytest.approx(3, rel=0.02)
    np.testing.assert_allclose(found.eigenvalues, spectrum.eigenvalues, rtol=0.05)
    assert len(found.figure().axes[0].lines) == 2
    assert found.plain()["exponent"] == pytest.approx(beta, abs=0.02)


def test_teacher_moments_do_not_average_themselves():
    """Var T^(l) has λ^{2l}, not the printed λ²; seen over 3000 teachers."""
    spectrum = Spectrum.power_law(64, 1.0)
    draws = [OrderParameters.draw(1, 2, spectrum, inputs=64, sigma=1.0, seed=seed) for seed in range(3000)]
    for order in (0, 1, 2):
        moments = np.array([state.moment(order, spectrum).T for state in draws])
        diagonal, off = moment_variance(order, spectrum, 64)
        for sample, expected in ((moments[:, 0, 0], diagonal), (moments[:, 0, 1], off)):
            squares = (sample - sample.mean()) ** 2
            assert abs(squares.mean() - expected) < 5 * squares.std() / np.sqrt(len(squares))
    printed = spectrum.moment(2) / 64  # λ² whatever l is
    assert moment_variance(2, spectrum, 64)[1] > 10 * printed


def test_infinite_values_are_the_mean_of_draws():
    spectrum = Spectrum.power_law(3, 1.0)
    draws = [OrderParameters.draw(2, 2, spectrum, inputs=30, sigma=0.5, seed=seed) for seed in range(2000)]
    limit = OrderParameters.infinite(2, 2, spectrum, sigma=0.5)
    for name in ("R", "Q", "T"):
        sample = np.array([getattr(state, name) for state in draws])
        error = sample.std(axis=0) / np.sqrt(len(sample))
        assert np.all(abs(sample.mean(axis=0) - getattr(limit, name)) < 4.5 * error)


@pytest.mark.parametrize("inputs", [4, 8, 12, 40])
def test_factors_have_the_overlaps(inputs):
    spectrum = Spectrum.power_law(4, 1.0)
    state = OrderParameters.draw(2, 3, spectrum, inputs=inputs, sigma=1e-6, seed=0)
    J, B = state.factors()
    assert J.shape[-1] == min(inputs // 4, 5)
    np.testing.assert_allclose(J @ J.swapaxes(1, 2), state.Q, atol=1e-24)
    np.testing.assert_allclose(J @ B.swapaxes(1, 2), state.R, atol=1e-18)
    np.testing.assert_allclose(B @ B.swapaxes(1, 2), state.T, atol=1e-13)


def test_overlaps_survive_json():
    state = OrderParameters.draw(2, 3, Spectrum.power_law(4, 1.0), inputs=8, sigma=0.1, seed=0)
    assert Result.from_json(state.to_json()) == state


def spectrum_of_three():
    return Spectrum.power_law(3, 1.0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Spectrum.power_law(0, 1.0), "modes is 0"),
        (lambda: Spectrum.power_law(3, -1.0), "β > 0"),
        (lambda: Spectrum(np.array([1.0, -1.0])), "positive"),
        (lambda: Spectrum(np.array([1.0, 2.0]), np.array([0.5, 0.6])), "shares"),
        (lambda: Spectrum.from_covariance(np.ones((2, 3))), "square"),
        (lambda: Spectrum.from_covariance(np.ones((2, 2))), "no variance"),
        (lambda: Spectrum.from_covariance([[1.0, 2.0], [2.0, 1.0]]), "negative eigenvalue"),
        (lambda: Spectrum.from_data(np.ones((3, 5))), "more examples than features"),
        (lambda: Spectrum.from_data([[1.0, np.nan], [0.0, 1.0], [1.0, 0.0]]), "not finite"),
        (lambda: spectrum_of_three().fit(), "too few"),
        (lambda: spectrum_of_three().inputs_per_mode(10), "multiple of 3"),
        (lambda: OrderParameters.draw(1, 1, spectrum_of_three(), inputs=10, sigma=1.0), "multiple of 3"),
        (lambda: OrderParameters.draw(1, 1, spectrum_of_three(), inputs=9, sigma=-1.0), "standard deviation"),
        (lambda: OrderParameters(np.ones((2, 1, 1)), np.ones((2, 1, 1)), np.ones((2, 2, 2))), "do not fit"),
        (lambda: OrderParameters(np.ones((1, 1)), np.ones((2, 1, 1)), np.ones((2, 1, 1))), "shape"),
        (lambda: OrderParameters.from_weights(np.ones((1, 3)), np.ones((1, 6)), spectrum_of_three()), "shapes"),
    ],
)
def test_what_cannot_be_is_bad_input(call, words):
    with pytest.raises(BadInput, match=words):
        call()
