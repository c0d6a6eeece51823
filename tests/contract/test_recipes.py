"""What every registered recipe must do: run small, resume to the same bits, report, and round-trip its spec."""

from __future__ import annotations

import html
import json
import math
import os
import re
import signal
from dataclasses import replace
from html.parser import HTMLParser
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasecast import report
from phasecast.core import Comparison, Measurement, Prediction
from phasecast.core.errors import BadInput, RunInterrupted
from phasecast.lab import RECIPES, Chunk, Recipe, Run, Spec, Store, find_recipe, load, make_sweep, run
from phasecast.lab.runs import execute, identify
from phasecast.lab.spec import make_spec, parse_assignments, parse_axes

TINY = [
    "arena",
    "claim-check",
    "feature-diagram",
    "feature-grokking",
    pytest.param("feature-overlap", marks=pytest.mark.bare),
    "feature-scan",
    "feature-spectrum",
    "feature-success",
    "generalisation",
    pytest.param("grokking", marks=pytest.mark.bare),
    "grokking-bank",
    "grokking-coefficient",
    pytest.param("grokking-data", marks=pytest.mark.bare),
    "grokking-mirror",
    "grokking-sampler",
    pytest.param("grokking-severity", marks=pytest.mark.bare),
    "grokking-width",
    "learning-curves",
    pytest.param("linear-features", marks=pytest.mark.bare),
    pytest.param("llc", marks=pytest.mark.bare),
    "rlct-linear",
    "rlct-relu",
    pytest.param("scaling-figure", marks=pytest.mark.bare),
    pytest.param("toy-landscapes", marks=pytest.mark.bare),
]


@pytest.mark.bare
def test_every_recipe_is_run_here():
    assert sorted(getattr(case, "values", [case])[0] for case in TINY) == sorted(RECIPES)


@pytest.fixture(params=RECIPES)
def recipe(request):
    return find_recipe(request.param)


class Tiny(NamedTuple):
    """A recipe run with its own small setting, and how far each of its chunks said it was."""

    recipe: Recipe
    run: Run
    steps: list[tuple[int, int | None]]


@pytest.fixture(scope="module", params=TINY)
def tiny(request, tmp_path_factory):
    recipe, steps = find_recipe(request.param), []

    def work(spec, state):
        for chunk in recipe.work(spec, state):
            assert isinstance(chunk, Chunk)
            steps.append((chunk.done, chunk.total))
            yield chunk

    store = Store(tmp_path_factory.mktemp("runs"))
    done = execute(replace(recipe, work=work), make_spec(recipe.spec, recipe.tiny), store)
    return Tiny(recipe, done, steps)


@pytest.mark.bare
def test_it_asks_a_question_and_describes_every_field(recipe):
    assert recipe.question.endswith("?")
    undescribed = [name for name, info in recipe.spec.model_fields.items() if not info.description]
    assert undescribed == []


@pytest.mark.bare
def test_its_spec_is_frozen_and_forbids_what_it_does_not_know(recipe):
    spec = make_spec(recipe.spec, recipe.tiny)
    with pytest.raises(ValueError, match="frozen"):
        spec.seed = 3
    with pytest.raises(BadInput, match="unknown field"):
        make_spec(recipe.spec, {"surely_not_a_field": 1})


@pytest.mark.bare
def test_its_spec_survives_json(recipe):
    spec = make_spec(recipe.spec, recipe.tiny)
    again = make_spec(recipe.spec, json.loads(json.dumps(spec.model_dump(mode="json"))))
    assert again == spec
    assert identify(recipe, again) == identify(recipe, spec)


def test_it_runs_and_concludes(tiny):
    assert tiny.run.status in ("ok", "warning", "refused")
    answers = tiny.run.conclusion().answers
    assert answers
    assert all(isinstance(answer.result, Comparison | Measurement | Prediction) for answer in answers)
    loaded = load(tiny.run.id, store=tiny.run.store)  # concludes from the stored arrays
    assert tiny.run.summary == json.loads(json.dumps(loaded.conclusion().summary()))


def test_a_solved_equation_is_not_shown_as_measured(tiny):
    """A numerical integral is a measurement of λ in one study only, whose subject are such integrals."""
    for row in tiny.run.conclusion().rows():
        if row.measurement and row.measurement.error_kind == "quadrature" and tiny.recipe.name != "toy-landscapes":
            assert row.theory
            assert not row.measured


class _PressCtrlC:
    """Asks to stop after some chunks, the first among them, but not after the last."""

    def __init__(self, chunks):
        self.after = set(range(1, chunks, max(1, math.ceil((chunks - 1) / MOST_STOPS))))

    def update(self, done, total, metric=None):
        if done in self.after:
            os.kill(os.getpid(), signal.SIGINT)

    def say(self, line):
        return None


MOST_STOPS = 5


def test_it_resumes_from_any_of_its_chunks_to_the_same_bits(tiny, tmp_path):
    """Stop after one chunk after another, evenly over the run, and go on from the checkpoint."""
    spec = make_spec(tiny.recipe.spec, tiny.recipe.tiny)
    press = _PressCtrlC(tiny.run.folder.status()["done"])
    stopped = 0
    while True:
        try:
            resumed = execute(tiny.recipe, spec, Store(tmp_path), progress=press)
            break
        except RunInterrupted:
            stopped += 1
    assert stopped == len(press.after)
    for node in tiny.run.results().subtree:
        if node.name == "clock":  # seconds are measured, not computed
            continue
        for name, variable in node.to_dataset().data_vars.items():
            np.testing.assert_array_equal(variable.values, resumed.results()[f"{node.path}/{name}"].values)


