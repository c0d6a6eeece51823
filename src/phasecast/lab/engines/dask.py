"""The dask engine: the runs of a sweep on a cluster, or on SLURM through dask-jobqueue.

Dask moves a task away from a worker that dies. The task then finds the run's last checkpoint in the store, which
must be a folder that every worker sees. Start workers with one thread each (``--nthreads 1``).
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from phasecast.core.bounds import check_bounds
from phasecast.core.errors import BadInput, MissingExtra, unknown
from phasecast.core.user_code import working_folder
from phasecast.lab.engines import Outcome, RunTask, compute
from phasecast.lab.provenance import pin_threads
from phasecast.lab.spec import check_fields, checked, read_toml

TRIES = 3  # chosen: as the local engine
PATIENCE = "10s"  # chosen: how long to wait for a scheduler to answer
COMPUTED_AGAIN = ("pending", "lost")  # what ended, if its worker died before the result could be fetched


class Slurm(BaseModel):
    """The ``[slurm]`` table of a cluster file: what each job asks for, and how many jobs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    queue: str
    jobs: int = Field(ge=1, le=10_000)
    cores: int = Field(default=1, ge=1, description="cores of a job; each runs one worker process")
    memory: Annotated[str, StringConstraints(pattern=r"^\d+(\.\d+)?\s?(MB|GB|TB|MiB|GiB|TiB)$")]
    walltime: Annotated[str, StringConstraints(pattern=r"^(\d+-)?\d{1,2}:\d{2}:\d{2}$")]
    account: str | None = None
    interface: str | None = Field(default=None, description="network interface, e.g. ib0")
    prologue: tuple[str, ...] = Field(default=(), description="shell lines before the worker, e.g. activating a venv")
    directives: tuple[str, ...] = Field(default=(), description="more #SBATCH directives")

    def cluster(self) -> Any:
        """A dask-jobqueue cluster with no job started yet."""
        try:
            from dask_jobqueue.slurm import SLURMCluster
        except ModuleNotFoundError:
            raise MissingExtra("dask-jobqueue", "dask") from None
        return SLURMCluster(
            queue=self.queue,
            account=self.account,
            cores=self.cores,
            processes=self.cores,
            memory=self.memory,
            walltime=self.walltime,
            interface=self.interface,
            job_script_prologue=list(self.prologue),
            job_extra_directives=list(self.directives),
            scheduler_options={"dashboard_address": ":0"},
        )


def read_cluster(path: Path) -> Slurm:
    """The cluster file at ``path``, checked."""
    tables = read_toml(path)
    for key in tables:
        if key != "slurm":
            raise unknown(f"table in {path.name}", key, ["slurm"])
    values = tables.get("slurm")
    if not isinstance(values, dict):
        raise BadInput(f"{path.name} has no cluster", "write a [slurm] table")
    check_fields(Slurm, values, f"field of [slurm] in {path.name}")
    return checked(Slurm, values, f"{path.name}: slurm.")


@dataclass(frozen=True)
class DaskEngine:
    """A running scheduler at ``address``, a SLURM cluster, or ``workers`` local processes."""

    address: str | None = None
    slurm: Slurm | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        if importlib.util.find_spec("distributed") is None:
            raise MissingExtra("dask", "dask")
        if self.workers is not None:
            check_bounds(workers=self.workers)
        if self.address and self.slurm:
            raise BadInput("an address and a cluster file cannot be combined", "use --address or --cluster")

    def __call__(self, tasks: Sequence[RunTask]) -> Iterator[Outcome]:
        from distributed import as_completed

        with self._client() as client:
            futures = {
                client.submit(_compute, task, key=f"phasecast-{uuid.uuid4().hex}", pure=False, retries=TRIES - 1): task
                for task in tasks
            }
            ended = as_completed(futures, raise_errors=False)
            for future in ended:
                if (status := future.status) == "finished":
                    yield Outcome(futures[future], *future.result())
                elif status == "error":
                    error = future.exception()
                    yield Outcome(futures[future], None, f"{type(error).__name__}: {error}")
                elif status in COMPUTED_AGAIN:
                    ended.add(future)
                else:
                    yield Outcome(futures[future], None, f"the task was {status}; is the scheduler still there?")

    @contextlib.contextmanager
    def _client(self) -> Iterator[Any]:
        from distributed import Client, LocalCluster

        with contextlib.ExitStack() as stack:
            if self.address:
                target: Any = self.address
            elif self.slurm:
                target = stack.enter_context(self.slurm.cluster())
                target.scale(jobs=self.slurm.jobs)
            else:
                target = stack.enter_context(
                    LocalCluster(
                        n_workers=self.workers, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
                    )
                )
            try:
                client = stack.enter_context(Client(target, timeout=PATIENCE))
            except (OSError, ValueError) as error:
                raise BadInput(
                    f"no dask scheduler answers at {self.address} ({error})",
                    "give an address like tcp://host:8786",
                ) from None
            yield client


def _compute(task: RunTask) -> tuple[str | None, str]:
    """Compute a task in a worker process, on its own core and with its working folder importable.

    The workers of one machine are numbered by their names.
    """
    from distributed import get_worker

    if number := re.search(r"\d+$", str(get_worker().name)):
        pin_threads(1, first=int(number[0]))
    with working_folder():
        return compute(task)
