"""Ways to damage a store, and what a reader makes of it; shared by the tests and ``benchmarks/attack.py``."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from phasecast.core.errors import BadInput, RunInterrupted
from phasecast.lab import Run, Store, load
from phasecast.lab.recipe import find_recipe

SPEC = {"steps": 40}
READ = ("status.json", "spec.json", "results.zarr")
"""What an answer is computed from."""


def files(folder: Path) -> list[Path]:
    """The files of a run that an answer is computed from."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.relative_to(folder).parts[0] in READ)


def _arrays(stored: Run) -> object:
    tree = stored.results()
    return {
        f"{node.path}/{name}": np.asarray(variable.values).tolist()
        for node in tree.subtree
        for name, variable in node.to_dataset().variables.items()
    }


READERS: dict[str, Callable[[Run], object]] = {
    "runs show": lambda stored: (stored.status, stored.summary, stored.folder.spec()),
    "runs check": lambda stored: stored.check(),
    "export": _arrays,
    "report": lambda stored: stored.conclusion().summary(),
}
"""What each command reads of a finished run, by the call that it makes."""


def answer(store: Path, run: str) -> dict[str, object]:
    """What every reader learns of a finished run."""
    return {name: read(load(run, store=store, allow_code=True)) for name, read in READERS.items()}


Mutation = Callable[[bytearray, random.Random], bytes]

MUTATIONS: dict[str, Mutation] = {
    "bit": lambda content, draw: _at(content, draw, lambda byte: byte ^ (1 << draw.randrange(8))),
    "byte": lambda content, draw: _at(content, draw, lambda byte: (byte + draw.randrange(1, 256)) % 256),
    "digit": lambda content, draw: _digit(content, draw),
    "insert": lambda content, draw: _cut(content, draw, 0, draw.randbytes(draw.randrange(1, 5))),
    "delete": lambda content, draw: _cut(content, draw, draw.randrange(1, 20), b""),
    "zeros": lambda content, draw: _cut(content, draw, 16, bytes(16)),
    "truncate": lambda content, draw: bytes(content[: draw.randrange(len(content) or 1)]),
    "repeat": lambda content, draw: bytes(content + content[draw.randrange(len(content) or 1) :]),
}


def mutate(folder: Path, draw: random.Random, among: list[Path] | None = None) -> tuple[str, Callable[[], None]]:
    """Change one file of a run at random; what was done, and how to undo it."""
    among = among or files(folder)
    path = draw.choice(among)
    before = path.read_bytes()
    kind = draw.choice([*MUTATIONS, "remove", "exchange"])
    inside = str(path.relative_to(folder))
    if kind == "remove":
        path.unlink()
    elif kind == "exchange":
        other = draw.choice(among)
        theirs = other.read_bytes()
        path.write_bytes(theirs)
        other.write_bytes(before)

        def put_back() -> None:
            path.write_bytes(before)
            other.write_bytes(theirs)

        return f"exchange {inside} and {other.relative_to(folder)}", put_back
    else:
        path.write_bytes(MUTATIONS[kind](bytearray(before), draw))

    def restore() -> None:
        path.write_bytes(before)

    return f"{kind} {inside}", restore


def outcome(store: Path, run: str, truth: dict[str, object]) -> str:
    """``true`` or ``refused``; ``wrong``, or the name of an unexpected exception, if that is what any reader makes."""
    outcomes = {_outcome(read, store, run, truth[name]) for name, read in READERS.items()}
    bad = outcomes - {"true", "refused"}
    return min(bad) if bad else min(outcomes)  # refused comes before true


def _outcome(read: Callable[[Run], object], store: Path, run: str, truth: object) -> str:
    try:
        return "true" if read(load(run, store=store, allow_code=True)) == truth else "wrong"
    except BadInput as error:
        return "refused" if run in str(error) and "\n" not in str(error) else f"unclear: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def mutated(folder: Path, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Mutate a finished run ``count`` times, one after the other; what was done, and what a reader makes of it."""
    draw, truth = random.Random(seed), answer(folder.parent, folder.name)
    for _ in range(count):
        done, undo = mutate(folder, draw)
        with mock.patch("phasecast.lab.runs.find_recipe", _find_once):
            found = outcome(folder.parent, folder.name, truth)
        yield done, found
        undo()


_find_once = functools.cache(find_recipe)
"""The module of the recipe is not what changes; to look for its edits takes most of the time of a reading."""


def interrupt_at(step: int, spec: dict[str, Any], store: Path) -> None:
    """A walk that Ctrl-C stops at a step; a checkpoint is written at every step before."""
    from phasecast.lab.runs import execute
    from walks import WALK, Walk

    class Press:
        def update(self, done: int, total: int | None, metric: object = None) -> None:
            if done == step:
                os.kill(os.getpid(), signal.SIGINT)

        def say(self, line: str) -> None:
            return None

    with contextlib.suppress(RunInterrupted):
        execute(WALK, Walk(**spec), Store(store), progress=Press(), checkpoint_every=1e-9)


def special(path: Path, kind: str, outside: Path) -> None:
    """Replace what is at ``path`` by a link to a copy of it outside the store, a dangling link, a pipe or a folder."""
    is_folder = path.is_dir() or path.name == "figures"
    if kind == "link":
        if path.exists():
            shutil.move(path, outside / path.name)
        elif is_folder:
            (outside / path.name).mkdir()
        else:
            (outside / path.name).write_text("mine")
        path.symlink_to(outside / path.name)
        return
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if kind == "dangling":
        path.symlink_to(outside / "nowhere" / path.name)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("") if is_folder else path.mkdir()


def _at(content: bytearray, draw: random.Random, change: Callable[[int], int]) -> bytes:
    if content:
        place = draw.randrange(len(content))
        content[place] = change(content[place])
    return bytes(content)


def _digit(content: bytearray, draw: random.Random) -> bytes:
    """Another digit in the place of a digit: what stays readable as JSON."""
    places = [place for place, byte in enumerate(content) if chr(byte).isdigit() and byte < 128]
    if places:
        place = draw.choice(places)
        content[place] = ord(draw.choice([digit for digit in "0123456789" if ord(digit) != content[place]]))
    return bytes(content)


def _cut(content: bytearray, draw: random.Random, length: int, piece: bytes) -> bytes:
    place = draw.randrange(len(content) + 1)
    return bytes(content[:place] + piece + content[place + length :])
