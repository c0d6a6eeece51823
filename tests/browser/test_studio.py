"""The studio in a real browser: every page, a run from its form to its report, what goes wrong, and what must not."""

from __future__ import annotations

import json
import os
import re
import signal
import time

import pytest
from playwright.sync_api import expect  # pyright: ignore[reportMissingImports]

from browsing import PATIENCE, Guard, Studio
from phasecast.lab import Store, run
from phasecast.lab.store import run_id

pytestmark = pytest.mark.timeout(240)
expect.set_options(timeout=PATIENCE)

PAGES = {
    "": "Runs",
    "start": "Start a run",
    "run": "One run",
    "curve": "Learning curve",
    "threshold": "Threshold",
    "coefficient": "Exact coefficients",
    "basins": "Basin competition",
    "forecast": "Forecast",
    "claims": "Claims",
}


def settle(page) -> None:
    """Wait until the server has drawn the whole page."""
    expect(page.locator("[data-testid=stApp]")).to_have_attribute("data-test-script-state", "notRunning")
    expect(page.locator("[data-testid=stSkeleton], [data-testid=stSpinner]")).to_have_count(0)


def heading(page, text: str):
    return page.get_by_role("heading", name=re.compile(re.escape(text))).first


def sentence(page, text: str):
    """The sentence of a run's conclusion; its log may show the same words."""
    return page.locator(".pc-sentence").get_by_text(text).first


def fill(page, label: str, value: object) -> None:
    box = page.get_by_label(label, exact=True).first
    box.fill(str(value))
    box.press("Tab")


def start_walk(page, **fields: object) -> str:
    """Start a walk from the form; the id of the run, which is in the address."""
    fill(page, "Your own recipe", "walks:WALK")
    expect(page.get_by_text("Where does a random walk go?").first).to_be_visible()
    for name, value in fields.items():
        fill(page, name, value)
    settle(page)  # a click while the form is drawn again would be lost
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url("**/run?run=walks-WALK-*")
    return page.url.partition("run=")[2]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_opens(tab, path):
    page = tab(path)
    expect(heading(page, PAGES[path])).to_be_visible()
    settle(page)


def test_a_run_goes_from_its_form_to_its_report(tab, studio, tmp_path):
    page = tab("start")
    identity = start_walk(page, steps=40)
    expect(sentence(page, "A walk was taken.")).to_be_visible()
    expect(heading(page, identity)).to_contain_text("ok")
    page.get_by_role("button", name="Write report").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download report").click()
    download.value.save_as(tmp_path / "report.html")
    assert "A walk was taken." in (tmp_path / "report.html").read_text()
    assert Store(studio.store).folder(identity).report.exists()


def test_a_wrong_field_is_said_in_one_line_and_nothing_starts(tab, studio):
    page = tab("start")
    expect(page.get_by_label("fraction", exact=True)).to_be_visible()
    before = len(list(Store(studio.store).statuses()))
    fill(page, "fraction", 7)
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.locator("[data-testid=stAlert]")).to_contain_text("fraction")
    assert "/start" in page.url
    assert len(list(Store(studio.store).statuses())) == before


def test_a_run_is_live_survives_a_reload_and_is_stopped_and_resumed(tab, studio):
    page = tab("start")
    identity = start_walk(page, steps=120, pause=0.1)
    expect(heading(page, identity)).to_contain_text("running")
    expect(page.locator("[data-testid=stVegaLiteChart]").first).to_be_visible()
    first = _done(studio, identity)
    page.reload()
    expect(heading(page, identity)).to_contain_text("running")
    page.get_by_role("button", name="Stop").click()
    expect(heading(page, identity)).to_contain_text("interrupted")
    stopped = _done(studio, identity)
    assert first <= stopped < 120
    page.get_by_role("button", name="Resume").click()
    expect(sentence(page, "A walk was taken.")).to_be_visible()
    assert Store(studio.store).folder(identity).status()["attempts"] == 2


def _done(studio: Studio, identity: str) -> int:
    return Store(studio.store).folder(identity).status()["done"]


def test_a_killed_studio_loses_nothing(tab, tmp_path):
    own = Studio(tmp_path / "runs", "--allow-code")
    page = tab("start", origin=own.origin)
    identity = start_walk(page, steps=30, pause=0.1)
    folder = Store(own.store).folder(identity)
    _wait(lambda: folder.exists)
    page.goto("about:blank")  # the page would complain that its server is gone
    os.killpg(own.process.pid, signal.SIGKILL)
    own.process.communicate()
    _wait(lambda: folder.status()["status"] == "ok")


def _wait(happens) -> None:
    until = time.monotonic() + PATIENCE / 1000
    while not happens():
        assert time.monotonic() < until
        time.sleep(0.2)


@pytest.mark.parametrize("path", ["", "start", "basins", "claims"])
def test_a_narrow_screen_needs_no_sideways_scrolling(tab, path):
    page = tab(path, width=390)
    expect(heading(page, PAGES[path])).to_be_visible()
    settle(page)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390


def test_a_formula_that_is_wider_than_the_screen_has_several_lines(tab):
    page = tab("coefficient", width=390)
    formulas = page.locator(".katex-display")
    expect(formulas.first).to_be_visible()
    settle(page)
    hidden = formulas.evaluate_all("all => all.map(one => one.scrollWidth - one.clientWidth)")
    assert max(hidden) <= 0
    heights = formulas.evaluate_all("all => all.map(one => one.clientHeight)")
    assert max(heights) > 2 * min(heights), "no formula is wide, so that this test shows nothing"


