"""Long work shows itself: after two seconds, on stderr, also while nothing is updated; quiet work does not."""

from __future__ import annotations

import io
import sys
import time

import pytest

from phasecast import progress
from phasecast.lab import run
from phasecast.progress import Plain, Silent, quietly, report_step, show_progress, shows_progress, working

pytestmark = pytest.mark.bare


@pytest.fixture
def impatient(monkeypatch):
    """Two seconds take 20 ms."""
    monkeypatch.setattr(progress, "QUIET_AT_FIRST", 0.02)
    monkeypatch.setattr(progress, "REFRESH", 0.01)


def lines(capsys) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_call_that_never_says_anything_shows_the_time(impatient, capsys):
    with working("long work"):
        time.sleep(0.2)
    first, *_ = lines(capsys)
    assert first.startswith("long work: 0s so far")


def test_a_short_call_shows_nothing(capsys):
    with working("short work"):
        report_step("anything", 1, 2)
    assert lines(capsys) == []


def test_steps_inside_show_what_how_far_and_how_long(impatient, capsys):
    with working("work", unit="draws"):
        report_step("λ̂ = 0.50 ± 0.01", 30, 60)
        time.sleep(0.2)
    assert any(line.startswith("work: 30/60 draws") and "λ̂ = 0.50 ± 0.01" in line for line in lines(capsys))


def test_false_is_silent_also_inside(impatient, capsys):
    with working("outer", False), working("inner"), show_progress("command") as shown:
        shown.say("a word")
        time.sleep(0.1)
    assert lines(capsys) == []


def test_a_call_inside_another_updates_its_line(impatient, capsys):
    with working("outer"), working("inner") as inner:
        inner.update(3, 4, "inside")
        time.sleep(0.15)
    shown = lines(capsys)
    assert all(line.startswith("outer: ") for line in shown)
    assert any("3/4" in line for line in shown)


def test_the_decorator_takes_the_keyword(impatient, capsys):
    @shows_progress("function")
    def function(x: int, *, progress: bool = True) -> int:
        time.sleep(0.1)
        return x + 1

    assert function(1, progress=False) == 2
    assert lines(capsys) == []
    assert function(1) == 2
    assert lines(capsys)[0].startswith("function: ")


def test_an_exception_ends_the_line(impatient):
    import threading

    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), working("work"):
        raise ZeroDivisionError
    assert threading.active_count() == before


def test_a_run_shows_life_before_its_first_chunk(store, impatient, capsys):
    run("walks:WALK", {"steps": 1, "pause": 0.2}, store=store)
    assert lines(capsys)[0].startswith("walks:WALK: 0s so far")


def test_quiet_commands_print_nothing_on_stderr(command, store):
    words = ("run", "walks:WALK", "--set", "steps=30", "--store", store)
    assert command(*words, "--quiet")[2] == ""
    assert command("sweep", "walks:WALK", "--set", "steps=9", "--seeds", "1", "--store", store, "--quiet")[2] == ""


def test_lines_come_when_they_are_due_and_at_the_end():
    stream = io.StringIO()
    plain = Plain("work", stream, interval=3600, first_after=3600)
    plain.update(1, 3)
    assert stream.getvalue() == ""
    plain.update(3, 3)
    plain.update(3, 3)
    assert stream.getvalue().count("\n") == 1
    assert "work: 3/3" in stream.getvalue()


def test_names_of_others_cannot_steer_the_terminal(capsys, monkeypatch):
    Plain("x", sys.stderr).say("\x1b[31mred\x07")
    assert "\x1b" not in capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with show_progress("[bold]name[/bold]\x1b[31m") as bar:
        bar.say("[red]words[/red]")
    err = capsys.readouterr().err
    assert "[red]words[/red]" in err
    assert "[bold]name[/bold]" in err


def test_quietly_holds_for_everything_inside(impatient, capsys):
    with quietly(), show_progress("command") as shown:
        assert isinstance(shown, Silent)
        shown.update(1, 1)
    assert lines(capsys) == []
