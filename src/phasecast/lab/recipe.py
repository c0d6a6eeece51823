"""What is an experiment? A recipe: a spec, a generator that does the work, and functions that read the results.

The generator receives the spec and the state to continue from (None at the start) and yields a :class:`Chunk` after
each piece of work; the driver decides when to write a checkpoint and when to stop.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from phasecast.core import codec, user_code
from phasecast.core.answers import Answer, Answers
from phasecast.core.errors import BadInput, unknown
from phasecast.core.results import Comparison, Measurement, Prediction, Status, Verdict, show
from phasecast.lab import fingerprint
from phasecast.lab.spec import Spec
from phasecast.lab.tables import Rows, Table

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from phasecast.forecasting.result import Forecast


@dataclass(frozen=True)
class Chunk:
    """One finished piece of work.

    Parameters
    ----------
    state: what is needed to continue from here: arrays, numbers and strings in dicts, lists and tuples.
    rows: new rows for the tables of the recipe's layout.
    done, total: number of finished pieces, and of all pieces if it is known.
    metric: name and value of a number to show with the progress.
    forecasts: what is forecast at this point; printed, and archived with the time.
    """

    state: Any
    rows: Rows
    done: int
    total: int | None
    metric: tuple[str, float] | None = None
    forecasts: Sequence[Forecast] = ()


@dataclass(frozen=True)
class Row:
    """One answer as text for people: what was predicted, what was measured, and the verdict."""

    name: str
    predicted: str
    measured: str
    verdict: str
    distance: str
    prediction: Prediction | None
    measurement: Measurement | None
    address: tuple[object, ...]
    """Id and parameters of the answer: what is the same quantity in several runs."""
    theory: bool = False
    """Whether all its numbers are computed from theory: then nothing was measured."""

    @classmethod
    def of(cls, answer: Answer) -> Row:
        result, prediction, measurement = answer.result, answer.prediction, answer.measurement
        compared = result if isinstance(result, Comparison) else None
        largest = compared.largest_distance if compared else math.nan
        distance = "" if math.isnan(largest) else "0.0" if abs(largest) < 0.05 else f"{largest:+.1f}".replace("-", "−")
        predicted = prediction.words() if prediction else ""
        measured = show(measurement.estimate, measurement.error) if measurement else ""
        if answer.theory and measurement:
            predicted, measured = f"{predicted}; solved: {measured}" if prediction else measured, ""
        return cls(
            answer.shown,
            predicted=predicted,
            measured=measured,
            verdict=str(compared.verdict) if compared else str(measurement.status) if measurement else "",
            distance=distance,
            prediction=prediction,
            measurement=measurement,
            address=answer.address,
            theory=answer.theory,
        )


@dataclass(frozen=True, init=False)
class Conclusion:
    """What the results say: answers with ids, a sentence, and plain numbers for scripts.

    ``numbers`` are read directly from the results (a step, an accuracy); None if there is no such number. ``key`` is
    the id of the answer that lists of runs show; by default it is the first.
    """

    answers: Answers
    sentence: str = ""
    numbers: Mapping[str, float | int | None] = field(default_factory=dict)
    key: str = ""

    def __init__(
        self,
        answers: Iterable[Answer],
        sentence: str = "",
        numbers: Mapping[str, float | int | None] | None = None,
        key: str = "",
    ):
        object.__setattr__(self, "answers", Answers(answers))
        object.__setattr__(self, "sentence", sentence)
        object.__setattr__(self, "numbers", dict(numbers or {}))
        object.__setattr__(self, "key", key)

    @property
    def status(self) -> Status:
        """Refused where a measurement is; a warning where one is or a comparison differs, else ok."""
        statuses = {row.measurement.status for row in self.rows() if row.measurement}
        if self.differing:
            statuses.add(Status.WARNING)
        return next((status for status in (Status.REFUSED, Status.WARNING) if status in statuses), Status.OK)

    @property
    def differing(self) -> int:
        """How many comparisons differ."""
        return sum(comparison.verdict is Verdict.DIFFERS for comparison in self.answers.comparisons())

    @property
    def caution(self) -> str:
        """A sentence about comparisons that differ; empty where none does."""
        return f"{self.differing} of {len(self.answers.comparisons())} comparisons differ." if self.differing else ""

    def rows(self) -> list[Row]:
        """The answers as rows of a table."""
        return [Row.of(answer) for answer in self.answers]

    def summary(self) -> dict[str, Any]:
        """A few lines for a table of runs and for scripts."""
        verdicts = [str(comparison.verdict) for comparison in self.answers.comparisons()]
        return {
            "sentence": self.sentence,
            "verdicts": {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
            "answers": [answer.plain() for answer in self.answers],
            "numbers": {name: codec.plain(number) for name, number in self.numbers.items()},
            **({"key": self.key} if self.key else {}),
        }


@dataclass(frozen=True)
class Captioned:
    """A figure with its caption."""

    figure: Figure
    caption: str


S = TypeVar("S", bound=Spec)


@dataclass(frozen=True)
class Recipe(Generic[S]):
    """An experiment that can be stored, stopped, resumed and reported.

    Parameters
    ----------
    name, version: part of the run id, with the spec; raise ``version`` when the same spec gives other numbers.
    question: the question it answers, in one sentence.
    spec: the class of its spec.
    work: ``work(spec, state)`` yields a :class:`Chunk` after each piece.
    layout: ``layout(spec)``: the tables that the rows go to.
    conclude: ``conclude(spec, results)``: from the stored DataTree to a :class:`Conclusion`; pure.
    figures: ``figures(spec, results)``: names and captioned figures; pure.
    tiny: values of a spec that runs within seconds, for tests.
    foresee: ``foresee(spec)``: what can be forecast before the work begins; printed and archived.
    """

    name: str
    version: int
    question: str
    spec: type[S]
    work: Callable[[S, Any], Iterator[Chunk]]
    layout: Callable[[S], Mapping[str, Table]]
    conclude: Callable[[S, xr.DataTree], Conclusion]
    figures: Callable[[S, xr.DataTree], Mapping[str, Captioned]] = lambda spec, results: {}
    tiny: Mapping[str, Any] = field(default_factory=dict)
    foresee: Callable[[S], Sequence[Forecast]] = lambda spec: ()

    def source_print(self) -> str | None:
        """The fingerprint of a recipe's own code, for recipes that come by reference."""
        return fingerprint.of_source(self.name) if ":" in self.name else None


