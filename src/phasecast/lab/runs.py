"""What is a run? A recipe with a spec, in a store: started, loaded, resumed, and never computed twice."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasecast.core.errors import BadInput, DamagedRun, StoreError
from phasecast.core.user_code import without_code
from phasecast.lab import checkpoint, integrity, tables
from phasecast.lab.driver import Driver
from phasecast.lab.files import disk_errors, write_json
from phasecast.lab.recipe import Conclusion, Recipe, find_recipe
from phasecast.lab.records import is_checkpoint
from phasecast.lab.spec import Spec, check_version, make_spec
from phasecast.lab.store import FINISHED, FORMAT, RunFolder, Store, run_id
from phasecast.progress import Progress, Silent, quietly, show_progress

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Run:
    """A run in a store.

    ``computed`` is the conclusion of a run that this process has just computed, so that it is not worked out twice.
    A store is data: unless ``allow_code``, a recipe that the run names as ``package.module:RECIPE`` is not imported.
    """

    id: str
    store: Store
    computed: Conclusion | None = field(default=None, repr=False, compare=False)
    allow_code: bool = field(default=False, repr=False, compare=False)

    def trusted(self) -> AbstractContextManager[None]:
        """What its recipe may do inside the block: load the user's code only if that is allowed."""
        return nullcontext() if self.allow_code else without_code(f"run {self.id}")

    @property
    def folder(self) -> RunFolder:
        return self.store.folder(self.id)

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.folder.path

    @property
    def exists(self) -> bool:
        """Whether the store has this run, finished or not."""
        return self.folder.exists

    @property
    def status(self) -> str:
        """``ok``, ``warning`` or ``refused`` once finished; ``running``, ``interrupted`` or ``failed`` before."""
        return self.folder.status()["status"]

    @property
    def recipe(self) -> Recipe:
        """The recipe, if its version is still the one that made this run."""
        request = self.folder.read_spec()
        try:
            with self.trusted():
                recipe = find_recipe(request["recipe"])
        except BadInput:
            self.folder.spec()  # if that is damaged, it is the cause
            raise
        check_version(f"run {self.id} of recipe '{recipe.name}'", request["recipe_version"], recipe.version)
        if request["recipe_version"] < recipe.version:
            raise BadInput(
                f"run {self.id} was made by version {request['recipe_version']} of '{recipe.name}', which is now at "
                f"{recipe.version}",
                "run it again",
            )
        self.folder.spec()
        return recipe

    @property
    def spec(self) -> Spec:
        """The spec of the run."""
        recipe = self.recipe
        with self.trusted():
            return make_spec(recipe.spec, self.folder.spec()["spec"])

    @property
    def summary(self) -> dict[str, Any]:
        """Its conclusion in short, as ``status.json`` has it."""
        return self.folder.status().get("summary") or {}

    def results(self) -> xr.DataTree:
        """The arrays, as an xarray DataTree."""
        status = self.folder.status()
        if status["status"] not in FINISHED:
            raise BadInput(f"{self.id} is {status['status']}", f"finish it with `phasecast runs resume {self.id}`")
        return tables.read(self.folder.results, self.id, self._seal(status))

    def results_so_far(self) -> xr.DataTree | None:
        """The arrays of an unfinished run as its last checkpoint counts them; it may go on meanwhile. None before it.

        The recipe is asked for the names of dimensions if it can be had.
        """
        self.folder.refuse_links()
        state = checkpoint.peek(self.folder.checkpoints)
        if not is_checkpoint(state):
            return None
        layout = None
        with suppress(BadInput), self.trusted():
            layout = self.recipe.layout(self.spec)
        return tables.read_so_far(self.folder.results, state["results"], layout)

    def check(self) -> str:
        """Read every byte of a finished run: ``sound``, ``not sealed`` by the release that made it, or ``unfinished``.

        A damaged run is a :class:`~phasecast.core.errors.DamagedRun`.
        """
        status = self.folder.status()
        self.folder.spec()
        if status["status"] not in FINISHED:
            return "unfinished"
        seal = self._seal(status)
        if seal is None:
            tables.read(self.folder.results, self.id)
            return "not sealed"
        tables.check(self.folder.results, self.id, seal)
        return "sound"

    def _seal(self, status: Mapping[str, Any]) -> dict[str, Any] | None:
        """The seal in a status; results with checksums whose status has none are damaged."""
        if status.get("seal") is None and self.folder.results.is_dir():
            try:
                if any(node.has_checksums() for node in integrity.nodes_of(self.folder.results).values()):
                    raise DamagedRun(self.id, "its status.json lost its seal")
            except integrity.Unsound as damage:
                raise DamagedRun(self.id, str(damage)) from None
        return status.get("seal")

    def conclusion(self, results: xr.DataTree | None = None) -> Conclusion:
        """What the results say, computed from the stored arrays; they are read unless :meth:`results` is given."""
        if self.computed is not None:
            return self.computed
        recipe, spec = self.recipe, self.spec
        results = self.results() if results is None else results
        with self.trusted():
            return recipe.conclude(spec, results)

    def plain(self) -> dict[str, Any]:
        """``{"run", "path", "status", "summary"}``."""
        return {"run": self.id, "path": str(self.path), "status": self.status, "summary": self.summary}

    def __str__(self) -> str:
        status = self.folder.status()
        return f"{self.id}: {status['status']}. {(status.get('summary') or {}).get('sentence', '')}".rstrip()


