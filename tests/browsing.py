"""A studio and a browser for the tests in ``browser/``: a real Chromium, and a guard that watches every page.

The guard fails a test whose page reports an error on its console, fails in a script, shows an exception, or asks
anything of another host.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from running import browser

HERE = Path(__file__).parent
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 60_000  # milliseconds; a loaded machine needs many times what a free one does


class Guard:
    """What went wrong on a page."""

    def __init__(self, page, origin: str):
        self.problems: list[str] = []
        page.on("console", lambda message: self._console(message))
        page.on("pageerror", lambda error: self.problems.append(f"script error: {error}"))
        page.on("dialog", lambda dialog: (self.problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self._request(request.url, origin))
        self.page = page

    def _console(self, message) -> None:
        beside = "/_stcore/" in message.location.get("url", "")  # streamlit asks for its server below every path first
        if message.type == "error" and not beside:
            self.problems.append(f"console: {message.text}")

    def _request(self, url: str, origin: str) -> None:
        if not url.startswith((origin, origin.replace("http", "ws"), "data:", "blob:", "about:")):
            self.problems.append(f"request to another host: {url}")

    def check(self) -> None:
        """Raise if the page had a problem or shows an exception."""
        shown = self.page.locator("[data-testid=stException]").all_inner_texts()
        assert not [*self.problems, *shown], [*self.problems, *shown]


class Studio:
    """A running ``phasecast studio``."""

    def __init__(self, store: Path, *words: str):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.store, self.origin = store, f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "phasecast.cli", "studio", "--store", store, "--port", str(self.port), *words],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        until = time.monotonic() + PATIENCE / 1000
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the studio did not start")
            time.sleep(0.2)

    def _answers(self) -> bool:
        try:
            return urllib.request.urlopen(f"{self.origin}/_stcore/health", timeout=2).status == 200
        except OSError:
            return False

    def server(self) -> int:
        """The pid of the streamlit process."""
        (child,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(child)

    def end(self, number: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)
        self.process.communicate(timeout=30)


@pytest.fixture(scope="session")
def chromium() -> Iterator:
    from playwright.sync_api import sync_playwright  # pyright: ignore[reportMissingImports]

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser(), args=list(FLAGS), headless=True)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """One studio for the tests of a module; own recipes are allowed, because those of the tests take no time."""
    running = Studio(tmp_path_factory.mktemp("studio") / "runs", "--allow-code")
    yield running
    running.end()


@pytest.fixture
def tab(chromium, studio: Studio) -> Iterator:
    """A function that opens a page of the studio in a fresh session; every page is checked when the test ends."""
    contexts, guards = [], []

    def open_page(path: str = "", *, width: int = 1400, dark: bool = False, origin: str = ""):
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", accept_downloads=True
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        guards.append(Guard(page, origin or studio.origin))
        page.goto(f"{origin or studio.origin}/{path}")
        page.locator("[data-testid=stAppViewContainer]").wait_for()
        return page

    yield open_page
    for guard in guards:
        guard.check()
    for context in contexts:
        context.close()
