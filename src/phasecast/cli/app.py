"""The commands, each a thin wrapper over one library call."""

from __future__ import annotations

import contextlib
import json as jsonlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from phasecast.cli.coefficient import build_coefficient_app
from phasecast.cli.curve import curve
from phasecast.cli.llc import llc
from phasecast.cli.rlct import rlct
from phasecast.cli.threshold import threshold


@Parameter(name="*")
@dataclass(frozen=True)
class Common:
    """What every command takes."""

    json: Annotated[bool, Parameter(negative=(), help="one JSON object on stdout and nothing else there")] = False
    debug: Annotated[bool, Parameter(negative=(), help="show tracebacks")] = False


@Parameter(name="*")
@dataclass(frozen=True)
class Stored(Common):
    """What every command takes that works with runs."""

    store: Annotated[Path | None, Parameter(help="the folder of runs")] = None


@Parameter(name="*")
@dataclass(frozen=True)
class Computing(Stored):
    """What every command takes that computes runs."""

    checkpoint_every: Annotated[
        float | None,
        Parameter(help="seconds between checkpoints; by default as often as they cost under 1% of the time"),
    ] = None
    threads: Annotated[int | None, Parameter(help="cores for a run")] = None


Words = Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())]


def build_app(meanings: Mapping[str, str]) -> App:
    """The command line as a cyclopts application; ``meanings`` has a line for each command."""
    app = App(name="phasecast", help_format="plaintext", version_flags=[], suppress_keyboard_interrupt=False)
    for command in (demo, llc, rlct, curve, threshold, run, sweep, report):
        app.command(command, help=meanings[command.__name__])
    for name, commands in (
        (
            "runs",
            {"ls": runs_ls, "show": runs_show, "resume": runs_resume, "rm": runs_rm, "export": runs_export},
        ),
        ("recipes", {"ls": recipes_ls, "show": recipes_show}),
        ("claims", {"ls": claims_ls, "show": claims_show, "verify": claims_verify}),
    ):
        group = App(name=name, help=meanings[name], help_format="plaintext", version_flags=[])
        for word, command in commands.items():
            group.command(command, name=word)
        group.default(commands["ls"])
        app.command(group)
    app.command(build_coefficient_app(meanings["coefficient"]))
    return app


def demo(*, common: Stored = Stored()) -> int:
    from phasecast.demonstration import demo as show
    from phasecast.lab import Store, load

    with _interruption_as_json(common):
        path = show(store=common.store)
    _print({"report": str(path)}, f"report: {path}", common)
    return _exit_code(load(path.parent.name, store=Store.of(common.store)).status)


def run(
    recipe: str,
    /,
    *,
    settings: Annotated[Words, Parameter(name="--set", help="key=value …")] = None,
    common: Computing = Computing(),
) -> int:
    """Run a recipe.

    Parameters
    ----------
    recipe
        a name from `phasecast recipes`, package.module:RECIPE, or a TOML file with recipe = "…" and [set]
    """
    _pin(common.threads)
    from phasecast.core.errors import BadInput
    from phasecast.lab import run as compute

    planned = _planned(recipe, settings)
    if len(planned.specs) != 1:
        raise BadInput(f"{recipe} describes {len(planned.specs)} runs", "use `phasecast sweep`")
    with _interruption_as_json(common):
        found = compute(planned.recipe, planned.specs[0], store=common.store, checkpoint_every=common.checkpoint_every)
    return _show_run(found, common)


