"""Who computes the runs of a sweep? Processes on this machine, or a dask cluster.

An engine is a function from tasks to outcomes. A task is idempotent: it writes to the store and returns the run
id, so an engine may run it again after a crash and nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from phasecast.core.errors import PhasecastError


@dataclass(frozen=True)
class RunTask:
    """One run to compute: plain values, so that it travels between processes and machines."""

    index: int
    recipe: str
    spec: Mapping[str, Any]
    store: str
    checkpoint_every: float | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of a task: the run id, or the error in one line."""

    task: RunTask
    run: str | None
    error: str = ""


class Engine(Protocol):
    """Computes tasks in any order and yields each outcome as soon as it is known."""

    def __call__(self, tasks: Sequence[RunTask]) -> Iterator[Outcome]: ...


def compute(task: RunTask) -> tuple[str | None, str]:
    """Compute one task in this process: the run id, or the error.

    Errors are returned as text: an exception would have to travel, and a cluster would try the task again.
    """
    from phasecast.lab.recipe import find_recipe
    from phasecast.lab.runs import execute
    from phasecast.lab.spec import make_spec
    from phasecast.lab.store import Store

    try:
        recipe = find_recipe(task.recipe)
        spec = make_spec(recipe.spec, task.spec)
        return execute(recipe, spec, Store(task.store), checkpoint_every=task.checkpoint_every).id, ""
    except PhasecastError as error:
        return None, str(error)
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
