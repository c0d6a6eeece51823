"""How well do Bayesian last layers predict? Posteriors of B, and of A and B, on the features of a trained network.

Given features x̃ the model y ~ N(B z, 1), z = act(A x̃), is linear in B, so with a standard normal prior its posterior
is normal and so is its prediction:

.. math:: P = 1 + Z Z^T, \\quad M = P^{-1} Z Y^T, \\quad y \\mid x \\sim N(M^T z,\\; (1 + z^T P^{-1} z)\\,1)

B is integrated out of the posterior of A as well,

.. math:: \\log p(A|D) = -\\tfrac12 |A|^2 - \\tfrac{M}{2} \\log\\det P + \\tfrac12 \\mathrm{tr}\\,Y Z^T P^{-1} Z Y^T

which leaves nine parameters to sample, and predictions that are mixtures of normals. Errors are KL divergences from
the truth N(f₀(x), 1) ("Deep learning is singular, and that's good", eqs. 8, 20, 21); for a normal prediction the
integral over y is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from phasecast.core.types import Array, Key
from phasecast.posterior.last_layers.feature_networks import OUTPUTS, RANK, activate, head

LEAPS, BETWEEN = 20, 4  # leapfrog steps per trajectory, trajectories per draw; chosen, any values keep the posterior
UNDERFLOW = math.log(5e-324)  # the smallest double


class Sample(NamedTuple):
    """What the last layers learn from: features ``x`` (features, n), ``y`` (outputs, n), ``mask`` (n,)."""

    x: Array
    y: Array
    mask: Array


class Mixture(NamedTuple):
    """An equal mixture of N(mean, variance · 1): means (draw, outputs, test), variances (draw, test)."""

    mean: Array
    variance: Array


def point_error(mean: Array, truth: Array) -> Array:
    """KL of N(mean, 1) from N(truth, 1), averaged over inputs; both (outputs, test)."""
    import jax.numpy as jnp

    return jnp.mean(jnp.sum((mean - truth) ** 2, axis=0)) / 2


def normal_error(mean: Array, variance: Array, truth: Array) -> Array:
    """KL of N(mean, variance · 1) from N(truth, 1), averaged over inputs; variance (test,) or (outputs, test)."""
    import jax.numpy as jnp

    variance = jnp.broadcast_to(variance, truth.shape)
    parts = (1 + (mean - truth) ** 2) / variance - 1 + jnp.log(variance)
    return jnp.mean(jnp.sum(parts, axis=0)) / 2


def mixture_error(mixture: Mixture, truth: Array, noise: Array) -> Array:
    """KL of a mixture from N(truth, 1), averaged over inputs, with one y = truth + noise per input.

    The normal with the mixture's mean and variance is a control variate, whose KL is exact; only the difference is a
    mean over y.
    """
    import jax.numpy as jnp
    from jax.scipy.special import logsumexp

    centre = mixture.mean.mean(axis=0)
    spread = mixture.variance.mean(axis=0) + ((mixture.mean - centre) ** 2).mean(axis=0)
    y = truth + noise
    near = -jnp.sum((y - centre) ** 2 / spread + jnp.log(spread), axis=0) / 2
    misfit = jnp.sum((y - mixture.mean) ** 2, axis=1) / mixture.variance + OUTPUTS * jnp.log(mixture.variance)
    density = logsumexp(-misfit / 2, axis=0) - math.log(len(mixture.mean))
    return normal_error(centre, spread, truth) + jnp.mean(near - density)


def printed_error(mixture: Mixture, noise: Array, truth: Array) -> Array:
    """Eq. (20) with plain averages of densities: infinite where all of them underflow, as in the tables."""
    import jax.numpy as jnp
    from jax.scipy.special import logsumexp

    logs = -jnp.sum((truth + noise - mixture.mean) ** 2, axis=1) / 2
    density = jnp.where(logs.max(axis=0) > UNDERFLOW, logsumexp(logs, axis=0) - math.log(len(logs)), -jnp.inf)
    return jnp.mean(-jnp.sum(noise**2, axis=0) / 2 - density)


class LastLayer(NamedTuple):
    """The normal posterior of B: ``mean`` (rank, outputs) and ``covariance`` (rank, rank) of every output's row."""

    mean: Array
    covariance: Array

    def predict(self, z: Array) -> tuple[Array, Array]:
        """Means (outputs, test) and variances (test,) at z of shape (rank, test)."""
        import jax.numpy as jnp

        return self.mean.T @ z, 1 + jnp.sum(z * (self.covariance @ z), axis=0)


def last_layer(z: Array, y: Array) -> LastLayer:
    """The posterior of B on features z (rank, n) and outputs y (outputs, n), masked rows zero in both."""
    import jax.numpy as jnp

    covariance = jnp.linalg.inv(jnp.eye(len(z)) + z @ z.T)
    return LastLayer(covariance @ (z @ y.T), covariance)


