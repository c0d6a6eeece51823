"""The local engine: a pool of processes, each with its own JAX and its own cores."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from phasecast.core.bounds import check_bounds
from phasecast.core.errors import BadInput
from phasecast.lab.engines import Outcome, RunTask, compute
from phasecast.lab.provenance import available_threads, pin_threads

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

TRIES = 3  # chosen: a process killed by chance survives the second try, one that lacks memory fails all


@dataclass(frozen=True)
class LocalEngine:
    """``workers`` processes with ``threads`` cores each; by default as many single-core ones as there are cores."""

    workers: int | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        if self.threads < 1 or (self.workers is not None and self.workers < 1):
            raise BadInput("an engine needs at least one worker and one thread", "use --workers ≥ 1 and --threads ≥ 1")
        check_bounds(workers=self.workers, threads=self.threads)

    def __call__(self, tasks: Sequence[RunTask]) -> Iterator[Outcome]:
        workers = self.workers or max(1, available_threads() // self.threads)
        waiting = list(tasks)
        suspects: list[RunTask] = []
        while waiting:
            lost, waiting = yield from self._pool(waiting, workers)
            suspects += lost
        # a dying process breaks its whole pool, so the task at fault can only be found by running one at a time
        for task in suspects:
            for _ in range(TRIES - 1):
                lost, _ = yield from self._pool([task], 1)
                if not lost:
                    break
            else:
                yield Outcome(task, None, f"its process died {TRIES} times; is there enough memory?")

    def _pool(
        self, tasks: Sequence[RunTask], workers: int
    ) -> Generator[Outcome, None, tuple[list[RunTask], list[RunTask]]]:
        """Compute tasks in one pool; return those lost with a dead process and those not begun by then."""
        context = multiprocessing.get_context("spawn")  # a forked JAX hangs
        places = context.Value("i", 0)
        queue, lost = iter(tasks), []
        running: dict[Future[Any], RunTask] = {}
        pool = ProcessPoolExecutor(min(workers, len(tasks)), context, _start, (places, self.threads))
        try:
            while True:
                if not lost:
                    for task in itertools.islice(queue, workers - len(running)):
                        running[pool.submit(compute, task)] = task
                if not running:
                    return lost, list(queue)
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    task = running.pop(future)
                    try:
                        yield Outcome(task, *future.result())
                    except BrokenProcessPool:
                        lost.append(task)
        except (KeyboardInterrupt, GeneratorExit):
            for child in multiprocessing.active_children():
                child.terminate()  # a run stops at its next chunk
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _start(places: Synchronized[int], threads: int) -> None:
    """Give a new process its own cores; the process that started it passes Ctrl-C on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)  # output of user code must not mix with the JSON of the command
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    with places.get_lock():
        place = places.value
        places.value += 1
    pin_threads(threads, first=place * threads)


def _follow(parent: int) -> None:
    """Stop, at the next chunk of a run, when the process that started this one is gone."""
    while os.getppid() == parent:
        time.sleep(1)
    while True:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