def test_its_chunks_count_up_to_their_total(tiny):
    done = [step for step, _ in tiny.steps]
    assert done == sorted(set(done))
    assert tiny.steps[-1][1] in (None, done[-1])


class _Page(HTMLParser):
    """Collects what a page would ask from elsewhere, and checks that tags close."""

    def __init__(self):
        super().__init__()
        self.asks: list[str] = []
        self.downloads: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "link", "br", "img", "use", "path", "input", "hr"):
            self.open.append(tag)
        if tag == "a" and "download" in dict(attrs) and (dict(attrs)["href"] or "").startswith("data:"):
            self.downloads.append(dict(attrs)["download"] or "")  # inside the page
            return
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "action") and value and not value.startswith("#"):
                self.asks.append(value)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in self.open:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def text(tiny):
    """The report, written once for the tests that read it."""
    return report.write(tiny.run).read_text()


def test_its_report_is_one_page_that_asks_for_nothing(tiny, text):
    page = _Page()
    page.feed(text)
    assert page.open == []
    assert page.asks == []
    drawn = sorted(path.stem for path in tiny.run.folder.figures.glob("*.svg"))
    assert sorted(page.downloads) == sorted(f"{name}.{kind}" for name in drawn for kind in ("svg", "csv"))
    assert not re.search(r"@import|url\((?!#)|<script", text)
    assert tiny.recipe.question in html.unescape(text)
    assert tiny.run.id in text
    assert text.count("<figure>") == len(list(tiny.run.folder.figures.glob("*.svg"))) > 0
    assert "prefers-color-scheme: dark" in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_its_report_is_the_same_when_written_again(tiny, text):
    assert report.write(tiny.run).read_text() == text


@pytest.mark.bare
def test_a_reports_words_cannot_become_markup(tmp_path):
    found = run("walks:WALK", {"steps": 30}, store=tmp_path, quiet=True)
    text = report.write(found).read_text()
    assert "A walk &amp; its &lt;axes&gt;." in text
    assert "<axes>" not in text


class Everything(Spec):
    """A spec with every kind of field."""

    whole: int = 1
    real: float = 0.5
    flag: bool = False
    word: str = "a"
    numbers: tuple[float, ...] = (1.0,)
    words: tuple[str, ...] = ()
    maybe: int | None = None


specs = st.builds(
    Everything,
    seed=st.integers(0, 2**32 - 1),
    whole=st.integers(),
    real=st.floats(allow_nan=False, allow_infinity=False),
    flag=st.booleans(),
    word=st.text(),
    numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False)).map(tuple),
    words=st.lists(st.text()).map(tuple),
    maybe=st.none() | st.integers(),
)


@pytest.mark.bare
@given(specs)
def test_every_spec_survives_json(spec):
    text = json.dumps(spec.model_dump(mode="json"))
    assert make_spec(Everything, json.loads(text)) == spec


@pytest.mark.bare
@given(specs)
def test_every_spec_survives_the_command_line(spec):
    def toml(value):
        if isinstance(value, tuple | list):
            return "[" + ",".join(map(toml, value)) + "]"
        return repr(value) if isinstance(value, float) else json.dumps(value).replace("\x7f", "\\u007f")

    words = [f"{name}={'null' if value is None else toml(value)}" for name, value in spec.model_dump().items()]
    if any(_has_surrogate(word) or not -(2**63) <= spec.whole < 2**63 for word in words):
        return  # TOML has neither lone surrogates nor wider integers
    assert make_spec(Everything, parse_assignments(Everything, words)) == spec


def _has_surrogate(word: str) -> bool:
    return bool(re.search(r"\\ud[89a-f]", word))


@pytest.mark.bare
@given(st.text(), st.text())
def test_any_assignment_whatever_is_a_value_or_bad_input(name, text):
    try:
        make_spec(Everything, parse_assignments(Everything, [f"{name}={text}"]))
    except BadInput as error:
        assert "\n" not in str(error).strip() or "\n" in name + text  # noqa: PT017


@pytest.mark.bare
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2", [1, 2]),
        ("[1,2]", [1, 2]),
        ("a,b", ["a", "b"]),
        ("1e-3,1e-2", [1e-3, 1e-2]),
        ('"a,b",c', ['"a', 'b"', "c"]),
        ("x", ["x"]),
    ],
)
def test_axes_are_read_from_lists_with_commas(text, values):
    assert parse_axes(Everything, [f"word={text}"]) == {"word": values}


@pytest.mark.bare
def test_a_sweep_has_every_combination_once():
    sweep = make_sweep("walks:WALK", {"pause": 0}, grid={"steps": [1, 2]}, zipped={"refuse": [True, False]}, seeds=3)
    values = [spec.model_dump() for spec in sweep.specs]
    seen = {(each["steps"], each["refuse"], each["seed"]) for each in values}
    assert len(sweep.specs) == len(seen) == 12
    assert sweep.varied == ("steps", "refuse", "seed")


@pytest.mark.bare
def test_equal_specs_of_a_sweep_are_run_once():
    assert len(make_sweep("walks:WALK", grid={"steps": [1, 1, 2]}).specs) == 2


@pytest.mark.bare
def test_the_run_id_depends_on_recipe_version_and_spec():
    recipe = find_recipe("toy-landscapes")
    spec = recipe.spec()
    assert identify(recipe, spec) == identify(recipe, recipe.spec(seed=0))
    assert identify(recipe, spec) != identify(recipe, recipe.spec(seed=1))
    assert identify(recipe, spec) != identify(replace(recipe, version=2), spec)
