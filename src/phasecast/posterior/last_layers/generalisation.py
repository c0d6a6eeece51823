"""Bayes, MAP or Laplace: which predicts best, and does its error fall like λ/n?

.. math:: G(n) = \\mathrm{KL}(q(y|x) \\| \\hat q_n(y|x)), \\qquad E_n G(n) \\approx \\lambda/n \\;(+\\, G_\\infty)

over datasets, for the trained network itself (MAP), for its last layer or last two layers made Bayesian, and for their
Laplace approximations ("Deep learning is singular, and that's good", section 5, Tables 1 and 3-5). Datasets of all
sizes are computed together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from phasecast.core.errors import BadInput, unknown, whole_number
from phasecast.core.policy import Policy, rule
from phasecast.core.results import Measurement, Status
from phasecast.core.statistics import standard_error
from phasecast.core.types import Array, Key
from phasecast.posterior.last_layers import feature_networks as nets
from phasecast.posterior.last_layers import last_layer_posteriors as last

if TYPE_CHECKING:
    import pandas as pd

    pass

METHODS = {
    "map": "MAP",
    "last": "last layer",
    "two": "last two layers",
    "laplace-last": "last layer, Laplace",
    "laplace-two": "last two layers, Laplace",
}
"""Every way to predict, and its name in tables and figures."""
PROTOCOLS = ("corrected", "published", "transposed")
PAPER_SIZES = tuple(int(n) for n in np.rint(np.logspace(2.3, 3.0, 10)))
AT_ONCE = 50  # datasets computed together: about half a gigabyte of predictions
PRINTED_DRAWS = 1000  # of the Laplace approximations, as in the published script
PRINTED_TEST = 1000  # inputs for those approximations: ours, fewer than ``test`` because every draw predicts on each
PRINTED_SCALE = 0.2  # standard deviation of the entries of A₀ and B₀ in the published script's truth without g


@dataclass(frozen=True)
class LastLayerPolicy(Policy):
    """Thresholds of :func:`generalisation_curves`."""

    largest_rhat: float = rule(
        1.05,
        "chosen, not derived: split R-hat of two chains of about 100 draws exceeds the usual 1.01 by noise alone; the "
        "error over datasets is much larger than that of the chains",
    )
    most_undetermined: int = rule(0, "a Laplace approximation needs data that determine all directions of the Hessian")


POLICY = LastLayerPolicy()


@dataclass(frozen=True)
class Setting:
    """One experiment of Tables 1 and 3-5.

    Parameters
    ----------
    layers: hidden layers of g in the paper's counting, which leaves out one.
    activation: between A and B, ``"identity"`` or ``"relu"``.
    realisable: whether the truth is such a network, or h alone.
    training: how MAP is trained.
    protocol: ``"corrected"``; ``"published"``, with the mistakes of the published script, to see their effect; or
        ``"transposed"``, with only the first of them. In the published script the last layer uses features x̃ᵀA in
        place of A x̃; with the identity, A and B are those of a second head, which is meant for ReLU and never trained;
        Laplace uses the Hessian of the mean of |y − f|² and of the weight decay (only of the latter for the untrained
        head), transposes A and B, leaves out ReLU, and averages densities that underflow; without g the truth is
        linear with entries 0.2 N(0, 1).
    test: number of inputs that the error is averaged over.
    warmup, draws: HMC trajectories that adapt, and draws of A, per chain; there are two chains.
    """

    layers: int = 1
    activation: str = "identity"
    realisable: bool = True
    training: nets.Training = field(default_factory=nets.Training)
    protocol: str = "corrected"
    test: int = 4000
    warmup: int = 200
    draws: int = 100

    def __post_init__(self) -> None:
        whole_number("layers", self.layers, 0)
        for name, least in (("test", 10), ("warmup", 20), ("draws", 10)):
            whole_number(name, getattr(self, name), least)
        if self.activation not in ("identity", "relu"):
            raise unknown("activation", self.activation, ("identity", "relu"))
        if self.protocol not in PROTOCOLS:
            raise unknown("protocol", self.protocol, PROTOCOLS)
        if self.training.batch is not None:
            whole_number("batch", self.training.batch, 1)
        whole_number("epochs", self.training.epochs, 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class GeneralisationCurve(Measurement[np.ndarray]):
    """E_n G(n) over n, with the standard error over datasets.

    ``sizes`` (size,); ``errors`` (size, dataset): G of every dataset, NaN if there is no prediction.
    """

    sizes: np.ndarray = field(default_factory=lambda: np.empty(0))
    errors: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    def table(self) -> pd.DataFrame:
        """One line per number of examples n: the mean of G as ``estimate``, with its error over datasets."""
        import pandas as pd

        columns = {"estimate": np.asarray(self.estimate), "error": np.broadcast_to(self.error, self.sizes.shape)}
        return pd.DataFrame(columns, index=pd.Index(self.sizes, name="n"))

    def slope(self, intercept: bool = False) -> Measurement[float]:
        """The learning coefficient: the slope of E_n G over 1/n, by least squares as in the tables.

        Its error follows from those of E_n G; R² is about the mean with an intercept, about zero without.
        """
        mean, error = np.asarray(self.estimate, dtype=float), np.asarray(self.error, dtype=float)
        if len(self.sizes) < 2 + intercept:
            raise BadInput(f"{len(self.sizes)} sizes are too few to make a line", f"use at least {2 + intercept}")
        design = np.stack([1 / self.sizes] + [np.ones(len(self.sizes))] * intercept, axis=1)
        inverse = np.linalg.pinv(design)
        finite = bool(np.isfinite(mean).all())
        fitted = inverse @ mean if finite else np.full(1 + intercept, np.inf if np.isinf(mean).any() else np.nan)
        r_squared = np.nan
        if finite:
            left, around = np.sum((mean - design @ fitted) ** 2), np.sum((mean - mean.mean() * intercept) ** 2)
            r_squared = float(1 - left / around)
        numbers = {"r_squared": r_squared, **({"intercept": float(fitted[1])} if intercept else {})}
        return Measurement(
            float(fitted[0]),
            float(np.sqrt(np.sum((inverse[0] * error) ** 2))),
            self.status,
            numbers,
            error_kind="datasets",
            reasons=self.reasons,
            name=f"learning coefficient, {self.name}",
        )

    def less(self, other: GeneralisationCurve) -> Measurement[np.ndarray]:
        """E_n [G − G of ``other``] on the same datasets, where most of the noise cancels."""
        mean, error = _mean(self.errors - other.errors)
        refused = [one for one in (self, other) if one.status is Status.REFUSED]
        return Measurement(
            mean,
            error,
            Status.REFUSED if refused else Status.OK,
            reasons=[reason for one in refused for reason in one.reasons],
            error_kind="datasets",
            name=f"G of {self.name} minus {other.name}",
        )


def generalisation_curves(
    setting: Setting | None = None, sizes: Sequence[int] = PAPER_SIZES, datasets: int = 30, *, seed: int = 0
) -> dict[str, GeneralisationCurve]:
    """E_n G(n) of every method, by its key in :data:`METHODS`; minutes for the paper's sizes and thirty datasets.

    ``generalisation_curves(table_setting("1a"), sizes=(200, 1000))["map"].slope()`` is the slope of MAP in Table 1(a).
    """
    setting = setting or Setting()
    count = -(-whole_number("datasets", datasets, 2) // max(1, AT_ONCE // max(len(sizes), 1)))
    equal = -(-datasets // count)  # a part of another size is compiled again
    parts = list(study(setting, sizes, datasets, seed=seed, at_once=equal))
    return curves(setting, sizes, {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]})


def study(
    setting: Setting, sizes: Sequence[int], datasets: int, *, seed: int = 0, at_once: int = 10, first: int = 0
) -> Iterator[dict[str, np.ndarray]]:
    """G of every method, ``at_once`` datasets at a time, from number ``first`` on; arrays (size, dataset).

    Besides the methods: ``undetermined`` directions for Laplace, ``rhat`` of the distance between draws and MAP, and
    ``divergent`` trajectories. A dataset does not depend on ``at_once`` and ``first``, only on the largest size.
    """
    import jax

    whole_number("datasets", datasets, 2)
    whole_number("at_once", at_once, 1)
    if len(sizes) < 1 or any(whole_number("a size", int(n), 4) != n for n in sizes):
        raise BadInput(f"invalid sizes {tuple(sizes)}", "give integers ≥ 4")
    compiled = _compiled(setting, max(sizes))
    for start in range(first, datasets, at_once):
        numbers = range(start, min(start + at_once, datasets))
        keys = jax.numpy.stack(
            [
                jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), n), number)
                for n in sizes
                for number in numbers
            ]
        )
        rows = np.repeat(np.asarray(sizes), len(numbers))
        columns = compiled(keys, rows)
        yield {name: np.asarray(value, dtype=float).reshape(len(sizes), -1) for name, value in columns.items()}


Columns = Mapping[str, np.ndarray]
"""What :func:`study` yields, joined over datasets: arrays (size, dataset) by name."""


def curves(
    setting: Setting, sizes: Sequence[int], columns: Columns, policy: LastLayerPolicy = POLICY
) -> dict[str, GeneralisationCurve]:
    """The means over datasets of what :func:`study` yields, with a status by the policy."""
    by_method = {}
    for name, label in METHODS.items():
        errors = np.asarray(columns[name], dtype=float)
        mean, error = _mean(errors)
        status, reasons = _judged(setting, name, columns, policy)
        by_method[name] = GeneralisationCurve(
            mean,
            error,
            status,
            _diagnostics(name, columns),
            error_kind="datasets",
            reasons=reasons,
            name=label,
            policy=policy.plain(),
            sizes=np.asarray(sizes),
            errors=errors,
        )
    return by_method


def _mean(errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and its standard error over datasets."""
    with np.errstate(invalid="ignore"):
        return errors.mean(axis=1), standard_error(errors, axis=1)


