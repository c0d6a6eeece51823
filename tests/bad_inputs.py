"""Bad inputs by class: what ``benchmarks/attack.py`` tries, and the slow tests a share of.

An input is a command line, or a question that :data:`QUESTIONS` answers. Its outcome is ``fine`` (answered, or refused
as a result), ``one line`` (bad input, in one line), ``stopped`` (interrupted after it had shown progress),
``unexpected …``, ``hang`` or ``wrong and ok …``.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import attacks

NUMBERS = ("-1", "0", "nan", "inf", "-inf", "1e30", "1e400", "-1e-300", "99999999999999999999999",
           "18446744073709551616", "1000000000000", "2.5", "x", "", "1" * 5000, "0x10", "1_0", "٣", "1e-400",
           "true", "[1]", "{}")  # fmt: skip
OPTIONS = {
    ("curve", "--modes", "4", "--exponent", "0.5", "--lr", "0.1", "--alphas", "1:10:3", "--activation", "linear"): (
        "--students", "--teachers", "--modes", "--exponent", "--lr", "--sigma", "--inputs", "--draws", "--seed",
        "--order", "--simulate",
    ),
    ("threshold", "--target", "z**2", "--delta", "1", "--time", "0"): (
        "--lr", "--a", "--b", "--initial-norm", "--noise", "--delta", "--simulate", "--seeds", "--samples", "--up-to",
        "--time", "--width",
    ),
    ("coefficient", "deep-linear", "--widths", "5,3,4", "--rank", "1"): ("--widths", "--rank"),
    ("coefficient", "modular-addition", "--p", "7", "--width", "3"): ("--p", "--width", "--train", "--dead-v"),
    ("coefficient", "tanh", "--width", "3"): ("--width",),
    ("coefficient", "mixture", "--components", "3", "--true", "1", "--dimension", "2"): (
        "--components", "--true", "--dimension",
    ),
    ("llc", "attacked:bowl", "--seconds", "0.2", "--nbeta", "100", "--max-grads", "2000"): (
        "--n", "--nbeta", "--gamma", "--radius", "--prior", "--chains", "--target", "--max-grads",
        "--seconds", "--seed",
    ),
    ("plan", "grokking", "--p", "23"): (
        "--p", "--width", "--lr", "--weight-decay", "--fraction", "--steps", "--chance",
    ),
    ("plan", "posterior", "--coefficient", "2", "--sizes", "100"): (
        "--coefficient", "--error", "--loss", "--other", "--other-loss", "--sizes", "--errors",
    ),
    ("plan", "feature", "--target", "z**2", "--dimension", "50"): ("--dimension", "--lr", "--simulate"),
    ("forecast", "log.csv"): ("--loss-at-50", "--coverage"),
    ("run", "walks:WALK", "--set", "steps=3"): ("--checkpoint-every", "--threads"),
    ("sweep", "walks:WALK", "--set", "steps=3", "--seeds", "1"): ("--seeds", "--workers", "--threads"),
}  # fmt: skip
"""A command that works, and its numeric options: each receives each of :data:`NUMBERS`."""

NAMES = ("..", "/etc", "a/b", "x" * 1000, "sweep-../x", "*", "\n", "--", "λ", ".", "sweep-", "", " ", "\x1b[2J", "-rf")
PLACES = ("/etc/passwd", "/etc/passwd/x", "/dev/null", "/dev/zero", "/proc/nowhere", "/" + "x" * 300, "a\tb")
FIELDS = ("seed", "ballast", "refuse", "nothing", "recipe")  # many steps and long pauses are what was asked for
PIECES = ("x", "y", "z1", "x**2", "x**100", "(x + y)", "9**99", "1e308", "1e400", "0", "-1", "x/0", "1/3", "x**x",
          "sin(x)", "import os", "__import__('os')", "x" * 50, "((((x))))",
          "(a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p+q+r+s+t+u+v+w+y+z)**2",
          "lambda: x", "x if x else y", "x and y", "[x]", "x.real", "'x'", "λ", "x²", "1" * 5000)  # fmt: skip
EXPRESSIONS = 250
"""Random ones, besides the pieces themselves."""

LOG = "step,train_acc,val_acc,val_loss\n" + "".join(
    f"{100 * row},{min(1, 0.1 * row):.3f},{0.02 * row:.3f},{3 - 0.1 * row:.3f}\n" for row in range(15)
)
LOGS = 200
"""Random changes of a training log."""

FACTORIES = {
    "raises": "def loss(w): raise KeyError('a\\nb')",
    "raises nothing": "def loss(w): raise Exception",
    "exits": "import sys\ndef loss(w): sys.exit(0)",
    "exits hard": "import sys\ndef loss(w): raise SystemExit('text')",
    "vector": "def loss(w): return w",
    "text": "def loss(w): return 'low'",
    "none": "def loss(w): return None",
    "integer": "import jax.numpy as jnp\ndef loss(w): return jnp.sum(jnp.round(w)).astype(int)",
    "boolean": "def loss(w): return w[0] > 0",
    "list": "def loss(w): return [w @ w]",
    "prints": "def loss(w):\n    print('hello')\n    return w @ w",
    "constant": "def loss(w): return 0 * w[0] + 1.0",
    "negated": "def loss(w): return -(w @ w)",
    "nan": "def loss(w): return w @ w + float('nan')",
    "infinite": "def loss(w): return w @ w + float('inf')",
    "complex": "def loss(w): return w @ w + 1j",
    "noise": "import numpy as np\ndraw = np.random.default_rng(0)\ndef loss(w): return w @ w + draw.normal()",
    "counter": "calls = []\ndef loss(w):\n    calls.append(1)\n    return w @ w + len(calls)",
    "if": "def loss(w): return w @ w if w[0] > 0 else 0.0",
    "float": "def loss(w): return float(w @ w)",
    "numpy": "import numpy as np\ndef loss(w): return np.sum(np.asarray(w) ** 2)",
    "stop_gradient": "import jax\ndef loss(w): return jax.lax.stop_gradient(w) @ w",
    "huge": "def loss(w): return 1e300 * (w @ w)",
    "tiny": "def loss(w): return 1e-300 * (w @ w)",
    "no argument": "def loss(): return 0.0",
    "two arguments": "def loss(w, x): return w @ w",
    "recursion": "def loss(w): return loss(w)",
    "import": "def loss(w):\n    import nowhere\n    return w @ w",
    "assertion": "def loss(w):\n    assert False\n    return w @ w",
    "wall": "import jax.numpy as jnp\ndef loss(w): return jnp.where(w @ w < 1e-12, w @ w, jnp.inf)",
    "keyboard": "def loss(w): return w @ w\nraise SystemExit(0)",
    "syntax": "def loss(w: return",
    "generator": "def loss(w): yield w @ w",
}
"""Losses of a user's module; the parameters are three zeros."""
PARAMETERS = {
    "empty": "{}", "scalar": "0.0", "list of scalars": "[0.0, 0.0, 0.0]", "text": "'w'", "none": "None",
    "complex": "np.zeros(3) + 1j", "integers": "np.zeros(3, int)", "nan": "np.full(3, np.nan)",
    "object": "np.array([object()] * 3)", "huge": "np.full(3, 1e300)", "no entries": "np.zeros(0)",
    "ragged": "[[0.0, 0.0], [0.0]]", "set": "{0.0}", "booleans": "np.zeros(3, bool)", "lambda": "lambda: 0",
}  # fmt: skip
DATA = {
    "ragged": "[[1.0, 2.0], [3.0]]", "text": "np.array(['a', 'b'])", "empty": "np.zeros((0, 3))", "scalar": "3.0",
    "none inside": "[None, 1.0]", "objects": "np.array([object()] * 4)", "lengths": "(np.zeros((4, 3)), np.zeros(5))",
    "dictionary": "{'x': np.zeros((4, 3)), 'y': np.zeros(3)}", "nan": "np.full((4, 3), np.nan)", "string": "'rows'",
    "complex": "np.zeros((4, 3)) + 1j",
}  # fmt: skip


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Numbers out of bounds in every numeric option, expressions, values of specs, names and places."""
    for words, options in OPTIONS.items():
        for option in options:
            base = list(words)
            if option in base:  # given twice is another mistake
                place = base.index(option)
                del base[place : place + 2]
            yield from (("numbers", [*base, f"{option}={number}"]) for number in NUMBERS)
    for field in FIELDS:
        yield from (("specs", ["run", "walks:WALK", "--set", f"{field}={number}"]) for number in NUMBERS)
    for text in _expressions():
        yield "expressions", ["coefficient", "newton", text]
        yield "expressions", ["coefficient", "ideal", text, "x"]
    yield from (("expressions", ["threshold", "--target", text, "--delta", "1", "--time", "0"]) for text in PIECES)
    readers = (["runs", "show"], ["runs", "rm"], ["report"], ["runs", "check"], ["runs", "resume"], ["forecast"],
               ["claims", "verify"], ["recipes", "show"])  # fmt: skip
    yield from (("names", [*words, name]) for words in readers for name in NAMES)
    yield from (("names", ["run", f"{name}:WALK"]) for name in NAMES)
    for words in (["runs", "ls"], ["run", "walks:WALK", "--set", "steps=3"], ["runs", "check", "--all"]):
        yield from (("names", [*words, "--store", place]) for place in PLACES)


def inputs() -> Iterator[tuple[str, Any]]:
    """All bad inputs: their class, and a command line or a question."""
    yield from command_lines()
    yield from (("logs", ("log", seed)) for seed in range(LOGS))
    yield from (("user code", ("factory", text, "np.zeros(3)", "None")) for text in FACTORIES.values())
    plain = "import jax, jax.numpy as jnp\ndef loss(w): return sum(jnp.sum(x ** 2) for x in jax.tree.leaves(w))"
    yield from (("user code", ("factory", plain, text, "None")) for text in PARAMETERS.values())
    plain = "import jax.numpy as jnp\ndef loss(w, data): return jnp.mean((data - w) ** 2)"
    yield from (("user code", ("factory", plain, "np.zeros(3)", text)) for text in DATA.values())
    yield from (("weights", ("weights", seed)) for seed in range(150))
    yield from (("records", ("record", seed)) for seed in range(150))
    yield from (("links", ("link", part, kind)) for part in PARTS for kind in ("link", "dangling", "pipe", "other"))
    yield from (("resumed runs", ("resume", seed)) for seed in range(200))
    yield from (("real commands", ("real", seed)) for seed in range(50))


def obey(words: list[str]) -> str:
    """What a command line leads to in this process."""
    return _judge(*_command(words))


def ask(question: tuple[Any, ...], folder: Path) -> str:
    """What becomes of an input that is not a command line alone; ``folder`` is a place to work in."""
    kind, *facts = question
    return QUESTIONS[kind](folder, *facts)


def finished_run(folder: Path) -> Path:
    """The folder of a finished run, computed once."""
    from phasecast.lab import run

    return run("walks:WALK", attacks.SPEC, store=folder / "finished", quiet=True).path


def fresh_copy(folder: Path) -> Path:
    """The folder of the same run in a store that may be damaged."""
    original = finished_run(folder)
    copy = folder / "damaged" / original.name
    shutil.rmtree(copy.parent, ignore_errors=True)
    shutil.copytree(original.parent, copy.parent)
    return copy


def _command(words: list[str]) -> tuple[int | str, str, str]:
    """Exit code, or the name of what was raised, stdout and stderr."""
    from phasecast.cli import main

    out, err = io.StringIO(), io.StringIO()
    json_too = mock.patch.object(sys, "__stdout__", out)  # past what user code prints
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), json_too:
            return main(words), out.getvalue(), err.getvalue()
    except BaseException as error:
        return type(error).__name__, out.getvalue(), err.getvalue()


def _judge(code: int | str, out: str, err: str) -> str:
    if isinstance(code, str):
        return f"unexpected {code}"
    complaint = [line for line in err.splitlines() if line.startswith("phasecast: ")]
    if any(word in err for word in ("unexpected", "Traceback", "validation error")):
        return f"unexpected {complaint[-1:]}"
    if code == 130:
        return "stopped" if len(err.splitlines()) > len(complaint) else "hang: silent until it was interrupted"
    if code in (0, 3):
        return "fine"
    return "one line" if len(complaint) == 1 else f"unexpected {err[-200:]}"


def _worst(outcomes: list[str]) -> str:
    bad = [outcome for outcome in outcomes if outcome not in ("fine", "one line")]
    return bad[0] if bad else "one line" if "one line" in outcomes else "fine"


def _expressions() -> Iterator[str]:
    draw = random.Random(0)
    yield from PIECES
    yield "(((9**100)**100)**100)**100*x**2"
    yield "+".join(f"x{i}**2" for i in range(15))
    yield "+".join(f"x{i}*x{i + 1}" for i in range(24))
    yield "(" * 1000 + "x" + ")" * 1000
    for _ in range(EXPRESSIONS):
        yield "".join(draw.choices([*PIECES, "+", "*", "**", "-", "/", "(", ")"], k=draw.randrange(2, 7)))


# questions


def _log(folder: Path, seed: int) -> str:
    """A training log of which a few bytes, cells, rows or columns changed."""
    draw = random.Random(seed)
    content = bytearray(LOG.encode())
    for _ in range(draw.randrange(1, 4)):
        if draw.random() < 0.5:
            content = bytearray(attacks.MUTATIONS[draw.choice(list(attacks.MUTATIONS))](content, draw))
        else:
            rows = [row.split(b",") for row in bytes(content).split(b"\n")]
            row = draw.choice(rows)
            row[draw.randrange(len(row))] = draw.choice(NUMBERS).encode()
            content = bytearray(b"\n".join(b",".join(row) for row in rows))
    path = folder / "changed.csv"
    path.write_bytes(bytes(content))
    return obey(["forecast", str(path)])


def _factory(folder: Path, loss: str, params: str, data: str) -> str:
    """A user's module with this loss, these parameters and this data, sampled from the command line."""
    name = f"theirs_{zlib.crc32(repr((loss, params, data)).encode())}"
    imports = "import numpy as np\nfrom phasecast import Problem"
    text = f"{loss}\n{imports}\ndef factory(): return Problem(loss, {params}, {data})\n"
    (folder / f"{name}.py").write_text(text)
    words = ["--gamma", "1", "--nbeta", "100", "--seconds", "2", "--max-grads", "3000"]
    return obey(["llc", f"{name}:factory", *words])


