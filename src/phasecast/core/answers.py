"""What did a study find? Answers with stable ids and parameters; the sentences beside them are for people only.

>>> from phasecast.core import Measurement
>>> answers = Answers([
...     Answer("critical-ratio", Measurement(2.5, 0.1), "critical N/(p ln p), p = 23", {"p": 23}),
...     Answer("critical-ratio", Measurement(2.6, 0.1), "critical N/(p ln p), p = 29", {"p": 29}),
... ])
>>> answers.result("critical-ratio", p=29).estimate
2.6
>>> [answer.where["p"] for answer in answers.select("critical-ratio")]
[23, 29]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from phasecast.core import codec
from phasecast.core.errors import BadInput
from phasecast.core.results import Comparison, Measurement, Prediction, Result

Parameter = str | int | float | bool | None


@dataclass(frozen=True)
class Answer:
    """One thing that a study concludes.

    Parameters
    ----------
    id: short, stable, lower case with hyphens: what scripts and claims address it by.
    result: a comparison, a measurement or a prediction.
    label: how people see it; may be edited freely.
    where: the parameters that tell answers of one id apart.
    theory: whether the numbers are computed from theory only, also those in a ``Measurement`` (which has a status and a
        numerical error): they are shown as predicted, never as measured.
    """

    id: str
    result: Result
    label: str = ""
    where: Mapping[str, Parameter] = field(default_factory=dict)
    theory: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.id):
            raise BadInput(f"invalid id of an answer '{self.id}'", "use lower-case words joined by hyphens")

    @property
    def address(self) -> tuple[Any, ...]:
        """Id and parameters: unique within a conclusion."""
        return (self.id, *sorted(self.where.items()))

    @property
    def measurement(self) -> Measurement | None:
        """The measurement in it, alone or compared."""
        compared = self.result.measurement if isinstance(self.result, Comparison) else self.result
        return compared if isinstance(compared, Measurement) else None

    @property
    def prediction(self) -> Prediction | None:
        """The prediction in it, alone or compared."""
        compared = self.result.prediction if isinstance(self.result, Comparison) else self.result
        return compared if isinstance(compared, Prediction) else None

    @property
    def shown(self) -> str:
        """The label, or the id with its parameters where there is none."""
        return self.label or " ".join([self.id, *(f"{name}={value}" for name, value in self.where.items())])

    def plain(self) -> dict[str, Any]:
        """The answer for other programs."""
        address = {"id": self.id, "where": codec.plain(dict(self.where)), "label": self.shown}
        return {**address, **({"theory": True} if self.theory else {}), **self.result.plain()}


class Answers(Sequence[Answer]):
    """Answers in the order in which they are shown, selected by id and parameters."""

    def __init__(self, answers: Iterable[Answer] = ()):
        self._answers = tuple(answers)
        for answer in self._answers:
            if not isinstance(answer, Answer):
                raise BadInput(f"{answer!r} is not an Answer", "conclude with Answer(id, result, label, where)")
        addresses = [answer.address for answer in self._answers]
        for address in addresses:
            if addresses.count(address) > 1:
                raise BadInput(f"two answers have the address {address}", "give them parameters that differ")

    @overload
    def __getitem__(self, index: int) -> Answer: ...
    @overload
    def __getitem__(self, index: slice) -> Answers: ...
    def __getitem__(self, index: int | slice) -> Answer | Answers:
        return Answers(self._answers[index]) if isinstance(index, slice) else self._answers[index]

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self._answers)

    def select(self, id: str | None = None, **where: Parameter) -> Answers:
        """The answers with this id and these parameters."""
        return Answers(
            answer
            for answer in self._answers
            if id in (None, answer.id) and all(answer.where.get(name) == value for name, value in where.items())
        )

    def result(self, id: str, **where: Parameter) -> Result:
        """The result of the only answer with this id and these parameters."""
        chosen = self.select(id, **where)
        if len(chosen) != 1:
            address = ", ".join([id, *(f"{name}={value}" for name, value in where.items())])
            known = ", ".join(sorted({answer.id for answer in self._answers}))
            raise BadInput(f"{len(chosen)} answers match '{address}'", f"address exactly one; there are: {known}")
        return chosen[0].result

    def comparison(self, id: str, **where: Parameter) -> Comparison:
        """The only comparison with this id and these parameters."""
        result = self.result(id, **where)
        if not isinstance(result, Comparison):
            raise BadInput(f"the answer '{id}' is a {type(result).__name__}, not a Comparison", "use result()")
        return result

    def measurement(self, id: str, **where: Parameter) -> Measurement:
        """The only measurement with this id and these parameters, alone or compared."""
        result = self.result(id, **where)
        measured = result.measurement if isinstance(result, Comparison) else result
        if not isinstance(measured, Measurement):
            raise BadInput(f"the answer '{id}' is a {type(result).__name__}, not a Measurement", "use result()")
        return measured

    def comparisons(self) -> tuple[Comparison, ...]:
        """Every comparison among the answers."""
        return tuple(answer.result for answer in self._answers if isinstance(answer.result, Comparison))
