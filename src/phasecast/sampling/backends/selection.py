"""Which parameters move? ``only=`` as the entries of each parameter that it chooses.

A pattern, a list of patterns, or a dictionary from patterns to masks::

    only="blocks.0.*"
    only=["blocks.0.*", "head.bias"]
    only={"blocks.0.qkv.weight": mask, "head.bias": True}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import numpy as np

from phasecast.core.errors import BadInput

Only: TypeAlias = str | Sequence[str] | Mapping[str, Any] | None
"""Patterns for names, or a dictionary from patterns to boolean masks of the parameter's shape (True for all of it)."""

Entries: TypeAlias = np.ndarray | None
"""Numbers of the entries of a flattened parameter that move; None for all of them."""


def check_only(only: Any) -> None:
    """Refuse what is neither patterns nor masks; names and shapes are checked against the parameters later."""
    if only is None or isinstance(only, str):
        return
    if isinstance(only, Mapping):
        for name, mask in only.items():
            if not isinstance(name, str) or (mask is not True and _array(mask).dtype != bool):
                raise BadInput(f"only has {type(mask).__name__} for {name!r}", "give {name: boolean mask or True}")
        return
    if not isinstance(only, list | tuple) or not all(isinstance(one, str) for one in only):
        raise BadInput(f"only is {only!r:.80}", "give a pattern, a list of patterns, or {name: mask}")


def entries_that_move(only: Only, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Entries]:
    """The entries that move of each parameter that does, in the order of ``shapes``.

    >>> mask = np.array([[True, False], [False, True]])
    >>> entries_that_move({"a.weight": mask, "b.*": True}, {"a.weight": (2, 2), "a.bias": (2,), "b.bias": (3,)})
    {'a.weight': array([0, 3]), 'b.bias': None}
    """
    check_only(only)
    if only is None:
        return dict.fromkeys(shapes)
    patterns = dict.fromkeys([only] if isinstance(only, str) else only, True)
    wanted: Mapping[str, Any] = only if isinstance(only, Mapping) else patterns
    if not wanted:
        raise BadInput("only chooses nothing", f"use a pattern for one of {_some(shapes)}")
    chosen: dict[str, np.ndarray] = {}
    for pattern, mask in wanted.items():
        names = [pattern] if pattern in shapes else [name for name in shapes if fnmatchcase(name, pattern)]
        if not names:
            raise BadInput(f"no parameter is called like '{pattern}'", f"use a pattern for one of {_some(shapes)}")
        for name in names:
            entries = np.ones(shapes[name], dtype=bool) if mask is True else _mask(name, mask, shapes[name])
            chosen[name] = chosen[name] | entries if name in chosen else entries
    return {name: None if chosen[name].all() else np.flatnonzero(chosen[name]) for name in shapes if name in chosen}


def how_many(entries: Entries, shape: tuple[int, ...]) -> int:
    """The number of entries of a parameter that move."""
    return int(np.prod(shape)) if entries is None else len(entries)


def _mask(name: str, mask: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = _array(mask)
    if array.shape != shape:
        raise BadInput(f"the mask of '{name}' has shape {array.shape}", f"the parameter has {shape}")
    if not array.any():
        raise BadInput(f"the mask of '{name}' chooses nothing", "choose at least one entry, or leave the name out")
    return array


def _array(mask: Any) -> np.ndarray:
    """A mask as numpy has it; a tensor of torch may be on another device."""
    return np.asarray(mask.detach().cpu() if hasattr(mask, "detach") else mask)


def _some(names: Mapping[str, Any]) -> str:
    return ", ".join([*names][:8])
