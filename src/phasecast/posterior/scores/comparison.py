"""Which model would each criterion choose, and which one predicts best?

WAIC and LOO estimate the loss on new data, WBIC and the free energy the probability of the data; BIC does the latter
for regular models only. They need not agree; the table shows where they do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from phasecast.core import codec
from phasecast.core.errors import BadInput
from phasecast.core.results import Measurement, Result, Status
from phasecast.figures.style import styled
from phasecast.posterior.scores.criteria import Criteria, criteria, pointwise_error
from phasecast.posterior.scores.evidence import wbic, wbic_beta

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from phasecast.figures.drawing import Drawing

PREDICTIVE = {"waic": "WAIC", "loo": "LOO", "psis_loo": "PSIS-LOO"}
POINTWISE = {"waic": "pointwise_waic", "loo": "pointwise_loo", "psis_loo": "pointwise_psis"}
TOTAL = {"free_energy": "free energy / n", "wbic": "WBIC / n", "bic": "BIC / n"}
TRUTH = "generalisation"


@dataclass(frozen=True)
class Scores:
    """The criteria of one model on data that all models share; all but the first are optional.

    Parameters
    ----------
    criteria: from draws of its posterior.
    free_energy, wbic: in nats, from :func:`phasecast.posterior.scores.evidence.free_energy` and ``wbic``.
    bic: in nats.
    generalisation: its Bayes loss on new data, in nats per observation.
    """

    criteria: Criteria
    free_energy: Measurement | None = None
    wbic: Measurement | None = None
    bic: float | None = None
    generalisation: float | None = None


@dataclass(frozen=True, eq=False)
class Ranking(Result):
    """Models compared: ``values`` and ``errors`` of shape (criterion, model), in nats per observation.

    An error is that of the difference to the model which the criterion chooses: over observations for WAIC and LOO,
    of sampling for the free energy and WBIC; NaN if it is not known.
    """

    models: tuple[str, ...]
    criteria: tuple[str, ...]
    values: np.ndarray
    errors: np.ndarray
    refused: tuple[str, ...] = field(default=())

    @property
    def choices(self) -> dict[str, str]:
        """The model that each criterion chooses."""
        return {name: self.models[int(np.nanargmin(row))] for name, row in zip(self.criteria, self.values, strict=True)}

    def plain(self) -> dict[str, Any]:
        rows = zip(self.criteria, self.values, self.errors, strict=True)
        return {
            "models": list(self.models),
            "criteria": {
                name: {"values": codec.plain(values), "errors": codec.plain(errors), "choice": self.choices[name]}
                for name, values, errors in rows
            },
            "refused": list(self.refused),
        }

    def _title(self) -> str:
        return "models compared: " + ", ".join(self.models)

    def _rows(self) -> list[tuple[str, str]]:
        rows = []
        for name, values in zip(self.criteria, self.values, strict=True):
            shown = ", ".join("–" if np.isnan(value) else f"{value:.4f}" for value in values)
            rows.append((name, f"{shown} → {self.choices[name]}"))
        return rows + [("refused", reason) for reason in self.refused]

    def table(self) -> pd.DataFrame:
        """One line per criterion and model: its value, and the error of its difference to the chosen model."""
        import pandas as pd

        index = pd.MultiIndex.from_product([self.criteria, self.models], names=["criterion", "model"])
        return pd.DataFrame({"value": self.values.ravel(), "error": self.errors.ravel()}, index=index)

    @styled
    def figure(self) -> Drawing:
        """How much worse than its choice each criterion rates every model; the choice is a filled marker at zero."""
        from phasecast.figures.drawing import COLOURS, EXACT, blank

        figure, grid = blank(width=6.4, height=0.8 + 0.5 * len(self.criteria))
        axes = grid[0, 0]
        height = np.arange(len(self.criteria))[::-1]
        for number, model in enumerate(self.models):
            colour = COLOURS[number % len(COLOURS)]
            worse = self.values[:, number] - np.nanmin(self.values, axis=1)
            shift = 0.24 * (number / max(len(self.models) - 1, 1) - 0.5)
            error = np.nan_to_num(self.errors[:, number])
            axes.errorbar(worse, height - shift, xerr=error, fmt="o", ms=5, color=colour, mfc="none", label=model)
            chosen = worse == 0
            axes.plot(worse[chosen], height[chosen] - shift, "o", ms=6, color=colour)
        axes.set_yticks(height, self.criteria)
        axes.set_xlabel("nats per observation above the chosen model (filled)")
        axes.axvline(0, lw=0.6, color=EXACT["color"])
        figure.legend(loc="outside upper center", ncols=min(len(self.models), 4))
        return figure


def compare(models: Mapping[str, Scores | Criteria | xr.DataTree]) -> Ranking:
    """A table of all criteria that every model has, and what each would choose.

    What ``tempered(…, pointwise=True)`` returns is a model's criteria too, and its WBIC if 1/log n is among its β.

    >>> rng = np.random.default_rng(0)
    >>> x, w = rng.normal(size=40), rng.normal(scale=40**-0.5, size=(400, 1))
    >>> from phasecast.posterior.scores.criteria import criteria
    >>> ranking = compare({"right": criteria(-((x - w) ** 2) / 2), "wrong": criteria(-((x - w - 1) ** 2) / 2)})
    >>> ranking.choices["WAIC"], ranking.choices["PSIS-LOO"]
    ('right', 'right')
    """
    if len(models) < 2:
        raise BadInput(f"a comparison needs at least two models, got {len(models)}", "give two or more")
    scores = {name: _scores(one) for name, one in models.items()}
    sizes = {one.criteria.observations for one in scores.values()}
    if len(sizes) != 1:
        raise BadInput(f"the models have {sorted(sizes)} observations", "compare them on the same data")
    n = sizes.pop()
    rows: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name, label in PREDICTIVE.items():
        values = np.array([getattr(one.criteria, name) for one in scores.values()])
        if np.isfinite(values).any():
            pointwise = np.stack([getattr(one.criteria, POINTWISE[name]) for one in scores.values()])
            best = pointwise[int(np.nanargmin(values))]
            rows[label] = values, np.array([pointwise_error(one - best) for one in pointwise])
    refused = []
    for name, label in TOTAL.items():
        totals = [getattr(one, name) for one in scores.values()]
        if all(one is not None for one in totals):
            refused += [
                f"{label} of {model}: {'; '.join(one.reasons)}"
                for model, one in zip(scores, totals, strict=True)
                if isinstance(one, Measurement) and one.status is Status.REFUSED
            ]
            values, errors = _per_observation(totals, n)
            if np.isfinite(values).any():
                rows[label] = values, errors
    losses = [one.generalisation for one in scores.values()]
    if all(loss is not None for loss in losses):
        rows[TRUTH] = np.array(losses, dtype=float), np.full(len(losses), np.nan)
    values, errors = (np.stack(part) for part in zip(*rows.values(), strict=True))
    return Ranking(tuple(scores), tuple(rows), values, errors, tuple(refused))


def _scores(model: Scores | Criteria | xr.DataTree) -> Scores:
    if isinstance(model, Scores):
        return model
    if isinstance(model, Criteria):
        return Scores(model)
    losses = criteria(model)
    n = losses.observations
    betas = model["sample_stats"].to_dataset().get("beta") if "sample_stats" in model.children else None
    sampled = n >= 3 and betas is not None and np.isclose(betas.values, wbic_beta(n), rtol=1e-6).any()
    return Scores(losses, wbic=wbic(model, n) if sampled else None)


def _per_observation(totals: Sequence[Measurement | float], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Values over n with the errors of their differences to the least; a refused one is NaN."""

    def number(one: Measurement | float) -> float:
        if not isinstance(one, Measurement):
            return float(one)
        return float("nan") if one.status is Status.REFUSED else float(np.asarray(one.value))

    values = np.array([number(one) for one in totals])
    own = np.array([float(np.asarray(one.error)) if isinstance(one, Measurement) else 0.0 for one in totals])
    if np.isnan(values).all():
        return values, own
    best = int(np.nanargmin(values))
    errors = np.where(np.arange(len(own)) == best, 0.0, np.hypot(own, own[best]))
    return values / n, errors / n


def summary_sentence(ranking: Ranking) -> str:
    """Which criteria would choose the model that predicts best, in a sentence.

    >>> values = np.array([[1.0, 2.0], [2.0, 1.5], [1.0, 1.1]])
    >>> summary_sentence(Ranking(("a", "b"), ("WAIC", "BIC / n", "generalisation"), values, values * 0))
    'a predicts best; WAIC would choose it, BIC / n would not.'
    """
    if TRUTH not in ranking.criteria:
        chosen = "; ".join(f"{name} chooses {model}" for name, model in ranking.choices.items())
        return f"{chosen}."
    best = ranking.choices[TRUTH]
    others = {name: model for name, model in ranking.choices.items() if name != TRUTH}
    right = [name for name, model in others.items() if model == best]
    wrong = [name for name, model in others.items() if model != best]
    parts = [f"{', '.join(right)} would choose it" if right else "", f"{', '.join(wrong)} would not" if wrong else ""]
    return f"{best} predicts best; {', '.join(part for part in parts if part)}."
