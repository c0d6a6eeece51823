"""``phasecast demo``: the main job of the library in about a minute."""

from __future__ import annotations

from phasecast.cli.options import Stored
from phasecast.cli.output import emit, exit_code, interruption_as_json


def demo(*, options: Stored = Stored()) -> int:
    from phasecast.demonstration import demo as compute
    from phasecast.lab import Store, load

    with interruption_as_json(options):
        path = compute(store=options.store)
    emit({"report": str(path)}, f"report: {path}", options)
    return exit_code(load(path.parent.name, store=Store.of(options.store)).status)
