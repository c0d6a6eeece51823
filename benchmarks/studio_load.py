"""How does the studio behave under load? Time to the page of runs, time to draw a long log, memory over refreshes.

Run ``python benchmarks/studio_load.py`` with the extra ``studio``; ``--store`` keeps the store for the next time. No
browser takes part: a refresh is what a browser asks for over its socket, answered when the server has sent the whole
page. The goals are those of the studio's issue: ten thousand runs in two seconds, 10⁵ rows in one, flat memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
from pydantic import Field

from phasecast.lab import Chunk, Conclusion, Recipe, Spec, Store, Table, run
from phasecast.lab.files import write_json
from phasecast.lab.store import run_id
from phasecast.studio.charts import by_title, picture
from phasecast.studio.run_index import RunIndex, table_of
from phasecast.studio.server import environment, server_command
from phasecast.studio.stored_curves import CurveReader, panels_of

COLUMNS = ("train_loss", "validation_loss", "train_accuracy", "validation_accuracy")
WORDS = ("ok", "ok", "warning", "refused", "interrupted")


class LongLog(Spec):
    rows: int = Field(default=100_000, ge=1, description="rows to log")


def work(spec: LongLog, state):
    rng = np.random.default_rng(spec.seed)
    for start in range(0, spec.rows, 10_000):
        size = min(10_000, spec.rows - start)
        columns = {name: rng.random(size) for name in COLUMNS}
        yield Chunk({"done": start}, {"curves": {"step": np.arange(start, start + size), **columns}}, start, spec.rows)


def layout(spec: LongLog):
    return {"curves": Table("logged", dict.fromkeys(("step", *COLUMNS), ()), dtypes={"step": "int64"})}


RECIPE = Recipe(
    name="studio_load:RECIPE",
    version=1,
    question="How long does a long log take?",
    spec=LongLog,
    work=work,
    layout=layout,
    conclude=lambda spec, results: Conclusion([], "Rows were logged."),
)


def fill(store: Store, count: int, template: Path) -> None:
    """Runs that differ in their seeds, with the files of one that was computed."""
    status = json.loads((template / "status.json").read_text())
    request = json.loads((template / "spec.json").read_text())
    del status["digest"]
    for number in range(count):
        spec = {**request["spec"], "rows": number + 1, "seed": number}
        identity = run_id("load", 1, spec, {})
        folder = store.folder(identity)
        if not folder.exists:
            folder.path.mkdir(exist_ok=True)
            write_json(folder.path / "spec.json", {**request, "recipe": "load", "spec": spec, "contents": {}})
            folder.write_status({**status, "run": identity, "recipe": "load", "status": WORDS[number % len(WORDS)]})


class Session:
    """A browser's side of the socket: asks for the page and waits until all of it has come."""

    def __init__(self, port: int):
        self.url = f"ws://127.0.0.1:{port}/_stcore/stream"

    async def __aenter__(self):
        import websockets

        self.socket = await websockets.connect(self.url, subprotocols=["streamlit"], max_size=None)  # pyright: ignore
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.socket.close()

    async def refresh(self) -> float:
        """Seconds until the server has drawn the page of runs."""
        from streamlit.proto.BackMsg_pb2 import BackMsg
        from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

        request = BackMsg()
        request.rerun_script.query_string = ""
        began = time.perf_counter()
        await self.socket.send(request.SerializeToString())
        while True:
            answer = ForwardMsg()
            answer.ParseFromString(await self.socket.recv())
            if answer.WhichOneof("type") == "script_finished":
                return time.perf_counter() - began


def memory(pid: int) -> float:
    """Resident memory of a process in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def spent(pid: int) -> float:
    """CPU seconds of a process: what a refresh costs where other programs slow it down."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def over_the_socket(port: int, pid: int, refreshes: int) -> None:
    async with Session(port) as first:
        for look in ("first", "second"):
            began = spent(pid)
            seconds = await first.refresh()
            print(f"page of runs, {look} look        {seconds:.2f} s, CPU {spent(pid) - began:.2f} s   (goal 2)")
        async with Session(port) as second:
            both = await asyncio.gather(first.refresh(), second.refresh())
            print(f"two sessions at the same time   {max(both):.2f} s")
        times, began = [], spent(pid)
        for number in range(1, refreshes + 1):
            times.append(await first.refresh())
            if number % max(1, refreshes // 10) == 0:
                print(f"memory of the server            {memory(pid):.0f} MB after {number} refreshes", flush=True)
        cpu = (spent(pid) - began) / refreshes
        print(f"refresh, median of {refreshes}          {statistics.median(times):.2f} s, CPU {cpu:.2f} s")


def served(store: Store, refreshes: int) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        server_command(port), env=environment(store.path, allow_code=False), stdout=subprocess.DEVNULL
    )
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1)
                break
            except OSError:
                time.sleep(0.1)
        asyncio.run(over_the_socket(port, process.pid, refreshes))
    finally:
        process.terminate()
        process.wait()


def without_server(store: Store, long_log: str) -> None:
    began, cpu = time.perf_counter(), time.process_time()
    rows, _ = RunIndex(store).look(1e9)
    print(f"{len(rows)} runs read          {time.perf_counter() - began:.2f} s, CPU {time.process_time() - cpu:.2f} s")
    began, cpu = time.perf_counter(), time.process_time()
    table_of(rows)
    print(f"their table                     {time.perf_counter() - began:.2f} s, CPU {time.process_time() - cpu:.2f} s")
    reader = CurveReader()
    for look in ("first", "second"):
        began, cpu = time.perf_counter(), time.process_time()
        lines = reader.lines(store.folder(long_log))
        for title, group in panels_of(lines).items():
            picture(by_title(group), title).to_dict()
        seconds = f"{time.perf_counter() - began:.2f} s, CPU {time.process_time() - cpu:.2f} s"
        print(f"{lines[0].y.size} rows × {len(lines)}, {look} look   {seconds}   (goal 1)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--refreshes", type=int, default=200)
    parser.add_argument("--store", type=Path, default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Store(given.store or Path(folder) / "runs")
        long_log = run(RECIPE, {"rows": given.rows}, store=store, quiet=True)
        fill(store, given.runs, run(RECIPE, {"rows": 100}, store=store, quiet=True).path)
        os.sync()
        without_server(store, long_log.id)
        served(store, given.refreshes)


if __name__ == "__main__":
    main()
