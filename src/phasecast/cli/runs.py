"""``phasecast runs``, ``sweeps`` and ``report``: what is in the store; show, resume, remove, export, write its page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from phasecast.cli.options import Computing, Stored, Words
from phasecast.cli.output import clip, emit, interruption_as_json, note, table
from phasecast.cli.run import answer_lines, emit_run, field_words, pin_threads, swept_table

if TYPE_CHECKING:
    from phasecast.lab import Store
    from phasecast.lab.overview.listed_runs import ListedRun

app = App(name="runs", help_format="plaintext", version_flags=[])
sweeps_app = App(name="sweeps", help_format="plaintext", version_flags=[])

Id = Annotated[str, Parameter(help="the id of a run or the beginning of it")]
SweepId = Annotated[str, Parameter(help="the id of a sweep or the beginning of it")]
SWEEP = "sweep-"
"""How the ids of sweeps begin."""


@Parameter(name="*")
@dataclass(frozen=True)
class Chosen:
    """Which runs to list."""

    recipe: Annotated[str | None, Parameter(help="runs of this recipe")] = None
    status: Annotated[Words, Parameter(help="running, interrupted, failed, ok, warning, refused or damaged; several "
                                            "words are alternatives")] = None  # fmt: skip
    since: Annotated[str | None, Parameter(help="started within 90m, 6h, 2d or 3w, or since a date")] = None
    last: Annotated[int | None, Parameter(help="the newest so many")] = None
    where: Annotated[Words, Parameter(help="key=value …, runs with these values in their spec")] = None


@app.default
def runs(run: Annotated[str | None, Parameter(help="the id of a run or a sweep")] = None, /, *,
         chosen: Chosen = Chosen(), options: Stored = Stored()) -> int:  # fmt: skip
    """List the runs and sweeps of the store, or show one."""
    return ls(chosen=chosen, options=options) if run is None else show(run, options=options)


@app.command
def ls(*, chosen: Chosen = Chosen(), options: Stored = Stored()) -> int:
    """List the runs of the store, oldest first: the fields in which they differ, and the key answer of each."""
    from phasecast.lab.overview.listed_runs import RunFilter, list_runs
    from phasecast.lab.store import Store
    from phasecast.lab.sweeps import list_sweeps

    words = RunFilter.parse(chosen.recipe, chosen.status or (), chosen.since, chosen.last, chosen.where or ())
    store = Store(options.store)
    listed = list_runs(store)
    rows = words.keep(listed)
    sweeps = list_sweeps(store, listed) if chosen == Chosen() else []
    lines = [_runs_table(rows)] if rows else [_none_listed(store, len(listed))]
    if sweeps:
        lines += ["", _sweeps_table(sweeps)]
    emit({"store": str(store.path), "runs": [row.plain() for row in rows], "sweeps": sweeps}, "\n".join(lines), options)
    return 0


@sweeps_app.default
def sweeps(sweep: Annotated[str | None, Parameter(help="the id of a sweep")] = None, /, *,
           options: Stored = Stored()) -> int:  # fmt: skip
    """List the sweeps of the store, or show one."""
    return list_all(options=options) if sweep is None else show_sweep(sweep, options=options)


@sweeps_app.command(name="ls")
def list_all(*, options: Stored = Stored()) -> int:
    """List the sweeps of the store with the values that they vary."""
    from phasecast.lab.store import Store
    from phasecast.lab.sweeps import list_sweeps

    store = Store(options.store)
    listed = list_sweeps(store)
    text = _sweeps_table(listed) if listed else f"no sweeps in {store.path}"
    emit({"store": str(store.path), "sweeps": listed}, text, options)
    return 0


@sweeps_app.command(name="show")
def show_sweep(sweep: SweepId, /, *, options: Stored = Stored()) -> int:
    """Show one sweep: the varied fields, the status and the key answer of each of its runs."""
    from phasecast.lab.store import Store

    return _show_sweep(sweep, Store(options.store), options)


@sweeps_app.command(name="rm")
def remove(sweep: Annotated[str, Parameter(help="the ids of sweeps")], /, *more: str,
           options: Stored = Stored()) -> int:  # fmt: skip
    """Remove the record and the page of sweeps; their runs stay."""
    from phasecast.lab.store import Store
    from phasecast.lab.sweeps import find_sweep, remove_sweep

    store = Store(options.store)
    ids = [find_sweep(text, store) for text in (sweep, *more)]
    for one in ids:
        remove_sweep(one, store)
    emit({"removed": ids}, "\n".join(f"removed {one}" for one in ids), options)
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
    lines += ["spec"] + [f"  {clip(name, 80)} = {clip(str(value), 1000)}" for name, value in request["spec"].items()]
    lines += ["", "provenance"] + [f"  {name}: {value}" for name, value in status["provenance"].items()]
    lines += [
        f"  wall {status['wall_seconds']:.1f} s, CPU {status['cpu_seconds']:.1f} s, attempts {status['attempts']}"
    ]
    if status.get("error"):
        lines += ["", f"failed with {status['error']}"]
    if status.get("summary"):
        from phasecast.lab.overview.stored_answers import stored_rows

        summary = status["summary"]
        lines += ["", *answer_lines(stored_rows(summary))]
        if summary.get("numbers"):
            lines += [
                "",
                "numbers",
                *(f"  {clip(name, 200)}: {_number(value)}" for name, value in summary["numbers"].items()),
            ]
        lines += ["", summary["sentence"]]
    emit({**loaded.plain(), "spec": request["spec"], "state": status}, "\n".join(lines), options)
    return 0


@app.command
def check(run: Annotated[str | None, Parameter(help="the id of a run or the beginning of it")] = None, /, *,
          all_runs: Annotated[bool, Parameter(name="--all", negative=(), help="check every run of the store")] = False,
          options: Stored = Stored()) -> int:  # fmt: skip
    """Read every byte of a finished run, or of all, and compare with the checksums; exit code 2 if one is damaged."""
    from phasecast.core.errors import BadInput
    from phasecast.lab import Run, Store
    from phasecast.progress import working

    if (run is None) == (not all_runs):
        raise BadInput("`runs check` takes one run or --all", "give the id of a run, or --all")
    store = Store(options.store)
    ids = [status["run"] for status in store.statuses()] if run is None else [store.find(run)]
    rows = []
    with working("runs check", unit="runs") as progress:
        for one in ids:
            try:
                rows.append({"run": one, "state": Run(one, store).check(), "damage": None})
            except BadInput as error:
                rows.append({"run": one, "state": "damaged", "damage": str(error)})
            progress.update(len(rows), len(ids))
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
        the id of a run or a sweep, or the beginning of it; of an unfinished run the page shows what is there so far
    allow_code
        import the recipe that the run names if it is not one of ours; only for stores that you trust
    """
    from phasecast.lab import Store, load
    from phasecast.progress import working
    from phasecast.report import write, write_sweep

    store = Store(options.store)
    if run.startswith(SWEEP):
        with working(f"page of {run}"):
            path = write_sweep(run, store, allow_code=allow_code)
    else:
        loaded = load(run, store=store, allow_code=allow_code)
        with working(f"page of {loaded.id}"):
            path = write(loaded)
        if not allow_code and ":" in loaded.folder.spec()["recipe"]:
            note(f"{loaded.id}: the page shows what is stored; --allow-code imports its recipe and draws its figures")
    emit({"report": str(path)}, str(path), options)
    return 0


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"


