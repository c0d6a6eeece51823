"""Recipes for tests: random walks whose every step is known, and some that go wrong."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
from pydantic import Field

from phasecast.core import Comparison, Measurement, Prediction, Status
from phasecast.core.problem import Problem
from phasecast.lab import Answer, Captioned, Chunk, Conclusion, Recipe, Spec, Table, run


class Walk(Spec):
    steps: int = Field(default=300, ge=1, description="how many steps")
    pause: float = Field(default=0.0, ge=0, description="seconds of sleep a step")
    refuse: bool = False
    ballast: int = Field(default=0, ge=0, description="numbers that make the state heavier")


def work(spec, state):
    done = 0 if state is None else int(state["done"])
    place = np.zeros(3) if state is None else state["place"]
    while done < spec.steps:
        rng = np.random.default_rng([spec.seed, done])
        place = place + rng.normal(size=3)
        time.sleep(spec.pause)
        done += 1
        rows = {"walk": {"place": place[None], "step": np.array([done])}}
        if done == 1:
            rows["cores"] = {"core": [[min(os.sched_getaffinity(0)), len(os.sched_getaffinity(0))]]}
        if done % 7 == 0:
            rows["sevenths"] = {"norm": np.array([np.linalg.norm(place)] * 2)}
        state = {"done": done, "place": place, "ballast": np.zeros(spec.ballast)}
        yield Chunk(state, rows, done, spec.steps, ("norm", float(np.linalg.norm(place))))


def layout(spec):
    return {
        "walk": Table(
            "time",
            {"place": ("axis",), "step": ()},
            {"axis": ["x", "y", "z"]},
            dtypes={"step": "int64"},
            rows_per_chunk=16,
        ),
        "sevenths": Table("time", {"norm": ()}, rows_per_chunk=5),
        "cores": Table("process", {"core": ("what",)}, dtypes={"core": "int64"}),
    }


def conclude(spec, results):
    place = results["walk/place"].values
    measured = Measurement(
        float(np.mean(np.diff(place, axis=0))) if len(place) > 1 else 0.0,
        float(1 / np.sqrt(3 * spec.steps)),
        Status.REFUSED if spec.refuse else Status.OK,
        reasons=["asked to refuse: do not ask"] if spec.refuse else [],
        name="mean step",
    )
    return Conclusion([Answer("mean-step", Comparison(Prediction(0.0), measured), "mean step")], "A walk was taken.")


def figures(spec, results):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 3))
    figure.add_subplot().plot(results["walk/place"].values)
    return {"walk": Captioned(figure, "A walk & its <axes>.")}


def _recipe(name, work=work, spec=Walk, version=1):
    return Recipe(
        name=f"walks:{name}",
        version=version,
        question="Where does a random walk go?",
        spec=spec,
        work=work,
        layout=layout,
        conclude=conclude,
        figures=figures,
    )


def _break(spec, state):
    yield next(work(spec, state))
    raise ZeroDivisionError("the walk fell into a hole")


def _die_once(spec, state):
    """Kill the own process half-way, unless a run before it already did: the marker file says so."""
    marker = os.environ["WALKS_MARKER"] + f"-{spec.seed}"
    for chunk in work(spec, state):
        if chunk.done == spec.steps // 2 and not os.path.exists(marker):  # noqa: PTH110
            open(marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        yield chunk


def _always_die(spec, state):
    for chunk in work(spec, state):
        if chunk.done == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        yield chunk


def _break_sometimes(spec, state):
    yield from _break(spec, state) if spec.seed % 2 else work(spec, state)


def _exit_sometimes(spec, state):
    yield next(work(spec, state))
    if spec.seed % 2:
        sys.exit(0)
    yield from work(spec, {"done": 1, "place": np.zeros(3)})


def _talk(spec, state):
    print("a user's own words")
    yield from work(spec, state)


def walk(spec: dict, store: Path, checkpoint_every: float) -> None:
    """A whole run, as the target of a process."""
    run("walks:WALK", spec, store=store, checkpoint_every=checkpoint_every, quiet=True)


def bowl() -> Problem:
    """A problem, for commands that take one."""
    return Problem(lambda w: w @ w, np.zeros(2))


WALK = _recipe("WALK")
SOME_HOLES = _recipe("SOME_HOLES", _break_sometimes)
SOME_EXITS = _recipe("SOME_EXITS", _exit_sometimes)
TALK = _recipe("TALK", _talk)
HOLE = _recipe("HOLE", _break)
DIE_ONCE = _recipe("DIE_ONCE", _die_once)
ALWAYS_DIE = _recipe("ALWAYS_DIE", _always_die)
MISNAMED = _recipe("WALK")
