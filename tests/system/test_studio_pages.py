"""Every page of the studio draws itself, without a browser."""

from __future__ import annotations

import sys
import warnings

import pytest

pytest.importorskip("streamlit")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from streamlit.testing.v1 import AppTest

from phasecast.lab import run
from phasecast.studio.server import ALLOW_CODE

PAGES = [("runs", "page"), ("start", "page"), ("open_run", "page"), ("explore", "coefficient"), ("explore", "basins"),
         ("forecast", "page"), ("claims", "page")]  # fmt: skip


@pytest.fixture(autouse=True)
def _main_module_stays(monkeypatch):
    """AppTest puts the page it runs in place of ``__main__``, which processes started later would try to import."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


def draw(module: str, function: str, chosen: str | None = None) -> None:
    import importlib

    import streamlit as st

    if chosen:
        st.session_state["run"] = chosen
    getattr(importlib.import_module(f"phasecast.studio.views.{module}"), function)()


@pytest.fixture
def opened(store, monkeypatch):
    """A function that draws a page over the store of the test."""
    monkeypatch.setenv("PHASECAST_STORE", str(store))
    monkeypatch.setenv(ALLOW_CODE, "1")

    def page(module: str, function: str = "page", chosen: str | None = None) -> AppTest:
        app = AppTest.from_function(
            draw, kwargs={"module": module, "function": function, "chosen": chosen}, default_timeout=100
        )
        app.run()
        assert not app.exception, [problem.value for problem in app.exception]
        return app

    return page


@pytest.mark.parametrize(("module", "function"), PAGES)
def test_a_page_draws_itself_over_an_empty_store(opened, module, function):
    opened(module, function)


def test_a_finished_run_is_shown_with_its_sentence_answers_and_figures(opened, store):
    done = run("walks:WALK", {"steps": 30}, store=store, quiet=True)
    page = opened("open_run", chosen=done.id)
    shown = " ".join(element.body for element in page.get("html"))
    assert "A walk was taken." in shown
    assert ">mean step</td>" in shown
    assert not page.error
    assert list(opened("runs").dataframe[0].value["run"]) == [done.id]


def test_a_run_whose_recipe_may_not_be_imported_is_shown_as_stored(opened, store, monkeypatch):
    done = run("walks:WALK", {"steps": 30}, store=store, quiet=True)
    monkeypatch.setenv(ALLOW_CODE, "")
    page = opened("open_run", chosen=done.id)
    assert any(">mean step" in element.body for element in page.get("html"))
    assert any("allow" in problem.value for problem in page.error)  # its figures would need the code


def test_wrong_settings_are_one_line(opened):
    page = opened("start")
    page.number_input(key="grokking-defaults-fraction").set_value(7.0)
    page.button[0].click().run()
    assert len(page.error) == 1
    assert "fraction" in page.error[0].value


def test_claims_are_filtered(opened):
    page = opened("claims")
    every = len(page.dataframe[0].value)
    page.multiselect[1].set_value(["does not hold"]).run()
    some = page.dataframe[0].value
    assert 0 < len(some) < every
    assert set(some["verdict"]) == {"does not hold"}


def test_a_coefficient_follows_its_inputs(opened):
    page = opened("explore", "coefficient")
    page.selectbox[0].set_value("tanh").run()
    assert any("5/3" in element.body or "1" in element.body for element in page.get("html"))
    page.number_input[0].set_value(2).run()
    assert any("2/3" in element.body for element in page.get("html"))