def _runs_table(rows: list[ListedRun]) -> str:
    return table(
        ("run", "age", "recipe", "status", "fields that differ", "key answer"),
        [
            (row.run, row.age(), clip(row.recipe, 32), _progress(row), field_words(row.differing), clip(row.key, 48))
            for row in rows
        ],
    )


def _progress(row: ListedRun) -> str:
    return row.status if row.key else f"{row.status} {row.done}/{row.total or '?'}"


def _none_listed(store: Store, known: int) -> str:
    return f"none of the {known} runs in {store.path} is like that" if known else f"no runs in {store.path}"


def _sweeps_table(sweeps: list[dict[str, Any]]) -> str:
    return table(
        ("sweep", "recipe", "finished", "varied"),
        [(s["sweep"], clip(s["recipe"], 32), f"{s['finished']}/{s['runs']}", _axes(s["values"])) for s in sweeps],
    )


def _axes(values: dict[str, list[Any]]) -> str:
    from phasecast.lab.overview.listed_runs import value_in_words

    return clip(" × ".join(f"{name}={','.join(map(value_in_words, each))}" for name, each in values.items()), 80)


def _show_sweep(identity: str, store: Store, options: Stored) -> int:
    from phasecast.lab.sweeps import recall

    facts, members = recall(identity, store)
    rows = []
    for run in members:
        status = run.folder.status() if run.exists else {"status": "not started"}
        spec = run.folder.read_spec()["spec"] if run.exists else {}
        rows.append({"run": run.id, "status": status["status"], "key": _key(status),
                     "varied": {name: spec.get(name) for name in facts["varied"]}})  # fmt: skip
    text = [f"{facts['sweep']}: {facts['recipe']} over {', '.join(facts['varied'])}", "", swept_table(rows)]
    emit({"sweep": facts["sweep"], "recipe": facts["recipe"], "varied": facts["varied"], "runs": rows},
         "\n".join(text), options)  # fmt: skip
    return 0


def _key(status: dict[str, Any]) -> str:
    from phasecast.lab.overview.stored_answers import key_number

    return key_number(status.get("summary") or {})


def studio(
    *,
    port: Annotated[
        int | None, Parameter(help="port on 127.0.0.1; defaults to the first free one from 8501 on")
    ] = None,
    allow_code: Annotated[
        bool, Parameter(negative=(), help="allow pages to import your own code; only for stores that you trust")
    ] = False,
    options: Stored = Stored(),
) -> int:
    from phasecast.lab.store import Store
    from phasecast.studio.server import ADDRESS, check_installed, free_port, serve

    check_installed()
    store = Store(options.store)
    chosen = free_port(port)
    address = f"http://{ADDRESS}:{chosen}"
    text = f"studio: {address}\n  runs in {store.path}\n  Ctrl-C stops the studio; runs that it started go on"
    emit({"studio": address, "store": str(store.path)}, text, options)
    return serve(store.path, chosen, allow_code=allow_code)
