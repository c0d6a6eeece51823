"""Which function answers a command? The one its module holds; only the module of the command in use is imported."""

from __future__ import annotations

import importlib

from cyclopts import App

SHARED = {
    "arena": "run",
    "demo": "run",
    "sweep": "run",
    "report": "runs",
    "studio": "runs",
    "sweeps": "runs",
    "rlct": "llc",
}
"""Commands that live in the module of another command."""

GROUPS = {"runs": "app", "sweeps": "sweeps_app", "recipes": "app", "claims": "app", "forecast": "app", "plan": "app"}
"""Commands with sub-commands, and their app in the module. The modules of the others have a function of their name."""


def build_app(name: str, meaning: str) -> App:
    """The command line with one command, ``name``; ``meaning`` is its line in the help."""
    app = App(name="phasecast", help_format="plaintext", version_flags=[], suppress_keyboard_interrupt=False)
    module = importlib.import_module(f"phasecast.cli.{SHARED.get(name, name)}")
    if name in GROUPS:
        group = getattr(module, GROUPS[name])
        group.help = meaning
        app.command(group)
    elif name == "coefficient":
        group = module.coefficient_app()
        group.help = meaning
        app.command(group)
    else:
        app.command(getattr(module, name), help=meaning)
    return app
