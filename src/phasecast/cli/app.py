"""Which function answers a command? The one its module holds; only the module of the command in use is imported."""

from __future__ import annotations

import importlib

from cyclopts import App

SHARED = {"arena": "run", "demo": "run", "sweep": "run", "report": "runs", "rlct": "llc"}
"""Commands that live in the module of another command."""

GROUPS = ("runs", "recipes", "claims", "forecast", "plan")
"""Commands with sub-commands: their module has an ``app``. The modules of the others have a function of their name."""


def build_app(name: str, meaning: str) -> App:
    """The command line with one command, ``name``; ``meaning`` is its line in the help."""
    app = App(name="phasecast", help_format="plaintext", version_flags=[], suppress_keyboard_interrupt=False)
    module = importlib.import_module(f"phasecast.cli.{SHARED.get(name, name)}")
    if name in GROUPS:
        module.app.help = meaning
        app.command(module.app)
    elif name == "coefficient":
        group = module.coefficient_app()
        group.help = meaning
        app.command(group)
    else:
        app.command(getattr(module, name), help=meaning)
    return app
