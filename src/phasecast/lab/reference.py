"""The object behind ``package.module:name``, from the user's code as it is on disk now."""

from __future__ import annotations

import ast
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

_loaded: dict[str, str] = {}
"""What the source files of the user's modules were when this process loaded them."""


def load(reference: str) -> Any:
    """The object that ``package.module:name`` names, from the module as it is on disk now."""
    module_name, colon, attribute = reference.partition(":")
    if not colon or not module_name or not attribute:
        raise BadInput(f"'{reference}' names no object", "write package.module:name")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # an installed command does not look into the working folder by itself
    importlib.invalidate_caches()
    try:
        _reload_if_edited(module_name)
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and module_name.split(".")[0] == error.name.split(".")[0]:
            raise BadInput(
                f"there is no module '{module_name}'", "run where it can be imported, or set PYTHONPATH"
            ) from None
        raise BadInput(f"module '{module_name}' needs '{error.name}', which is missing", "install it") from None
    except Exception as error:
        raise BadInput(
            f"importing '{module_name}' raised {type(error).__name__}: {error}", "mend the module"
        ) from error
    for path in own_sources(module_name):
        _loaded[str(path)] = digest_of(path)
    try:
        return functools.reduce(getattr, attribute.split("."), module)
    except AttributeError:
        raise BadInput(f"module '{module_name}' has no '{attribute}'", "check the name after the colon") from None


def load_problem(reference: str) -> Problem:
    """The problem that the factory behind ``reference`` makes."""
    factory = load(reference)
    if not callable(factory):
        raise BadInput(
            f"'{reference}' is a {type(factory).__name__}, not a factory", "name a function without arguments"
        )
    try:
        problem = factory()
    except Exception as error:
        raise BadInput(
            f"the factory '{reference}' raised {type(error).__name__}: {error}", "mend the factory"
        ) from error
    if not isinstance(problem, Problem):
        raise BadInput(
            f"the factory '{reference}' returned a {type(problem).__name__}",
            "return phasecast.Problem(loss, params, data, n)",
        )
    return problem


def own_sources(module_name: str) -> list[Path]:
    """Source files of a module and, through its import statements, of the user's own modules."""
    found: dict[str, Path] = {}
    waiting = [module_name]
    while waiting:
        name = waiting.pop()
        if name in found or name.partition(".")[0] in sys.stdlib_module_names:
            continue
        path = _source_path(name)
        if path is None or _is_installed(path):
            continue
        found[name] = path
        waiting += _imports(path, name)
    return [found[name] for name in sorted(found)]


def _source_path(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _is_installed(path: Path) -> bool:
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


def _reload_if_edited(module_name: str) -> None:
    """Forget modules of the user's own whose source changed since this process loaded them."""
    if module_name not in sys.modules:
        return
    sources = {name: path for name in list(sys.modules) if (path := _loaded_path(name)) is not None}
    edited = any(digest_of(path) != _loaded[str(path)] for path in sources.values() if path.exists())
    if edited:
        for name in sources:
            sys.modules.pop(name, None)


def _loaded_path(name: str) -> Path | None:
    origin = getattr(sys.modules.get(name), "__file__", None)
    return Path(origin) if origin and origin in _loaded else None


def digest_of(path: Path) -> str:
    """A hash of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
