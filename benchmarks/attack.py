"""What becomes of bad input and damaged stores? One table of inputs by class and outcome.

Claimed: none is unexpected, hangs, kills the process, or is a wrong answer that is ok. Run
``python benchmarks/attack.py``; ``--quick`` tries a tenth, names of classes try those only. What is not as claimed is
listed below the table. The inputs are in ``tests/bad_inputs.py``, the mutations in ``tests/attacks.py``. Each input is
tried in a process that many share, with a bound on its memory. A process that dies is counted to the input it died of,
one that takes too long is interrupted: ``stopped`` if it had shown progress and ended at Ctrl-C, ``hang`` otherwise.
The next input gets a new process.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

TESTS = str(Path(__file__).parents[1] / "tests")
sys.path.insert(0, TESTS)

OUTCOMES = ("fine", "one line", "stopped", "unexpected", "hang", "killed", "wrong and ok")
BAD = OUTCOMES[3:]
LONGEST = 30.0  # seconds of CPU; an answer or a refusal takes less than 5, the rest is imports and compilation
PATIENCE = 10.0  # seconds of CPU in which Ctrl-C must end it
STARVED = 1200.0  # seconds of the clock: a process that waits without computing hangs too
MEMORY = 12 * 2**30  # bytes of address space of a process, so that what is too large fails here and not elsewhere
MUTATIONS = 10_000
AT_ONCE = 50  # mutations per question; a process that dies of one costs so many
BYTES = "bytes of a run"
MODULE = """import numpy as np
from phasecast import Problem
def bowl(): return Problem(lambda w: w @ w, np.zeros(2))
"""


def serve(pipe: Connection, folder: str) -> None:
    """Answer one question after another: a command line, a question of ``bad_inputs``, or a number of mutations."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # processes in the background are started without it
    os.chdir(folder)
    os.environ["PHASECAST_STORE"] = str(Path(folder) / "runs")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [TESTS, os.environ.get("PYTHONPATH")]))
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(folder) / "compiled")  # the next process need not do it again
    sys.path.insert(0, folder)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import attacks
    import bad_inputs

    Path("attacked.py").write_text(MODULE)
    Path("log.csv").write_text(bad_inputs.LOG)
    while True:
        question = pipe.recv()
        try:
            if isinstance(question, list):
                pipe.send(bad_inputs.obey(question))
            elif question[0] == BYTES:
                copy = bad_inputs.fresh_copy(Path(folder))
                words = {"true": "fine", "refused": "one line", "wrong": "wrong and ok"}
                pipe.send(
                    [
                        (done, words.get(outcome, f"unexpected {outcome}"))
                        for done, outcome in attacks.mutated(copy, question[2], question[1])
                    ]
                )
            else:
                pipe.send(bad_inputs.ask(question, Path(folder)))
        except KeyboardInterrupt:
            pipe.send("stopped")


class Worker:
    """A process that answers; one that dies or does not answer is replaced."""

    def __init__(self, folder: str):
        self.folder = folder
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, self.folder), daemon=False)
        self.process.start()
        theirs.close()

    def ask(self, question: object, seconds: float) -> object:
        """The answer, or what became of the process."""
        try:
            self.pipe.send(question)
            if self._answers(seconds):
                return self.pipe.recv()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid or 0, signal.SIGINT)
            if self._answers(PATIENCE):
                return self.pipe.recv()
            self._replace()
        except (EOFError, ConnectionError):
            self.process.join(10)
            code = self.process.exitcode
            self._replace()
            return f"killed ({signal.Signals(-code).name if code is not None and code < 0 else f'exit code {code}'})"
        return "hang"

    def _answers(self, seconds: float) -> bool:
        began, cpu = time.monotonic(), self._cpu()
        while not self.pipe.poll(0.2):  # the end of the process is something to read too
            if self._cpu() - cpu > seconds or time.monotonic() - began > STARVED:
                return False
        return True

    def _replace(self) -> None:
        self.stop()
        self._start()

    def stop(self) -> None:
        self.process.kill()
        self.process.join()

    def _cpu(self) -> float:
        with contextlib.suppress(OSError, IndexError):
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return 0.0


class Tally:
    """Counts by class, and what was not as claimed."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.failures: list[str] = []

    def add(self, kind: str, what: object, outcome: str) -> None:
        word = next((known for known in OUTCOMES if outcome.startswith(known)), "unexpected")
        self.counts.setdefault(kind, Counter())[word] += 1
        if word in BAD:
            self.failures.append(f"{kind}: {what!r:.300}: {outcome[:300]}")
            print(self.failures[-1], file=sys.stderr, flush=True)

    def __str__(self) -> str:
        rows = [*self.counts.items(), ("all", sum(self.counts.values(), Counter[str]()))]
        lines = [f"{'inputs':<16}{'tried':>7}" + "".join(f"{word:>14}" for word in OUTCOMES)]
        lines += [
            f"{kind:<16}{counts.total():>7}" + "".join(f"{counts[word]:>14}" for word in OUTCOMES)
            for kind, counts in rows
        ]
        return "\n".join([*lines, *self.failures])


def attack(classes: set[str], share: int) -> Tally:
    """Try every share-th input of these classes, all if none are named, and as many mutations."""
    import bad_inputs

    tally = Tally()
    chosen = [(kind, question) for kind, question in bad_inputs.inputs() if not classes or kind in classes]
    random.Random(0).shuffle(chosen)  # so that a share is one of everything
    chosen = sorted(chosen[: -(-len(chosen) // share)], key=lambda pair: pair[0])
    rounds = range(MUTATIONS // share // AT_ONCE) if not classes or BYTES in classes else range(0)
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(folder)
        try:
            for number, (kind, question) in enumerate(chosen):
                tally.add(kind, question, str(worker.ask(question, LONGEST)))
                if number % 100 == 99:
                    print(f"{number + 1} of {len(chosen)} inputs", file=sys.stderr, flush=True)
            for seed in rounds:
                answer = worker.ask((BYTES, seed, AT_ONCE), LONGEST)
                for done, outcome in answer if isinstance(answer, list) else [(f"seed {seed}", str(answer))] * AT_ONCE:
                    tally.add(BYTES, done, outcome)
                if seed % 20 == 19:
                    print(f"{(seed + 1) * AT_ONCE} of {len(rounds) * AT_ONCE} mutations", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
        finally:
            worker.stop()
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("classes", nargs="*", help="classes of inputs; all by default")
    parser.add_argument("--share", type=int, default=1, help="try every so many-th input")
    parser.add_argument("--quick", action="store_const", const=10, dest="share", help="a tenth of everything")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tally = attack(set(arguments.classes), arguments.share)
    print(tally)
    sys.exit(bool(tally.failures))


if __name__ == "__main__":
    main()
