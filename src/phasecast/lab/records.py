"""What do the files of a store contain? One model per file, checked whenever a file is read.

A store may be damaged or come from somebody else. What does not fit its model is a :class:`StoreError` that names the
file; ids are names of folders and nothing else, so that no record leads out of its store.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from phasecast.core.errors import BadInput, NewerVersion, StoreError

FORMAT = 1  # of the files of a run; see docs/versions.md
ID = r"[A-Za-z0-9-][A-Za-z0-9._-]{0,99}"
"""The ids of runs and sweeps: the name of one folder, never a path."""

RunId = Annotated[str, StringConstraints(pattern=f"^{ID}$")]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class StoreRecord(_Record):
    """``store.json``."""

    format: int


class SpecRecord(_Record):
    """``spec.json`` of a run."""

    format: int
    recipe: Annotated[str, StringConstraints(min_length=1, max_length=500)]
    recipe_version: int
    spec: dict[str, Any]
    contents: dict[str, str]


class Provenance(_Record):
    versions: dict[str, str | None]
    commit: str | None
    python: str
    system: str
    seed: int
    threads: int


class Summary(_Record):
    sentence: str
    verdicts: dict[str, int]
    answers: list[dict[str, Any]] | dict[str, dict[str, Any]]  # release 0.1.0 had them by label
    numbers: dict[str, float | int | None] = {}
    key: str = ""


class SealedNode(_Record):
    """A group or an array of ``results.zarr``: the hash of its metadata, and what an array must hold."""

    metadata: Digest
    shape: list[Count] | None = None
    dtype: str | None = None
    chunks: Count | None = None
    content: Digest | None = None


class StatusRecord(_Record):
    """``status.json`` of a run. ``seal`` lists the nodes of ``results.zarr``; ``digest`` is that of the file."""

    format: int
    run: RunId
    recipe: str
    recipe_version: int
    status: Literal["running", "interrupted", "failed", "ok", "warning", "refused"]
    done: Count
    total: Count | None
    attempts: Count
    created: str
    updated: str
    host: str
    pid: int
    wall_seconds: Seconds
    cpu_seconds: Seconds
    provenance: Provenance
    summary: Summary | None
    error: str | None = None
    seal: dict[str, SealedNode] | None = None
    digest: Digest | None = None


class SummaryOutline(_Record):
    sentence: str
    answers: list[Any] | dict[str, Any]
    numbers: dict[str, float | int | None] = {}
    key: str = ""


class StatusOutline(_Record):
    """What a list of runs reads of ``status.json``; the rest is checked by whoever opens the run."""

    format: int
    run: RunId
    recipe: str
    recipe_version: int
    status: Literal["running", "interrupted", "failed", "ok", "warning", "refused"]
    done: Count
    total: Count | None
    created: str
    updated: str
    summary: SummaryOutline | None
    error: str | None = None
    digest: Digest | None = None


class SpecOutline(_Record):
    """What a list of runs reads of ``spec.json``."""

    spec: dict[str, Any]


class SweepRecord(_Record):
    """``sweep.json``."""

    format: int
    sweep: Annotated[str, StringConstraints(pattern=f"^sweep-{ID}$")]
    recipe: str
    varied: list[str]
    runs: list[RunId]


class WriterRecord(_Record):
    written: dict[str, Count]
    waiting: dict[str, dict[str, Any]]


class CheckpointRecord(_Record):
    """The state in a checkpoint: what the recipe and the writer of the results need to go on."""

    model_config = ConfigDict(strict=True, arbitrary_types_allowed=True)

    recipe: Any
    results: WriterRecord
    wall_seconds: Seconds
    cpu_seconds: Seconds
    done: Count = 0
    total: Count | None = None


AnyRecord = TypeVar("AnyRecord", bound=_Record)


def check_record(kind: type[AnyRecord], content: object, path: Path) -> dict[str, Any]:
    """The content of a file if it fits its model; a newer format is said before anything else."""
    if isinstance(content, dict):
        written = content.get("format")
        if type(written) is int and written > FORMAT:
            raise NewerVersion(f"{path} has format {written}, this phasecast knows {FORMAT}", "upgrade phasecast")
        try:
            kind.model_validate(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))[:60]
            problem = f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}"
        except RecursionError:
            problem = "nested too deeply"
        else:
            return content
    else:
        problem = "not an object"
    raise StoreError(
        f"{path} is damaged ({problem})", "remove the run with `phasecast runs rm` and start it again"
    ) from None


def outline(kind: type[AnyRecord], content: bytes) -> dict[str, Any] | None:
    """The fields of a model in a JSON text, without making objects of the rest; None if it does not fit.

    ``Any`` would take NaN, which is not JSON; where the text has the word the result is None as well.
    """
    if b"NaN" in content or b"Infinity" in content:
        return None
    try:
        found = kind.model_validate_json(content)
    except (ValidationError, RecursionError):
        return None
    return {name: vars(value) if isinstance(value, BaseModel) else value for name, value in vars(found).items()}


def is_checkpoint(content: object) -> bool:
    """Whether the content of a checkpoint file is the state of a run."""
    try:
        CheckpointRecord.model_validate(content)
    except ValidationError:
        return False
    return True


def check_id(text: str) -> str:
    """``text`` if it can be the id of a run or a sweep: a name, not a path."""
    if not re.fullmatch(ID, text):
        shown = text if len(text) <= 60 else text[:57] + "…"
        raise BadInput(f"'{shown}' is not the id of a run", "see `phasecast runs ls`")
    return text