def _diagnostics(name: str, columns: Columns) -> dict[str, float]:
    if name == "two":
        rhat = np.asarray(columns["rhat"])
        return {"largest_rhat": float(rhat.max()), "divergent": float(np.sum(columns["divergent"]))}
    if name == "laplace-two":
        return {"undetermined_directions": float(np.mean(columns["undetermined"]))}
    return {}


def _judged(setting: Setting, name: str, columns: Columns, policy: LastLayerPolicy) -> tuple[Status, list[str]]:
    if name == "laplace-two" and np.any(np.asarray(columns["undetermined"]) > policy.most_undetermined):
        mean = float(np.mean(columns["undetermined"]))
        return Status.REFUSED, [
            f"the Hessian is singular: in {mean:.1f} of {2 * nets.RANK * nets.FEATURES} directions on average the data "
            "determine less than the prior, so there is no Laplace approximation; sample the posterior instead"
        ]
    failed = int(np.sum(~np.isfinite(np.asarray(columns[name], dtype=float))))
    if failed and setting.protocol != "published":
        return Status.REFUSED, [
            f"{failed} of {np.size(columns[name])} datasets have no finite error: training diverged, so lower the "
            "learning rate"
        ]
    reasons = []
    mistaken = {"published": ("last", "laplace-last", "laplace-two"), "transposed": ("last",)}
    if name in mistaken.get(setting.protocol, ()):
        reasons.append("computed with mistakes of the published script: use protocol='corrected' for correct numbers")
    if name == "two":
        bad = int(np.sum(~(np.asarray(columns["rhat"]) <= policy.largest_rhat)))
        if bad:
            reasons.append(
                f"the chains of {bad} of {np.size(columns['rhat'])} datasets disagree (R-hat > {policy.largest_rhat}): "
                "use more draws"
            )
    return (Status.WARNING if reasons else Status.OK), reasons


