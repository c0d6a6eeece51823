"""Which runs are in a store, and how do they differ? One row per run, from its small JSON files only.

Nothing is imported and no array is read, so the list is quick and shows runs whose recipe is missing.
"""

from __future__ import annotations

import contextlib
import gc
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from phasecast.core.errors import BadInput, StoreError, unknown
from phasecast.lab.files import read_regular
from phasecast.lab.overview.stored_answers import key_number
from phasecast.lab.records import SpecOutline, outline
from phasecast.lab.spec import parse_value
from phasecast.lab.store import Store

STATUSES = ("running", "interrupted", "failed", "ok", "warning", "refused", "damaged", "newer")
"""The words that a list of runs shows; the last two are runs that this phasecast cannot read."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True)
class ListedRun:
    """One run in a list.

    Parameters
    ----------
    spec: every field; empty if it cannot be read.
    differing: the fields in which the runs of this recipe in the store differ.
    key: the key answer of the conclusion as people write it, e.g. ``λ̂ 0.50 ± 0.01``.
    """

    run: str
    recipe: str
    status: str
    done: int
    total: int | None
    created: str
    updated: str
    sentence: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    differing: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""

    def plain(self) -> dict[str, Any]:
        """The row for other programs."""
        names = ("run", "recipe", "status", "done", "total", "created", "updated", "sentence", "key")
        return {**{name: getattr(self, name) for name in names}, "differing": dict(self.differing)}

    def age(self, now: datetime | None = None) -> str:
        """How long ago it was started, in one unit: ``40s``, ``3h``, ``12d``."""
        with contextlib.suppress(ValueError, TypeError):
            seconds = ((now or datetime.now(UTC)) - datetime.fromisoformat(self.created)).total_seconds()
            unit = next((unit for unit in "wdhm" if seconds >= 2 * _UNITS[unit]), "s")
            return f"{max(0, int(seconds // _UNITS[unit]))}{unit}"
        return "?"


@dataclass(frozen=True)
class RunFilter:
    """Which runs of a store to list.

    Parameters
    ----------
    recipe: the name of a recipe.
    statuses: words of :data:`STATUSES`; none means all.
    since: started at this time or later.
    last: the newest so many of those that remain.
    where: values of fields, as ``(name, text)``; the text is read like that of ``--set``.
    """

    recipe: str | None = None
    statuses: Sequence[str] = ()
    since: datetime | None = None
    last: int | None = None
    where: Sequence[tuple[str, str]] = ()

    @classmethod
    def parse(
        cls,
        recipe: str | None = None,
        statuses: Iterable[str] = (),
        since: str | None = None,
        last: int | None = None,
        where: Iterable[str] = (),
    ) -> RunFilter:
        """The filter that the words of a command line describe."""
        words = [word for text in statuses for word in text.split(",")]
        for word in words:
            if word not in STATUSES:
                raise unknown("status", word, STATUSES)
        if last is not None and last < 1:
            raise BadInput(f"--last is {last}", "use at least 1")
        pairs = []
        for word in where:
            name, equals, text = (part.strip() for part in word.partition("="))
            if not (name and equals):
                raise BadInput(f"invalid --where '{word[:40]}'", "write key=value")
            pairs.append((name, text))
        return cls(recipe, words, None if since is None else _moment(since), last, pairs)

    def keep(self, runs: Sequence[ListedRun]) -> list[ListedRun]:
        """The runs that it chooses; a recipe or a field that none of them has is bad input."""
        if self.recipe is not None:
            recipes = {run.recipe for run in runs}
            if runs and self.recipe not in recipes:
                raise unknown("recipe in this store", self.recipe, sorted(recipes - {""}))
            runs = [run for run in runs if run.recipe == self.recipe]
        names = {name for run in runs for name in run.spec} if self.where else set()
        for name, text in self.where:
            if runs and name not in names:
                raise unknown("field of these runs", name, sorted(names))
            wanted = parse_value(text)
            runs = [run for run in runs if name in run.spec and _same(run.spec[name], wanted, text)]
        if self.statuses:
            runs = [run for run in runs if run.status in self.statuses]
        if self.since is not None:
            since = self.since.isoformat(timespec="milliseconds")  # stored times have the same form and zone
            runs = [run for run in runs if run.created >= since]
        return list(runs) if self.last is None else list(runs[-self.last :])


def list_runs(store: Store, chosen: RunFilter | None = None) -> list[ListedRun]:
    """The runs of a store, oldest first."""
    with _collector_paused():
        runs = [(status, _spec_of(store, status["run"])) for status in store.statuses()]
        varied = differing_fields([(status["recipe"], spec) for status, spec in runs])
        rows = [_listed(status, spec, varied.get(status["recipe"], ())) for status, spec in runs]
        del runs  # whose objects the collector would walk through
    return rows if chosen is None else chosen.keep(rows)


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Parsed JSON has no cycles; to walk through it again and again takes the garbage collector a fifth of the time."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def differing_fields(runs: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, list[str]]:
    """By recipe, the fields in which its specs differ, in the order of the spec and the seed last."""
    first: dict[str, Mapping[str, Any]] = {}
    differing: dict[str, dict[str, None]] = {}
    for recipe, spec in runs:
        if not spec:
            continue
        known = first.setdefault(recipe, spec)
        if known is not spec and known != spec:
            names = differing.setdefault(recipe, {})
            names.update({name: None for name in (*known, *spec) if known.get(name) != spec.get(name)})
    return {
        recipe: sorted(names, key=lambda name, order=list(first[recipe]): (name == "seed", _place(name, order)))
        for recipe, names in differing.items()
    }


def value_in_words(value: object) -> str:
    """A value of a spec as ``--set`` would take it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_in_words, value))}]"
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _listed(status: Mapping[str, Any], spec: Mapping[str, Any], varied: Iterable[str]) -> ListedRun:
    summary = status["summary"] or {}
    return ListedRun(
        **{name: status[name] for name in ("run", "recipe", "status", "done", "total", "created", "updated")},
        sentence=summary.get("sentence", status.get("error") or ""),
        spec=spec,
        differing={name: spec[name] for name in varied if name in spec},
        key=key_number(summary) if summary else "",
    )


def _spec_of(store: Store, run: str) -> Mapping[str, Any]:
    """The fields in ``spec.json``; nothing if it is damaged, which `runs show` then says."""
    with contextlib.suppress(OSError, StoreError):
        return (outline(SpecOutline, read_regular(f"{store.path}/{run}/spec.json")) or {}).get("spec", {})
    return {}


def _place(name: str, order: list[str]) -> int:
    return order.index(name) if name in order else len(order)


def _same(value: object, wanted: object, text: str) -> bool:
    if isinstance(value, list) and not isinstance(wanted, list):
        wanted = [parse_value(part) for part in text.split(",")]
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def _moment(text: str) -> datetime:
    """A time: so long ago (``90m``, ``2d``), or a date."""
    if ago := re.fullmatch(r"(\d{1,6})([smhdw])", text.strip()):
        return datetime.now(UTC) - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
    with contextlib.suppress(ValueError):
        moment = datetime.fromisoformat(text.strip())
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    raise BadInput(f"invalid --since '{text[:40]}'", "write 90m, 6h, 2d, 3w or a date like 2026-05-01")
