"""What does :func:`phasecast.llc` return? λ̂ with everything that speaks for and against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from phasecast.core.errors import BadInput, whole_number
from phasecast.core.results import NOT_STORED, Measurement, Status, show
from phasecast.figures.style import styled
from phasecast.sampling.backends.protocol import Backend, stream
from phasecast.sampling.kernels.kernel import Kernel, State, Tuning

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from phasecast.coefficients.llc.studies.observables import Fluctuation, Influence, Observable, Susceptibility
    from phasecast.figures.drawing import Drawing


@dataclass(frozen=True, eq=False)
class Chains:
    """Where the chains stopped, for those who let them go on. Keeps the data of the problem in memory."""

    backend: Backend
    kernel: Kernel
    state: State
    tuning: Tuning


@dataclass(frozen=True, eq=False, kw_only=True)
class LLC(Measurement):
    """λ̂ at w*.

    ``value_min`` is λ̂ against the minimum that descent from w* reaches. ``value_var`` is (nβ)² Var L, which differs
    from λ̂ by dλ̂/d log nβ. ``gamma`` is the γ that λ̂ belongs to, 0 for the limit γ → 0, and ``radius`` the root
    of the mean |w − w*|² there over |w*|. ``terms`` says what n counts. ``curve`` has a row (γ, λ̂(γ), error, value_var)
    for each γ that was sampled, ``traces`` the draws of nβ(L − L*) and of |w − w*|² at ``gamma``, or at
    the smallest γ where that is 0, (draws, chains).
    ``stein`` is nβE[(w − w*)·∇L] + γE|w − w*|² − d in standard errors, ``divergences`` a share of the steps, and the
    cost is in ``gradients`` of single chains and in ``seconds``. ``chains`` is where they stopped, in the object that
    ``llc`` returned.
    """

    value_min: float
    value_var: float
    nbeta: float
    gamma: float
    curve: np.ndarray
    rhat: float
    ess: float
    acceptance: float
    divergences: float
    stein: float
    gradients: float
    seconds: float
    traces: dict[str, np.ndarray]
    radius: float = float("nan")
    terms: str = ""
    chains: Chains | None = field(default=None, repr=False, compare=False, metadata=NOT_STORED)

    def plain(self) -> dict[str, Any]:
        """For other programs: everything but the draws."""
        names = (
            "value_min",
            "value_var",
            "nbeta",
            "gamma",
            "radius",
            "rhat",
            "ess",
            "acceptance",
            "divergences",
            "stein",
        )
        own = {name: _number(getattr(self, name)) for name in (*names, "gradients", "seconds")}
        curve = [
            dict(zip(("gamma", "value", "error", "value_var"), map(_number, row), strict=True)) for row in self.curve
        ]
        return {**super().plain(), **own, "terms": self.terms, "curve": curve}

    def sample_losses(self, row_losses: Callable[..., Any], draws: int = 100, thin: int = 10) -> np.ndarray:
        """The loss of every row of the data at ``draws`` further states of the chains: (draws, chains, rows).

        The chains go on from where they stopped, ``thin`` steps for each draw. ``row_losses(params, data)`` is the loss
        before its mean is taken; for a torch module ``row_losses(outputs, targets)``, as with ``reduction="none"``.
        """
        if self.chains is None:
            raise BadInput("this result came from a file, or without data", "use the one that llc returned, with data")
        chains = self.chains
        backend, kernel, state, tuning = chains.backend, chains.kernel, chains.state, chains.tuning
        whole_number("draws", draws, 1)
        whole_number("thin", thin, 1)
        losses = []
        for number in range(draws):
            key = stream(backend, backend.key(0), "further draws", number)
            state, _ = backend.run(kernel, state, tuning, key, thin)
            rows = backend.of_rows(row_losses, state["position"])
            if rows.ndim < 2 or rows.shape[1] != backend.rows:
                raise BadInput(
                    f"row_losses has shape {rows.shape[1:]}", f"return one number for each of {backend.rows} rows"
                )
            losses.append(rows)
        return np.stack(losses)

    def susceptibility(
        self,
        observables: Observable | Mapping[str, Observable],
        perturbation: Observable | None = None,
        *,
        draws: int = 200,
        thin: int | None = None,
    ) -> Susceptibility:
        """χ = −nβ Cov(A, P) of observables A: dE[A]/dh for the loss L + hP, at h = 0.

        Parameters
        ----------
        observables: a function with the arguments of ``row_losses`` in :meth:`sample_losses`, or ``{label: function}``;
            A is the mean of what it returns over all rows. ``(function, rows)`` for the mean over some rows.
        perturbation: P, in the same form; defaults to L, so that χ = dE[A]/d log nβ.
        draws: further draws of each chain.
        thin: steps between two draws; defaults to the correlation time of the loss.
        """
        from phasecast.coefficients.llc.studies.observables import susceptibility

        return susceptibility(self, observables, perturbation, draws=draws, thin=thin)

    def influence(
        self, rows: Sequence[int], row_losses: Callable[..., Any], *, draws: int = 200, thin: int | None = None
    ) -> Influence:
        """−Cov(ℓ_i, ℓ_j) for the given rows: dE[ℓ_j]/dε where row i weighs exp(−ε ℓ_i) more (Kreer et al. 2025).

        ``row_losses``, ``draws`` and ``thin`` are those of :meth:`sample_losses` and :meth:`susceptibility`.
        """
        from phasecast.coefficients.llc.studies.observables import influence

        return influence(self, rows, row_losses, draws=draws, thin=thin)

    def fluctuation(self, row_losses: Callable[..., Any], *, draws: int = 200, thin: int | None = None) -> Fluctuation:
        """The singular fluctuation ν = β/2 Σ Var(ℓ_i) with β = nβ/n, and WAIC, of the sampled law (Watanabe 2010).

        ``row_losses`` returns the n terms whose mean is the loss, one per row or one per token of each row.
        """
        from phasecast.coefficients.llc.studies.observables import fluctuation

        return fluctuation(self, row_losses, draws=draws, thin=thin)

    def datatree(self) -> xr.DataTree:
        """The draws as an xarray DataTree with a group ``posterior``, as ArviZ reads it."""
        import xarray as xr

        draws = {name: (("chain", "draw"), values.T) for name, values in self.traces.items()}
        stats = {"gamma": self.gamma or self.curve[-1, 0], "nbeta": self.nbeta, "acceptance": self.acceptance}
        return xr.DataTree.from_dict({"posterior": xr.Dataset(draws), "sample_stats": xr.Dataset(stats)})

    def table(self) -> pd.DataFrame:
        """One line per γ that was sampled: λ̂(γ) as ``estimate`` with its error, and ``value_var``."""
        import pandas as pd

        columns = ["gamma", "estimate", "error", "value_var"]
        return pd.DataFrame(self.curve, columns=columns).set_index("gamma")

    @styled
    def figure(self) -> Drawing:
        """λ̂(γ) at every level, and nβ(L − L*) of each chain at the last."""
        from phasecast.figures.drawing import COLOURS, blank, legend

        figure, axes = blank(1, 2, width=8.0)
        left, right = axes[0]
        gammas, values, errors, _ = self.curve.T
        colour = COLOURS[0]
        left.errorbar(gammas, values, yerr=errors, fmt="o-", color=colour, ms=4, lw=1, capsize=2, label="sampled")
        fill = "none" if self.status is Status.REFUSED else colour
        middle, width = float(np.asarray(self.estimate)), float(np.nan_to_num(self.error, posinf=0.0))
        left.axhspan(middle - width, middle + width, color="#888888", alpha=0.15, lw=0)
        left.axhline(middle, color="#888888", lw=0.8, ls="--", label=f"λ̂ = {show(self.estimate, self.error)}")
        here = gammas == (self.gamma or gammas[-1])
        left.plot(gammas[here], values[here], "o", ms=4, color=colour, mfc=fill)
        left.set_xscale("log")
        left.minorticks_off()
        left.set_xticks(gammas, [f"{gamma:.3g}" for gamma in gammas], rotation=30 if len(gammas) > 5 else 0)
        left.set_xlabel("localisation γ")
        left.set_ylabel("nβ E[L − L*]")
        legend(left)
        left.set_title(f"{self.status}", fontsize=9, loc="left")
        for chain in self.traces["excess"].T[:8]:
            right.plot(chain, lw=0.5, alpha=0.8)
        right.set_xlabel("draw")
        right.set_ylabel("nβ (L − L*)")
        return figure

    plot = figure

    def _rows(self) -> list[tuple[str, str]]:
        localisation = f"γ = {self.gamma:.4g}" if self.gamma else "the limit γ → 0"
        reach = f", |w − w*| = {self.radius:.2g} |w*|" if np.isfinite(self.radius) and self.gamma else ""
        chains = self.traces["excess"].shape[1]
        not_minimum = self.value_min - self.estimate > self.policy.get("small_gap", 0.0) * abs(self.value_min)
        return [
            *super()._rows(),
            *([("above the minimum", f"{self.value_min:.4g} (value_min)")] if not_minimum else []),
            ("where", f"nβ = {self.nbeta:.4g}, {localisation}{reach}"),
            *([("terms", self.terms)] if self.terms else []),
            ("cost", f"{self.gradients:.3g} gradients of {chains} chain{'s' * (chains > 1)}, {self.seconds:.3g} s"),
        ]


def _number(value: Any) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None
