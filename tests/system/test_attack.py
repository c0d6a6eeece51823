"""Bad inputs by class, a share of what ``benchmarks/attack.py`` tries; and whether it notices what it looks for."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import bad_inputs

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["weights", "logs", "names"])
def test_cheap_inputs_are_answered_or_refused_in_one_line(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    for name, question in bad_inputs.inputs():
        if name == kind:
            outcome = bad_inputs.obey(question) if isinstance(question, list) else bad_inputs.ask(question, tmp_path)
            assert outcome in ("fine", "one line"), (question, outcome)


@pytest.mark.parametrize(("kind", "share"), [("record", 12), ("resume", 12), ("link", 1)])
def test_damaged_stores_are_answered_truly_or_refused(tmp_path, monkeypatch, kind, share):
    monkeypatch.chdir(tmp_path)
    questions = [question for _, question in bad_inputs.inputs() if question[0] == kind]
    for question in questions[::share] if kind != "link" else questions[:8]:
        outcome = bad_inputs.ask(question, tmp_path)
        assert outcome in ("fine", "one line"), (question, outcome)


def test_there_are_two_thousand_inputs_of_every_class():
    classes = Counter(kind for kind, _ in bad_inputs.inputs())
    assert classes.total() >= 2000
    assert min(classes.values()) >= 40


def test_a_process_that_dies_or_hangs_is_counted_to_its_input_and_replaced(tmp_path, monkeypatch):
    """The control: an abort, a loop without a word, and then an ordinary input."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import attack
    from attack import Tally, Worker

    monkeypatch.setattr(attack, "PATIENCE", 1.0)
    worker = Worker(str(tmp_path))
    try:
        dies = ("factory", "import os\ndef loss(w): os.abort()", "np.zeros(3)", "None")
        deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
        loops = ("factory", deaf, "np.zeros(3)", "None")
        answers = [worker.ask(dies, 60), worker.ask(loops, 3), worker.ask(["runs", "show", ".."], 60)]
    finally:
        worker.stop()
    assert answers[0] == "killed (SIGABRT)"
    assert str(answers[1]).startswith("hang")
    assert answers[2] == "one line"
    tally = Tally()
    for answer in answers:
        tally.add("user code", dies, str(answer))
    assert len(tally.failures) == 2
    assert "os.abort" in str(tally)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_share_of_all_attacks_finds_nothing():
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "attack.py", "--share", "15"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "all" in done.stdout
