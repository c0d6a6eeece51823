"""Many processes at one store, killed at random: is anything lost, computed twice or torn? Shared by
``benchmarks/soak.py`` and the slow tests.

Workers start, resume, list, check, report and remove runs. What they were told is written to a journal outside the
store, one line per fact in a single write, which a SIGKILL cannot tear. At the end every unfinished run is resumed and
the journal is compared with the store.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import resource
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

SEEDS = 12
SPEC: dict[str, Any] = {"steps": 60, "pause": 0.002}
ACTIONS = {"start": 30, "resume": 15, "list": 20, "check": 12, "report": 8, "remove": 15}
"""How often each is done; removals keep the others busy."""
NEAR = 5.0  # seconds around a removal in which others may find half of a run


@dataclass
class Soak:
    """What was done and what was found; every list of findings should be empty."""

    actions: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    finished: int = 0
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    memory: tuple[float, float] = (0.0, 0.0)
    descriptors: tuple[int, int] = (0, 0)

    def findings(self) -> list[str]:
        return [*self.lost, *self.twice, *self.torn, *self.odd]

    def __str__(self) -> str:
        done = ", ".join(f"{count} {name}" for name, count in sorted(self.actions.items()))
        counts = f"{len(self.lost)} lost, {len(self.twice)} computed twice, {len(self.torn)} torn, {len(self.odd)} odd"
        return (
            f"{sum(self.actions.values())} actions ({done}), {self.kills} SIGKILLs, {self.finished} runs finished\n"
            f"runs: {counts}\n"
            f"the process that was never killed, after a third and at the end: {self.memory[0]:.0f} and "
            f"{self.memory[1]:.0f} MiB, {self.descriptors[0]} and {self.descriptors[1]} descriptors"
        )


def soak(folder: Path, seconds: float, *, processes: int = 4, seed: int = 0) -> Soak:
    """Let ``processes`` workers do what they like in one store for so many seconds, and kill one now and then."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["walks", "xarray", "zarr", "phasecast.report", "matplotlib.figure"])
    journal, store = folder / "journal.jsonl", folder / "runs"
    draw = random.Random(seed)
    number = 0

    def begin(survivor: bool) -> BaseProcess:
        nonlocal number
        number += 1
        process = context.Process(target=_work, args=(store, journal, 1000 * seed + number, survivor))
        process.start()
        return process

    found = Soak()
    workers = [begin(survivor=place == 0) for place in range(processes)]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(draw.uniform(0.1, 1.5))
        place = draw.randrange(1, processes)  # the first one lives, to show whether memory grows
        if not workers[place].is_alive():
            found.odd.append(f"a worker ended with exit code {workers[place].exitcode}")
        workers[place].kill()
        workers[place].join()
        found.kills += 1
        workers[place] = begin(survivor=False)
    (folder / "stop").touch()
    for worker in workers:
        worker.join(60)
        worker.kill()
    return _judged(found, store, [json.loads(line) for line in journal.read_text().splitlines()])


def _work(store: Path, journal: Path, seed: int, survivor: bool) -> None:
    """One worker: actions at random until the file ``stop`` appears."""
    from phasecast.core.errors import BadInput, PhasecastError

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    draw = random.Random(seed)
    handle = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(event: str, **facts: Any) -> None:
        os.write(handle, (json.dumps({"event": event, "at": time.time(), **facts}) + "\n").encode())

    while not journal.with_name("stop").exists():
        action = draw.choices(list(ACTIONS), list(ACTIONS.values()))[0]
        which = draw.randrange(SEEDS)
        try:
            _act(action, which, store, note)
            note("done", action=action)
        except BadInput as error:
            note("refused", action=action, words=str(error))
        except (PhasecastError, OSError, Exception) as error:
            note("odd", action=action, words=f"{action}: {type(error).__name__}: {error}")
        if survivor:
            used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            note("size", memory=used, descriptors=len(os.listdir("/proc/self/fd")))  # noqa: PTH208
        time.sleep(draw.uniform(0, 0.05))


