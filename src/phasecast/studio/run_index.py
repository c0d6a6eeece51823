"""Which runs are in the store, and in which fields do they differ? One row per run, kept in memory between looks.

A row is read again only when its ``status.json`` changed, so that a look at ten thousand runs costs one ``stat`` each.
The first look at a large store ends after a moment with the newest runs; later looks read on.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from phasecast.core.errors import BadInput, NewerVersion, StoreError
from phasecast.lab.files import parse_json, read_regular
from phasecast.lab.overview.listed_runs import differing_fields, value_in_words
from phasecast.lab.records import ID
from phasecast.lab.store import FINISHED, RunFolder, Store
from phasecast.lab.sweeps import FOLDER, recall
from phasecast.studio.inert import inert_text

if TYPE_CHECKING:
    import pandas as pd

MOST_SHOWN = 2000  # rows of the table; chosen: the browser receives them in a tenth of a second
MOST_COLUMNS = 8  # differing fields with a column each; chosen: more do not fit beside the others
FIRST_LOOK = 0.7  # seconds of reading per look; chosen: with the rest of the page, its reader waits less than two


@dataclass(frozen=True)
class RunRow:
    """One run in the table."""

    run: str
    recipe: str = ""
    status: str = ""
    done: int = 0
    total: int | None = None
    created: str = ""
    updated: str = ""
    sentence: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def share(self) -> float | None:
        """How much of it is computed, from 0 to 1."""
        return min(1.0, self.done / self.total) if self.total else None


@dataclass(frozen=True)
class RowFilter:
    """Which rows to show; ``text`` is searched in ids, recipes, sentences and settings like ``p=23``.

    ``runs`` are those of a sweep; None means all.
    """

    recipes: Sequence[str] = ()
    statuses: Sequence[str] = ()
    text: str = ""
    runs: frozenset[str] | None = None

    def keeps(self, row: RunRow) -> bool:
        """Whether a row is shown: every word of the text must be in it."""
        if self.runs is not None and row.run not in self.runs:
            return False
        if self.recipes and row.recipe not in self.recipes:
            return False
        if self.statuses and row.status not in self.statuses:
            return False
        if not self.text.strip():
            return True
        whole = " ".join(
            [row.run, row.recipe, row.sentence, *(f"{k}={value_in_words(v)}" for k, v in row.spec.items())]
        )
        return all(word in whole.lower() for word in self.text.lower().split())


class RunIndex:
    """The rows of a store; one object serves all sessions of a server."""

    def __init__(self, store: Store):
        self.store = store
        self._rows: dict[str, tuple[tuple[int, int], RunRow]] = {}
        self._lock = threading.Lock()

    def look(self, seconds: float = FIRST_LOOK) -> tuple[list[RunRow], int]:
        """The rows of the runs as they are now, newest first, and how many older ones are not read yet."""
        until = time.monotonic() + seconds
        with self._lock:
            signatures = self._signatures()
            for run in set(self._rows) - set(signatures):
                del self._rows[run]
            newest_first = sorted(signatures.items(), key=lambda item: item[1], reverse=True)
            changed = [item for item in newest_first if not self._is_current(*item)]
            unread = len(changed)
            for run, signature in changed:
                if time.monotonic() > until:
                    break
                known = self._rows.get(run)
                self._rows[run] = (signature, self._read(run, known[1].spec if known else None))
                unread -= 1
            rows = [row for _, row in self._rows.values()]
        return sorted(rows, key=lambda row: (row.created, row.run), reverse=True), unread

    def row(self, run: str) -> RunRow | None:
        """The row of one run, if it was read."""
        known = self._rows.get(run)
        return known[1] if known else None

    def _is_current(self, run: str, signature: tuple[int, int]) -> bool:
        known = self._rows.get(run)
        return known is not None and known[0] == signature and known[1].status != "running"

    def _signatures(self) -> dict[str, tuple[int, int]]:
        """Time and size of every ``status.json``."""
        signatures = {}
        with contextlib.suppress(FileNotFoundError), os.scandir(self.store.path) as entries:
            for entry in entries:
                if re.fullmatch(ID, entry.name):
                    with contextlib.suppress(OSError):
                        facts = os.lstat(f"{entry.path}/status.json")
                        signatures[entry.name] = (facts.st_mtime_ns, facts.st_size)
        return signatures

    def _read(self, run: str, spec: Mapping[str, Any] | None) -> RunRow:
        folder = RunFolder(self.store.path / run)
        try:
            status = folder.read_status()
            if status["status"] == "running":  # or its process died
                status = folder.status()
        except NewerVersion as error:
            return RunRow(run, status="newer", sentence=str(error))
        except (StoreError, OSError) as error:
            return RunRow(run, status="damaged", sentence=str(error))
        names = ("run", "recipe", "status", "done", "total", "created", "updated")
        sentence = (status["summary"] or {}).get("sentence") or status.get("error") or ""
        return RunRow(**{name: status[name] for name in names}, sentence=sentence, spec=spec or _spec_of(folder))


def varied_fields(rows: Iterable[RunRow]) -> dict[str, list[str]]:
    """By recipe, the fields in which its runs differ."""
    return differing_fields((row.recipe, row.spec) for row in rows)


def settings_in_words(row: RunRow, names: Iterable[str]) -> str:
    """Some fields of a run, as ``p=23, lr=0.001``."""
    return ", ".join(f"{name}={value_in_words(row.spec[name])}" for name in names if name in row.spec)


def table_of(rows: Sequence[RunRow]) -> pd.DataFrame:
    """The newest rows as a table: one column per differing field if all have one recipe, else all in one column."""
    import pandas as pd

    differing = varied_fields(rows)
    shown = rows[:MOST_SHOWN]
    columns: dict[str, list[Any]] = {
        "run": [inert_text(row.run, 100) for row in shown],
        "status": [row.status for row in shown],
        "recipe": [inert_text(row.recipe, 60) for row in shown],
        "done": [row.share for row in shown],
    }
    if len({row.recipe for row in rows}) == 1:
        recipe = rows[0].recipe
        for name in differing.get(recipe, [])[:MOST_COLUMNS]:
            columns[inert_text(name, 40)] = _column([row.spec.get(name) for row in shown])
    elif any(differing.values()):
        columns["settings"] = [inert_text(settings_in_words(row, differing.get(row.recipe, ())), 200) for row in shown]
    columns["updated"] = [row.updated[:19].replace("T", " ") for row in shown]
    columns["conclusion"] = [inert_text(row.sentence, 400) for row in shown]
    return pd.DataFrame(columns)


@dataclass(frozen=True)
class SweepRow:
    """One sweep: what varies, and its runs."""

    sweep: str
    recipe: str
    varied: tuple[str, ...]
    runs: tuple[str, ...]
    finished: int

    @property
    def label(self) -> str:
        count = f"{self.finished} of {len(self.runs)} runs finished"
        return inert_text(f"{self.recipe} over {', '.join(self.varied) or 'nothing'}: {count} ({self.sweep})", 160)


def sweeps_of(store: Store, rows: Iterable[RunRow]) -> list[SweepRow]:
    """The sweeps of a store; a damaged or newer file does not stop the list."""
    finished = {row.run for row in rows if row.status in FINISHED}
    sweeps = []
    for path in sorted((store.path / FOLDER).glob("sweep-*/sweep.json")):
        with contextlib.suppress(BadInput, OSError):
            facts, _ = recall(path.parent.name, store)
            runs = tuple(facts["runs"])
            done = sum(run in finished for run in runs)
            sweeps.append(SweepRow(facts["sweep"], facts["recipe"], tuple(facts["varied"]), runs, done))
    return sweeps


def labels_of(rows: Sequence[RunRow]) -> list[str]:
    """A short name for each of several runs: the fields in which they differ, else the end of the id; all distinct."""
    differing = varied_fields(rows)
    labels = []
    for row in rows:
        words = settings_in_words(row, differing.get(row.recipe, ())) or row.run.rpartition("-")[2]
        name = inert_text(words if len(differing) <= 1 else f"{row.recipe} {words}", 80)
        labels.append(name if name not in labels else f"{name} ({row.run.rpartition('-')[2][:6]})")
    return labels


def _spec_of(folder: RunFolder) -> Mapping[str, Any]:
    """The fields in ``spec.json``; nothing if it is damaged, which the page of the run says."""
    with contextlib.suppress(OSError, ValueError, StoreError):
        request = parse_json(read_regular(folder.path / "spec.json"))
        if isinstance(request, dict) and isinstance(request.get("spec"), dict):
            return request["spec"]
    return {}


def _column(values: list[Any]) -> list[Any]:
    """Numbers stay numbers, so that a click on the head sorts them; everything else becomes text."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return [float(value) if abs(value) > 2**53 else value for value in values]
    return [inert_text(value_in_words(value), 80) for value in values]
