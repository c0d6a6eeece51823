"""Every example in the README and in docs/ runs as printed; every page has its parts; links lead somewhere."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_the_examples_of_a_page_run_as_printed(page, tmp_path, monkeypatch):
    """As a script of their own; in this process, where what other tests compiled is at hand."""
    code = "\n".join(blocks(page, "python"))
    name = re.match(r"# (\w+\.py)\n", code)
    script = tmp_path / (name[1] if name else "example.py")
    script.write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    runpy.run_path(str(script), run_name="__main__")


def test_the_readme_shows_what_its_example_prints(capsys):
    """To the word; the numbers may differ in their last digits between machines."""
    readme = ROOT / "README.md"
    exec(compile(blocks(readme, "python")[0], "README.md", "exec"), {"__name__": "__main__"})
    shown = capsys.readouterr().out
    words = [re.sub(r"[-+]?\d\.\d+(e-\d+)?", "#", text) for text in (shown, blocks(readme, "text")[0])]
    assert words[0] == words[1]


def test_the_recipe_of_the_page_runs_sweeps_and_reports(tmp_path, command_json, monkeypatch):
    (tmp_path / "coin.py").write_text(blocks(ROOT / "docs" / "recipes.md", "python")[0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = command_json("run", "coin:RECIPE", "--set", "tosses=500")
    assert found["summary"]["verdicts"] == {"agrees": 1}
    assert Path(command_json("report", found["run"], "--allow-code")["report"]).exists()
    assert len(command_json("sweep", "coin:RECIPE", "--seeds", "2")["runs"]) == 2


def test_the_readmes_example_has_ten_lines_at_most_and_the_commands_come_first():
    text = (ROOT / "README.md").read_text()
    assert len(blocks(ROOT / "README.md", "python")[0].strip().splitlines()) <= 10
    assert text.index("make demo") < text.index("make test") < text.index("docs/images/report.png") < 1500


def test_the_sweep_of_the_page_is_a_sweep(tmp_path):
    from phasecast.lab import read_sweep

    path = tmp_path / "sweep.toml"
    path.write_text(blocks(ROOT / "docs" / "runs.md", "toml")[0])
    assert len(read_sweep(path).specs) == 5 * 2 * 2


def test_the_cluster_file_of_the_page_is_valid(tmp_path):
    from phasecast.lab.engines.dask import read_cluster

    path = tmp_path / "cluster.toml"
    path.write_text(blocks(ROOT / "docs" / "cluster.md", "toml")[0])
    assert read_cluster(path).jobs == 8


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.name)
def test_a_page_says_its_question_and_its_limits(page):
    text = page.read_text()
    assert "**The question.**" in text
    assert "**Limits.**" in text
