"""How are powers of ten written along an axis? As text, 10⁻³: setting them as formulas takes half the time to draw."""

from __future__ import annotations

import re
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation

_RAISED = str.maketrans("-−0123456789", "⁻⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class PlainPowers(LogFormatterSciNotation):
    """The labels that matplotlib gives logarithmic axes, in plain text."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return in_text(super().__call__(x, pos))


def in_text(formula: str) -> str:
    """A label of a logarithmic axis as text; anything else as it is.

    >>> in_text(r"$\\mathdefault{-2\\times10^{-13}}$")
    '−2×10⁻¹³'
    """
    found = re.fullmatch(r"\$\\mathdefault\{(-?)(?:([\d.]+)\\times)?([\d.]+)(?:\^\{([-−]?\d+)\})?\}\$", formula)
    if found is None:
        return formula
    sign, factor, base, exponent = found.groups(default="")
    return f"{'−' if sign else ''}{factor}{'×' if factor else ''}{base}{exponent.translate(_RAISED)}"


def plain_powers(figure: Figure) -> None:
    """Write the labels of a figure's logarithmic axes as text, unless they were chosen."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if axis.isDefault_majfmt and _is_default(axis.get_major_formatter()):
                axis.set_major_formatter(_plain(axis.get_major_formatter()))
            if axis.isDefault_minfmt and _is_default(axis.get_minor_formatter()):
                axis.set_minor_formatter(_plain(axis.get_minor_formatter()))


def _is_default(formatter: Any) -> bool:
    return type(formatter) is LogFormatterSciNotation


def _plain(formatter: Any) -> PlainPowers:
    """The same formatter in plain text; matplotlib has no public way to ask for the base and the linear part."""
    return PlainPowers(formatter._base, formatter.labelOnlyBase, formatter.minor_thresholds, formatter._linthresh)
