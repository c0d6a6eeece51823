"""Which basin wins at which n: the two free energies, drawn as their difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from phasecast.figures.style import style

if TYPE_CHECKING:
    from phasecast.coefficients.free_energy import Basin

COLOURS = {"a": "#0072B2", "b": "#D55E00"}
WIDEST = 3.0  # decades to either side of the crossings
UNDECIDED = 1e6  # how far to look when there is no crossing


def competing_basins(a: Basin, b: Basin, names: tuple[str, str] = ("a", "b")) -> Any:
    """A matplotlib figure of F_a(n) − F_b(n) over n: above zero basin b wins, below it basin a, with every crossing.

    The scale is linear within one unit of zero and logarithmic beyond; one unit is a factor e in posterior odds.

    >>> from phasecast.coefficients import deep_linear
    >>> from phasecast.coefficients.free_energy import Basin
    >>> figure = competing_basins(Basin(0.01, deep_linear((5, 1, 5), 1)), Basin(0.0, deep_linear((5, 5, 5), 4)))
    >>> figure.axes[0].get_xlabel()
    'samples n'
    """
    from matplotlib.figure import Figure

    from phasecast.coefficients.free_energy import SMALLEST_N, critical_sample_size

    crossings = critical_sample_size(a, b).diagnostics.get("all_crossings", [])
    low = max(SMALLEST_N, min(crossings) / 10**WIDEST) if crossings else SMALLEST_N
    high = max(crossings) * 10**WIDEST if crossings else UNDECIDED
    n = np.geomspace(low, high, 400)
    gap = np.array([a.free_energy(float(x)) - b.free_energy(float(x)) for x in n])
    with style():
        figure = Figure(figsize=(7.0, 3.6), layout="constrained")
        axes = figure.add_subplot()
        axes.set_xscale("log")
        axes.set_yscale("symlog", linthresh=1.0)
        axes.axhline(0, color="#888888", lw=0.8)
        axes.plot(n, gap, color="#1b2a3c", lw=1.6)
        axes.fill_between(n, gap, 0, where=gap <= 0, color=COLOURS["a"], alpha=0.2, lw=0, label=f"{names[0]} wins")
        axes.fill_between(n, gap, 0, where=gap >= 0, color=COLOURS["b"], alpha=0.2, lw=0, label=f"{names[1]} wins")
        for crossing in crossings:
            axes.axvline(crossing, color="#1b2a3c", lw=0.8, ls=":")
            axes.annotate(
                f"n = {float(f'{crossing:.4g}'):g}",
                (crossing, 0),
                xytext=(4, 6),
                textcoords="offset points",
                fontsize=8.5,
            )
        axes.set_xlim(low, high)
        axes.set_xlabel("samples n")
        axes.set_ylabel(f"F({names[0]}) − F({names[1]})")
        axes.legend(loc="best")
    return figure