def sweep(
    recipe: str,
    /,
    *,
    settings: Annotated[Words, Parameter(name="--set", help="key=value … for all runs")] = None,
    grid: Annotated[Words, Parameter(help="key=value,value … every combination")] = None,
    zipped: Annotated[Words, Parameter(name="--zip", help="key=value,value … in step")] = None,
    seeds: Annotated[str | None, Parameter(help="how many seeds, or a list like 3,5,8")] = None,
    engine: Annotated[Literal["local", "dask"], Parameter(help="who computes")] = "local",
    workers: Annotated[int | None, Parameter(help="how many processes on this machine")] = None,
    address: Annotated[str | None, Parameter(help="dask scheduler, tcp://host:port")] = None,
    cluster: Annotated[Path | None, Parameter(help="TOML file with a [slurm] table, for the dask engine")] = None,
    common: Computing = Computing(),
) -> int:
    """Run a recipe many times.

    Parameters
    ----------
    recipe
        a name from `phasecast recipes`, package.module:RECIPE, or a TOML file
    """
    from phasecast.core.errors import BadInput
    from phasecast.lab import sweep as compute

    if engine == "local" and (address or cluster):
        raise BadInput("--address and --cluster are for dask", "add --engine dask")
    if engine == "dask" and common.threads is not None:
        raise BadInput("--threads is for the local engine", "start dask workers with one thread each")
    planned = _planned(recipe, settings, grid, zipped, seeds)
    if engine == "local":
        from phasecast.lab.engines.local import LocalEngine

        chosen: Any = LocalEngine(workers, 1 if common.threads is None else common.threads)
    else:
        from phasecast.lab.engines.dask import DaskEngine, read_cluster

        chosen = DaskEngine(address, read_cluster(cluster) if cluster else None, workers)
    swept = compute(planned, engine=chosen, store=common.store, checkpoint_every=common.checkpoint_every)
    lines = [f"{found.id}  {found.status}" for found in swept.runs]
    lines += [f"failed  {error}" for error in swept.errors]
    lines += [f"{swept.id}: {len(swept.runs)} of {len(planned.specs)} runs finished"]
    lines += [f"`phasecast report {swept.id}` writes a page"]
    _print(swept.plain(), "\n".join(lines), common)
    return _exit_code(swept.status)


def report(run: str, /, *, common: Stored = Stored()) -> int:
    """Write the page of a run or a sweep.

    Parameters
    ----------
    run
        the id of a run or a sweep, or the beginning of it
    """
    from phasecast.lab import Store, load
    from phasecast.report import write, write_sweep

    store = Store(common.store)
    path = write_sweep(run, store) if run.startswith("sweep-") else write(load(run, store=store))
    _print({"report": str(path)}, str(path), common)
    return 0


def runs_ls(*, common: Stored = Stored()) -> int:
    """List the runs of the store, oldest first."""
    from phasecast.lab.store import Store

    store = Store(common.store)
    keys = ("run", "recipe", "status", "done", "total", "created", "updated")
    rows = [
        {
            **{key: status.get(key) for key in keys},
            "sentence": (status.get("summary") or {}).get("sentence", ""),
        }
        for status in store.statuses()
    ]
    table = [
        (
            row["run"],
            row["status"],
            f"{row['done']}/{row['total'] or '?'}",
            row["updated"][:19],
            row["sentence"],
        )
        for row in rows
    ]
    text = _table(("run", "status", "done", "updated (UTC)", "found"), table) if rows else f"no runs in {store.path}"
    _print({"store": str(store.path), "runs": rows}, text, common)
    return 0


def runs_show(run: str, /, *, common: Stored = Stored()) -> int:
    """Show one run: what was asked, what was found, where it comes from."""
    from phasecast.lab import load

    found = load(run, store=common.store)
    asked, status = found.folder.spec(), found.folder.status()
    lines = [
        f"{found.id}: {status['status']}, {status['done']} of {status['total'] or '?'}",
        f"  {found.path}",
        "",
    ]
    lines += ["asked"] + [f"  {name} = {value}" for name, value in asked["spec"].items()]
    lines += ["", "provenance"] + [f"  {name}: {value}" for name, value in status["provenance"].items()]
    lines += [
        f"  wall {status['wall_seconds']:.1f} s, CPU {status['cpu_seconds']:.1f} s, attempts {status['attempts']}"
    ]
    if status.get("error"):
        lines += ["", f"failed with {status['error']}"]
    if status.get("summary"):
        lines += ["", status["summary"]["sentence"]]
    _print({**found.plain(), "spec": asked["spec"], "state": status}, "\n".join(lines), common)
    return 0


