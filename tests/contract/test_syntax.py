"""Texts are parsed also while other threads parse."""

from __future__ import annotations

import ast
import gc
import sys
import threading
import time

import pytest

from phasecast.core.parsing import syntax

pytestmark = pytest.mark.bare

SOURCE = "\n".join(f"def f{k}(x):\n    return [x * {k}, (x + {k}, {{x: f{k}}})] if x else y" for k in range(300))


@pytest.fixture
def garbage_collections_give_way():
    """As in a worker of dask, whose callback lets other threads run in the middle of a collection."""

    def give_way(*_):
        time.sleep(0)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    gc.callbacks.append(give_way)
    yield
    gc.callbacks.remove(give_way)
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("garbage_collections_give_way")
def test_two_threads_parse_at_the_same_time():
    trees: list[str] = []

    def work(depth: int):
        if depth:
            work(depth - 1)
        else:
            trees.extend(ast.dump(syntax.module_tree(SOURCE)) for _ in range(15))

    threads = [threading.Thread(target=work, args=(depth,)) for depth in (0, 13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(trees) == 30
    assert len(set(trees)) == 1


def test_a_thread_of_another_library_may_parse_too(monkeypatch):
    """Python fails while that one builds its tree, and the next try succeeds."""
    parse, failures = ast.parse, iter([SystemError("depth mismatch")] * 3)

    def interrupted(*arguments, **named):
        for failure in failures:
            raise failure
        return parse(*arguments, **named)

    monkeypatch.setattr(ast, "parse", interrupted)
    assert ast.dump(syntax.expression_tree("x + 1")) == ast.dump(parse("x + 1", mode="eval").body)


def test_it_gives_up_in_the_end(monkeypatch):
    def broken(*_, **__):
        raise SystemError("for another reason")

    monkeypatch.setattr(ast, "parse", broken)
    with pytest.raises(SystemError, match="another reason"):
        syntax.module_tree("x")
