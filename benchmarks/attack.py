"""What becomes of bad input and damaged stores? One table of inputs by class and outcome.

Claimed: none is unexpected, hangs, kills the process, or is a wrong answer that is ok. Run
``python benchmarks/attack.py``; ``--quick`` tries a tenth, ``--failures`` lists what was not as claimed. Each input is
tried in a process that many share; one that hangs or dies is counted, and the next input gets a new process.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

OUTCOMES = ("fine", "one line", "unexpected", "hang", "killed", "wrong and ok")
LONGEST = 30.0  # seconds of CPU; an answer or a refusal takes less than 5, the rest is imports and compilation
MEMORY = 12 * 2**30  # bytes of address space of a process, so that what is too large fails here and not elsewhere
MUTATIONS = 10_000

NUMBERS = ("-1", "0", "nan", "inf", "-inf", "1e30", "1e400", "-1e-300", "99999999999999999999999",
           "18446744073709551616", "1000000000000", "2.5", "x", "", "1" * 5000, "0x10", "1_000", "٣", "1e-400",
           "true", "[1]", "{}")  # fmt: skip
OPTIONS = {
    ("curve", "--modes", "4", "--exponent", "0.5", "--lr", "0.1", "--alphas", "1:10:3"): (
        "--students", "--teachers", "--modes", "--exponent", "--lr", "--sigma", "--inputs", "--draws", "--seed",
        "--order", "--simulate",
    ),
    ("threshold", "--target", "z**2"): (
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
    ("run", "walks:WALK", "--set", "steps=3"): ("--checkpoint-every", "--threads"),
    ("sweep", "walks:WALK", "--set", "steps=3", "--seeds", "1"): ("--seeds", "--workers", "--threads"),
}  # fmt: skip
NAMES = ("..", "/etc", "a/b", "x" * 1000, "sweep-../x", "*", "\n", "--", "λ", ".", "sweep-")
PLACES = ("/etc/passwd", "/etc/passwd/x", "/dev/null", "/dev/zero", "/proc/nowhere", "/" + "x" * 300)
FIELDS = ("seed", "steps", "pause", "ballast", "refuse", "nothing")
PIECES = ("x", "y", "z1", "x**2", "x**100", "(x + y)", "9**99", "1e308", "1e400", "0", "-1", "x/0", "1/3", "x**x",
          "sin(x)", "import os", "__import__('os')", "x" * 50, "((((x))))",
          "(a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p+q+r+s+t+u+v+w+y+z)**2",
          "lambda: x", "x if x else y", "x and y", "[x]", "x.real", "'x'", "λ", "x²", "\x00", "1" * 5000)  # fmt: skip


def command_lines(count: int) -> Iterator[tuple[str, list[str]]]:
    """Numbers out of bounds in every numeric option, expressions, and values of specs."""
    lines = [
        ("numbers", [*words, f"{option}={number}"])
        for words, options in OPTIONS.items()
        for option in options
        for number in NUMBERS
    ]
    lines += [("specs", ["run", "walks:WALK", "--set", f"{f}={number}"]) for f in FIELDS for number in NUMBERS]
    draw = random.Random(0)
    expressions = [
        *PIECES,
        "(((9**100)**100)**100)**100*x**2",
        "+".join(f"x{i}**2" for i in range(15)),
        "+".join(f"x{i}*x{i + 1}" for i in range(24)),
        "(" * 1000 + "x" + ")" * 1000,
        *(
            "".join(draw.choices([*PIECES, "+", "*", "**", "-", "/", "(", ")"], k=draw.randrange(2, 7)))
            for _ in range(250)
        ),
    ]
    lines += [("expressions", ["coefficient", "newton", text]) for text in expressions if "\0" not in text]
    lines += [("expressions", ["coefficient", "ideal", text, "x"]) for text in expressions if "\0" not in text]
    lines += [("expressions", ["threshold", "--target", text]) for text in PIECES if "\0" not in text]
    lines += [("ids", [*words, name]) for words in (["runs", "show"], ["runs", "rm"], ["report"], ["runs", "check"])
              for name in NAMES]  # fmt: skip
    lines += [("places", ["runs", "ls", "--store", place])
              for place in PLACES]  # fmt: skip
    draw.shuffle(lines)
    return iter(lines[: max(1, len(lines) // count)])


def obey(words: list[str]) -> str:
    """What a command line leads to in this process."""
    from phasecast.cli import main

    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
    except MemoryError:
        return "killed"
    except BaseException as error:
        return f"unexpected {type(error).__name__}"
    complaint = [line for line in err.getvalue().splitlines() if line.startswith("phasecast: ")]
    if "unexpected" in err.getvalue() or "Traceback" in err.getvalue():
        return f"unexpected {complaint[-1:]}"
    return "fine" if code in (0, 3) else "one line" if len(complaint) == 1 else f"unexpected {err.getvalue()[-200:]}"


def serve(pipe: Connection, folder: str) -> None:
    """Answer one question after another: a command line, or a number of mutations."""
    import os

    os.chdir(folder)
    os.environ["PHASECAST_STORE"] = str(Path(folder) / "runs")
    Path("attacked.py").write_text(
        "import numpy as np\nfrom phasecast import Problem\ndef bowl(): return Problem(lambda w: w @ w, np.zeros(2))\n"
    )
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    import attacks  # beside the tests

    while True:
        question = pipe.recv()
        if isinstance(question, list):
            pipe.send(obey(question))
            continue
        seed, count = question
        original = attacks_store(Path(folder))
        copy = Path(folder) / "mutated" / original.name
        shutil.rmtree(copy.parent, ignore_errors=True)
        shutil.copytree(original.parent, copy.parent)
        words = {"true": "fine", "refused": "one line", "wrong": "wrong and ok"}
        pipe.send(
            [
                (done, words.get(outcome, f"unexpected {outcome}"))
                for done, outcome in attacks.mutated(copy, count, seed)
            ]
        )


def attacks_store(folder: Path) -> Path:
    """A finished run, computed once."""
    import attacks
    from phasecast.lab import run

    return run("walks:WALK", attacks.SPEC, store=folder / "finished", quiet=True).path


class Worker:
    """A process that answers; one that does not is replaced."""

    def __init__(self, folder: str):
        self.folder = folder
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, self.folder), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, question: object, seconds: float) -> object:
        self.pipe.send(question)
        began, cpu = time.monotonic(), self._cpu()
        while not self.pipe.poll(0.2):
            if not self.process.is_alive():
                self._start()
                return "killed"
            if self._cpu() - cpu > seconds or time.monotonic() - began > 40 * seconds:
                self.stop()
                self._start()
                return "hang"
        try:
            return self.pipe.recv()
        except EOFError:
            self._start()
            return "killed"

    def stop(self) -> None:
        self.process.kill()
        self.process.join()

    def _cpu(self) -> float:
        with contextlib.suppress(OSError, IndexError):
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / 100
        return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--failures", action="store_true", help="list what was not as claimed")
    arguments = parser.parse_args()
    share = 10 if arguments.quick else 1
    tally: dict[str, Counter[str]] = {}
    failures: list[str] = []

    def count(kind: str, what: object, outcome: str) -> None:
        word = next(known for known in OUTCOMES if outcome.startswith(known))
        tally.setdefault(kind, Counter())[word] += 1
        if word not in ("fine", "one line"):
            failures.append(f"{kind}: {what}: {outcome}")

    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(folder)
        for kind, words in command_lines(share):
            count(kind, words, str(worker.ask(words, LONGEST)))
        for seed in range(MUTATIONS // share // 100):
            answer = worker.ask((seed, 100), 4 * LONGEST)
            for done, outcome in answer if isinstance(answer, list) else [("a hundred", str(answer))]:
                count("bytes of a run", done, outcome)
        worker.stop()
    print(f"{'inputs':<16}{'tried':>7}" + "".join(f"{word:>14}" for word in OUTCOMES))
    total = Counter[str]()
    for kind, counts in tally.items():
        total += counts
        print(f"{kind:<16}{counts.total():>7}" + "".join(f"{counts[word]:>14}" for word in OUTCOMES))
    print(f"{'all':<16}{total.total():>7}" + "".join(f"{total[word]:>14}" for word in OUTCOMES))
    if arguments.failures:
        print("\n".join(line[:300] for line in failures))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