def test_the_first_page_has_a_name_too(tab):
    page = tab("runs")
    expect(heading(page, "Runs")).to_be_visible()
    settle(page)
    expect(page.get_by_text("Page not found")).to_have_count(0)


def test_dark_mode_is_dark_and_its_figures_are_legible(tab):
    page = tab("basins", dark=True)
    figure = page.locator("[data-testid=stImage] img").first
    expect(figure).to_be_visible()
    red, green, blue = map(int, re.findall(r"\d+", page.evaluate(
        "getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"))[:3])  # fmt: skip
    assert max(red, green, blue) < 60
    assert page.evaluate("fetch(document.querySelector('[data-testid=stImage] img').src).then(r => r.text())").count(
        "#e4eaf1"
    )


def test_an_exact_coefficient_follows_its_inputs(tab):
    page = tab("coefficient")
    expect(page.get_by_text("learning coefficient λ").first).to_be_visible()
    before = page.locator(".pc-number").first.inner_text()
    fill(page, "rank", 1)
    expect(page.locator(".pc-number").first).not_to_have_text(before)


def test_several_runs_are_compared(tab, studio):
    for steps in (21, 22):
        run("walks:WALK", {"steps": steps}, store=studio.store, quiet=True)
    page = tab()
    grid = page.locator("[data-testid=stDataFrame] canvas").first
    expect(grid).to_be_visible()
    settle(page)
    box = grid.bounding_box()
    for row in (1, 2):  # the boxes in front of the first two rows, below the head
        page.mouse.click(box["x"] + 18, box["y"] + 35 * row + 18)
        settle(page)
    expect(page.get_by_text("Compare", exact=True)).to_be_visible()
    expect(page.locator("[data-testid=stVegaLiteChart]").first).to_be_visible()


HOSTILE = (
    "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>\x1b[31mred\x1b[0m "
    "![](http://evil.example/a.png) [link](javascript:window.hacked=1) $x$ :red[y] " + "long" * 400
)


def test_hostile_names_are_shown_inert(tab, studio):
    done = run("walks:WALK", {"steps": 5}, store=studio.store, quiet=True)
    status = json.loads((done.path / "status.json").read_text())
    spec = json.loads((done.path / "spec.json").read_text())
    spec |= {"recipe": HOSTILE[:200], "spec": {"<b>p</b>": HOSTILE}}
    identity = run_id(spec["recipe"], 1, spec["spec"], spec["contents"])
    folder = Store(studio.store).folder(identity)
    folder.path.mkdir()
    (folder.path / "spec.json").write_text(json.dumps(spec))
    status |= {"run": identity, "recipe": spec["recipe"], "status": "failed", "error": HOSTILE, "summary": None}
    folder.write_status({name: value for name, value in status.items() if name not in ("digest", "seal")})
    folder.log(HOSTILE, note=HOSTILE)
    expect(heading(tab(), "Runs")).to_be_visible()
    page = tab(f"run?run={identity}")
    expect(page.locator("[data-testid=stAlert]").first).to_contain_text("<img src=x")
    for name in ("Spec", "Log"):
        page.get_by_role("tab", name=name).click()
        settle(page)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src*=evil], a[href*=javascript]").count() == 0


@pytest.mark.parametrize(
    "broken",
    [
        "<script>console.error('broken')</script>",
        "<script>throw new Error('broken')</script>",
        "<img src='http://127.0.0.1:9/elsewhere.png'>",
        "<div data-testid=stException>ZeroDivisionError</div>",
    ],
)
def test_the_guard_notices_a_broken_page(chromium, broken):
    """The negative control: without it, a guard that sees nothing would pass every test above."""
    page = chromium.new_page()
    guard = Guard(page, "http://127.0.0.1:1")
    page.set_content(f"<html><body>{broken}</body></html>")
    page.wait_for_timeout(200)
    with pytest.raises(AssertionError):
        guard.check()
    page.close()


def test_a_page_that_fails_is_noticed(chromium, tmp_path):
    """The same for the studio itself: a store that is a file cannot be shown, and its page must say so."""
    own = Studio(tmp_path / "runs")
    (tmp_path / "runs").write_text("not a folder")
    page = chromium.new_page()
    page.goto(own.origin)
    expect(page.locator("[data-testid=stAlert], [data-testid=stException]").first).to_be_visible(timeout=PATIENCE)
    page.close()
    own.end()


def test_the_answers_of_a_run_fit_a_narrow_screen(tab, studio):
    done = run("walks:WALK", {"steps": 33}, store=studio.store, quiet=True)
    page = tab(f"run?run={done.id}", width=390)
    table = page.locator(".pc-table").first
    expect(table.locator("td").first).to_be_visible()
    settle(page)
    hidden = table.evaluate("one => one.parentElement.scrollWidth - one.parentElement.clientWidth")
    assert hidden <= 0
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390


def test_a_figure_of_two_panels_is_legible_on_a_narrow_screen(tab):
    """It keeps the size of its letters, and is moved sideways below the page's edge."""
    page = tab("threshold", width=390)
    figure = page.locator("[data-testid=stImage] img").first
    expect(figure).to_be_visible()
    settle(page)
    assert figure.bounding_box()["width"] >= 600
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
