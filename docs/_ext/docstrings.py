"""Docstrings as they stand in the code, made fit for reStructuredText.

The code is written for people: ``|w − w*|²`` is a distance, not markup. Stars and bars outside of literals are
escaped, a section "Parameters" becomes a list, and a role leads to the page of a public name or is shown as code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from public_names import public_names

KEPT = re.compile(r"(``.+?``|:[a-z:]+:`[^`]+`|`[^`]+`_{0,2}|\*\*[^*\s][^*]*\*\*|(?<!\S)\*[^*\s][^*]*\*(?=[\s.,;:)]|$))")
MARKS = re.compile(r"([*|]|(?<=\w)_(?!\w))")  # an underscore at the end of a word would be a reference
ROLE = re.compile(r":(?:py:)?(?:class|func|meth|data|attr|mod|obj|exc):`~?\.?([^`<]+)`")
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)\s*:\s*(.*)$")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", process)
    app.connect("missing-reference", type_in_a_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def process(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Rewrite the lines of one docstring in place."""
    lines[:] = list(_markup(list(_parameters(lines))))


def _parameters(lines: list[str]) -> Iterator[str]:
    """A section of ``name: meaning`` entries as a list."""
    inside = False
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if re.fullmatch(r"-{3,}", line.strip()) and inside:
            continue
        if line.strip() in ("Parameters", "Attributes", "Returns", "Notes") and re.fullmatch(
            r"-{3,}", following.strip()
        ):
            inside = True
            yield from (f".. rubric:: {line.strip()}", "")
        elif inside and (entry := ENTRY.match(line)):
            names = ", ".join(f"``{part}``" for part in entry[1].split(", "))
            yield f"- {names}: {entry[2]}"
        elif inside and line.startswith(" "):
            yield f"  {line.strip()}"
        else:
            inside = inside and (not line.strip() or bool(ENTRY.match(line)))
            yield line


def _markup(lines: list[str]) -> Iterator[str]:
    """Text with its stars and bars escaped; doctests, tables, directives and literal blocks as they are."""
    verbatim: int | None = None  # the indentation that opened a directive or a literal block
    doctest = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        doctest = line.lstrip().startswith(">>>") or (doctest and bool(line.strip()))
        if verbatim is not None and line.strip() and indent <= verbatim:
            verbatim = None
        if verbatim is None and not doctest:
            directive = line.lstrip().startswith(".. ")
            if directive or line.rstrip().endswith("::"):
                verbatim = indent
            yield line if directive else _escaped(line)
        else:
            yield line


def _escaped(line: str) -> str:
    parts = KEPT.split(line)
    return "".join(_role(part) if place % 2 else MARKS.sub(r"\\\1", part) for place, part in enumerate(parts))


def _role(part: str) -> str:
    """A role that leads somewhere, or a literal."""
    match = ROLE.fullmatch(part)
    if match is None:
        return part if not (part.startswith("`") and not part.startswith("``")) else f"``{part.strip('`_')}``"
    target = match[1].removesuffix("()")
    names = public_names()
    full = names.get(target) or names.get(target.rpartition(".")[2])
    if full is None or (target.startswith("phasecast.") and not full.endswith(target.rpartition(".")[2])):
        return f"``{target}``"
    return f":py:obj:`~{full}`"


def type_in_a_signature(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, contnode: nodes.Element
) -> nodes.Element | None:
    """A type that has no page is shown as text; every other reference that leads nowhere stays an error."""
    return contnode if node.get("refdomain") == "py" and node.get("reftype") in ("class", "obj") else None
