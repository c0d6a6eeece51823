"""How does the studio start? As a streamlit server on the loopback interface, without telemetry."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

from phasecast.core.errors import BadInput
from phasecast.lab.store import VARIABLE

ADDRESS = "127.0.0.1"
FIRST_PORT, PORTS = 8501, 50  # streamlit's own, and how many after it are tried
LARGEST_UPLOAD = 20  # MB; chosen: a log of 10⁵ rows and ten columns has 15 MB
ALLOW_CODE = "PHASECAST_STUDIO_ALLOW_CODE"  # variable of the server process

THEME = {
    "light.primaryColor": "#0a5e94",
    "light.textColor": "#1b2a3c",
    "light.backgroundColor": "#ffffff",
    "light.secondaryBackgroundColor": "#f5f7fa",
    "dark.primaryColor": "#6cbcf0",
    "dark.textColor": "#e4eaf1",
    "dark.backgroundColor": "#10161d",
    "dark.secondaryBackgroundColor": "#18212b",
}
"""The colours of the reports; the browser's setting decides between light and dark."""

SETTINGS = {
    "server.address": ADDRESS,
    "server.headless": "true",
    "server.fileWatcherType": "none",
    "server.runOnSave": "false",
    "server.maxUploadSize": str(LARGEST_UPLOAD),
    "server.enableXsrfProtection": "true",
    "server.enableCORS": "true",  # only pages of this server may open its socket
    "server.disconnectedSessionTTL": "60",  # seconds in which a lost connection finds its session again
    "browser.gatherUsageStats": "false",
    "browser.serverAddress": ADDRESS,
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    "client.showErrorLinks": "false",
    "runner.magicEnabled": "false",
    "logger.level": "warning",
}


def check_installed() -> None:
    """Refuse to start without streamlit, in one line."""
    if importlib.util.find_spec("streamlit") is None:
        raise BadInput("the studio needs streamlit", "install it with `pip install 'phasecast[studio]'`")


def free_port(wanted: int | None = None) -> int:
    """The wanted port, or the first one from 8501 on that nobody listens at."""
    if wanted is not None and not 1024 <= wanted <= 65535:
        raise BadInput(f"--port is {wanted}", "use a number from 1024 to 65535")
    for port in [wanted] if wanted is not None else range(FIRST_PORT, FIRST_PORT + PORTS):
        with socket.socket() as probe:
            if probe.connect_ex((ADDRESS, port)) != 0:
                return port
    taken = f"port {wanted} is" if wanted is not None else f"ports {FIRST_PORT} to {FIRST_PORT + PORTS - 1} are"
    raise BadInput(f"{taken} in use", "give another one with --port")


def server_command(port: int) -> list[str]:
    """The command line of the server."""
    options = {**SETTINGS, "server.port": str(port), **{f"theme.{name}": colour for name, colour in THEME.items()}}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return [sys.executable, "-m", "streamlit", "run", str(Path(__file__).with_name("app.py")), *words]


def environment(store: Path, *, allow_code: bool) -> dict[str, str]:
    """The variables of the server: where the runs are, and whether code may be imported; none that change streamlit."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMLIT_")}
    return {**kept, VARIABLE: str(store), ALLOW_CODE: "1" if allow_code else ""}


def serve(store: Path, port: int, *, allow_code: bool = False) -> int:
    """Run the server until it is stopped; its exit code."""
    process = subprocess.Popen(
        server_command(port), env=environment(store, allow_code=allow_code), stdin=subprocess.DEVNULL
    )
    try:
        return process.wait()
    except KeyboardInterrupt:  # the server received Ctrl-C too, and ends
        process.wait()
        return 0
    finally:
        if process.poll() is None:
            process.terminate()
