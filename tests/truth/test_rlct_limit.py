"""How far λ̂ is from its limit: the Gaussian with a prior, the trend and the noise of singular models, by quadrature."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import xarray as xr

from phasecast.core import Status
from phasecast.posterior import Model, linear, rlct
from phasecast.posterior.limit import (
    DistanceToLimit,
    LocalShape,
    Trend,
    distance_to_limit,
    limit_warnings,
    local_shape,
    trend_weights,
)
from phasecast.posterior.rlct import around
from phasecast.posterior.rlct_policy import POLICY

N = 300
BETAS = around(N)
EVERY = np.ones(5, bool)


def collinear(width: float, seed: int = 0) -> dict[str, np.ndarray]:
    """Two inputs that differ by this much, so that their difference is seen by nβ width²/2 against a unit prior."""
    rng = np.random.default_rng(seed)
    first = rng.normal(size=N)
    x = np.stack([first, first + width * rng.normal(size=N)], axis=1)
    return {"x": x, "y": x @ np.array([[1.0], [-1.0]]) + rng.normal(size=(N, 1))}


def moments(loss: np.ndarray, log_mass: np.ndarray, beta: float) -> float:
    """β²Var of a loss on a grid."""
    terms = log_mass - beta * loss
    mass = np.exp(terms - terms.max())
    mass /= mass.sum()
    return float(beta**2 * np.sum(mass * (loss - np.sum(mass * loss)) ** 2))


def drawn(points: np.ndarray, name: str = "w") -> xr.DataTree:
    """What ``tempered`` would return, with these draws (draw, …) at every β."""
    dims = ("dataset", "beta", "chain", "draw", *(f"w_dim_{axis}" for axis in range(points.ndim - 1)))
    posterior = xr.Dataset({name: (dims, np.broadcast_to(points, (1, BETAS.size, 1, *points.shape)))})
    return xr.DataTree.from_dict({"posterior": posterior, "sample_stats": xr.Dataset(coords={"beta": BETAS})})


@pytest.mark.parametrize("width", [1.0, 0.1])
def test_the_gaussian_prediction_is_the_integral_for_linear_regression(width):
    data = collinear(width)
    tree = drawn(np.random.default_rng(1).normal(size=(40, 1, 2)), name="0")
    shape = local_shape(linear(2), [data], tree, EVERY)
    assert shape is not None
    x, y = data["x"], data["y"][:, 0]
    best, xx = np.linalg.lstsq(x, y)[0], x.T @ x
    w = np.stack(np.meshgrid(*[np.linspace(-6, 6, 601)] * 2), -1)
    loss = np.einsum("...i,ij,...j->...", w - best, xx, w - best) / 2
    expected = np.array([moments(loss, -(w**2).sum(-1) / 2, beta) for beta in BETAS])
    assert shape.gaussian == pytest.approx(expected.mean(), rel=1e-3)
    assert shape.slope == pytest.approx(trend_weights(BETAS) @ expected, rel=0.02, abs=1e-4)
    curvature = np.linalg.eigvalsh(x.T @ x) * BETAS[2]
    np.testing.assert_allclose(shape.seen, curvature / (curvature + 1), rtol=1e-9)


def test_a_direction_left_to_the_prior_is_named_and_a_seen_one_is_not():
    seen, left = (rlct(linear(2), collinear(width), draws=600, warmup=20) for width in (1.0, 0.05))
    assert seen.status is Status.OK
    assert abs(seen.value - 1) < 4 * seen.error
    assert left.status is Status.WARNING
    assert "1 of 2 directions is left to the prior at this n" in left.reasons[0]
    assert abs(left.value - 1) > 4 * left.variance_error  # what was called ok


def test_a_symmetry_is_not_a_direction_left_to_the_prior():
    """y = (a + b)x: λ = ½ for two parameters, at every n."""
    model = Model(
        lambda w, data: -((data[1] - (w[0] + w[1]) * data[0]) ** 2) / 2,
        lambda w: -(w**2).sum() / 2,
        lambda key: jax.random.normal(key, (2,)),
    )
    rng = np.random.default_rng(0)
    x = rng.normal(size=N)
    data = (x, x + rng.normal(size=N))
    shape = local_shape(model, [data], drawn(rng.normal(size=(40, 2))), EVERY)
    assert shape is not None
    assert shape.identified == shape.seen.size == 1
    assert shape.left() == 0
    assert shape.gaussian == pytest.approx(0.5, rel=0.05)


def test_a_model_without_second_derivatives_has_no_shape():
    @jax.custom_vjp
    def square(w):
        return w**2

    square.defvjp(lambda w: (w**2, w), lambda w, g: (2 * w * g,))
    model = Model(lambda w, y: -square(w - y) / 2, lambda w: -(w**2) / 2, jax.random.normal)
    assert local_shape(model, [np.zeros(20)], drawn(np.linspace(-1, 1, 40)), EVERY) is None


W = np.sinh(np.linspace(-9, 9, 801)) / np.sinh(9) * 6
MASS = np.log(np.gradient(W)) - W**2 / 2


@pytest.mark.parametrize(
    ("name", "limit", "ratio"),
    [("w", 0.5, (0.9, 1.1)), ("w²", 0.25, (1.9, 2.2)), ("xy", 0.5, (4.0, 9.0))],
    ids=["regular", "power", "multiplicity"],
)
def test_what_the_trend_says_about_the_distance(name, limit, ratio):
    """(λ − λ(t))/b is 1 in a regular model, 2 for a correction t^(−1/2), and about log t for a multiplicity."""
    loss, mass = {
        "w": (W**2 / 2, MASS),
        "w²": (W**4 / 2, MASS),
        "xy": ((W[:, None] * W) ** 2 / 2, MASS[:, None] + MASS),
    }[name]
    for t in (50.0, 150.0, 1000.0):
        slope = (moments(loss, mass, 1.1 * t) - moments(loss, mass, t / 1.1)) / (2 * np.log(1.1))
        assert ratio[0] < (limit - moments(loss, mass, t)) / slope < ratio[1]
    assert ratio[0] < POLICY.distance_per_trend * 2.5  # log nβ = 5 is half that


def test_other_data_move_a_singular_model_by_less_than_the_bound_and_a_regular_one_not_at_all():
    """y = w² and y = w over data sets: the spread of β²Var at β = 1/log n."""
    n, rng = 1000, np.random.default_rng(0)
    beta = 1 / np.log(n)
    means = rng.normal(size=200) / np.sqrt(n)
    singular = [moments(n * (W**2 - mean) ** 2 / 2, MASS, beta) for mean in means]
    bound = POLICY.fluctuation * np.sqrt(0.25 * beta / 2)
    assert 0.4 * bound < np.std(singular) < bound
    assert np.std([moments(n * (W - mean) ** 2 / 2, MASS, beta) for mean in means]) < 0.01 * bound


def test_what_the_gaussian_does_not_explain_is_part_of_the_distance():
    """A regular model with λ = 3 whose posterior is not quite Gaussian: λ̂ was 2.60 ± 0.14, ok."""
    shape = LocalShape(6, np.full(6, 0.97), gaussian=2.86, slope=0.1)
    near, far = (distance_to_limit(value, 0.045, Trend(0.1, 0.05), shape) for value in (2.83, 2.6))
    assert near.regular
    assert near.distance == pytest.approx(0.14)
    assert far.regular
    assert abs(2.6 - 3) < 2 * np.hypot(0.045, far.distance)


def test_the_noise_of_one_data_set_that_can_hide_a_trend_is_a_warning_unless_the_model_is_regular():
    """Two tanh units around one at n = 286: λ̂ = 0.65 with trend 0.039; by quadrature over data 0.79 with 0.086."""
    trend, apart, other = Trend(0.039, 0.013), 0.082, 0.12
    (reason,) = limit_warnings(0.65, DistanceToLimit(apart, False), trend, None, 4, other)
    assert "may hide a trend of λ(β) of 0.06" in reason
    assert limit_warnings(0.65, DistanceToLimit(apart, False), trend, None, 4, 0.0) == []
    assert limit_warnings(0.65, DistanceToLimit(apart, True), trend, None, 4, other) == []


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_the_trend_of_the_random_term_is_half_of_what_it_changes(power):
    """λ(β) = λ + u√β has the trend u√β/2, which is what ``limit_warnings`` takes; a term ∝ β has another."""
    betas = np.geomspace(0.1, 0.1001, 5)
    slope = trend_weights(betas) @ (0.3 * betas**power)
    assert (slope == pytest.approx(0.3 * 0.1**power / 2, rel=1e-3)) == (power == 0.5)
