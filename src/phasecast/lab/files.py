"""How are files written so that a crash leaves either the old or the new one? Beside, flushed, then renamed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from phasecast.core.errors import StoreError
from phasecast.core.types import PyTree

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENAMETOOLONG}


def write_atomically(path: Path, *pieces: bytes | memoryview, durable: bool = False) -> None:
    """Replace ``path`` by the pieces one after the other, in one step; ``durable`` also survives a power cut."""
    with replacing(path) as temporary, open(temporary, "wb") as file:
        for piece in pieces:
            file.write(piece)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    if durable:
        _sync_folder(path.parent)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside ``path`` to write to; it replaces ``path`` if the block succeeds and is removed otherwise."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.partial")
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, tree: PyTree, *, durable: bool = False) -> None:
    """Replace ``path`` by readable JSON."""
    text = json.dumps(tree, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, (text + "\n").encode(), durable=durable)


def read_json(path: Path) -> Any:
    """The JSON in ``path``; a missing or damaged file is a :class:`StoreError`."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise StoreError(f"{path} is missing", "remove the run or start it again") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise StoreError(f"{path} is damaged", "remove the run with `phasecast runs rm` and start it again") from None


@contextlib.contextmanager
def disk_errors(place: Path) -> Iterator[None]:
    """Turn a full or read-only disk into one clear line; other I/O errors name the file."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StoreError(
                f"the disk that holds {place} is full",
                "free some space or choose another --store; the run resumes from its last checkpoint",
            ) from error
        if error.errno in _FORBIDDEN:
            raise StoreError(f"{place} cannot be written", "choose a --store with write permission") from error
        raise


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError, AttributeError):  # some systems cannot open a folder; the rename is done anyway
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