def _weights(folder: Path, seed: int) -> str:
    """A file of weights of which a byte changed: other arrays of the same names, or one line."""
    import numpy as np
    from safetensors.numpy import save_file

    from phasecast.core.errors import BadInput
    from phasecast.studies.coefficients.user_weights import read_arrays

    draw = random.Random(seed)
    arrays = {"w": np.arange(12.0).reshape(3, 4), "b": np.arange(3, dtype=np.float32)}
    path = folder / ("weights.npz" if seed % 2 else "weights.safetensors")
    np.savez(path, **arrays) if seed % 2 else save_file(arrays, path)  # type: ignore[arg-type]
    kind = draw.choice(list(attacks.MUTATIONS))
    path.write_bytes(attacks.MUTATIONS[kind](bytearray(path.read_bytes()), draw))
    try:
        read_arrays(path)
    except BadInput as error:
        return "one line" if "\n" not in str(error) else f"unexpected lines: {error}"
    except BaseException as error:
        return f"unexpected {type(error).__name__}: {error}"
    return "fine"


ODD = (None, True, -1, 0, 1e308, 10**30, "", "x" * 500, "../../etc/passwd", "/etc/passwd", "\x1b[2J", "\n", [], {},
       [[]], {"": None}, ["a", 1], float("1e-320"), "nan", "λ")  # fmt: skip


