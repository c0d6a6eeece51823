"""Each executed page can be downloaded as a notebook with its outputs, from a link under its title."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

LOG = logging.getLogger(__name__)
FOLDER = "tutorials/"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", link)
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _executed(app: Sphinx) -> dict[str, Path]:
    """The notebooks that myst-nb wrote, by the name of their page."""
    folder = Path(app.env.mystnb_config.output_folder)  # pyright: ignore[reportAttributeAccessIssue]
    return {page: folder / f"{page}.ipynb" for page in app.env.found_docs if page.startswith(FOLDER)}


def link(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """The link, below the title."""
    if page.startswith(FOLDER) and page in _executed(app) and page != f"{FOLDER}index":
        name = page.rpartition("/")[2]
        text = f'<p class="download"><a href="{name}.ipynb" download>Download this page as a notebook</a></p>'
        context["body"] = context["body"].replace("</h1>", f"</h1>\n{text}", 1)


def copy(app: Sphinx, exception: Exception | None) -> None:
    """The notebooks beside their pages, and the time that each took."""
    if exception is not None or app.builder.format != "html":
        return
    for page, path in _executed(app).items():
        if page == f"{FOLDER}index":
            continue
        if not path.exists():
            LOG.warning("%s was not executed, so it has no notebook", page)
            continue
        shutil.copyfile(path, Path(app.outdir) / f"{page}.ipynb")
        data = app.env.nb_metadata.get(page, {}).get("exec_data") or {}  # pyright: ignore[reportAttributeAccessIssue]
        LOG.info("%s: executed in %.0f s", page, data.get("runtime") or float("nan"))
