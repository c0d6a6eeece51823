"""Where are compiled programs kept between commands? In JAX's persistent cache, in the user's cache folder.

Only commands switch it on, by environment variables that JAX reads when it is imported and that worker processes
inherit; importing the library never does. A process that has JAX already, or a user who has chosen a cache, keeps it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

VARIABLE = "PHASECAST_COMPILATION_CACHE"
"""``off``, or another folder than the user's cache folder."""
OFF = ("off", "0", "no", "false")
LIMIT = 256 * 2**20  # bytes; a program takes about 0.1 MB, so this holds what months of work compile
SHORTEST = 0.05  # seconds: reading a program takes about a quarter of compiling it, and no less than some ms
WRITING = 60.0  # seconds after which an entry that cannot be read is broken rather than still being written
ENTRIES = "*-cache"
UNREADABLE = re.compile(r"Error (reading|writing) persistent compilation cache entry for '(?P<program>[^']*)'")
THEIRS = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE")


@contextlib.contextmanager
def kept_programs() -> Iterator[None]:
    """Keep the programs compiled inside the block, if that is possible and wanted."""
    folder = None if "jax" in sys.modules or any(name in os.environ for name in THEIRS) else cache_folder()
    if folder is None or not _ready(folder):
        yield
        return
    prune(folder, LIMIT)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", str(SHORTEST))
    with warnings.catch_warnings():
        warnings.filterwarnings("always", UNREADABLE.pattern)
        warnings.showwarning = _removing(folder, warnings.showwarning)
        yield


def cache_folder() -> Path | None:
    """The folder for programs compiled on this kind of processor; None if the user has switched the cache off.

    Machines that share a home folder may have other processors, which cannot run each other's programs.
    """
    chosen = os.environ.get(VARIABLE, "")
    if chosen.lower() in OFF:
        return None
    with contextlib.suppress(RuntimeError):  # there is no home folder
        return (Path(chosen).expanduser() if chosen else _user_cache() / "phasecast" / "compiled") / _processor()
    return None


def prune(folder: Path, limit: int) -> None:
    """Remove the entries that were not used for longest until the others fit into ``limit`` bytes."""
    entries = []
    for path in folder.glob(ENTRIES):
        with contextlib.suppress(OSError):  # another process has removed it
            about = path.stat()
            entries.append((max(about.st_atime, about.st_mtime), about.st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= limit:
            return
        _remove(path)
        total -= size


def _removing(folder: Path, show: object) -> object:
    """A ``showwarning`` that removes an entry that cannot be read, so that JAX writes it again, and says nothing."""

    def showwarning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        unreadable = UNREADABLE.match(str(message))
        if unreadable is None:
            show(message, category, filename, lineno, file, line)  # pyright: ignore[reportCallIssue]
            return
        for path in folder.glob(f"{unreadable['program']}-{ENTRIES}"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > WRITING:
                    _remove(path)

    return showwarning


def _ready(folder: Path) -> bool:
    """Whether the folder exists or can be made, and can be written to."""
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.access(folder, os.W_OK | os.X_OK)
    return False


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _user_cache() -> Path:
    """The folder for caches of this user, as the platform has it."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _processor() -> str:
    """A short name for this kind of processor: its instruction sets where the system lists them."""
    lines = {platform.machine(), platform.processor()}
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        lines |= {line for line in file if line.startswith(("flags", "model name", "Features"))}
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()[:12]