def _record(folder: Path, seed: int) -> str:
    """A file of a store whose JSON has another value, no value or another name somewhere, before every reader."""
    draw, copy = random.Random(seed), fresh_copy(folder)
    truth = _truth(copy)
    path = draw.choice([copy / "status.json", copy / "spec.json", copy.parent / "store.json",
                        copy / "results.zarr" / "walk" / "place" / "zarr.json"])  # fmt: skip
    tree = json.loads(path.read_text())
    places = list(_places(tree))
    owner, key = draw.choice(places)
    match draw.randrange(3):
        case 0:
            owner[key] = draw.choice(ODD)
        case 1:
            owner.pop(key)
        case _ if isinstance(owner, dict):
            owner["another"] = owner.pop(key)
        case _:
            owner.append(owner[key])
    path.write_text(json.dumps(tree, indent=2, ensure_ascii=False) + "\n")
    return _compare(truth, _answers(copy))


PARTS = ("status.json", "spec.json", "log.jsonl", "lock", "report.html", "figures", "results.zarr", "checkpoint",
         "results.zarr/walk", "results.zarr/walk/place/c", "results.zarr/walk/place/zarr.json", ".")  # fmt: skip


def _link(folder: Path, part: str, kind: str) -> str:
    """A link, a pipe or a folder in the place of a part of a run: nothing outside changes, and every reader ends."""
    copy, outside = fresh_copy(folder), folder / "outside"
    truth = _truth(copy)
    shutil.rmtree(outside, ignore_errors=True)
    outside.mkdir()
    attacks.special(copy if part == "." else copy / part, kind, outside)
    before = {str(path): path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    found = _compare(truth, _answers(copy))
    after = {str(path): path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    return found if before == after else "wrong and ok: a file outside the store changed"


def _resume(folder: Path, seed: int) -> str:
    """A byte of an unfinished run changes: continued, it gives the true numbers or one line."""
    import numpy as np

    from phasecast.core.errors import BadInput
    from phasecast.lab import load, resume

    begun = folder / "begun"
    if not begun.exists():
        attacks.interrupt_at(25, attacks.SPEC, begun)
    store = folder / "continued"
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(begun, store)
    truth = np.asarray(load(finished_run(folder).name, store=folder / "finished").results()["walk/place"])
    (run,) = store.glob("walks-WALK-*")
    draw = random.Random(seed)
    attacks.mutate(run, draw, [path for path in run.rglob("*") if path.is_file() and path.name != "lock"])
    try:
        again = resume(run.name, store=store, quiet=True)
        return "fine" if np.array_equal(np.asarray(again.results()["walk/place"]), truth) else "wrong and ok"
    except BadInput as error:
        return "one line" if "\n" not in str(error) else f"unexpected lines: {error}"
    except BaseException as error:
        return f"unexpected {type(error).__name__}: {error}"


def _real(folder: Path, seed: int) -> str:
    """A mutation of a finished run, read by a command in a process of its own."""
    import os
    import subprocess

    copy = fresh_copy(folder)
    line = _readers(copy)[seed % len(_readers(copy))]

    def obeyed() -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "phasecast.cli", *line], capture_output=True, text=True, check=False, env=os.environ
        )
        return done.returncode, done.stdout, done.stderr

    name = " ".join(line[:2])
    if name not in _REAL:
        _REAL[name] = obeyed()
    truth = _REAL[name]
    attacks.mutate(copy, random.Random(seed))
    return _compare({name: truth}, {name: obeyed()})


