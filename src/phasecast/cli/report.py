"""``phasecast report``: the HTML page of a run or a sweep."""

from __future__ import annotations

from phasecast.cli.options import Stored
from phasecast.cli.output import emit


def report(run: str, /, *, options: Stored = Stored()) -> int:
    """Write the page of a run or a sweep.

    Parameters
    ----------
    run
        the id of a run or a sweep, or the beginning of it
    """
    from phasecast.lab import Store, load
    from phasecast.report import write, write_sweep

    store = Store(options.store)
    path = write_sweep(run, store) if run.startswith("sweep-") else write(load(run, store=store))
    emit({"report": str(path)}, str(path), options)
    return 0