def _act(action: str, which: int, store: Path, note: Any) -> None:
    from phasecast.lab import Store, load, resume, run

    if action == "start":
        done = run("walks:WALK", {**SPEC, "seed": which}, store=store, checkpoint_every=0.02, quiet=True)
        note("finished", run=done.id, seed=which)
        return
    statuses = list(Store(store).statuses())
    for status in statuses:
        if status["status"] == "damaged":
            note("damaged", run=status["run"], words=str(status.get("error")))
    if action == "list" or not statuses:
        return
    chosen = statuses[which % len(statuses)]
    identity = str(chosen["run"])
    if action == "resume":
        if chosen["status"] == "interrupted":
            resume(identity, store=store, checkpoint_every=0.02, quiet=True)
    elif action == "check":
        load(identity, store=store).check()
    elif action == "report":
        if chosen["status"] == "ok":
            from phasecast.report import write

            write(load(identity, store=store, allow_code=True))
    elif action == "remove":
        note("removing", run=identity)
        Store(store).remove(identity)
        note("removed", run=identity)


def _judged(found: Soak, store: Path, journal: list[dict[str, Any]]) -> Soak:
    """Compare the store with the journal."""
    from phasecast.core.errors import BadInput
    from phasecast.lab import Store, load, resume

    removals: dict[str, list[float]] = {}
    for line in journal:
        if line["event"] in ("removing", "removed"):
            removals.setdefault(line["run"], []).append(line["at"])
    for line in journal:
        match line["event"]:
            case "done":
                found.actions[line["action"]] += 1
            case "refused" | "damaged":
                found.actions["refused" if line["event"] == "refused" else "seen damaged"] += 1
                words, close = line["words"], False
                for run, times in removals.items():
                    close |= run in words and any(abs(line["at"] - at) < NEAR for at in times)
                usual = ("is being computed by another process", "finish it with", "there is no run")
                if not close and not any(word in words for word in usual):
                    found.odd.append(words)
            case "odd":
                close = any(abs(line["at"] - at) < NEAR for times in removals.values() for at in times)
                (found.odd if not close or "Errno" not in line["words"] else []).append(line["words"])
            case _:
                pass
    sizes = [line for line in journal if line["event"] == "size"]
    if sizes:
        early, late = sizes[len(sizes) // 3], sizes[-1]
        found.memory = early["memory"], late["memory"]
        found.descriptors = early["descriptors"], late["descriptors"]
    for status in list(Store(store).statuses()):
        if status["status"] in ("interrupted", "failed"):
            with contextlib.suppress(BadInput):
                resume(status["run"], store=store, quiet=True)
    for line in journal:
        if line["event"] != "finished":
            continue
        found.finished += 1
        later = [at for at in removals.get(line["run"], []) if at > line["at"] - NEAR]
        if not later and not (store / line["run"] / "status.json").exists():
            found.lost.append(f"{line['run']} was finished, never removed, and is gone")
    for status in Store(store).statuses():
        found.torn += _torn(store, status)
        events = [event["event"] for event in load(status["run"], store=store).folder.events()]
        if events.count("finished") > 1:
            found.twice.append(f"{status['run']} was finished {events.count('finished')} times")
    found.torn += [f"{path} was left behind" for path in store.glob("*/**/*.partial")]
    return found


def _torn(store: Path, status: dict[str, Any]) -> list[str]:
    """What is wrong with a run at the end, when it should be finished, sound, and hold the numbers of its seed."""
    from phasecast.core.errors import BadInput
    from phasecast.lab import load

    run = status["run"]
    try:
        stored = load(run, store=store)
        if stored.check() != "sound":
            return [f"{run} is {status['status']}: {status.get('error')}"]
        seed = stored.folder.spec()["spec"]["seed"]
        steps = [np.random.default_rng([seed, number]).normal(size=3) for number in range(SPEC["steps"])]
        walked, place = [], np.zeros(3)
        for step in steps:
            place = place + step
            walked.append(place)
        same = np.array_equal(np.asarray(stored.results()["walk/place"]), np.array(walked))
        return [] if same else [f"{run} holds other numbers than its seed gives"]
    except BadInput as error:
        return [str(error)]