def runs_resume(run: str, /, *, common: Computing = Computing()) -> int:
    """Go on with a run that was interrupted, killed or failed."""
    _pin(common.threads)
    from phasecast.lab import resume

    with _interruption_as_json(common):
        found = resume(run, store=common.store, checkpoint_every=common.checkpoint_every)
    return _show_run(found, common)


def runs_rm(run: str, /, *more: str, common: Stored = Stored()) -> int:
    """Remove runs that nobody is computing."""
    from phasecast.lab import Store

    store = Store(common.store)
    identities = [store.find(text) for text in (run, *more)]
    for identity in identities:
        store.remove(identity)
    _print({"removed": identities}, "\n".join(f"removed {identity}" for identity in identities), common)
    return 0


def runs_export(run: str, /, *, to: Path, common: Stored = Stored()) -> int:
    """Export the arrays of a finished run.

    Parameters
    ----------
    to
        a .nc file (NetCDF, one group a table), .csv (one file a table) or .safetensors (one file a checkpoint)
    """
    from phasecast.lab import load
    from phasecast.lab.export import export

    written = export(load(run, store=common.store), to)
    _print({"written": [str(path) for path in written]}, "\n".join(map(str, written)), common)
    return 0


def recipes_ls(*, common: Common = Common()) -> int:
    """List the recipes."""
    from phasecast.lab import RECIPES, find_recipe

    found = [find_recipe(name) for name in RECIPES]
    content = {"recipes": [{"name": r.name, "version": r.version, "question": r.question} for r in found]}
    _print(content, _table(("recipe", "answers"), [(r.name, r.question) for r in found]), common)
    return 0


def recipes_show(name: str, /, *, common: Common = Common()) -> int:
    """Print what a recipe answers, and its spec with the defaults, as TOML to start from."""
    from phasecast.lab import find_recipe

    recipe = find_recipe(name)
    lines = [f"# {recipe.question}", f'recipe = "{recipe.name}"', f"version = {recipe.version}", "", "[set]"]
    defaults = {}
    for key, info in recipe.spec.model_fields.items():
        said = f"  # {info.description}" if info.description else ""
        if info.is_required():
            lines.append(f"# {key} = …  # required; {info.description or ''}")
        else:
            defaults[key] = value = info.get_default(call_default_factory=True)
            lines.append(f"# {key} = …{said}" if value is None else f"{key} = {_toml(value)}{said}")
    content = {"name": recipe.name, "version": recipe.version, "question": recipe.question, "spec": defaults}
    _print({**content, "schema": recipe.spec.model_json_schema()}, "\n".join(lines), common)
    return 0


def claims_ls(*, common: Common = Common()) -> int:
    """List the claims."""
    from phasecast import claims

    found = list(claims.all_claims().values())
    text = _table(("claim", "verdict", "statement"), [(c.id, str(c.verdict), c.statement) for c in found])
    _print({"claims": [claim.plain() for claim in found]}, text, common)
    return 0


def claims_show(claim: str, /, *, common: Common = Common()) -> int:
    """Show one claim with its reason, and the counterexample if there is one."""
    from phasecast import claims

    found = claims.find(claim)
    _print(found.plain(), "\n".join(_claim_lines(found)), common)
    return 0


def claims_verify(claim: str, /, *, common: Stored = Stored()) -> int:
    """Run the check of a claim again; exit code 3 if it does not find what we say."""
    from phasecast import claims

    verification = claims.verify(claim, store=common.store)
    lines = _claim_lines(verification.claim)
    for comparison in verification.finding.comparisons:
        lines += ["", str(comparison)]
    outcome = "confirmed" if verification.confirmed else "NOT confirmed"
    lines += ["", f"{outcome}: {verification.finding.verdict} ({verification.finding.found})"]
    _print(verification.plain(), "\n".join(lines), common)
    return 0 if verification.confirmed else 3