QUESTIONS: dict[str, Callable[..., str]] = {
    "log": _log,
    "factory": _factory,
    "weights": _weights,
    "record": _record,
    "link": _link,
    "resume": _resume,
    "real": _real,
}


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every value in a tree of JSON, as its owner and its key."""
    for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
        yield tree, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _readers(folder: Path) -> list[list[str]]:
    store = ["--store", str(folder.parent)]
    return [
        ["runs", "show", folder.name, *store, "--json"],
        ["runs", "check", folder.name, *store],
        ["runs", "export", folder.name, "--to", str(folder.parent / "out.csv"), *store],
        ["report", folder.name, "--allow-code", *store],
        ["run", "walks:WALK", "--set", *(f"{name}={value}" for name, value in attacks.SPEC.items()), *store, "--json"],
        ["runs", "ls", *store],
    ]


Answers = dict[str, tuple[int | str, str, str]]
_TRUTH: dict[Path, Answers] = {}
_REAL: Answers = {}


def _truth(folder: Path) -> Answers:
    """What each reader prints of the run before any damage; it is the same for every copy."""
    if folder not in _TRUTH:
        _TRUTH[folder] = _answers(folder)
        assert all(code == 0 for code, _, _ in _TRUTH[folder].values()), _TRUTH[folder]
        fresh_copy(folder.parent.parent)
    return _TRUTH[folder]


def _answers(folder: Path) -> Answers:
    """What each reader prints; a page and an exported table are part of it."""
    answers = {}
    for line in _readers(folder):
        code, out, err = _command(line)
        written = {"report": folder / "report.html", "runs export": folder.parent / "out-walk.csv"}
        path = written.get(" ".join(line[: 1 if line[0] == "report" else 2]))
        if code == 0 and path is not None:
            out += path.read_text()
        answers[" ".join(line[:2])] = code, out, err
    return answers


def _compare(truth: Answers, answers: Answers) -> str:
    """The worst of the readers; one that answers otherwise than before the damage is wrong."""
    outcomes = []
    for name, (code, out, err) in answers.items():
        outcome = _judge(code, out, err)
        if name == "runs check" and code == 2:
            outcome = "one line"  # the table names the damage
        if outcome == "fine" and name != "runs ls" and out != truth[name][1]:
            outcome = f"wrong and ok: {name} said {out[:100]!r}"
        outcomes.append(outcome)
    return _worst(outcomes)