@lru_cache(maxsize=8)  # one compilation for all parts of a study
def _compiled(setting: Setting, rows: int) -> Callable[[Array, Array], dict[str, Array]]:
    import jax

    return jax.jit(jax.vmap(lambda key, n: _dataset(key, n, setting, rows)))


class _NewPoints(NamedTuple):
    """Where predictions are tested: features of the inputs, f₀ there, and the noise of one y per input."""

    features: Array
    truth: Array
    noise: Array


def _dataset(key: Key, n: Array, setting: Setting, rows: int) -> dict[str, Array]:
    """Draw a truth and n data from it, train, predict: G of every method."""
    import jax
    import jax.numpy as jnp

    keys = iter(jax.random.split(key, 12))
    act = setting.activation
    x = jax.random.normal(next(keys), (nets.INPUTS, rows))
    test = jax.random.normal(next(keys), (nets.INPUTS, setting.test))
    mask = (jnp.arange(rows) < n).astype(x.dtype)
    draw_key = next(keys)
    y = _truth(draw_key, setting, x) + jax.random.normal(next(keys), (nets.OUTPUTS, rows))
    truth = _truth(draw_key, setting, test)
    noise = jax.random.normal(next(keys), truth.shape)

    start = nets.initial_weights(next(keys), setting.layers + 1)
    weights = nets.train_weights(next(keys), start, x, y, mask, act, setting.training)
    inner, outer = nets.features(weights, x), nets.features(weights, test)
    A = weights.A
    y = y * mask

    errors = {"map": last.point_error(nets.outputs(weights, act, test), truth)}
    published = setting.protocol == "published"
    taken = nets.initial_weights(next(keys), 0) if published and act == "identity" else weights
    first = A if setting.protocol == "corrected" else taken.A.T
    z, z_test = (nets.activate(act, first @ some) for some in (inner, outer))
    errors["last"] = last.normal_error(*last.last_layer(z * mask, y).predict(z_test), truth)

    starts = jnp.stack([A, jax.random.normal(next(keys), A.shape)])
    sample = last.Sample(inner, y, mask)
    density = last.log_posterior_of_A(act, sample)
    draws, divergent = jax.vmap(lambda key, start: last.sample_A(key, start, density, setting.warmup, setting.draws))(
        jax.random.split(next(keys)), starts
    )
    mixture = last.two_layers(draws.reshape(-1, *A.shape), act, sample, outer)
    errors["two"] = last.mixture_error(mixture, truth, noise)
    away = jnp.mean((mixture.mean - nets.outputs(weights, act, test)) ** 2, axis=(1, 2))
    errors["rhat"], errors["divergent"] = _rhat(away.reshape(2, -1)), divergent.sum()
    laplace = _printed_laplace if published else _laplace
    return {**errors, **laplace(next(keys), setting, taken, sample, _NewPoints(outer, truth, noise))}


