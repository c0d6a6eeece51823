"""``phasecast runs`` and ``phasecast report``: what is in the store; show, resume, remove, export, write its page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from phasecast.cli.options import Computing, Stored
from phasecast.cli.output import emit, interruption_as_json, table
from phasecast.cli.run import emit_run, pin_threads

if TYPE_CHECKING:
    from phasecast.lab import Store

app = App(name="runs", help_format="plaintext", version_flags=[])

Id = Annotated[str, Parameter(help="the id of a run or the beginning of it")]
SWEEP = "sweep-"
"""How the ids of sweeps begin."""


@app.default
def runs(run: Annotated[str | None, Parameter(help="the id of a run or a sweep")] = None, /, *,
         options: Stored = Stored()) -> int:  # fmt: skip
    """List the runs and sweeps of the store, or show one."""
    return ls(options=options) if run is None else show(run, options=options)


@app.command
def ls(*, options: Stored = Stored()) -> int:
    """List the runs of the store, oldest first, and its sweeps."""
    from phasecast.lab.store import Store
    from phasecast.lab.sweeps import list_sweeps

    store = Store(options.store)
    keys = ("run", "recipe", "status", "done", "total", "created", "updated")
    rows = [
        {
            **{key: status.get(key) for key in keys},
            "sentence": (status["summary"] or {}).get("sentence", status.get("error") or ""),
        }
        for status in store.statuses()
    ]
    sweeps = list_sweeps(store)
    lines = [_runs_table(rows)] if rows else [f"no runs in {store.path}"]
    if sweeps:
        lines += ["", _sweeps_table(sweeps)]
    emit({"store": str(store.path), "runs": rows, "sweeps": sweeps}, "\n".join(lines), options)
    return 0


@app.command
def show(run: Annotated[str, Parameter(help="the id of a run or a sweep")], /, *, options: Stored = Stored()) -> int:
    """Show one run: its spec, what it concluded and its provenance; or one sweep with its runs."""
    from phasecast.lab import Store, load

    if run.startswith(SWEEP):
        return _show_sweep(run, Store(options.store), options)
    loaded = load(run, store=options.store)
    request, status = loaded.folder.spec(), loaded.folder.status()
    lines = [f"{loaded.id}: {status['status']}, {status['done']} of {status['total'] or '?'}", f"  {loaded.path}", ""]
    lines += ["spec"] + [f"  {name} = {value}" for name, value in request["spec"].items()]
    lines += ["", "provenance"] + [f"  {name}: {value}" for name, value in status["provenance"].items()]
    lines += [
        f"  wall {status['wall_seconds']:.1f} s, CPU {status['cpu_seconds']:.1f} s, attempts {status['attempts']}"
    ]
    if status.get("error"):
        lines += ["", f"failed with {status['error']}"]
    if status.get("summary"):
        lines += ["", status["summary"]["sentence"]]
    emit({**loaded.plain(), "spec": request["spec"], "state": status}, "\n".join(lines), options)
    return 0


@app.command
def check(run: Annotated[str | None, Parameter(help="the id of a run or the beginning of it")] = None, /, *,
          all_runs: Annotated[bool, Parameter(name="--all", negative=(), help="check every run of the store")] = False,
          options: Stored = Stored()) -> int:  # fmt: skip
    """Read every byte of a finished run, or of all, and compare with the checksums; exit code 2 if one is damaged."""
    from phasecast.core.errors import BadInput
    from phasecast.lab import Run, Store

    if (run is None) == (not all_runs):
        raise BadInput("`runs check` takes one run or --all", "give the id of a run, or --all")
    store = Store(options.store)
    ids = [status["run"] for status in store.statuses()] if run is None else [store.find(run)]
    rows = []
    for one in ids:
        try:
            rows.append({"run": one, "state": Run(one, store).check(), "damage": None})
        except BadInput as error:
            rows.append({"run": one, "state": "damaged", "damage": str(error)})
    damaged = sum(row["state"] == "damaged" for row in rows)
    lines = [table(("run", "state"), [(row["run"], row["state"]) for row in rows])] if rows else []
    lines += [row["damage"] for row in rows if row["damage"]]
    lines += [f"{len(rows)} runs, {damaged} damaged"]
    emit({"runs": rows, "damaged": damaged}, "\n".join(lines), options)
    return 2 if damaged else 0


@app.command
def resume(run: Id, /, *, options: Computing = Computing()) -> int:
    """Continue a run that was interrupted, killed or failed."""
    pin_threads(options.threads)
    from phasecast.lab import resume

    with interruption_as_json(options):
        finished = resume(run, store=options.store, checkpoint_every=options.checkpoint_every)
    return emit_run(finished, options)


@app.command
def rm(run: Annotated[str, Parameter(help="the ids of runs or sweeps")], /, *more: str,
       options: Stored = Stored()) -> int:  # fmt: skip
    """Remove runs that no process is computing. Removing a sweep removes its page; its runs stay."""
    from phasecast.lab import Store
    from phasecast.lab.sweeps import find_sweep, remove_sweep

    store = Store(options.store)
    ids = [find_sweep(text, store) if text.startswith(SWEEP) else store.find(text) for text in (run, *more)]
    for one in ids:
        if one.startswith(SWEEP):
            remove_sweep(one, store)
        else:
            store.remove(one)
    emit({"removed": ids}, "\n".join(f"removed {one}" for one in ids), options)
    return 0


@app.command
def export(run: Id, /, *, to: Annotated[
        Path, Parameter(help="a .nc file (NetCDF, one group per table), a .csv file (one file per table) or a "
                             ".safetensors file (one file per checkpoint)")],
        options: Stored = Stored()) -> int:  # fmt: skip
    """Export the arrays of a finished run."""
    from phasecast.lab import load
    from phasecast.lab.export import export

    written = export(load(run, store=options.store), to)
    emit({"written": [str(path) for path in written]}, "\n".join(map(str, written)), options)
    return 0


def report(run: str, /, *, allow_code: Annotated[bool, Parameter(negative=())] = False,
           options: Stored = Stored()) -> int:  # fmt: skip
    """Write the page of a run or a sweep.

    Parameters
    ----------
    run
        the id of a run or a sweep, or the beginning of it
    allow_code
        import the recipe that the run names if it is not one of ours; only for stores that you trust
    """
    from phasecast.lab import Store, load
    from phasecast.report import write, write_sweep

    store = Store(options.store)
    if run.startswith(SWEEP):
        path = write_sweep(run, store, allow_code=allow_code)
    else:
        path = write(load(run, store=store, allow_code=allow_code))
    emit({"report": str(path)}, str(path), options)
    return 0


def _runs_table(rows: list[dict[str, Any]]) -> str:
    return table(
        ("run", "status", "done", "updated (UTC)", "conclusion"),
        [
            (row["run"], row["status"], f"{row['done']}/{row['total'] or '?'}", row["updated"][:19], row["sentence"])
            for row in rows
        ],
    )


def _sweeps_table(sweeps: list[dict[str, Any]]) -> str:
    return table(
        ("sweep", "recipe", "finished", "varied"),
        [(s["sweep"], s["recipe"], f"{s['finished']}/{s['runs']}", ", ".join(s["varied"])) for s in sweeps],
    )


def _show_sweep(identity: str, store: Store, options: Stored) -> int:
    from phasecast.lab.sweeps import recall

    facts, members = recall(identity, store)
    rows = [{"run": run.id, "status": run.status if run.exists else "not started"} for run in members]
    text = [f"{facts['sweep']}: {facts['recipe']} over {', '.join(facts['varied'])}", ""]
    text += [table(("run", "status"), [(row["run"], row["status"]) for row in rows])]
    emit({"sweep": facts["sweep"], "recipe": facts["recipe"], "varied": facts["varied"], "runs": rows},
         "\n".join(text), options)  # fmt: skip
    return 0