def log_posterior_of_A(activation: str, sample: Sample) -> Callable[[Array], Array]:
    """A → log p(A|D) up to a constant, with B integrated out.

    Without ReLU the data enter only through x xᵀ and x yᵀ.
    """
    import jax.numpy as jnp

    x, y = sample.x * sample.mask, sample.y * sample.mask  # ReLU(0) = 0: masked columns stay zero in z
    gram, cross = x @ x.T, x @ y.T

    def of(A: Array) -> Array:
        if activation == "identity":
            precision, product = jnp.eye(RANK) + A @ gram @ A.T, A @ cross
        else:
            z = activate(activation, A @ x)
            precision, product = jnp.eye(RANK) + z @ z.T, z @ y.T
        explained = jnp.sum(product * jnp.linalg.solve(precision, product))
        return -jnp.sum(A**2) / 2 - OUTPUTS / 2 * jnp.linalg.slogdet(precision)[1] + explained / 2

    return of


def sample_A(
    key: Key, start: Array, log_density: Callable[[Array], Array], warmup: int, draws: int
) -> tuple[Array, Array]:
    """Draws of A, shape (draw, rank, features), by HMC from ``start``, and the number of divergent trajectories.

    Step size and scales adapt during ``warmup``; there are :data:`BETWEEN` trajectories per draw.
    """
    import blackjax
    import jax
    import jax.numpy as jnp
    from blackjax.mcmc.hmc import HMCState

    adapt, walk = jax.random.split(key)
    adaptation: Any = blackjax.window_adaptation(blackjax.hmc, log_density, num_integration_steps=LEAPS)
    (state, tuned), _ = adaptation.run(adapt, start, num_steps=warmup)
    kernel: Any = blackjax.hmc(log_density, **tuned)

    def one(state: HMCState, key: Key) -> tuple[HMCState, tuple[Array, Array]]:
        def trajectory(state: HMCState, key: Key) -> tuple[HMCState, Array]:
            state, info = kernel.step(key, state)
            return state, info.is_divergent

        state, divergent = jax.lax.scan(trajectory, state, jax.random.split(key, BETWEEN))
        return state, (jnp.asarray(state.position), divergent.sum())

    _, (positions, divergent) = jax.lax.scan(one, state, jax.random.split(walk, draws))
    return positions, divergent.sum()


def two_layers(draws: Array, activation: str, sample: Sample, test: Array) -> Mixture:
    """Predictions of draws of A on test features, with B integrated out of each."""
    import jax

    x, y, mask = sample

    def one(A: Array) -> tuple[Array, Array]:
        posterior = last_layer(activate(activation, A @ x) * mask, y * mask)
        return posterior.predict(activate(activation, A @ test))

    return Mixture(*jax.vmap(one)(draws))


class Laplace(NamedTuple):
    """Draws of ``A`` and ``B`` from the normal at the optimum; the number of directions that are ``undetermined``."""

    A: Array
    B: Array
    undetermined: Array


def laplace_two_layers(
    key: Key, A: Array, B: Array, activation: str, sample: Sample, draws: int, *, scale: float | Array = 1.0
) -> Laplace:
    """Draws of A and B from N(optimum, H⁻¹), H the Hessian of ½ Σ |y − h(x̃)|² + ½ (|A|² + |B|²).

    A direction is undetermined if the likelihood's share of H is below the prior's: along W₀ it is zero, and the
    posterior is not normal there. ``scale`` multiplies the likelihood (1 is correct).
    """
    import jax
    import jax.numpy as jnp

    x, y, mask = sample
    optimum = jnp.concatenate([A.ravel(), B.ravel()])

    def split(w: Array) -> tuple[Array, Array]:
        return w[: A.size].reshape(A.shape), w[A.size :].reshape(B.shape)

    def misfit(w: Array) -> Array:
        return scale * jnp.sum(mask * (y - head(*split(w), activation, x)) ** 2) / 2

    curvature = jax.hessian(misfit)(optimum)
    values, vectors = jnp.linalg.eigh((curvature + curvature.T) / 2)
    # where the loss curves down by more than the prior curves up there is no normal distribution: NaN
    normal = jax.random.normal(key, (draws, optimum.size)) / jnp.sqrt(values + 1)
    drawn_A, drawn_B = jax.vmap(split)(optimum + normal @ vectors.T)
    return Laplace(drawn_A, drawn_B, jnp.sum(values < 1))


def mixture_of_heads(laplace: Laplace, activation: str, test: Array) -> Mixture:
    """Predictions of draws of (A, B) on test features."""
    import jax
    import jax.numpy as jnp

    means = jax.vmap(lambda A, B: head(A, B, activation, test))(laplace.A, laplace.B)
    return Mixture(means, jnp.ones((len(means), test.shape[1])))
