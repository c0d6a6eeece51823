"""Which object does ``package.module:name`` refer to, in the user's code as it is on disk now?

An edited module is loaded again. Its code is compiled from the source: Python takes a ``.pyc`` file for current if the
source has the same size and the same second, which an edit in between can have. The user's ``.pyc`` files are neither
read nor changed, and neither is ``sys.path``: only the command line makes the working folder importable
(:func:`working_folder`).
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from phasecast.core.errors import BadInput, UserCodeFailed
from phasecast.core.parsing.syntax import module_tree
from phasecast.core.problem import Problem

_loaded: dict[str, tuple[ModuleType | None, str]] = {}
"""The user's modules that were loaded here, each with the hash of its source file at that time."""


_named_by: ContextVar[str] = ContextVar("named_by", default="")
"""What names the code that may not be loaded here; empty where the user named it."""


@contextlib.contextmanager
def without_code(source: str) -> Iterator[None]:
    """Refuse to load code inside the block: ``source``, such as a store, is data and may come from somebody else."""
    token = _named_by.set(source)
    try:
        yield
    finally:
        _named_by.reset(token)


def load_object(reference: str) -> Any:
    """The object that ``package.module:name`` names, from the module as it is on disk now."""
    if source := _named_by.get():
        raise BadInput(
            f"{source} names the code '{reference}', which would be run",
            "add --allow-code (allow_code=True) if you trust where it comes from",
        )
    module_name, colon, attribute = reference.partition(":")
    if not colon or not module_name or not attribute:
        raise BadInput(f"invalid reference '{reference}'", "write package.module:name")
    importlib.invalidate_caches()
    try:
        _forget_stale(module_name)
        with _from_source():
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and module_name.split(".")[0] == error.name.split(".")[0]:
            fix = "run where it can be imported, or set PYTHONPATH"
            if module_name.endswith(".py"):
                fix = f"write {module_name[:-3].replace('/', '.')}:{attribute}, without .py"
            raise BadInput(f"there is no module '{module_name}'", fix) from None
        raise BadInput(f"module '{module_name}' needs '{error.name}', which is missing", "install it") from None
    except (Exception, SystemExit) as error:
        raise UserCodeFailed(
            f"importing '{module_name}' raised {type(error).__name__}: {error}", "fix the error in the module"
        ) from error
    sources = own_sources(module_name)
    _loaded.update({name: (sys.modules.get(name), digest_of(path)) for name, path in sources.items()})
    try:
        return functools.reduce(getattr, attribute.split("."), module)
    except AttributeError:
        raise BadInput(f"module '{module_name}' has no '{attribute}'", "check the name after the colon") from None


@contextlib.contextmanager
def working_folder() -> Iterator[None]:
    """Make the modules of the working folder importable inside the block, as ``python script.py`` does for its own."""
    folder = str(Path.cwd())
    if "" in sys.path or folder in sys.path:
        yield
        return
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def make(reference: str) -> Any:
    """What the factory behind ``reference`` returns."""
    factory = load_object(reference)
    if not callable(factory):
        raise BadInput(
            f"'{reference}' is a {type(factory).__name__}, not a factory", "name a function without arguments"
        )
    try:
        return factory()
    except (Exception, SystemExit) as error:
        raise UserCodeFailed(
            f"the factory '{reference}' raised {type(error).__name__}: {error}", "fix the error in the factory"
        ) from error


def load_problem(reference: str) -> Problem:
    """The problem that the factory behind ``reference`` returns."""
    problem = make(reference)
    if not isinstance(problem, Problem):
        raise BadInput(
            f"the factory '{reference}' returned a {type(problem).__name__}",
            "return phasecast.Problem(loss, params, data, n)",
        )
    return problem


def own_sources(module_name: str) -> dict[str, Path]:
    """Names and source files of a module and of the user's modules that it imports, directly or not."""
    sources: dict[str, Path] = {}
    waiting = [module_name]
    while waiting:
        name = waiting.pop()
        path = None if name in sources else _source_path(name)
        if path is None or is_installed(path):
            continue
        sources[name] = path
        waiting += [*_imports(path, name), *([name.rpartition(".")[0]] if "." in name else [])]
    return {name: sources[name] for name in sorted(sources)}


def _source_path(name: str) -> Path | None:
    try:
        with _from_source():  # find_spec imports the parent packages: not those of an installed one, which take long
            top, dot, _ = name.partition(".")
            spec = importlib.util.find_spec(top)
            if not dot or spec is None or (spec.origin and is_installed(Path(spec.origin))):
                return _python_file(spec)
            spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    return _python_file(spec)


def _python_file(spec: ModuleSpec | None) -> Path | None:
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def is_installed(path: Path) -> bool:
    """Whether a file belongs to an installed package, the standard library, or phasecast itself."""
    resolved = path.resolve()
    return "site-packages" in resolved.parts or any(resolved.is_relative_to(home) for home in _homes())


def own_line(error: BaseException) -> str:
    """Where in the user's own code it happened: the last line outside of installed packages and of phasecast."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.endswith(".py") and not is_installed(Path(frame.filename))]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""


@functools.cache
def _homes() -> tuple[Path, ...]:
    """Where installed packages, the standard library and phasecast itself are."""
    installed = {Path(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple(home.resolve() for home in (*installed, Path(__file__).parents[1]))


def _imports(path: Path, name: str) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(module_tree(path.read_bytes())):
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
    """Drop the user's modules from memory unless they are known to be what is on disk."""
    sources = own_sources(module_name)
    if any(_loaded.get(name) != (sys.modules.get(name), digest_of(path)) for name, path in sources.items()):
        for name in sources:
            sys.modules.pop(name, None)


class _SourceLoader(SourceFileLoader):
    """Compiles a module from its source; reads and writes no ``.pyc`` file."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _SourceFinder:
    """Finds what the other finders find, and has the user's own modules compiled from their source."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        for finder in [other for other in sys.meta_path if not isinstance(other, _SourceFinder)]:
            spec = finder.find_spec(name, path, target)
            if spec is None:
                continue
            # a loader of another kind (a zip file, an assertion rewriter) knows better how to read its modules
            if type(spec.loader) is SourceFileLoader and spec.origin and not is_installed(Path(spec.origin)):
                spec.loader = _SourceLoader(spec.loader.name, str(spec.loader.path))
            return spec
        return None


@contextlib.contextmanager
def _from_source() -> Iterator[None]:
    """Compile the user's modules from their source if they are imported inside the block."""
    finder = _SourceFinder()
    sys.meta_path.insert(0, finder)  # pyright: ignore[reportArgumentType]
    try:
        yield
    finally:
        sys.meta_path.remove(finder)  # pyright: ignore[reportArgumentType]


def digest_of(path: Path) -> str:
    """A hash of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
