"""``phasecast studio``: runs, theory with sliders, forecasts and claims in the browser."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from phasecast.cli.options import Stored
from phasecast.cli.output import emit


def studio(
    *,
    port: Annotated[
        int | None, Parameter(help="port on 127.0.0.1; defaults to the first free one from 8501 on")
    ] = None,
    allow_code: Annotated[
        bool, Parameter(negative=(), help="allow pages to import your own code; only for stores that you trust")
    ] = False,
    options: Stored = Stored(),
) -> int:
    from phasecast.lab.store import Store
    from phasecast.studio.server import ADDRESS, check_installed, free_port, serve

    check_installed()
    store = Store(options.store)
    chosen = free_port(port)
    address = f"http://{ADDRESS}:{chosen}"
    text = f"studio: {address}\n  runs in {store.path}\n  Ctrl-C stops the studio; runs that it started go on"
    emit({"studio": address, "store": str(store.path)}, text, options)
    return serve(store.path, chosen, allow_code=allow_code)
