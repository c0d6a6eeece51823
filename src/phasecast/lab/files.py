"""How are files of a store written and read? Written beside, flushed, then renamed, so that a crash leaves either the
old or the new one. Read only if they are regular files: a store may come from somebody else, so links are refused, and
pipes and devices are never waited for."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from phasecast.core.errors import StoreError
from phasecast.core.types import PyTree

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
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
        return parse_json(read_regular(path))
    except FileNotFoundError:
        raise StoreError(f"{path} is missing", "remove the run or start it again") from None
    except ValueError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{path} is damaged", "remove the run with `phasecast runs rm` and start it again") from None


def parse_json(content: bytes) -> Any:
    """The tree in a JSON text; whatever cannot have been written by us is a ValueError.

    That is NaN, nesting that Python cannot follow, integers of thousands of digits, and halves of surrogate pairs,
    which cannot be printed.
    """
    try:
        tree = _DECODER.decode(content.decode(json.detect_encoding(content), "surrogatepass"))
        if b"\\u" in content:
            json.dumps(tree, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return tree


def read_regular(path: Path | str) -> bytes:
    """The bytes of a regular file; a link, a pipe, a device or a folder in its place is a :class:`StoreError`."""
    try:
        handle = os.open(path, _READ)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise not_regular(Path(path)) from None
        raise StoreError(f"{path} cannot be read ({error.strerror})", "check its permissions") from None
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            raise not_regular(Path(path))
        content = os.read(handle, facts.st_size)  # at once, unless it is larger than the system reads at once
        while len(content) < facts.st_size and (more := os.read(handle, facts.st_size - len(content))):
            content += more
        return content
    finally:
        os.close(handle)


def not_regular(path: Path) -> StoreError:
    """The error for a link or a special file in a store."""
    kind = "a symbolic link" if path.is_symlink() else "not a regular file"
    return StoreError(f"{path} is {kind}", "a store holds plain files and folders only: remove it")


def refuse_links(path: Path, *, folder: bool) -> None:
    """Refuse a link or a special file at ``path``; nothing there is fine."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if not (stat.S_ISDIR(mode) if folder else stat.S_ISREG(mode)):
        raise not_regular(path)


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)  # made once: json.loads would make one for every file


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
