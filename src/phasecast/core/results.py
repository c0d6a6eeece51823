"""What theory says, what was measured, and whether the two agree.

A :class:`Prediction` and a :class:`Measurement` both lead with a value, so a :class:`Comparison` is their
distance in combined errors, :math:`(\\hat x - x)/\\sqrt{\\sigma^2 + s^2}`, with σ the standard error of the
measurement and s the systematic width of the prediction, and a verdict in words.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Generic, Self, cast

import numpy as np
from typing_extensions import TypeVar

from phasecast.core import codec
from phasecast.core.display import Displayed, pairs_html
from phasecast.core.errors import BadInput, NewerVersion, OutsideRegime, Refused

Value = Fraction | float | int | np.ndarray
V = TypeVar("V", bound=Value, default=Value, covariant=True)
"""What a result holds: ``Prediction[np.ndarray]`` is a curve, ``Measurement[float]`` a number; any value by default."""

_FORMAT = 1  # of the JSON of results; raised when an older phasecast could not read it

NOT_STORED = {"stored": False}
"""Metadata of a field that a result keeps in memory and leaves out of its JSON."""


class Status(StrEnum):
    """Would we defend this number? ``ok``, ``warning`` (yes, with reasons to read), ``refused`` (no)."""

    OK = "ok"
    WARNING = "warning"
    REFUSED = "refused"


class Verdict(StrEnum):
    """What a comparison finds."""

    AGREES = "agrees"
    DIFFERS = "differs"
    BOUND_RESPECTED = "bound respected"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not comparable"


class Result(Displayed):
    """What all results share: they print as a small table, equal by content, and turn into JSON and back.

    A notebook shows the same table with the status in colour and, where a result has ``figure()``, the figure below it.
    """

    _kinds: ClassVar[dict[str, type[Result]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        before = Result._kinds.get(cls.__name__)
        if before is not None and before.__module__ != cls.__module__:
            raise TypeError(f"there is a result called {cls.__name__} in {before.__module__}; use another name")
        Result._kinds[cls.__name__] = cls

    def to_json(self) -> str:
        """An exact copy as text: Fractions, arrays and non-finite values come back as they were."""
        return json.dumps({"format": _FORMAT, **self._tree()}, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The result that :meth:`to_json` wrote."""
        try:
            tree = json.loads(text)
        except json.JSONDecodeError as error:
            raise BadInput(f"this is not JSON ({error})", "give the text that to_json() returned") from None
        if not isinstance(tree, dict) or "type" not in tree or not isinstance(tree.get("format"), int):
            raise BadInput("this JSON is not a phasecast result", "give the text that to_json() returned")
        if tree.pop("format") > _FORMAT:
            raise NewerVersion("this result was written by a newer phasecast", "upgrade phasecast")
        result = Result._from_tree(tree)
        if not isinstance(result, cls):
            raise BadInput(f"this is a {type(result).__name__}, not a {cls.__name__}", "read it as what it is")
        return result

    def plain(self) -> dict[str, Any]:
        """A dictionary for other programs: lists, strings like "7/2", null for NaN and infinities."""
        raise TypeError(f"{type(self).__name__} has no plain form")  # each kind of result has its own

    def _tree(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for entry in dataclasses.fields(self):  # pyright: ignore[reportArgumentType]
            if not entry.metadata.get("stored", True):
                continue
            value = getattr(self, entry.name)
            fields[entry.name] = {"$result": value._tree()} if isinstance(value, Result) else codec.encode(value)
        return {"type": type(self).__name__, "fields": fields}

    @staticmethod
    def _from_tree(tree: dict[str, Any]) -> Result:
        called = "CurveForecast" if tree["type"] == "Forecast" and "alpha" in tree["fields"] else tree["type"]
        kind = Result._kinds.get(called)  # release 0.1.0 called the forecast of a learning curve Forecast
        if kind is None:
            raise BadInput(f"unknown result type '{tree['type']}'", "import the module that defines it first")
        values = {
            name: Result._from_tree(item["$result"])
            if isinstance(item, dict) and "$result" in item
            else codec.decode(item)
            for name, item in tree["fields"].items()
        }
        return kind(**values)

    def _rows(self) -> list[tuple[str, str]]:
        raise TypeError(f"{type(self).__name__} has no table")

    def _title(self) -> str:
        return getattr(self, "name", "") or type(self).__name__.lower()

    def __str__(self) -> str:
        rows = self._rows()
        width = max(len(label) for label, _ in rows)
        return "\n".join([self._title(), *(f"  {label:<{width}}  {text}" for label, text in rows)])

    def _html_table(self) -> str:
        return pairs_html(self._title(), self._rows())

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._tree() == other._tree()  # pyright: ignore[reportAttributeAccessIssue]

    def __hash__(self) -> int:
        return hash(self.to_json())


@dataclass(frozen=True, eq=False)
class Prediction(Result, Generic[V]):
    """What theory says.

    Parameters
    ----------
    value: the predicted number or array; a ``Fraction`` where it is exact.
    regime: where the prediction is valid, in words.
    source: paper and equation.
    systematic: how far the truth may lie from ``value`` in the setting compared with (0 for exact forms).
    kind: ``"exact"``, ``"upper-bound"`` or ``"lower-bound"``; bounds are compared on one side only.
    """

    value: V
    regime: str = ""
    source: str = ""
    systematic: float | np.ndarray = 0.0
    kind: str = "exact"
    name: str = ""

    KINDS: ClassVar[tuple[str, ...]] = ("exact", "upper-bound", "lower-bound")

    def __post_init__(self) -> None:
        if self.kind not in self.KINDS:
            raise BadInput(f"a prediction cannot be '{self.kind}'", f"choose one of: {', '.join(self.KINDS)}")
        object.__setattr__(self, "value", _as_value(self.value))
        if not np.all(np.asarray(self.systematic) >= 0):
            raise BadInput("a systematic width cannot be negative", "give its size, or 0 for an exact form")

    def __float__(self) -> float:
        return float(self.value)

    def at(self, **conditions: float) -> Prediction:
        """The prediction at finite size, e.g. ``at(nbeta=1e4)``, for the kinds of prediction that know it."""
        raise OutsideRegime(
            f"no finite-size form of '{self._title()}' is known for {', '.join(conditions) or 'these conditions'}",
            "compare with the asymptotic value and its systematic width",
        )

    def plain(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": codec.plain(self.value),
            "value_float": codec.plain(np.asarray(self.value, dtype=float)),
            "kind": self.kind,
            "regime": self.regime,
            "source": self.source,
            "systematic": codec.plain(self.systematic),
        }

    def words(self) -> str:
        """The value as a person would write it, with ≤ or ≥ for a bound."""
        sign = {"upper-bound": "≤ ", "lower-bound": "≥ "}.get(self.kind, "")
        return sign + show(self.value, self.systematic)

    def _rows(self) -> list[tuple[str, str]]:
        more = (("regime", self.regime), ("source", self.source))
        return [("predicted", self.words()), *((label, text) for label, text in more if text)]


@dataclass(frozen=True, eq=False)
class Measurement(Result, Generic[V]):
    """What was measured, with one standard error over everything random in it.

    ``value`` and ``float()`` raise :class:`Refused` where ``status`` is refused; ``estimate`` is always available.
    ``reasons`` say, for a warning or a refusal, what is wrong and what to do. ``policy`` holds the thresholds that
    decided the status. ``error_kind`` says what the error is over:

    ========== ==========================================================
    mcse       the draws of a sampler (Monte Carlo standard error)
    seeds      independent runs with other seeds
    datasets   independently drawn data sets
    quadrature a numerical integral or solution, by refinement
    bootstrap  resampled data
    jackknife  leaving out one piece at a time
    resolution the spacing of what was recorded
    exact      none: the number is exact
    ========== ==========================================================

    A kind of measurement with fields of its own derives from this one as
    ``@dataclass(frozen=True, eq=False, kw_only=True)``. A field with ``metadata=NOT_STORED`` is kept in memory only.

    >>> print(Measurement(0.5003, 0.0011, error_kind="mcse", name="λ"))
    λ
      measured  0.5003 ± 0.0011 (mcse)
      status    ok
    """

    estimate: V
    error: float | np.ndarray
    status: Status = Status.OK
    diagnostics: dict[str, Any] = field(default_factory=dict)
    error_kind: str = field(default="mcse", kw_only=True)
    reasons: Sequence[str] = field(default=(), kw_only=True)
    name: str = field(default="", kw_only=True)
    policy: dict[str, Any] = field(default_factory=dict, kw_only=True)

    ERROR_KINDS: ClassVar[tuple[str, ...]] = (
        "mcse",
        "seeds",
        "datasets",
        "quadrature",
        "bootstrap",
        "jackknife",
        "resolution",
        "exact",
    )

    @classmethod
    def refused(cls, *reasons: str, estimate: Value = math.nan, error: float = math.nan, **fields: Any) -> Self:
        """A measurement that we would not defend, with what is wrong and what to do."""
        return cls(cast(Any, estimate), error, Status.REFUSED, reasons=reasons, **fields)

    def __post_init__(self) -> None:
        if self.error_kind not in self.ERROR_KINDS:
            choices = ", ".join(self.ERROR_KINDS)
            raise BadInput(f"unknown kind of error '{self.error_kind}'", f"choose one of: {choices}")
        try:
            object.__setattr__(self, "status", Status(self.status))
        except ValueError:
            raise BadInput(f"unknown status '{self.status}'", f"choose one of: {', '.join(Status)}") from None
        object.__setattr__(self, "reasons", tuple(self.reasons))
        object.__setattr__(self, "diagnostics", dict(self.diagnostics))
        object.__setattr__(self, "estimate", _as_value(self.estimate))
        if np.any(np.asarray(self.error) < 0):
            raise BadInput("a standard error cannot be negative", "give its size")
        if self.status is not Status.OK and not self.reasons:
            raise BadInput(f"a result with status '{self.status}' needs a reason", "say what is wrong and what to do")

    @property
    def value(self) -> V:
        """The estimate, if we would defend it."""
        if self.status is Status.REFUSED:
            raise Refused(
                f"'{self._title()}' is refused: {'; '.join(self.reasons)}",
                "see .estimate for the number as it came out",
            )
        return self.estimate

    def __float__(self) -> float:
        return float(self.value)

    def plain(self) -> dict[str, Any]:
        estimate = codec.plain(self.estimate)
        return {
            "name": self.name,
            "value": None if self.status is Status.REFUSED else estimate,
            "estimate": estimate,
            "error": codec.plain(self.error),
            "error_kind": self.error_kind,
            "status": str(self.status),
            "reasons": list(self.reasons),
            "diagnostics": codec.plain(self.diagnostics),
            **({"policy": codec.plain(self.policy)} if self.policy else {}),
        }

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            ("measured", f"{show(self.estimate, self.error)} ({self.error_kind})"),
            ("status", str(self.status)),
        ]
        rows += [("reason", reason) for reason in self.reasons]
        rows += [
            (
                label,
                show(content) if isinstance(content, int | float | Fraction | np.ndarray) else str(content),
            )
            for label, content in self.diagnostics.items()
        ]
        return rows


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """A prediction beside a measurement.

    They differ where an element is more than ``tolerance`` combined errors away (for a bound: beyond it by more). They
    agree, or the bound is respected, where no element is and the comparison could have told: a comparison in which even
    a prediction that is wrong by its whole size would pass, tolerance × combined error ≥ ``scale``, is inconclusive.
    ``scale`` defaults to the size of the prediction (the largest one of an array); a prediction of 0 has none. A
    refused or non-finite measurement is not comparable.

    >>> Comparison(Prediction(Fraction(1, 2)), Measurement(0.5003, 0.0011)).verdict.value
    'agrees'
    >>> Comparison(Prediction(3.85), Measurement(14.0, 10.0)).verdict.value
    'inconclusive'
    """

    prediction: Prediction
    measurement: Measurement
    tolerance: float = 3.0
    name: str = ""
    scale: float | None = None

    @property
    def combined_error(self) -> np.ndarray:
        """The error of the measurement and the systematic width of the prediction together."""
        return np.hypot(_floats(self.measurement.error), _floats(self.prediction.systematic))

    @property
    def distance(self) -> np.ndarray:
        """Measured minus predicted, in combined errors; NaN where it makes no sense."""
        try:
            difference = _floats(self.measurement.estimate) - _floats(self.prediction.value)
            difference, combined = np.broadcast_arrays(difference, self.combined_error)
        except ValueError:
            return np.asarray(math.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = np.where((difference == 0) & (combined == 0), 0.0, difference / combined)
        return np.where(np.isfinite(difference) & np.isfinite(combined), distance, math.nan)

    @property
    def verdict(self) -> Verdict:
        """What the comparison says; the rule is in the description of the class."""
        distance = self.distance
        if self.measurement.status is Status.REFUSED or np.isnan(distance).any() or distance.size == 0:
            return Verdict.NOT_COMPARABLE
        bound = self.prediction.kind != "exact"
        beyond = {"exact": abs(distance), "upper-bound": distance, "lower-bound": -distance}[self.prediction.kind]
        if np.any(beyond > self.tolerance):
            return Verdict.DIFFERS
        if not self._can_tell():
            return Verdict.INCONCLUSIVE
        return Verdict.BOUND_RESPECTED if bound else Verdict.AGREES

    def _can_tell(self) -> bool:
        scale = np.max(abs(_floats(self.prediction.value))) if self.scale is None else self.scale
        return bool(scale == 0 or np.all(self.tolerance * self.combined_error < scale))

    @property
    def largest_distance(self) -> float:
        """The distance of the element that is furthest off."""
        flat = self.distance.ravel()
        return float(flat[np.argmax(abs(flat))]) if flat.size and not np.isnan(flat).any() else math.nan

    def plain(self) -> dict[str, Any]:
        return {
            "name": self._title(),
            "verdict": str(self.verdict),
            "distance": codec.plain(self.distance),
            "prediction": self.prediction.plain(),
            "measurement": self.measurement.plain(),
        }

    def _title(self) -> str:
        return self.name or self.measurement.name or self.prediction.name or "comparison"

    def _rows(self) -> list[tuple[str, str]]:
        largest = self.largest_distance
        apart = "" if math.isnan(largest) else f" ({largest:+.1f} combined errors)"
        return [*self.prediction._rows(), *self.measurement._rows(), ("verdict", f"{self.verdict}{apart}")]


def show(value: Value, error: float | np.ndarray = 0.0) -> str:
    """A number as a person would write it: to two digits of its error, or to six digits."""
    if isinstance(value, np.ndarray) and value.ndim:
        errors = np.broadcast_to(_floats(error), value.shape)
        shown = [show(v, e) for v, e in zip(value.ravel()[:4].tolist(), errors.ravel()[:4].tolist(), strict=True)]
        more = f", … ({value.size} values)" if value.size > 4 else ""
        return f"[{', '.join(shown)}{more}]"
    value = value.item() if isinstance(value, np.ndarray | np.generic) else value
    width = error if isinstance(error, float) else float(np.max(error)) if np.size(error) else 0.0
    if width == 0:
        return str(value) if isinstance(value, int | Fraction | bool) else f"{value:.6g}"
    number = float(value)
    if not (math.isfinite(width) and math.isfinite(number)):
        return f"{number:.6g} ± {width:.2g}"
    digits = max(1 - math.floor(math.log10(width)), 0)
    if abs(number) >= 1e6 or digits > 12:
        return f"{number:.6g} ± {width:.2g}"
    return f"{number:.{digits}f} ± " + (f"{width:.{digits}f}" if digits <= 5 else f"{width:.1e}")


def _as_value(value: Any) -> Value:
    """Lists and JAX arrays as numpy arrays; numbers as they are."""
    return value if isinstance(value, int | float | Fraction) else np.asarray(value)


def _floats(value: Any) -> np.ndarray:
    return np.asarray(value, dtype=float)
