"""Pages written by the build: the reference from docstrings, one page per paper from its claims, and the changes.

They go to ``docs/_generated``; a page is only written where its text changes, so that a second build is quick.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from sphinx.application import Sphinx

import phasecast
from phasecast.core.claim import Claim, ClaimVerdict
from public_names import PACKAGES, members

CHANGES = Path(__file__).parents[2] / "CHANGELOG.md"
CLAIMS = Path(phasecast.__file__).parent / "claims"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    app.connect("source-read", link_to_changes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "_generated"
    pages = {f"reference/{package}.rst": "\n".join(reference_page(package)) for package in PACKAGES}
    for file in sorted(CLAIMS.glob("*/claims.toml")):
        pages[f"claims/{file.parent.name}.rst"] = "\n".join(claims_page(file))
    pages["changelog.md"] = CHANGES.read_text().replace("](docs/", "](../")
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    for path in folder.rglob("*.*"):
        if path.relative_to(folder).as_posix() not in pages:
            path.unlink()


def link_to_changes(app: Sphinx, page: str, source: list[str]) -> None:
    """The list of changes is above the folder of the site; its page is a copy."""
    source[0] = source[0].replace("](../CHANGELOG.md)", "](_generated/changelog.md)")


def reference_page(package: str) -> Iterator[str]:
    """Every public name of a package with its types, formula and source, as its docstring has them."""
    yield from _heading(package, "=")
    yield from (f".. automodule:: {package}", "")
    for name, value in sorted(members(package).items(), key=lambda item: (inspect.isclass(item[1]), item[0])):
        path = f"{package}.{name}"
        if inspect.isclass(value):
            yield from (f".. {'autoexception' if issubclass(value, BaseException) else 'autoclass'}:: {path}",)
            yield from ("   :members:", "")
        elif inspect.isroutine(value):
            yield from (f".. autofunction:: {path}", "")
        else:
            yield from (f".. py:data:: {path}", "", f"   {_contents(value)}", "")


def _contents(value: object) -> str:
    """What a public constant holds: the keys of a dictionary, or the kind of thing it is."""
    if isinstance(value, Mapping):
        return "A dictionary with the keys " + ", ".join(f"``{key}``" for key in value) + "."
    return f"A ``{type(value).__name__}``."


def claims_page(file: Path) -> Iterator[str]:
    """What one paper claims and what we found: statement, verdict, reason, our version, counterexample."""
    from phasecast.claims.registry import all_claims

    paper = tomllib.loads(file.read_text())["paper"]
    claims = [claim for claim in all_claims().values() if claim.id.startswith(f"{paper['name']}/")]
    counts = Counter(claim.verdict for claim in claims)
    yield from _heading(f"{paper['name']}: {paper['title']}", "=")
    yield from (f"{_plain(paper['cite'])}. {len(claims)} claims:", "")
    yield from (f"- {counts[verdict]} × {verdict}" for verdict in ClaimVerdict if counts[verdict])
    yield from ("", "What the verdicts mean is said under :doc:`/claims`.", "")
    for claim in claims:
        yield from _claim(claim)


def _claim(claim: Claim) -> Iterator[str]:
    yield from _heading(claim.id, "-")
    note = " (exploratory: the criterion was chosen when results were known)" * claim.exploratory
    role = str(claim.verdict).replace(" ", "-")
    yield from (f".. rst-class:: verdict {role}", "", f"{claim.verdict}{note}", "")
    parts = {"Source": claim.source, "Statement": claim.statement, "Why": claim.why, "Ours": claim.ours}
    for label, text in {**parts, "Criterion": claim.criterion}.items():
        if text:
            yield from (f"**{label}.** {_plain(text)}", "")
    if claim.counterexample:
        yield from ("A counterexample that runs:", "", ".. code-block:: python", "")
        yield from (f"   {line}" for line in claim.counterexample.rstrip().splitlines())
        yield ""
    yield from (f"``phasecast claims verify {claim.id}`` checks it again.", "")


def _heading(text: str, line: str) -> tuple[str, ...]:
    return (_plain(text), line * (2 * len(text)), "")


def _plain(text: str) -> str:
    """Text of any kind as one paragraph in which no character is markup."""
    return re.sub(r"([\\*`|_<>\[\]])", r"\\\1", re.sub(r"\s+", " ", text).strip())
