"""What is the syntax tree of a text? Python's own parser, also where other threads parse.

CPython up to 3.11.7 and 3.12.1 counts the depth of a tree that it builds in one place for all threads. If it collects
garbage meanwhile, and another thread gets its turn and builds a tree of its own, the count is wrong and a SystemError
says so ("AST constructor recursion depth mismatch", python/cpython#106905). Workers of dask have such threads, and so
has the studio.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable
from typing import TypeVar

TRIES = 20  # chosen: other libraries, which do not wait for us, would have to be parsing in each of them

T = TypeVar("T")
_one_at_a_time = threading.Lock()


def module_tree(source: str | bytes) -> ast.Module:
    """The tree of a module."""
    return _built(lambda: ast.parse(source))


def expression_tree(text: str) -> ast.expr:
    """The tree of one expression."""
    return _built(lambda: ast.parse(text, mode="eval")).body


def _built(build: Callable[[], T]) -> T:
    with _one_at_a_time:
        for _ in range(TRIES - 1):
            try:
                return build()
            except SystemError:
                continue
        return build()