def _truth(key: Key, setting: Setting, x: Array) -> Array:
    """f₀(x): a network with PyTorch's initial weights, or h of one without g."""
    import jax

    if setting.realisable:
        return nets.outputs(nets.initial_weights(key, setting.layers + 1), setting.activation, x)
    if setting.protocol == "published":
        A, B = PRINTED_SCALE * jax.random.normal(key, (2, nets.RANK, nets.FEATURES))
        return B @ A @ x
    weights = nets.initial_weights(key, 0)
    return nets.head(weights.A, weights.B, setting.activation, x)


def _laplace(
    key: Key, setting: Setting, weights: nets.Weights, sample: last.Sample, new: _NewPoints
) -> dict[str, Array]:
    """Normal approximations at MAP with the Hessian of the posterior's own loss."""
    act = setting.activation
    z, z_test = (nets.activate(act, weights.A @ some) for some in (sample.x, new.features))
    posterior = last.last_layer(z * sample.mask, sample.y)
    _, variance = posterior.predict(z_test)
    two = last.laplace_two_layers(key, weights.A, weights.B, act, sample, 2 * setting.draws)
    return {
        "laplace-last": last.normal_error(weights.B @ z_test, variance, new.truth),
        "laplace-two": last.mixture_error(last.mixture_of_heads(two, act, new.features), new.truth, new.noise),
        "undetermined": two.undetermined,
    }