P = TypeVar("P")


def tabulate(
    state: Mapping[str, Any] | None,
    table: str,
    pieces: Sequence[P],
    compute: Callable[[P], Mapping[str, ArrayLike]],
    metric: str | None = None,
) -> Iterator[Chunk]:
    """The work of a recipe with one table: ``compute`` returns the row of each piece, and each row is a chunk.

    ``metric`` names the column to show with the progress.
    """
    for done in range(0 if state is None else int(state["done"]), len(pieces)):
        row = {name: np.asarray(value)[None] for name, value in compute(pieces[done]).items()}
        watched = None if metric is None else (metric, float(np.mean(row[metric])))
        yield Chunk({"done": done + 1}, {table: row}, done + 1, len(pieces), watched)


SHIPPED = ("phasecast.studies", "phasecast.claims")
"""The packages that list our recipes; imported by name because they are built on top of the lab."""


def shipped() -> Mapping[str, str]:
    """The recipes we ship: name to module."""
    listed = (importlib.import_module(package).RECIPES for package in SHIPPED)
    return dict(sorted(entry for recipes in listed for entry in recipes.items()))


def find_recipe(name: str | Recipe) -> Recipe:
    """A recipe by its name, by a reference ``package.module:RECIPE`` to the user's own, or itself."""
    if isinstance(name, Recipe):
        return name
    if ":" in name:
        recipe = user_code.load_object(name)
        if not isinstance(recipe, Recipe):
            raise BadInput(f"'{name}' is a {type(recipe).__name__}, not a Recipe", "name a phasecast.lab.Recipe")
        if recipe.name != name:
            raise BadInput(f"the recipe behind '{name}' calls itself '{recipe.name}'", f"name it '{name}'")
        return recipe
    recipes = shipped()
    if name not in recipes:
        raise unknown("recipe", name, recipes)
    return importlib.import_module(recipes[name]).RECIPE
