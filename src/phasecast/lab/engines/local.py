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
from typing import Any

from phasecast.core.errors import BadInput
from phasecast.lab.engines import Outcome, Task, compute
from phasecast.lab.provenance import available_threads, pin_threads

TRIES = 3


@dataclass(frozen=True)
class LocalEngine:
    """``workers`` processes with ``threads`` cores each; by default as many single-core ones as there are cores."""

    workers: int | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        if self.threads < 1 or (self.workers is not None and self.workers < 1):
            raise BadInput("an engine needs a worker with a thread", "use --workers ≥ 1 and --threads ≥ 1")

    def __call__(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        workers = self.workers or max(1, available_threads() // self.threads)
        waiting = list(tasks)
        suspects: list[Task] = []
        while waiting:
            lost, waiting = yield from self._pool(waiting, workers)
            suspects += lost
        # a process that dies takes the pool with it, so who was to blame shows only one task at a time
        for task in suspects:
            for _ in range(TRIES - 1):
                lost, _ = yield from self._pool([task], 1)
                if not lost:
                    break
            else:
                yield Outcome(task, None, f"its process died {TRIES} times; is there enough memory?")

    def _pool(self, tasks: Sequence[Task], workers: int) -> Generator[Outcome, None, tuple[list[Task], list[Task]]]:
        """Compute tasks in one pool; return those lost with a dead process and those not begun by then."""
        context = multiprocessing.get_context("spawn")  # a forked JAX hangs
        places = context.Value("i", 0)
        queue, lost = iter(tasks), []
        running: dict[Future[Any], Task] = {}
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
                child.terminate()  # a run takes it as a wish to stop at the next chunk
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _start(places: Any, threads: int) -> None:
    """Give a new process its own cores; Ctrl-C reaches it through the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)  # what a user's code prints must not stand in the JSON of the command
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    with places.get_lock():
        place = places.value
        places.value += 1
    pin_threads(threads, first=place * threads)


def _follow(parent: int) -> None:
    """Stop, at the next chunk if a run is going on, when the process that started this one is gone."""
    while os.getppid() == parent:
        time.sleep(1)
    while True:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