def _printed_laplace(
    key: Key, setting: Setting, weights: nets.Weights, sample: last.Sample, new: _NewPoints
) -> dict[str, Array]:
    """The published script's: H of mean |y − f|² + decay/2 |w|², A and B applied transposed, and no ReLU."""
    import jax
    import jax.numpy as jnp

    act, A, B, decay = setting.activation, weights.A, weights.B, setting.training.decay
    # the loss does not depend on the unused head
    share = 2 / sample.mask.sum() * (act == "relu")
    z = nets.activate(act, A @ sample.x) * sample.mask
    factor = jnp.linalg.cholesky(jnp.linalg.inv(share * z @ z.T + decay * jnp.eye(len(z))))
    for_last, for_two = jax.random.split(key)
    drawn = B + jax.random.normal(for_last, (PRINTED_DRAWS, *B.shape)) @ factor.T
    one = last.Laplace(jnp.broadcast_to(A.T, drawn.shape), jnp.swapaxes(drawn, 1, 2), jnp.zeros(()))
    # N(w, (c H + decay)⁻¹) is the correct one with the likelihood times c/decay, its spread over √decay
    two = last.laplace_two_layers(for_two, A, B, act, sample, PRINTED_DRAWS, scale=share / decay)
    wide = [mean + (draw - mean) / jnp.sqrt(decay) for draw, mean in ((two.A, A), (two.B, B))]
    turned = last.Laplace(jnp.swapaxes(wide[0], 1, 2), jnp.swapaxes(wide[1], 1, 2), two.undetermined)
    outer, truth, noise = (part[:, :PRINTED_TEST] for part in new)
    return {
        "laplace-last": last.printed_error(last.mixture_of_heads(one, "identity", outer), noise, truth),
        "laplace-two": last.printed_error(last.mixture_of_heads(turned, "identity", outer), noise, truth),
        "undetermined": two.undetermined,
    }


def _rhat(chains: Array) -> Array:
    """Split R-hat of (chain, draw), in code that is compiled."""
    import jax.numpy as jnp

    half = chains.shape[1] // 2
    parts = chains[:, : 2 * half].reshape(2 * len(chains), half)
    within = parts.var(axis=1, ddof=1).mean()
    between = parts.mean(axis=1).var(ddof=1)
    return jnp.sqrt((half - 1) / half + between / within)


def describe_setting(setting: Setting) -> str:
    """A setting in words."""
    how = "full batch" if setting.training.batch is None else f"batches of {setting.training.batch}"
    truth = "realisable" if setting.realisable else "nonrealisable"
    layers = f"{setting.layers} hidden layer{'s' * (setting.layers != 1)} in g"
    return f"{truth}, {how}, {layers}, {setting.activation} in h, {setting.protocol} protocol"


def table_setting(
    table: str, *, protocol: str = "corrected", training: nets.Training | None = None, **sizes: int
) -> Setting:
    """The setting of a table, like ``"1a"`` or ``"4c"``; ``sizes`` are ``test``, ``warmup`` and ``draws``.

    >>> table_setting("3d").activation, table_setting("3d").layers, table_setting("3d").training.batch
    ('relu', 5, 32)
    """
    tables = {"1": (True, None), "3": (True, 32), "4": (False, None), "5": (False, 32)}
    panels = {"a": (1, "identity"), "b": (5, "identity"), "c": (1, "relu"), "d": (5, "relu")}
    if len(table) != 2 or table[0] not in tables or table[1] not in panels:
        raise unknown("table", table, [number + panel for number in tables for panel in panels])
    (realisable, batch), (layers, activation) = tables[table[0]], panels[table[1]]
    training = (training or nets.Training())._replace(batch=batch)
    return replace(Setting(layers, activation, realisable, training, protocol), **sizes)
