"""Are the quick normal numbers of float32 chains normal, and independent of each other?"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2, norm

from phasecast.sampling.backends.jax_ops import FOUR_BYTES, JaxOps, hashed, quick_normal

COUNT = 400_000


def distribution() -> tuple[np.ndarray, np.ndarray]:
    """The values that four independent bytes can give, and their probabilities."""
    byte = np.full(256, 1 / 256)
    pair = np.convolve(byte, byte)
    s = np.arange(1021) - 510.0
    return sum(c * s ** (2 * k + 1) for k, c in enumerate(FOUR_BYTES)), np.convolve(pair, pair)  # pyright: ignore[reportReturnType]


def test_the_moments_are_those_of_a_normal_distribution():
    z, chance = distribution()
    for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3), (6, 15)):
        assert chance @ z**power == pytest.approx(moment, abs=1e-6)
    assert np.all(np.diff(z) > 0)
    assert np.max(np.abs(np.cumsum(chance) - chance / 2 - norm.cdf(z))) < 0.0014
    control = chance @ (np.sqrt(1 / (chance @ np.arange(-510, 511) ** 2)) * np.arange(-510, 511)) ** 4
    assert control < 2.8  # without the polynomial the fourth moment is 2.7


def test_every_byte_of_the_hash_is_uniform():
    words = np.asarray(hashed(jax.random.key(0), COUNT)).view(np.uint8).reshape(-1, 4)
    for byte in words.T:
        counts = np.bincount(byte, minlength=256)
        statistic = np.sum((counts - COUNT / 256) ** 2) / (COUNT / 256)
        assert chi2.ppf(1e-4, 255) < statistic < chi2.ppf(1 - 1e-4, 255)


def test_draws_do_not_depend_on_their_neighbours_nor_on_those_of_other_keys():
    keys = jax.random.split(jax.random.key(1), 4)
    draws = np.stack([np.asarray(quick_normal(key, (COUNT,)), dtype=float) for key in keys])
    most = 4.5 / np.sqrt(COUNT)  # of some fifty correlations
    for one in range(4):
        for other in range(one):
            for shift in (0, 1, 2):
                for power in (1, 2):
                    a, b = draws[one][shift:] ** power, draws[other][: COUNT - shift] ** power
                    assert abs(np.corrcoef(a, b)[0, 1]) < most
    for shift in (1, 2, 3, 4, 8, 64, 256, 40_704):
        assert abs(np.corrcoef(draws[0][shift:], draws[0][:-shift])[0, 1]) < most
    assert abs(draws.mean()) < 4 / np.sqrt(4 * COUNT)
    assert abs(draws.var() - 1) < 4 * np.sqrt(2 / (4 * COUNT))


def test_sums_over_many_keys_are_normal_too():
    """A chain adds up draws of one coordinate from successive keys, as steps make them."""
    keys = [jax.random.fold_in(jax.random.split(jax.random.fold_in(jax.random.key(2), n), 2)[0], 0) for n in range(200)]
    sums = np.sum([np.asarray(quick_normal(key, (2000,)), dtype=float) for key in keys], axis=0)
    assert abs(sums.var() / 200 - 1) < 4 * np.sqrt(2 / 2000)


def test_only_float32_is_quick():
    key, ops = jax.random.key(3), JaxOps()
    with jax.enable_x64(True):
        doubles = ops.normal(key, jnp.zeros(5, jnp.float64))
        assert np.array_equal(doubles, jax.random.normal(key, (5,), jnp.float64))
    assert ops.normal(key, jnp.zeros((3, 4), jnp.float32)).dtype == jnp.float32
