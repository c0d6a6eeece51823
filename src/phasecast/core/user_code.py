"""The object behind ``package.module:name``, from the user's code as it is on disk now."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from phasecast.core.errors import BadInput
from phasecast.core.problem import Problem

_loaded: dict[str, tuple[Any, str]] = {}
"""The user's modules that were loaded here, and what their source files were then."""


def load(reference: str) -> Any:
    """The object that ``package.module:name`` names, from the module as it is on disk now."""
    module_name, colon, attribute = reference.partition(":")
    if not colon or not module_name or not attribute:
        raise BadInput(f"'{reference}' names no object", "write package.module:name")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # an installed command does not look into the working folder by itself
    importlib.invalidate_caches()
    try:
        _forget_stale(module_name)
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and module_name.split(".")[0] == error.name.split(".")[0]:
            way = "run where it can be imported, or set PYTHONPATH"
            if module_name.endswith(".py"):
                way = f"write {module_name[:-3].replace('/', '.')}:{attribute}, without .py"
            raise BadInput(f"there is no module '{module_name}'", way) from None
        raise BadInput(f"module '{module_name}' needs '{error.name}', which is missing", "install it") from None
    except Exception as error:
        raise BadInput(
            f"importing '{module_name}' raised {type(error).__name__}: {error}", "mend the module"
        ) from error
    sources = own_sources(module_name)
    _loaded.update({name: (sys.modules.get(name), digest_of(path)) for name, path in sources.items()})
    try:
        return functools.reduce(getattr, attribute.split("."), module)
    except AttributeError:
        raise BadInput(f"module '{module_name}' has no '{attribute}'", "check the name after the colon") from None


def make(reference: str) -> Any:
    """What the factory behind ``reference`` makes."""
    factory = load(reference)
    if not callable(factory):
        raise BadInput(
            f"'{reference}' is a {type(factory).__name__}, not a factory", "name a function without arguments"
        )
    try:
        return factory()
    except Exception as error:
        raise BadInput(
            f"the factory '{reference}' raised {type(error).__name__}: {error}", "mend the factory"
        ) from error


def load_problem(reference: str) -> Problem:
    """The problem that the factory behind ``reference`` makes."""
    problem = make(reference)
    if not isinstance(problem, Problem):
        raise BadInput(
            f"the factory '{reference}' returned a {type(problem).__name__}",
            "return phasecast.Problem(loss, params, data, n)",
        )
    return problem


def own_sources(module_name: str) -> dict[str, Path]:
    """Names and source files of a module and, through its import statements, of the user's own modules."""
    found: dict[str, Path] = {}
    waiting = [module_name]
    while waiting:
        name = waiting.pop()
        path = None if name in found else _source_path(name)
        if path is None or is_installed(path):
            continue
        found[name] = path
        waiting += [*_imports(path, name), *([name.rpartition(".")[0]] if "." in name else [])]
    return {name: found[name] for name in sorted(found)}


def _source_path(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def is_installed(path: Path) -> bool:
    """Whether a file belongs to an installed package, the standard library, or phasecast itself."""
    homes = [sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    homes.append(str(Path(__file__).parents[1]))
    resolved = path.resolve()
    return "site-packages" in resolved.parts or any(resolved.is_relative_to(Path(home).resolve()) for home in homes)


def _imports(path: Path, name: str) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ("." * node.level) + (node.module or "")
            try:
                target = importlib.util.resolve_name(base, package) if node.level else base
            except ImportError:
                continue
            yield target
            yield from (f"{target}.{alias.name}" for alias in node.names)


def _forget_stale(module_name: str) -> None:
    """Drop the user's own modules from memory unless they are known to be what is on disk.

    Their compiled files go too: Python takes one for current if the source has the same size and second.
    """
    sources = own_sources(module_name)
    if any(_loaded.get(name) != (sys.modules.get(name), digest_of(path)) for name, path in sources.items()):
        for name, path in sources.items():
            sys.modules.pop(name, None)
            with contextlib.suppress(OSError):
                Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def digest_of(path: Path) -> str:
    """A hash of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
