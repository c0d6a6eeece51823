"""The documentation site without building it: pages are reached, and printed symbols are in the glossary."""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

import phasecast
from phasecast.core.results import Measurement, Status, Verdict

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "phasecast"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md"), *DOCS.glob("reference/*.md")])
TUTORIALS = [page for page in DOCS.glob("tutorials/*.md") if page.name != "index.md"]
SYMBOL = re.compile(r"[Α-Ωα-ω][\u0302-\u0304]?(?:[₀-₉]+|\*|_[A-Za-z]+)*")
PRINTED = ("_rows", "__str__", "closing_rows")
DRAWN = ("set_xlabel", "set_ylabel", "set_title", "annotate")


def entries(page: Path) -> list[str]:
    """The pages that the toctrees of a page lead to."""
    text = page.read_text()
    found = []
    for body in re.findall(r"^```\{toctree\}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        lines = [line.strip() for line in body.splitlines() if line.strip() and not line.startswith(":")]
        found += [(page.parent / line).resolve().relative_to(DOCS.resolve()).as_posix() for line in lines]
    return found


def test_every_page_is_in_one_toctree():
    listed = [entry for page in PAGES for entry in entries(page)]
    assert len(listed) == len(set(listed))
    written = {page.relative_to(DOCS).with_suffix("").as_posix() for page in PAGES}
    assert written - {"index"} == {entry for entry in listed if not entry.startswith("_generated/")}


def test_the_toctrees_name_every_page_that_the_build_writes():
    packages = runpy.run_path(str(DOCS / "_ext" / "public_names.py"))["PACKAGES"]
    papers = [path.parent.name for path in SOURCE.glob("claims/*/claims.toml")]
    wanted = {f"_generated/reference/{name}" for name in packages} | {f"_generated/claims/{name}" for name in papers}
    wanted.add("_generated/changelog")
    assert wanted == {entry for page in PAGES for entry in entries(page) if entry.startswith("_generated/")}


def test_the_reference_has_every_public_package():
    packages = runpy.run_path(str(DOCS / "_ext" / "public_names.py"))["PACKAGES"]
    names = [name for name in phasecast.__all__ if (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").exists()]
    assert {f"phasecast.{name}" for name in names} == set(packages) - {"phasecast"}


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_links_of_a_tutorial_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_is_a_notebook_with_a_question_and_its_limits(page):
    text = page.read_text()
    assert text.startswith("---\nfile_format: mystnb\n")
    assert "**The question.**" in text
    assert "**Limits.**" in text
    cells = re.findall(r"^```\{code-cell\} python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    assert len(cells) >= 4
    for cell in cells:
        ast.parse(re.sub(r"^[:%!].*$", "", cell, flags=re.MULTILINE))  # without tags, magics and commands


def terms() -> set[str]:
    found = set()
    text = (DOCS / "glossary.md").read_text()
    for body in re.findall(r"^```\{glossary\}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        found |= {line.replace("\\", "") for line in body.splitlines() if line and not line.startswith(" ")}
    return found


def texts(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def shown(tree: ast.Module) -> Iterator[str]:
    """What a module prints as a row or a name, or writes on an axis."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            for argument in node.args if called in DRAWN else ():
                yield from texts(argument)
            for keyword in node.keywords:
                if keyword.arg in ("name", "label", "xlabel", "ylabel"):
                    yield from texts(keyword.value)
        if isinstance(node, ast.FunctionDef) and node.name in PRINTED:
            for line in node.body[1:] if ast.get_docstring(node) else node.body:
                yield from texts(line)


def symbols() -> set[str]:
    files = [path for path in SOURCE.rglob("*.py") if "counterexamples" not in path.parts]
    return {symbol for path in files for text in shown(ast.parse(path.read_text())) for symbol in SYMBOL.findall(text)}


def test_the_glossary_has_every_symbol_that_the_code_prints():
    collected = symbols()
    assert {
        "λ",
        "λ̂",
        "δ*",
        "δ_NN",
        "δ₅₀",
        "δ_alg",
        "ε",
        "τ",
        "γ",
        "ν",
        "α",
    } <= collected  # the search sees what it should
    assert collected - terms() == set()


def test_the_glossary_has_the_words_of_results_and_runs():
    words = {*Status, *Verdict, *Measurement.ERROR_KINDS, "nβ", "m", "r", "margin", "ε_g", "val50", "val95", "train99"}
    words |= {"K_eff", "gsm", "value_min", "value_var", "WAIC", "LOO", "R-hat", "ESS", "coverage", "tier"}
    assert {str(word) for word in words} - terms() == set()


def test_a_page_that_loads_a_script_from_elsewhere_is_noticed(tmp_path):
    check = runpy.run_path(str(DOCS / "check_offline.py"))
    page = tmp_path / "index.html"
    page.write_text(
        '<a href="https://a.b">a link to click</a><img src="x.png"><link rel="canonical" href="https://a.b">'
    )
    assert check["main"](tmp_path) == 0
    for bad in (
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/y.css">',
        "<style>@import 'https://fonts.example/z.css';</style>",
        '<img src="https://a.b/x.png">',
    ):
        page.write_text(bad)
        assert check["main"](tmp_path) == 1, bad