def run(
    recipe: str | Recipe,
    spec: Mapping[str, Any] | Spec | None = None,
    *,
    store: Store | str | Path | None = None,
    checkpoint_every: float | None = None,
    quiet: bool = False,
) -> Run:
    """Run a recipe; a finished run of the store is returned, an interrupted one is resumed.

    Parameters
    ----------
    recipe: a name from ``phasecast recipes``, ``package.module:RECIPE``, or the recipe itself.
    spec: values that differ from the recipe's defaults.
    store: a folder; defaults to ``$PHASECAST_STORE``, then ``phasecast-runs``.
    checkpoint_every: seconds between checkpoints; by default they take less than 1% of the time.
    """
    chosen = find_recipe(recipe)
    checked = spec if isinstance(spec, Spec) else make_spec(chosen.spec, dict(spec or {}))
    if not isinstance(checked, chosen.spec):
        raise BadInput(f"the spec is a {type(checked).__name__}", f"'{chosen.name}' takes a {chosen.spec.__name__}")
    place = Store.of(store)
    with show_progress(chosen.name, quiet=quiet) as progress:
        return execute(chosen, checked, place, progress=progress, checkpoint_every=checkpoint_every)


def resume(
    run: str,
    *,
    store: Store | str | Path | None = None,
    checkpoint_every: float | None = None,
    quiet: bool = False,
) -> Run:
    """Continue an interrupted, killed or failed run; a finished one is returned as it is."""
    place = Store.of(store)
    folder = place.folder(place.find(run))
    if folder.status()["status"] in FINISHED:
        return Run(folder.id, place, allow_code=True)
    known = Run(folder.id, place, allow_code=True)
    recipe, spec = known.recipe, known.spec
    if identify(recipe, spec) != folder.id:
        raise BadInput(
            f"the recipe, code or data behind {folder.id} changed since it was started",
            "start a new run with `phasecast run`, or undo the change",
        )
    with show_progress(recipe.name, quiet=quiet) as progress:
        return execute(recipe, spec, place, progress=progress, checkpoint_every=checkpoint_every)


def load(run: str, *, store: Store | str | Path | None = None, allow_code: bool = False) -> Run:
    """A run of the store, by its id or the beginning of it.

    Parameters
    ----------
    allow_code: import the recipe that the run names if it is not one of ours; only for stores that you trust.
    """
    place = Store.of(store)
    return Run(place.find(run), place, allow_code=allow_code)


def identify(recipe: Recipe, spec: Spec) -> str:
    """The id of the run of this recipe with this spec and with the user's code and data as they are now."""
    return _request(recipe, spec)[0]


def execute(
    recipe: Recipe,
    spec: Spec,
    store: Store,
    *,
    progress: Progress | None = None,
    checkpoint_every: float | None = None,
) -> Run:
    """Compute a run to its end, from its newest checkpoint if there is one; wait if another process computes it."""
    if checkpoint_every is not None and not checkpoint_every > 0:
        raise BadInput(f"checkpoint_every is {checkpoint_every:g}", "use a positive number of seconds")
    progress = progress or Silent()
    identity, request = _request(recipe, spec)
    folder = store.folder(identity)
    if is_finished(folder):  # also in a store that can only be read
        return Run(identity, store, allow_code=True)
    store.prepare()

    def waiting() -> None:
        progress.say(f"{identity} is being computed by another process; waiting for it")

    with folder.lock(create=True, on_wait=waiting):
        if is_finished(folder):
            return Run(identity, store, allow_code=True)

        def is_same() -> bool:
            return not request["contents"] or identify(recipe, spec) == identity

        if not is_same():
            raise BadInput("the code or data changed while waiting for another process", "run it again")
        with disk_errors(folder.path):
            write_json(folder.path / "spec.json", request)
        with quietly():  # the calls of a recipe do not show themselves: its chunks do
            computed = Driver(recipe, spec, folder, progress, checkpoint_every, is_same).drive()
    return Run(identity, store, computed, allow_code=True)


def _request(recipe: Recipe, spec: Spec) -> tuple[str, dict[str, Any]]:
    """The id of a run, and what its ``spec.json`` says."""
    values, contents = spec.model_dump(mode="json"), spec.contents()
    if (source := recipe.source_print()) is not None:
        contents["recipe"] = source
    request = {"format": FORMAT, "recipe": recipe.name, "recipe_version": recipe.version, "spec": values}
    return run_id(recipe.name, recipe.version, values, contents), {**request, "contents": contents}


def is_finished(folder: RunFolder) -> bool:
    """Whether a run is finished and sound; one whose status cannot be read is computed on from its last checkpoint."""
    folder.refuse_links()
    try:
        status = folder.read_status()
    except DamagedRun:
        raise
    except (StoreError, FileNotFoundError):
        return False
    if status["status"] in FINISHED and (seal := status.get("seal")) is not None:
        try:
            integrity.check_seal(folder.results, seal)
        except integrity.Unsound as damage:
            raise DamagedRun(folder.id, str(damage)) from None
    return status["status"] in FINISHED