def _planned(
    recipe: str,
    settings: Sequence[str] | None,
    grid: Sequence[str] | None = None,
    zipped: Sequence[str] | None = None,
    seeds: str | None = None,
) -> Any:
    """The runs that a command line asks for, by a recipe's name or by a TOML file."""
    from phasecast.core.errors import BadInput
    from phasecast.lab import find_recipe, make_sweep, read_sweep
    from phasecast.lab.spec import parse_assignments, parse_axes

    if recipe.endswith(".toml"):
        if settings or grid or zipped or seeds:
            raise BadInput("a TOML file says all there is to set", "put it into the file, or name a recipe instead")
        return read_sweep(Path(recipe))
    spec = find_recipe(recipe).spec
    return make_sweep(
        recipe,
        parse_assignments(spec, settings or ()),
        grid=parse_axes(spec, grid or ()),
        zipped=parse_axes(spec, zipped or ()),
        seeds=_seeds(seeds),
    )


def _seeds(text: str | None) -> int | list[int] | None:
    from phasecast.core.errors import BadInput

    if text is None:
        return None
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"'{text}' seeds", "give how many, or a list like 3,5,8") from None
    return numbers if "," in text else numbers[0]


def _pin(threads: int | None) -> None:
    """Keep this process to some cores, before JAX starts its threads."""
    from phasecast.core.errors import BadInput

    if threads is None:
        return
    if threads < 1:
        raise BadInput(f"{threads} threads", "use at least 1")
    from phasecast.lab.provenance import pin_threads

    pin_threads(threads)


@contextlib.contextmanager
def _interruption_as_json(common: Stored) -> Iterator[None]:
    """A run that is stopped is printed like one that is finished."""
    from phasecast.core.errors import RunInterrupted
    from phasecast.lab import load

    try:
        yield
    except RunInterrupted as interruption:
        if common.json:
            _print(load(interruption.run, store=common.store).plain(), "", common)
        raise


def _show_run(found: Any, common: Common) -> int:
    lines = [] if common.json else [*_answer_lines(found), ""]
    lines += [f"{found.id}: {found.status}", f"  {found.path}", f"  `phasecast report {found.id}` writes a page"]
    _print(found.plain(), "\n".join(lines), common)
    return _exit_code(found.status)


def _exit_code(status: str) -> int:
    return {"failed": 1, "refused": 3}.get(status, 0)


def _answer_lines(found: Any) -> list[str]:
    """The answers of a run as a table, with the reasons of refused ones below it, and the sentence."""
    rows = found.conclusion().rows()
    table = _table(
        ("quantity", "predicted", "measured", "verdict"),
        [(row.name, row.predicted, row.measured, row.verdict) for row in rows],
    )
    reasons = [
        f"{row.name} is {row.measurement.status}: {reason}"
        for row in rows
        if row.measurement
        for reason in row.measurement.reasons
    ]
    return [table, *(["", *reasons] if reasons else []), "", found.summary["sentence"]]


def _claim_lines(claim: Any) -> list[str]:
    lines = [
        f"{claim.id}: {claim.verdict}",
        f"  source     {claim.source}",
        f"  statement  {claim.statement}",
        f"  why        {claim.why}",
    ]
    lines += [f"  ours       {claim.ours}"] if claim.ours else []
    if claim.counterexample:
        lines += ["", "counterexample:", *(f"  {line}" for line in claim.counterexample.splitlines())]
    return lines


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    table = [head, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in table)


def _toml(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    return jsonlib.dumps(value, ensure_ascii=False)


def _print(content: dict[str, Any], text: str, common: Common) -> None:
    if common.json:
        print(jsonlib.dumps(content, ensure_ascii=False, allow_nan=False), file=sys.__stdout__, flush=True)
    else:
        print(text, flush=True)
